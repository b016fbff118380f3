"""Embedders behind an API: batches, texts that are too long, checked vectors, and estimated token counts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from whence.models.api_client import TOO_LONG, ApiClient, ServedModel, TooSlow, in_order
from whence.models.endpoints import Endpoint
from whence.models.text_limits import DEFAULT, EmbeddingReply, TextLimit, find_limit
from whence.schema.embedding import EmbeddingModel, Purpose
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class _Known(NamedTuple):
    """What a provider documents of a model, so that it is known before the first call."""

    dimension: int
    tokens: int


_KNOWN: Final = {
    "text-embedding-3-small": _Known(1536, 8191),
    "text-embedding-3-large": _Known(3072, 8191),
    "text-embedding-ada-002": _Known(1536, 8191),
    "embed-v4.0": _Known(1536, 8191),
    "embed-english-v3.0": _Known(1024, 512),
    "embed-multilingual-v3.0": _Known(1024, 512),
    "embed-english-light-v3.0": _Known(384, 512),
    "embed-multilingual-light-v3.0": _Known(384, 512),
}
#: Part of a batch that is sent next to a server that was too slow for it.
_SLOW_PART: Final = 8
#: No model reads less: a shorter text needs no limit, in bytes of UTF-8.
_SHORT_BYTES: Final = 100
_WORD = re.compile(r"[A-Za-z]+|[^A-Za-z\s]")


class ApiEmbedder(ServedModel, ABC):
    """Embeds through a server; the dimension of an unknown model is taken from its first answer.

    No text is read in part: one that is longer than the server's limit is halved until its parts fit, and its
    vector is the normalised mean of theirs, weighted by their lengths.

    Args:
        name: Name of the model.
        endpoint: Its server.
        max_tokens: Tokens that it reads; None to ask or measure when it is first needed.
        batch: Most texts of one request; None for the provider's default, and for what the server says.
    """

    provider: ClassVar[str]
    batch_texts: ClassVar[int]
    #: Its counts of tokens are not exact.
    estimates_tokens: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        max_tokens: int | None = None,
        batch: int | None = None,
    ) -> None:
        super().__init__(name, endpoint)
        self._batch = batch
        known = _KNOWN.get(name)
        self._dimension = known.dimension if known else 0
        # These providers refuse a text that is too long.
        self._limit = TextLimit(max_tokens or known.tokens) if known else None
        if max_tokens and not known:
            self._limit = TextLimit(max_tokens, cuts=True)

    @abstractmethod
    async def _request(self, texts: list[str], purpose: Purpose) -> tuple[Any, int]:
        """Return what the server sends as the vectors of a batch, in order, and the tokens it counts, or 0."""

    @property
    def model(self) -> EmbeddingModel:
        """Identity of the vectors; the dimension of an unknown model is 0 until the first answer."""
        return EmbeddingModel(name=f"{self.provider}:{self._name}", dimension=self._dimension)

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that the model reads at once; known after `prepare`."""
        return (self._limit or DEFAULT).tokens

    async def prepare(self) -> None:
        """Find out how much of a text the server reads, once.

        Raises:
            Unavailable: The server does not answer.
        """
        if self._limit is None:
            probe = partial(self._embed_whole, purpose="document")
            self._limit = await find_limit(self._client, self._name, probe)

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """See `Embedder.embed`; an unusable answer is `Unavailable`, a rejected request `BadInput`."""
        import numpy as np

        sizes = [len(text.encode("utf-8", "replace")) for text in texts]
        if max(sizes, default=0) > _SHORT_BYTES:
            await self.prepare()
        limit = self._limit or DEFAULT
        most = self._batch or min(self.batch_texts, limit.batch or self.batch_texts)
        # A token is at least a byte. Of a longer text alone the count of tokens shows whether it was cut.
        free = limit.tokens - 2 if limit.cuts else max(sizes, default=0)
        others = [place for place, size in enumerate(sizes) if size <= free]
        batches = [others[start : start + most] for start in range(0, len(others), most)]
        batches += [[place] for place, size in enumerate(sizes) if size > free]
        parts = await in_order(
            [partial(self._embed_all, [texts[n] for n in batch], purpose) for batch in batches]
        )
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for batch, part in zip(batches, parts, strict=True):
            if part.shape[1] != self._dimension:
                raise self._client.broken("its vectors are not of one length")
            vectors[batch] = part
        return vectors

    async def _embed_all(self, texts: list[str], purpose: Purpose) -> NDArray[np.float32]:
        """Embed texts of one request: those that are too long in parts, too many for the time in turn."""
        import numpy as np

        try:
            found = await self._embed_whole(texts, purpose)
        except BadInput as error:
            if not TOO_LONG.search(error.message):
                raise
            if len(texts) > 1:
                one_by_one = [partial(self._embed_all, [text], purpose) for text in texts]
                return np.concatenate(await in_order(one_by_one))
            if not self._may_be_too_long(texts[0]):
                raise
            return await self._embed_halves(texts[0], purpose)
        except TooSlow:
            if len(texts) == 1:
                raise
            size = self._batch = -(-len(texts) // _SLOW_PART)
            parts = [texts[start : start + size] for start in range(0, len(texts), size)]
            return np.concatenate([await self._embed_all(part, purpose) for part in parts])
        limit = self._limit
        # A text that may be too long comes alone; without a count the largest likely one stands for it.
        if limit and limit.cuts and self._may_be_too_long(texts[0]):
            counted = found.tokens or _most_tokens(texts[0])
            return (
                found.rows
                if counted < limit.tokens
                else await self._embed_halves(texts[0], purpose)
            )
        return found.rows

    def _may_be_too_long(self, text: str) -> bool:
        """Return whether a text may exceed the limit: a token is at least a byte, and two are special."""
        return len(text.encode("utf-8", "replace")) + 2 > self.max_tokens

    async def _embed_halves(self, text: str, purpose: Purpose) -> NDArray[np.float32]:
        import numpy as np

        middle = len(text) // 2
        space = text.find(" ", middle, middle + middle // 2)
        middle = space if space > 0 else middle
        halves = text[:middle], text[middle:]
        rows = await in_order([partial(self._embed_all, [half], purpose) for half in halves])
        sizes = np.array([[len(half)] for half in halves], dtype=np.float64)
        mean = (np.concatenate(rows) * sizes).sum(axis=0, keepdims=True)
        length = np.linalg.norm(mean)
        # Halves that cancel each other out leave no direction; the first one is used then.
        pooled: NDArray[np.float32] = (mean / length if length else rows[0]).astype(np.float32)
        return pooled

    async def _embed_whole(self, texts: list[str], purpose: Purpose) -> EmbeddingReply:
        """Embed texts as they are."""
        # APIs reject the empty text, but not a blank one.
        rows, tokens = await self._request([text or " " for text in texts], purpose)
        units = _unit_rows(rows, len(texts), self._dimension, self._client)
        self._dimension = units.shape[1]
        return EmbeddingReply(units, tokens)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate the tokens of each text; the tokenizer of the model is not available."""
        return estimated_tokens(texts)


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


def _most_tokens(text: str) -> int:
    """Return the most tokens that a text is likely to have: one for three letters, and for each other sign."""
    words = _WORD.findall(text)
    return sum(-(-len(word) // 3) for word in words)


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

    async def _request(self, texts: list[str], purpose: Purpose) -> tuple[Any, int]:
        answer = await self._client.post(
            f"{self._client.root}/v2/embed",
            {
                "model": self._name,
                "texts": texts,
                "input_type": _INPUT_TYPES[purpose],
                "embedding_types": ["float"],
                "truncate": "NONE",
            },
        )
        embeddings = answer.get("embeddings") if isinstance(answer, dict) else None
        return (embeddings.get("float") if isinstance(embeddings, dict) else None), 0
