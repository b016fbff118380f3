"""The index of words in PostgreSQL: analysis, postings in segments, and BM25 over what a reader may see."""
