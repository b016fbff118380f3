"""What the transport suite needs of the transport under test, and helpers of its tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar
from uuid import uuid4

import pytest

from whence.broker.dead_letters import DeadLetters
from whence.broker.transport import Delivery, RetryPolicy, Subscription, Transport
from whence.schema.topics import full_topic

T = TypeVar("T")

#: How long a test waits for what must happen, in seconds: far more than any loaded machine needs.
PATIENCE_S = 30.0
#: How long a test waits to see that nothing happens, in seconds; a transport without a network may set less.
SILENCE_S = 0.3
#: Retries that a test can wait for.
QUICK = RetryPolicy(max_attempts=3, base_delay_s=0.05, factor=2.0, max_delay_s=1.0, jitter=0.0)


class Capability(StrEnum):
    """What only some transports, or their test set-ups, can show."""

    BOUNDED = "a limit on what may wait"
    """`make(max_backlog=n)` limits what may wait, and publishers feel it."""
    CUT = "a connection that can be cut"
    """`cut` breaks a client's connection; the client reconnects."""
    NETWORK = "a connection over a network"
    """There is a real connection, which takes time to come back."""
    LOOPS = "one broker for two event loops"
    """Clients of one broker may live in different event loops."""
    PROCESS = "an address for another process"
    """`url` can be given to `whence.broker.connect.connect` in another process."""
    RESTART = "a broker that can be restarted"
    """`restart` restarts the broker itself."""


class TransportFactory:
    """Makes clients of one broker and closes them; to be subclassed for each transport.

    A fixture named `transport_factory` yields one and calls `aclose` afterwards.
    """

    #: What the transport or its set-up can show; tests of anything else are skipped with the reason.
    capabilities: frozenset[Capability] = frozenset()
    #: Address for another process.
    url: str = ""

    def __init__(self) -> None:
        self._clients: list[Transport] = []

    async def __call__(self, *, max_backlog: int | None = None) -> Transport:
        """Return a new client of the shared broker."""
        client = await self.make(max_backlog)
        self._clients.append(client)
        return client

    async def make(self, max_backlog: int | None) -> Transport:
        """Connect one client; to be overridden.

        `max_backlog` messages may wait before publishers do; None is the transport's own limit.
        """
        raise TypeError(f"{type(self).__name__} makes no clients")

    async def cut(self, transport: Transport) -> None:
        """Break the connection of a client; to be overridden with `Capability.CUT`."""
        raise TypeError(f"{type(self).__name__} cuts no connections")

    async def restart(self) -> None:
        """Restart the broker on its old data; to be overridden with `Capability.RESTART`."""
        raise TypeError(f"{type(self).__name__} restarts no broker")

    def require(self, capability: Capability) -> None:
        """Skip the test when the transport or its set-up lacks something."""
        if capability not in self.capabilities:
            pytest.skip(f"this set-up lacks {capability.value}")

    async def aclose(self) -> None:
        """Close every client made."""
        for client in reversed(self._clients):
            await client.aclose()
        self._clients.clear()


def fresh_topic(*, persistent: bool = True) -> str:
    """Return a topic that no other test uses."""
    return full_topic(f"suite.{uuid4().hex}", persistent=persistent)


async def arrives(awaitable: Awaitable[T]) -> T:
    """Wait for what must happen."""
    return await asyncio.wait_for(awaitable, PATIENCE_S)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        # What is waited for happens elsewhere, even in a broker: there is no event to wait on.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def counts_become(
    transport: Transport, topic: str, group: str, *, backlog: int, in_flight: int
) -> None:
    """Wait until the statistics of a group say so; a broker may count a moment later."""
    wanted = (backlog, in_flight)
    seen = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while seen != wanted:
                stats = await transport.stats(topic, group)
                seen = (stats.backlog, stats.in_flight)
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"backlog and in flight are {seen}, not {wanted}") from None


async def received(subscription: Subscription, count: int) -> list[Delivery]:
    """Receive that many messages."""
    return [await arrives(subscription.receive()) for _ in range(count)]


async def acked(subscription: Subscription, count: int) -> list[bytes]:
    """Receive and acknowledge that many messages; returns their bodies."""
    bodies = []
    for _ in range(count):
        delivery = await arrives(subscription.receive())
        await subscription.ack(delivery)
        bodies.append(delivery.payload)
    return bodies


async def is_silent(subscription: Subscription) -> bool:
    """Return whether nothing arrives for a while."""
    try:
        await asyncio.wait_for(subscription.receive(), SILENCE_S)
    except TimeoutError:
        return True
    return False


def dead_letters(transport: Transport) -> DeadLetters:
    """Return a reader of dead letters that waits a little for more."""
    return DeadLetters(transport, wait_s=2 * SILENCE_S)


async def publish_all(transport: Transport, topic: str, count: int) -> list[bytes]:
    """Publish numbered messages; returns their bodies in order."""
    bodies = [f"{n:05d}".encode() for n in range(count)]
    for body in bodies:
        await transport.publish(topic, body)
    return bodies
