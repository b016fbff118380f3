"""The store on PostgreSQL with pgvector; `store.PostgresStore` is the way in."""
