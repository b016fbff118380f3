"""Measures of a ranking against what was judged relevant. Pure functions; ranks count from 1.

`gains` is the list of gains in rank order: 0 for a result that is not relevant, the grade of one that is.
Recall, MRR and nDCG are those of trec_eval: `recall_k`, `recip_rank` cut at k, and `ndcg_cut_k`, whose gain
is linear in the grade and whose discount is log2(rank + 1) (Järvelin and Kekäläinen, "Cumulated gain-based
evaluation of IR techniques", 2002).

Significance is seeded: equal numbers give equal results. Efron and Tibshirani, "An Introduction to the
Bootstrap", 1993; Smucker, Allan and Carterette, "A Comparison of Statistical Significance Tests for
Information Retrieval Evaluation", 2007.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple


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
    return max(Counter(places).values()) / len(places)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile by the nearest rank: the value at place ceil(percent/100 * n), from 1; 0 of none.

    >>> percentile([5.0, 1.0, 3.0], 50)
    3.0
    """
    if not values:
        return 0.0
    # Integers: 0.07 * 100 is above 7 in binary floating point.
    place = -(-percent * len(values) // 100)
    return sorted(values)[place - 1]


def is_maximum(percent: int, count: int) -> bool:
    """Return whether a percentile of this many values is their maximum.

    p95 needs 20 values, p99 100.

    >>> [is_maximum(95, count) for count in (8, 19, 20)]
    [True, True, False]
    """
    return -(-percent * count // 100) >= count


def mean(values: Iterable[float]) -> float:
    """Return the plain mean; 0 of none. The order of the values does not change a bit of it.

    >>> mean([1.0, 2.0])
    1.5
    """
    found = list(values)
    return math.fsum(found) / len(found) if found else 0.0


_RESAMPLES = 2000
#: Numbers in memory at a time, 8 MB.
_NUMBERS = 1_000_000
_SIGNS = 20_000
#: Up to this many pairs all signs are tried (2^14 = 16384), with more pairs random ones.
_EXACT = 14
_SEED = 20071106
#: Sums that differ by less are equal.
_EPSILON = 1e-12


class Interval(NamedTuple):
    """95 % confidence interval of a mean."""

    low: float
    high: float


def bootstrap_interval(values: Sequence[float]) -> Interval:
    """Return the confidence interval of a mean over queries, by percentiles of resampled means.

    Cost: 2000 times the number of values.

    >>> bootstrap_interval([1.0, 1.0, 1.0])
    Interval(low=1.0, high=1.0)
    """
    import numpy as np

    if not values:
        return Interval(0.0, 0.0)
    sample = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(_SEED)
    at_once = max(1, _NUMBERS // len(sample))
    blocks = [min(at_once, _RESAMPLES - done) for done in range(0, _RESAMPLES, at_once)]
    drawn = (sample[rng.integers(0, len(sample), (rows, len(sample)))] for rows in blocks)
    means = np.sort(np.concatenate([block.mean(axis=1) for block in drawn]))
    low, high = means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]
    return Interval(round(float(low), 6), round(float(high), 6))


def paired_p_value(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of a mean difference over queries, by a randomization test.

    The signs of the differences are permuted: all combinations for few queries, 20,000 random ones for more.

    >>> paired_p_value([0.0, 0.0])
    1.0
    >>> paired_p_value([1.0] * 5)
    0.0625
    """
    import numpy as np

    nonzero = np.asarray([one for one in differences if one], dtype=np.float64)
    if not len(nonzero):
        return 1.0
    observed = abs(float(nonzero.sum()))
    if len(nonzero) <= _EXACT:
        bits = (np.arange(2 ** len(nonzero))[:, None] >> np.arange(len(nonzero))) & 1
        sums = np.abs((1.0 - 2.0 * bits) @ nonzero)
        return float(np.mean(sums >= observed - _EPSILON))
    rng = np.random.default_rng(_SEED)
    sums = np.abs(rng.choice((-1.0, 1.0), (_SIGNS, len(nonzero))) @ nonzero)
    # The observed signs count as one of the random ones, so that the value is never 0.
    return float((np.sum(sums >= observed - _EPSILON) + 1) / (_SIGNS + 1))
