"""The search service: a query in, the best visible chunks out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from whence.processors.base import SEARCH, Context, Processor
from whence.retrieval.hybrid import SearchParameters, SearchService
from whence.schema.search import SearchRequest, SearchResponse

if TYPE_CHECKING:
    from whence.store.protocols import ChunkStore

__all__ = ("SearchParameters", "SearchProcessor")


class SearchProcessor(Processor):
    """Ranks the visible chunks of a collection by vectors, by words, or by both."""

    type_name = "search"
    summary = "a query to a ranking of visible chunks"
    serves = SEARCH
    Parameters = SearchParameters
    needs = ("store",)

    parameters: SearchParameters

    def __init__(
        self,
        parameters: SearchParameters | None = None,
        *,
        store: ChunkStore,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parameters)
        self._service = SearchService(store, self.parameters, monotonic)

    async def handle(self, message: SearchRequest, context: Context) -> SearchResponse:
        """Answer one search request; errors as for `SearchService.search`."""
        return await self._service.search(message, context.remaining_s())
