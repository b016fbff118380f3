"""Posting lists, one for each term and ACL class, and the rows of `posting` that hold them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import AsyncIterator, Iterator

import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.driver import Connection

#: Most posting lists and postings of a row that holds more than one term. Such a row is stored in its page, and
#: finding a term in it costs some microseconds.
_ROW_LISTS = 64
_ROW_POSTINGS = 128

#: Rows that are sent together.
_ROWS_TOGETHER = 256
#: Parts of binary COPY: its beginning, its end, and the number of fields of a row.
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = struct.pack(">h", -1)
_NUMBER = struct.Struct(">i")
_INT4 = 23

_COLUMNS = ("segment", "last_term", "terms", "classes", "ends", "places", "counts")
_FIELDS = struct.pack(">h", len(_COLUMNS))


class PostingLists:
    """Postings in the order of terms, then classes, then places.

    Args:
        terms: One number a posting, as in the next three.
        classes: ACL class of the chunk.
        places: The chunk's place in the segment.
        counts: Term frequency and length of the chunk, two bytes each.
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
        self._ends = np.append(heads[1:], len(terms))
        self._places = places.astype("<u2", copy=False).tobytes()
        self._counts = counts.tobytes()

    def __len__(self) -> int:
        """Return the number of postings."""
        return len(self._places) // 2

    async def write(self, connection: Connection, segment: int) -> None:
        """Write the postings of a segment by binary COPY, inside the writing transaction."""
        await connection.copy_to_table(
            "posting", source=self._copied(segment), columns=_COLUMNS, format="binary"
        )

    async def _copied(self, segment: int) -> AsyncIterator[bytes]:
        """Yield the rows in the form of binary COPY; the driver encodes arrays number by number."""
        yield _COPY_HEAD
        rows = self._rows(segment)
        while some := list(itertools.islice(rows, _ROWS_TOGETHER)):
            yield b"".join(some)
        yield _COPY_END

    def _rows(self, segment: int) -> Iterator[bytes]:
        terms, classes = _elements(self._terms), _elements(self._classes)
        start = 0
        for at, to in itertools.pairwise([0, *self._row_ends()]):
            end, head = int(self._ends[to - 1]), _array_head(to - at)
            fields = (
                _NUMBER.pack(segment),
                _NUMBER.pack(int(self._terms[to - 1])),
                head + terms[8 * at : 8 * to],
                head + classes[8 * at : 8 * to],
                head + _elements(self._ends[at:to] - start),
                self._places[2 * start : 2 * end],
                self._counts[4 * start : 4 * end],
            )
            yield _FIELDS + b"".join(_NUMBER.pack(len(one)) + one for one in fields)
            start = end

    def _row_ends(self) -> Iterator[int]:
        """Yield, for each row, the index after its last posting list; a term is in one row only."""
        edges = np.flatnonzero(np.diff(self._terms, prepend=-1, append=-1)).tolist()
        ends = [0, *self._ends.tolist()]
        at = 0
        for start, end in itertools.pairwise(edges):
            if start > at and (end - at > _ROW_LISTS or ends[end] - ends[at] > _ROW_POSTINGS):
                yield start
                at = start
        if edges:
            yield edges[-1]


def _array_head(length: int) -> bytes:
    """Return what stands before the elements of an array of integers: dimensions, type, length, first index."""
    return struct.pack(">5i", 1, 0, _INT4, length, 1)


def _elements(numbers: NDArray[np.int32] | NDArray[np.int64]) -> bytes:
    """Return numbers as elements of an array, each with its length of four bytes before it."""
    pairs = np.full((len(numbers), 2), 4, ">i4")
    pairs[:, 1] = numbers
    return pairs.tobytes()
