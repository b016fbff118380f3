"""Adding up postings in memory: from bytes of visible runs to the best places, exactly, in whole arrays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ("POSTING_BYTES", "Run", "top_scores")

#: A place in two bytes, an impact in four.
POSTING_BYTES = 6
#: With so many times as many places as postings, places are not laid out one by one.
_SPARSE = 8
#: Scores that the least score worth sorting is taken from.
_SAMPLE = 4096
_LEAST = float(np.finfo(np.float64).smallest_subnormal)


class Run(msgspec.Struct, frozen=True):
    """Postings of one term in one segment."""

    base: int
    """What makes a place of the segment one among all segments."""
    weight: float
    """Part of the query's bound, a multiple of 2**-28."""
    postings: bytes
    """All places, uint16, each once; then the impact of each, float32, a multiple of 2**-24; little endian."""

    def places(self) -> NDArray[np.intp]:
        """Return the places in the segment, shape (n,)."""
        n = len(self.postings) // POSTING_BYTES
        return np.frombuffer(self.postings, "<u2", n).astype(np.intp)

    def values(self) -> NDArray[np.float64]:
        """Return what each posting adds to the score, shape (n,)."""
        n = len(self.postings) // POSTING_BYTES
        return np.frombuffer(self.postings, "<f4", n, 2 * n) * np.float64(self.weight)


class _Board(threading.local):
    """Scores by place, kept from query to query: new memory of this size costs more than adding up does."""

    def __init__(self) -> None:
        self._scores = np.empty(0)

    def cleared(self, size: int) -> NDArray[np.float64]:
        """Return zeros, shape (size,), until the next call in this thread."""
        if len(self._scores) < size:
            self._scores = np.empty(size + size // 4)
        scores = self._scores[:size]
        scores.fill(0.0)
        return scores


_board = _Board()


def top_scores(
    runs: Sequence[Run], size: int, n: int, kept: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the n best places and their scores, best first, and all that tie with the last.

    Places that nothing is added to are left out; ties are in the order of places. Sums are exact, see
    `lexicon.bm25`: neither the order of runs nor the way they are added up changes a bit. Cost: linear in the
    postings, and with many of them in the places.

    Args:
        runs: All postings of a query; those of one term have different bases.
        size: Places in all segments.
        n: How many to give, 1 or more.
        kept: Whether each place may be found, shape (size,); None when all may.
    """
    ordered = sorted(runs, key=lambda run: run.weight, reverse=True)
    if sum(len(run.postings) for run in ordered) // POSTING_BYTES * _SPARSE < size:
        places, scores = _listed(ordered)
        scores = scores if kept is None else scores * kept[places]
        chosen, values = _chosen(scores, _level(scores, n), n)
        return places[chosen], values
    scores = _laid_out(ordered, size)
    if kept is not None:
        scores *= kept
    # Places of one run are all different: their n-th best is no better than the n-th best of all.
    sample = scores[ordered[0].places()[:_SAMPLE] + ordered[0].base]
    return _chosen(scores, _level(sample, n), n)


def _listed(runs: Sequence[Run]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return all places, ascending, and their scores."""
    found = np.concatenate([np.empty(0, np.intp), *(run.places() + run.base for run in runs)])
    values = np.concatenate([np.empty(0), *(run.values() for run in runs)])
    places, inverse = np.unique(found, return_inverse=True)
    scores: NDArray[np.float64] = np.bincount(inverse, values, len(places)).astype(np.float64)
    return places, scores


def _laid_out(runs: Sequence[Run], size: int) -> NDArray[np.float64]:
    """Return the scores of all places, shape (size,); the memory is used again by the next query."""
    scores = _board.cleared(size)
    for run in runs:
        np.add.at(scores[run.base :], run.places(), run.values())
    return scores


def _level(sample: NDArray[np.float64], n: int) -> float:
    """Return a score that at least n places reach; the least above 0 when that is not known."""
    if len(sample) < n:
        return _LEAST
    return max(_LEAST, float(np.partition(sample, len(sample) - n)[len(sample) - n]))


def _chosen(
    scores: NDArray[np.float64], level: float, n: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return where the n best stand, and all that tie with the last, in order; none is below the level."""
    found = np.flatnonzero(scores >= level)
    values = scores[found]
    if len(found) > n:
        last = np.partition(values, len(found) - n)[len(found) - n]
        found, values = found[values >= last], values[values >= last]
    order = np.argsort(-values, kind="stable")
    return found[order], values[order]
