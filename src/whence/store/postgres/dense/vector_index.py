"""Approximate indexes over vectors: one HNSW graph for each large collection, and when to ask it.

A graph is partial, over the rows of one collection: its vectors have one length, no walk passes rows of others,
and dropping it touches nothing else. It holds half-precision copies (half the size at the same speed and
recall); what it finds is ranked by the exact cosine. It is built `CONCURRENTLY`, so reads and writes go on; a
build that was cut off leaves an invalid graph, which no search uses and the next build replaces.

Rows that the reader may not see are passed over on the way. The fewer are visible, the longer the way and the
worse the recall, while the cost of an exact scan falls: below a number of visible rows the scan is both
faster and right, see `fewest_visible`.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from whence.store.postgres.dense.ef_search_tuning import least_ef_search
from whence.store.postgres.driver import Connection

__all__ = (
    "INDEXED",
    "MEASURED",
    "VISIBLE_CHUNKS",
    "GraphSearch",
    "build_index",
    "drop_orphan_indexes",
    "fewest_visible",
    "filtered_graph_search",
    "graph_search",
    "index_name",
    "needs_index_build",
)

#: Chunks of a collection from which on it gets a graph; an exact scan of as many takes some ten milliseconds.
_INDEX_FROM = 20_000
#: Most dimensions that pgvector indexes in half precision.
_MOST_DIMENSIONS = 4000
#: Older ones stop at `ef_search` rows, visible or not.
_LOWEST_PGVECTOR = (0, 8)
#: Rows asked of the graph for each place of the ranking, and at least: what it finds early is not always
#: nearest. With half of 20,000 rows visible, 50 rows gave .988 of the ten nearest, 100 gave .995; asked for 50
#: places, 100 rows gave .92 and 200 gave .98 of them.
_OVERFETCH = 4
_LEAST_FETCHED = 100
#: The same where at least such a share of all rows is visible: the first `ef_search` rows of the graph hold so
#: many then, and to ask for more makes the walk go on. Of 200,000 rows, half of them visible, 40 and 100 both
#: gave .997 of the ten nearest, for 1.5 and 4.0 ms of the server.
_LEAST_OF_MANY, _MANY = 40, 0.45
#: `hnsw.ef_search`, at least and at most; pgvector allows 1000. For 100 rows, 200 in place of 100 cost
#: a tenth to seven tenths more and found at most .002 more of the ten nearest.
_LEAST_EF, _MOST_EF = 100, 1000
#: What is added to it for each tenfold of `_INDEX_FROM`, as the way through a graph grows with the logarithm of
#: its size. Of 500 queries of 200,000 rows, 80 lost nearly all neighbours of five, 100 those of one, 120 of
#: none, for 6 % more time than 100.
_EF_OF_TENFOLD = 20
#: Cost of a row on the way through the graph in rows of an exact scan: 15 us against 0.8 us at 384 dimensions.
_STEP = 20
#: Visible rows up to which the scan is the way whatever the graph costs: it is exact, and of 10,000 among
#: 20,000 rows a fifth dearer than 100 neighbours at `ef_search` 100, which have a recall of .995 there.
_SCANNED = 12_000
#: Kept rows that are expected among those asked for, for each place: where 25 are expected, fewer than 10 are
#: there once in ten thousand times, and then all are looked at.
_OF_KEPT = 2.5
#: Most rows that are asked of a graph for what a filter keeps of them.
_MOST_PASSED = 2000
#: From such a share of visible rows on, what the graph of a collection was measured to need is enough.
_NEARLY_ALL = 0.9
#: Widths that are tried, below that of the size.
_WIDTHS = (40, 60, 80)
#: Growth of a collection after which its graph is measured again.
_GROWTH = 2
#: First half of the key of the advisory lock under which a graph is built: "when" in ASCII.
_LOCK = 0x7768656E
#: Pause between two tries to take it, in seconds.
_TURN_S = 0.2
_PREFIX = "chunk_vec_near_"

#: Whether the collection `c` has a graph that can be asked; an expression for the list of columns.
INDEXED = (
    "EXISTS (SELECT FROM pg_index i WHERE i.indisvalid AND i.indexrelid ="
    f" to_regclass('whence.{_PREFIX}' || c.id)) AS indexed"
)
_NOTE = f"obj_description(to_regclass('whence.{_PREFIX}' || c.id), 'pg_class')"
#: The `ef_search` that the graph of the collection `c` was measured to need, NULL before.
MEASURED = f"substring({_NOTE} FROM 'ef_search=([0-9]+)')::int AS measured"
_STATE = (
    f"SELECT c.dimension, coalesce(l.chunks, 0) AS chunks, {INDEXED},"  # noqa: S608 - only constants
    f" substring({_NOTE} FROM 'chunks=([0-9]+)')::int AS measured_of"
    " FROM collection c LEFT JOIN lexicon l ON l.collection_id = c.id WHERE c.id = $1"
)
#: How many chunks of a collection some classes have.
VISIBLE_CHUNKS = (
    "SELECT coalesce(sum(l.chunks), 0)::bigint FROM lexicon_class l"
    " WHERE l.collection_id = $1 AND l.class_id = ANY($2::int[])"
)
#: Changes the version of the collection, so that searches read its state again.
_NEW_VERSION = "UPDATE lexicon SET chunks = chunks WHERE collection_id = $1"
_ORPHANS = (
    "SELECT i.relname FROM pg_class i JOIN pg_namespace n ON n.oid = i.relnamespace"  # noqa: S608 - only constants
    f" WHERE n.nspname = 'whence' AND i.relkind = 'i' AND i.relname ^@ '{_PREFIX}' AND NOT EXISTS"
    f" (SELECT FROM collection c WHERE i.relname = '{_PREFIX}' || c.id)"
)


def index_name(collection_id: int) -> str:
    """Give the name of a collection's graph."""
    return f"{_PREFIX}{collection_id}"


