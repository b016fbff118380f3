"""How wide a graph over vectors has to look: found by asking it, and kept with it.

How many candidates a walk through a graph has to keep (`hnsw.ef_search`) for a recall of .99 is up to the
vectors: 40 are enough for one collection and 120 hardly for another of the same size. So a graph is asked, when
it is built and when its collection has doubled, what a scan answers as well, each time a little wider, until it
is right.

Questions are not known then, and stored vectors are too easy: they lie where the graph is dense. Three parts of
one vector and one part of another stand for a question. Of 35,000 passages of eight test collections they need
80, where real questions need 60 and stored vectors 30; of 20,000 points around random centres 30, where other
such points need 20. Where they need more than the widest walk, that is taken: of 200,000 such points, where
others need 80.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whence.store.postgres.driver import Connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ("least_ef_search",)

#: Share of the nearest that has to be found, the number of questions, and their places.
_RECALL, _QUESTIONS, _PLACES = 0.99, 60, 10
#: Parts of the first vector of a question to one of the second.
_FIRST = 3.0
_SAMPLE = "SELECT v.e FROM chunk_vec v WHERE v.collection_id = $1 ORDER BY hashint4(v.ord), v.ord LIMIT $2"
_SCAN = (
    "SELECT v.ord FROM chunk_vec v WHERE v.collection_id = $1 ORDER BY v.e <#> $2::vector LIMIT $3"
)
_WALK = (
    "WITH near AS MATERIALIZED (SELECT v.ord, v.e <#> $1::vector AS distance FROM chunk_vec v"
    " WHERE v.collection_id = {collection}"
    " ORDER BY v.e::halfvec({dimension}) <#> $1::vector::halfvec({dimension}) LIMIT $2)"
    " SELECT n.ord FROM near n ORDER BY n.distance LIMIT $3"
)


async def least_ef_search(
    connection: Connection,
    collection_id: int,
    dimension: int,
    widths: Iterable[int],
    fetched: int,
) -> int | None:
    """Give the first of some widths that finds enough of what is nearest; None when none does.

    Cost: sixty scans of the collection, and as many walks of each width.

    Args:
        connection: Its settings are changed.
        collection_id: A collection with a graph.
        dimension: Of its vectors.
        widths: Values of `hnsw.ef_search`, ascending.
        fetched: Rows that a search asks of the graph.
    """
    questions = _questions(
        await connection.fetch(_SAMPLE, collection_id, 2 * _QUESTIONS), dimension
    )
    if not len(questions):
        return None
    right = [
        {row["ord"] for row in await connection.fetch(_SCAN, collection_id, one, _PLACES)}
        for one in questions
    ]
    await connection.execute("SET hnsw.iterative_scan = relaxed_order")
    await connection.execute("SET enable_sort = off")
    walk = _WALK.format(collection=int(collection_id), dimension=int(dimension))
    wanted = _RECALL * sum(map(len, right))
    for width in widths:
        await connection.execute(f"SET hnsw.ef_search = {width:d}")
        found = 0
        for one, nearest in zip(questions, right, strict=True):
            rows = await connection.fetch(walk, one, fetched, _PLACES)
            found += len(nearest.intersection(row["ord"] for row in rows))
        if found >= wanted:
            return width
    return None


def _questions(rows: Sequence[Any], dimension: int) -> NDArray[np.float32]:
    """Mix the first half of some vectors with the second, shape (n, dimension), each of length 1."""
    vectors = np.array([row["e"].to_numpy() for row in rows], np.float32).reshape(-1, dimension)
    half = len(vectors) // 2
    mixed = _FIRST * vectors[:half] + vectors[half : 2 * half]
    lengths = np.linalg.norm(mixed, axis=1, keepdims=True)
    whole = lengths[:, 0] > 0
    unit: NDArray[np.float32] = mixed[whole] / lengths[whole]
    return unit
