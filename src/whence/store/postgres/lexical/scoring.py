"""Exact sums of impacts in memory: from the visible postings of a query to the best places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bytes of a posting: a place in two bytes, an impact in four.
POSTING_BYTES = 6


class PostingList(msgspec.Struct, frozen=True):
    """The visible postings of a term in a segment."""

    base: int
    """Added to a place in the segment, it gives the place among all segments."""
    weight: float
    """Weight of the term, a multiple of 2**-28."""
    postings: bytes
    """All places, uint16; then the impact of each, float32, a multiple of 2**-24; little endian."""

    def places(self) -> NDArray[np.intp]:
        """Return the places among all segments, each once, shape (n,)."""
        n = len(self.postings) // POSTING_BYTES
        return np.frombuffer(self.postings, "<u2", n).astype(np.intp) + self.base

    def values(self) -> NDArray[np.float64]:
        """Return the summand of the score of each posting, shape (n,)."""
        n = len(self.postings) // POSTING_BYTES
        return np.frombuffer(self.postings, "<f4", n, 2 * n) * np.float64(self.weight)


def top_scores(
    lists: Sequence[PostingList], size: int, n: int, allowed: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the n best places and their scores, best first, and all that tie with the last.

    Places without postings are left out; ties are in the order of places. Sums are exact, see
    `whence.store.bm25`: the order of summation changes no bit. Cost: linear in the postings and places.

    Args:
        lists: All posting lists of a query; those of one term have different bases.
        size: Number of places in all segments.
        n: How many to return, 1 or more.
        allowed: Whether each place may be returned, shape (size,); None for all.
    """
    scores = np.zeros(size)
    for one in lists:
        scores[one.places()] += one.values()
    if allowed is not None:
        scores *= allowed
    found = np.flatnonzero(scores)
    values = scores[found]
    if len(found) > n:
        last = np.partition(values, len(found) - n)[len(found) - n]
        found, values = found[values >= last], values[values >= last]
    order = np.argsort(-values, kind="stable")
    return found[order], values[order]
