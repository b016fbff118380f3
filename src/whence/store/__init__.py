"""The store: PostgreSQL with pgvector, embedded by default; chunks, vectors, rights and traces."""
