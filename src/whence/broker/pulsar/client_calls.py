"""Calls of the client library as we need them: quick where the answer is at hand, bounded when closing.

The library's own coroutines hand every answer to the loop as a callback, with a future and a byte through the
loop's pipe, also an answer that was there before the call returned: a message fetched ahead, an ack put on
the list that goes to the broker every 100 ms. That took a third of the time of a message. The calls beneath
them (library 3.13) are the same; only an answer that comes later, on a thread of the library, goes through
the loop.
"""

# mypy: untyped-calls-exclude=pulsar
from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import _pulsar
from pulsar.asyncio import Consumer, Producer, PulsarException, Reader

__all__ = ("acknowledge", "close_quietly", "next_message")

#: How long closing something may take when the broker is gone, seconds.
_CLOSE_S = 5.0

_Told = Callable[..., None]


async def next_message(source: Consumer | Reader) -> _pulsar.Message:
    """Give the next message; at once when one was fetched ahead. Must not be cancelled: that loses it.

    Raises:
        PulsarException: The consumer or reader is closed.
    """
    begin = (
        source._reader.read_next_async  # noqa: SLF001 - see the top of the module
        if isinstance(source, Reader)
        else source._consumer.receive_async  # noqa: SLF001
    )
    return await _answered(begin)


async def acknowledge(consumer: Consumer, message: _pulsar.Message) -> None:
    """Put an ack on the list of those that go to the broker.

    Raises:
        PulsarException: The consumer is closed.
    """

    def begin(told: _Told) -> None:
        consumer._consumer.acknowledge_async(message, told)  # noqa: SLF001

    await _answered(begin)


async def close_quietly(thing: Consumer | Producer | Reader) -> None:
    """Close, but wait no longer than 5 s for a broker that may be gone."""
    with suppress(PulsarException, TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await thing.close()


async def _answered(begin: Callable[[_Told], None]) -> Any:
    """Make a call that answers through a callback, before it returns or later on another thread."""
    loop = asyncio.get_running_loop()
    here = threading.get_ident()
    answers: list[tuple[_pulsar.Result, Any]] = []
    waiting: list[asyncio.Future[None]] = []

    def settle(result: _pulsar.Result, value: Any) -> None:
        answers.append((result, value))
        # Runs in the loop, so not before the caller began to wait.
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def told(result: _pulsar.Result, value: Any = None) -> None:
        if threading.get_ident() == here:
            answers.append((result, value))
        else:
            loop.call_soon_threadsafe(settle, result, value)

    begin(told)
    if not answers:
        waiting.append(loop.create_future())
        await waiting[0]
    result, value = answers[0]
    if result != _pulsar.Result.Ok:
        raise PulsarException(result)
    return value
