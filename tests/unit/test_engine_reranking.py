"""Reranking the hits of a search: joined scores, and hits that stay as they are when nothing came of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.engine.reranking import RerankPlan, check_budget, rerank
from whence.retrieval.rerank import blended_score
from whence.retrieval.results import RetrievalResult, RetrievedChunk
from whence.schema.errors import BadInput, DeadlineExceeded, ModelMissing, WhenceError
from whence.schema.rerank import RerankerResult, RerankRequest, RerankResponse


class FixedClient:
    """A client of a reranker with fixed scores; remembers what it was asked."""

    def __init__(self, scores: list[float], error: WhenceError | None = None) -> None:
        self.scores = scores
        self.error = error
        self.asked: list[tuple[str, RerankRequest, float]] = []

    async def call(self, interface: str, message: Any, reply: Any, *, timeout_s: float) -> Any:
        self.asked.append((interface, message, timeout_s))
        if self.error:
            raise self.error
        results = tuple(RerankerResult(str(n), "0", one) for n, one in enumerate(self.scores))
        return RerankResponse(results=results, model="fixed")


def hits(*scores: float) -> list[RetrievalResult]:
    return [
        RetrievalResult(
            rank=rank,
            similarity_score=score,
            chunk=RetrievedChunk(id=f"c{rank}", content=f"text {rank}", metadata={}),
        )
        for rank, score in enumerate(scores, 1)
    ]


async def test_hits_are_ordered_by_both_scores() -> None:
    """The order is that of the joined score; place and score before, and the reranker's, are kept."""
    client: Any = FixedClient([0.1, 0.9, 0.5])
    reranked = await rerank(client, "query", hits(0.60, 0.58, 0.30), RerankPlan(budget_s=3))
    ((interface, request, timeout_s),) = client.asked

    assert [one.chunk.id for one in reranked.results] == ["c2", "c1", "c3"]
    assert [one.rank for one in reranked.results] == [1, 2, 3]
    assert [one.similarity_score for one in reranked.results] == pytest.approx([0.596, 0.575, 0.31])
    before = [
        (one.reranking.rank_before, one.reranking.score)
        for one in reranked.results
        if one.reranking
    ]
    assert before == [(2, 0.9), (1, 0.1), (3, 0.5)]
    assert (reranked.model, reranked.degraded) == ("fixed", ())
    assert (interface, timeout_s, request.queries[0].text) == ("reranker", 3, "query")
    assert [one.text for one in request.documents] == ["text 1", "text 2", "text 3"]


async def test_a_definition_stays_before_mentions() -> None:
    """What goes by the name that is asked for keeps its score, and nothing else is boost_symbols to it."""
    named = msgspec.structs.replace(hits(0.99)[0], score_breakdown={"name_score": 0.5})
    mention = msgspec.structs.replace(hits(0.99, 0.9895)[1], rank=2)
    client: Any = FixedClient([0.0, 1.0])
    reranked = await rerank(client, "Cart.total", [named, mention], RerankPlan())

    assert [one.reranking.rank_before for one in reranked.results if one.reranking] == [1, 2]
    assert reranked.results[0].similarity_score == 0.99
    assert 0.98 < reranked.results[1].similarity_score < 0.99


@pytest.mark.parametrize(
    ("client", "plan", "code"),
    [
        (FixedClient([], DeadlineExceeded("too late")), RerankPlan(), "reranker_failed"),
        (FixedClient([], ModelMissing("no weights")), RerankPlan(), "reranker_failed"),
        (FixedClient([0.5]), RerankPlan(), "reranker_reply_invalid"),
        (FixedClient([]), RerankPlan(absent="WHENCE_RERANKER=none"), "no_reranker"),
    ],
    ids=["late", "missing", "short", "off"],
)
async def test_without_a_reranker_hits_stay_as_they_are(
    client: Any, plan: RerankPlan, code: str
) -> None:
    """Whatever keeps the reranker from scoring costs the order and nothing else, and is told."""
    before = hits(0.6, 0.5)
    reranked = await rerank(client, "query", before, plan)

    assert reranked.results == before
    assert reranked.model == ""
    assert [(one.stage, one.code) for one in reranked.degraded] == [("rerank", code)]


async def test_nothing_found_asks_nobody() -> None:
    """Without hits there is nothing to read."""
    client: Any = FixedClient([])

    assert (await rerank(client, "query", [], RerankPlan())).results == []
    assert client.asked == []


@pytest.mark.parametrize("budget_s", [0.0, -1.0, float("nan"), float("inf"), 601.0])
def test_a_time_that_is_none_is_refused(budget_s: float) -> None:
    """The time for reranking has a range."""
    with pytest.raises(BadInput, match="time for reranking"):
        check_budget(budget_s)


_score = st.floats(0, 1)


@given(_score, _score, _score)
def test_a_joined_score_keeps_its_scale(retrieved: float, one: float, other: float) -> None:
    """It is 0 to 1, between both scores, and grows with each."""
    joined = blended_score(retrieved, one)

    assert min(retrieved, one) - 1e-12 <= joined <= max(retrieved, one) + 1e-12
    assert (blended_score(retrieved, other) >= joined) or other < one
