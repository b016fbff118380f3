"""`DocumentRag`: questions answered over any clients, without a bus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol

from whence.answering.pipeline import answer
from whence.answering.prompts import EXTRACT_CONCEPTS, outdated_numbers
from whence.answering.state import (
    ChunkCallback,
    ExplainCallback,
    RagOptions,
    SaveAnswerCallback,
    check_question,
    new_question,
)
from whence.answering.trace_recorder import Sources, new_answer_id, utc_now
from whence.provenance.stage_records import Scalar
from whence.retrieval.services import Deadline, Embedded, Passage, Query, Ranking, RerankReply
from whence.schema.access import Access
from whence.schema.document_rag import Answer, DocumentRagRequest
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import InternalError, NotFound, WhenceError
from whence.schema.prompt import PromptResult
from whence.schema.search import SearchMode

FetchChunk = Callable[[str], Awaitable[str]]
"""Takes a chunk id and returns its text."""
FetchChunks = Callable[[Sequence[str]], Awaitable[Mapping[str, Any]]]
"""Takes chunk ids and returns the texts that exist, `str` or `ChunkText`, by id."""


class PromptClient(Protocol):
    """Writes concepts and answers."""

    def prompt(self, template_id: str, *, variables: Mapping[str, Any]) -> Awaitable[PromptResult]:
        """Fill a template and return the reply to it."""
        ...

    def document_prompt(
        self,
        *,
        query: str,
        documents: Sequence[str],
        streaming: bool = False,
        chunk_callback: ChunkCallback | None = None,
        outdated: Sequence[int] = (),
    ) -> Awaitable[PromptResult]:
        """Answer a question from documents; `outdated` is passed only where some are."""
        ...


class EmbeddingClient(Protocol):
    """Makes vectors."""

    def embed(self, texts: Sequence[str], /) -> Awaitable[Sequence[Any]]:
        """Return one vector per text; what a vector is, is between this and the search."""
        ...


class SearchClient(Protocol):
    """Searches."""

    def query(self, vector: Any, /, *, limit: int) -> Awaitable[Sequence[Any]]:
        """Return matches, best first; objects with `chunk_id` and perhaps scores."""
        ...


class RerankerClient(Protocol):
    """Reranks."""

    def rerank(
        self,
        *,
        queries: Sequence[Mapping[str, str]],
        documents: Sequence[Mapping[str, str]],
        limit: int,
    ) -> Awaitable[Sequence[Any]]:
        """Return the best documents, objects with `document_id` and `score`."""
        ...


class DocumentRag:
    """Answers questions from documents and records how each answer was produced.

    Args:
        prompt_client: Extracts concepts and writes answers.
        embeddings_client: Makes vectors.
        doc_embeddings_client: Searches with vectors.
        fetch_chunk: Takes a chunk id and returns its text.
        reranker_client: Chooses among the candidates; None for the order of retrieval.
        fetch_chunks: Reads all texts in one request; used in place of `fetch_chunk` when given.
        options: Limits and choices.
        settings: More that the trace records of every question, e.g. `collection`.
        new_id: Makes ids of answers.
        clock: Time of day in UTC.
        monotonic: Clock in seconds that never goes back.
    """

    def __init__(
        self,
        prompt_client: PromptClient,
        embeddings_client: EmbeddingClient,
        doc_embeddings_client: SearchClient,
        fetch_chunk: FetchChunk,
        reranker_client: RerankerClient | None = None,
        *,
        fetch_chunks: FetchChunks | None = None,
        options: RagOptions | None = None,
        settings: Mapping[str, Scalar] | None = None,
        new_id: Callable[[], str] = new_answer_id,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.prompt_client = prompt_client
        self.embeddings_client = embeddings_client
        self.doc_embeddings_client = doc_embeddings_client
        self.fetch_chunk = fetch_chunk
        self.reranker_client = reranker_client
        self.fetch_chunks = fetch_chunks
        self.options = options or RagOptions()
        self._settings = dict(settings or {})
        self._sources = Sources(new_id, clock, monotonic)

    async def query(
        self,
        query: str,
        doc_limit: int = 20,
        fetch_limit: int = 0,
        streaming: bool = False,
        chunk_callback: ChunkCallback | None = None,
        explain_callback: ExplainCallback | None = None,
        save_answer_callback: SaveAnswerCallback | None = None,
        *,
        rerank: bool = True,
        answer_id: str = "",
        deadline_s: float | None = None,
    ) -> Answer:
        """Answer one question.

        Args:
            query: The question.
            doc_limit: Most chunks given to the writer, 1 or more.
            fetch_limit: Candidates retrieved for the reranker, at least `doc_limit`; 0 for three times that.
            streaming: Whether `chunk_callback` gets the text as it is written.
            chunk_callback: Takes a piece of text and whether it is the last.
            explain_callback: Takes the triples and the IRI of each stage as soon as it is done.
            save_answer_callback: Takes the IRI and the text of an answer whose stages `explain_callback` takes.
            rerank: False leaves the reranker out.
            answer_id: Id of the answer; made when empty.
            deadline_s: Seconds for the whole question; the shorter of this and the options' own applies.

        Raises:
            WhenceError: `BadInput` for an invalid argument; the time ran out, or a needed stage failed.
        """
        message = DocumentRagRequest(
            access=Access.public(),
            question=query,
            answer_id=answer_id,
            doc_limit=doc_limit,
            fetch_limit=fetch_limit,
            rerank=rerank,
        )
        options = self.options
        check_question(query, doc_limit, fetch_limit, max_bytes=options.max_question_bytes)
        deadline = options.deadline(deadline_s, self._sources.monotonic)
        services = _PlainServices(self, deadline, options)
        question = new_question(
            message,
            options,
            self._sources,
            retrieval=services,
            writer=services,
            deadline=deadline,
            has_reranker=self.reranker_client is not None,
            settings=self._settings,
            listener=None
            if explain_callback is None
            else lambda event: explain_callback(event.triples, event.explain_id),
        )
        question.on_piece = chunk_callback if streaming else None
        question.save_answer = save_answer_callback
        return await answer(question)


@dataclass(frozen=True, slots=True)
class _PlainServices:
    """The clients of a `DocumentRag` as the services of one question."""

    rag: DocumentRag
    deadline: Deadline
    options: RagOptions

    mode: ClassVar[SearchMode] = "dense"
    fuses_scores: ClassVar[bool] = False

    async def extract_concepts(self, query: str) -> PromptResult:
        """Return search phrases for a question, one a line."""
        return await self.rag.prompt_client.prompt(EXTRACT_CONCEPTS, variables={"query": query})

    async def write_answer(
        self, query: str, passages: Sequence[Passage], on_piece: ChunkCallback | None
    ) -> PromptResult:
        """Answer a question; a simple client gets only the arguments that apply."""
        optional: dict[str, Any] = {}
        if old := outdated_numbers(passages):
            optional["outdated"] = old
        if on_piece is not None:
            optional |= {"streaming": True, "chunk_callback": on_piece}
        documents = [one.text for one in passages]
        return await self.rag.prompt_client.document_prompt(
            query=query, documents=documents, **optional
        )

    async def embed(self, texts: Sequence[str], what: str) -> Embedded:
        """See `RetrievalServices.embed`."""
        vectors = await self.deadline.limit(
            f"embedding {what}",
            lambda: self.rag.embeddings_client.embed(texts),
            self.options.embedding_timeout_s,
        )
        count = len(vectors) if hasattr(vectors, "__len__") else 0
        if count != len(texts):
            raise InternalError(f"embedding {what} gave {count} vectors for {len(texts)} texts")
        model = getattr(vectors[0], "model", None)
        return Embedded(vectors, model if isinstance(model, EmbeddingModel) else None)

    async def search(self, queries: Sequence[Query]) -> list[Ranking | WhenceError]:
        """See `RetrievalServices.search`."""
        return await asyncio.gather(*map(self._search, queries))

    async def _search(self, query: Query) -> Ranking | WhenceError:
        try:
            matches = await self.deadline.limit(
                "searching",
                lambda: self.rag.doc_embeddings_client.query(query.vector, limit=query.limit),
                self.options.search_timeout_s,
            )
        except WhenceError as error:
            return error
        return Ranking(matches)

    async def fetch(self, chunk_ids: Sequence[str]) -> Mapping[str, Any]:
        """Return all texts from one request where the client can do that, else a few at once."""
        timeout_s = self.options.texts_timeout_s
        fetch_chunks = self.rag.fetch_chunks
        if fetch_chunks is not None:
            return await self.deadline.limit(
                "reading the texts", lambda: fetch_chunks(chunk_ids), timeout_s
            )
        slots = asyncio.Semaphore(self.options.fetch_concurrency)
        deadline = self.deadline.within(timeout_s)
        texts = await asyncio.gather(
            *(self._fetch_one(chunk_id, slots, deadline) for chunk_id in chunk_ids)
        )
        return dict(zip(chunk_ids, texts, strict=True))

    async def _fetch_one(self, chunk_id: str, slots: asyncio.Semaphore, deadline: Deadline) -> Any:
        """Return one text, None when it does not exist, or the error."""
        async with slots:
            try:
                return await deadline.limit(
                    f"reading chunk {chunk_id}",
                    lambda: self.rag.fetch_chunk(chunk_id),
                    self.options.texts_timeout_s,
                )
            except NotFound:
                return None
            except WhenceError as error:
                return error

    async def rerank(
        self, query: str, passages: Sequence[Passage], scores: Sequence[float], limit: int
    ) -> RerankReply:
        """Have the best passages chosen."""
        reranker = self.rag.reranker_client
        assert reranker is not None
        documents = [{"id": str(index), "text": one.text} for index, one in enumerate(passages)]
        results = await self.deadline.limit(
            "reranking",
            lambda: reranker.rerank(
                queries=[{"id": "0", "text": query}], documents=documents, limit=limit
            ),
            self.options.rerank_timeout_s,
            share=0.5,
        )
        return RerankReply(results)
