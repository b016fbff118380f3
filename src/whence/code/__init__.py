"""Source code: read as documents, made into bundles, imported as snapshots, walked along its dependencies.

In: a checkout or bundles of one. Out: snapshots that are searched, expanded, fetched and asked about.

- `operations` (open first): what `Engine.code` offers; `bundle_import`, `snapshot_reading`, `node_texts` do it.
- `loaders`: source files as documents; `bundler`: a checkout made into a bundle; `bundles`: reading bundles.
- `snapshots`: the store of snapshots and their graphs.
- `processors`, `evidence`: retrieval for a question about code; `walk_outcome`: why a walk missed a node.
- `commands`, `tools`: its part of the command line and of the Model Context Protocol.

Nothing else imports this package: entry points in pyproject.toml name what it offers.
"""
