"""The rerank service: queries and documents in, the best documents with their scores out.

What is cut by the limit is not in the reply; nothing else can be lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.processors.base import Context, Processor
from whence.processors.services import RERANK
from whence.retrieval.rerank import blended_score
from whence.schema.errors import BadInput, InternalError
from whence.schema.rerank import RerankerResult, RerankItem, RerankRequest, RerankResponse

if TYPE_CHECKING:
    from whence.models.protocols import Reranker

__all__ = ("RerankerParameters", "RerankerProcessor")


class RerankerParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the reranker."""

    max_pairs: Annotated[int, msgspec.Meta(ge=1)] = 5000
    """Most pairs of query and document in one request; a larger one is refused."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1)] = 16_000_000
    """Most bytes of text in one request, UTF-8; a larger one is refused."""


class RerankerProcessor(Processor):
    """Scores every document for every query and keeps the best score of each document.

    Where every document comes with its score of retrieval, the two are joined: the order of a small reranker
    alone was measured to be worse than the order it was given, see `blending`.

    Cost: one pass of the model for each of the queries x documents pairs, then one sort.
    """

    type_name = "reranker"
    summary = "documents to the best of them, read together with the query"
    serves = RERANK
    Parameters = RerankerParameters
    needs = ("reranker",)

    parameters: RerankerParameters

    def __init__(self, parameters: RerankerParameters | None = None, *, reranker: Reranker) -> None:
        super().__init__(parameters)
        self._reranker = reranker

    async def handle(self, message: RerankRequest, context: Context) -> RerankResponse:
        """Rank the documents of one request.

        Raises:
            BadInput: No query, an id twice, a limit below 1, or a request that is too large.
            InternalError: The model gave too few or too many scores, or one that is not finite.
        """
        self._check(message)
        model = self._reranker.model
        best: dict[str, RerankerResult] = {}
        texts = [document.text for document in message.documents]
        for query in message.queries if texts else ():
            scores = await self._reranker.score(query.text, texts)
            _check_scores(scores, len(texts), model)
            _keep_best(best, query, message.documents, scores)
        best = _joined(best, message.documents)
        # Python's sort is stable and `best` is in order of the request: ties keep that order.
        ranking = sorted(best.values(), key=lambda result: -result.score)
        return RerankResponse(results=tuple(ranking[: message.limit]), model=model)

    def _check(self, message: RerankRequest) -> None:
        if message.limit < 1:
            raise BadInput(f"limit must be at least 1, not {message.limit}")
        if not message.queries:
            raise BadInput("a rerank request needs at least one query")
        _check_unique("query", message.queries)
        _check_unique("document", message.documents)
        pairs = len(message.queries) * len(message.documents)
        if pairs > self.parameters.max_pairs:
            raise BadInput(
                f"{pairs} pairs of query and document in one request;"
                f" at most {self.parameters.max_pairs} are taken",
                hint="ask for fewer candidates, or raise `max_pairs` of the reranker",
            )
        size = sum(
            len(item.text.encode("utf-8", "surrogatepass"))
            for item in (*message.queries, *message.documents)
        )
        if size > self.parameters.max_bytes:
            raise BadInput(
                f"{size} bytes of text in one request;"
                f" at most {self.parameters.max_bytes} are taken",
                hint="ask for fewer candidates, or raise `max_bytes` of the reranker",
            )


def _check_unique(kind: str, items: Sequence[RerankItem]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise BadInput(f"{kind} id {item.id!r} occurs twice in one request")
        seen.add(item.id)


def _check_scores(scores: Sequence[float], count: int, model: str) -> None:
    if len(scores) != count:
        raise InternalError(f"model {model} gave {len(scores)} scores for {count} documents")
    if not all(math.isfinite(score) for score in scores):
        raise InternalError(f"model {model} gave a score that is not finite")


def _joined(
    best: dict[str, RerankerResult], documents: Sequence[RerankItem]
) -> dict[str, RerankerResult]:
    """Join the scores with those of retrieval, where all documents have one."""
    retrieved = {one.id: one.retrieval_score for one in documents}
    if any(score is None for score in retrieved.values()):
        return best
    return {
        key: msgspec.structs.replace(
            result, score=blended_score(retrieved[key] or 0.0, result.score)
        )
        for key, result in best.items()
    }


def _keep_best(
    best: dict[str, RerankerResult],
    query: RerankItem,
    documents: Sequence[RerankItem],
    scores: Sequence[float],
) -> None:
    for document, score in zip(documents, scores, strict=True):
        known = best.get(document.id)
        if known is None or score > known.score:
            best[document.id] = RerankerResult(document.id, query.id, float(score))
