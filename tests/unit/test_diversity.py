"""Maximal marginal relevance: which passages it chooses, and its laws."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from whence.retrieval.diversity import Diversified, check_diversity, diversify
from whence.schema.errors import BadInput

RETURNS = "apple banana fruit return policy"
RETURNS_AGAIN = "apple banana fruit return policy duplicate"
ENGINES = "engine motor vehicle warranty"

words = st.sampled_from(["apple", "pear", "the", "engine", "motor", "refund", "\u4f11\u6687"])
texts = st.lists(words, max_size=5).map(" ".join)
#: Passages with scores, best first, as a reranker returns them.
rankings = st.lists(st.tuples(texts, st.floats(-1e308, 1e308)), max_size=8).map(
    lambda some: sorted(some, key=lambda one: -one[1])
)
limits = st.integers(0, 9)
lambdas = st.floats(0, 1)


def choose(ranking: list[tuple[str, float]], limit: int, lambda_: float) -> Diversified:
    return diversify([text for text, _ in ranking], [score for _, score in ranking], limit, lambda_)


def test_a_passage_that_repeats_another_gives_way() -> None:
    """A passage with five of six terms of the best gives way to a less relevant one about something else."""
    chosen = diversify([RETURNS, RETURNS_AGAIN, ENGINES], [1.0, 0.95, 0.9], 2, 0.2)

    assert chosen.kept == (0, 2)
    assert chosen.overlaps == pytest.approx((0.0, 5 / 6, 0.0))
    assert chosen.scores == pytest.approx((0.2, 0.2 * 0.5 - 0.8 * 5 / 6, 0.0))


def test_relevance_decides_where_passages_differ() -> None:
    """Without terms in common the order stays."""
    chosen = diversify(["alpha", "beta", "gamma"], [3.0, 2.0, 1.0], 3, 0.3)

    assert chosen.kept == (0, 1, 2)


def test_stop_words_and_endings_do_not_tell_passages_apart() -> None:
    """Terms are those of the index: stemmed, without stop words."""
    chosen = diversify(["The engines", "engine", "of the motor"], [1.0, 0.9, 0.1], 2, 0.4)

    assert chosen.kept == (0, 2)
    assert chosen.overlaps[1] == 1.0


def test_characters_without_spaces_are_compared_by_pairs() -> None:
    """Text of a script without spaces is compared by pairs of characters, not as one word."""
    chosen = diversify(
        ["\u6709\u7d66\u4f11\u6687", "\u4f11\u6687", "\u6b8b\u696d"], [1.0, 0.9, 0.8], 2, 0.1
    )

    assert chosen.kept == (0, 2)


def test_relevance_is_the_place_between_the_lowest_and_the_highest() -> None:
    """Also where their difference is not finite, and of one passage one half."""
    assert choose([("a", 1e308), ("b", 0.0), ("c", -1e308)], 3, 1.0).scores == (1.0, 0.5, 0.0)
    assert choose([("a", 0.0), ("b", -3.0), ("c", -4.0)], 3, 1.0).scores == (1.0, 0.25, 0.0)
    assert choose([("a", 3.0)], 1, 1.0).scores == (0.5,)
    assert choose([], 1, 1.0) == Diversified((), (), ())


def test_equal_scores_count_one_half() -> None:
    """With equal scores diversity alone decides, and ties go to the first."""
    chosen = diversify([RETURNS, RETURNS_AGAIN, ENGINES, "motor"], [2.0] * 4, 3, 0.5)

    assert chosen.kept == (0, 2, 3)
    assert chosen.scores[0] == 0.25


@settings(deadline=None)
@example(ranking=[("a", 5e-324), ("b", 0.0)], limit=2, lambda_=0.5)
@given(ranking=rankings, limit=limits, lambda_=lambdas)
def test_the_choice_is_part_of_what_was_given(
    ranking: list[tuple[str, float]], limit: int, lambda_: float
) -> None:
    """Each passage is chosen once at most, as many as the limit allows, the best one first."""
    kept = choose(ranking, limit, lambda_).kept

    assert len(kept) == min(limit, len(ranking))
    assert len(set(kept)) == len(kept)
    assert set(kept) <= set(range(len(ranking)))
    assert kept[:1] == tuple(range(len(ranking)))[:1][:limit]


@settings(deadline=None)
@given(ranking=rankings, limit=limits)
def test_relevance_alone_keeps_the_order(ranking: list[tuple[str, float]], limit: int) -> None:
    """With a lambda of 1 the first passages stay, in their order."""
    assert choose(ranking, limit, 1.0).kept == tuple(range(len(ranking)))[:limit]


@settings(deadline=None)
@given(ranking=rankings, limit=limits, lambda_=lambdas)
def test_a_larger_limit_adds_to_the_choice(
    ranking: list[tuple[str, float]], limit: int, lambda_: float
) -> None:
    """What is chosen first does not depend on how many follow."""
    assert choose(ranking, limit + 1, lambda_).kept[:limit] == choose(ranking, limit, lambda_).kept


@settings(deadline=None)
@given(ranking=rankings, limit=limits, lambda_=lambdas)
def test_no_passage_left_out_was_better_at_the_last_choice(
    ranking: list[tuple[str, float]], limit: int, lambda_: float
) -> None:
    """Scores and overlaps are in range, and after the first choice none left out has a higher score."""
    chosen = choose(ranking, limit, lambda_)

    assert all(0.0 <= one <= 1.0 for one in chosen.overlaps)
    assert all(-1.0 <= one <= 1.0 for one in chosen.scores)
    left = [one for place, one in enumerate(chosen.scores) if place not in chosen.kept]
    if len(chosen.kept) > 1 and left:
        assert max(left) <= chosen.scores[chosen.kept[-1]]


@settings(deadline=None)
@given(ranking=rankings, limit=limits, lambda_=lambdas, factor=st.sampled_from([0.5, 2.0, 8.0]))
def test_the_scale_of_scores_does_not_matter(
    ranking: list[tuple[str, float]], limit: int, lambda_: float, factor: float
) -> None:
    """Scores of another scale, such as logits, choose the same passages."""
    small = [(text, score / 1e300) for text, score in ranking]
    scaled = [(text, score * factor) for text, score in small]

    assert choose(scaled, limit, lambda_).kept == choose(small, limit, lambda_).kept


@pytest.mark.parametrize(
    ("mode", "lambda_", "message"),
    [
        ("mrr", None, "unknown diversity 'mrr'"),
        ("mmr", 1.5, "0 to 1"),
        ("mmr", float("nan"), "0 to 1"),
    ],
)
def test_unknown_choices_are_refused(mode: str, lambda_: float | None, message: str) -> None:
    """A mode or weight that does not exist is refused with what exists."""
    with pytest.raises(BadInput, match=message):
        check_diversity(mode, lambda_)
