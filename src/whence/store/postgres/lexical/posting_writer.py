"""Posting lists, one for each term and ACL class, and the rows of `posting` that hold them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.driver import Connection

#: Most posting lists and postings of a row that holds more than one term. Such a row is stored in its page, and
#: finding a term in it costs some microseconds.
_ROW_LISTS = 64
_ROW_POSTINGS = 128

_COLUMNS = ("segment", "last_term", "terms", "classes", "ends", "places", "counts")


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
        await connection.copy_records_to_table(
            "posting", columns=_COLUMNS, records=self._rows(segment)
        )

    def _rows(self, segment: int) -> Iterator[tuple[Any, ...]]:
        start = 0
        for at, to in itertools.pairwise([0, *self._row_ends()]):
            terms, ends = self._terms[at:to].tolist(), self._ends[at:to]
            end = int(ends[-1])
            yield (
                segment,
                terms[-1],
                terms,
                self._classes[at:to].tolist(),
                (ends - start).tolist(),
                self._places[2 * start : 2 * end],
                self._counts[4 * start : 4 * end],
            )
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
