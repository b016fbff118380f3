"""Reranking: scoring documents with a model, reading a reply, and joining its scores with those of retrieval.

Both scores mean the same for every query, and so does their sum: a threshold keeps its meaning. Retrieval keeps
most of the weight. Measured with the local late-interaction model over the first 20 of a hybrid search, titles
read with the texts, all queries of eight collections: nDCG@10 rises by .003 on average, by .008 at most
(`wikihop`), and falls by .002 at most (`scifact`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from whence.schema.errors import InternalError
from whence.schema.rerank import RerankerResult, RerankRequest, RerankResponse

if TYPE_CHECKING:
    from whence.models.protocols import Reranker

#: Least number of candidates that are read together with the query. With so small a share of the score hardly
#: any candidate rises from further down, and those that do are no better: see `docs/benchmarks.md`.
RERANK_DEPTH = 20

#: Share of the reranker's score. From .05 to .2 the mean over eight collections is the same within its standard
#: error, and the smallest of such shares does least harm where the reranker is wrong (the rule of one standard
#: error: Breiman and others, "Classification and Regression Trees", 1984, section 3.4.3). Chosen so on any
#: seven of the collections it is .05, and the eighth loses .002 at most; by the best mean it loses up to .006.
RERANK_SHARE = 0.05


def blended_score(retrieved: float, reranked: float, share: float = RERANK_SHARE) -> float:
    """Return `(1 - share) retrieved + share reranked`, 0 to 1."""
    return (1.0 - share) * retrieved + share * min(1.0, max(0.0, reranked))


def text_to_read(content: str, metadata: Mapping[str, Any]) -> str:
    """Return what a reranker reads of a chunk: title and heading before the text, as when it was embedded.

    A title or heading that the text begins with is not repeated. Without titles the local model lost 3 points
    of nDCG@10 on abstracts whose titles state the finding.
    """
    text = content
    title, heading = metadata.get("title"), metadata.get("heading")
    for name in (heading, title) if heading != title else (title,):
        if isinstance(name, str) and name and not content.startswith(name):
            text = f"{name}\n{text}"
    return text


class RerankedItem(msgspec.Struct, frozen=True):
    """One passage that the reranker scored."""

    index: int
    """Place among the passages sent, from 0."""
    score: float
    """Finite; higher is better."""


class CheckedReranking(msgspec.Struct, frozen=True):
    """The valid part of a reply."""

    kept: tuple[RerankedItem, ...]
    """Best first, at most the limit; empty when no entry is valid."""
    rest: tuple[RerankedItem, ...]
    """Scored but ranked after the last one kept, in order."""
    faults: tuple[str, ...]
    """Why entries were left out, one line each."""


def read_reranking(results: Any, count: int, limit: int) -> CheckedReranking:
    """Return the valid part of a reranker's reply.

    An entry is valid when its document id is the decimal number of a passage that was sent, occurs for the
    first time, and its score is a finite number. Order and length of the reply are not trusted: entries are
    sorted by falling score, ties by the order sent, and cut. No other passage takes the place of an invalid
    entry: it would be ranked without a score.

    Cost: n log n for n entries.
    """
    if not isinstance(results, Iterable) or isinstance(results, str | bytes):
        return CheckedReranking((), (), (f"the reply is a {type(results).__name__}, not a list",))
    sent = {str(place): place for place in range(count)}
    items: dict[int, RerankedItem] = {}
    faults: list[str] = []
    for result in results:
        document_id, given = getattr(result, "document_id", None), getattr(result, "score", None)
        index = sent.get(document_id) if isinstance(document_id, str) else None
        score = finite_number(given)
        if index is None:
            faults.append(f"document id {document_id!r} was not among those sent")
        elif index in items:
            faults.append(f"document id {document_id!r} came twice")
        elif score is None:
            faults.append(f"the score of document id {document_id!r} is {given!r}")
        else:
            items[index] = RerankedItem(index, score)
    ranking = sorted(items.values(), key=lambda item: (-item.score, item.index))
    return CheckedReranking(tuple(ranking[:limit]), tuple(ranking[limit:]), tuple(faults))


def finite_number(value: object) -> float | None:
    """Return a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


async def score_documents(reranker: Reranker, request: RerankRequest) -> RerankResponse:
    """Score every document for every query and return the best documents by their best score.

    Where every document has its score of retrieval, both scores are joined: the order of a small reranker alone
    was measured to be worse than the order it was given.

    Cost: one pass of the model for each pair of query and document, then one sort.
    """
    by_score = attrgetter("score")
    best: list[RerankerResult] = []
    model, texts = reranker.model, [document.text for document in request.documents]
    for query in request.queries if texts else ():
        scores = await reranker.score(query.text, texts)
        if len(scores) != len(texts):
            raise InternalError(
                f"model {model} gave {len(scores)} scores for {len(texts)} documents"
            )
        if not all(map(math.isfinite, scores)):
            raise InternalError(f"model {model} gave a score that is not finite")
        found = [
            RerankerResult(document.id, query.id, float(score))
            for document, score in zip(request.documents, scores, strict=True)
        ]
        # Of equal scores the first one stays.
        best = [max(pair, key=by_score) for pair in zip(best or found, found, strict=True)]
    retrieved = [document.retrieval_score for document in request.documents]
    if None not in retrieved:
        best = [
            msgspec.structs.replace(one, score=blended_score(score or 0.0, one.score))
            for one, score in zip(best, retrieved, strict=True)
        ]
    # A stable sort: ties keep the order of the request.
    best.sort(key=by_score, reverse=True)
    return RerankResponse(results=tuple(best[: request.limit]), model=model)
