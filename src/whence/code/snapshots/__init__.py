"""Snapshots of code in PostgreSQL: imported out of sight, published in one transaction, expanded, removed.

In: nodes and edges of bundles. Out: internal collections that searches read, and walks along dependencies.
`importing` (open first) stages snapshots (`staging`, `graph_rows`); `catalogue` has what is published.
"""
