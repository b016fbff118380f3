"""The part of the transport suite about joining and leaving, lost connections, and clients side by side."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from whence.broker.transport import Mode, NackOutcome, Start, Transport
from whence.schema.errors import Unavailable
from whence.testing.transport_factory import (
    QUICK,
    Capability,
    TransportFactory,
    acked,
    arrives,
    counts_become,
    fresh_topic,
    is_silent,
    publish_all,
    received,
)

_CLEAN_EXIT = """
import asyncio, sys
from whence.broker.connect import connect

async def main(url, topic):
    transport = await connect(url)
    subscription = await transport.subscribe(topic, "exit")
    waiting = asyncio.create_task(subscription.receive())
    await transport.publish(topic, b"bye")
    await subscription.ack(await asyncio.wait_for(waiting, 30))
    idle = asyncio.create_task(subscription.receive())
    await asyncio.sleep(0)
    await transport.aclose()
    await asyncio.gather(idle, return_exceptions=True)

asyncio.run(main(*sys.argv[1:]))
"""


class LifecycleSuite:
    """Clients and consumers that come and go; behaviours 8, 14 to 16, 21, 34, 39, 40 and 42."""

    #: How often a process is started to see that it ends well.
    exit_runs = 5
    #: Messages sent through in the soak test.
    soak_messages = 10_000

    async def test_close_returns_messages(self, one: Transport, two: Transport, topic: str) -> None:
        """8: Messages that a consumer held when it closed are redelivered to another one."""
        leaving = await one.subscribe(topic, "g", prefetch=3)
        bodies = await publish_all(one, topic, 3)
        held = await received(leaving, 3)
        await leaving.ack(held[0])

        await leaving.aclose()
        staying = await two.subscribe(topic, "g", prefetch=3)
        back = await received(staying, 2)

        assert sorted(delivery.payload for delivery in back) == bodies[1:]
        assert all(delivery.redelivered and delivery.attempt == 1 for delivery in back)
        assert await leaving.ack(held[1]) is False

    async def test_exclusive_group_is_taken(
        self, one: Transport, two: Transport, topic: str
    ) -> None:
        """14: An exclusive group refuses a second consumer and accepts one when the first has left."""
        first = await one.subscribe(topic, "g", mode=Mode.EXCLUSIVE)

        with pytest.raises(Unavailable):
            await two.subscribe(topic, "g", mode=Mode.EXCLUSIVE)
        await first.aclose()
        second = await two.subscribe(topic, "g", mode=Mode.EXCLUSIVE)
        await one.publish(topic, b"x")

        assert (await arrives(second.receive())).payload == b"x"

    async def test_close_wakes_receive(self, transport: Transport, topic: str) -> None:
        """15: Closing ends a waiting receive, and every later one, with `Unavailable`."""
        subscription = await transport.subscribe(topic, "g")
        waiting = asyncio.create_task(subscription.receive())
        await asyncio.sleep(0.01)

        await subscription.aclose()

        with pytest.raises(Unavailable):
            await arrives(waiting)
        with pytest.raises(Unavailable):
            await arrives(subscription.receive())

    async def test_a_group_without_consumers_keeps_messages(
        self, transport: Transport, topic: str
    ) -> None:
        """16: A group without consumers keeps messages until one joins."""
        await (await transport.subscribe(topic, "g")).aclose()
        bodies = await publish_all(transport, topic, 3)

        subscription = await transport.subscribe(topic, "g", start=Start.LATEST)

        assert await acked(subscription, 3) == bodies

    async def test_attempt_survives_a_new_client(self, transport_factory: TransportFactory) -> None:
        """21: The attempt is stored with the message, not in the client that counted it."""
        one, topic = await transport_factory(), fresh_topic()
        leaving = await one.subscribe(topic, "g", retry=QUICK)
        await one.publish(topic, b"x")
        await leaving.nack(await arrives(leaving.receive()), delay_s=0)
        assert (await arrives(leaving.receive())).attempt == 2
        await one.aclose()

        two = await transport_factory()
        staying = await two.subscribe(topic, "g", retry=QUICK)
        delivery = await arrives(staying.receive())

        assert delivery.attempt == 2
        assert delivery.redelivered
        assert await staying.nack(delivery, delay_s=0) is NackOutcome.RETRY

    async def test_attempt_survives_the_broker(
        self, transport_factory: TransportFactory, transport: Transport, topic: str
    ) -> None:
        """21: A restart of the broker loses neither messages nor attempts."""
        transport_factory.require(Capability.RESTART)
        subscription = await transport.subscribe(topic, "g", retry=QUICK)
        await transport.publish(topic, b"x")
        await subscription.nack(await arrives(subscription.receive()), delay_s=0.1)

        await transport_factory.restart()
        delivery = await arrives(subscription.receive())

        assert (delivery.payload, delivery.attempt) == (b"x", 2)

    async def test_a_client_reconnects(
        self, transport_factory: TransportFactory, transport: Transport, topic: str
    ) -> None:
        """34: After a cut a client reconnects and nothing is lost."""
        transport_factory.require(Capability.NETWORK)
        subscription = await transport.subscribe(topic, "g", prefetch=5)
        bodies = set(await publish_all(transport, topic, 20))
        await received(subscription, 3)

        await transport_factory.cut(transport)
        seen: set[bytes] = set()
        while seen != bodies:
            delivery = await arrives(subscription.receive())
            await subscription.ack(delivery)
            seen.add(delivery.payload)

        await transport.publish(topic, b"after")
        assert b"after" in await acked(subscription, 1)

    async def test_soak(self, transport: Transport, topic: str) -> None:
        """39: Each of many messages arrives once, and none is left."""
        subscription = await transport.subscribe(topic, "g", prefetch=100)
        total = self.soak_messages
        counts = dict.fromkeys(range(total), 0)

        async def produce() -> None:
            for n in range(total):
                await transport.publish(topic, str(n).encode())

        producing = asyncio.create_task(produce())
        for _ in range(total):
            delivery = await arrives(subscription.receive())
            counts[int(delivery.payload)] += 1
            await subscription.ack(delivery)
        await producing

        assert set(counts.values()) == {1}
        await counts_become(transport, topic, "g", backlog=0, in_flight=0)

    async def test_process_exits_cleanly(self, transport_factory: TransportFactory) -> None:
        """40: A process that closed its client ends with status 0 and without a warning."""
        transport_factory.require(Capability.PROCESS)

        async def run() -> None:
            command = [sys.executable, "-W", "error", "-X", "dev", "-c", _CLEAN_EXIT]
            result = await asyncio.to_thread(
                subprocess.run,
                [*command, transport_factory.url, fresh_topic()],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            # That something took long on a busy machine is no warning about the client.
            warnings = [line for line in result.stderr.splitlines() if " took " not in line]
            assert (result.returncode, warnings) == (0, [])

        for _ in range(0, self.exit_runs, 2):
            await asyncio.gather(run(), run())

    async def test_two_clients_in_one_process(
        self, one: Transport, two: Transport, topic: str
    ) -> None:
        """42: Two clients in one loop work side by side; closing one does not affect the other."""
        subscription = await two.subscribe(topic, "g")
        await one.publish(topic, b"x")
        await one.aclose()

        assert await acked(subscription, 1) == [b"x"]
        await two.publish(topic, b"y")
        assert await acked(subscription, 1) == [b"y"]

    async def test_two_loops_in_one_process(self, transport_factory: TransportFactory) -> None:
        """42: Clients in two event loops of one process reach each other."""
        transport_factory.require(Capability.LOOPS)
        here, topic = await transport_factory(), fresh_topic()
        subscription = await here.subscribe(topic, "g")

        async def elsewhere() -> None:
            there = await transport_factory.make(None)
            await there.publish(topic, b"from the other loop")
            await there.aclose()

        thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
        thread.start()
        bodies = await acked(subscription, 1)
        await asyncio.to_thread(thread.join)

        assert bodies == [b"from the other loop"]

    async def test_pause_and_resume(self, transport: Transport, topic: str) -> None:
        """A paused consumer gets nothing; after `resume` it continues."""
        subscription = await transport.subscribe(topic, "g")
        subscription.pause()
        await transport.publish(topic, b"x")

        assert await is_silent(subscription)
        subscription.resume()
        assert await acked(subscription, 1) == [b"x"]

    async def test_stats_report_backlog_and_in_flight(
        self, transport: Transport, topic: str
    ) -> None:
        """Statistics count waiting and unsettled messages; a group that settled all has no backlog."""
        subscription = await transport.subscribe(topic, "g")
        await publish_all(transport, topic, 3)
        held = await arrives(subscription.receive())

        await counts_become(transport, topic, "g", backlog=2, in_flight=1)
        assert (await transport.stats(topic, "g")).oldest_age_s >= 0
        await subscription.ack(held)
        await acked(subscription, 2)
        await counts_become(transport, topic, "g", backlog=0, in_flight=0)
        assert (await transport.stats(topic, "g")).oldest_age_s == 0

    async def test_draining_waits_for_open_deliveries(
        self, transport: Transport, topic: str
    ) -> None:
        """Closing with a timeout waits for unsettled messages and ends as soon as they are settled."""
        subscription = await transport.subscribe(topic, "g")
        await publish_all(transport, topic, 2)
        held = await arrives(subscription.receive())
        closing = asyncio.create_task(subscription.aclose(drain_s=60))
        await asyncio.sleep(0.01)

        assert not closing.done()
        assert await subscription.ack(held) is True
        await arrives(closing)
        await counts_become(transport, topic, "g", backlog=1, in_flight=0)

    async def test_a_closed_client_raises(self, transport: Transport, topic: str) -> None:
        """After closing every call raises `Unavailable`; closing twice has no effect."""
        await transport.health()
        await transport.aclose()
        await transport.aclose()

        for call in (
            transport.publish(topic, b"x"),
            transport.subscribe(topic, "g"),
            transport.request(topic, b"x"),
            transport.health(),
        ):
            with pytest.raises(Unavailable):
                await call
