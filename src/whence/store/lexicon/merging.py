"""Many segments of postings made one, a band of terms at a time.

What is counted for a posting stays as it is: runs of all segments are put one behind the other, and those of
the dead left out. Memory holds one band, and eight bytes a chunk, however large the segments are.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.lexicon.runs import BAND_POSTINGS, SortedPostings, write_postings
from whence.store.sql.driver import Connection
from whence.store.sql.numbers import reserve

__all__ = ("LARGEST_SEGMENT", "merge_segments")

#: Most chunks in one segment, as many as two bytes count.
LARGEST_SEGMENT = 65_536

#: Slots and classes of the chunks that are there, four bytes each, big endian.
_LIVING = (
    "SELECT string_agg(int4send(l.slot) || int4send(l.class_id), '' ORDER BY l.slot) FROM"
    " (SELECT t.slot, c.class_id FROM chunk_terms t JOIN chunk c ON c.ord = t.ord"
    " WHERE t.collection_id = $1 AND t.slot BETWEEN $2 AND $3 ORDER BY t.slot LIMIT $4) l"
)
_SOURCES = (
    "SELECT id, first_slot, last_slot, dead, slots FROM segment"
    " WHERE collection_id = $1 AND first_slot >= $2 AND last_slot <= $3 ORDER BY first_slot"
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
    "INSERT INTO segment (id, collection_id, first_slot, last_slot, chunks, slots)"
    " OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4, $5, $6)"
)


async def merge_segments(connection: Connection, collection_id: int, first: int, last: int) -> None:
    """Write the segments in a range of slots anew, as few as can be, without the dead.

    A single one with no dead is left as it is. Cost: linear in the postings of the range, n log n in those of a
    band.
    """
    sources = await connection.fetch(_SOURCES, collection_id, first, last)
    if len(sources) == 1 and not sources[0]["dead"]:
        return
    made = []
    while (living := await _living(connection, collection_id, first, last)) is not None:
        (number,) = await reserve(connection, "segment", "id", 1)
        await _merge(connection, sources, living, number)
        made.append(
            (
                number,
                collection_id,
                living.first,
                living.last,
                len(living.slots),
                living.slots.tobytes(),
            )
        )
        first = living.last + 1
    await connection.execute(
        "DELETE FROM segment WHERE id = ANY($1::int[])", [source["id"] for source in sources]
    )
    # Only now: two segments cannot begin with the same slot.
    await connection.executemany(_MADE, made)


class _Living(msgspec.Struct, frozen=True):
    """The chunks of one segment, in the order of classes, then slots: that of their places."""

    first: int
    """Lowest slot."""
    last: int
    slots: NDArray[np.int32]


async def _living(
    connection: Connection, collection_id: int, first: int, last: int
) -> _Living | None:
    packed = await connection.fetchval(_LIVING, collection_id, first, last, LARGEST_SEGMENT)
    if packed is None:
        return None
    slots, classes = np.frombuffer(packed, dtype=">i4").reshape(-1, 2).T
    order = np.argsort(classes, kind="stable")
    return _Living(int(slots[0]), int(slots[-1]), slots[order])


async def _merge(
    connection: Connection, sources: Sequence[Any], living: _Living, number: int
) -> None:
    """Write the postings of living chunks, which are in some segments, under a new number."""
    used = [
        source
        for source in sources
        if source["first_slot"] <= living.last and source["last_slot"] >= living.first
    ]
    moves = await asyncio.to_thread(_moves, used, living)
    ids = [source["id"] for source in used]
    edges = [row["edge"] for row in await connection.fetch(_EDGES, ids, BAND_POSTINGS)]
    for low, high in itertools.pairwise([-1, *edges]):
        rows = await connection.fetch(_BAND, ids, low, high)
        await write_postings(connection, number, _merged(rows, moves, low, high))


def _moves(sources: Sequence[Any], living: _Living) -> list[NDArray[np.int32]]:
    """Give the new place of each place of each segment, -1 for the dead."""
    order = np.argsort(living.slots, kind="stable")
    ascending = living.slots[order]
    moves = []
    for source in sources:
        slots = np.frombuffer(source["slots"], dtype=">i4")
        at = np.minimum(np.searchsorted(ascending, slots), len(ascending) - 1)
        moves.append(np.where(ascending[at] == slots, order[at], -1).astype(np.int32))
    return moves


def _merged(
    rows: Sequence[Any], moves: Sequence[NDArray[np.int32]], low: int, high: int
) -> Iterator[SortedPostings]:
    """Yield what rows hold of terms above `low` up to `high`."""
    parts = (_read(row, moves[row["n"] - 1], low, high) for row in rows)
    # By another function, so that nothing else is held while the postings are written.
    postings = _sorted([np.concatenate(column) for column in zip(*parts, strict=True)])
    if len(postings):
        yield postings


def _sorted(columns: Sequence[NDArray[Any]]) -> SortedPostings:
    """Sort postings, given as terms, classes, places and counts: those of each segment behind one another."""
    terms, classes, _, _ = columns
    keys = terms.astype(np.int64)
    keys <<= 32
    keys |= classes
    # Of one run, what comes from an earlier segment has lower slots, and stands before already.
    order = np.argsort(keys, kind="stable")
    return SortedPostings(*(column[order] for column in columns))


def _read(
    row: Any, moves: NDArray[np.int32], low: int, high: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Give terms, classes, new places and counts of the postings of a row that are wanted."""
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
