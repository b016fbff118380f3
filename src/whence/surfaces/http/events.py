"""Streams of server-sent events: a question, or the messages of a protocol before its reply.

Events of a question:

| Event | Data |
|---|---|
| `stage` | `{stage, uri, triples}`: the provenance of a finished stage |
| `text` | `{text, end}`: the next piece of the answer |
| `answer` | the complete answer; the last event of a successful question |
| `error` | `{error: {code, message, hint}}`; the last event of a failed question |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final, Protocol

from whence.provenance.render.json import triple_to_json
from whence.provenance.terms import stage_from_uri
from whence.schema.terms import Triple
from whence.surfaces.http.failures import JsonResponse, as_whence_error, error_document
from whence.surfaces.mcp.protocol import McpReply, Notify

#: Silence in seconds after which a comment is sent: proxies close silent connections.
_PING_S = 15.0
#: Events queued for a slow reader before the question waits.
_BACKLOG = 256

EVENT_STREAM: Final = "text/event-stream"
#: Proxies must not buffer events.
STREAM_HEADERS: Final = {"X-Accel-Buffering": "no"}

OnText = Callable[[str, bool], Awaitable[None]]
OnStage = Callable[[tuple[Triple, ...], str], Awaitable[None]]


class EventEncoder(Protocol):
    """Turns what happens to a question into bytes of a stream."""

    def stage(self, triples: tuple[Triple, ...], uri: str) -> bytes:
        """Return the bytes for a finished stage; none when it is not told."""
        ...

    def text(self, text: str, end: bool) -> bytes:
        """Return the bytes for a piece of the answer."""
        ...

    def answer(self, document: dict[str, Any]) -> bytes:
        """Return the bytes for the complete answer."""
        ...

    def error(self, error: Exception) -> bytes:
        """Return the bytes for a failed question."""
        ...


class NamedEvents:
    """Encodes the events of `/v1/ask`."""

    def stage(self, triples: tuple[Triple, ...], uri: str) -> bytes:
        """Return the event `stage`."""
        rows = [triple_to_json(triple) for triple in triples]
        return _event("stage", {"stage": stage_from_uri(uri), "uri": uri, "triples": rows})

    def text(self, text: str, end: bool) -> bytes:
        """Return the event `text`."""
        return _event("text", {"text": text, "end": end})

    def answer(self, document: dict[str, Any]) -> bytes:
        """Return the event `answer`."""
        return _event("answer", document)

    def error(self, error: Exception) -> bytes:
        """Return the event `error`."""
        return _event("error", error_document(as_whence_error(error)))


def _event(name: str, data: Any) -> bytes:
    # JSON has no line breaks, so one `data` line suffices.
    return b"event: " + name.encode() + b"\ndata: " + JsonResponse.encoded(data) + b"\n\n"


async def stream_events(
    question: Callable[[OnText, OnStage], Awaitable[dict[str, Any]]],
    encoder: EventEncoder | None = None,
    *,
    ping_s: float = _PING_S,
) -> AsyncIterator[bytes]:
    """Run a question and yield its events; closing the iterator cancels the question.

    Args:
        question: Asks with callbacks for pieces of text and stages; returns the document of the answer.
        encoder: Encodes the events; by default `NamedEvents`.
        ping_s: Silence after which a comment is sent, in seconds.
    """
    encode = encoder or NamedEvents()
    events: asyncio.Queue[bytes | None] = asyncio.Queue(_BACKLOG)

    async def on_text(text: str, end: bool) -> None:
        await events.put(encode.text(text, end))

    async def on_stage(triples: tuple[Triple, ...], uri: str) -> None:
        await events.put(encode.stage(triples, uri))

    async def run() -> None:
        try:
            last = encode.answer(await question(on_text, on_stage))
        except Exception as error:  # noqa: BLE001 - the status line is sent already
            last = encode.error(error)
        await events.put(last)
        await events.put(None)

    async with aclosing(_drain(events, asyncio.create_task(run()), ping_s)) as encoded:
        async for each in encoded:
            yield each


async def _drain(
    events: asyncio.Queue[bytes | None], task: asyncio.Task[None], ping_s: float
) -> AsyncGenerator[bytes]:
    """Yield what a task puts into a queue, until None; closing the iterator cancels the task."""
    try:
        while True:
            try:
                async with asyncio.timeout(ping_s):
                    encoded = await events.get()
            except TimeoutError:
                encoded = b": waiting\n\n"
            if encoded is None:
                return
            if encoded:
                yield encoded
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def stream_messages(
    answer: Callable[[Notify], Awaitable[McpReply]],
) -> McpReply | AsyncIterator[bytes]:
    """Return the reply to a message; when notifications come first, an iterator of all their events.

    Args:
        answer: Answers the message; sends notifications.
    """
    events: asyncio.Queue[bytes | None] = asyncio.Queue(_BACKLOG)
    replies: list[McpReply] = []
    is_told = False

    async def notify(message: dict[str, Any]) -> None:
        nonlocal is_told
        is_told = True
        await events.put(_event("message", message))

    async def run() -> None:
        try:
            replies.append(await answer(notify))
            if is_told:
                await events.put(_event("message", replies[0].document))
        finally:
            await events.put(None)

    task = asyncio.create_task(run())
    try:
        first = await events.get()
    except asyncio.CancelledError:
        task.cancel()
        raise
    if first is None:
        await task
        return replies[0]

    async def rest(first: bytes) -> AsyncIterator[bytes]:
        yield first
        async with aclosing(_drain(events, task, _PING_S)) as encoded:
            async for each in encoded:
                yield each

    return rest(first)
