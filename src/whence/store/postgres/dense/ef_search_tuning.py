"""Measurement of the `hnsw.ef_search` that a graph needs.

The `ef_search` for a recall of .99 depends on the vectors: 40 is enough for one collection and 120 hardly for
another of the same size. So when a graph is built, and when its collection has doubled, its results are
compared with those of an exact scan, for growing values of `ef_search`, until the recall is reached: once for
the ten nearest, and once for the hundred that a hybrid search joins with those of words.

Queries are not known then, and stored vectors are too easy: they lie where the graph is dense. Three parts of
one vector and one part of another approximate a query. For 35,000 passages of eight test collections they need
80, where real queries need 60 and stored vectors 30; for 20,000 points around random centres 30, where other
such points need 20. Where they need more than the largest value, that is used: for 200,000 such points, where
others need 80.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whence.store.postgres.driver import Connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Recall that has to be reached, and the number of queries.
_RECALL, _QUERIES = 0.99, 60
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


class Depth(NamedTuple):
    """A length of rankings with values of `hnsw.ef_search` to try."""

    places: int
    fetched: int
    """Rows that are asked of the graph, at least `places`."""
    values: Sequence[int]
    """Ascending."""


async def least_ef_search(
    connection: Connection,
    collection_id: int,
    dimension: int,
    depths: Sequence[Depth],
    vectors: str = "chunk_vec",
) -> list[int | None]:
    """Return the first value of each depth that reaches the recall; None where none does.

    Cost: sixty scans of the collection, and as many searches of the graph for each value.

    Args:
        connection: Its settings are changed.
        collection_id: A collection with a graph.
        dimension: Of its vectors.
        depths: What to measure.
        vectors: Their table.
    """
    sample = _SAMPLE.format(vectors=vectors)
    queries = _queries(await connection.fetch(sample, collection_id, 2 * _QUERIES), dimension)
    if not len(queries):
        return [None] * len(depths)
    scan, most = _SCAN.format(vectors=vectors), max(one.places for one in depths)
    right = [
        [row["ord"] for row in await connection.fetch(scan, collection_id, one, most)]
        for one in queries
    ]
    await connection.execute("SET hnsw.iterative_scan = relaxed_order")
    await connection.execute("SET enable_sort = off")
    search = _SEARCH_GRAPH.format(
        collection=int(collection_id), dimension=int(dimension), vectors=vectors
    )

    async def recall(value: int, depth: Depth) -> float:
        await connection.execute(f"SET hnsw.ef_search = {value:d}")
        found = wanted = 0
        for one, nearest in zip(queries, right, strict=True):
            rows = await connection.fetch(search, one, depth.fetched, depth.places)
            found += len({row["ord"] for row in rows}.intersection(nearest[: depth.places]))
            wanted += len(nearest[: depth.places])
        return found / wanted

    least: list[int | None] = []
    for depth in depths:
        reached = (value for value in depth.values if await recall(value, depth) >= _RECALL)
        least.append(await anext(reached, None))
    return least


def _queries(rows: Sequence[Any], dimension: int) -> NDArray[np.float32]:
    """Mix the first half of some vectors with the second; shape (n, dimension), each of length 1."""
    vectors = np.array([row["e"].to_numpy() for row in rows], np.float32).reshape(-1, dimension)
    half = len(vectors) // 2
    mixed = _FIRST * vectors[:half] + vectors[half : 2 * half]
    lengths = np.linalg.norm(mixed, axis=1, keepdims=True)
    whole = lengths[:, 0] > 0
    unit: NDArray[np.float32] = mixed[whole] / lengths[whole]
    return unit
