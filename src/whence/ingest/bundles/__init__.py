"""Bundles of code: zip archives or folders with nodes, their texts, access tags and the edges between them.

In: a path. Out: `CodeNode`s, `SnapshotEdges` and an `ImportReport`, each item checked;
errors name member and line.
`bundle.open_bundle` checks the archive and finds the members (`archive`);
`bundle_reader.BundleReader` reads nodes and edges in one pass (`nodes`, `edges`,
`json_stream`, `tables`);
`bundle_reader.validate_bundle` reads without storing. Other packages use `bundle` and `bundle_reader` only;
open `bundle_reader` first.
"""
