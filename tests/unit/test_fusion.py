"""Fusion: one scale for every query, and the order is the score's order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from whence.retrieval.fusion import (
    FUSIONS,
    evidence,
    lexical_score,
    rank_candidates,
    score_of,
)
from whence.schema.search import Candidate
from whence.store.bm25 import query_weights, share

cosines = st.none() | st.floats(-1, 1)
shares = st.none() | st.floats(0, 1)


def scored(dense: float | None, lexical: float | None) -> Candidate:
    """Return a chunk with these scores; a retriever with None did not rank."""
    return Candidate(
        chunk_id="c", document_id="d", score=0.0, rank=0, dense_score=dense, sparse_score=lexical
    )


def absolute_score(chunk: Candidate) -> float:
    """Return the score of a chunk."""
    return score_of(evidence(chunk))


both = st.builds(scored, cosines, shares)
found = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), both, max_size=12).map(
    lambda some: {key: replace(one, chunk_id=key) for key, one in some.items()}
)


@pytest.mark.parametrize(
    ("cosine", "share", "score"),
    [
        (0.0, 0.0, 0.0),
        (1.0, 1.0, 1.0),
        (0.65, 0.0, 0.4990),
        (0.65, None, 0.4990),
        (-0.5, 0.3, 0.4503),
    ],
)
def test_the_absolute_score_is_the_formula(
    cosine: float, share: float | None, score: float
) -> None:
    """Values computed by hand: 1.42 s / (s + 0.42) with s = 0.35 cosine + 0.65 share."""
    assert absolute_score(scored(cosine, share)) == pytest.approx(score, abs=1e-4)


@given(both, st.floats(0, 1), st.floats(0, 1))
def test_the_score_grows_with_both_retrievers(one: Candidate, more: float, share: float) -> None:
    """The score grows with both scores and stays within 0 and 1."""
    dense, lexical = one.dense_score or 0.0, one.sparse_score or 0.0
    better = scored(max(dense, more), max(lexical, share))

    assert 0.0 <= absolute_score(one) <= absolute_score(better) <= 1.0


@given(both)
def test_a_missing_retriever_can_only_lower_a_score(one: Candidate) -> None:
    """A degraded score is never above the complete one."""
    assert absolute_score(scored(one.dense_score, None)) <= absolute_score(one)
    assert absolute_score(scored(None, one.sparse_score)) <= absolute_score(one)


@given(found, found)
def test_the_absolute_score_does_not_depend_on_other_chunks(
    some: dict[str, Candidate], others: dict[str, Candidate]
) -> None:
    """A chunk's score does not depend on the other chunks found."""
    together = {**others, **some}
    alone = FUSIONS["absolute"](some)

    assert all(FUSIONS["absolute"](together)[key] == alone[key] for key in some)


@pytest.mark.parametrize("method", sorted(FUSIONS))
@given(scores=found, limit=st.integers(1, 15), threshold=st.floats(0, 1))
def test_a_fused_ranking_is_valid(
    method: str, scores: dict[str, Candidate], limit: int, threshold: float
) -> None:
    """Sorted, within 0 and 1, thresholded, limited, ranked from 1, ties by id, independent of input order."""
    join = FUSIONS[method]  # type: ignore[index]
    reverse = dict(reversed(scores.items()))
    ranking = rank_candidates(scores, join(scores), limit=limit, threshold=threshold)
    turned = rank_candidates(reverse, join(reverse), limit=limit, threshold=threshold)

    assert ranking == turned
    assert len(ranking) <= limit
    assert [one.rank for one in ranking] == list(range(1, len(ranking) + 1))
    keys = [(-one.score, one.chunk_id) for one in ranking]
    assert keys == sorted(keys)
    assert all(threshold <= one.score <= 1.0 + 1e-9 for one in ranking)
    assert all(replace(one, score=0.0, rank=0) == scores[one.chunk_id] for one in ranking)
    best = FUSIONS[method](scores)  # type: ignore[index]
    passed = sum(score >= threshold for score in best.values())
    assert len(ranking) == min(limit, passed)


def test_a_rare_word_alone_is_enough() -> None:
    """The only chunk with the one word of a query ranks above similar chunks and above the threshold."""
    weights, _ = query_weights({"ledgerly": 1}, {"ledgerly": 1}, 2000)
    with_word = scored(0.1, share(weights, {"ledgerly": 1}, 80, 80.0))

    assert absolute_score(with_word) > absolute_score(scored(0.5, 0.0))
    assert absolute_score(with_word) > 0.5


@given(st.floats(0, 1))
def test_words_alone_have_the_same_scale(share: float) -> None:
    """The lexical score is within 0 and 1 and grows with the share."""
    assert 0.0 <= lexical_score(share) <= 1.0
    assert lexical_score(share) >= lexical_score(share / 2)
