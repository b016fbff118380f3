"""What the steps of one question share: whom they ask, within which limits, and what is known so far."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import msgspec

from whence.answering.deadline import Deadline
from whence.answering.trace_recorder import Trail
from whence.processors.clients import ChunkCallback
from whence.provenance.stage_records import CandidateRecord, ModelUse
from whence.provenance.terms import Scalar
from whence.retrieval.rerank import RERANK_DEPTH
from whence.schema.prompt import PromptResult

__all__ = (
    "OVERFETCH_FACTOR",
    "Ask",
    "Clients",
    "EmbeddingAsker",
    "FetchChunk",
    "FetchChunks",
    "PromptAsker",
    "Question",
    "RagOptions",
    "RerankAsker",
    "SaveAnswerCallback",
    "SearchAsker",
)

#: Candidates retrieved for each chunk that a reranker is to keep.
OVERFETCH_FACTOR = 3

SaveAnswerCallback = Callable[[str, str], Awaitable[None]]
"""Takes the IRI under which the answer is kept, and its text."""
FetchChunk = Callable[[str], Awaitable[str]]
"""Takes a chunk id and gives its text."""
FetchChunks = Callable[[Sequence[str]], Awaitable[Mapping[str, Any]]]
"""Takes chunk ids and gives the texts there are, `str` or `ChunkText`, by id."""

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class PromptAsker(Protocol):
    """Writes concepts and answers."""

    def prompt(self, template_id: str, *, variables: Mapping[str, Any]) -> Awaitable[PromptResult]:
        """Fill a template and have it answered."""
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
        """Have a question answered from documents; `outdated` is given only where some are."""
        ...


class EmbeddingAsker(Protocol):
    """Makes vectors."""

    def embed(self, texts: Sequence[str], /) -> Awaitable[Sequence[Any]]:
        """Give one vector per text; what a vector is, is between this and the search."""
        ...


class SearchAsker(Protocol):
    """Searches."""

    def query(self, vector: Any, /, *, limit: int) -> Awaitable[Sequence[Any]]:
        """Give matches, best first; objects with `chunk_id` and perhaps scores."""
        ...


class RerankAsker(Protocol):
    """Reranks."""

    def rerank(
        self,
        *,
        queries: Sequence[Mapping[str, str]],
        documents: Sequence[Mapping[str, str]],
        limit: int,
    ) -> Awaitable[Sequence[Any]]:
        """Give the best documents, objects with `document_id` and `score`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Whom a question asks."""

    prompt: PromptAsker
    embeddings: EmbeddingAsker
    doc_embeddings: SearchAsker
    fetch_chunk: FetchChunk
    fetch_chunks: FetchChunks | None = None
    reranker: RerankAsker | None = None


class RagOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits and choices that hold for every question."""

    threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Candidates with a score below it are dropped."""
    drop_duplicates: bool = False
    """Whether of passages with equal texts only the best ranked is kept."""
    max_concepts: Annotated[int, msgspec.Meta(ge=1, le=64)] = 10
    """Most concepts that are searched for, the question itself not counted."""
    max_context_chars: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Most characters of text given to the writer, 0 for no limit. A text is taken whole or skipped; the
    best one is always taken."""
    max_question_bytes: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 200_000
    """Longest question, in bytes of UTF-8; an embedding model reads the beginning of a long one."""
    fetch_concurrency: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 16
    """Texts read at once where they are read one by one."""
    full_account: bool = True
    """Whether the trace tells of scores, reasons, models, times and limits, or is held in the shared
    vocabulary alone."""
    deadline_s: _Seconds | None = None
    """Seconds for the whole question; None for no limit but those below."""
    concepts_timeout_s: _Seconds = 30.0
    """Seconds for naming concepts; after that the question alone is searched."""
    embedding_timeout_s: _Seconds = 30.0
    """Seconds for one embedding call."""
    search_timeout_s: _Seconds = 30.0
    """Seconds for the searches, which run at once."""
    texts_timeout_s: _Seconds = 30.0
    """Seconds for reading all texts."""
    rerank_timeout_s: _Seconds = 30.0
    """Seconds for reranking; after that the order of retrieval stays."""
    answer_timeout_s: _Seconds = 120.0
    """Seconds for writing the answer."""
    save_timeout_s: _Seconds = 10.0
    """Seconds for saving the answer, where a callback for that is given."""
    explain_timeout_s: _Seconds = 2.0
    """Seconds for one call of an explain callback; a slower one is not called again for the question."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One question with the choices made for it."""

    query: str
    """The question."""
    doc_limit: int
    """Most chunks given to the writer."""
    fetch_limit: int
    """Candidates to retrieve for a reranker; 0 for three times `doc_limit`."""
    rerank: bool
    """Whether a reranker is asked."""
    asked_at: str
    """ISO 8601 in UTC."""
    settings: Mapping[str, Scalar] = {}
    """More that the trace tells of the question."""
    streaming: bool = False
    chunk_callback: ChunkCallback | None = None
    save_answer_callback: SaveAnswerCallback | None = None

    @property
    def pool_limit(self) -> int:
        """Candidates that are retrieved and read; never fewer than are to be kept.

        Without a reranker nothing narrows them down later, and only as many are retrieved as are kept.
        """
        if not self.rerank:
            return self.doc_limit
        return max(self.fetch_limit or OVERFETCH_FACTOR * self.doc_limit, self.doc_limit)

    @property
    def read_limit(self) -> int:
        """Candidates that our own reranker reads, where its scores only correct those of retrieval.

        A third of the pool, never fewer than are kept, nor than are read for a search. Whoever wants more read
        asks for a larger pool.
        """
        return max(self.doc_limit, RERANK_DEPTH, self.pool_limit // OVERFETCH_FACTOR)


@dataclass(slots=True, kw_only=True)
class Question:
    """One question on its way."""

    ask: Ask
    clients: Clients
    options: RagOptions
    trail: Trail
    deadline: Deadline
    accounts: list[CandidateRecord] = field(default_factory=list)
    """All candidates by rank, with what exploration found out about them."""
    models: dict[str, ModelUse] = field(default_factory=dict)
    """Models that took part, by role."""
    focused: bool = False
    """Whether the reranker's choice holds."""
