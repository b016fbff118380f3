"""Bundles of code: zip archives or folders with nodes, their texts, access tags and the edges between them.

In: a path. Out: `CodeNode`s, `SnapshotEdges` and an `ImportReport`, each item checked; errors name member and
line. `bundle.open_bundle` checks the archive and finds the members (`archive`). Open `bundle_reader` first: it
reads nodes and edges in one pass (`nodes`, `edges`, `json_stream`, `tables`). Others use these two only.
"""
