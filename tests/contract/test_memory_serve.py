"""Messages of the memory transport can be begun in the moment they are published."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from whence.broker.transport import Delivery, Mode, Serving
from whence.schema.errors import Unavailable
from whence.schema.topics import full_topic
from whence.testing.faults import Faults, MemoryTransport

TOPIC = full_topic("served")


class Server:
    """Waits for messages and begins them: done with each, or with none."""

    def __init__(self, transport: MemoryTransport, *, done: bool) -> None:
        self._transport = transport
        self._done = done
        self.begun: list[bytes] = []
        self.came_out: list[bytes] = []

    async def join(self, mode: Mode = Mode.SHARED) -> asyncio.Task[Delivery]:
        """Begin to wait for one message that is not done at once."""
        self.subscription = await self._transport.subscribe(TOPIC, "g", mode=mode)
        return await self.wait()

    async def wait(self) -> asyncio.Task[Delivery]:
        """Wait for the next one."""
        subscription = self.subscription
        assert isinstance(subscription, Serving)
        task = asyncio.create_task(subscription.serve(self.begin))
        await asyncio.sleep(0)
        return task

    def begin(self, delivery: Delivery) -> bool:
        """Take one."""
        self.begun.append(delivery.payload)
        if self._done:
            settling = self.subscription.ack(delivery)
            with suppress(StopIteration):
                settling.send(None)
        return self._done


async def test_one_who_is_done_with_it_waits_on() -> None:
    """Each is begun within `publish`, in order, and none comes out."""
    transport = MemoryTransport()
    server = Server(transport, done=True)
    waiting = await server.join()
    for number in range(3):
        await transport.publish(TOPIC, str(number).encode())
        assert len(server.begun) == number + 1
    stats = await transport.stats(TOPIC, "g")
    assert not waiting.done()
    await transport.aclose()
    with pytest.raises(Unavailable):
        await waiting

    assert server.begun == [b"0", b"1", b"2"]
    assert (stats.backlog, stats.in_flight) == (0, 0)


async def test_one_who_is_not_done_gets_it() -> None:
    """It comes out of the wait, and what is published then waits until it is settled."""
    transport = MemoryTransport()
    server = Server(transport, done=False)
    waiting = await server.join()
    await transport.publish(TOPIC, b"0")
    await transport.publish(TOPIC, b"1")
    first = await waiting
    assert (first.payload, server.begun) == (b"0", [b"0"])
    waiting = await server.wait()
    await server.subscription.ack(first)
    second = await waiting

    # It had to wait, so it comes as from `receive`.
    assert (second.payload, server.begun) == (b"1", [b"0"])
    await transport.aclose()


async def test_what_was_begun_is_not_given_to_another() -> None:
    """Cancelled in the moment of the hand-over, a wait gives back what was not begun, and only that."""
    transport = MemoryTransport()
    server = Server(transport, done=False)
    waiting = await server.join()
    await transport.publish(TOPIC, b"begun")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    stats = await transport.stats(TOPIC, "g")
    assert (stats.backlog, stats.in_flight) == (0, 1)
    await transport.aclose()


async def test_a_group_in_order_of_keys_keeps_it() -> None:
    """One of a key is begun while none of the key is in flight."""
    transport = MemoryTransport()
    server = Server(transport, done=False)
    waiting = await server.join(Mode.KEY_ORDERED)
    await transport.publish(TOPIC, b"0", key="k")
    first = await waiting
    await transport.publish(TOPIC, b"1", key="k")
    waiting = await server.wait()
    assert server.begun == [b"0"]
    await server.subscription.ack(first)
    assert (await waiting).payload == b"1"
    await transport.aclose()


async def test_faults_are_met_on_the_long_way() -> None:
    """With faults switched on nothing is begun early: they strike as for anybody."""
    transport = MemoryTransport(faults=Faults(duplicate_after_ack=1))
    server = Server(transport, done=True)
    waiting = await server.join()
    await transport.publish(TOPIC, b"0")
    delivery = await waiting
    await server.subscription.ack(delivery)
    again = await server.subscription.receive()

    assert (server.begun, again.redelivered) == ([], True)
    await transport.aclose()


async def test_a_closed_subscription_hands_back_what_was_begun() -> None:
    """What is not settled goes to the next member of the group."""
    transport = MemoryTransport()
    server = Server(transport, done=False)
    waiting = await server.join()
    await transport.publish(TOPIC, b"0")
    await waiting
    await server.subscription.aclose()
    other = await transport.subscribe(TOPIC, "g")
    again = await other.receive()

    assert (again.payload, again.redelivered) == (b"0", True)
    await transport.aclose()
