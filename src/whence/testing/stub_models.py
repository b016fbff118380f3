"""Models without weights: deterministic, fast, and good enough that similar texts come out similar.

A model with an `error` raises it in every call.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from whence.models.protocols import WritePiece, WriteRequest
from whence.schema.embedding import EmbeddingModel, Purpose
from whence.schema.prompt import PromptResult, Quote

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD = re.compile(r"\w+")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


class HashEmbedder:
    """Embeds a text as its bag of words: each word adds one signed unit at a place given by its hash.

    The cosine of two texts grows with the words they share. A text without words gets a vector of its own.

    Args:
        dimension: Length of a vector, 1 or more.
        name: Name of the model; embedders of different names are different models.
        delay_s: Time each call takes, in seconds.
    """

    max_tokens = 256

    def __init__(
        self,
        dimension: int = 64,
        *,
        name: str = "stub-hash",
        delay_s: float = 0.0,
        error: Exception | None = None,
    ) -> None:
        self.model = EmbeddingModel(name=name, revision="1", dimension=dimension)
        self._delay_s = delay_s
        self._error = error
        self.calls: list[tuple[str, ...]] = []
        """Texts of every call so far."""

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        import numpy as np

        self.calls.append(tuple(texts))
        if self._error is not None:
            raise self._error
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        rows = np.zeros((len(texts), self.model.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in _words(text):
                place, sign = self._place(word)
                row[place] += sign
            if not row.any():
                row[self._place("")[0]] = 1.0
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count words per text."""
        return [len(_words(text)) for text in texts]

    async def aclose(self) -> None:
        """Hold nothing, free nothing."""

    def _place(self, word: str) -> tuple[int, float]:
        digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        return (number >> 1) % self.model.dimension, 1.0 if number & 1 else -1.0


class OverlapReranker:
    """Scores a document by the share of the query's words that it contains."""

    def __init__(self, name: str = "stub-overlap", *, error: Exception | None = None) -> None:
        self.model = name
        self.revision = ""
        self._error = error
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        """Query and documents of every call so far."""

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return one score per document, 0 to 1, in the order given."""
        self.calls.append((query, tuple(documents)))
        if self._error is not None:
            raise self._error
        wanted = set(_words(query))
        if not wanted:
            return [0.0] * len(documents)
        return [len(wanted & set(_words(text))) / len(wanted) for text in documents]

    async def aclose(self) -> None:
        """Hold nothing, free nothing."""


class EchoWriter:
    """Writes the question, then the first line of each document with its marker, piece by piece.

    It waits `delay_s` seconds before each piece.
    """

    def __init__(
        self, name: str = "stub-echo", *, is_language_model: bool = False, delay_s: float = 0.0
    ) -> None:
        self.model = name
        self.is_language_model = is_language_model
        self._delay_s = delay_s
        self.requests: list[WriteRequest] = []
        """Every request so far."""

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield the pieces, then the whole result."""
        self.requests.append(request)
        pieces = [request.query]
        quotes = []
        for number, text in enumerate(request.documents, start=1):
            if lines := text.strip().splitlines():
                quotes.append(Quote(number, lines[0]))
                pieces.append(f" {lines[0]} [{number}]")
        for piece in pieces:
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            yield WritePiece(text=piece)
        text = "".join(pieces)
        yield WritePiece(
            result=PromptResult(
                text=text,
                in_token=len(_words(request.prompt)),
                out_token=len(_words(text)),
                model=self.model,
                quotes=tuple(quotes),
                language_model=self.is_language_model,
            )
        )

    async def aclose(self) -> None:
        """Hold nothing, free nothing."""
