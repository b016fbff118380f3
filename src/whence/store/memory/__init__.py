"""Chunks, rights and code in plain memory: the same rules and order as PostgreSQL, for tests."""
