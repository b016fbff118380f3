"""A reranker behind HTTP: the rerank API that vLLM, Jina, Cohere and others share, and that of TEI.

The shared API answers `{model, query, documents, top_n}` with `{results: [{index, relevance_score}]}`. Text
Embeddings Inference (TEI) answers `{query, texts}` at `/rerank` with `[{index, score}]`. Which of the two a
server speaks, and at which path, is found with the first request.

What a server answers is not trusted. The first entry of an index counts if its score is a finite number; every
other entry is ignored. A document without such an entry has no score.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from whence.models.api_client import TOO_LONG, NotServed, ServedModel, in_order
from whence.models.endpoints import Endpoint
from whence.schema.errors import BadInput, Unavailable

#: Documents of one request: Cohere bills a hundred as one search.
_BATCH: Final = 100
#: Characters that every model reads.
_SHORT: Final = 100
_VERSIONED = re.compile(r"/v\d+\Z")


class _Dialect(NamedTuple):
    """How a server is asked."""

    url: str
    texts: bool
    """Whether it speaks TEI's API."""


class HttpReranker(ServedModel):
    """Scores through a server.

    Args:
        name: Name of the model.
        endpoint: Its server; the address is that of the server, of the API (`.../v1`), or of `.../rerank`.
        batch: Most documents of one request; None for 100, and for what TEI says of itself.
    """

    def __init__(self, name: str, endpoint: Endpoint, batch: int | None = None) -> None:
        super().__init__(name, endpoint)
        self._batch = batch
        self._dialect: _Dialect | None = None
        self.revision = ""
        """Revision of the model, when the server says it; empty before the first score."""

    @property
    def model(self) -> str:
        """Model and host for the trace."""
        return self.served_by

    async def score(self, query: str, documents: Sequence[str]) -> list[float | None]:
        """See `Reranker.score`.

        When a score of the call is outside of 0 to 1, the server gives logits, and all scores of the call
        become `1 / (1 + exp(-x))`.

        Raises:
            BadInput: The server rejects the request.
            Unavailable: The server does not answer, or gives no document a score.
        """
        if not documents:
            return []
        first: Unavailable | BadInput | None = None
        for dialect in [self._dialect] if self._dialect else self._dialects():
            try:
                scores = await self._score(dialect, query, documents)
            except (NotServed, BadInput) as error:
                first = first or error
                if isinstance(error, BadInput) and "texts" not in error.message:
                    break
                continue
            self._dialect = dialect
            if all(score is None for score in scores):
                raise self._client.broken(f"it holds no valid score for {len(documents)} documents")
            return _between_0_and_1(scores)
        assert first is not None
        raise first

    def _dialects(self) -> list[_Dialect]:
        address, root = self._client.address, self._client.root
        if address.endswith("/rerank"):
            return [_Dialect(address, False), _Dialect(address, True)]
        own = address if _VERSIONED.search(address) else f"{address}/v1"
        shared = f"{root}/rerank"
        return [_Dialect(f"{own}/rerank", False), _Dialect(shared, False), _Dialect(shared, True)]

    async def _score(
        self, dialect: _Dialect, query: str, documents: Sequence[str]
    ) -> list[float | None]:
        size = self._batch
        if size is None and dialect.texts:
            info = await self._client.ask("/info")
            known = info if isinstance(info, dict) else {}
            most = known.get("max_client_batch_size")
            size = self._batch = most if isinstance(most, int) and most > 0 else _BATCH
            self.revision = str(known.get("model_sha") or "")
        size = size or _BATCH
        parts = [documents[start : start + size] for start in range(0, len(documents), size)]
        # The first one tells whether the server knows the dialect.
        found = [await self._request(dialect, query, parts[0])]
        found += await in_order([partial(self._request, dialect, query, one) for one in parts[1:]])
        return [score for part in found for score in part]

    async def _request(
        self, dialect: _Dialect, query: str, documents: Sequence[str]
    ) -> list[float | None]:
        """Score documents of one request; of one that is too long for the model its beginning."""
        try:
            return await self._answer(dialect, query, documents)
        except BadInput as error:
            middle, text = len(documents) // 2, documents[0]
            if not TOO_LONG.search(error.message) or (not middle and len(text) < _SHORT):
                raise
        if not middle:
            return await self._request(dialect, query, [text[: len(text) // 2]])
        parts = documents[:middle], documents[middle:]
        found = await in_order([partial(self._request, dialect, query, part) for part in parts])
        return [score for part in found for score in part]

    async def _answer(
        self, dialect: _Dialect, query: str, documents: Sequence[str]
    ) -> list[float | None]:
        if dialect.texts:
            # A pair that is too long is read as far as the model reads, as the local models do.
            body = {"query": query, "texts": list(documents), "truncate": True}
            answer = await self._client.post(dialect.url, body)
        else:
            body = {"model": self._name, "query": query, "documents": list(documents)}
            # Voyage's client names it `top_k`; without it all are ranked.
            answer = await self._client.post(dialect.url, body, {"top_n": len(documents)})
        if isinstance(answer, dict):
            answer = answer.get("results", answer.get("data"))
        if not isinstance(answer, list):
            raise self._client.broken("it holds no list of results")
        scores: list[float | None] = [None] * len(documents)
        for item in answer:
            if not isinstance(item, dict):
                continue
            index, score = item.get("index"), item.get("relevance_score", item.get("score"))
            if type(index) is int and 0 <= index < len(scores) and scores[index] is None:
                scores[index] = _finite(score)
        return scores


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _between_0_and_1(scores: list[float | None]) -> list[float | None]:
    if all(score is None or 0.0 <= score <= 1.0 for score in scores):
        return scores
    return [None if score is None else _logistic(score) for score in scores]


def _logistic(value: float) -> float:
    power = math.exp(-abs(value))
    return 1.0 / (1.0 + power) if value >= 0 else power / (1.0 + power)
