"""Streams a question as server-sent events.

| Event | Data |
|---|---|
| `stage` | `{stage, uri, triples}`: the provenance of a finished stage |
| `text` | `{text, end}`: the next piece of the answer |
| `answer` | the complete answer; the last event of a successful question |
| `error` | `{error: {code, message, hint}}`; the last event of a failed question |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from whence.gateway.failures import as_whence_error, error_document
from whence.provenance.render.json import triple_to_json
from whence.provenance.terms import stage_from_uri
from whence.schema.terms import Triple

#: Silence in seconds after which a comment is sent: proxies close silent connections.
_PING_S = 15.0
#: Events queued for a slow reader before the question waits.
_BACKLOG = 256

OnText = Callable[[str, bool], Awaitable[None]]
OnStage = Callable[[tuple[Triple, ...], str], Awaitable[None]]


def encode_event(name: str, data: Any) -> bytes:
    """Encode one event; JSON has no line breaks, so one `data` line suffices."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


async def stream_events(
    question: Callable[[OnText, OnStage], Awaitable[dict[str, Any]]], *, ping_s: float = _PING_S
) -> AsyncIterator[bytes]:
    """Run a question and yield its events; closing the iterator cancels the question.

    Args:
        question: Asks with callbacks for pieces of text and stages; returns the document of the answer.
        ping_s: Silence after which a comment is sent, in seconds.
    """
    events: asyncio.Queue[bytes | None] = asyncio.Queue(_BACKLOG)

    async def on_text(text: str, end: bool) -> None:
        await events.put(encode_event("text", {"text": text, "end": end}))

    async def on_stage(triples: tuple[Triple, ...], uri: str) -> None:
        rows = [triple_to_json(triple) for triple in triples]
        await events.put(
            encode_event("stage", {"stage": stage_from_uri(uri), "uri": uri, "triples": rows})
        )

    async def run() -> None:
        try:
            last = encode_event("answer", await question(on_text, on_stage))
        except Exception as error:  # noqa: BLE001 - the status line is sent already
            last = encode_event("error", error_document(as_whence_error(error)))
        await events.put(last)
        await events.put(None)

    task = asyncio.create_task(run())
    try:
        while True:
            try:
                async with asyncio.timeout(ping_s):
                    encoded = await events.get()
            except TimeoutError:
                encoded = b": waiting\n\n"
            if encoded is None:
                return
            yield encoded
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
