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
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.document_rows import reserve_ids
from whence.store.postgres.driver import Connection, write_transaction
from whence.store.postgres.lexical.merge_policy import Segment, plan_background_merges
from whence.store.postgres.lexical.posting_writer import PostingLists

#: First half of the key of the advisory lock under which a collection is merged: "merg" in ASCII.
_LOCK = 0x6D657267
#: Postings that are read, sorted and written at a time, about.
_BATCH_POSTINGS = 1 << 13
#: How often a background merge is started whose sources another merge replaced.
_ATTEMPTS = 3

_SEGMENTS = """
    SELECT first_slot, last_slot, chunks, dead FROM segment WHERE collection_id = $1
    ORDER BY first_slot"""
_SOURCES = """
    SELECT id, slots FROM segment
    WHERE collection_id = $1 AND first_slot >= $2 AND last_slot <= $3 ORDER BY first_slot"""
_PRESENT = """
    SELECT id, chunks - dead AS live FROM segment
    WHERE collection_id = $1 AND last_slot >= $2 AND first_slot <= $3 ORDER BY first_slot"""
#: Slots and classes of the chunks in a range of slots, four bytes each, big endian.
_LIVE = """
    SELECT string_agg(int4send(t.slot) || int4send(c.class_id), '' ORDER BY t.slot)
    FROM chunk_terms t JOIN chunk c ON c.ord = t.ord
    WHERE t.collection_id = $1 AND t.slot BETWEEN $2 AND $3"""
#: The same; in the same snapshot it records the deleted postings of the sources: the negated counts, under the
#: negated number of the new segment. What is deleted later is then the sum of both.
_LIVE_RECORDED = f"""
    WITH recorded AS (
        INSERT INTO posting_dead SELECT -$4::int, term, class_id, -sum(chunks)
        FROM posting_dead WHERE segment = ANY($5::int[]) GROUP BY term, class_id)
    {_LIVE}"""  # noqa: S608 - only constants
#: Last terms of batches, by the sizes of rows; the postings themselves are not read.
_BATCH_ENDS = """
    SELECT max(g.last_term) AS batch_end
    FROM (SELECT p.last_term, sum(length(p.places)) OVER (ORDER BY p.last_term) / (2 * $2::bigint) AS batch
        FROM posting p WHERE p.segment = ANY($1::int[])) g
    GROUP BY g.batch ORDER BY batch_end"""
#: The rows of a batch: those that end in it, and of each segment the one that begins in it and ends behind it.
#: Both by the primary key, segment and last term.
_BATCH = """
    SELECT s.n, array_send(p.terms) AS terms, array_send(p.classes) AS classes,
        array_send(p.ends) AS ends, p.places, p.counts
    FROM unnest($1::int[]) WITH ORDINALITY s(id, n), LATERAL (
        SELECT * FROM posting WHERE segment = s.id AND last_term > $2 AND last_term <= $3
        UNION ALL
        SELECT * FROM (SELECT * FROM posting WHERE segment = s.id AND last_term > $3
            ORDER BY last_term LIMIT 1) behind
        WHERE behind.terms[1] <= $3) p
    ORDER BY s.n"""
_INSERT = """
    INSERT INTO segment (id, collection_id, first_slot, last_slot, chunks, dead, slots)
    OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4, $5, $6, $7)"""
_DELETE = "DELETE FROM segment WHERE id = ANY($1::int[])"
#: Postings deleted since `_LIVE_RECORDED` are deleted postings of the new segment.
_CARRY_OVER = """
    INSERT INTO posting_dead SELECT $1::int, term, class_id, sum(chunks) FROM posting_dead
    WHERE segment = ANY(-$1::int || $2::int[]) GROUP BY term, class_id HAVING sum(chunks) > 0"""
_DELETE_RECORD = "DELETE FROM posting_dead WHERE segment = -$1::int"


class _SourcesReplacedError(Exception):
    """Another merge replaced the sources of this one."""


class _Merge(msgspec.Struct, frozen=True, kw_only=True):
    """A merged segment whose postings are written, before it replaces its sources."""

    number: int
    collection_id: int
    first: int
    """First slot of the range of the sources."""
    last: int
    """Last slot of the range."""
    sources: list[int]
    """Numbers of the source segments, in the order of slots."""
    slots: NDArray[np.int32]
    """Slots of its chunks, in the order of their places; empty when no chunk was left."""


async def list_segments(connection: Connection, collection_id: int) -> list[Segment]:
    """Return all segments of a collection, in the order of their slots."""
    return [Segment(*row) for row in await connection.fetch(_SEGMENTS, collection_id)]


async def merge_segments(connection: Connection, collection_id: int, first: int, last: int) -> None:
    """Merge the segments in a range of slots into one, without deleted chunks.

    Cost: linear in the postings of the range, n log n in those of a batch.
    """
    merge = await _write_merged(connection, collection_id, first, last)
    await _replace_sources(connection, merge, deleted=0)


async def merge_in_background(connection: Connection, collection_id: int, *settings: str) -> None:
    """Do all merges that are due and too large for a write, while writes go on.

    Does nothing when another process merges the collection. A merge whose sources are replaced repeatedly is
    left to the next call. Cost: as of `merge_segments`, in a transaction for each merge.
    """
    failures = 0
    while failures < _ATTEMPTS:
        try:
            async with write_transaction(connection, *settings):
                if not await _merge_next(connection, collection_id):
                    return
        except _SourcesReplacedError:
            failures += 1


