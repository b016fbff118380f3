"""Choose the share of the reranker's score on all collections but one, and judge it on that one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

__all__ = ("SHARES", "chosen", "judged")

#: Shares of the reranker's score that are tried, ascending; 0 leaves the order as it is.
SHARES = (0.0, 0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3)
#: Of each query its nDCG@10 by share.
Rows = Sequence[Sequence[float]]


def chosen(collections: Sequence[Rows]) -> int:
    """Return the place in `SHARES` of the smallest whose mean is within one standard error of the best.

    The rule of one standard error (Breiman and others, "Classification and Regression Trees", 1984, section
    3.4.3): what cannot be told from the best by these queries is judged by how little it can spoil. The error
    is that of the difference, over queries that are paired, of the mean of the collections' means.

    Args:
        collections: Rows of each, two queries or more.
    """
    means = [
        [statistics.fmean(column) for column in zip(*rows, strict=True)] for rows in collections
    ]
    overall = [statistics.fmean(column) for column in zip(*means, strict=True)]
    best = overall.index(max(overall))
    return next(
        place
        for place in range(len(SHARES))
        if overall[best] - overall[place] <= _error(collections, best, place)
    )


def _error(collections: Sequence[Rows], one: int, other: int) -> float:
    variances = (
        statistics.variance([row[one] - row[other] for row in rows]) / len(rows)
        for rows in collections
    )
    return math.sqrt(sum(variances)) / len(collections)


def judged(collections: Mapping[str, Rows]) -> dict[str, tuple[float, float]]:
    """Return for each collection the share chosen on the others, and what nDCG@10 gains by it."""
    found = {}
    for name, rows in collections.items():
        place = chosen([some for other, some in collections.items() if other != name])
        gain = statistics.fmean(row[place] - row[0] for row in rows)
        found[name] = (SHARES[place], gain)
    return found
