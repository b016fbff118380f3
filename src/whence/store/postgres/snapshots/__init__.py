"""Snapshots of code in PostgreSQL: imported out of sight, published in one transaction, expanded, removed.

In: nodes and edges of bundles. Out: internal collections that searches read, and walks along dependencies.

- `importing` (open first): an import of one or more snapshots; `staging` writes one of them, `graph_rows` its
  nodes and edges.
- `catalogue`: published snapshots and sets; `removal` deletes what is unreachable.
- `expansion`: walks along the edges of a snapshot.
"""
