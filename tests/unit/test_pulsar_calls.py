"""Calls of the Pulsar client that answer before they return, and those that answer later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import _pulsar
import pytest
from pulsar.asyncio import Consumer, PulsarException, Reader

from whence.broker.pulsar.client_calls import acknowledge, next_message

MESSAGE: Any = object()
Told = Callable[..., None]


class FakeLibrary:
    """Answers every call with one result, at once or on a thread of its own.

    Args:
        result: What the library says of the call.
        later: Answer on another thread, after the call returned.
    """

    def __init__(self, result: _pulsar.Result, *, later: bool) -> None:
        self.result = result
        self.later = later
        self.acked: list[Any] = []

    def receive_async(self, told: Told) -> None:
        self._answer(told, MESSAGE)

    read_next_async = receive_async

    def acknowledge_async(self, message: Any, told: Told) -> None:
        self.acked.append(message)
        self._answer(told)

    def _answer(self, told: Told, *value: Any) -> None:
        if self.later:
            threading.Timer(0.01, told, (self.result, *value)).start()
        else:
            told(self.result, *value)


@pytest.mark.parametrize("kind", [Consumer, Reader])
@pytest.mark.parametrize("later", [False, True])
async def test_a_message_is_given_whenever_it_comes(kind: Any, later: bool) -> None:
    """A message that was fetched ahead and one that comes on a thread of the library are both given."""
    source = kind(FakeLibrary(_pulsar.Result.Ok, later=later), None)

    assert await next_message(source) is MESSAGE


@pytest.mark.parametrize("later", [False, True])
async def test_an_ack_reaches_the_library(later: bool) -> None:
    """An ack is given to the library with its message, however it answers."""
    library = FakeLibrary(_pulsar.Result.Ok, later=later)

    await acknowledge(Consumer(library, None), MESSAGE)

    assert library.acked == [MESSAGE]


@pytest.mark.parametrize("later", [False, True])
async def test_a_closed_consumer_is_told(later: bool) -> None:
    """What the library refuses is raised, at once or later."""
    consumer = Consumer(FakeLibrary(_pulsar.Result.AlreadyClosed, later=later), None)

    with pytest.raises(PulsarException, match="AlreadyClosed"):
        await next_message(consumer)
    with pytest.raises(PulsarException, match="AlreadyClosed"):
        await acknowledge(consumer, MESSAGE)
