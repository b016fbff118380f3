"""Merge segments of postings into one, a batch of terms at a time.

A merge concatenates the posting lists of its source segments and drops the postings of deleted chunks. Memory
holds one batch of postings and eight bytes a chunk, however large the segments are.

A write merges small segments under the lock that it holds. Large segments are merged in the background
(`merge_in_background`), in a transaction that locks the collection only for its last statements; an interrupted
merge leaves nothing behind. A segment never changes except for its count of deleted chunks. So when all sources
still exist at the end, their postings were read completely. Chunks deleted during the merge are in the new
segment, and are counted as deleted there. When a source is gone, another merge replaced it, and this one is
abandoned.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.driver import Connection, writing
from whence.store.postgres.identity_columns import reserve
from whence.store.postgres.lexical.merge_policy import Segment, plan_background_merges
from whence.store.postgres.lexical.posting_writer import (
    BATCH_POSTINGS,
    PostingLists,
    write_postings,
)

__all__ = ("merge_in_background", "merge_segments", "segments_of")

#: First half of the key of the advisory lock under which a collection is merged: "merg" in ASCII.
_LOCK = 0x6D657267
#: How often a merge is begun anew whose sources another one took.
_ATTEMPTS = 3

_SOURCES = (
    "SELECT id, slots FROM segment"
    " WHERE collection_id = $1 AND first_slot >= $2 AND last_slot <= $3 ORDER BY first_slot"
)
_THERE = (
    "SELECT id, chunks - dead AS living FROM segment"
    " WHERE collection_id = $1 AND last_slot >= $2 AND first_slot <= $3 ORDER BY first_slot"
)
#: Slots and classes of the chunks that are there, four bytes each, big endian.
_LIVING = (
    "SELECT string_agg(int4send(t.slot) || int4send(c.class_id), '' ORDER BY t.slot)"
    " FROM chunk_terms t JOIN chunk c ON c.ord = t.ord"
    " WHERE t.collection_id = $1 AND t.slot BETWEEN $2 AND $3"
)
#: The same, and in the same state a note of all that are dead in the sources: the negative, under the negative
#: number of the new segment.
_LIVING_NOTED = (
    "WITH noted AS (INSERT INTO posting_dead SELECT -$4::int, term, class_id, -sum(chunks)"  # noqa: S608 - only constants
    f" FROM posting_dead WHERE segment = ANY($5::int[]) GROUP BY term, class_id) {_LIVING}"
)
#: Terms that bands end with; what a row holds is known without reading it.
_EDGES = (
    "SELECT max(g.last_term) AS edge FROM (SELECT p.last_term,"
    " sum(length(p.places)) OVER (ORDER BY p.last_term) / (2 * $2::bigint) AS band"
    " FROM posting p WHERE p.segment = ANY($1::int[])) g GROUP BY g.band ORDER BY edge"
)
#: The rows of a band: those that end in it, and of each segment the one that begins in it and ends behind it.
_BAND = (
    "SELECT s.n, array_send(p.terms) AS terms, array_send(p.classes) AS classes,"
    " array_send(p.ends) AS ends, p.places, p.counts"
    " FROM unnest($1::int[]) WITH ORDINALITY s(id, n), LATERAL ("
    " SELECT * FROM posting WHERE segment = s.id AND last_term > $2 AND last_term <= $3"
    " UNION ALL SELECT * FROM (SELECT * FROM posting WHERE segment = s.id AND last_term > $3"
    "  ORDER BY last_term LIMIT 1) behind WHERE behind.terms[1] <= $3) p ORDER BY s.n"
)
_MADE = (
    "INSERT INTO segment (id, collection_id, first_slot, last_slot, chunks, dead, slots)"
    " OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4, $5, $6, $7)"
)
#: Who is dead in the sources now and was not when that was noted is dead in the new segment.
_CARRIED = (
    "INSERT INTO posting_dead SELECT $1::int, term, class_id, sum(chunks) FROM posting_dead"
    " WHERE segment = ANY(-$1::int || $2::int[]) GROUP BY term, class_id HAVING sum(chunks) > 0"
)


class _Lost(Exception):
    """Others have made something else of the sources of a merge."""


class _Merge(msgspec.Struct, frozen=True, kw_only=True):
    """A segment whose postings are written, before it takes the place of others."""

    number: int
    collection_id: int
    first: int
    """Slots of the sources: from here."""
    last: int
    """To here."""
    sources: list[int]
    """Their numbers, in the order of slots."""
    slots: NDArray[np.int32]
    """Of its chunks, in the order of their places; none when no chunk was there."""


async def segments_of(connection: Connection, collection_id: int) -> list[Segment]:
    """Return all segments of a collection, in the order of their slots."""
    rows = await connection.fetch(
        "SELECT first_slot, last_slot, chunks, dead FROM segment WHERE collection_id = $1"
        " ORDER BY first_slot",
        collection_id,
    )
    return [Segment(*row) for row in rows]


async def merge_segments(connection: Connection, collection_id: int, first: int, last: int) -> None:
    """Write the segments in a range of slots anew as one, without the dead.

    Cost: linear in the postings of the range, n log n in those of a band.

    Args:
        connection: Inside the writing transaction.
        collection_id: The collection.
        first: Lowest slot of the first segment.
        last: Highest slot of the last; `MAX_SEGMENT_CHUNKS` chunks in the range at most.
    """
    merge = await _begun(connection, _LIVING, collection_id, first, last)
    await _take_place(connection, merge, dead=0)


async def merge_in_background(connection: Connection, collection_id: int, *settings: str) -> None:
    """Do all merges that are due and too large for a write, while writes go on.

    Nothing is done when another process does it. A merge that other writes got in the way of again and again is
    left to the next time. Cost: as of `merge_segments`, in a transaction for each.

    Args:
        connection: Outside of any transaction.
        collection_id: The collection; one that is gone has nothing to merge.
        settings: Of the transactions, as for `writing`.
    """
    lost = 0
    while lost < _ATTEMPTS:
        try:
            async with writing(connection, *settings):
                if not await _merge_next(connection, collection_id):
                    return
        except _Lost:
            lost += 1


async def _merge_next(connection: Connection, collection_id: int) -> bool:
    """Do one merge that is due; False when none is, or another process is at it.

    Raises:
        _Lost: The sources are not what they were; the transaction is to be undone.
    """
    if not await connection.fetchval(
        "SELECT pg_try_advisory_xact_lock($1, $2)", _LOCK, collection_id
    ):
        return False
    due = plan_background_merges(await segments_of(connection, collection_id))
    if not due:
        return False
    merge = await _begun(connection, _LIVING_NOTED, collection_id, due[0].first, due[0].last)
    # From here on writes wait.
    await connection.execute(
        "SELECT FROM collection WHERE id = $1 FOR NO KEY UPDATE", collection_id
    )
    await _take_place(connection, merge, dead=await _died(connection, merge))
    # What searches remember is of another state, see `store.standing`.
    await connection.execute(
        "UPDATE lexicon SET posted = posted WHERE collection_id = $1", collection_id
    )
    return True


async def _begun(
    connection: Connection, living: str, collection_id: int, first: int, last: int
) -> _Merge:
    """Write the postings of the chunks that are there in a range of slots, under a new number."""
    sources = await connection.fetch(_SOURCES, collection_id, first, last)
    ids = [source["id"] for source in sources]
    (number,) = await reserve(connection, "segment", "id", 1)
    noted = (number, ids) if living is _LIVING_NOTED else ()
    sent = await connection.fetchval(living, collection_id, first, last, *noted)
    slots, classes = np.frombuffer(sent or b"", dtype=">i4").reshape(-1, 2).T
    # Places are in the order of classes, then slots.
    slots = slots[np.argsort(classes, kind="stable")]
    if len(slots):
        await _merge(connection, sources, slots, number)
    return _Merge(
        number=number, collection_id=collection_id, first=first, last=last, sources=ids, slots=slots
    )


async def _merge(
    connection: Connection, sources: Sequence[Any], slots: NDArray[np.int32], number: int
) -> None:
    """Write the postings of some slots, which are in some segments, under a new number.

    Raises:
        _Lost: The segments are gone.
    """
    moves = await asyncio.to_thread(_moves, sources, slots)
    ids = [source["id"] for source in sources]
    edges = [row["edge"] for row in await connection.fetch(_EDGES, ids, BATCH_POSTINGS)]
    for low, high in itertools.pairwise([-1, *edges]):
        rows = await connection.fetch(_BAND, ids, low, high)
        if not rows:
            raise _Lost
        await write_postings(connection, number, _merged(rows, moves, low, high))


async def _died(connection: Connection, merge: _Merge) -> int:
    """Return how many chunks of a merge have died since it began, and note it of their postings.

    Raises:
        _Lost: The sources are not what there is of these slots any more.
    """
    rows = await connection.fetch(_THERE, merge.collection_id, merge.first, merge.last)
    if [row["id"] for row in rows] != merge.sources:
        raise _Lost
    dead: int = len(merge.slots) - sum(row["living"] for row in rows)
    if dead:
        await connection.execute(_CARRIED, merge.number, merge.sources)
    await connection.execute("DELETE FROM posting_dead WHERE segment = -$1::int", merge.number)
    return dead


async def _take_place(connection: Connection, merge: _Merge, *, dead: int) -> None:
    """Put a segment in the place of its sources."""
    await connection.execute("DELETE FROM segment WHERE id = ANY($1::int[])", merge.sources)
    if not len(merge.slots):
        return
    await connection.execute(
        _MADE,
        merge.number,
        merge.collection_id,
        int(merge.slots.min()),
        int(merge.slots.max()),
        len(merge.slots),
        dead,
        merge.slots.tobytes(),
    )


def _moves(sources: Sequence[Any], living: NDArray[np.int32]) -> list[NDArray[np.int32]]:
    """Return the new place of each place of each segment, -1 for the dead.

    Args:
        sources: The segments.
        living: The slot at each new place.
    """
    order = np.argsort(living, kind="stable")
    ascending = living[order]
    moves = []
    for source in sources:
        slots = np.frombuffer(source["slots"], dtype=">i4")
        at = np.minimum(np.searchsorted(ascending, slots), len(ascending) - 1)
        moves.append(np.where(ascending[at] == slots, order[at], -1).astype(np.int32))
    return moves


def _merged(
    rows: Sequence[Any], moves: Sequence[NDArray[np.int32]], low: int, high: int
) -> Iterator[PostingLists]:
    """Yield what rows hold of terms above `low` up to `high`."""
    parts = (_read(row, moves[row["n"] - 1], low, high) for row in rows)
    # By another function, so that nothing else is held while the postings are written.
    postings = _sorted([np.concatenate(column) for column in zip(*parts, strict=True)])
    if len(postings):
        yield postings


def _sorted(columns: Sequence[NDArray[Any]]) -> PostingLists:
    """Sort postings, given as terms, classes, places and counts: those of each segment behind one another."""
    terms, classes, _, _ = columns
    keys = terms.astype(np.int64)
    keys <<= 32
    keys |= classes
    # Of one run, what comes from an earlier segment has lower slots, and stands before already.
    order = np.argsort(keys, kind="stable")
    return PostingLists(*(column[order] for column in columns))


def _read(
    row: Any, moves: NDArray[np.int32], low: int, high: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return terms, classes, new places and counts of the postings of a row that are wanted."""
    terms, ends = _numbers(row["terms"]), _numbers(row["ends"])
    widths = np.diff(ends, prepend=0)
    places = moves[np.frombuffer(row["places"], dtype="<u2")]
    of_term = np.repeat(terms, widths)
    wanted = (places >= 0) & (of_term > low) & (of_term <= high)
    return (
        of_term[wanted],
        np.repeat(_numbers(row["classes"]), widths)[wanted],
        places[wanted].astype("<u2"),
        np.frombuffer(row["counts"], dtype="<u4")[wanted],
    )


def _numbers(sent: bytes) -> NDArray[np.int32]:
    """Read an array as PostgreSQL sends it: five numbers about it, then width and value of each element."""
    return np.frombuffer(sent, dtype=">i4")[6::2].astype(np.int32)
