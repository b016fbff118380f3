"""Edges of code with canonical ids."""

from __future__ import annotations

from typing import NamedTuple


class CodeEdge(NamedTuple):
    """One node depends on another."""

    from_id: str
    """Canonical id of the dependent node."""
    to_id: str
    """Canonical id of its dependency."""
    relation: str
    """Stored relation, `cs_dep` or `sql_` and the name in the SQL graph."""
