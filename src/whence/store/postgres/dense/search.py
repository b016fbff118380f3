"""Dense search in PostgreSQL: an exact scan of the visible rows, or an HNSW graph where many are visible."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from whence.schema.embedding import EmbeddingModel
from whence.schema.filters import Filters
from whence.schema.search import Candidate
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.postgres.chunk_reader import REQUESTED_CHUNKS, requested_values
from whence.store.postgres.collection_version import ReaderView, fetch_versioned, versioned
from whence.store.postgres.dense.vector_index import (
    VISIBLE_CHUNKS,
    filtered_graph_search,
    graph_search,
    max_exact_rows,
)
from whence.store.postgres.driver import Connection, read_transaction, set_local
from whence.store.postgres.metadata_index import FilteredChunks, filtered_chunks
from whence.store.results import cosine, dense_candidates
from whence.store.validation import check_dense_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Classes up to which a scan needs no plan of its own: planning takes as long as scanning 2,000 rows.
_FEW_CLASSES = 16
#: Above it, a limit means no limit.
_LARGEST_LIMIT = 2**62
# A plan for the values at hand: only a constant array of classes or rows is probed by hash. A plan for any
# values compares each row with each element, 17 to 19 ms in place of 2 at 1600 classes.
_SCAN_SETTINGS = (
    "plan_cache_mode = force_custom_plan",
    "enable_sort = on",
    "enable_seqscan = on",
    "enable_bitmapscan = on",
)

# `<#>` is the negative inner product, of unit vectors the negative cosine. $6 are the rows that a filter keeps.
_SCANNED = """
SELECT v.ord, v.e <#> $3::vector AS distance FROM {vectors} v
WHERE v.collection_id = $1 AND v.class_id = ANY($2::int[]) AND ($6::int[] IS NULL OR v.ord = ANY($6::int[]))
    AND ($5::float8 <= 0 OR -(v.e <#> $3::vector) >= $5::float8)
"""
# The nearest rows, and in the same read those of some slots, whose words match.
_RANKED = """
SELECT c.chunk_key, d.document_id, t.slot, n.distance AS near,
    coalesce(n.distance, v.e <#> ${vector}::vector) AS distance, {tags}
FROM (SELECT ord FROM nearest UNION
    SELECT t.ord FROM unnest(${slots}::int[]) w(slot)
    JOIN chunk_terms t ON t.collection_id = ${collection} AND t.slot = w.slot) r
JOIN chunk c ON c.ord = r.ord AND c.class_id = ANY(${classes}::int[])
JOIN document d ON d.id = c.document{tags_join}
LEFT JOIN nearest n ON n.ord = r.ord
LEFT JOIN chunk_terms t ON t.ord = r.ord
LEFT JOIN {vectors} v ON v.ord = r.ord AND n.ord IS NULL
"""


def _ranked(nearest: str, *, collection: int, classes: int, vector: int, slots: int) -> str:
    """Return a versioned statement that ranks the rows of `nearest`. Its last parameter is `slots`.

    Args:
        nearest: A statement of `ord` and `distance`.
        collection: Number of the parameter with the id of the collection.
        classes: Number of that with the reader's classes.
        vector: Number of that with the query vector.
        slots: Number of that with the slots whose rows are read as well.
    """
    rows = _RANKED.format(
        collection=collection,
        classes=classes,
        vector=vector,
        slots=slots,
        tags=DOCUMENT_TAGS,
        tags_join=TAGS_JOIN,
        vectors="{vectors}",
    )
    return versioned(f"WITH nearest AS MATERIALIZED ({nearest}) {rows}", slots + 1)


# One more than the limit, by a top-N sort ...
_SCAN_PARAMETERS = {"collection": 1, "classes": 2, "vector": 3, "slots": 7}
_NEAREST = _ranked(f"{_SCANNED} ORDER BY 2, 1 LIMIT $4::bigint + 1", **_SCAN_PARAMETERS)
# ... and when the last two are equal, all ties of the last, so that their ids decide.
_NEAREST_AND_TIES = _ranked(
    f"{_SCANNED} ORDER BY 2 FETCH FIRST ($4::bigint) ROWS WITH TIES", **_SCAN_PARAMETERS
)
# The rows of a graph of half precision. Its partial index is used only where the text states its condition
# and the form of its expression, hence the two values in the text. The setting comes first: a join begins
# with what the other side depends on.
_GRAPH = """
(SELECT set_config('hnsw.ef_search', $2, true)) s, LATERAL (
    SELECT v.ord, v.e FROM {vectors} v
    WHERE v.collection_id = {collection} AND v.class_id = ANY($3::int[])
    ORDER BY v.e::halfvec({dimension}) <#> $1::vector::halfvec({dimension}) LIMIT $4::int
) v
"""
# Ranked by the exact distance.
_GRAPH_NEAREST = _ranked(
    f"""
WITH near AS MATERIALIZED (SELECT v.ord, v.e <#> $1::vector AS distance FROM {_GRAPH})
SELECT ord, distance FROM near ORDER BY 2 FETCH FIRST ($5::bigint) ROWS WITH TIES
""",  # noqa: S608 - only constants
    collection=6,
    classes=3,
    vector=1,
    slots=7,
)
# Only their numbers and exact distances, for a filter that is applied in memory.
_GRAPH_ROWS = versioned(
    "SELECT string_agg(int4send(v.ord) || float8send(v.e <#> $1::vector), '') AS packed"  # noqa: S608 - only constants
    f" FROM {_GRAPH}",
    5,
)
_GRAPH_ROW = np.dtype([("ord", ">i4"), ("distance", ">f8")])
# Given rows, as far as they exist and are visible.
_ROWS = _ranked(
    "SELECT v.ord, v.e <#> $2::vector AS distance FROM {vectors} v"
    " WHERE v.ord = ANY($3::int[]) AND v.collection_id = $1 AND v.class_id = ANY($4::int[])",
    collection=1,
    classes=4,
    vector=2,
    slots=5,
)
_COSINES = versioned(
    f"SELECT c.chunk_key, -(v.e <#> $7::vector) AS cosine, {DOCUMENT_TAGS}{REQUESTED_CHUNKS}"
    " JOIN {vectors} v ON v.ord = c.ord",
    8,
)


async def search_dense(
    connection: Connection,
    view: ReaderView,
    vector: NDArray[np.float32],
    *,
    limit: int,
    threshold: float,
    filters: Filters,
    exact: bool,
    model: EmbeddingModel | None = None,
) -> list[Candidate] | None:
    """Rank the visible chunks by cosine; None while the metadata that a filter needs is not indexed.

    Cost: linear in the visible rows that the filter keeps; where they are many and `exact` is not set,
    the graph is searched, at a cost that hardly grows with them.
    """
    query = check_dense_query(view.version.info, vector, limit, threshold, model)
    kept = await filtered_chunks(connection, view, filters) if filters else None
    if filters and kept is None:
        return None
    found = await read_nearest(
        connection, view, query, limit=limit, kept=kept, threshold=threshold, exact=exact
    )
    return dense_candidates(
        (row["distance"], row["chunk_key"], row["document_id"]) for row in found.nearest
    )


class NearestRows(msgspec.Struct, frozen=True):
    """Rows that a reader may see, each with `chunk_key`, `document_id`, `slot` and `distance`."""

    nearest: list[Any]
    """Those with the nearest vectors, by distance, ties by chunk id."""
    every: list[Any]
    """These and those of the slots that were asked for; without vector they have no `distance`."""


async def read_nearest(
    connection: Connection,
    view: ReaderView,
    query: NDArray[np.float32],
    *,
    limit: int,
    kept: FilteredChunks | None,
    threshold: float = 0.0,
    exact: bool = False,
    slots: Sequence[int] = (),
) -> NearestRows:
    """Read the visible rows with the nearest vectors, and those of some slots.

    Args:
        connection: To the database.
        view: The collection as the reader sees it.
        query: A unit vector.
        limit: Most of the nearest rows.
        kept: Those that a filter keeps.
        threshold: Least cosine of the nearest rows; none where it is not above 0.
        exact: Whether every visible vector is compared.
        slots: Of chunks whose words match.
    """
    limit = min(limit, _LARGEST_LIMIT)
    rows: list[Any] = []
    if not exact and view.version.indexed:
        rows = await _search_graph(connection, view, query, limit, kept, slots)
    if len(_by_distance(rows)) < limit:
        rows = await _scan(connection, view, query, limit, threshold, kept, slots)
    every = allowed_rows(
        (row for row in rows if row["chunk_key"] is not None), view.access, "dense"
    )
    nearest = [
        row
        for row in _by_distance(every)[:limit]
        if threshold <= 0 or -row["distance"] >= threshold
    ]
    return NearestRows(nearest, every)


def _by_distance(rows: Iterable[Any]) -> list[Any]:
    """Return the nearest rows by distance, ties by chunk id."""
    near = (row for row in rows if row["near"] is not None)
    return sorted(near, key=operator.itemgetter("near", "chunk_key"))


async def _scan(
    connection: Connection,
    view: ReaderView,
    query: NDArray[np.float32],
    limit: int,
    threshold: float,
    kept: FilteredChunks | None,
    slots: Sequence[int],
) -> list[Any]:
    """Compare every visible row, or those that a filter keeps."""
    ords = None if kept is None else kept.ords.tolist()
    vectors = view.version.vectors
    arguments = (view.version.id, view.classes, query, limit, threshold, ords, slots)
    any_plan = kept is None and len(view.classes) <= _FEW_CLASSES
    async with contextlib.nullcontext() if any_plan else _scan_settings(connection):
        statement = _NEAREST.format(vectors=vectors)
        rows = await fetch_versioned(connection, statement, view.version, *arguments)
        near = _by_distance(rows)
        if len(near) > limit and near[limit - 1]["near"] == near[limit]["near"]:
            statement = _NEAREST_AND_TIES.format(vectors=vectors)
            rows = await fetch_versioned(connection, statement, view.version, *arguments)
    return rows


@contextlib.asynccontextmanager
async def _scan_settings(connection: Connection) -> AsyncIterator[None]:
    if connection.is_in_transaction():
        await set_local(connection, *_SCAN_SETTINGS)
        yield
    else:
        async with read_transaction(connection, *_SCAN_SETTINGS):
            yield


async def _search_graph(
    connection: Connection,
    view: ReaderView,
    query: NDArray[np.float32],
    limit: int,
    kept: FilteredChunks | None,
    slots: Sequence[int],
) -> list[Any]:
    """Search the graph where that is cheaper than a scan; it may find fewer rows than there are."""
    version = view.version
    if kept is None and version.chunks <= max_exact_rows(limit, version.chunks):
        return []
    visible = await _count_visible(connection, view)
    if kept is not None:
        search = filtered_graph_search(limit, len(kept.ords), visible, version.chunks)
    else:
        search = graph_search(limit, visible, version.chunks, version.measured)
    if search is None:
        return []
    texts = {
        "collection": version.id,
        "dimension": version.info.model.dimension,
        "vectors": version.vectors,
    }
    arguments = (query, str(search.ef_search), view.classes, search.fetched)
    if kept is None:
        statement = _GRAPH_NEAREST.format(**texts)
        return await fetch_versioned(
            connection, statement, version, *arguments, limit, version.id, slots
        )
    (row,) = await fetch_versioned(connection, _GRAPH_ROWS.format(**texts), version, *arguments)
    found = np.frombuffer(row["packed"] or b"", _GRAPH_ROW)
    found = found[np.isin(found["ord"].astype(np.int32), kept.ords)]
    if len(found) < limit:
        return []
    last = np.sort(found["distance"])[limit - 1]
    ords = found["ord"][found["distance"] <= last].tolist()
    statement = _ROWS.format(vectors=version.vectors)
    return await fetch_versioned(
        connection, statement, version, version.id, query, ords, view.classes, slots
    )


async def _count_visible(connection: Connection, view: ReaderView) -> int:
    """Return the number of visible rows, which only decides how to search."""
    key = view.key("visible")
    found: int | None = view.cache.get(key)
    if found is None:
        found = await connection.fetchval(VISIBLE_CHUNKS, view.version.id, view.classes)
        view.cache.put(key, found)
    return found


async def dense_scores(
    connection: Connection,
    view: ReaderView,
    vector: NDArray[np.float32],
    chunk_ids: Sequence[str],
    model: EmbeddingModel | None = None,
) -> dict[str, float]:
    """Return the cosine of those chunks that exist and are visible. Cost: linear in them."""
    query = check_dense_query(view.version.info, vector, 1, 0.0, model)
    values = requested_values(view.access, view.version.info.name, chunk_ids)
    statement = _COSINES.replace("{vectors}", view.version.vectors)
    rows = await fetch_versioned(connection, statement, view.version, *values, query)
    found = (row for row in rows if row["chunk_key"] is not None)
    return {
        row["chunk_key"]: cosine(row["cosine"])
        for row in allowed_rows(found, view.access, "cosines")
    }
