"""Measures: values worked out by hand, and the laws they obey."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.evaluation import measures
from whence.evaluation.measures import (
    clustering_ratio,
    mean,
    ndcg,
    percentile,
    recall,
    reciprocal_rank,
)

grades = st.lists(st.integers(0, 4), max_size=30)
cutoffs = st.integers(1, 40)


def test_docstring_examples_are_correct() -> None:
    """Examples in docstrings produce the output shown."""
    result = doctest.testmod(measures)

    assert (result.failed, result.attempted > 4) == (0, True)


def test_recall_counts_what_is_within_the_cutoff() -> None:
    """Two of three relevant within 3, all of them within 4, none to find is 0."""
    gains = [1, 0, 2, 1]

    assert recall(gains, 3, 3) == pytest.approx(2 / 3)
    assert recall(gains, 3, 4) == 1.0
    assert recall(gains, 0, 4) == 0.0


def test_reciprocal_rank_is_of_the_first_relevant_within_the_cutoff() -> None:
    """Rank 3 is a third, and 0 with a cutoff of 2."""
    assert reciprocal_rank([0, 0, 4, 1], 10) == pytest.approx(1 / 3)
    assert reciprocal_rank([0, 0, 4, 1], 2) == 0.0
    assert reciprocal_rank([], 10) == 0.0


def test_ndcg_is_linear_in_the_grade() -> None:
    """Grades 1, 0, 3 of judged 3, 2, 1, worked out by hand."""
    gained = 1 / math.log2(2) + 3 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)

    assert ndcg([1, 0, 3], [1, 2, 3], 10) == pytest.approx(gained / ideal)
    assert ndcg([1, 0, 3], [1, 2, 3], 10) == pytest.approx(0.525005, abs=1e-6)


def test_ndcg_of_a_short_answer_is_not_perfect() -> None:
    """One of two relevant returned alone is less than 1; with k=1 it is all that fits."""
    assert ndcg([1], [1, 1], 10) == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert ndcg([1], [1, 1], 1) == 1.0


def test_judged_not_relevant_neither_gains_nor_costs() -> None:
    """Grades of 0 and below are gains of 0."""
    assert ndcg([-1, 2], [2, -1, 0], 10) == pytest.approx(1 / math.log2(3))
    assert ndcg([0], [0, -1], 10) == 0.0


def test_clustering_is_defined_for_two_and_more() -> None:
    """A single result has no ratio; three of four from one file is 0.75."""
    assert clustering_ratio([]) is None
    assert clustering_ratio(["a"]) is None
    assert clustering_ratio(["a", "b", "a", "a"]) == 0.75


@pytest.mark.parametrize(
    ("percent", "expected"), [(5, 15), (30, 20), (40, 20), (50, 35), (100, 50), (1, 15)]
)
def test_percentiles_are_nearest_rank(percent: int, expected: float) -> None:
    """The textbook example of the nearest-rank method."""
    assert percentile([50, 15, 40, 20, 35], percent) == expected


def test_a_percentile_is_exact_where_floats_are_not() -> None:
    """7 % of 100 values is the seventh, though 0.07 * 100 is above 7."""
    assert percentile(range(1, 101), 7) == 7
    assert percentile([], 95) == 0.0


@given(grades, cutoffs)
def test_measures_are_shares(gains: list[int], k: int) -> None:
    """Every measure is 0 to 1, and 1 for the ideal order of all documents."""
    relevant = sum(gain > 0 for gain in gains)
    ideal = sorted(gains, reverse=True)

    for value in (recall(gains, relevant, k), reciprocal_rank(gains, k), ndcg(gains, gains, k)):
        assert 0.0 <= value <= 1.0
    if relevant:
        assert ndcg(ideal, gains, k) == pytest.approx(1.0)
        assert reciprocal_rank(ideal, k) == 1.0
        assert recall(ideal, relevant, max(k, len(gains))) == 1.0


@given(grades, cutoffs)
def test_recall_and_reciprocal_rank_grow_with_the_cutoff(gains: list[int], k: int) -> None:
    """A larger cutoff never lowers them."""
    assert recall(gains, 30, k) <= recall(gains, 30, k + 1)
    assert reciprocal_rank(gains, k) <= reciprocal_rank(gains, k + 1)


@given(grades.filter(lambda g: len(g) > 1), st.data())
def test_moving_the_better_up_never_lowers_ndcg(gains: list[int], data: st.DataObject) -> None:
    """Swapping a neighbouring pair into the right order never lowers nDCG."""
    place = data.draw(st.integers(0, len(gains) - 2))
    better = [*gains]
    better[place : place + 2] = sorted(gains[place : place + 2], reverse=True)

    assert ndcg(better, gains, 30) >= ndcg(gains, gains, 30) - 1e-12


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_one_of_the_values(values: list[float], percent: int) -> None:
    """At least that share of the values is not above it."""
    found = percentile(values, percent)

    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)


@given(st.lists(st.floats(-1e9, 1e9), max_size=20), st.randoms(use_true_random=False))
def test_a_mean_does_not_depend_on_the_order(values: list[float], random: object) -> None:
    """The same values in another order have the same mean, to the last bit."""
    shuffled = [*values]
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert mean(shuffled) == mean(values)
