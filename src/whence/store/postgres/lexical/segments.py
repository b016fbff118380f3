"""Segments: postings of new slots, flushed by each write and merged when there are too many.

Every function runs inside the writing transaction, with the row of the collection locked. A write flushes one
segment. Segments are merged as `merge_policy` plans, a chunk as often as the logarithm of the collection's
size: small merges happen in the write itself, larger ones in the background, see `merging`. Postings hold
counts and no scores, because scores depend on what the reader may see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.merge_policy import (
    plan_all_merges,
    plan_background_merges,
    plan_compaction,
    plan_inline_merges,
)
from whence.store.postgres.lexical.merging import list_segments, merge_segments
from whence.store.postgres.lexical.posting_writer import write_postings
from whence.store.postgres.lexical.term_vectors import TermVectors, concatenated

#: Most chunks in a flushed segment, some 16 MB at 60 terms a chunk. An import writes more at once; it flushes
#: several segments and merges them.
MAX_FLUSHED_CHUNKS = 1 << 14
#: Term vectors read with one statement.
_READ_CHUNKS = 512

_NEW_SLOTS = "SELECT next_slot, posted FROM lexicon WHERE collection_id = $1"
_SET_FLUSHED = "UPDATE lexicon SET posted = next_slot WHERE collection_id = $1"
# By the index on (collection_id, slot); each chunk by its primary key.
_TERM_VECTORS = """
    SELECT t.slot, c.class_id, t.length, t.terms, t.counts
    FROM chunk_terms t JOIN chunk c ON c.ord = t.ord
    WHERE t.collection_id = $1 AND t.slot BETWEEN $2 AND $3 ORDER BY t.slot LIMIT $4"""
_NEW_SEGMENT = """
    INSERT INTO segment (collection_id, first_slot, last_slot, chunks, slots)
    VALUES ($1, $2, $3, $4, $5) RETURNING id"""
_ADD_DELETED = """
    UPDATE segment s SET dead = s.dead + g.n
    FROM (SELECT x.id, count(*) AS n FROM unnest($2::int[]) w(slot)
        JOIN segment x ON w.slot BETWEEN x.first_slot AND x.last_slot
        WHERE x.collection_id = $1 GROUP BY x.id) g
    WHERE s.id = g.id RETURNING s.id, s.first_slot"""
_ADD_DELETED_POSTINGS = """
    INSERT INTO posting_dead AS p SELECT * FROM unnest($1::int[], $2::int[], $3::int[], $4::int[])
    ON CONFLICT (segment, term, class_id) DO UPDATE SET chunks = p.chunks + excluded.chunks"""
_OF_SLOTS = """
    s.collection_id = $1
    AND EXISTS (SELECT FROM unnest($2::int[]) w(slot) WHERE w.slot BETWEEN s.first_slot AND s.last_slot)"""
_WITH_DELETED = f"""
    SELECT s.first_slot, s.last_slot FROM segment s WHERE s.dead > 0 AND {_OF_SLOTS}
    ORDER BY s.first_slot"""  # noqa: S608 - only constants
_COUNT_DELETED = f"""
    SELECT coalesce(sum(p.chunks), 0) FROM segment s JOIN posting_dead p ON p.segment = s.id
    WHERE {_OF_SLOTS}"""  # noqa: S608 - only constants
# The one row of a segment that holds a term is the first whose last term is not less, by the primary key.
_PLACES_WITH_TERMS = """
    SELECT s.slots, string_agg(substr(p.places, 2 * u.start + 1, 2 * (u.stop - u.start)), '') AS places
    FROM segment s, unnest($2::int[]) w(term),
    LATERAL (SELECT p.* FROM posting p WHERE p.segment = s.id AND p.last_term >= w.term
        ORDER BY p.last_term LIMIT 1) p,
    LATERAL unnest(p.terms, array_prepend(0, p.ends), p.ends) u(term, start, stop)
    WHERE s.collection_id = $1 AND u.term = w.term GROUP BY s.id"""
_CHUNKS_OF_SLOTS = """
    SELECT ord FROM chunk_terms WHERE collection_id = $1 AND slot = ANY($2::int[]) ORDER BY ord"""


async def flush(connection: Connection, collection_id: int, *, merge_all: bool = False) -> None:
    """Write the postings of all new slots, and do the merges that are due.

    Args:
        connection: Inside the writing transaction.
        collection_id: The collection, which is indexed.
        merge_all: Whether to do the merges, too, that are otherwise left to the background.
    """
    first = await flush_postings(connection, collection_id)
    segments = await list_segments(connection, collection_id)
    due = plan_all_merges(segments) if merge_all else plan_inline_merges(segments)
    new = [one for one in segments if one.first >= first]
    for one in due or plan_compaction(new):
        await merge_segments(connection, collection_id, one.first, one.last)


async def flush_postings(connection: Connection, collection_id: int, *, min_chunks: int = 0) -> int:
    """Write the postings of all new slots, if there are enough of them; return the first new slot.

    Cost: linear in the postings; memory holds those of one segment.
    """
    row = await connection.fetchrow(_NEW_SLOTS, collection_id)
    first: int = row["posted"]
    if row["next_slot"] - first < min_chunks:
        return first
    start, last = first, row["next_slot"] - 1
    while vectors := await _read_term_vectors(connection, collection_id, start, last):
        await write_segment(connection, collection_id, vectors)
        start = int(vectors.slots[-1]) + 1
    await connection.execute(_SET_FLUSHED, collection_id)
    return first


async def _read_term_vectors(
    connection: Connection, collection_id: int, first: int, last: int
) -> TermVectors | None:
    """Read the term vectors of a range of slots, of one segment at most; None when no chunk is left.

    A statement reads some hundred chunks: rows of the driver take several times the memory of their numbers.
    """
    parts: list[TermVectors] = []
    left = MAX_FLUSHED_CHUNKS
    while left:
        limit = min(left, _READ_CHUNKS)
        rows = await connection.fetch(_TERM_VECTORS, collection_id, first, last, limit)
        if not rows:
            break
        parts.append(await asyncio.to_thread(TermVectors.from_rows, rows))
        left -= len(rows)
        first = rows[-1]["slot"] + 1
    return await asyncio.to_thread(TermVectors.joined, parts) if parts else None


async def write_segment(connection: Connection, collection_id: int, vectors: TermVectors) -> None:
    """Write the postings of chunks that are in no segment, at most `MAX_SEGMENT_CHUNKS`.

    Cost: n log n in the postings; memory 8 bytes for each beside the term vectors.
    """
    ordered = await asyncio.to_thread(vectors.by_class)
    segment = await connection.fetchval(
        _NEW_SEGMENT,
        collection_id,
        int(vectors.slots[0]),
        int(vectors.slots[-1]),
        len(vectors.slots),
        ordered.slots.astype(">i4").tobytes(),
    )
    await write_postings(connection, segment, ordered.posting_lists())


async def merge_pending(connection: Connection, collection: str) -> bool:
    """Return whether a background merge is due. Cost: linear in the segments."""
    collection_id = await connection.fetchval(
        "SELECT id FROM collection WHERE name = $1", collection
    )
    return bool(plan_background_merges(await list_segments(connection, collection_id)))


async def mark_deleted(
    connection: Connection, collection_id: int, rows: Sequence[Any], classes: Sequence[int]
) -> None:
    """Count deleted chunks in their segments, and deleted postings by term and class.

    Args:
        connection: Inside the writing transaction.
        collection_id: The collection.
        rows: Slot and terms of each chunk that is removed from its slot.
        classes: The class that each of them had there.
    """
    slots = [row["slot"] for row in rows]
    segments = await connection.fetch(_ADD_DELETED, collection_id, slots)
    segments.sort(key=lambda segment: segment["first_slot"])
    firsts = np.array([segment["first_slot"] for segment in segments])
    which = np.searchsorted(firsts, slots, side="right") - 1
    numbers, of_row = np.unique(np.array(classes), return_inverse=True)
    widths = [len(row["terms"]) // 4 for row in rows]
    # Segment and class in the upper half of a number, the term in the lower half.
    keys = np.repeat(which * len(numbers) + of_row, widths) << 32 | concatenated(rows, "terms")
    keys, counts = np.unique(keys, return_counts=True)
    which, of_row = np.divmod(keys >> 32, len(numbers))
    ids = np.array([segment["id"] for segment in segments])
    await connection.execute(
        _ADD_DELETED_POSTINGS,
        ids[which].tolist(),
        (keys & 0xFFFFFFFF).tolist(),
        numbers[of_row].tolist(),
        counts.tolist(),
    )


async def expunge_deleted(connection: Connection, collection_id: int, slots: Sequence[int]) -> None:
    """Rewrite the segments of some slots without deleted postings.

    Cost: linear in these segments, of 65,536 chunks at most.
    """
    for row in await connection.fetch(_WITH_DELETED, collection_id, list(slots)):
        await merge_segments(connection, collection_id, row["first_slot"], row["last_slot"])


async def count_deleted_postings(
    connection: Connection, collection_id: int, slots: Sequence[int]
) -> int:
    """Return the number of deleted postings in the segments of some slots."""
    count: int = await connection.fetchval(_COUNT_DELETED, collection_id, list(slots))
    return count


async def chunks_with_terms(
    connection: Connection, collection_id: int, terms: Sequence[int]
) -> list[int]:
    """Return the numbers of the chunks that have one of these terms, ascending, hidden ones included.

    Chunks whose postings are not written yet are left out. Cost: linear in the postings of the terms.
    """
    rows = await connection.fetch(_PLACES_WITH_TERMS, collection_id, list(terms))
    slots = [
        np.frombuffer(row["slots"], ">i4")[np.unique(np.frombuffer(row["places"], "<u2"))].tolist()
        for row in rows
    ]
    found = await connection.fetch(
        _CHUNKS_OF_SLOTS, collection_id, [slot for some in slots for slot in some]
    )
    return [row["ord"] for row in found]
