"""Reranking the results of a search: joined scores, and results that stay as they are on a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from whence.retrieval.pipeline import check_budget, rerank_results
from whence.retrieval.results import RetrievalResult, RetrievedChunk
from whence.retrieval.services import Passage, RerankReply
from whence.schema.errors import BadInput, DeadlineExceeded, ModelMissing, WhenceError
from whence.schema.rerank import RerankerResult


class FixedServices:
    """Services with a reranker of fixed scores, half of the final score; remembers what it was asked."""

    def __init__(self, scores: list[float], error: WhenceError | None = None) -> None:
        self.scores = scores
        self.error = error
        self.asked: list[tuple[str, list[str]]] = []

    async def rerank(
        self, query: str, passages: Sequence[Passage], scores: Any, limit: int
    ) -> RerankReply:
        self.asked.append((query, [one.text for one in passages]))
        if self.error:
            raise self.error
        results = [
            RerankerResult(str(n), "0", one, (one + scores[n]) / 2)
            for n, one in enumerate(self.scores)
        ]
        return RerankReply(results, "fixed")


async def _reranked(
    services: Any, query: str, results: list[RetrievalResult], absent: str = ""
) -> Any:
    passages = [Passage(chunk_id=one.chunk.id, text=one.chunk.content) for one in results]
    return await rerank_results(services, query, results, passages, absent)


def hits(*scores: float) -> list[RetrievalResult]:
    return [
        RetrievalResult(
            rank=rank,
            similarity_score=score,
            chunk=RetrievedChunk(id=f"c{rank}", content=f"text {rank}", metadata={}),
        )
        for rank, score in enumerate(scores, 1)
    ]


async def test_hits_are_ordered_by_the_final_score() -> None:
    """Hits have the final score; former place and score, and what the model said, are kept."""
    services: Any = FixedServices([0.1, 0.9, 0.5])
    reranked = await _reranked(services, "query", hits(0.60, 0.58, 0.30))

    assert [one.chunk.id for one in reranked.results] == ["c2", "c3", "c1"]
    assert [one.rank for one in reranked.results] == [1, 2, 3]
    assert [one.similarity_score for one in reranked.results] == pytest.approx([0.74, 0.4, 0.35])
    before = [
        (one.reranking.rank_before, one.reranking.score)
        for one in reranked.results
        if one.reranking
    ]
    assert before == [(2, 0.9), (3, 0.5), (1, 0.1)]
    assert (reranked.model, reranked.degraded) == ("fixed", ())
    assert services.asked == [("query", ["text 1", "text 2", "text 3"])]


async def test_a_definition_stays_before_mentions() -> None:
    """A definition of the queried symbol keeps its score, and no other hit rises above it."""
    named = msgspec.structs.replace(hits(0.99)[0], score_breakdown={"name_score": 0.5})
    mention = msgspec.structs.replace(hits(0.99, 0.9895)[1], rank=2)
    services: Any = FixedServices([0.0, 1.0])
    reranked = await _reranked(services, "Cart.total", [named, mention])

    assert [one.reranking.rank_before for one in reranked.results if one.reranking] == [1, 2]
    assert reranked.results[0].similarity_score == 0.99
    assert 0.98 < reranked.results[1].similarity_score < 0.99


@pytest.mark.parametrize(
    ("services", "absent", "code"),
    [
        (FixedServices([], DeadlineExceeded("too late")), "", "reranker_failed"),
        (FixedServices([], ModelMissing("no weights")), "", "reranker_failed"),
        (FixedServices([0.5]), "", "reranker_reply_invalid"),
        (FixedServices([]), "WHENCE_RERANKER=none", "no_reranker"),
    ],
    ids=["late", "missing", "short", "off"],
)
async def test_a_failing_reranker_keeps_the_order(services: Any, absent: str, code: str) -> None:
    """A failure of the reranker is reported, and the order is unchanged."""
    before = hits(0.6, 0.5)
    reranked = await _reranked(services, "query", before, absent)

    assert reranked.results == before
    assert reranked.model == ""
    assert [(one.stage, one.code) for one in reranked.degraded] == [("rerank", code)]


async def test_nothing_found_calls_no_reranker() -> None:
    """Without results the reranker is not called."""
    services: Any = FixedServices([])

    assert (await _reranked(services, "query", [])).results == []
    assert services.asked == []


@pytest.mark.parametrize("budget_s", [0.0, -1.0, float("nan"), float("inf"), 601.0])
def test_a_time_out_of_range_is_refused(budget_s: float) -> None:
    """The time for reranking has a range."""
    with pytest.raises(BadInput, match="time for reranking"):
        check_budget(budget_s)
