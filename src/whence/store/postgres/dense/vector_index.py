"""Approximate vector indexes: one HNSW graph for each large collection, and when to search it.

A graph is a partial index over the rows of one collection: all its vectors have one length, a search visits no
rows of other collections, and dropping it affects nothing else. It holds half-precision copies (half the size
at the same speed and recall); its results are ranked by the exact cosine. It is built `CONCURRENTLY`, so reads
and writes go on; an interrupted build leaves an invalid graph, which no search uses and the next build
replaces.

A search skips rows that the reader may not see. The fewer are visible, the longer the search and the worse the
recall, while the cost of an exact scan falls: below a number of visible rows the scan is both faster and exact,
see `max_exact_rows`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from whence.store.postgres.dense.ef_search_tuning import Depth, least_ef_search
from whence.store.postgres.dense.vector_sets import VECTOR_TABLES, graph_name, vector_table
from whence.store.postgres.driver import Connection

#: Chunks from which on a collection gets a graph; an exact scan of as many takes some ten milliseconds.
_MIN_CHUNKS = 20_000
#: Most dimensions that pgvector indexes in half precision.
_MAX_DIMENSIONS = 4000
#: Older versions stop at `ef_search` rows, visible or not.
_MIN_PGVECTOR = (0, 8)
#: Rows fetched from the graph: this many for each place of the ranking, and this many at least, because the
#: first rows that it finds are not always the nearest. With half of 20,000 rows visible, 50 rows gave .988 of
#: the ten nearest, 100 gave .995; asked for 50 places, 100 rows gave .92 and 200 gave .98 of them.
_OVERFETCH = 4
_MIN_FETCHED = 100
#: Rows fetched at least where this share of all rows is visible: the first `ef_search` rows of the graph then
#: contain that many, and a larger limit would continue the search. Of 200,000 rows, half of them visible, 40
#: and 100 both gave .997 of the ten nearest, for 1.5 and 4.0 ms of the server.
_MIN_FETCHED_OF_MANY, _MANY = 40, 0.45
#: `hnsw.ef_search`, at least and at most; pgvector allows 1000. For 100 rows, 200 in place of 100 cost
#: a tenth to seven tenths more and found at most .002 more of the ten nearest.
_MIN_EF, _MAX_EF = 100, 1000
#: Added to `ef_search` for each factor of ten above `_MIN_CHUNKS`: paths in the graph grow with the logarithm
#: of its size. Of 500 queries of 200,000 rows, 80 lost nearly all neighbours of five, 100 those of one, 120 of
#: none, for 6 % more time than 100.
_EF_PER_TENFOLD = 20
#: Cost of a row on the way through the graph in rows of an exact scan: 15 us against 0.8 us at 384 dimensions.
_STEP_COST = 20
#: Visible rows up to which the scan is used whatever the graph costs: it is exact, and of 10,000 among
#: 20,000 rows a fifth dearer than 100 neighbours at `ef_search` 100, which have a recall of .995 there.
_MIN_VISIBLE = 12_000
#: Rows matching a filter that are expected among those asked for, per place: where 25 are expected, fewer than
#: 10 match once in ten thousand times, and then all rows are scanned.
_MATCHES_PER_PLACE = 2.5
#: Most rows that are asked of a graph for a filter.
_MAX_FETCHED = 2000
#: Share of visible rows from which on the measured `ef_search` is enough.
_NEARLY_ALL = 0.9
#: Values of `ef_search` that are tried, below that for the size: for a ranking of ten places, ...
_EF_STEPS = (40, 60, 80)
#: ... and for one of a hundred, below `_OVERFETCH` of them. 32,848 passages of eight test collections need 200,
#: 20,000 sums of random vectors of words more than 400; each 100 cost 1 to 2 ms of the server.
_WIDE, _WIDE_STEPS = 100, (100, 150, 200, 300)
#: Growth of a collection after which its graph is measured again.
_GROWTH = 2
#: First half of the key of the advisory lock under which a graph is built: "when" in ASCII.
_LOCK = 0x7768656E
#: Seconds between two attempts to take it.
_POLL_S = 0.2
#: No timeouts, and one core, so that other statements go on.
_BUILD_SETTINGS = """
SET statement_timeout = 0; SET lock_timeout = 0; SET max_parallel_maintenance_workers = 0
"""

#: Whether the collection `c` has a valid graph; an expression for the list of columns.
_GRAPH = f"to_regclass(format('whence.%s_near_%s', (ARRAY{list(VECTOR_TABLES)})[1 + c.vector_set % 2], c.id))"
INDEXED = (
    f"EXISTS (SELECT FROM pg_index i WHERE i.indisvalid AND i.indexrelid = {_GRAPH}) AS indexed"
)
_NOTE = f"obj_description({_GRAPH}, 'pg_class')"
#: The measured `ef_search` of the graph of the collection `c`, for ten places and for `_WIDE`; NULL before.
MEASURED = (
    f"string_to_array(substring({_NOTE} FROM 'ef_search=([0-9]+,[0-9]+)'), ',')::int[] AS measured"
)
_STATE = f"""
SELECT c.dimension, c.vector_set, coalesce(l.chunks, 0) AS chunks, {INDEXED},
    EXISTS (
        SELECT FROM vector_pending p WHERE p.collection_id = c.id AND p.number = c.vector_set AND p.refused = ''
    ) AS pending,
    substring({_NOTE} FROM ',[0-9]+ chunks=([0-9]+)')::int AS measured_of
