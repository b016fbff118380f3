"""The `Retriever` of an engine: one collection, one reader, everything that `Engine.search` does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whence.engine.loop_thread import LoopThread
from whence.engine.retriever import Retriever, RetrieverNotReady
from whence.schema.errors import BadInput, ModelMissing, NotFound, WhenceError

if TYPE_CHECKING:
    from whence.engine.engine import Engine
    from whence.retrieval.results import RetrievalResult
    from whence.schema.access import Access


class EngineRetriever(Retriever):
    """Searches one collection of an engine with the rights of one reader; made by `Engine.retriever`.

    `asearch` uses the engine. `search` may block the engine's own event loop, so it opens a second engine of
    the same settings in its own thread; local models are shared.
    """

    def __init__(
        self, engine: Engine, *, collection: str, access: Access, options: Mapping[str, Any]
    ) -> None:
        super().__init__(access=access)
        self._engine = engine
        self._collection = collection
        self._options = dict(options)
        self._thread = LoopThread(engine.clone)

    def _check_ready(self) -> None:
        if not self._engine.is_open:
            raise RetrieverNotReady(
                "vector store not initialized: the engine is not open",
                hint="search inside `async with Engine(...) as engine:`",
            )

    async def _run(
        self, resource: Engine | None, query_text: str, top_k: int, threshold: float
    ) -> list[RetrievalResult]:
        if resource is None and not self._engine.is_on_own_loop:
            # The engine's connections belong to its own event loop.
            search = asyncio.to_thread(self.search, query_text, top_k, threshold)
            return await search
        engine = self._engine if resource is None else resource
        try:
            return await engine.search(
                query_text,
                top_k=top_k,
                threshold=threshold,
                collection=self._collection,
                access=self._access,
                **self._options,
            )
        except BadInput:
            raise
        except WhenceError as error:
            raise _not_ready(error) from error


def _not_ready(error: WhenceError) -> RetrieverNotReady:
    if isinstance(error, NotFound):
        what = "vector store not initialized"
    elif isinstance(error, ModelMissing):
        what = "embedder not available"
    else:
        what = "search not available"
    return RetrieverNotReady(f"{what}: {error.message}", hint=error.hint)
