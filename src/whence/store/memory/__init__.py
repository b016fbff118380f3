"""The store in memory, for tests and trials: every result is computed by definition, without an index.

Open `store.py` first; `collection` holds the documents that `documents` writes, and `search`, `names` and
`traces` implement the other protocols.
"""
