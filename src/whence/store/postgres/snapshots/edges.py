"""Edges of a snapshot on its way in: for each node its neighbours by relation, in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.binary_copy import copy_rows, int_arrays, rows_of_columns
from whence.store.postgres.driver import Connection
from whence.store.postgres.snapshots.nodes import ROWS_AT_ONCE
from whence.store.snapshot_documents import check_relation
from whence.store.snapshot_protocols import SnapshotEdges

_COLUMNS = ("collection_id", "node", "relation", "back", "others")
_INSERT_RELATIONS = """
    INSERT INTO code_relation (name) SELECT w.name FROM unnest($1::text[]) w(name)
    WHERE NOT EXISTS (SELECT FROM code_relation r WHERE r.name = w.name)
    ORDER BY w.name ON CONFLICT (name) DO NOTHING"""
_RELATIONS = "SELECT name, id FROM code_relation WHERE name = ANY($1::text[])"


async def relation_ids(connection: Connection, edges: SnapshotEdges) -> NDArray[np.int32]:
    """Return the id of each name of `edges.names`; new relations are created."""
    names = sorted(set(edges.names))
    for name in names:
        check_relation(name)
    await connection.execute(_INSERT_RELATIONS, names)
    ids = {row["name"]: row["id"] for row in await connection.fetch(_RELATIONS, names)}
    return np.array([ids[name] for name in edges.names], dtype=np.int32)


async def write_edges(
    connection: Connection,
    collection_id: int,
    numbers: NDArray[np.int32],
    edges: SnapshotEdges,
    relations: NDArray[np.int32],
) -> None:
    """Write all edges, inside a transaction. Cost: m log m in the edges.

    Args:
        connection: In the transaction.
        collection_id: The collection of the snapshot.
        numbers: Number of each node, in the order of arrival.
        edges: Each once.
        relations: Id of each name of `edges.names`.
    """
    of_edges = relations[edges.relations]
    sources, targets = numbers[edges.sources], numbers[edges.targets]
    for back, nodes, others in ((b"\0", sources, targets), (b"\1", targets, sources)):
        rows = await asyncio.to_thread(_rows, collection_id, back, nodes, others, of_edges)
        await copy_rows(connection, "code_neighbours", _COLUMNS, rows)


def _rows(
    collection_id: int,
    back: bytes,
    nodes: NDArray[np.int32],
    others: NDArray[np.int32],
    relations: NDArray[np.int32],
) -> Iterator[bytes]:
    """Yield encoded rows: the neighbours of each node by relation."""
    order = np.lexsort((others, relations, nodes))
    nodes, others, relations = nodes[order], others[order], relations[order]
    heads = np.flatnonzero(np.diff(nodes, prepend=-1) | np.diff(relations, prepend=-1))
    ends = np.append(heads[1:], len(nodes))

    def rows(at: int) -> Iterator[bytes]:
        some, to = heads[at : at + ROWS_AT_ONCE], ends[at : at + ROWS_AT_ONCE]
        return rows_of_columns(
            {"collection_id": collection_id, "node": nodes[some], "relation": relations[some]},
            {"back": [back] * len(some), "others": int_arrays(others[some[0] : to[-1]], to - some)},
        )

    return chain.from_iterable(map(rows, range(0, len(heads), ROWS_AT_ONCE)))
