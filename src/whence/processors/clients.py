"""Typed clients of the other services, for the time of one message.

They speak through the context only, so that the same caller works over any transport. Their methods are
those that `DocumentRag` calls; any object with the same methods can stand in for them.
"""

from __future__ import annotations

import array
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from whence.answering.prompt_templates import DOCUMENT_PROMPT
from whence.processors.base import Context
from whence.processors.streams import closing
from whence.schema.access import Access
from whence.schema.embedding import (
    EmbeddingModel,
    EmbeddingRequest,
    EmbeddingResponse,
    Purpose,
)
from whence.schema.errors import DeadlineExceeded, InternalError, NotFound
from whence.schema.prompt import PromptRequest, PromptResponse, PromptResult
from whence.schema.rerank import RerankerResult, RerankItem, RerankRequest, RerankResponse
from whence.schema.search import (
    Candidate,
    Degradation,
    GraphUse,
    SearchMode,
    SearchQuery,
    SearchRequest,
    SearchResponse,
)
from whence.schema.texts import ChunkText, TextRequest, TextResponse

__all__ = (
    "ChunkCallback",
    "DocEmbeddingsClient",
    "EmbeddingsClient",
    "Matches",
    "PromptClient",
    "QueryVector",
    "RerankerClient",
    "Scored",
    "TextsClient",
)

ChunkCallback = Callable[[str, bool], Awaitable[None]]
"""Takes a piece of text and whether it is the last."""


class QueryVector(msgspec.Struct, frozen=True):
    """The vector of one text, with what a search must know besides."""

    data: bytes
    """float32 little endian, shape (dimension,)."""
    model: EmbeddingModel | None = None
    """Model that made it; a search refuses a vector of another model than its collection's."""
    text: str = ""
    """The text, for the lexical leg of a search."""

    @classmethod
    def of(cls, numbers: Iterable[float], text: str = "") -> QueryVector:
        """Make one from plain numbers."""
        values = array.array("f", numbers)
        if sys.byteorder == "big":
            values.byteswap()
        return cls(values.tobytes(), None, text)

    def to_list(self) -> list[float]:
        """Give the numbers."""
        values = array.array("f", self.data)
        if sys.byteorder == "big":
            values.byteswap()
        return values.tolist()


class Matches(list[Candidate]):
    """A ranking, best first, the legs that took no part in it, and what the passage graph did."""

    def __init__(
        self,
        candidates: Iterable[Candidate],
        degraded: tuple[Degradation, ...] = (),
        graph: GraphUse | None = None,
    ) -> None:
        super().__init__(candidates)
        self.degraded = degraded
        self.graph = graph


class Scored(list[RerankerResult]):
    """What a reranker keeps, best first; `rest` are those it scored below, still in order."""

    def __init__(
        self,
        results: Iterable[RerankerResult],
        rest: Iterable[RerankerResult] = (),
        model: str = "",
    ) -> None:
        super().__init__(results)
        self.rest = tuple(rest)
        self.model = model


