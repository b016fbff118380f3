"""A subscription of the memory transport can hand messages over as they are published."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from whence.broker.transport import Headers, Mode, Pushing, Start
from whence.schema.errors import Unavailable
from whence.schema.topics import full_topic
from whence.schema.wire import Body, plain
from whence.testing.faults import Faults, MemoryTransport

TOPIC = full_topic("pushed")


class Taken(list[bytes]):
    """Bodies in the order they came, and the attempt of each."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: list[str] = []

    def take(self, body: Body, headers: Mapping[str, str]) -> None:
        """Take one."""
        self.append(plain(body))
        self.attempts.append(headers[Headers.ATTEMPT])


async def pushed(transport: MemoryTransport, taken: Taken) -> Pushing:
    """Give a subscription that fills a list."""
    subscription = await transport.subscribe(TOPIC, "g", prefetch=2)
    assert isinstance(subscription, Pushing)
    subscription.push_to(taken.take)
    return subscription


async def test_messages_are_taken_and_settled_at_once() -> None:
    """Nothing is left in flight, however many come, and what waited before comes first."""
    transport = MemoryTransport()
    waiting = await transport.subscribe(TOPIC, "g")
    await waiting.aclose()
    await transport.publish(TOPIC, b"0")
    taken = Taken()
    await pushed(transport, taken)
    for number in range(1, 9):
        await transport.publish(TOPIC, str(number).encode())
    stats = await transport.stats(TOPIC, "g")
    await transport.aclose()

    assert taken == [str(number).encode() for number in range(9)]
    assert taken.attempts == ["1"] * 9
    assert (stats.backlog, stats.in_flight) == (0, 0)


async def test_a_buffer_is_copied() -> None:
    """Who publishes a buffer may change it afterwards; what was published stays."""
    transport = MemoryTransport()
    taken = Taken()
    await pushed(transport, taken)
    body = bytearray(b"x")
    await transport.publish(TOPIC, body)  # type: ignore[arg-type]
    body[0] = 0
    await transport.aclose()

    assert taken == [b"x"]


async def test_the_end_of_the_subscription_is_told() -> None:
    """Who waits in `receive` gets no message, and learns that there will be none."""
    transport = MemoryTransport()
    taken = Taken()
    subscription = await pushed(transport, taken)
    ending = asyncio.ensure_future(subscription.receive())  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    await transport.publish(TOPIC, b"x")
    await asyncio.sleep(0)
    assert not ending.done()

    await transport.aclose()
    with pytest.raises(Unavailable):
        await ending
    assert len(taken) == 1


async def test_faults_hold_for_them_too() -> None:
    """A duplicate comes twice; a lost ack comes again with the next cut."""
    transport = MemoryTransport(faults=Faults(duplicate_after_ack=1))
    taken = Taken()
    await pushed(transport, taken)
    await transport.publish(TOPIC, b"x")
    assert taken == [b"x", b"x"]

    transport.faults.lose_acks = 1
    await transport.publish(TOPIC, b"y")
    transport.drop_connection()
    await transport.aclose()

    assert taken == [b"x", b"x", b"y", b"y"]


async def test_a_pause_holds_them_back() -> None:
    """Paused, they stay in the group and come in order afterwards."""
    transport = MemoryTransport()
    subscription = await transport.subscribe(TOPIC, "g", mode=Mode.EXCLUSIVE, start=Start.LATEST)
    taken = Taken()
    assert isinstance(subscription, Pushing)
    subscription.push_to(taken.take)
    subscription.pause()
    await transport.publish(TOPIC, b"0")
    await transport.publish(TOPIC, b"1")
    assert taken == []

    subscription.resume()
    await transport.aclose()
    assert taken == [b"0", b"1"]
