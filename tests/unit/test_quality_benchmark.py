"""Parts of the quality benchmark: the choice of the reranking share, and the test of what it gains."""

from __future__ import annotations

import pytest
from benchmarks.rerank_shares import SHARES, chosen, judged, randomization_p


def _rows(*gains: float, queries: int = 20) -> list[list[float]]:
    """Return rows in which each share gains an amount."""
    return [list(gains) for _ in range(queries)]


def test_the_smallest_of_the_best_shares_is_chosen() -> None:
    """Collections weigh the same, however many queries they have."""
    gains = [0.0, 0.0, 0.09, *([0.1] * (len(SHARES) - 4)), 0.0]
    other = [0.0, 0.3, *([0.0] * (len(SHARES) - 2))]

    assert chosen([_rows(*gains), _rows(*gains)]) == 3
    assert chosen([_rows(*gains, queries=900), _rows(*other, queries=2)]) == 1


def test_shares_are_chosen_on_other_collections() -> None:
    """The share is chosen on the other collections, and its gain measured on the one left out."""
    flat = [0.0] * len(SHARES)
    lost, won = list(flat), list(flat)
    lost[4], won[4] = -0.2, 0.1
    rows = {"a": _rows(*won), "b": _rows(*won), "odd": _rows(*lost)}
    found = judged(rows)

    assert (found["odd"].share, found["odd"].gain) == (SHARES[4], pytest.approx(-0.2))
    assert (found["a"].share, found["a"].gain, found["a"].p) == (0.0, 0.0, 1.0)
    assert found["all"].gain == pytest.approx(-0.2 / 3)
    assert judged(rows, SHARES[4])["all"].gain == pytest.approx(0.0)


def test_chance_and_gain_are_told_apart() -> None:
    """A gain of every query is no chance, one of half of them is; order and sign do not matter."""
    steady, mixed = [0.01] * 20, [0.01, -0.01] * 10

    assert randomization_p(steady) < 0.001
    assert randomization_p([-one for one in steady]) == randomization_p(steady)
    assert randomization_p(mixed) == 1.0
