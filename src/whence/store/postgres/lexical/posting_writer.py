"""Posting lists, one for each term and ACL class, and the rows of `posting` that hold them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.binary_copy import copy_rows, int_arrays, rows_of_columns
from whence.store.postgres.driver import Connection

#: Postings that are sorted and written at a time, about: a megabyte with the intermediate arrays.
BATCH_POSTINGS = 1 << 13
#: Most posting lists and postings of a row that holds more than one term. Such a row is stored in its page, and
#: finding a term in it costs some microseconds.
_ROW_LISTS = 64
_ROW_POSTINGS = 128

_COLUMNS = ("segment", "last_term", "terms", "classes", "ends", "places", "counts")


async def write_postings(
    connection: Connection, segment: int, batches: Iterator[PostingLists]
) -> None:
    """Write the postings of a segment. Each batch is computed off the event loop.

    Args:
        connection: Inside the writing transaction.
        segment: Number of the segment.
        batches: Postings in ascending order of terms, all of a term in one batch.
    """
    rows = itertools.chain.from_iterable(batch.rows(segment) for batch in batches)
    await copy_rows(connection, "posting", _COLUMNS, rows, in_thread=True)


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
        self._ends = np.append(heads[1:], len(terms)).astype(np.int32)
        self._places = places.astype("<u2", copy=False).tobytes()
        self._counts = counts.tobytes()

    def __len__(self) -> int:
        """Return the number of postings."""
        return len(self._places) // 2

    def rows(self, segment: int) -> Iterator[bytes]:
        """Yield rows in the binary format of COPY."""
        lasts = np.array(list(self._row_ends()), dtype=np.intp)
        if not len(lasts):
            return iter(())
        widths = np.diff(lasts, prepend=0)
        ends = self._ends[lasts - 1].tolist()
        starts = [0, *ends[:-1]]
        spans = list(zip(starts, ends, strict=True))
        return rows_of_columns(
            {"segment": segment, "last_term": self._terms[lasts - 1]},
            {
                "terms": int_arrays(self._terms, widths),
                "classes": int_arrays(self._classes, widths),
                "ends": int_arrays(self._ends - np.repeat(starts, widths), widths),
                "places": [self._places[2 * start : 2 * end] for start, end in spans],
                "counts": [self._counts[4 * start : 4 * end] for start, end in spans],
            },
        )

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