FROM collection c LEFT JOIN lexicon l ON l.collection_id = c.id WHERE c.id = $1
"""  # noqa: S608 - only constants
#: The number of chunks of a collection in some classes.
VISIBLE_CHUNKS = """
SELECT coalesce(sum(l.chunks), 0)::bigint FROM lexicon_class l
WHERE l.collection_id = $1 AND l.class_id = ANY($2::int[])
"""
#: Changes the version of the collection, so that searches read its state again.
_NEW_VERSION = "UPDATE lexicon SET chunks = chunks WHERE collection_id = $1"
_GRAPHS = """
SELECT i.relname, substring(i.relname FROM '[0-9]+$')::int AS collection_id
FROM pg_class i JOIN pg_namespace n ON n.oid = i.relnamespace
WHERE n.nspname = 'whence' AND i.relkind = 'i' AND i.relname ~ '^chunk_vec(_odd)?_near_[0-9]+$'
"""
_ORPHANS = f"""
{_GRAPHS} AND NOT EXISTS (SELECT FROM collection c WHERE c.id = substring(i.relname FROM '[0-9]+$')::int)
"""  # noqa: S608 - only constants


class GraphSearch:
    """Parameters of a search of the graph.

    Args:
        limit: Places of the ranking.
        share: Share of the collection's rows that are visible and kept by a filter, 0 to 1.
        chunks: Rows of the collection.
        measured: The `ef_search` that the graph needs where all rows are visible, for ten places and for
            `_WIDE`; None if not measured.
        fetched: Rows to ask of the graph; None for as many as the ranking needs.
    """

    def __init__(
        self,
        limit: int,
        share: float,
        chunks: int,
        measured: Sequence[int] | None = None,
        fetched: int | None = None,
    ) -> None:
        needed = _fetched(limit, share)
        tenfolds = math.log10(max(1.0, chunks / _MIN_CHUNKS))
        ef_of_size = _MIN_EF + round(_EF_PER_TENFOLD * tenfolds)
        if measured is not None and share >= _NEARLY_ALL:
            of_ten, of_many = measured
            ef_of_size = min(ef_of_size, math.ceil(of_ten / share))
            of_limit = max(limit + 1, math.ceil(of_many * limit / _WIDE / share))
            needed = min(needed, max(_MIN_FETCHED_OF_MANY, of_limit))
        self.fetched = needed if fetched is None else fetched
        self.ef_search = min(_MAX_EF, max(ef_of_size, needed, self.fetched))


def graph_search(
    limit: int, visible: int, chunks: int, measured: Sequence[int] | None = None
) -> GraphSearch | None:
    """Return how to search the graph for a ranking; None when an exact scan is better.

    Args:
        limit: Places of the ranking.
        visible: Rows that the reader may see.
        chunks: Rows of the collection.
        measured: As for `GraphSearch`.
    """
    if visible <= max_exact_rows(limit, chunks):
        return None
    return GraphSearch(limit, visible / chunks, chunks, measured)


def filtered_graph_search(limit: int, kept: int, visible: int, chunks: int) -> GraphSearch | None:
    """Return how to search the graph for enough rows that a filter keeps; None when a scan is better.

    The graph is searched without regard to the filter. A row that is looked up for a scan costs a fifth of a
    step through the graph.

    Args:
        limit: Places of the ranking.
        kept: Rows that the reader may see and the filter keeps.
        visible: Rows that the reader may see.
        chunks: Rows of the collection.
    """
    rows = max(_MIN_FETCHED_OF_MANY, math.ceil(_MATCHES_PER_PLACE * limit * visible / max(1, kept)))
    if rows > _MAX_FETCHED or kept <= max(limit, 5 * rows):
        return None
    return GraphSearch(limit, 0.0, chunks, fetched=rows)


def max_exact_rows(limit: int, chunks: int) -> int:
    """Return the number of visible rows up to which an exact scan is used: it costs less, or little.

    Of `chunks` rows with few `visible` among them, `fetched * chunks / visible` are passed on the way to
    `fetched` visible ones, each as dear as `_STEP_COST` rows of a scan over the visible: the costs are equal
    where visible**2 = _STEP_COST * fetched * chunks.
    """
    return max(limit, _MIN_VISIBLE, math.isqrt(_STEP_COST * _fetched(limit, 0.0) * chunks))


def _fetched(limit: int, share: float) -> int:
    """Return the number of rows to ask of a graph."""
    return max(_MIN_FETCHED_OF_MANY if share >= _MANY else _MIN_FETCHED, _OVERFETCH * limit)


async def needs_index_build(connection: Connection, collection_id: int) -> bool:
    """Return whether a collection needs a graph to be built or measured."""
    row = await connection.fetchrow(_STATE, collection_id)
    return row is not None and (_lacks_graph(row) or _lacks_measurement(row))


def _lacks_graph(state: Any) -> bool:
    return (
        not state["indexed"]
        # Rows are added faster to a table than to a graph.
        and not state["pending"]
        and state["chunks"] >= _MIN_CHUNKS
        and state["dimension"] <= _MAX_DIMENSIONS
    )


def _lacks_measurement(state: Any) -> bool:
    measured_of = state["measured_of"]
    return state["indexed"] and (
        measured_of is None or state["chunks"] > _GROWTH * max(measured_of, _MIN_CHUNKS)
    )


async def build_index(connection: Connection, collection_id: int) -> bool:
    """Build and measure the graph of a collection as needed; return False when another process does.

    Outside of any transaction, on a connection whose settings are undone afterwards. Cost: some 0.4 ms a row
    while the graph fits `maintenance_work_mem`, twice that when it does not; and sixty scans.
    """
    if not await _has_iterative_scan(connection):
        return False
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _LOCK, collection_id):
        return False
    try:
        row = await connection.fetchrow(_STATE, collection_id)
        if row is None or not (_lacks_graph(row) or _lacks_measurement(row)):
            return False
        await connection.execute(_BUILD_SETTINGS)
        if _lacks_graph(row):
            await _wait_for_builds(connection)
            await _build(connection, collection_id, row["vector_set"], row["dimension"])
        await _measure(connection, collection_id, row)
        await connection.execute(_NEW_VERSION, collection_id)
    finally:
        if not connection.is_closed():
            await connection.execute("SELECT pg_advisory_unlock_all()")
    return True


async def _build(
    connection: Connection, collection_id: int, vector_set: int, dimension: int
) -> None:
    """Build a graph. Under the lock no other process does, so an invalid one was interrupted."""
    name = graph_name(vector_set, collection_id)
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    await connection.execute(
        f"CREATE INDEX CONCURRENTLY {name} ON {vector_table(vector_set)}"
        f" USING hnsw ((e::halfvec({dimension})) halfvec_ip_ops)"
        f" WHERE collection_id = {collection_id:d}"
    )


async def _measure(connection: Connection, collection_id: int, state: Any) -> None:
    """Measure the `ef_search` that a graph needs, and store it as a comment of the index."""
    chunks: int = state["chunks"]
    dimension, vectors = state["dimension"], vector_table(state["vector_set"])
    widest = GraphSearch(1, 1.0, chunks)
    short = [one for one in _EF_STEPS if one < widest.ef_search]
    depths = [Depth(10, widest.fetched, short), Depth(_WIDE, _WIDE, _WIDE_STEPS)]
    of_ten, of_many = await least_ef_search(connection, collection_id, dimension, depths, vectors)
    found = (of_ten or widest.ef_search, of_many or _OVERFETCH * _WIDE)
    note = f"ef_search={found[0]:d},{found[1]:d} chunks={chunks:d}"
    name = graph_name(state["vector_set"], collection_id)
    await connection.execute(f"COMMENT ON INDEX {name} IS '{note}'")


async def _wait_for_builds(connection: Connection) -> None:
    """Wait until no other process builds an index of the table.

    Two builds would wait for each other's snapshots, a deadlock. The lock is polled, since a statement that
    waits for it holds a snapshot as well.
    """
    # Another process has no event to wait for.
    while not await connection.fetchval(  # noqa: ASYNC110
        "SELECT pg_try_advisory_lock($1, 0)", _LOCK
    ):
        await asyncio.sleep(_POLL_S)


async def list_indexes(connection: Connection) -> list[tuple[int, str]]:
    """Return the collection and the name of each graph."""
    rows = await connection.fetch(_GRAPHS)
    return [(row["collection_id"], row["relname"]) for row in rows]


async def drop_orphan_indexes(connection: Connection) -> None:
    """Drop the graphs of deleted collections."""
    for row in await connection.fetch(_ORPHANS):
        await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {row['relname']}")


async def _has_iterative_scan(connection: Connection) -> bool:
    version: str = await connection.fetchval(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    )
    return tuple(int(part) for part in version.split(".")[:2]) >= _MIN_PGVECTOR
