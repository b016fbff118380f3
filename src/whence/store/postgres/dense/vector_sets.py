"""The tables of vectors: one has those that searches of a collection use, the other one those beside them."""

from __future__ import annotations

from typing import Final

#: Tables of even and odd sets.
VECTOR_TABLES: Final = ("chunk_vec", "chunk_vec_odd")


def vector_table(number: int) -> str:
    """Return the table of a set of vectors, see the column `collection.vector_set`."""
    return VECTOR_TABLES[number % 2]


def graph_name(number: int, collection_id: int) -> str:
    """Return the name of the vector index of a set of a collection."""
    return f"{vector_table(number)}_near_{collection_id:d}"
