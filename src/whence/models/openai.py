"""Embeddings and text from OpenAI's API or any compatible server."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from whence.models.api_client import Filtered, ServedModel
from whence.models.api_embedder import ApiEmbedder
from whence.models.protocols import WritePiece, WriteRequest
from whence.models.windows import find_window, running_window
from whence.schema.embedding import Purpose
from whence.schema.errors import PromptTooLong
from whence.schema.prompt import PromptResult

if TYPE_CHECKING:
    import httpx

    from whence.models.endpoints import Endpoint

#: Fields of a request that are no setting.
OWN_FIELDS: Final = frozenset(("messages", "stream"))


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


class WriterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is to write."""

    max_tokens: int | None = None
    """Most tokens of a text; None for the server's own limit."""
    temperature: float = 0.0
    seed: int | None = None
    extra: Mapping[str, Any] = {}
    """More fields of each request."""
    window: int | None = None
    """Tokens of prompt and text together; None to ask the server."""


class OpenAIWriter(ServedModel):
    """Writes through `/chat/completions`, streaming.

    Args:
        name: Name of the model there.
        endpoint: The server.
        options: How it is to write.
    """

    is_language_model = True
    #: Whether the server, like Ollama, says how much of a prompt a model reads; asked with the first answer.
    _lists_windows = True

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        options: WriterOptions = WriterOptions(),  # noqa: B008 - immutable
    ) -> None:
        super().__init__(name, endpoint)
        self._options = options
        self._window = options.window
        self._asked_window = options.window is not None

    @property
    def model(self) -> str:
        """Model and host for the trace."""
        return self.served_by

    async def window(self) -> int | None:
        """Return how many tokens the model reads and writes together; None when nobody says it.

        Asked of the server once, unless it was set.
        """
        if not self._asked_window:
            self._window = await find_window(self._client, self._name)
            self._asked_window = True
        return self._window

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield pieces of text as they come, then the whole result.

        Raises:
            ServerRefused: The server refuses, or the model sends no text; another attempt would not help.
            PromptTooLong: The prompt does not fit the window of the model.
            Unavailable: The server does not answer, or breaks off.
        """
        reply = _Reply()
        try:
            async with aclosing(self._events(request, reply)) as events:
                async for event in events:
                    if piece := reply.add(event):
                        yield WritePiece(text=piece)
                    if reply.finish == _LOOP:
                        break
        except Filtered as error:
            reply.refused = reply.refused or f"{error.message}."
        self._client.spent.add({"usage": reply.usage})
        await self._check_prompt(_count(reply.usage.get("prompt_tokens")) or 0)
        if not reply.text.strip() and not reply.refusal(self._client.address):
            self._check_empty(reply)
        yield WritePiece(
            result=PromptResult(
                text=reply.text,
                in_token=_count(reply.usage.get("prompt_tokens")),
                out_token=_count(reply.usage.get("completion_tokens")),
                model=self.model,
                language_model=True,
                thinking=reply.thinking,
                cut=_CUTS.get(reply.finish, ""),
                refused=reply.refusal(self._client.address),
                not_taken=self._client.not_taken(_asked_for(request)),
            )
        )

    def _check_empty(self, reply: _Reply) -> None:
        """Raise the error for an answer without text."""
        if reply.calls_tools:
            raise self._client.unusable(
                "the model called a tool in place of an answer",
                "choose a model that answers without tools, or switch them off on the server",
            )
        if reply.finish == "length":
            raise self._client.unusable(
                "it was cut before any text came"
                + (", while the model was thinking" if reply.thinking else ""),
                "allow more tokens (WHENCE_WRITER_MAX_TOKENS), or give fewer passages (--doc-limit)",
            )
        if not reply.finish and not reply.done:
            raise self._client.broken("the stream ended before any text came")
        raise self._client.unusable(
            "it holds no text", "check that the model writes text, and its settings on the server"
        )

    async def _check_prompt(self, tokens: int) -> None:
        """Raise `PromptTooLong` when Ollama cut the prompt to the model's window without saying so."""
        if not tokens or not self._lists_windows:
            return
        running = await running_window(self._client, self._name)
        self._lists_windows = running is not None
        if running and tokens >= running:
            raise PromptTooLong(
                f"the writer's server at {self._client.address} read only a part of the prompt:"
                f" the window of {self._name} is {running} tokens",
                hint="start Ollama with a larger OLLAMA_CONTEXT_LENGTH, or give fewer passages (--doc-limit)",
            )

    async def _events(self, request: WriteRequest, reply: _Reply) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of one answer."""
        messages = [{"role": "user", "content": request.prompt or request.query}]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        body: dict[str, Any] = {"model": self._name, "messages": messages, "stream": True}
        body |= {
            name: one for name, one in self._options.extra.items() if name not in request.sampling
        }
        optional = {**self._parameters(request), "stream_options": {"include_usage": True}}
        optional = {name: value for name, value in optional.items() if name not in body}
        async with self._client.stream("/chat/completions", body, optional) as response:
            async for data in _pieces(response):
                if data == _DONE:
                    reply.done = True
                    return
                yield self._event(data)

    def _parameters(self, request: WriteRequest) -> dict[str, Any]:
        """Return parameters of a request that some models and servers reject."""
        options = self._options
        given = {
            "temperature": options.temperature
            if request.temperature is None
            else request.temperature,
            "max_tokens": request.max_tokens or options.max_tokens,
            "seed": options.seed,
            **request.sampling,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _event(self, data: str) -> dict[str, Any]:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError) as error:
            if data.startswith("<"):
                hint = "check the address, which usually ends in /v1, and whether a proxy asks for a login"
                raise self._client.unusable("it is a page of HTML", hint) from error
            raise self._client.broken("a piece of it is not JSON") from error
        if not isinstance(event, dict):
            raise self._client.broken("a piece of it is not a JSON object")
        said = (event.get(name) for name in ("message", "detail", "msg"))
        if event.get("error") or ("choices" not in event and any(isinstance(x, str) for x in said)):
            raise self._client.error_of(event)
        return event


#: A larger count is none.
_MOST_TOKENS: Final = 10**12
#: Ends a stream.
_DONE: Final = "[DONE]"
#: Fields of server-sent events with content (llama.cpp reports failures as the second), and without.
_DATA: Final = ("data", "error")
_OTHER_FIELDS: Final = ("", "event", "id", "retry")
#: A carriage return at the end of a block may be the first half of one.
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?=[^\n])")
#: Our name for the end of a text that repeats itself: small models go on until their window ends. It has its
#: last characters, this many, for so many times; some of them differ, unlike those of a line that is drawn.
#: Chosen by hand.
_LOOP: Final = "loop"
_TURN, _TURNS, _DIFFERENT = 100, 5, 8
#: Ends of a text that are a decision of the model or of a filter (Gemini's names among them).
_FILTERED: Final = frozenset(
    ("content_filter", "safety", "recitation", "prohibited_content", "blocklist")
)
#: What the server says of the end of a text that may not be whole.
_CUTS: Final = {
    "length": "the model reached the most tokens that it may write",
    "max_tokens": "the model reached the most tokens that it may write",
    "model_length": "the model reached the end of its window",
    **dict.fromkeys(_FILTERED, "a filter of the server ended it"),
    **dict.fromkeys(("error", "abort", "cancelled"), "the server broke it off"),
    _LOOP: "the model repeated itself",
    "": "the stream ended without saying that the text is whole",
}


class _Reply:
    """The events of one answer, put together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._refusal: list[str] = []
        self._half = ""
        self._unread = 0
        self.usage: dict[str, Any] = {}
        self._finish = ""
        self.calls_tools = False
        self.done = False
        """Whether the server said that nothing follows."""
        self.refused = ""

    def add(self, event: dict[str, Any]) -> str:
        """Read an event and return the text in it."""
        usage = event.get("usage")
        self.usage = usage if usage and isinstance(usage, dict) else self.usage
        choice = _choice(event)
        finish = choice.get("finish_reason")
        self._finish = finish.lower() if isinstance(finish, str) and finish else self._finish
        # Some servers repeat the whole text as a message beside the last piece.
        part = choice.get("delta", choice.get("message"))
        if not isinstance(part, dict):
            return ""
        self.calls_tools = self.calls_tools or bool(
            part.get("tool_calls") or part.get("function_call")
        )
        thought = part.get("reasoning_content") or part.get("reasoning")
        self._thinking += [_characters(thought)] if isinstance(thought, str) else []
        refusal = part.get("refusal")
        self._refusal += [_characters(refusal)] if isinstance(refusal, str) else []
        text, thought = _text_of_parts(part.get("content"))
        text = self._half + text
        # Some servers send the two halves of a character in two pieces.
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = _characters(text.removesuffix(self._half) if self._half else text)
        self._thinking += [_characters(thought)] if thought else []
        self._text += [text] if text else []
        self._unread += len(text)
        if self._unread >= _TURN:
            self._unread = 0
            self._finish = _LOOP if _is_loop(self.text) else self._finish
        return text

    @property
    def text(self) -> str:
        """The text of all events."""
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        """What the server sent as thoughts of the model."""
        return "".join(self._thinking).strip()

    @property
    def finish(self) -> str:
        """Why the text ended: what the server says, `stop` where it only ended the stream, else empty."""
        return self._finish or ("stop" if self.done else "")

    def refusal(self, address: str) -> str:
        """Return why the model or its server declined to answer, a sentence; empty when it did not."""
        if said := " ".join("".join(self._refusal).split()):
            return f"The model declined to answer: {said}"
        if self.refused:
            return self.refused[0].upper() + self.refused[1:]
        if self.finish in _FILTERED and not self.text.strip():
            return f"A filter of the server at {address} kept the model from answering."
        return "The model declined to answer." if self.finish == "refusal" else ""


