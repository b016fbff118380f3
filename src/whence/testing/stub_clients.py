"""Stand-ins for the clients of `DocumentRag`: small and deterministic; each records its calls.

    prompt = StubPrompt("Within 30 days [1].", concepts=["return policy"])
    search = StubSearch(["urn:chunk:a", "urn:chunk:b"])
    texts = StubTexts({"urn:chunk:a": "Items may be returned within 30 days.", "urn:chunk:b": "..."})
    rag = DocumentRag(prompt, StubEmbeddings(), search, texts.fetch_chunk)

A stub with an `error` raises it; with `error=NEVER` it never answers.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from whence.schema.errors import NotFound
from whence.schema.prompt import PromptResult, Quote
from whence.schema.rerank import RerankerResult
from whence.schema.search import Candidate, ChunkMatch
from whence.schema.texts import ChunkText


class _Never(Exception):
    """See `NEVER`."""


#: Given as the error of a stub: it waits until it is cancelled.
NEVER: Final[Exception] = _Never()


def candidate(chunk_id: str, score: float, rank: int = 1, document_id: str = "") -> Candidate:
    """Return a match with a score."""
    return Candidate(
        chunk_id=chunk_id,
        document_id=document_id or f"document of {chunk_id}",
        score=score,
        rank=rank,
        dense_score=score,
    )


async def _fail(error: Exception | None) -> None:
    if error is NEVER:
        await asyncio.Event().wait()
    if error is not None:
        raise error


@dataclass
class StubPrompt:
    """Returns the concepts and the answer it was made with."""

    answer: str = ""
    _: KW_ONLY
    concepts: Sequence[str] = ()
    """Reply to `extract-concepts`; empty for a writer that is no language model."""
    quotes: Sequence[Quote] = ()
    pieces: Sequence[str] = ()
    """How the answer is cut when streaming; whole when empty."""
    model: str = "stub-writer"
    error: Exception | None = None
    """Raised by `document_prompt`."""
    concepts_error: Exception | None = None
    """Raised by `prompt`."""
    prompts: list[tuple[str, dict[str, Any]]] = field(default_factory=list, init=False)
    """Template and variables of each call of `prompt`."""
    documents: list[list[str]] = field(default_factory=list, init=False)
    """Documents of each call of `document_prompt`."""
    outdated: list[list[int]] = field(default_factory=list, init=False)
    """Numbers of outdated documents of each call."""

    async def prompt(
        self, template_id: str, variables: Mapping[str, Any] | None = None
    ) -> PromptResult:
        """Return the concepts, one a line; the question itself without any."""
        self.prompts.append((template_id, dict(variables or {})))
        await _fail(self.concepts_error)
        if not self.concepts:
            text = str((variables or {}).get("query", ""))
            return PromptResult(text=text, model=self.model, language_model=False)
        return PromptResult(text="\n".join(self.concepts), model=self.model)

    async def document_prompt(
        self,
        query: str,
        documents: Sequence[str],
        streaming: bool = False,
        chunk_callback: Callable[[str, bool], Awaitable[None]] | None = None,
        outdated: Sequence[int] = (),
    ) -> PromptResult:
        """Return the answer, in pieces when streaming."""
        self.documents.append(list(documents))
        self.outdated.append(list(outdated))
        await _fail(self.error)
        if streaming and chunk_callback is not None:
            for piece in self.pieces or (self.answer,):
                await chunk_callback(piece, False)
            await chunk_callback("", True)
        return PromptResult(
            text=self.answer, model=self.model, quotes=tuple(self.quotes), in_token=7, out_token=3
        )


@dataclass
class StubEmbeddings:
    """Returns for each text a vector that depends on that text alone."""

    dimension: int = 4
    """Length of the vectors, 1 to 32."""
    _: KW_ONLY
    surplus: int = 0
    """Vectors returned beyond the number of texts; may be negative."""
    error: Exception | None = None
    calls: list[list[str]] = field(default_factory=list, init=False)
    """Texts of each call."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text."""
        self.calls.append(list(texts))
        await _fail(self.error)
        vectors = [self.vector(text) for text in texts]
        return (vectors + [self.vector("")] * max(0, self.surplus))[: len(texts) + self.surplus]

    def vector(self, text: str) -> list[float]:
        """Return the vector of a text, of length 1."""
        digest = hashlib.sha256(text.encode()).digest()[: self.dimension]
        length = sum((byte + 1) ** 2 for byte in digest) ** 0.5
        return [(byte + 1) / length for byte in digest]


