"""Embeddings and text from OpenAI's API or any compatible server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from whence.models.api_client import ServedModel
from whence.models.api_embedder import ApiEmbedder
from whence.models.protocols import WritePiece, WriteRequest
from whence.schema.embedding import Purpose
from whence.schema.errors import BadInput
from whence.schema.prompt import PromptResult, Quote
from whence.text.claims import Source, read_claims

if TYPE_CHECKING:
    import httpx

#: Parameters that some models and servers reject.
_OPTIONAL: dict[str, Any] = {"temperature": 0, "stream_options": {"include_usage": True}}


class OpenAIEmbedder(ApiEmbedder):
    """Embeds through `/embeddings`; purposes do not differ."""

    provider = "openai"
    #: Far below the limits of the API, which differ between servers.
    batch_texts = 64

    async def _request(self, texts: list[str], purpose: Purpose) -> tuple[Any, int]:
        answer = await self._client.post(
            "/embeddings", {"model": self._name, "input": texts}, {"encoding_format": "float"}
        )
        items = answer.get("data") if isinstance(answer, dict) else None
        usage = answer.get("usage") if isinstance(answer, dict) else None
        counted = _count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
        # Infinity counts characters.
        exact = counted != sum(len(text.strip()) for text in texts)
        return self._in_order(items, len(texts)), (counted or 0) if exact else 0

    def _in_order(self, items: Any, count: int) -> list[Any]:
        """Return the vectors in the order of the texts; the API numbers them."""
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._client.broken("it holds no list of embeddings")
        numbers = [item.get("index", place) for place, item in enumerate(items)]
        if sorted(numbers, key=str) != sorted(range(count), key=str):
            raise self._client.broken(f"{len(items)} numbered embeddings for {count} texts")
        by_number = {
            number: item.get("embedding") for number, item in zip(numbers, items, strict=True)
        }
        return [by_number[number] for number in range(count)]


class OpenAIWriter(ServedModel):
    """Writes through `/chat/completions`, streaming."""

    is_language_model = True
    #: Whether the server, like Ollama, says how much of a prompt a model reads; asked with the first answer.
    _lists_windows = True

    @property
    def model(self) -> str:
        """Model and host for the trace."""
        return self.served_by

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield pieces of text as they come, then the whole result.

        The quotes are computed here: for each marker the sentence of that document which shares most words
        with the sentence that carries the marker.
        """
        text: list[str] = []
        usage: dict[str, Any] = {}
        async for event in self._events(request):
            found = event.get("usage")
            usage = found if found and isinstance(found, dict) else usage
            piece = _delta(event)
            if piece:
                text.append(piece)
                yield WritePiece(text=piece)
        self._client.spent.add({"usage": usage})
        await self._check_prompt(_count(usage.get("prompt_tokens")) or 0)
        whole = "".join(text)
        if not whole.strip():
            raise self._client.broken("it holds no text")
        yield WritePiece(
            result=PromptResult(
                text=whole,
                in_token=_count(usage.get("prompt_tokens")),
                out_token=_count(usage.get("completion_tokens")),
                model=self.model,
                quotes=find_quotes(whole, request.documents),
                language_model=True,
            )
        )

    async def _check_prompt(self, tokens: int) -> None:
        """Raise `BadInput` when Ollama cut the prompt to the model's window, which its answer does not say."""
        if not tokens or not self._lists_windows:
            return
        found = await self._client.ask("/api/ps")
        running = found.get("models") if isinstance(found, dict) else None
        self._lists_windows = isinstance(running, list)
        for one in running if isinstance(running, list) else ():
            window = one.get("context_length") if isinstance(one, dict) else None
            ours = window and one.get("name") in (self._name, f"{self._name}:latest")
            if ours and type(window) is int and tokens >= window:
                raise BadInput(
                    f"the writer's server at {self._client.address} read only a part of the prompt:"
                    f" the window of {self._name} is {window} tokens",
                    hint="start Ollama with a larger OLLAMA_CONTEXT_LENGTH, or give fewer passages (--doc-limit)",
                )

    async def _events(self, request: WriteRequest) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of one answer; raise an error when it is incomplete."""
        messages = [{"role": "user", "content": request.prompt or request.query}]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        body: dict[str, Any] = {"model": self._name, "messages": messages, "stream": True}
        async with self._client.stream("/chat/completions", body, _OPTIONAL) as response:
            if "event-stream" not in response.headers.get("content-type", "event-stream"):
                yield self._event((await response.aread()).decode("utf-8", "replace"))
                return
            finished = False
            async for data in _server_sent_events(response):
                if data == "[DONE]":
                    return
                event = self._event(data)
                finished = finished or bool(_choice(event).get("finish_reason"))
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


async def _server_sent_events(response: httpx.Response) -> AsyncIterator[str]:
    """Yield the data of server-sent events that are not blank.

    Lines end at line feeds only: the lines of httpx also end at U+2028 and similar, which JSON may contain.
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


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


#: A quote has at least this share of the words of the sentence with the marker.
_MIN_SHARE = 0.2


def find_quotes(answer: str, documents: Sequence[str]) -> tuple[Quote, ...]:
    """Return for each marker the sentence of its document that shares most words with the answer's sentence.

    There is no quote for a marker without a document, or without a similar sentence in it. A marker of several
    sentences has a quote for each, in order of first use, none twice.

    Cost: sentences of the cited documents times markers.
    """
    quotes: dict[tuple[int, str], None] = {}
    sources: dict[int, Source] = {}
    for claim in read_claims(answer):
        for marker in claim.markers:
            if 1 <= marker <= len(documents):
                if marker not in sources:
                    sources[marker] = Source(documents[marker - 1])
                best = sources[marker].nearest_sentence(claim, _MIN_SHARE)
                if best is not None:
                    quotes[(marker, best)] = None
    return tuple(Quote(marker, text) for marker, text in quotes)
