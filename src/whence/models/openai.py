"""Embeddings and text from OpenAI's API or any server that speaks it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from whence.models.api_client import PATIENCE_S, ApiClient
from whence.models.protocols import WritePiece, WriteRequest
from whence.models.quotes import quotes_of
from whence.models.vectors import KNOWN_DIMENSIONS, estimated_tokens, unit_rows
from whence.schema.embedding import EmbeddingModel, Purpose
from whence.schema.errors import BadInput
from whence.schema.prompt import PromptResult

if TYPE_CHECKING:
    import httpx
    import numpy as np
    from numpy.typing import NDArray

__all__ = ("OPENAI_URL", "OpenAIEmbedder", "OpenAIWriter")

OPENAI_URL = "https://api.openai.com/v1"
_SERVICE = "OpenAI-compatible service"
_KEY_NAME = "OPENAI_API_KEY"
#: Texts of one call: far below the API's own limits, which are not the same everywhere.
_BATCH_TEXTS = 64
#: Parameters that some models and servers refuse; left out when one of them is complained about.
_OPTIONAL: dict[str, Any] = {"temperature": 0, "stream_options": {"include_usage": True}}


class OpenAIEmbedder:
    """Embeds through `/embeddings`.

    Args:
        name: Model, e.g. `text-embedding-3-small`.
        key: API key; None for servers that want none.
        base_url: Address with `/v1`.
        dimension: Length of its vectors; 0 to learn it from the first answer.
        patience_s: When to give up a call, in seconds.
    """

    max_tokens = 8191

    def __init__(
        self,
        name: str,
        *,
        key: str | None,
        base_url: str = OPENAI_URL,
        dimension: int = 0,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._name = name
        self._dimension = dimension or KNOWN_DIMENSIONS.get(name, 0)
        self._client = ApiClient(_SERVICE, base_url, key, key_name=_KEY_NAME, patience_s=patience_s)

    @property
    def model(self) -> EmbeddingModel:
        """Identity of the vectors; the dimension of an unknown model is 0 until it has answered."""
        return EmbeddingModel(name=f"openai:{self._name}", dimension=self._dimension)

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """Return float32 vectors of shape (len(texts), dimension), each of length 1; purposes do not differ.

        Raises:
            Unavailable: The service does not answer, or not with such vectors.
            BadInput: The service finds the request wrong.
        """
        import numpy as np

        parts = []
        for start in range(0, len(texts), _BATCH_TEXTS):
            # The API refuses the empty text, but not a blank one.
            batch = [text or " " for text in texts[start : start + _BATCH_TEXTS]]
            parts.append(await self._embed_batch(batch))
        if not parts:
            return np.zeros((0, self._dimension), dtype=np.float32)
        return np.concatenate(parts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate tokens per text; the model's own tokeniser is not here."""
        return estimated_tokens(texts)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _embed_batch(self, texts: list[str]) -> NDArray[np.float32]:
        answer = await self._client.post(
            "/embeddings", {"model": self._name, "input": texts, "encoding_format": "float"}
        )
        items = answer.get("data") if isinstance(answer, dict) else None
        rows = self._in_order(items, len(texts))
        vectors = unit_rows(rows, len(texts), self._dimension, self._client)
        self._dimension = vectors.shape[1]
        return vectors

    def _in_order(self, items: Any, count: int) -> list[Any]:
        """Put the vectors into the order of the texts; the API numbers them."""
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._client.broken("it holds no list of embeddings")
        numbers = [item.get("index", place) for place, item in enumerate(items)]
        if sorted(numbers, key=str) != sorted(range(count), key=str):
            raise self._client.broken(f"{len(items)} numbered embeddings for {count} texts")
        by_number = {
            number: item.get("embedding") for number, item in zip(numbers, items, strict=True)
        }
        return [by_number[number] for number in range(count)]


class OpenAIWriter:
    """Writes through `/chat/completions`, streaming.

    Args:
        name: Model, e.g. `gpt-4o-mini`.
        key: API key; None for servers that want none.
        base_url: Address with `/v1`.
        patience_s: When to give up waiting for the first words, in seconds.
    """

    is_language_model = True

    def __init__(
        self,
        name: str,
        *,
        key: str | None,
        base_url: str = OPENAI_URL,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._name = name
        self._client = ApiClient(_SERVICE, base_url, key, key_name=_KEY_NAME, patience_s=patience_s)

    @property
    def model(self) -> str:
        """Name for the trace."""
        return f"openai:{self._name}"

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield pieces of text as they come, then the whole result.

        The quotes are ours, not the model's: for each marker the sentence of that document which shares
        most words with the sentence that carries the marker.

        Raises:
            Unavailable: The service does not answer, breaks off, or answers with something else.
            BadInput: The service finds the request wrong.
        """
        text: list[str] = []
        usage: dict[str, Any] = {}
        async for event in self._events(request):
            usage = _usage(event) or usage
            piece = _delta(event)
            if piece:
                text.append(piece)
                yield WritePiece(text=piece)
        whole = "".join(text)
        if not whole.strip():
            raise self._client.broken("it holds no text")
        yield WritePiece(
            result=PromptResult(
                text=whole,
                in_token=_count(usage.get("prompt_tokens")),
                out_token=_count(usage.get("completion_tokens")),
                model=self.model,
                quotes=quotes_of(whole, request.documents),
                language_model=True,
            )
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _events(self, request: WriteRequest) -> AsyncIterator[dict[str, Any]]:
        messages = [{"role": "user", "content": request.prompt or request.query}]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        body: dict[str, Any] = {"model": self._name, "messages": messages, "stream": True}
        begun = False
        try:
            async for event in self._asked(body | _OPTIONAL):
                begun = True
                yield event
        except BadInput as error:
            if begun or not any(name in error.message for name in _OPTIONAL):
                raise
            async for event in self._asked(body):
                yield event

    async def _asked(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of one answer, checked to be complete."""
        async with self._client.stream("/chat/completions", body) as response:
            if "event-stream" not in response.headers.get("content-type", "event-stream"):
                yield self._event((await response.aread()).decode("utf-8", "replace"))
                return
            finished = False
            async for data in _server_sent(response):
                if data == "[DONE]":
                    return
                event = self._event(data)
                finished = finished or _finished(event)
                yield event
            if not finished:
                raise self._client.broken("the stream ended in the middle")

    def _event(self, data: str) -> dict[str, Any]:
        try:
            event = json.loads(data)
        except ValueError as error:
            raise self._client.broken("a piece of it is not JSON") from error
        if not isinstance(event, dict):
            raise self._client.broken("a piece of it is not a JSON object")
        if event.get("error"):
            raise self._client.broken("it reports an error in the middle")
        return event


async def _server_sent(response: httpx.Response) -> AsyncIterator[str]:
    """Yield the data of server-sent events, blank ones left out.

    Lines end at line feeds only: httpx's own lines also end at U+2028 and its like, which JSON may hold.
    """
    rest = b""
    async for block in response.aiter_bytes():
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and line[5:].strip():
                yield line[5:].strip().decode("utf-8", "replace")


def _choice(event: dict[str, Any]) -> dict[str, Any]:
    choices = event.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _delta(event: dict[str, Any]) -> str:
    choice = _choice(event)
    part = choice.get("delta") or choice.get("message")
    content = part.get("content") if isinstance(part, dict) else None
    return content if isinstance(content, str) else ""


def _finished(event: dict[str, Any]) -> bool:
    return bool(_choice(event).get("finish_reason"))


def _usage(event: dict[str, Any]) -> dict[str, Any]:
    usage = event.get("usage")
    return usage if isinstance(usage, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
