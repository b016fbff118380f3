"""A search whose results are documents, each once."""

from __future__ import annotations

import time

import msgspec

from whence.evaluation.searcher import Passage, Searcher, SearchOutcome


class DocumentSearcher:
    """Searches for more passages until there are enough different documents.

    The number of passages is kept for later queries, so that a collection of long documents needs a second
    search only once. Only the last search is timed.
    """

    def __init__(self, search: Searcher) -> None:
        self._search = search
        self._passages = 0

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        """Return the best passage of each document, best first."""
        self._passages = max(self._passages, limit)
        while True:
            started = time.perf_counter()
            found = await self._search(query, mode=mode, limit=self._passages)
            latency_ms = found.latency_ms or (time.perf_counter() - started) * 1e3
            best: dict[str, Passage] = {}
            for passage in found.passages:
                best.setdefault(passage.document_id, passage)
            if len(best) >= limit or len(found.passages) < self._passages:
                documents = list(best.values())[:limit]
                return msgspec.structs.replace(found, passages=documents, latency_ms=latency_ms)
            self._passages *= 2
