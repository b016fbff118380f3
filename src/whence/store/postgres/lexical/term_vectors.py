"""Term vectors of many chunks as arrays, and their inversion into posting lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.bm25 import MAX_COUNT
from whence.store.postgres.lexical.posting_writer import BATCH_POSTINGS, PostingLists

_LOW_HALF = 0xFFFFFFFF


class TermVectors(msgspec.Struct, frozen=True):
    """The term vectors of some chunks: 8 bytes a posting, 16 a chunk."""

    slots: NDArray[np.int32]
    """Ascending; one number a chunk, as in the next three."""
    classes: NDArray[np.int32]
    lengths: NDArray[np.int32]
    widths: NDArray[np.int32]
    """Distinct terms of each chunk."""
    terms: NDArray[np.int32]
    """Those of the first chunk, then those of the second, and so on."""
    counts: NDArray[np.int32]
    """Frequency of each term in its chunk."""

    @classmethod
    def from_rows(cls, rows: Sequence[Any]) -> TermVectors:
        """Read rows of `chunk_terms`."""
        return cls(
            slots=np.array([row["slot"] for row in rows], dtype=np.int32),
            classes=np.array([row["class_id"] for row in rows], dtype=np.int32),
            lengths=np.array([row["length"] for row in rows], dtype=np.int32),
            widths=np.array([len(row["terms"]) // 4 for row in rows], dtype=np.int32),
            terms=concatenated(rows, "terms"),
            counts=concatenated(rows, "counts"),
        )

    @classmethod
    def joined(cls, parts: list[TermVectors]) -> TermVectors:
        """Concatenate parts."""
        if len(parts) == 1:
            return parts[0]
        names = cls.__struct_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def by_class(self) -> TermVectors:
        """Return the chunks in the order of their classes; slots still ascend in a class."""
        order = np.argsort(self.classes, kind="stable")
        if (np.diff(order) > 0).all():
            return self
        widths = self.widths[order]
        starts = np.cumsum(self.widths, dtype=np.int64) - self.widths
        moved = np.repeat(starts[order] - (np.cumsum(widths, dtype=np.int64) - widths), widths)
        moved += np.arange(len(moved))
        return TermVectors(
            self.slots[order],
            self.classes[order],
            self.lengths[order],
            widths,
            self.terms[moved],
            self.counts[moved],
        )

    def posting_lists(self) -> Iterator[PostingLists]:
        """Yield the postings of chunks in the order of `by_class`, a batch of terms at a time.

        A posting names its chunk by the place in that order, and counts and lengths are clipped to two bytes.
        Memory stays near that of the term vectors.
        """
        lengths = np.minimum(self.lengths, MAX_COUNT)
        owners = np.repeat(np.arange(len(self.slots), dtype="<u2"), self.widths)
        for chosen in term_batches(self.terms, BATCH_POSTINGS):
            places = owners[chosen]
            counts = np.empty((len(chosen), 2), dtype="<u2")
            counts[:, 0] = np.minimum(self.counts[chosen], MAX_COUNT)
            counts[:, 1] = lengths[places]
            yield PostingLists(self.terms[chosen], self.classes[places], places, counts)


def term_batches(terms: NDArray[np.int32], size: int) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of postings in the order of their terms, in batches; a term is in one batch only.

    Args:
        terms: The term of each posting.
        size: Postings in a batch, about.
    """
    # Term and index of a posting in one number: no two are equal, so that the fastest sort is stable.
    order = terms.astype(np.int64)
    order <<= 32
    order |= np.arange(len(order))
    order.sort()
    at = 0
    while at < len(order):
        last = int(order[min(at + size, len(order)) - 1]) | _LOW_HALF
        to = int(np.searchsorted(order, last, side="right"))
        yield (order[at:to] & _LOW_HALF).astype(np.intp)
        at = to


def concatenated(rows: Sequence[Any], column: str) -> NDArray[np.int32]:
    """Return the packed numbers of a column of all rows, one row after the other."""
    return np.frombuffer(b"".join(row[column] for row in rows), dtype="<i4").astype(np.int32)
