"""Measurement of the `hnsw.ef_search` that a graph needs.

The `ef_search` for a recall of .99 depends on the vectors: 40 is enough for one collection and 120 hardly for
another of the same size. So when a graph is built, and when its collection has doubled, its results are
compared with those of an exact scan, for growing values of `ef_search`, until the recall is reached.

Queries are not known then, and stored vectors are too easy: they lie where the graph is dense. Three parts of
one vector and one part of another approximate a query. For 35,000 passages of eight test collections they need
80, where real queries need 60 and stored vectors 30; for 20,000 points around random centres 30, where other
such points need 20. Where they need more than the largest value, that is used: for 200,000 such points, where
others need 80.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whence.store.postgres.driver import Connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

#: Recall that has to be reached, the number of queries, and the places of each.
_RECALL, _QUERIES, _PLACES = 0.99, 60, 10
#: Weight of the first vector of a query, where the second has 1.
_FIRST = 3.0
_SAMPLE = "SELECT v.e FROM {vectors} v WHERE v.collection_id = $1 ORDER BY hashint4(v.ord), v.ord LIMIT $2"
_SCAN = (
    "SELECT v.ord FROM {vectors} v WHERE v.collection_id = $1 ORDER BY v.e <#> $2::vector LIMIT $3"
)
_SEARCH_GRAPH = (
    "WITH near AS MATERIALIZED (SELECT v.ord, v.e <#> $1::vector AS distance FROM {vectors} v"
    " WHERE v.collection_id = {collection}"
    " ORDER BY v.e::halfvec({dimension}) <#> $1::vector::halfvec({dimension}) LIMIT $2)"
    " SELECT n.ord FROM near n ORDER BY n.distance LIMIT $3"
)


async def least_ef_search(
    connection: Connection,
    collection_id: int,
    dimension: int,
    values: Iterable[int],
    fetched: int,
    vectors: str = "chunk_vec",
) -> int | None:
    """Return the first value of `ef_search` that reaches the recall; None when none does.

    Cost: sixty scans of the collection, and as many searches of the graph for each value.

    Args:
        connection: Its settings are changed.
        collection_id: A collection with a graph.
        dimension: Of its vectors.
        values: Values of `hnsw.ef_search`, ascending.
        fetched: Rows to ask of the graph.
        vectors: Their table.
    """
    sample = _SAMPLE.format(vectors=vectors)
    queries = _queries(await connection.fetch(sample, collection_id, 2 * _QUERIES), dimension)
    if not len(queries):
        return None
    scan = _SCAN.format(vectors=vectors)
    right = [
        {row["ord"] for row in await connection.fetch(scan, collection_id, one, _PLACES)}
        for one in queries
    ]
    await connection.execute("SET hnsw.iterative_scan = relaxed_order")
    await connection.execute("SET enable_sort = off")
    search = _SEARCH_GRAPH.format(
        collection=int(collection_id), dimension=int(dimension), vectors=vectors
    )
    wanted = _RECALL * sum(map(len, right))
    for value in values:
        await connection.execute(f"SET hnsw.ef_search = {value:d}")
        found = 0
        for one, nearest in zip(queries, right, strict=True):
            rows = await connection.fetch(search, one, fetched, _PLACES)
            found += len(nearest.intersection(row["ord"] for row in rows))
        if found >= wanted:
            return value
    return None


def _queries(rows: Sequence[Any], dimension: int) -> NDArray[np.float32]:
    """Mix the first half of some vectors with the second; shape (n, dimension), each of length 1."""
    vectors = np.array([row["e"].to_numpy() for row in rows], np.float32).reshape(-1, dimension)
    half = len(vectors) // 2
    mixed = _FIRST * vectors[:half] + vectors[half : 2 * half]
    lengths = np.linalg.norm(mixed, axis=1, keepdims=True)
    whole = lengths[:, 0] > 0
    unit: NDArray[np.float32] = mixed[whole] / lengths[whole]
    return unit
