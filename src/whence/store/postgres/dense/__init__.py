"""Vector search in PostgreSQL: exact scans and HNSW graphs."""
