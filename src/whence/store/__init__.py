"""Stores of documents, chunks, vectors and traces.

In: documents with vectors, traces. Out: ranked chunks and texts that a reader may see.

- `protocols` (open first): what a store has to do, and what only some stores can do.
- `open`: opens the store that a database URL names; other packages add stores by entry point.
- `memory`, `postgres`: the two stores. `qdrant`: a client that reads collections of Qdrant.
- `validation`, `results`: checks of input, and the values that searches and reads return.
- `acl_check`: the second check of rights on every row of a result.
- `bm25`, `term_counts`, `field_boosts`, `symbol_names`, `title_mentions`: ranking rules that all stores share.

Other packages use `protocols`, `open`, `chunk_ids` and the data types of the modules above.
"""
