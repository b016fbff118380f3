"""Segments: postings of new slots, flushed by each write and merged when there are too many.

Every function runs inside the writing transaction, with the row of the collection locked. A write flushes one
segment, or several when it has very many postings. Segments are merged as `merge_policy` plans, a chunk as
often as the logarithm of the collection's size: small merges happen in the write itself, larger ones in the
background, see `merging`. Postings hold counts and no scores, because scores depend on what the reader may see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.store.bm25 import MAX_COUNT
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.merge_policy import MAX_SEGMENT_CHUNKS, plan_inline_merges
from whence.store.postgres.lexical.merging import list_segments, merge_segments
from whence.store.postgres.lexical.posting_writer import PostingLists

#: Postings from which on a flushed segment has no more chunks; some 80 MB while it is made.
_MAX_POSTINGS = 1 << 21

_NEW_SLOTS = "SELECT next_slot, posted FROM lexicon WHERE collection_id = $1"
_SET_FLUSHED = "UPDATE lexicon SET posted = next_slot WHERE collection_id = $1"
#: The term vectors of a range of slots as arrays, up to a number of postings. By the index on
#: (collection_id, slot); each chunk by its primary key.
_TERM_VECTORS = """
    SELECT coalesce(array_agg(w.slot ORDER BY w.slot), '{}') AS slots,
        array_agg(w.class_id ORDER BY w.slot) AS classes, array_agg(w.length ORDER BY w.slot) AS lengths,
        array_agg(w.width ORDER BY w.slot) AS widths,
        string_agg(w.terms, '' ORDER BY w.slot) AS terms, string_agg(w.counts, '' ORDER BY w.slot) AS counts
    FROM (SELECT t.slot, c.class_id, t.length, t.terms, t.counts, length(t.terms) / 4 AS width,
            sum(length(t.terms) / 4) OVER (ORDER BY t.slot) - length(t.terms) / 4 AS before
        FROM chunk_terms t JOIN chunk c ON c.ord = t.ord
        WHERE t.collection_id = $1 AND t.slot BETWEEN $2 AND $3) w
    WHERE w.before < $4"""
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


async def flush(connection: Connection, collection_id: int) -> None:
    """Write the postings of all new slots of an indexed collection, and do the merges that are due."""
    await flush_postings(connection, collection_id)
    for one in plan_inline_merges(await list_segments(connection, collection_id)):
        await merge_segments(connection, collection_id, one.first, one.last)


async def flush_postings(
    connection: Connection, collection_id: int, *, min_chunks: int = 0
) -> None:
    """Write the postings of all new slots, if there are at least `min_chunks` of them.

    Cost: n log n in the postings; memory holds those of one segment.
    """
    row = await connection.fetchrow(_NEW_SLOTS, collection_id)
    first, end = row["posted"], row["next_slot"]
    if end - first < min_chunks:
        return
    while first < end:
        last = min(first + MAX_SEGMENT_CHUNKS, end) - 1
        row = await connection.fetchrow(_TERM_VECTORS, collection_id, first, last, _MAX_POSTINGS)
        if row["slots"]:
            last = row["slots"][-1]
            slots, postings = await asyncio.to_thread(_invert, row)
            segment = await connection.fetchval(
                _NEW_SEGMENT, collection_id, row["slots"][0], last, len(slots), slots.tobytes()
            )
            await postings.write(connection, segment)
        first = last + 1
    await connection.execute(_SET_FLUSHED, collection_id)


def _invert(vectors: Any) -> tuple[NDArray[np.int32], PostingLists]:
    """Return the slots of a new segment in the order of their places, and its postings.

    Places are in the order of classes, then slots; counts and lengths are clipped to two bytes.
    """
    slots, classes = np.array(vectors["slots"], ">i4"), np.array(vectors["classes"], np.int32)
    order = np.argsort(classes, kind="stable")
    places = np.empty(len(order), np.uint16)
    places[order] = np.arange(len(order))
    widths = vectors["widths"]
    terms, of_posting = np.frombuffer(vectors["terms"], "<i4"), np.repeat(places, widths)
    by_term = np.argsort(terms.astype(np.int64) << 16 | of_posting)
    counts = np.empty((len(terms), 2), "<u2")
    counts[:, 0] = np.minimum(np.frombuffer(vectors["counts"], "<i4"), MAX_COUNT)
    counts[:, 1] = np.repeat(np.minimum(vectors["lengths"], MAX_COUNT), widths)
    of_classes = np.repeat(classes, widths)
    return slots[order], PostingLists(
        terms[by_term], of_classes[by_term], of_posting[by_term], counts[by_term]
    )


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
    keys = np.repeat(which * len(numbers) + of_row, widths) << 32 | read_terms(rows)
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


def read_terms(rows: Sequence[Any]) -> NDArray[np.int32]:
    """Return the ids of the terms of rows of `chunk_terms`, one row after the other."""
    return np.frombuffer(b"".join(row["terms"] for row in rows), "<i4")


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
