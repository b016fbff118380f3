"""Measures of a ranking against what was judged relevant. Pure functions; ranks count from 1.

`gains` is the list of gains in rank order: 0 for a result that is not relevant, the grade of one that is.
Recall, MRR and nDCG are those of trec_eval: `recall_k`, `recip_rank` cut at k, and `ndcg_cut_k`, whose gain
is linear in the grade and whose discount is log2(rank + 1) (Järvelin and Kekäläinen, "Cumulated gain-based
evaluation of IR techniques", 2002).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction


def recall(gains: Sequence[float], relevant: int, k: int) -> float:
    """Return the share of the relevant that is within the first k, 0 to 1.

    >>> recall([0, 1, 1], relevant=4, k=2)
    0.25
    """
    return sum(gain > 0 for gain in gains[:k]) / relevant if relevant else 0.0


def reciprocal_rank(gains: Sequence[float], k: int) -> float:
    """Return 1 / rank of the first relevant result within the first k, else 0.

    >>> reciprocal_rank([0, 0, 1], k=10)
    0.3333333333333333
    """
    for rank, gain in enumerate(gains[:k], 1):
        if gain > 0:
            return 1 / rank
    return 0.0


def ndcg(gains: Sequence[float], judged: Iterable[float], k: int) -> float:
    """Return the discounted gain of the first k over that of the best order of all judged, 0 to 1.

    The ideal does not depend on how much was returned: a short answer is not a perfect one.

    >>> round(ndcg([0, 3], judged=[3], k=10), 3)
    0.631
    """
    ideal = _discounted(sorted(judged, reverse=True)[:k])
    # Rounding may put the same sum in another order an ulp above 1.
    return min(1.0, _discounted(gains[:k]) / ideal) if ideal else 0.0


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(max(0.0, gain) / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def clustering_ratio(places: Sequence[str]) -> float | None:
    """Return the share of the most frequent place among the results; None for fewer than two.

    One result is always all from one place, so it says nothing about diversity.

    >>> clustering_ratio(["a.md", "b.md", "a.md", "c.md"])
    0.5
    """
    if len(places) < 2:
        return None
    return Counter(places).most_common(1)[0][1] / len(places)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile by the nearest rank: the value at place ceil(percent/100 * n), from 1; 0 of none.

    >>> percentile([5.0, 1.0, 3.0], 50)
    3.0
    """
    if not values:
        return 0.0
    # Exact arithmetic: 0.07 * 100 is above 7 in binary floating point.
    place = math.ceil(Fraction(percent, 100) * len(values))
    return sorted(values)[place - 1]


def mean(values: Iterable[float]) -> float:
    """Return the plain mean; 0 of none. The order of the values does not change a bit of it.

    >>> mean([1.0, 2.0])
    1.5
    """
    found = list(values)
    return math.fsum(found) / len(found) if found else 0.0