class GraphSearch:
    """Parameters of a search of the graph.

    Args:
        limit: Places of the ranking.
        share: Share of the collection's rows that are visible and kept by a filter, 0 to 1.
        chunks: Rows of the collection.
        measured: The `ef_search` that the graph needs where all rows are visible; None if not measured.
        fetched: Rows to ask of the graph; None for as many as the ranking needs.
    """

    def __init__(
        self,
        limit: int,
        share: float,
        chunks: int,
        measured: int | None = None,
        fetched: int | None = None,
    ) -> None:
        self.fetched = _fetched(limit, share) if fetched is None else fetched
        tenfolds = math.log10(max(1.0, chunks / _INDEX_FROM))
        of_size = _LEAST_EF + round(_EF_OF_TENFOLD * tenfolds)
        if measured is not None and share >= _NEARLY_ALL:
            of_size = min(of_size, math.ceil(measured / share))
        self.ef_search = min(_MOST_EF, max(of_size, _fetched(limit, share), self.fetched))


def graph_search(
    limit: int, visible: int, chunks: int, measured: int | None = None
) -> GraphSearch | None:
    """Return how to search the graph for a ranking; None when an exact scan is better.

    Args:
        limit: Places of the ranking.
        visible: Rows that the reader may see.
        chunks: Rows of the collection.
        measured: As for `GraphSearch`.
    """
    if visible <= fewest_visible(limit, chunks):
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
    rows = max(_LEAST_OF_MANY, math.ceil(_OF_KEPT * limit * visible / max(1, kept)))
    if rows > _MOST_PASSED or kept <= max(limit, 5 * rows):
        return None
    return GraphSearch(limit, 0.0, chunks, fetched=rows)


def fewest_visible(limit: int, chunks: int) -> int:
    """Give the number of visible rows up to which an exact scan is the way: it costs less, or little.

    Of `chunks` rows with few `visible` among them, `fetched * chunks / visible` are passed on the way to
    `fetched` visible ones, each as dear as `_STEP` rows of a scan over the visible: the costs are equal where
    visible**2 = _STEP * fetched * chunks.
    """
    return max(limit, _SCANNED, math.isqrt(_STEP * _fetched(limit, 0.0) * chunks))


