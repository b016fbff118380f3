"""BM25 in PostgreSQL: an inverted index in the documents' own transactions, with access control in the ranking.

In: term vectors of chunks (`whence.store.term_counts`) and queries. Out: ranked chunks that the reader may see.

- `search` (open first): a query's ranking; `visible_postings` reads and caches its posting lists.
- `forward_index`: term vectors, term dictionary and statistics, written with the chunks.
- `segments`: postings of new chunks, flushed by each write; `merging` and `merge_policy` keep segments few.
- `posting_writer`: posting lists and their rows.
- `reindexing`: whole collections, after an upgrade of the analyzer or with other field boosts.
"""
