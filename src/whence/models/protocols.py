"""Protocols of embedders, rerankers and writers; a new kind of model implements one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from whence.schema.embedding import EmbeddingModel, Purpose
from whence.schema.prompt import PromptResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into unit vectors; a vector never depends on the other texts of the call."""

    @property
    def model(self) -> EmbeddingModel:
        """Identity of the vectors."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that the model reads at once. An embedder that must find it out has `prepare()`."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """Return float32 vectors of shape (len(texts), dimension), each of length 1.

        Raises:
            ModelMissing: The model's files are absent or damaged.
            Unavailable: The service does not answer.
        """
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, without special tokens and without truncation."""
        ...

    async def aclose(self) -> None:
        """Free all resources."""
        ...


class Reranker(Protocol):
    """Scores documents for a query, reading both together.

    It decides alone unless it has an attribute `share`, 0 to 1: then the final score is that share of its
    score, and the rest is the score of retrieval. `revision`, another one, is the digest of
    its weights.
    """

    @property
    def model(self) -> str:
        """Name for the trace."""
        ...

    async def score(self, query: str, documents: Sequence[str]) -> Sequence[float | None]:
        """Return one score per document, 0 to 1, in the order given; None for one without a valid score.

        Raises:
            ModelMissing: The model's files are absent or damaged.
            Unavailable: The server does not answer, or gives no document a score.
        """
        ...

    async def aclose(self) -> None:
        """Free all resources."""
        ...


class AskedWord(NamedTuple):
    """One word of a question, and how near each text has it."""

    text: str
    rarity: float
    """Above 0; the more, the rarer the word is."""
    near: list[float]
    """For each text the mean over the tokens of the word of their best cosines there."""


class Reading(NamedTuple):
    """How near some texts are to some questions."""

    vectors: NDArray[np.float32]
    """One row a text, of length 1."""
    cosines: list[list[float]]
    """For each question that of each text."""
    nearness: list[list[float]] = []
    """For each question and text the mean of the best cosine of each word of the question, the rare ones
    weighted more; empty when only whole texts were compared."""
    coverage: list[list[float]] = []
    """The same by the harmonic mean over words, in which a word that is missing counts most."""
    multilingual: bool = False
    """Whether a model of many languages compared the words."""
    words: list[list[AskedWord]] = []
    """For each question its words; empty when only whole texts were compared, and after a glance."""


class SpanReading(Protocol):
    """Compares short texts with questions word by word."""

    @property
    def by_sentence(self) -> bool:
        """Whether sentences are read rather than the units that their authors wrote."""
        ...

    def serving(self, language: str, text: str) -> SpanReading | None:
        """Return what reads texts of a language, or None where no model tells its words apart.

        Args:
            language: Its English name, in small letters.
            text: Some of the texts, joined.
        """
        ...

    async def glance(self, questions: Sequence[str], texts: Sequence[str]) -> Reading | None:
        """Return about how near each text is to each question, in a small part of the time of `read`.

        The vectors are of no use. None where the model can only read.

        Raises:
            ModelMissing: The model's files are absent or damaged.
        """
        ...

    async def read(self, questions: Sequence[str], texts: Sequence[str]) -> Reading:
        """Return how near each text is to each question.

        Raises:
            ModelMissing: The model's files are absent or damaged.
        """
        ...


class CodingEmbedder(Embedder, Protocol):
    """An embedder that also makes the token codes of documents, for a `CodedReranker`."""

    async def embed_coded(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[bytes]]:
        """Return the vectors of documents as `embed` does, and the token code of each.

        Raises:
            ModelMissing: The model's files are absent or damaged.
        """
        ...


class CodedReranker(Reranker, Protocol):
    """A reranker that reads the token codes of documents in place of their texts."""

    async def score_coded(
        self, query: str, documents: Sequence[str], codes: Sequence[bytes]
    ) -> list[float]:
        """Return scores as `score` does; the text of a document with an empty code is read instead.

        Raises:
            ModelMissing: The model's files are absent or damaged.
        """
        ...


class WriteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A filled template, as a prompt for language models and as documents for other writers."""

    template_id: str
    """`extract-concepts` or `document-prompt`."""
    query: str
    documents: tuple[str, ...] = ()
    """Texts to answer from, best first; marker `[n]` is the n-th, from 1."""
    outdated: frozenset[int] = frozenset()
    """Numbers of documents that declare themselves out of date."""
    preformatted: frozenset[int] = frozenset()
    """Numbers of documents whose line ends and signs are those of code, settings or logs."""
    sections: tuple[str, ...] = ()
    """Titles and headings above each document, from the outermost in; empty when none is known."""
    sources: tuple[str, ...] = ()
    """What is known of each document beside its text: its id, version and date; empty when nothing is."""
    leads: tuple[str, ...] = ()
    """Header of the table or terms of the definition in which each document begins, see `ChunkDraft.lead`;
    empty when none has any."""
    system: str = ""
    prompt: str = ""
    max_tokens: int | None = None
    """Most tokens to write; None for the writer's own limit."""
    temperature: float | None = None
    """None for the writer's own."""
    sampling: Mapping[str, Any] = {}
    """Further parameters, see `Sampling`; they go before the writer's own."""


class WritePiece(msgspec.Struct, frozen=True, kw_only=True):
    """Text since the last piece; the last piece carries the whole result and no text."""

    text: str = ""
    result: PromptResult | None = None


class Writer(Protocol):
    """Composes text.

    An attribute `revision` is the digest or version of its model, where that is known. A method
    `async window() -> int | None` returns how many tokens the model reads and writes together.
    """

    @property
    def model(self) -> str:
        """Name for the trace, e.g. `extractive` or `openai:gpt-4o-mini`."""
        ...

    @property
    def is_language_model(self) -> bool:
        """False for a writer that only quotes; it is never asked for concepts."""
        ...

    def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield pieces of text, then one piece with the whole result.

        Raises:
            Unavailable: The service does not answer.
        """
        ...

    async def aclose(self) -> None:
        """Free all resources."""
        ...
