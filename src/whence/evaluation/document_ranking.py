"""Ranks documents by searches for passages: a document has the rank and the score of its best passage."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from whence.evaluation.searcher import Hit, Searcher
from whence.retrieval.rerank import blended_score, text_to_read

if TYPE_CHECKING:
    from whence.models.protocols import Reranker


class DocumentRanking(NamedTuple):
    """Documents of one query, each once."""

    documents: list[Hit]
    """The best passage of each document, best first."""
    latency_ms: float


class DocumentRanker:
    """Searches for more passages until there are enough different documents.

    The number of passages is kept for later queries, so that a collection of long documents needs a second
    search only once. Only the last search is timed. `own_documents` is the document that is the query
    itself, by query text; it is left out. The first `candidates` documents are reranked.
    """

    def __init__(
        self,
        search: Searcher,
        mode: str,
        depth: int,
        *,
        own_documents: Mapping[str, str] = MappingProxyType({}),
        reranker: Reranker | None = None,
        candidates: int = 20,
    ) -> None:
        self._search = search
        self._mode = mode
        self._depth = depth
        self._own_documents = own_documents
        self._reranker = reranker
        self._candidates = candidates
        self._passages = self._wanted = depth + bool(own_documents)

    async def __call__(self, query: str) -> DocumentRanking:
        """Return the best documents of a query."""
        ranking = await self._best_passages(query)
        own = self._own_documents.get(query)
        documents = [hit for hit in ranking.documents if hit.document_id != own][: self._depth]
        if self._reranker is None:
            return DocumentRanking(documents, ranking.latency_ms)
        started = time.perf_counter()
        documents = await self._rerank(self._reranker, query, documents)
        return DocumentRanking(
            documents, ranking.latency_ms + (time.perf_counter() - started) * 1e3
        )

    async def _best_passages(self, query: str) -> DocumentRanking:
        while True:
            found = await self._search(query, mode=self._mode, limit=self._passages)
            best: dict[str, Hit] = {}
            for hit in found.hits:
                best.setdefault(hit.document_id, hit)
            if len(best) >= self._wanted or len(found.hits) < self._passages:
                return DocumentRanking(list(best.values())[: self._wanted], found.latency_ms)
            self._passages *= 2

    async def _rerank(self, reranker: Reranker, query: str, documents: list[Hit]) -> list[Hit]:
        """Order the first documents by both scores; the others keep their order.

        Scores of reranked documents are raised by 1, above the scores of all others.
        """
        head, tail = documents[: self._candidates], documents[self._candidates :]
        texts = [text_to_read(hit.content, {"title": hit.name}) for hit in head]
        scores = await reranker.score(query, texts) if head else []
        scored = [
            Hit(
                document_id=hit.document_id,
                score=1.0 + blended_score(hit.score, score),
                path=hit.path,
                content=hit.content,
            )
            for hit, score in zip(head, scores, strict=True)
        ]
        # Python's sort is stable: ties keep the order of the candidates.
        return [*sorted(scored, key=lambda hit: -hit.score), *tail]
