"""A subscription of the memory transport can hand messages over as they are published."""

from __future__ import annotations

import asyncio

import pytest

from whence.broker.transport import Delivery, Mode, Pushing, Start
from whence.schema.errors import Unavailable
from whence.schema.topics import full_topic
from whence.testing.faults import Faults, MemoryTransport

TOPIC = full_topic("pushed")


async def pushed(transport: MemoryTransport, taken: list[Delivery]) -> Pushing:
    """Give a subscription that fills a list."""
    subscription = await transport.subscribe(TOPIC, "g", prefetch=2)
    assert isinstance(subscription, Pushing)
    subscription.push_to(taken.append)
    return subscription


async def test_messages_are_taken_and_settled_at_once() -> None:
    """Nothing is left in flight, however many come, and what waited before comes first."""
    transport = MemoryTransport()
    waiting = await transport.subscribe(TOPIC, "g")
    await waiting.aclose()
    await transport.publish(TOPIC, b"0")
    taken: list[Delivery] = []
    await pushed(transport, taken)
    for number in range(1, 9):
        await transport.publish(TOPIC, str(number).encode())
    stats = await transport.stats(TOPIC, "g")
    await transport.aclose()

    assert [one.payload for one in taken] == [str(number).encode() for number in range(9)]
    assert (stats.backlog, stats.in_flight) == (0, 0)


async def test_a_buffer_is_copied() -> None:
    """Who publishes a buffer may change it afterwards; what was published stays."""
    transport = MemoryTransport()
    taken: list[Delivery] = []
    await pushed(transport, taken)
    body = bytearray(b"x")
    await transport.publish(TOPIC, body)  # type: ignore[arg-type]
    body[0] = 0
    await transport.aclose()

    assert [one.payload for one in taken] == [b"x"]


async def test_the_end_of_the_subscription_is_told() -> None:
    """Who waits in `receive` gets no message, and learns that there will be none."""
    transport = MemoryTransport()
    taken: list[Delivery] = []
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
    taken: list[Delivery] = []
    await pushed(transport, taken)
    await transport.publish(TOPIC, b"x")
    assert [one.redelivered for one in taken] == [False, True]

    transport.faults.lose_acks = 1
    await transport.publish(TOPIC, b"y")
    transport.drop_connection()
    await transport.aclose()

    assert [one.payload for one in taken] == [b"x", b"x", b"y", b"y"]


async def test_a_pause_holds_them_back() -> None:
    """Paused, they stay in the group and come in order afterwards."""
    transport = MemoryTransport()
    subscription = await transport.subscribe(TOPIC, "g", mode=Mode.EXCLUSIVE, start=Start.LATEST)
    taken: list[Delivery] = []
    assert isinstance(subscription, Pushing)
    subscription.push_to(taken.append)
    subscription.pause()
    await transport.publish(TOPIC, b"0")
    await transport.publish(TOPIC, b"1")
    assert taken == []

    subscription.resume()
    await transport.aclose()
    assert [one.payload for one in taken] == [b"0", b"1"]
