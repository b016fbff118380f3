"""Nodes and edges of a snapshot on its way in, written once all of its texts are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.code.snapshots.documents import check_display_name
from whence.code.snapshots.protocols import SnapshotEdges
from whence.store.postgres.driver import Connection

# The id of a document is the canonical id of its node.
_NUMBER_NODES = """
    INSERT INTO code_node (collection_id, node, ord, class_id, local_id)
    SELECT $1, row_number() OVER (ORDER BY d.document_id) - 1, c.ord, d.class_id, d.metadata ->> 'local_id'
    FROM document d JOIN chunk c ON c.document = d.id WHERE d.collection_id = $1"""
#: Chunks are numbered in the order of arrival.
_NUMBERS = (
    "SELECT string_agg(int4send(node), '' ORDER BY ord) FROM code_node WHERE collection_id = $1"
)
_EDGE_COLUMNS = ("collection_id", "back", "node", "relation", "others")
_INSERT_RELATIONS = """
    INSERT INTO code_relation (name) SELECT w.name FROM unnest($1::text[]) w(name)
    WHERE NOT EXISTS (SELECT FROM code_relation r WHERE r.name = w.name)
    ORDER BY w.name ON CONFLICT (name) DO NOTHING"""
_RELATIONS = "SELECT name, id FROM code_relation WHERE name = ANY($1::text[])"


async def number_nodes(connection: Connection, collection_id: int) -> NDArray[np.int32]:
    """Write the nodes of the graph, inside a transaction; return the number of each, in the order of arrival.

    Numbers are in the order of canonical ids. Cost: n log n.
    """
    await connection.execute(_NUMBER_NODES, collection_id)
    numbers = await connection.fetchval(_NUMBERS, collection_id)
    return np.frombuffer(numbers or b"", ">i4").astype(np.int32)


async def relation_ids(connection: Connection, edges: SnapshotEdges) -> NDArray[np.int32]:
    """Return the id of each name of `edges.names`; new relations are created."""
    names = sorted(set(edges.names))
    for name in names:
        check_display_name(name, "a relation")
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
    for back, nodes, others in ((False, sources, targets), (True, targets, sources)):
        order = await asyncio.to_thread(np.lexsort, (others, of_edges, nodes))
        rows = _neighbours(collection_id, back, nodes[order], of_edges[order], others[order])
        await connection.copy_records_to_table(
            "code_neighbours", columns=_EDGE_COLUMNS, records=rows
        )


def _neighbours(
    collection_id: int,
    back: bool,
    nodes: NDArray[np.int32],
    relations: NDArray[np.int32],
    others: NDArray[np.int32],
) -> Iterator[tuple[Any, ...]]:
    """Yield the neighbours of each node by relation, of edges in this order."""
    heads = np.flatnonzero(np.diff(nodes, prepend=-1) | np.diff(relations, prepend=-1)).tolist()
    for at, to in pairwise([*heads, len(nodes)]):
        yield collection_id, back, int(nodes[at]), int(relations[at]), others[at:to].tolist()
