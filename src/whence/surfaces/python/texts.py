"""The parts of an engine that are no operations: counts of all collections, and texts to vectors and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from whence.schema.embedding import EmbeddingModel, EmbeddingRequest, EmbeddingResponse, Purpose

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.store.protocols import CollectionInfo


class EngineTexts:
    """Part of `Engine`."""

    _session: Session

    async def collections(self) -> list[CollectionInfo]:
        """Return all collections by name; counts include hidden documents."""
        return await (await self._session.store()).collections()

    async def keep_embedding(
        self, pause_s: float = 2.0, report: Callable[[str], None] = lambda _: None
    ) -> None:
        """Embed what waits for vectors in any collection until it is cancelled, for a server.

        Args:
            pause_s: Seconds between two looks.
            report: Takes each reason for which passages go on waiting, once.
        """
        from whence.operations.pending_vectors import keep_embedding

        if self._session.runs_flow:
            await keep_embedding(self._session, pause_s, report)

    async def embedding_model(self) -> EmbeddingModel:
        """Return the model of `embed`."""
        model: EmbeddingModel = (await self._session.resources.get("embedder")).model
        return model

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> EmbeddingResponse:
        """Return one unit vector for each text; a long text is read up to the model's limit."""
        request = EmbeddingRequest(texts=tuple(texts), purpose=purpose)
        return await self._session.client.call("embedding", request, EmbeddingResponse)

    async def count_tokens(self, texts: Sequence[str]) -> tuple[list[int] | None, int]:
        """Return the tokens of each text, and how many the embedding model reads of one.

        The counts are those of the embedding model's tokenizer; None where only an estimate is known.
        """
        embedder = await self._session.resources.get("embedder")
        if getattr(embedder, "estimates_tokens", False):
            return None, embedder.max_tokens
        counts = await asyncio.to_thread(embedder.count_tokens, list(texts))
        return counts, embedder.max_tokens
