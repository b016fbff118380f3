"""Snapshots of code in PostgreSQL: imported out of sight, published at once, walked, found by name, removed."""
