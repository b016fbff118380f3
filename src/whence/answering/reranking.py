"""Focus: what the reranker keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from whence.answering.citations import Passage
from whence.answering.rerank_reply import Reranking, read_reranking
from whence.answering.state import Question, RerankAsker
from whence.processors.clients import RerankerClient, Scored
from whence.provenance.stage_records import CandidateRecord, ModelUse, Selection
from whence.provenance.stages import focus_triples
from whence.retrieval.rerank import text_to_read
from whence.schema.errors import WhenceError

__all__ = ("focus",)


async def focus(
    question: Question, reranker: RerankAsker, passages: list[Passage]
) -> list[Passage]:
    """Rerank passages and keep the best.

    Where the reranker's scores are joined with those of one search only the first are read: what retrieval
    placed far below does not come up by so much, and reading is by far the dearest part of a question.

    A reranker that fails, is late, or replies nothing that can be used degrades: the order of retrieval
    stays, and there is no focus stage. Entries of a reply that cannot be used are left out and told of.
    """
    trail = question.trail
    trail.begin("focus")
    scores = _scores(question, reranker, passages)
    read = passages[: question.ask.read_limit] if scores else passages
    reranking, model = await _rerank(question, reranker, read, scores[: len(read)])
    if not reranking.kept:
        return passages
    question.focused = True
    if model:
        question.models["reranker"] = ModelUse(role="reranker", name=model)
    selections = [Selection(passages[i.index].chunk_id, i.score) for i in reranking.kept]
    await trail.end(
        lambda facts: focus_triples(
            trail.answer_id,
            selections,
            candidates=_accounts(question, passages, len(read), reranking) if facts else (),
            run=facts,
        ),
        candidates_in=len(passages),
        candidates_out=len(selections),
        models=(question.models["reranker"],) if model else (),
    )
    return [passages[item.index] for item in reranking.kept]


async def _rerank(
    question: Question,
    reranker: RerankAsker,
    passages: Sequence[Passage],
    scores: Sequence[float],
) -> tuple[Reranking, str]:
    """Ask the reranker; gives the usable part of its reply and the name of its model."""
    limit = question.ask.doc_limit
    texts = _texts(reranker, passages)
    documents = [{"id": str(index), "text": text} for index, text in enumerate(texts)]
    joined: dict[str, Any] = {"retrieval_scores": scores} if scores else {}
    try:
        results = await question.deadline.limit(
            "reranking",
            lambda: reranker.rerank(
                queries=[{"id": "0", "text": question.ask.query}],
                documents=documents,
                limit=limit,
                **joined,
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


def _scores(question: Question, reranker: RerankAsker, passages: Sequence[Passage]) -> list[float]:
    """Give the scores of retrieval for our own service, which joins them with its own.

    Only where one search found and scored all: scores of different queries do not compare.
    """
    if not isinstance(reranker, RerankerClient):
        return []
    accounts = {account.chunk_id: account for account in question.accounts}
    found = [accounts[passage.chunk_id] for passage in passages]
    scores = [one.score for one in found if one.concepts == (question.ask.query,)]
    known = [score for score in scores if score is not None]
    return known if len(known) == len(passages) else []


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
    question: Question, passages: Sequence[Passage], read: int, reranking: Reranking
) -> list[CandidateRecord]:
    """Tell each candidate's place and score, and why those that are out are out; the first `read` were read."""
    by_id = {account.chunk_id: account for account in question.accounts}
    accounts = [by_id[passage.chunk_id] for passage in passages]
    kept = len(reranking.kept)
    scored: dict[int, CandidateRecord] = {}
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
        scored.get(index)
        or msgspec.structs.replace(
            account, reason_code=silent if index < read else "over_rerank_limit"
        )
        for index, account in enumerate(accounts)
    ]
