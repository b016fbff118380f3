"""Reranking the hits of a search within a time budget; without it the hits stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from whence.retrieval.rerank import RERANK_DEPTH, blended_score, text_to_read
from whence.retrieval.results import Reranking, RetrievalResult
from whence.retrieval.symbols import MAX_UNBOOSTED_SCORE
from whence.schema.errors import BadInput, WhenceError
from whence.schema.rerank import RerankItem, RerankRequest, RerankResponse
from whence.schema.search import Degradation

if TYPE_CHECKING:
    from whence.flow.client import FlowClient

__all__ = (
    "RERANK_BUDGET_S",
    "RERANK_DEPTH",
    "RerankPlan",
    "Reranked",
    "check_budget",
    "ranked",
    "rerank",
)

#: Seconds that reranking may take; on two busy cores loading the model and reading takes half of them.
RERANK_BUDGET_S = 10.0
_LONGEST_BUDGET_S = 600.0


class RerankPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How to rerank."""

    budget_s: float = RERANK_BUDGET_S
    """Seconds it may take."""
    absent: str = ""
    """Why there is no reranker, e.g. the setting that switched it off; empty when there is one."""


class Reranked(msgspec.Struct, frozen=True, kw_only=True):
    """Hits after reranking."""

    results: list[RetrievalResult]
    """By the joined score, ties in the order before; unchanged when nothing came of it."""
    model: str = ""
    """Model that scored; empty when none did."""
    degraded: tuple[Degradation, ...] = ()
    """Why nothing came of it."""


def check_budget(budget_s: float) -> None:
    """Refuse a time that is none.

    Raises:
        BadInput: It is not above 0 and at most 600 seconds.
    """
    if not 0.0 < budget_s <= _LONGEST_BUDGET_S:
        raise BadInput(
            f"the time for reranking must be above 0 and at most {_LONGEST_BUDGET_S:g} s,"
            f" not {budget_s}"
        )


async def rerank(
    client: FlowClient, query: str, results: list[RetrievalResult], plan: RerankPlan
) -> Reranked:
    """Order hits by their score joined with the reranker's.

    A reranker that is not there, fails or is late costs the order and nothing else: the hits come back as they
    were, and the degradation says why. Cost: one pass of the model a hit.
    """
    if not results:
        return Reranked(results=results)
    if plan.absent:
        return _unchanged(results, "no_reranker", f"there is no reranker ({plan.absent})")
    request = RerankRequest(
        queries=(RerankItem(id="0", text=query),),
        documents=tuple(
            RerankItem(id=str(place), text=text_to_read(one.chunk.content, one.chunk.metadata))
            for place, one in enumerate(results)
        ),
        limit=len(results),
    )
    try:
        reply = await client.call("reranker", request, RerankResponse, timeout_s=plan.budget_s)
        scores = {int(one.document_id): one.score for one in reply.results}
    except WhenceError as error:
        return _unchanged(results, "reranker_failed", error.message)
    if scores.keys() != set(range(len(results))):
        return _unchanged(results, "reranker_reply_invalid", "it did not score every hit once")
    scored = [_scored(one, scores[place]) for place, one in enumerate(results)]
    if any(_is_named(one) for one in scored):
        scored = [one if _is_named(one) else _below_names(one) for one in scored]
    # Python's sort is stable: equal hits stay in the order of retrieval.
    scored.sort(key=lambda one: -one.similarity_score)
    return Reranked(results=ranked(scored), model=reply.model)


def ranked(results: list[RetrievalResult]) -> list[RetrievalResult]:
    """Give hits their ranks, from 1 in the order given."""
    return [msgspec.structs.replace(one, rank=rank) for rank, one in enumerate(results, 1)]


def _scored(one: RetrievalResult, score: float) -> RetrievalResult:
    """Join the scores of a hit; of one that goes by the very name that is asked for nothing is left to read."""
    before = one.similarity_score
    account = Reranking(score=score, rank_before=one.rank, score_before=before)
    joined = before if _is_named(one) else blended_score(before, score)
    return msgspec.structs.replace(one, similarity_score=joined, reranking=account)


def _is_named(one: RetrievalResult) -> bool:
    return "name_score" in one.score_breakdown


def _below_names(one: RetrievalResult) -> RetrievalResult:
    score = min(one.similarity_score, MAX_UNBOOSTED_SCORE)
    return msgspec.structs.replace(one, similarity_score=score)


def _unchanged(results: list[RetrievalResult], code: str, why: str) -> Reranked:
    reason = f"the order of retrieval was kept: {why}"
    return Reranked(
        results=results, degraded=(Degradation(stage="rerank", code=code, reason=reason),)
    )
