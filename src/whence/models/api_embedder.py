"""Embedders behind an API: batches, checked and normalised vectors, and estimated token counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from whence.models.api_client import ApiClient
from whence.models.endpoints import Endpoint
from whence.schema.embedding import EmbeddingModel, Purpose

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Dimensions that providers document, so that they are known before the first call.
_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
    "embed-v4.0": 1536,
    "embed-english-v3.0": 1024,
    "embed-multilingual-v3.0": 1024,
    "embed-english-light-v3.0": 384,
    "embed-multilingual-light-v3.0": 384,
}


class ApiEmbedder(ABC):
    """Embeds through a service; the dimension of an unknown model is taken from its first answer."""

    provider: ClassVar[str]
    batch_texts: ClassVar[int]
    #: Its counts of tokens are not exact.
    estimates_tokens: ClassVar[bool] = True

    def __init__(self, name: str, endpoint: Endpoint) -> None:
        self._name = name
        self._client = ApiClient(endpoint)
        self._dimension = _DIMENSIONS.get(name, 0)

    @abstractmethod
    async def _request(self, texts: list[str], purpose: Purpose) -> Any:
        """Return what the service sends as the vectors of a batch, in the order of the texts."""

    @property
    def model(self) -> EmbeddingModel:
        """Identity of the vectors; the dimension of an unknown model is 0 until the first answer."""
        return EmbeddingModel(name=f"{self.provider}:{self._name}", dimension=self._dimension)

    @property
    def served_by(self) -> str:
        """Model and host for traces."""
        return f"{self._name}@{self._client.host}"

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """See `Embedder.embed`; an unusable answer is `Unavailable`, a rejected request `BadInput`."""
        import numpy as np

        parts = []
        for start in range(0, len(texts), self.batch_texts):
            # APIs reject the empty text, but not a blank one.
            batch = [text or " " for text in texts[start : start + self.batch_texts]]
            rows = await self._request(batch, purpose)
            parts.append(_unit_rows(rows, len(batch), self._dimension, self._client))
            self._dimension = parts[-1].shape[1]
        return np.concatenate(parts) if parts else np.zeros((0, self._dimension), dtype=np.float32)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate the tokens of each text; the tokenizer of the model is not available."""
        return estimated_tokens(texts)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _unit_rows(rows: Any, count: int, dimension: int, client: ApiClient) -> NDArray[np.float32]:
    """Turn a list of lists of numbers into unit vectors, float32 (count, dimension)."""
    import numpy as np

    if not isinstance(rows, list) or len(rows) != count:
        got = len(rows) if isinstance(rows, list) else "no list of"
        raise client.broken(f"{got} vectors for {count} texts")
    try:
        matrix = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise client.broken("its vectors are not rows of numbers of one length") from error
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise client.broken("its vectors are not rows of numbers of one length")
    if dimension and matrix.shape[1] != dimension:
        raise client.broken(f"vectors of length {matrix.shape[1]} instead of {dimension}")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise client.broken("a vector is not finite or has length zero")
    units: NDArray[np.float32] = (matrix / lengths).astype(np.float32)
    return units


def estimated_tokens(texts: Sequence[str]) -> list[int]:
    """Estimate tokens: a quarter of the ASCII characters, rounded up, and every other character.

    Providers document a quarter of the characters for English; other scripts have up to one token a character.

    >>> estimated_tokens(["", "four", "seventeen letters"])
    [0, 1, 5]
    """
    counts = []
    for text in texts:
        plain = sum(character.isascii() for character in text)
        counts.append(-(-plain // 4) + len(text) - plain)
    return counts


_INPUT_TYPES = {"document": "search_document", "query": "search_query"}


class CohereEmbedder(ApiEmbedder):
    """Embeds with a model of Cohere; documents and queries are embedded differently."""

    provider = "cohere"
    #: From the API's reference.
    batch_texts = 96
    max_tokens = 512

    async def _request(self, texts: list[str], purpose: Purpose) -> Any:
        answer = await self._client.post(
            "/v2/embed",
            {
                "model": self._name,
                "texts": texts,
                "input_type": _INPUT_TYPES[purpose],
                "embedding_types": ["float"],
                "truncate": "END",
            },
        )
        embeddings = answer.get("embeddings") if isinstance(answer, dict) else None
        return embeddings.get("float") if isinstance(embeddings, dict) else None
