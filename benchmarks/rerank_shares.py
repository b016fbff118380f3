"""Choose the share of the reranker's score on all collections but one, judge it there, and test the gain."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

__all__ = ("SHARES", "Gain", "chosen", "judged", "randomization_p")

#: Shares of the reranker's score that are tried, ascending; 0 leaves the order as it is, 1 is the model alone.
SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0)
#: Of each query its nDCG@10 by share.
Rows = Sequence[Sequence[float]]
_ROUNDS = 10_000


class Gain(msgspec.Struct, frozen=True):
    """What a share that was chosen elsewhere changes."""

    share: float
    gain: float
    """Mean difference of nDCG@10."""
    p: float
    """Of the two-sided test."""


def chosen(collections: Sequence[Rows]) -> int:
    """Return the place in `SHARES` of the smallest one with the best mean of the collections' means."""
    means = [
        [statistics.fmean(column) for column in zip(*rows, strict=True)] for rows in collections
    ]
    overall = [statistics.fmean(column) for column in zip(*means, strict=True)]
    return overall.index(max(overall))


def randomization_p(differences: Sequence[float]) -> float:
    """Return the p of the paired randomization test: how often random signs give as large a sum.

    See Smucker and others, "A comparison of statistical significance tests for information retrieval
    evaluation", 2007. The signs are those of a generator with a fixed seed.
    """
    values = np.array(differences, dtype=np.float64)
    random = np.random.default_rng(7)
    observed = abs(values.sum()) - 1e-12
    sums = np.abs(random.choice([-1.0, 1.0], size=(_ROUNDS, len(values))) @ values)
    return float(((sums >= observed).sum() + 1) / (_ROUNDS + 1))


def judged(collections: Mapping[str, Rows], in_use: float | None = None) -> dict[str, Gain]:
    """Return for each collection what a share gains, and under the name `all` for all together.

    Together each collection weighs the same, and the share is the one that most collections have.

    Args:
        collections: Rows of each.
        in_use: The share of all; None for the one chosen on the other collections.
    """
    found: dict[str, Gain] = {}
    pooled: list[float] = []
    for name, rows in collections.items():
        others = [some for other, some in collections.items() if other != name]
        place = chosen(others) if in_use is None else SHARES.index(in_use)
        gains = [row[place] - row[0] for row in rows]
        found[name] = Gain(SHARES[place], statistics.fmean(gains), randomization_p(gains))
        pooled += [gain / len(gains) / len(collections) for gain in gains]
    share = statistics.mode(one.share for one in found.values())
    return {**found, "all": Gain(share, sum(pooled), randomization_p(pooled))}
