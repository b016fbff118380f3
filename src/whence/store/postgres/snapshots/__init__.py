"""Snapshots of code in PostgreSQL: staged, published, walked, removed."""
