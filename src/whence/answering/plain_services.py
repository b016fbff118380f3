"""Any clients as the services of one question, without a bus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

from whence.answering.prompts import EXTRACT_CONCEPTS, outdated_numbers
from whence.answering.state import RagOptions
from whence.operations.ask import ChunkCallback
from whence.retrieval.rerank import finite_number
from whence.retrieval.services import Deadline, Embedded, PlannedQuery
from whence.retrieval.spelling import Spelling
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import InternalError, NotFound, WhenceError
from whence.schema.passages import Passage
from whence.schema.prompt import PromptResult
from whence.schema.rerank import RerankResponse
from whence.schema.search import Candidate, SearchMode, SearchResponse
from whence.schema.texts import ChunkText

logger = logging.getLogger(__name__)

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

    def query(self, *, vector: Any, limit: int, collection: str) -> Awaitable[Sequence[Any]]:
        """Return matches, best first; a `ChunkMatch` or another object with `chunk_id` and perhaps scores."""
        ...


class KeywordClient(Protocol):
    """Searches for words."""

    def query(self, *, query: str, limit: int, collection: str) -> Awaitable[Sequence[Any]]:
        """Return matches, best first, as `SearchClient.query` does."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainServices:
    """Clients as the services of one question.

    A query with a vector goes to `vectors`, one without to `keywords`.
    """

    prompts: PromptClient
    embeddings: EmbeddingClient
    vectors: SearchClient
    keywords: KeywordClient | None
    reranker: RerankerClient | None
    fetch_chunk: FetchChunk
    fetch_chunks: FetchChunks | None
    mode: SearchMode
    collection: str
    deadline: Deadline
    options: RagOptions
    verbose: bool

    def log(self, message: str, *values: object) -> None:
        """Log at debug level when verbose: the only level at which questions and texts are logged."""
        if self.verbose:
            logger.debug(message, *values)

    async def extract_concepts(self, query: str) -> PromptResult:
        """Return search phrases for a question, one a line."""
        result = await self.prompts.prompt(EXTRACT_CONCEPTS, variables={"query": query})
        self.log("Extracted concepts: %s", result.text)
        return result

    async def complete_question(
        self, query: str, earlier: Sequence[str], previous: str = ""
    ) -> PromptResult:
        """Return the question as it is: these clients know one question at a time."""
        return PromptResult(text=query, language_model=False)

    async def search_again(
        self, query: str, passages: Sequence[Passage], searched: Sequence[str]
    ) -> PromptResult:
        """Return that no model says it: a `DocumentRag` asks no deep questions."""
        return PromptResult(language_model=False)

    async def write_answer(
        self,
        query: str,
        passages: Sequence[Passage],
        on_piece: ChunkCallback | None,
        absent: Sequence[str] = (),
        wishes: Mapping[str, Any] = {},
    ) -> PromptResult:
        """Answer a question; a simple client gets only the arguments that apply."""
        optional: dict[str, Any] = {}
        if old := outdated_numbers(query, passages):
            optional["outdated"] = old
        if on_piece is not None:
            optional |= {"streaming": True, "chunk_callback": on_piece}
        documents = [one.whole_text for one in passages]
        self.log("Invoking LLM...")
        self.log("Query: %s; documents: %s", query, documents)
        return await self.prompts.document_prompt(query=query, documents=documents, **optional)

    async def window(self) -> int | None:
        """Return None: the clients do not say it."""
        return None

    async def local_only(self) -> tuple[frozenset[str], str]:
        """Return no tags: these clients know none."""
        return frozenset(), ""

    async def embed(self, texts: Sequence[str], what: str) -> Embedded:
        """See `RetrievalServices.embed`."""
        self.log("Computing embeddings...")
        vectors = await self.deadline.limit(
            f"embedding {what}",
            lambda: self.embeddings.embed(texts),
            self.options.embedding_timeout_s,
        )
        count = len(vectors) if hasattr(vectors, "__len__") else 0
        if count != len(texts):
            raise InternalError(f"embedding {what} gave {count} vectors for {len(texts)} texts")
        model = getattr(vectors[0], "model", None)
        return Embedded(vectors, model if isinstance(model, EmbeddingModel) else None)

    async def check_spelling(self, text: str) -> Spelling:
        """Return nothing: the clients do not list their words."""
        return Spelling()

    async def occurs(self, term: str) -> bool:
        """Return True: the clients do not list their words."""
        return True

    async def search(self, queries: Sequence[PlannedQuery]) -> list[SearchResponse | WhenceError]:
        """See `RetrievalServices.search`."""
        self.log("Getting chunks from embeddings store...")
        return await asyncio.gather(*map(self._search, queries))

    async def _search(self, query: PlannedQuery) -> SearchResponse | WhenceError:
        call: Callable[..., Awaitable[Sequence[Any]]]
        if query.vector is not None:
            call = partial(self.vectors.query, vector=query.vector)
        else:
            assert self.keywords is not None
            call = partial(self.keywords.query, query=query.text)
        call = partial(call, limit=query.limit, collection=self.collection)
        try:
            timeout_s = self.options.search_timeout_s
            matches = await self.deadline.limit("searching", call, timeout_s)
        except WhenceError as error:
            return error
        self.log("Got %d chunks", len(matches))
        return SearchResponse(candidates=tuple(map(read_match, matches)))

    async def tagged(self, chunk_ids: Sequence[str], tags: frozenset[str]) -> frozenset[str]:
        """Return none: these clients know no tags."""
        return frozenset()

    async def fetch(
        self, chunk_ids: Sequence[str], *, with_places: bool = False
    ) -> Mapping[str, Any]:
        """Return all texts from one request where the client can do that, else a few at once.

        These clients know no places: with `with_places` nothing is read.
        """
        if with_places:
            return {}
        timeout_s = self.options.texts_timeout_s
        fetch_chunks = self.fetch_chunks
        if fetch_chunks is not None:
            found = await self.deadline.limit(
                "reading the texts", lambda: fetch_chunks(chunk_ids), timeout_s
            )
            return {one: _read_text(one, found.get(one)) for one in chunk_ids}
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
                text = await deadline.limit(
                    f"reading chunk {chunk_id}",
                    lambda: self.fetch_chunk(chunk_id),
                    self.options.texts_timeout_s,
                )
                return _read_text(chunk_id, text)
            except NotFound:
                return None
            except WhenceError as error:
                return error

    async def rerank(
        self, query: str, passages: Sequence[Passage], scores: Sequence[float], limit: int
    ) -> RerankResponse:
        """Have the best passages chosen."""
        reranker = self.reranker
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
        return RerankResponse(results=cast("Any", results))


def _read_text(chunk_id: str, text: Any) -> Any:
    """Read a text that a client returned; a plain one names no document."""
    if isinstance(text, str):
        return ChunkText(chunk_id=chunk_id, document_id="", content=text)
    return text


def read_match(match: Any) -> Candidate:
    """Read what a client found as a candidate; its score is None where only the order is known."""
    names = ("score", "dense_score", "sparse_score", "graph_score", "name_score")
    scores: dict[str, Any] = {name: finite_number(getattr(match, name, None)) for name in names}
    chunk_id, document_id = getattr(match, "chunk_id", ""), getattr(match, "document_id", "")
    return Candidate(
        chunk_id=chunk_id if isinstance(chunk_id, str) else "",
        document_id=document_id if isinstance(document_id, str) else "",
        rank=0,
        **scores,
    )
