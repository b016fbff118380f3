"""Embeddings from Cohere's API, version 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence.models.api_client import PATIENCE_S, ApiClient
from whence.models.vectors import KNOWN_DIMENSIONS, estimated_tokens, unit_rows
from whence.schema.embedding import EmbeddingModel, Purpose

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ("COHERE_URL", "CohereEmbedder")

COHERE_URL = "https://api.cohere.com"
#: Most texts that one call may carry, from the API's reference.
_BATCH_TEXTS = 96
_INPUT_TYPES = {"document": "search_document", "query": "search_query"}


class CohereEmbedder:
    """Embeds with a model of Cohere; documents and queries are embedded differently.

    Args:
        name: Model, e.g. `embed-english-v3.0`.
        key: API key.
        base_url: Root of the service; `/v2/embed` is appended.
        dimension: Length of its vectors; 0 to learn it from the first answer.
        patience_s: When to give up a call, in seconds.
    """

    max_tokens = 512

    def __init__(
        self,
        name: str,
        *,
        key: str | None,
        base_url: str = COHERE_URL,
        dimension: int = 0,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._name = name
        self._dimension = dimension or KNOWN_DIMENSIONS.get(name, 0)
        self._client = ApiClient(
            "Cohere service", base_url, key, key_name="COHERE_API_KEY", patience_s=patience_s
        )

    @property
    def model(self) -> EmbeddingModel:
        """Identity of the vectors; the dimension of an unknown model is 0 until it has answered."""
        return EmbeddingModel(name=f"cohere:{self._name}", dimension=self._dimension)

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """Return float32 vectors of shape (len(texts), dimension), each of length 1.

        Raises:
            Unavailable: The service does not answer, or not with such vectors.
            BadInput: The service finds the request wrong.
        """
        import numpy as np

        parts = []
        for start in range(0, len(texts), _BATCH_TEXTS):
            batch = [text or " " for text in texts[start : start + _BATCH_TEXTS]]
            parts.append(await self._embed_batch(batch, purpose))
        if not parts:
            return np.zeros((0, self._dimension), dtype=np.float32)
        return np.concatenate(parts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate tokens per text; the model's own tokeniser is not here."""
        return estimated_tokens(texts)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _embed_batch(self, texts: list[str], purpose: Purpose) -> NDArray[np.float32]:
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
        rows = embeddings.get("float") if isinstance(embeddings, dict) else None
        vectors = unit_rows(rows, len(texts), self._dimension, self._client)
        self._dimension = vectors.shape[1]
        return vectors
