"""Reading chunks in PostgreSQL: the reader's rights are applied before ranking and limit, in every read."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate
from whence.schema.texts import ChunkText
from whence.store.acl_check import OWN_TAGS, TAGS_JOIN, cleared
from whence.store.chunk_ids import parse_chunk_key
from whence.store.postgres.acl_classes import ALLOWED, access_values, allowed_classes
from whence.store.postgres.collection_version import (
    Changed,
    Standing,
    StandingMemory,
    recalled,
    stamped,
    standing,
)
from whence.store.postgres.collections import model_of
from whence.store.postgres.dense.vector_index import (
    Neighbourhood,
    VisibleCounts,
    fewest_visible,
    neighbourhood,
)
from whence.store.postgres.driver import Connection, settings_for, snapshot
from whence.store.postgres.metadata_index import facts_are_kept, matching
from whence.store.protocols import CollectionInfo
from whence.store.validation import (
    candidate,
    check_query,
    chunk_metadata,
    cosine,
    is_text,
    missing_collection,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = (
    "LARGEST_LIMIT",
    "WANTED",
    "chunk_texts",
    "dense_candidates",
    "dense_scores",
    "known_chunks",
    "places_of",
    "recalled_held",
    "recalled_near",
    "recalled_numbers_near",
    "recalled_scan",
    "search_dense",
    "visible_chunks",
)

# The class list is a parameter of its own, not a subquery: a constant array is probed by hash, an array out
# of a subquery is searched from end to end for each row (2 ms against 17-19 ms at 1600 classes).
#: `$6` are the chunks that a filter keeps, NULL without one; plans are made for the values at hand.
_VISIBLE = (
    "v.collection_id = $1 AND v.class_id = ANY($2::int[])"
    " AND ($6::int[] IS NULL OR v.ord = ANY($6::int[]))"
)
#: `<#>` is the negative inner product, of unit vectors the negative cosine.
_DISTANCE = "v.e <#> $3::vector"
_ENOUGH = "AND ($5::float8 <= 0 OR -(v.e <#> $3::vector) >= $5::float8)"
_RANKED = (
    f"SELECT c.chunk_key, d.document_id, n.distance, {OWN_TAGS} FROM nearest n"  # noqa: S608 - only constants
    f" JOIN chunk c ON c.ord = n.ord JOIN document d ON d.id = c.document{TAGS_JOIN}"
    " ORDER BY n.distance, c.chunk_key"
)
# One more than asked for, by the database's cheapest sort ...
_NEAREST = (
    f"WITH nearest AS (SELECT v.ord, {_DISTANCE} AS distance FROM chunk_vec v"  # noqa: S608 - only constants
    f" WHERE {_VISIBLE} {_ENOUGH} ORDER BY 2, 1 LIMIT $4::bigint + 1) {_RANKED}"
)
# ... and when the last two are equal, all that tie with them, so that ids can decide.
_NEAREST_AND_TIES = (
    f"WITH nearest AS (SELECT v.ord, {_DISTANCE} AS distance FROM chunk_vec v"  # noqa: S608 - only constants
    f" WHERE {_VISIBLE} {_ENOUGH} ORDER BY 2 FETCH FIRST ($4::bigint) ROWS WITH TIES) {_RANKED}"
)
# Those near by, as a graph of half precision tells, ranked by the exact distance. The form of the expression is
# that of the index; `{{dimension}}` is the collection's.
_NEIGHBOURS = (
    f"WITH near AS MATERIALIZED (SELECT v.ord, {_DISTANCE} AS distance FROM chunk_vec v WHERE {_VISIBLE}"  # noqa: S608 - only constants
    " ORDER BY v.e::halfvec({dimension}) <#> $3::vector::halfvec({dimension}) LIMIT $5::int),"
    " nearest AS (SELECT ord, distance FROM near ORDER BY 2 FETCH FIRST ($4::bigint) ROWS WITH TIES)"
    f" {_RANKED}"
)
_STAMPED_NEAREST = stamped(_NEAREST, 7)
# Rows that memory has named, as far as they are there and the reader may see them.
_HELD = (
    f"SELECT c.chunk_key, d.document_id, v.e <#> $2::vector AS distance, {OWN_TAGS}"  # noqa: S608 - only constants
    f" FROM chunk_vec v JOIN chunk c ON c.ord = v.ord JOIN document d ON d.id = c.document{TAGS_JOIN}"
    " WHERE v.ord = ANY($3::int[]) AND v.collection_id = $1 AND v.class_id = ANY($4::int[])"
)
_STAMPED_HELD = stamped(_HELD, 5)
# As above, by a plan that knows no value: the graph's condition stands in the text, and the setting comes first
# since a join begins with what it depends on.
_QUICK_NEIGHBOURS = (
    "WITH near AS MATERIALIZED (SELECT v.ord, v.e <#> $1::vector AS distance"  # noqa: S608 - only constants
    " FROM (SELECT set_config('hnsw.ef_search', $2, true)) s, LATERAL (SELECT v.ord, v.e FROM chunk_vec v"
    "  WHERE v.collection_id = {collection} AND v.class_id = ANY($3::int[])"
    "  ORDER BY v.e::halfvec({dimension}) <#> $1::vector::halfvec({dimension}) LIMIT $4::int) v),"
    " nearest AS (SELECT ord, distance FROM near ORDER BY 2 FETCH FIRST ($5::bigint) ROWS WITH TIES)"
    f" {_RANKED}"
)
_STAMPED_NEIGHBOURS = stamped(_QUICK_NEIGHBOURS, 6)
# Numbers and distances of those near by, for a filter that is applied in memory.
_NUMBERS_NEAR = (
    "SELECT string_agg(int4send(v.ord) || float8send(v.e <#> $1::vector), '') AS packed"
    " FROM (SELECT set_config('hnsw.ef_search', $2, true)) s, LATERAL (SELECT v.ord, v.e FROM chunk_vec v"
    "  WHERE v.collection_id = {collection} AND v.class_id = ANY($3::int[])"
    "  ORDER BY v.e::halfvec({dimension}) <#> $1::vector::halfvec({dimension}) LIMIT $4::int) v"
)
_STAMPED_NUMBERS = stamped(_NUMBERS_NEAR, 5)
_NUMBER_NEAR = [("ord", ">i4"), ("distance", ">f8")]
_BY_DISTANCE = operator.itemgetter("distance", "chunk_key")
#: Above it, a limit means no limit.
LARGEST_LIMIT = 2**62

#: Chunks asked for by id that exist and are visible; takes `access_values`, the collection and `places_of`.
#: To be read with `OWN_TAGS`, for `cleared`.
WANTED = (
    " FROM unnest($5::text[], $6::int[]) WITH ORDINALITY w(document_id, index, place)"
    " JOIN collection n ON n.name = $4"
    " JOIN document d ON d.collection_id = n.id AND d.document_id = w.document_id"
    " JOIN chunk c ON c.document = d.id AND c.index = w.index"
    f" JOIN sec_class s ON s.id = c.class_id AND {ALLOWED}{TAGS_JOIN}"
)
_TEXTS = (
    "SELECT c.chunk_key, d.document_id, c.index, c.content, c.digest, c.heading, c.section_path, c.page,"
    f" d.title, d.source_file, d.source_url, d.metadata, {OWN_TAGS}{WANTED} ORDER BY w.place"
)
_KEYS = f"SELECT c.chunk_key, {OWN_TAGS}{WANTED}"
_KNOWN = (
    "SELECT c.chunk_key FROM unnest($2::text[], $3::int[]) w(document_id, index)"
    " JOIN collection n ON n.name = $1"
    " JOIN document d ON d.collection_id = n.id AND d.document_id = w.document_id"
    " JOIN chunk c ON c.document = d.id AND c.index = w.index"
)
_COSINES = (
    f"SELECT c.chunk_key, -(v.e <#> $7::vector) AS cosine, {OWN_TAGS}{WANTED}"
    " JOIN chunk_vec v ON v.ord = c.ord"
)
_MODEL = (
    "SELECT name, model_name, model_revision, model_precision, dimension FROM collection"
    " WHERE name = $1"
)


async def search_dense(
    connection: Connection,
    collection: str,
    vector: NDArray[np.float32],
    *,
    limit: int,
    access: Access,
    threshold: float,
    filters: Filters = (),
    counts: VisibleCounts | None = None,
    standings: StandingMemory | None = None,
) -> list[Candidate] | None:
    """Rank the visible chunks by cosine, in one state of the database.

    Exact, at a cost linear in the visible rows that a filter keeps; where that are many and `counts` are given,
    the collection's graph is asked for those near by, at a cost that hardly grows. Never fewer than there
    are. None when there is a filter and the collection's facts are not kept yet. Where the collection stands
    is noted in `standings`.

    Raises:
        NotFound: There is no such collection.
        ModelMismatch: The vector's length is not the collection's dimension.
        BadInput: Limit, threshold or vector is out of range, or no visible document has a key of the filter.
    """
    async with snapshot(connection):
        known = await standing(connection, collection)
        query = check_query(known.info, vector, limit, threshold)
        classes = await allowed_classes(connection, access, known.epoch)
        limit = min(limit, LARGEST_LIMIT)
        kept = None
        if filters:
            if not await facts_are_kept(connection, known.id):
                return None
            kept = await matching(connection, known.id, classes, access, filters, "ord")
        rows = []
        way = (
            None if counts is None else await _way(connection, known, classes, limit, kept, counts)
        )
        if way is not None:
            rows = await _near(connection, known, classes, query, limit, kept, way)
        if len(rows) < limit:
            rows = await _exact(connection, known, classes, query, limit, kept, threshold)
    if standings is not None:
        standings.put(known)
    return dense_candidates(rows, limit, access, threshold)


def dense_candidates(
    rows: Sequence[Any], limit: int, access: Access, threshold: float
) -> list[Candidate]:
    """Give the first rows of a ranking that the reader may see and the threshold lets pass."""
    return [
        candidate(row["chunk_key"], row["document_id"], -row["distance"], rank)
        for rank, row in enumerate(cleared(rows[:limit], access, "dense"), 1)
        if threshold <= 0 or -row["distance"] >= threshold
    ]


async def _exact(
    connection: Connection,
    known: Standing,
    classes: list[int],
    query: NDArray[np.float32],
    limit: int,
    kept: list[int] | None,
    threshold: float,
) -> list[Any]:
    """Look at every visible row."""
    arguments = (known.id, classes, query, limit, threshold, kept)
    rows = await connection.fetch(_NEAREST, *arguments)
    if _cut_within_ties(rows, limit):
        rows = await connection.fetch(_NEAREST_AND_TIES, *arguments)
    return rows


def _cut_within_ties(rows: Sequence[Any], limit: int) -> bool:
    return len(rows) > limit and bool(rows[limit - 1]["distance"] == rows[limit]["distance"])


async def _way(
    connection: Connection,
    known: Standing,
    classes: list[int],
    limit: int,
    kept: list[int] | None,
    counts: VisibleCounts,
) -> Neighbourhood | None:
    """Tell how to ask the graph; None when there is none or few rows are visible."""
    if not known.indexed or known.chunks <= fewest_visible(limit, known.chunks):
        return None
    if kept is not None:
        return neighbourhood(limit, len(kept), known.chunks, known.measured)
    visible = await counts.count(connection, known.id, classes)
    return neighbourhood(limit, visible, known.chunks, known.measured)


async def _near(
    connection: Connection,
    known: Standing,
    classes: list[int],
    query: NDArray[np.float32],
    limit: int,
    kept: list[int] | None,
    way: Neighbourhood,
) -> list[Any]:
    """Ask the graph; it may give fewer rows than there are."""
    statement = _NEIGHBOURS.format(dimension=known.info.model.dimension)
    # The way is decided here, not by the planner: only the graph gives rows in order without a sort.
    settings = (
        "hnsw.iterative_scan = relaxed_order",
        f"hnsw.ef_search = {way.ef_search}",
        "enable_sort = off",
    )
    async with settings_for(connection, *settings):
        return await connection.fetch(statement, known.id, classes, query, limit, way.fetched, kept)


# --- by what is remembered of a collection; each statement says whether that still holds -------------


async def recalled_scan(
    connection: Connection,
    known: Standing,
    classes: list[int],
    query: NDArray[np.float32],
    limit: int,
    threshold: float,
    kept: Sequence[int] | None = None,
) -> list[Any] | None:
    """Look at every visible row, or those that a filter keeps; None when ties are to be decided by ids.

    Raises:
        Changed: The collection or the classes are in another state.
    """
    rows = await recalled(
        connection, _STAMPED_NEAREST, known, known.id, classes, query, limit, threshold, kept
    )
    ranked = _in_order(rows)
    return None if _cut_within_ties(ranked, limit) else ranked


async def recalled_held(
    connection: Connection,
    known: Standing,
    classes: list[int],
    query: NDArray[np.float32],
    ords: list[int],
) -> list[Any]:
    """Rank the rows that memory has named. Cost: linear in them.

    Raises:
        Changed: The collection or the classes are in another state.
    """
    rows = await recalled(connection, _STAMPED_HELD, known, known.id, query, ords, classes)
    ranked = _in_order(rows)
    if len(ranked) < len(ords):
        raise Changed
    return ranked


async def recalled_near(
    connection: Connection,
    known: Standing,
    classes: list[int],
    query: NDArray[np.float32],
    limit: int,
    way: Neighbourhood,
) -> list[Any]:
    """Ask the graph; it may give fewer rows than there are.

    Args:
        connection: With iterative scans, without sorts, and with plans for any values.
        known: Where the collection stood, with a graph.
        classes: Classes that the reader may see.
        query: A unit vector.
        limit: Places of the ranking.
        way: How to ask the graph.

    Raises:
        Changed: The collection or the classes are in another state.
    """
    statement = _STAMPED_NEIGHBOURS.format(
        collection=known.id, dimension=known.info.model.dimension
    )
    ef_search = str(way.ef_search)
    rows = await recalled(
        connection, statement, known, query, ef_search, classes, way.fetched, limit
    )
    return _in_order(rows)


async def recalled_numbers_near(
    connection: Connection,
    known: Standing,
    classes: list[int],
    query: NDArray[np.float32],
    way: Neighbourhood,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Ask the graph for rows near by; gives their numbers and distances, in no order.

    Args:
        connection: As for `recalled_near`.
        known: Where the collection stood, with a graph.
        classes: Classes that the reader may see.
        query: A unit vector.
        way: How to ask the graph.

    Raises:
        Changed: The collection or the classes are in another state.
    """
    import numpy as np

    statement = _STAMPED_NUMBERS.format(collection=known.id, dimension=known.info.model.dimension)
    rows = await recalled(
        connection, statement, known, query, str(way.ef_search), classes, way.fetched
    )
    table = np.frombuffer(rows[0]["packed"] or b"", np.dtype(_NUMBER_NEAR))
    return table["ord"].astype(np.int32), table["distance"].astype(np.float64)