async def _merge_next(connection: Connection, collection_id: int) -> bool:
    """Do one merge that is due; return False when none is, or another process is merging."""
    if not await connection.fetchval(
        "SELECT pg_try_advisory_xact_lock($1, $2)", _LOCK, collection_id
    ):
        return False
    due = plan_background_merges(await list_segments(connection, collection_id))
    if not due:
        return False
    merge = await _write_merged(
        connection, collection_id, due[0].first, due[0].last, record_deleted=True
    )
    # From here on writes wait.
    await connection.execute(
        "SELECT FROM collection WHERE id = $1 FOR NO KEY UPDATE", collection_id
    )
    deleted = await _carry_over_deleted(connection, merge)
    await _replace_sources(connection, merge, deleted=deleted)
    # The update raises the version of the collection, by which caches know that they are stale.
    await connection.execute(
        "UPDATE lexicon SET posted = posted WHERE collection_id = $1", collection_id
    )
    return True


async def _write_merged(
    connection: Connection,
    collection_id: int,
    first: int,
    last: int,
    *,
    record_deleted: bool = False,
) -> _Merge:
    """Write the postings of the chunks in a range of slots, under the number of a new segment."""
    sources = await connection.fetch(_SOURCES, collection_id, first, last)
    ids = [source["id"] for source in sources]
    (number,) = await reserve_ids(connection, "segment", "id", 1)
    if record_deleted:
        sent = await connection.fetchval(_LIVE_RECORDED, collection_id, first, last, number, ids)
    else:
        sent = await connection.fetchval(_LIVE, collection_id, first, last)
    slots, classes = np.frombuffer(sent or b"", dtype=">i4").reshape(-1, 2).T
    # Places are in the order of classes, then slots.
    slots = slots[np.argsort(classes, kind="stable")]
    if len(slots):
        await _write_postings(connection, sources, slots, number)
    return _Merge(
        number=number, collection_id=collection_id, first=first, last=last, sources=ids, slots=slots
    )


async def _write_postings(
    connection: Connection, sources: Sequence[Any], slots: NDArray[np.int32], number: int
) -> None:
    """Copy the postings of some slots from the source segments to a new one."""
    new_places = await asyncio.to_thread(_new_places, sources, slots)
    ids = [source["id"] for source in sources]
    ends = [row["batch_end"] for row in await connection.fetch(_BATCH_ENDS, ids, _BATCH_POSTINGS)]
    for low, high in itertools.pairwise([-1, *ends]):
        rows = await connection.fetch(_BATCH, ids, low, high)
        if not rows:
            raise _SourcesReplacedError
        postings = await asyncio.to_thread(_merged, rows, new_places, low, high)
        if len(postings):
            await postings.write(connection, number)


async def _carry_over_deleted(connection: Connection, merge: _Merge) -> int:
    """Count the chunks deleted since the merge began, record their postings, and return the count."""
    rows = await connection.fetch(_PRESENT, merge.collection_id, merge.first, merge.last)
    if [row["id"] for row in rows] != merge.sources:
        raise _SourcesReplacedError
    deleted: int = len(merge.slots) - sum(row["live"] for row in rows)
    if deleted:
        await connection.execute(_CARRY_OVER, merge.number, merge.sources)
    await connection.execute(_DELETE_RECORD, merge.number)
    return deleted


async def _replace_sources(connection: Connection, merge: _Merge, *, deleted: int) -> None:
    """Replace the source segments by the merged one."""
    await connection.execute(_DELETE, merge.sources)
    if not len(merge.slots):
        return
    await connection.execute(
        _INSERT,
        merge.number,
        merge.collection_id,
        int(merge.slots.min()),
        int(merge.slots.max()),
        len(merge.slots),
        deleted,
        merge.slots.tobytes(),
    )


def _new_places(sources: Sequence[Any], live: NDArray[np.int32]) -> list[NDArray[np.int32]]:
    """Return, for each source segment, the new place of each of its places; -1 for deleted chunks."""
    order = np.argsort(live, kind="stable")
    ascending = live[order]
    new_places = []
    for source in sources:
        slots = np.frombuffer(source["slots"], dtype=">i4")
        at = np.minimum(np.searchsorted(ascending, slots), len(ascending) - 1)
        new_places.append(np.where(ascending[at] == slots, order[at], -1).astype(np.int32))
    return new_places


def _merged(
    rows: Sequence[Any], new_places: Sequence[NDArray[np.int32]], low: int, high: int
) -> PostingLists:
    """Return the postings in rows of terms above `low` up to `high`."""
    parts = (_read(row, new_places[row["n"] - 1], low, high) for row in rows)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    keys = columns[0].astype(np.int64) << 32 | columns[1]
    # Stable: in a posting list the postings of earlier segments have lower slots, and stand first already.
    order = np.argsort(keys, kind="stable")
    return PostingLists(*(column[order] for column in columns))


def _read(
    row: Any, new_places: NDArray[np.int32], low: int, high: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return terms, classes, new places and counts of the live postings of a row, above `low` up to `high`."""
    terms, ends = _read_array(row["terms"]), _read_array(row["ends"])
    widths = np.diff(ends, prepend=0)
    places = new_places[np.frombuffer(row["places"], dtype="<u2")]
    of_term = np.repeat(terms, widths)
    wanted = (places >= 0) & (of_term > low) & (of_term <= high)
    return (
        of_term[wanted],
        np.repeat(_read_array(row["classes"]), widths)[wanted],
        places[wanted].astype("<u2"),
        np.frombuffer(row["counts"], dtype="<u4")[wanted],
    )


def _read_array(sent: bytes) -> NDArray[np.int32]:
    """Read an array in PostgreSQL's binary format: five numbers, then width and value of each element."""
    return np.frombuffer(sent, dtype=">i4")[6::2].astype(np.int32)
