"""Exact sums of impacts in memory: from the visible postings of a query to the best places."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bytes of a posting: a place in two bytes, an impact in four.
POSTING_BYTES = 6
#: With this many places per posting, or more, no array of all places is made.
_SPARSE = 8
#: Scores from which a lower bound of the n-th best is computed.
_SAMPLE = 4096
_LEAST = float(np.finfo(np.float64).smallest_subnormal)


class PostingList(msgspec.Struct, frozen=True):
    """The visible postings of a term in a segment."""

    base: int
    """Added to a place in the segment, it gives the place among all segments."""
    weight: float
    """Weight of the term, a multiple of 2**-28."""
    postings: bytes
    """All places, uint16; then the impact of each, float32, a multiple of 2**-24; little endian."""

    def places(self) -> NDArray[np.intp]:
        """Return the places in the segment, shape (n,)."""
        n = len(self.postings) // POSTING_BYTES
        return np.frombuffer(self.postings, "<u2", n).astype(np.intp)

    def values(self) -> NDArray[np.float64]:
        """Return the summand of the score of each posting, shape (n,)."""
        n = len(self.postings) // POSTING_BYTES
        return np.frombuffer(self.postings, "<f4", n, 2 * n) * np.float64(self.weight)


class _ScoreBuffer(threading.local):
    """Scores by place, reused by the queries of a thread: allocating the memory takes longer than the sums."""

    def __init__(self) -> None:
        self._scores = np.empty(0)

    def zeros(self, size: int) -> NDArray[np.float64]:
        """Return zeros, shape (size,), until the next call in this thread."""
        if len(self._scores) < size:
            self._scores = np.empty(size + size // 4)
        scores = self._scores[:size]
        scores.fill(0.0)
        return scores


_buffer = _ScoreBuffer()


def top_scores(
    lists: Sequence[PostingList], size: int, n: int, allowed: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the n best places and their scores, best first, and all that tie with the last.

    Places without postings are left out; ties are in the order of places. Sums are exact, see
    `whence.store.bm25`: the order of summation changes no bit. Cost: linear in the postings, and with many of
    them in the places.

    Args:
        lists: All posting lists of a query; those of one term have different bases.
        size: Number of places in all segments.
        n: How many to return, 1 or more.
        allowed: Whether each place may be returned, shape (size,); None for all.
    """
    ordered = sorted(lists, key=lambda one: one.weight, reverse=True)
    postings = sum(len(one.postings) for one in ordered) // POSTING_BYTES
    if not postings or postings * _SPARSE < size:
        places, scores = _sparse_scores(ordered)
        scores = scores if allowed is None else scores * allowed[places]
        chosen, values = _best(scores, _lower_bound(scores, n), n)
        return places[chosen], values
    scores = _dense_scores(ordered, size)
    if allowed is not None:
        scores *= allowed
    # The places of one list are distinct: their n-th best score is a lower bound of the n-th best of all.
    sample = scores[ordered[0].places()[:_SAMPLE] + ordered[0].base]
    return _best(scores, _lower_bound(sample, n), n)


def _sparse_scores(lists: Sequence[PostingList]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return all places with postings, ascending, and their scores."""
    found = np.concatenate([np.empty(0, np.intp), *(one.places() + one.base for one in lists)])
    values = np.concatenate([np.empty(0), *(one.values() for one in lists)])
    places, inverse = np.unique(found, return_inverse=True)
    scores: NDArray[np.float64] = np.bincount(inverse, values, len(places)).astype(np.float64)
    return places, scores


def _dense_scores(lists: Sequence[PostingList], size: int) -> NDArray[np.float64]:
    """Return the scores of all places, shape (size,), valid until the next query of the thread."""
    scores = _buffer.zeros(size)
    for one in lists:
        np.add.at(scores[one.base :], one.places(), one.values())
    return scores


def _lower_bound(sample: NDArray[np.float64], n: int) -> float:
    """Return a score that at least n places have; the least positive one when that is unknown."""
    if len(sample) < n:
        return _LEAST
    return max(_LEAST, float(np.partition(sample, len(sample) - n)[len(sample) - n]))


def _best(
    scores: NDArray[np.float64], least: float, n: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return indices and values of the n best scores from `least` on, and of ties with the last, best first."""
    found = np.flatnonzero(scores >= least)
    values = scores[found]
    if len(found) > n:
        last = np.partition(values, len(found) - n)[len(found) - n]
        found, values = found[values >= last], values[values >= last]
    order = np.argsort(-values, kind="stable")
    return found[order], values[order]
