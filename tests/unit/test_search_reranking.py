"""Reranking the results of a search: joined scores, and results that stay as they are on a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from whence.retrieval.pipeline import check_budget, rerank_passages
from whence.schema.errors import BadInput, DeadlineExceeded, ModelMissing, WhenceError
from whence.schema.passages import Passage
from whence.schema.rerank import RerankerResult, RerankResponse


class FixedServices:
    """Services with a reranker of fixed scores, half of the final score; remembers what it was asked."""

    def __init__(self, scores: list[float], error: WhenceError | None = None) -> None:
        self.scores = scores
        self.error = error
        self.asked: list[tuple[str, list[str]]] = []

    async def rerank(
        self, query: str, passages: Sequence[Passage], scores: Any, limit: int
    ) -> RerankResponse:
        self.asked.append((query, [one.text for one in passages]))
        if self.error:
            raise self.error
        results = [
            RerankerResult(str(n), "0", one, (one + scores[n]) / 2)
            for n, one in enumerate(self.scores)
        ]
        return RerankResponse(results=tuple(results), model="fixed")


def hits(*scores: float) -> list[Passage]:
    return [
        Passage(chunk_id=f"c{rank}", rank=rank, score=score, text=f"text {rank}")
        for rank, score in enumerate(scores, 1)
    ]


async def test_hits_are_ordered_by_the_final_score() -> None:
    """Hits have the final score; former place and score, and what the model said, are kept."""
    services: Any = FixedServices([0.1, 0.9, 0.5])
    reranked = await rerank_passages(services, "query", hits(0.60, 0.58, 0.30))

    assert [one.chunk_id for one in reranked.passages] == ["c2", "c3", "c1"]
    assert [one.final_score for one in reranked.passages] == pytest.approx([0.74, 0.4, 0.35])
    before = [(one.rank, one.raw_score, one.score) for one in reranked.passages]
    assert before == [(2, 0.9, 0.58), (3, 0.5, 0.3), (1, 0.1, 0.6)]
    assert (reranked.model, reranked.degraded) == ("fixed", ())
    assert services.asked == [("query", ["text 1", "text 2", "text 3"])]


async def test_a_definition_stays_before_mentions() -> None:
    """A definition of the queried symbol keeps its score, and no other hit rises above it."""
    first, mention = hits(0.99, 0.9895)
    named = msgspec.structs.replace(first, name_score=0.5)
    services: Any = FixedServices([0.0, 1.0])
    reranked = await rerank_passages(services, "Cart.total", [named, mention])

    assert [one.rank for one in reranked.passages] == [1, 2]
    assert reranked.passages[0].final_score == 0.99
    assert 0.98 < reranked.passages[1].final_score < 0.99


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
    reranked = await rerank_passages(services, "query", before, absent)

    assert reranked.passages == before
    assert reranked.model == ""
    assert [(one.stage, one.code) for one in reranked.degraded] == [("rerank", code)]


async def test_nothing_found_calls_no_reranker() -> None:
    """Without results the reranker is not called."""
    services: Any = FixedServices([])

    assert (await rerank_passages(services, "query", [])).passages == []
    assert services.asked == []


@pytest.mark.parametrize("budget_s", [0.0, -1.0, float("nan"), float("inf"), 601.0])
def test_a_time_out_of_range_is_refused(budget_s: float) -> None:
    """The time for reranking has a range."""
    with pytest.raises(BadInput, match="time for reranking"):
        check_budget(budget_s)
