"""Ranks documents by searches for passages: a document has the rank and the score of its best passage."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from whence.evaluation.searcher import Hit, Searcher
from whence.retrieval.rerank import blended_score, text_to_read

if TYPE_CHECKING:
    from whence.models.protocols import Reranker

__all__ = (
    "DocumentRanker",
    "DocumentRanking",
    "Ranker",
    "RerankedRanker",
    "SelfExcludingRanker",
    "best_passages",
)


class DocumentRanking(NamedTuple):
    """Documents of one query, each once."""

    documents: list[Hit]
    """The best passage of each document, best first."""
    latency_ms: float
    """Milliseconds that the ranking took."""


class Ranker(Protocol):
    """Ranks documents for a query."""

    async def __call__(self, query: str) -> DocumentRanking:
        """Return the best documents.

        Raises:
            WhenceError: The query cannot be searched for, or a service does not answer.
        """
        ...


def best_passages(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """Return the first hit of each document, at most `limit` of them."""
    best: dict[str, Hit] = {}
    for hit in hits:
        best.setdefault(hit.document_id, hit)
    return list(best.values())[:limit]


class DocumentRanker:
    """Searches for more passages until there are enough different documents.

    The number of passages is kept for later queries, so that a collection of long documents needs a second
    search only once. Only the last search is timed.

    Args:
        search: Finds passages.
        mode: `bm25`, `dense` or `hybrid`.
        depth: Largest number of documents, 1 or more.
    """

    def __init__(self, search: Searcher, mode: str, depth: int) -> None:
        self._search = search
        self._mode = mode
        self._depth = depth
        self._passages = depth

    async def __call__(self, query: str) -> DocumentRanking:
        """Return the best documents of a query."""
        while True:
            found = await self._search(query, mode=self._mode, limit=self._passages)
            documents = best_passages(found.hits, self._depth)
            if len(documents) == self._depth or len(found.hits) < self._passages:
                return DocumentRanking(documents, found.latency_ms)
            self._passages *= 2


class SelfExcludingRanker:
    """Leaves out the document that is the query itself.

    Args:
        ranker: Returns one document more than `depth`.
        own_documents: The id of that document by the query's text.
        depth: Largest number of documents, 1 or more.
    """

    def __init__(self, ranker: Ranker, own_documents: Mapping[str, str], depth: int) -> None:
        self._ranker = ranker
        self._own_documents = own_documents
        self._depth = depth

    async def __call__(self, query: str) -> DocumentRanking:
        """Return the best documents of a query."""
        ranking = await self._ranker(query)
        own = self._own_documents.get(query)
        others = [hit for hit in ranking.documents if hit.document_id != own]
        return DocumentRanking(others[: self._depth], ranking.latency_ms)


class RerankedRanker:
    """Reranks the first documents of another ranking by both scores; the others keep their order.

    Args:
        ranker: Returns the candidates.
        reranker: Scores the passage of each together with the query, 0 to 1.
        candidates: Number of documents to rerank.
        clock: Returns seconds.
    """

    def __init__(
        self,
        ranker: Ranker,
        reranker: Reranker,
        candidates: int = 20,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._ranker = ranker
        self._reranker = reranker
        self._candidates = candidates
        self._clock = clock

    async def __call__(self, query: str) -> DocumentRanking:
        """Return the best documents of a query.

        Scores of reranked documents are raised by 1, above the scores of all others.
        """
        ranking = await self._ranker(query)
        head, tail = (ranking.documents[: self._candidates], ranking.documents[self._candidates :])
        started = self._clock()
        texts = [text_to_read(hit.content, {"title": hit.name}) for hit in head]
        scores = await self._reranker.score(query, texts) if head else []
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
        scored.sort(key=lambda hit: -hit.score)
        took_ms = (self._clock() - started) * 1e3
        return DocumentRanking([*scored, *tail], ranking.latency_ms + took_ms)
