"""A question whose answer is sent while it is made, as server-sent events.

| Event | Data |
|---|---|
| `stage` | `{stage, uri, triples}`: one stage's provenance, as soon as it is done |
| `text` | `{text, end}`: what was written since the last piece |
| `answer` | the answer, as it is given without events; the last event of a question that worked |
| `error` | `{error: {code, message, hint}}`; the last event of one that failed |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from whence.gateway.failures import error_document, known
from whence.provenance.render.json import triple_to_json
from whence.provenance.uris import stage_from_uri
from whence.schema.terms import Triple

__all__ = ("asked", "event")

#: Pause after which a comment is sent, in seconds: proxies close what is silent.
_PING_S = 15.0
#: Events that wait for a slow reader before the question waits for it, too.
_BACKLOG = 256

OnText = Callable[[str, bool], Awaitable[None]]
OnStage = Callable[[tuple[Triple, ...], str], Awaitable[None]]


def event(name: str, data: Any) -> bytes:
    """Give the wire form of one event; JSON has no line breaks, so that one line of data suffices."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


async def asked(
    question: Callable[[OnText, OnStage], Awaitable[dict[str, Any]]], *, ping_s: float = _PING_S
) -> AsyncIterator[bytes]:
    """Run a question and give its events; leaving early cancels it.

    Args:
        question: Asks, telling pieces of text and stages to the two callbacks; gives the answer's document.
        ping_s: Silence after which a comment is sent, in seconds.
    """
    events: asyncio.Queue[bytes | None] = asyncio.Queue(_BACKLOG)

    async def on_text(text: str, end: bool) -> None:
        await events.put(event("text", {"text": text, "end": end}))

    async def on_stage(triples: tuple[Triple, ...], uri: str) -> None:
        rows = [triple_to_json(triple) for triple in triples]
        await events.put(
            event("stage", {"stage": stage_from_uri(uri), "uri": uri, "triples": rows})
        )

    async def run() -> None:
        try:
            last = event("answer", await question(on_text, on_stage))
        except Exception as error:  # noqa: BLE001 - the status was sent long ago: it is told as an event
            last = event("error", error_document(known(error)))
        await events.put(last)
        await events.put(None)

    task = asyncio.create_task(run())
    try:
        while True:
            try:
                async with asyncio.timeout(ping_s):
                    told = await events.get()
            except TimeoutError:
                told = b": still at work\n\n"
            if told is None:
                return
            yield told
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
