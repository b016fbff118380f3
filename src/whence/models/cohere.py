"""Embeddings from Cohere's API, version 2."""

from __future__ import annotations

from typing import Any

from whence.models.api_client import TIMEOUT_S, ApiClient
from whence.models.api_embedder import ApiEmbedder
from whence.schema.embedding import Purpose

COHERE_URL = "https://api.cohere.com"
#: Most texts in a call, from the API's reference.
_BATCH_TEXTS = 96
_INPUT_TYPES = {"document": "search_document", "query": "search_query"}


class CohereEmbedder(ApiEmbedder):
    """Embeds with a model of Cohere; documents and queries are embedded differently."""

    max_tokens = 512

    def __init__(
        self,
        name: str,
        *,
        key: str | None,
        base_url: str = COHERE_URL,
        dimension: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        client = ApiClient(
            "Cohere service", base_url, key, key_name="COHERE_API_KEY", timeout_s=timeout_s
        )
        super().__init__("cohere", name, client, batch_texts=_BATCH_TEXTS, dimension=dimension)

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
