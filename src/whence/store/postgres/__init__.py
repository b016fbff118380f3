"""The store on PostgreSQL with pgvector. Open `store.py` first: its base classes implement its methods.

- `part`: what all base classes of the store share.
- `pool`, `driver`, `errors`, `migrate`: connections, transactions, errors and the database schema.
- `collections`, `documents`, `document_rows`, `metadata_index`, `maintenance`: writes, and the work they leave
  for later.
- `acl_classes`: a reader's rights as a set of classes, which every statement applies before ranking.
- `search`, `collection_version`, `cache`: reads of one version of a collection, the only cache;
  `chunk_reader`: chunks by id.
- `dense`, `lexical`, `links`, `symbol_lookup`: the indexes.
- `traces`, `ledger`: other tables.
- `server`: the embedded server.

Other packages use `store` and `server`.
"""