@dataclass
class StubSearch:
    """Returns the same matches every time, or those of a function."""

    matches: Sequence[Any] | Callable[[Any, int], Sequence[Any]] = ()
    """Chunk ids or matches, best first; or a function of vector and limit that returns them."""
    _: KW_ONLY
    error: Exception | None = None
    calls: list[tuple[Any, int]] = field(default_factory=list, init=False)
    """Vector and limit of each call."""
    collections: list[str] = field(default_factory=list, init=False)
    """Collection of each call."""

    async def query(self, *, vector: Any, limit: int, collection: str) -> list[Any]:
        """Return at most `limit` matches."""
        self.calls.append((vector, limit))
        self.collections.append(collection)
        await _fail(self.error)
        matches = self.matches(vector, limit) if callable(self.matches) else self.matches
        return [ChunkMatch(m) if isinstance(m, str) else m for m in matches][:limit]


@dataclass
class StubTexts:
    """Holds texts by chunk id; an exception in place of a text is raised when it is read one by one."""

    texts: Mapping[str, str | Exception]
    _: KW_ONLY
    error: Exception | None = None
    calls: list[tuple[str, ...]] = field(default_factory=list, init=False)
    """Ids of each call."""
    running: int = field(default=0, init=False)
    most_at_once: int = field(default=0, init=False)
    """Most calls of `fetch_chunk` that were open at the same time."""

    async def fetch_chunk(self, chunk_id: str) -> str:
        """Return one text.

        Raises:
            NotFound: There is none.
        """
        self.calls.append((chunk_id,))
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            await asyncio.sleep(0)
            await _fail(self.error)
            text = self.texts.get(chunk_id)
            if isinstance(text, Exception):
                await _fail(text)
        finally:
            self.running -= 1
        if not isinstance(text, str):
            raise NotFound(f"there is no chunk {chunk_id}")
        return text

    async def fetch_chunks(self, chunk_ids: Sequence[str]) -> dict[str, ChunkText]:
        """Return the texts that exist, with their source."""
        self.calls.append(tuple(chunk_ids))
        await _fail(self.error)
        return {
            chunk_id: ChunkText(
                chunk_id=chunk_id,
                document_id=f"document of {chunk_id}",
                content=text,
                metadata={"source_file": f"{chunk_id}.md", "heading": "Heading"},
            )
            for chunk_id in chunk_ids
            if isinstance(text := self.texts.get(chunk_id), str)
        }


@dataclass
class StubReranker:
    """Returns the results it was made with, or the documents in order with falling scores."""

    results: Any = None
    _: KW_ONLY
    error: Exception | None = None
    calls: list[dict[str, Any]] = field(default_factory=list, init=False)
    """Arguments of each call."""

    async def rerank(
        self,
        queries: Sequence[Mapping[str, str]],
        documents: Sequence[Mapping[str, str]],
        limit: int = 10,
    ) -> Any:
        """Return the results, at most `limit` of them when none were given."""
        self.calls.append({"queries": queries, "documents": documents, "limit": limit})
        await _fail(self.error)
        if self.results is not None:
            return self.results
        return [
            RerankerResult(document["id"], queries[0]["id"], 1.0 / (place + 1))
            for place, document in enumerate(documents)
        ][:limit]