def _is_loop(text: str) -> bool:
    """Return whether a text ends with what it has said several times."""
    turn = text[-_TURN:]
    return len(set(turn)) >= _DIFFERENT and text.count(turn) >= _TURNS


def _characters(text: str) -> str:
    """Return a text whose surrogates are joined to characters; a lone one is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _text_of_parts(content: object) -> tuple[str, str]:
    """Return the text and the thoughts of a content: a text, or a list of parts."""
    if isinstance(content, str):
        return content, ""
    texts, thoughts = [], []
    for one in content if isinstance(content, list) else ():
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, dict) and isinstance(one.get("text"), str):
            texts.append(one["text"])
        elif isinstance(one, dict):
            inner = one.get("thinking") or one.get("reasoning")
            thoughts.append(inner if isinstance(inner, str) else _text_of_parts(inner)[0])
    return "".join(texts), "".join(thoughts)


async def _pieces(response: httpx.Response) -> AsyncIterator[str]:
    """Yield the data of server-sent events, or of any other body its JSON, or else its text, and `[DONE]`.

    The text decides, not its declared type, which servers and proxies often state wrongly.
    """
    waiting, other, any_sent = "", list[str](), False
    async for line in _lines(response):
        name, colon, value = line.partition(":")
        if colon and name in _DATA and value.strip():
            waiting = f"{waiting}\n{value.strip()}".strip()
        elif line and not (colon and name in _OTHER_FIELDS):
            other.append(line)
        if waiting and (not line.strip() or waiting == _DONE or _is_json(waiting)):
            yield waiting
            waiting, any_sent = "", True
    if any_sent:  # The rest of a stream that was cut is half a piece.
        return
    whole = waiting or "\n".join(other)
    each = other if other and all(map(_is_json, other)) else [whole]
    for one in filter(str.strip, each):
        yield one
    if other:
        yield _DONE


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    """Yield the lines of a body, without its byte order mark.

    They end as in server-sent events: those of httpx also end at U+2028 and similar, which JSON may contain.
    """
    rest, mark = b"", codecs.BOM_UTF8
    async for block in response.aiter_bytes():
        *lines, rest = _LINE_END.split(rest + block)
        for line in lines:
            yield line.removeprefix(mark).decode("utf-8", "replace")
            mark = b""
    yield rest.removeprefix(mark).decode("utf-8", "replace")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _asked_for(request: WriteRequest) -> dict[str, Any]:
    """Return the parameters that a request, not the settings, states."""
    own = {"max_tokens": request.max_tokens, "temperature": request.temperature}
    return {name: one for name, one in own.items() if one is not None} | dict(request.sampling)


def _choice(event: dict[str, Any]) -> dict[str, Any]:
    choices = event.get("choices")
    listed = choices if isinstance(choices, list) else []
    # Further answers have numbers above 0.
    return next((one for one in listed if isinstance(one, dict) and not one.get("index")), {})


def _count(value: object) -> int | None:
    # Some servers count -1 where they know nothing.
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else None
