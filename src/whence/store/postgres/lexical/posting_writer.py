"""Postings in runs of one term and one security class, and the bytes in which a COPY takes them.

They are made from whole arrays: the driver's codecs would take each number by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator, Iterator

import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.binary_copy import COPY_HEAD, COPY_TAIL
from whence.store.postgres.driver import Connection

__all__ = ("BATCH_POSTINGS", "PostingLists", "write_postings")

#: Postings that are sorted and written in one go, about: a megabyte with all that is made of them on the way.
BATCH_POSTINGS = 1 << 13
#: Most runs and postings of a row that holds more than one term; such a row stays in its page, and to find one
#: term in it costs some microseconds.
_ROW_RUNS = 64
_ROW_POSTINGS = 128

# In the binary format of COPY an array is dimensions, flags, type of elements, length, lower bound.
_ROW = struct.Struct("!hiiii")
_ARRAY = struct.Struct("!iiiiii")
_LENGTH = struct.Struct("!i")
#: Number of the type `integer` in `pg_type`, the same in every database.
_INT4 = 23
#: Bytes in one piece of a COPY.
_PIECE = 1 << 16

_COPIED = ("segment", "last_term", "terms", "classes", "ends", "places", "counts")


async def write_postings(
    connection: Connection, segment: int, bands: Iterator[PostingLists]
) -> None:
    """Write the postings of a segment. Each band is made and laid out off the event loop.

    Args:
        connection: Inside the writing transaction.
        segment: Number of the segment.
        bands: Postings in ascending order of terms, all of a term in one band.
    """
    await connection.copy_to_table(
        "posting", columns=_COPIED, source=_in_thread(_pieces(segment, bands)), format="binary"
    )


def _pieces(segment: int, bands: Iterator[PostingLists]) -> Iterator[bytes]:
    yield COPY_HEAD
    for band in bands:
        yield from band.copied(segment)
    yield COPY_TAIL


async def _in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Make each piece off the event loop."""
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


class PostingLists:
    """Postings in the order of terms, then classes, then places.

    Args:
        terms: One number a posting, as in the next three.
        classes: Security class of the chunk.
        places: The chunk's place in the segment.
        counts: What scores are made of, four bytes a posting: see `lexicon.scoring`.
    """

    def __init__(
        self,
        terms: NDArray[np.int32],
        classes: NDArray[np.int32],
        places: NDArray[np.uint16],
        counts: NDArray[np.uint16] | NDArray[np.uint32],
    ) -> None:
        heads = np.flatnonzero(
            (np.diff(terms, prepend=-1) != 0) | (np.diff(classes, prepend=-1) != 0)
        )
        self._terms = terms[heads]
        self._classes = classes[heads]
        self._ends = np.append(heads[1:], len(terms)).astype(np.int32)
        self._places = places.astype("<u2", copy=False).tobytes()
        self._counts = counts.tobytes()

    def __len__(self) -> int:
        """Return the number of postings."""
        return len(self._places) // 2

    def copied(self, segment: int) -> Iterator[bytes]:
        """Yield rows in the binary format of COPY, in pieces of some 64 KiB."""
        pieces: list[bytes] = []
        size = 0
        start = 0
        terms, classes = _elements(self._terms), _elements(self._classes)
        ends = self._ends.tolist()
        for at, to in self._rows():
            runs, end = to - at, ends[to - 1]
            array = _ARRAY.pack(20 + 8 * runs, 1, 0, _INT4, runs, 1)
            places, counts = self._places[2 * start : 2 * end], self._counts[4 * start : 4 * end]
            row = (
                _ROW.pack(7, 4, segment, 4, int(self._terms[to - 1])),
                array,
                terms[8 * at : 8 * to],
                array,
                classes[8 * at : 8 * to],
                array,
                _elements(self._ends[at:to] - start),
                _LENGTH.pack(len(places)),
                places,
                _LENGTH.pack(len(counts)),
                counts,
            )
            pieces += row
            size += sum(map(len, row))
            start = end
            if size >= _PIECE:
                yield b"".join(pieces)
                pieces, size = [], 0
        if pieces:
            yield b"".join(pieces)

    def _rows(self) -> Iterator[tuple[int, int]]:
        """Yield the first run of each row and the one after its last; a term is in one row only."""
        edges = np.flatnonzero(np.diff(self._terms, prepend=-1, append=-1)).tolist()
        ends = [0, *self._ends.tolist()]
        at = 0
        for start, end in itertools.pairwise(edges):
            if start > at and (end - at > _ROW_RUNS or ends[end] - ends[at] > _ROW_POSTINGS):
                yield at, start
                at = start
        if edges:
            yield at, edges[-1]


def _elements(values: NDArray[np.int32]) -> bytes:
    """Return the elements of an array as PostgreSQL sends them: the width, then the value, big endian."""
    table = np.empty((len(values), 2), dtype=">i4")
    table[:, 0] = 4
    table[:, 1] = values
    return table.tobytes()
