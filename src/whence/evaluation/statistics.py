"""Statistical significance: intervals by bootstrap, and a paired randomization test.

Both are seeded: equal numbers give equal results. Efron and Tibshirani, "An Introduction to the
Bootstrap", 1993; Smucker, Allan and Carterette, "A Comparison of Statistical Significance Tests for
Information Retrieval Evaluation", 2007.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