class EmbeddingsClient:
    """Asks the embedding service."""

    def __init__(self, context: Context, *, port: str = "embedding") -> None:
        self._context = context
        self._port = port

    async def request(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingResponse:
        """Give the vectors of texts as they travel, one per text.

        Raises:
            InternalError: The reply does not hold one vector per text.
        """
        message = EmbeddingRequest(texts=tuple(texts), purpose=purpose)
        reply = await self._context.call(self._port, message, EmbeddingResponse)
        expected = len(texts) * reply.model.dimension * 4
        if len(reply.vectors) != expected:
            raise InternalError(
                f"the embedding service gave {len(reply.vectors)} bytes of vectors"
                f" for {len(texts)} texts; expected {expected}"
            )
        return reply

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> list[QueryVector]:
        """Give one vector per text, in order.

        Raises:
            InternalError: As for `request`.
        """
        reply = await self.request(texts, purpose)
        size = reply.model.dimension * 4
        return [
            QueryVector(reply.vectors[index * size : (index + 1) * size], reply.model, text)
            for index, text in enumerate(texts)
        ]


class DocEmbeddingsClient:
    """Asks the search service, with the rights of one reader in one collection."""

    def __init__(
        self,
        context: Context,
        *,
        collection: str,
        access: Access,
        mode: SearchMode = "dense",
        filters: Mapping[str, Any] | None = None,
        port: str = "search",
    ) -> None:
        self._filters = dict(filters or {})
        self._context = context
        self._collection = collection
        self._access = access
        self._mode = mode
        self._port = port

    def words_only(self, text: str) -> QueryVector | None:
        """Give a query that words alone can answer; None when the mode has no use for words."""
        return None if self._mode == "dense" else QueryVector(b"", None, text)

    async def query(
        self,
        vector: QueryVector | Sequence[float],
        limit: int,
        *,
        query_text: str = "",
        threshold: float = 0.0,
    ) -> Matches:
        """Give the best visible chunks, at most `limit`."""
        if not isinstance(vector, QueryVector):
            vector = QueryVector.of(vector)
        message = self._request(vector, limit, query_text or vector.text, threshold)
        reply = await self._context.call(self._port, message, SearchResponse)
        return Matches(reply.candidates, reply.degraded, reply.graph)

    async def query_all(self, queries: Sequence[tuple[QueryVector, int]]) -> list[Matches | None]:
        """Ask several queries in one request: vectors of one model, each with its limit, at least one.

        Returns:
            One ranking for each. None for a query that was not answered with the others: asked alone it
            may be, or tells why not.
        """
        (first, limit), *rest = queries
        more = tuple(
            SearchQuery(limit=most, vector=vector.data or None, query_text=vector.text)
            for vector, most in rest
        )
        message = self._request(first, limit, first.text, 0.0, more)
        reply = await self._context.call(self._port, message, SearchResponse)
        if len(reply.results) != len(queries):
            # A service of an older version knows of one query only.
            own = Matches(reply.candidates, reply.degraded, reply.graph)
            return [own, *(None for _ in rest)]
        return [
            None if found is None else Matches(found.candidates, found.degraded, found.graph)
            for found in reply.results
        ]

    def _request(
        self,
        vector: QueryVector,
        limit: int,
        query_text: str,
        threshold: float,
        more: tuple[SearchQuery, ...] = (),
    ) -> SearchRequest:
        return SearchRequest(
            access=self._access,
            collection=self._collection,
            limit=limit,
            vector=vector.data or None,
            model=vector.model,
            query_text=query_text,
            mode=self._mode,
            threshold=threshold,
            filters=self._filters,
            more=more,
        )


class TextsClient:
    """Asks the text service, with the rights of one reader in one collection."""

    def __init__(
        self, context: Context, *, collection: str, access: Access, port: str = "texts"
    ) -> None:
        self._context = context
        self._collection = collection
        self._access = access
        self._port = port

    async def fetch_chunk(self, chunk_id: str) -> str:
        """Give one text.

        Raises:
            NotFound: There is no such chunk for this reader.
        """
        texts = await self.fetch_chunks((chunk_id,))
        if chunk_id not in texts:
            raise NotFound(f"there is no chunk {chunk_id}")
        return texts[chunk_id].content

    async def fetch_chunks(self, chunk_ids: Sequence[str]) -> dict[str, ChunkText]:
        """Give the texts that exist and are visible, by chunk id, in one request."""
        message = TextRequest(
            access=self._access, collection=self._collection, chunk_ids=tuple(chunk_ids)
        )
        reply = await self._context.call(self._port, message, TextResponse)
        return {text.chunk_id: text for text in reply.texts}


class RerankerClient:
    """Asks the rerank service."""

    def __init__(self, context: Context, *, port: str = "reranker") -> None:
        self._context = context
        self._port = port

    async def rerank(
        self,
        queries: Sequence[Mapping[str, str]],
        documents: Sequence[Mapping[str, str]],
        limit: int = 10,
        timeout: float | None = None,
        *,
        retrieval_scores: Sequence[float | None] = (),
    ) -> Scored:
        """Give the best documents over all queries, at most `limit`, and the scores of the rest.

        Args:
            queries: `{"id": ..., "text": ...}` each.
            documents: `{"id": ..., "text": ...}` each.
            limit: Most results, 1 or more.
            timeout: Seconds to wait; None for the context's own patience.
            retrieval_scores: Scores of the documents before, in their order, to be joined with the new ones.

        Raises:
            DeadlineExceeded: There was no reply within `timeout` seconds.
        """
        message = RerankRequest(
            queries=tuple(RerankItem(id=item["id"], text=item["text"]) for item in queries),
            documents=tuple(
                RerankItem(id=item["id"], text=item["text"], retrieval_score=score)
                for item, score in zip_longest(documents, retrieval_scores[: len(documents)])
            ),
            # All are asked for: the scores of those that are cut belong in the trace.
            limit=max(limit, len(documents), 1),
        )
        try:
            async with asyncio.timeout(timeout):
                reply = await self._context.call(self._port, message, RerankResponse)
        except TimeoutError as error:
            raise DeadlineExceeded(f"the reranker gave no reply within {timeout} s") from error
        return Scored(reply.results[:limit], reply.results[limit:], reply.model)


class PromptClient:
    """Asks the prompt service."""

    def __init__(self, context: Context, *, port: str = "prompt") -> None:
        self._context = context
        self._port = port

    async def prompt(
        self,
        template_id: str,
        variables: Mapping[str, Any] | None = None,
        *,
        streaming: bool = False,
        chunk_callback: ChunkCallback | None = None,
    ) -> PromptResult:
        """Have a template filled and answered; pieces go to `chunk_callback` when streaming.

        Raises:
            InternalError: The service ended without a result.
        """
        message = PromptRequest(template_id=template_id, variables=dict(variables or {}))
        if streaming and chunk_callback is not None:
            message = msgspec.structs.replace(message, streaming=True)
            result = await self._in_pieces(message, chunk_callback)
        else:
            reply = await self._context.call(self._port, message, PromptResponse)
            result = reply.result
        if result is None:
            raise InternalError("the prompt service ended without a result")
        return result

    async def _in_pieces(
        self, message: PromptRequest, chunk_callback: ChunkCallback
    ) -> PromptResult | None:
        """Give the result after the pieces of its text."""
        result: PromptResult | None = None
        async with closing(self._context.stream(self._port, message)) as replies:
            async for reply in replies:
                if not isinstance(reply, PromptResponse):
                    raise InternalError(f"the prompt service sent a {type(reply).__name__}")
                result = reply.result or result
                if reply.piece:
                    await chunk_callback(reply.piece, False)
        if result is not None:
            await chunk_callback("", True)
        return result

    async def document_prompt(
        self,
        query: str,
        documents: Sequence[str],
        streaming: bool = False,
        chunk_callback: ChunkCallback | None = None,
        outdated: Sequence[int] = (),
        sections: Sequence[str] = (),
    ) -> PromptResult:
        """Have a question answered from documents; `[n]` in the text is the n-th, from 1.

        Args:
            query: The question.
            documents: Texts, best first.
            streaming: True for pieces as they are written.
            chunk_callback: Gets them.
            outdated: Numbers of documents that say of themselves that they are out of date.
            sections: Where each document stands, as titles and headings; empty when none is known.

        Raises:
            InternalError: As for `prompt`.
        """
        return await self.prompt(
            DOCUMENT_PROMPT,
            {"query": query, "documents": list(documents)}
            | ({"outdated": list(outdated)} if outdated else {})
            | ({"sections": list(sections)} if any(sections) else {}),
            streaming=streaming,
            chunk_callback=chunk_callback,
        )
