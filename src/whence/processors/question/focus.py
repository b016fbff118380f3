"""Focus: what the reranker keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from whence.processors.blending import text_to_read
from whence.processors.clients import RerankerClient, Scored
from whence.processors.question.citations import Passage
from whence.processors.question.rerank_reply import Reranking, read_reranking
from whence.processors.question.state import Question, RerankAsker
from whence.provenance.accounts import CandidateAccount, ModelFacts, Selection
from whence.provenance.stages import focus_triples
from whence.schema.errors import WhenceError

__all__ = ("focus",)


async def focus(
    question: Question, reranker: RerankAsker, passages: list[Passage]
) -> list[Passage]:
    """Rerank passages and keep the best.

    A reranker that fails, is late, or replies nothing that can be used degrades: the order of retrieval
    stays, and there is no focus stage. Entries of a reply that cannot be used are left out and told of.
    """
    trail = question.trail
    trail.begin("focus")
    reranking, model = await _rerank(question, reranker, passages)
    if not reranking.kept:
        return passages
    question.focused = True
    if model:
        question.models["reranker"] = ModelFacts(role="reranker", name=model)
    selections = [Selection(passages[i.index].chunk_id, i.score) for i in reranking.kept]
    await trail.end(
        lambda facts: focus_triples(
            trail.answer_id,
            selections,
            candidates=_accounts(question, passages, reranking) if facts else (),
            facts=facts,
        ),
        candidates_in=len(passages),
        candidates_out=len(selections),
        models=(question.models["reranker"],) if model else (),
    )
    return [passages[item.index] for item in reranking.kept]


async def _rerank(
    question: Question, reranker: RerankAsker, passages: Sequence[Passage]
) -> tuple[Reranking, str]:
    """Ask the reranker; gives the usable part of its reply and the name of its model."""
    limit = question.ask.doc_limit
    texts = _texts(reranker, passages)
    documents = [{"id": str(index), "text": text} for index, text in enumerate(texts)]
    try:
        results = await question.deadline.limit(
            "reranking",
            lambda: reranker.rerank(
                queries=[{"id": "0", "text": question.ask.query}],
                documents=documents,
                limit=limit,
                **_scores(question, reranker, passages),
            ),
            question.options.rerank_timeout_s,
            share=0.5,
        )
    except WhenceError as error:
        question.trail.degrade(
            "rerank", "reranker_failed", f"the order of retrieval was kept: {error.message}"
        )
        return Reranking((), (), ()), ""
    reranking = read_reranking(_with_rest(results), len(passages), limit)
    _tell_faults(question, reranking)
    return reranking, results.model if isinstance(results, Scored) else ""


def _texts(reranker: RerankAsker, passages: Sequence[Passage]) -> list[str]:
    """Give the passages as they are, to our own service with their titles."""
    if not isinstance(reranker, RerankerClient):
        return [one.text for one in passages]
    return [text_to_read(one.text, one.source.metadata if one.source else {}) for one in passages]


def _scores(
    question: Question, reranker: RerankAsker, passages: Sequence[Passage]
) -> dict[str, Any]:
    """Give the scores of retrieval to our own service, which joins them with its own.

    Only where one search found all: scores of different queries do not compare.
    """
    if not isinstance(reranker, RerankerClient):
        return {}
    accounts = {account.chunk_id: account for account in question.accounts}
    found = [accounts[passage.chunk_id] for passage in passages]
    if any(account.concepts != (question.ask.query,) for account in found):
        return {}
    return {"retrieval_scores": [account.score for account in found]}


def _with_rest(results: Any) -> Any:
    """Give all that was scored: what our own client cut is wanted for the trace."""
    return [*results, *results.rest] if isinstance(results, Scored) else results


def _tell_faults(question: Question, reranking: Reranking) -> None:
    if reranking.kept and reranking.faults:
        reason = f"{len(reranking.faults)} entries of the reply were left out"
    elif not reranking.kept:
        reason = "the order of retrieval was kept"
    else:
        return
    fault = reranking.faults[0] if reranking.faults else "the reply is empty"
    question.trail.degrade("rerank", "reranker_reply_invalid", f"{reason}: {fault}")


def _accounts(
    question: Question, passages: Sequence[Passage], reranking: Reranking
) -> list[CandidateAccount]:
    """Tell each candidate's place and score, and why those that are out are out."""
    by_id = {account.chunk_id: account for account in question.accounts}
    accounts = [by_id[passage.chunk_id] for passage in passages]
    kept = len(reranking.kept)
    scored: dict[int, CandidateAccount] = {}
    for rank, item in enumerate((*reranking.kept, *reranking.rest), start=1):
        scored[item.index] = msgspec.structs.replace(
            accounts[item.index],
            rerank_rank=rank,
            rerank_score=item.score,
            reason_code="" if rank <= kept else "reranked_out",
        )
    # A full reply says that all others come after it; a short one says nothing of them.
    silent = "reranked_out" if kept >= question.ask.doc_limit else "not_scored"
    return [
        scored.get(index) or msgspec.structs.replace(account, reason_code=silent)
        for index, account in enumerate(accounts)
    ]
