"""Reranking: scoring passages with a model, ordering them, and reading a reply.

A model states its `raw_score` of a passage. What orders the passages is the `final_score`: the raw score of a
model that decides alone, as a cross-encoder does, else the share that the model takes of it, with the score of
retrieval as the rest (see `docs/benchmarks.md` for how the share of the local model was chosen).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from whence.schema.errors import InternalError
from whence.schema.ingest import words_of_lead
from whence.schema.passages import Passage
from whence.schema.rerank import RerankerResult, RerankRequest, RerankResponse

if TYPE_CHECKING:
    from whence.models.protocols import Reranker

#: Passages that a search fetches and reads before it reranks them: as many as a question does by default.
SEARCH_POOL = 60


def text_to_read(content: str, metadata: Mapping[str, Any], lead: str = "") -> str:
    """Return what a reranker reads of a chunk: title, heading and lead before the text, as it was embedded.

    A title or heading that the text begins with is not repeated. Without titles the local model lost 3 points
    of nDCG@10 on abstracts whose titles state the finding.
    """
    text = "\n".join((*words_of_lead(lead), content))
    title, heading = metadata.get("title"), metadata.get("heading")
    for name in (heading, title) if heading != title else (title,):
        if isinstance(name, str) and name and not content.startswith(name):
            text = f"{name}\n{text}"
    return text


class CheckedReranking(msgspec.Struct, frozen=True):
    """The valid part of a reply: passages with the reranker's rank and scores."""

    kept: tuple[Passage, ...]
    """Best first, at most the limit; empty when no entry is valid."""
    rest: tuple[Passage, ...]
    """Scored but ranked after the last one kept, in order; dropped as `reranked_out`."""
    faults: tuple[str, ...]
    """Why entries were left out, one line each."""


def read_reranking(
    results: Any, passages: Sequence[Passage], limit: int, others: Any = ()
) -> CheckedReranking:
    """Return the valid part of a reranker's reply.

    An entry is valid when its document id is the decimal number of a passage that was sent, occurs for the
    first time, and its score is a finite number. Order and length of the reply are not trusted: entries are
    sorted by falling final score, ties by the order sent, and cut. No other passage takes the place of an
    invalid entry: it would be ranked without a score. An entry without a final score is ordered by its score.

    Args:
        results: Entries that the reranker chose.
        passages: As they were sent.
        limit: Most entries to keep.
        others: Entries that it scored and did not choose; they are never kept.

    Cost: n log n for n entries.
    """
    if not isinstance(results, Iterable) or isinstance(results, str | bytes):
        return CheckedReranking((), (), (f"the reply is a {type(results).__name__}, not a list",))
    sent = {str(place): place for place in range(len(passages))}
    taken: set[int] = set()
    faults: list[str] = []
    chosen, left = (_ranked(some, sent, taken, faults) for some in (results, others))
    kept = min(limit, len(chosen))
    scored = [
        replace(
            passages[place],
            rerank_rank=rank,
            raw_score=raw,
            final_score=-negated,
            reason_code="" if rank <= kept else "reranked_out",
        )
        for rank, (negated, place, raw) in enumerate((*chosen, *left), 1)
    ]
    return CheckedReranking(tuple(scored[:kept]), tuple(scored[kept:]), tuple(faults))


def _ranked(
    results: Iterable[Any], sent: Mapping[str, int], taken: set[int], faults: list[str]
) -> list[tuple[float, int, float]]:
    """Return the negated final score, the place and the raw score of each valid entry, best first."""
    scored: list[tuple[float, int, float]] = []
    for result in results:
        document_id, given = getattr(result, "document_id", None), getattr(result, "score", None)
        place = sent.get(document_id) if isinstance(document_id, str) else None
        score = finite_number(given)
        if place is None:
            faults.append(f"document id {document_id!r} was not among those sent")
        elif place in taken:
            faults.append(f"document id {document_id!r} came twice")
        elif score is None:
            faults.append(f"the score of document id {document_id!r} is {given!r}")
        else:
            taken.add(place)
            final = finite_number(getattr(result, "final_score", None))
            scored.append((-(score if final is None else final), place, score))
    return sorted(scored)


def unscored_fault(reply: RerankResponse) -> str:
    """Return what is wrong with the scores when some are missing."""
    return (
        f"{reply.model} gave {len(reply.unscored)} passages no valid score;"
        " they come last, in the order of retrieval"
    )


def finite_number(value: object) -> float | None:
    """Return a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def order_scores(passages: Sequence[Passage]) -> list[float]:
    """Return what stands for the score of retrieval at each place of a ranking: the scores found, falling.

    The ranking of one search has its own scores. That of several searches is interleaved, and its scores do
    not fall; given out by rank, they keep its order and the scale. Empty when a passage has no score.
    """
    found = [score for one in passages if (score := one.score) is not None]
    return sorted(found, reverse=True) if len(found) == len(passages) else []


async def score_documents(reranker: Reranker, request: RerankRequest) -> RerankResponse:
    """Score every document for every query and return the best documents by their final score.

    A document has its best score of all queries; one without a valid score has 0 and comes last. Of a model
    that takes a share of the final score the rest is the score of retrieval, provided that every document has
    one.

    Cost: one pass of the model for each pair of query and document, then one sort.
    """
    by_score = attrgetter("score")
    best: list[RerankerResult] = []
    model, texts = reranker.model, [document.text for document in request.documents]
    codes = [document.token_codes for document in request.documents]
    unscored: set[str] | None = None
    for query in request.queries if texts else ():
        if any(codes) and hasattr(reranker, "score_coded"):
            scores: Sequence[float | None] = await reranker.score_coded(query.text, texts, codes)
        else:
            scores = await reranker.score(query.text, texts)
        if len(scores) != len(texts):
            raise InternalError(
                f"model {model} gave {len(scores)} scores for {len(texts)} documents"
            )
        missing: set[str] = set()
        if None in scores:
            missing = {
                one.id
                for one, score in zip(request.documents, scores, strict=True)
                if score is None
            }
            scores = [score or 0.0 for score in scores]
        unscored = missing if unscored is None else unscored & missing
        given = cast("Sequence[float]", scores)
        if not all(map(math.isfinite, given)):
            raise InternalError(f"model {model} gave a score that is not finite")
        found = [
            RerankerResult(document.id, query.id, float(score))
            for document, score in zip(request.documents, given, strict=True)
        ]
        # Of equal scores the first one stays.
        best = [max(pair, key=by_score) for pair in zip(best or found, found, strict=True)]
    best = _with_retrieval(best, request, getattr(reranker, "share", 1.0))
    # A stable sort: ties keep the order of the request.
    best.sort(
        key=lambda one: (
            one.document_id in (unscored or ()),
            -(one.score if one.final_score is None else one.final_score),
        )
    )
    return RerankResponse(
        results=tuple(best[: request.limit]),
        others=tuple(best[request.limit :]),
        model=model,
        unscored=tuple(one.id for one in request.documents if one.id in unscored)
        if unscored
        else (),
        revision=getattr(reranker, "revision", ""),
    )


def _with_retrieval(
    results: list[RerankerResult], request: RerankRequest, share: float
) -> list[RerankerResult]:
    """Add `(1 - share) retrieved + share score` as the final score, where that is not the score itself."""
    retrieved = [score for one in request.documents if (score := one.retrieval_score) is not None]
    if not results or share >= 1.0 or len(retrieved) < len(results):
        return results
    return [
        replace(one, final_score=(1.0 - share) * score + share * one.score)
        for one, score in zip(results, retrieved, strict=True)
    ]