def _in_order(rows: list[Any]) -> list[Any]:
    """Give the rows of a stamped ranking in order, none for the one of NULL."""
    return sorted(rows, key=_BY_DISTANCE) if rows[0]["chunk_key"] is not None else []


def places_of(collection: str, chunk_ids: Sequence[str]) -> tuple[list[str], list[int]]:
    """Give document ids and indexes of the ids that can be chunks of this collection at all."""
    keys = [key for key in map(parse_chunk_key, chunk_ids) if key and key.collection == collection]
    return [key.document_id for key in keys], [key.index for key in keys]


async def dense_scores(
    connection: Connection,
    collection: str,
    vector: NDArray[np.float32],
    chunk_ids: Sequence[str],
    access: Access,
) -> dict[str, float]:
    """Give the cosine of chunks that exist and are visible. Cost: linear in the chunks asked for.

    Raises:
        NotFound: There is no such collection.
        ModelMismatch: The vector's length is not the collection's dimension.
        BadInput: The vector is no unit vector.
    """
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        row = await connection.fetchrow(_MODEL, collection)
        if row is None:
            raise missing_collection(collection)
        query = check_query(CollectionInfo(name=row["name"], model=model_of(row)), vector, 1, 0.0)
        rows = await connection.fetch(
            _COSINES,
            *access_values(access),
            collection,
            *places_of(collection, chunk_ids),
            query,
        )
    return {row["chunk_key"]: cosine(row["cosine"]) for row in cleared(rows, access, "cosines")}