def _fetched(limit: int, share: float) -> int:
    """Give the rows that are asked of a graph."""
    return max(_LEAST_OF_MANY if share >= _MANY else _LEAST_FETCHED, _OVERFETCH * limit)


async def needs_index_build(connection: Connection, collection_id: int) -> bool:
    """Tell whether a collection is large enough for a graph, and has none or one that is to be measured."""
    row = await connection.fetchrow(_STATE, collection_id)
    return row is not None and (_lacks_graph(row) or _lacks_measure(row))


def _lacks_graph(state: Any) -> bool:
    return (
        not state["indexed"]
        and state["chunks"] >= _INDEX_FROM
        and state["dimension"] <= _MOST_DIMENSIONS
    )


def _lacks_measure(state: Any) -> bool:
    measured_of = state["measured_of"]
    return state["indexed"] and (
        measured_of is None or state["chunks"] > _GROWTH * max(measured_of, _INDEX_FROM)
    )


async def build_index(connection: Connection, collection_id: int) -> bool:
    """Build the graph of a collection and measure it, as far as it is due; False when another process does.

    Outside of any transaction, on a connection whose settings are undone afterwards. Cost: some 0.4 ms a row
    while the graph fits `maintenance_work_mem`, twice that when it does not; and sixty scans.
    """
    if not await _can_iterate(connection):
        return False
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _LOCK, collection_id):
        return False
    try:
        row = await connection.fetchrow(_STATE, collection_id)
        if row is None or not (_lacks_graph(row) or _lacks_measure(row)):
            return False
        await _unhurried(connection)
        if _lacks_graph(row):
            await _take_turn(connection)
            await _build(connection, collection_id, row["dimension"])
        await _measure(connection, collection_id, row["dimension"], row["chunks"])
        await connection.execute(_NEW_VERSION, collection_id)
    finally:
        if not connection.is_closed():
            await connection.execute("SELECT pg_advisory_unlock_all()")
    return True


async def _build(connection: Connection, collection_id: int, dimension: int) -> None:
    """Build a graph; under the lock nobody else does, so what is there and not valid was cut off."""
    name = index_name(collection_id)
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    await connection.execute(
        f"CREATE INDEX CONCURRENTLY {name} ON chunk_vec"
        f" USING hnsw ((e::halfvec({dimension})) halfvec_ip_ops)"
        f" WHERE collection_id = {collection_id:d}"
    )


async def _measure(connection: Connection, collection_id: int, dimension: int, chunks: int) -> None:
    """Find out how wide a graph has to look, and note it at the graph, which it goes with."""
    widest = GraphSearch(1, 1.0, chunks)
    widths = [one for one in _WIDTHS if one < widest.ef_search]
    found = await least_ef_search(connection, collection_id, dimension, widths, widest.fetched)
    note = f"ef_search={found or widest.ef_search} chunks={chunks:d}"
    await connection.execute(f"COMMENT ON INDEX {index_name(collection_id)} IS '{note}'")


async def _take_turn(connection: Connection) -> None:
    """Wait until nobody else builds in the table: two builds wait for each other's snapshots, a deadlock.

    Asked for again and again, since a statement that waits for a lock holds a snapshot as well.
    """
    # Another process has no event to wait for.
    while not await connection.fetchval(  # noqa: ASYNC110
        "SELECT pg_try_advisory_lock($1, 0)", _LOCK
    ):
        await asyncio.sleep(_TURN_S)


async def drop_orphan_indexes(connection: Connection) -> None:
    """Drop the graphs of collections that are gone."""
    for row in await connection.fetch(_ORPHANS):
        await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {row['relname']}")


async def _unhurried(connection: Connection) -> None:
    """Take the time it needs, on one core: the others go on answering."""
    for setting in (
        "statement_timeout = 0",
        "lock_timeout = 0",
        "max_parallel_maintenance_workers = 0",
    ):
        await connection.execute(f"SET {setting}")


async def _can_iterate(connection: Connection) -> bool:
    version: str = await connection.fetchval(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    )
    return tuple(int(part) for part in version.split(".")[:2]) >= _LOWEST_PGVECTOR
