"""An embedder without weights: letter n-grams hashed into a vector (feature hashing, Weinberger et al. 2009).

`WHENCE_EMBEDDER=hashing:512` selects it with 512 dimensions. Texts that share
spellings are near; synonyms are not.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.schema.embedding import EmbeddingModel, Purpose
from whence.schema.errors import ConfigError

DEFAULT_DIMENSION = 256
#: Length of an n-gram, in characters.
N = 4


class HashingEmbedder:
    """Embeds texts as counts of their hashed n-grams, scaled to length 1."""

    max_tokens = 512

    def __init__(self, dimension: int) -> None:
        self.model = EmbeddingModel(name="hashing", revision="1", dimension=dimension)

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """Return float32 vectors of shape (len(texts), dimension), each of length 1."""
        vectors = np.zeros((len(texts), self.model.dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for gram in _grams(text):
                digest = zlib.crc32(gram.encode("utf-8", "surrogatepass"))
                row[digest % len(row)] += 1.0 if digest & 1 << 31 else -1.0
            if not row.any():
                row[0] = 1.0
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count words."""
        return [len(text.split()) for text in texts]

    async def aclose(self) -> None:
        """Free nothing."""


def _grams(text: str) -> list[str]:
    padded = f" {' '.join(text.lower().split())} "
    return [padded[at : at + N] for at in range(max(1, len(padded) - N + 1))]


def make_embedder(model: str, settings: Any) -> HashingEmbedder:
    """Return the embedder of a setting `hashing:DIMENSION`; `model` is what follows the colon.

    Raises:
        ConfigError: The dimension is not a whole number from 16 to 16000.
    """
    if model and not (model.isdecimal() and 16 <= int(model) <= 16_000):
        raise ConfigError(f"hashing:{model} is not hashing:DIMENSION", hint="use 16 to 16000")
    return HashingEmbedder(int(model or DEFAULT_DIMENSION))