async def chunk_texts(
    connection: Connection,
    collection: str,
    chunk_ids: Sequence[str],
    access: Access,
) -> list[ChunkText]:
    """Give the texts of chunks that exist and are visible, in the order asked; one statement."""
    if not is_text(collection):
        return []
    places = places_of(collection, chunk_ids)
    rows = await connection.fetch(_TEXTS, *access_values(access), collection, *places)
    return [_text(row) for row in cleared(rows, access, "texts")]


def _text(row: Any) -> ChunkText:
    document = DocumentDraft(
        document_id=row["document_id"],
        chunks=(),
        title=row["title"],
        source_file=row["source_file"],
        source_url=row["source_url"],
        metadata=msgspec.json.decode(row["metadata"]),
    )
    chunk = ChunkDraft(
        content=row["content"],
        heading=row["heading"],
        section_path=row["section_path"],
        page=row["page"],
    )
    return ChunkText(
        chunk_id=row["chunk_key"],
        document_id=row["document_id"],
        content=row["content"],
        metadata=chunk_metadata(document, chunk, row["index"]),
        digest=row["digest"],
    )


async def visible_chunks(
    connection: Connection,
    collection: str,
    chunk_ids: Sequence[str],
    access: Access,
) -> frozenset[str]:
    """Tell which of these chunks exist and are visible; one statement."""
    if not is_text(collection):
        return frozenset()
    places = places_of(collection, chunk_ids)
    rows = await connection.fetch(_KEYS, *access_values(access), collection, *places)
    return frozenset(row["chunk_key"] for row in cleared(rows, access, "visible chunks"))


async def known_chunks(
    connection: Connection, collection: str, chunk_ids: Sequence[str]
) -> frozenset[str]:
    """Tell which of these chunks exist, whoever may see them; one statement."""
    if not is_text(collection):
        return frozenset()
    rows = await connection.fetch(_KNOWN, collection, *places_of(collection, chunk_ids))
    return frozenset(row["chunk_key"] for row in rows)
