"""The BM25 index in PostgreSQL: posting lists in segments, scored over what a reader may see."""
