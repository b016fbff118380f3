"""How messages travel: the part of the transport suite about topics, groups and settling."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from whence.broker.transport import Headers, Mode, NackOutcome, RetryPolicy, Start
from whence.schema.errors import BadInput, Overloaded, Unavailable
from whence.schema.topics import dead_letter_topic
from whence.testing.transport_factory import (
    QUICK,
    Capability,
    TransportFactory,
    acked,
    arrives,
    counts_become,
    eventually,
    fresh_topic,
    is_silent,
    publish_all,
    received,
)

__all__ = ("DeliverySuite",)

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


class DeliverySuite:
    """Topics, groups, settling and limits; behaviours 1 to 19, 21, 25, 34 and 39 to 42."""

    #: How often a process is started to see that it ends well.
    exit_runs = 5
    #: Messages sent through in the soak test.
    soak_messages = 10_000

    async def test_body_headers_and_key_survive(self, transport_factory: TransportFactory) -> None:
        """1: The body, the key and every header, of any Unicode, arrive as published."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g")
        body = bytes(range(256))
        headers = {"type": "any.v1", "title": "Überschrift 試 🧭", "empty": ""}

        message_id = await transport.publish(topic, body, headers=headers, key="schlüssel")
        delivery = await arrives(subscription.receive())

        assert delivery.payload == body
        assert type(delivery.payload) is bytes
        assert headers.items() <= delivery.headers.items()
        assert delivery.headers[Headers.MESSAGE_ID] == message_id
        assert (delivery.key, delivery.topic, delivery.attempt) == ("schlüssel", topic, 1)
        assert delivery.redelivered is False

    async def test_a_given_message_id_is_kept(self, transport_factory: TransportFactory) -> None:
        """1: A message id that the publisher set is kept; an attempt that it set is not."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g")

        given = {Headers.MESSAGE_ID: "m-1", Headers.ATTEMPT: "4"}
        message_id = await transport.publish(topic, b"x", headers=given)
        delivery = await arrives(subscription.receive())

        assert message_id == delivery.headers[Headers.MESSAGE_ID] == "m-1"
        assert delivery.headers[Headers.ATTEMPT] == "1"

    async def test_headers_are_copied(self, transport_factory: TransportFactory) -> None:
        """1: Changing headers after publishing, or those received, changes no message."""
        transport, topic = await transport_factory(), fresh_topic()
        one = await transport.subscribe(topic, "one")
        two = await transport.subscribe(topic, "two")
        headers = {"color": "blue"}

        await transport.publish(topic, b"x", headers=headers)
        headers["color"] = "red"
        seen = await arrives(one.receive())
        if isinstance(seen.headers, dict):
            seen.headers["color"] = "green"
        other = await arrives(two.receive())

        assert other.headers["color"] == "blue"

    async def test_competing_consumers(self, transport_factory: TransportFactory) -> None:
        """2: The members of a group share its messages; each message goes to one."""
        clients = [await transport_factory() for _ in range(2)]
        topic = fresh_topic()
        members = [await client.subscribe(topic, "g", prefetch=4) for client in clients]
        bodies = await publish_all(clients[0], topic, 40)
        seen: list[bytes] = []

        async def consume(index: int) -> None:
            while True:
                delivery = await members[index].receive()
                seen.append(delivery.payload)
                await members[index].ack(delivery)

        tasks = [asyncio.create_task(consume(index)) for index in range(2)]
        await eventually(lambda: len(seen) >= len(bodies))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        assert sorted(seen) == bodies
        assert all([await is_silent(member) for member in members])

    async def test_groups_are_independent(self, transport_factory: TransportFactory) -> None:
        """3: Every group gets every message; a nack in one is not seen by the other."""
        transport, topic = await transport_factory(), fresh_topic()
        one = await transport.subscribe(topic, "one", retry=QUICK)
        two = await transport.subscribe(topic, "two", retry=QUICK)
        await transport.publish(topic, b"x")

        await one.nack(await arrives(one.receive()))
        again = await arrives(one.receive())
        first = await arrives(two.receive())

        assert (again.attempt, first.attempt) == (2, 1)
        assert await two.ack(first)
        assert await is_silent(two)

    async def test_nack_sets_headers(self, transport_factory: TransportFactory) -> None:
        """3: What a nack sets comes again with the message, in that group only, over all that follow."""
        transport, topic = await transport_factory(), fresh_topic()
        one = await transport.subscribe(topic, "one", retry=QUICK)
        two = await transport.subscribe(topic, "two", retry=QUICK)
        await transport.publish(topic, b"x", headers={"color": "blue", "size": "1"})

        await one.nack(
            await arrives(one.receive()), delay_s=0, attempts=0, headers={"size": "2", "new": "3"}
        )
        again = await arrives(one.receive())
        await one.nack(again, delay_s=0)
        third = await arrives(one.receive())
        first = await arrives(two.receive())

        wanted = {"color": "blue", "size": "2", "new": "3"}
        assert [again.attempt, third.attempt] == [1, 2]
        for delivery in (again, third):
            assert wanted.items() <= delivery.headers.items()
        assert first.headers["size"] == "1"
        assert "new" not in first.headers

    async def test_cancelled_receive_loses_nothing(
        self, transport_factory: TransportFactory
    ) -> None:
        """4: A receive that was cancelled, waiting or just served, takes no message with it."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", prefetch=4)
        for delay_s in (0.0, 0.0, 0.002, 0.01):
            waiting = asyncio.create_task(subscription.receive())
            await asyncio.sleep(0.01)
            publishing = asyncio.create_task(transport.publish(topic, b"x"))
            await asyncio.sleep(delay_s)
            waiting.cancel()
            await publishing
            results = await asyncio.gather(waiting, return_exceptions=True)
            if isinstance(results[0], BaseException):
                delivery = await arrives(subscription.receive())
            else:
                delivery = results[0]

            assert delivery.payload == b"x"
            assert await subscription.ack(delivery)

        assert await is_silent(subscription)

    async def test_nack_backs_off_and_counts(self, transport_factory: TransportFactory) -> None:
        """5: After a nack the message waits, longer each time, and comes one attempt higher."""
        transport, topic = await transport_factory(), fresh_topic()
        policy = RetryPolicy(max_attempts=5, base_delay_s=0.1, factor=3.0, jitter=0.0)
        subscription = await transport.subscribe(topic, "g", retry=policy)
        loop = asyncio.get_running_loop()
        message_id = await transport.publish(topic, b"x")
        delivery = await arrives(subscription.receive())

        for attempt, wait in ((2, 0.1), (3, 0.3)):
            start = loop.time()
            assert await subscription.nack(delivery) is NackOutcome.RETRY
            delivery = await arrives(subscription.receive())
            # Clocks of broker and client may differ by a millisecond or so.
            assert loop.time() - start >= wait * 0.9
            assert delivery.attempt == attempt
            assert delivery.redelivered
            assert delivery.headers[Headers.MESSAGE_ID] == message_id
            assert delivery.headers[Headers.ATTEMPT] == str(attempt)

    async def test_nack_counts_what_the_holder_did(
        self, transport_factory: TransportFactory
    ) -> None:
        """5: Attempts made by the holder count; a hand-over without an attempt does not."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", retry=RetryPolicy(max_attempts=3))
        await transport.publish(topic, b"x")

        first = await arrives(subscription.receive())
        await subscription.nack(first, delay_s=0, attempts=0)
        second = await arrives(subscription.receive())
        await subscription.nack(second, delay_s=0, attempts=2)
        third = await arrives(subscription.receive())
        outcome = await subscription.nack(third, delay_s=0)

        assert (second.attempt, third.attempt) == (1, 3)
        assert outcome is NackOutcome.DEAD_LETTER

    async def test_nacks_do_not_starve_redelivery(
        self, transport_factory: TransportFactory
    ) -> None:
        """6: A steady stream of nacks does not put off the redelivery of an earlier one."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", prefetch=4)
        await transport.publish(topic, b"early")
        await subscription.nack(await arrives(subscription.receive()), delay_s=0.2)
        later = 0

        while later < 200:
            await transport.publish(topic, b"later")
            delivery = await arrives(subscription.receive())
            if delivery.payload == b"early":
                break
            later += 1
            await subscription.nack(delivery, delay_s=10.0)
            await asyncio.sleep(0.02)

        assert delivery.payload == b"early"
        assert delivery.attempt == 2

    async def test_dead_letter_after_last_attempt(
        self, transport_factory: TransportFactory
    ) -> None:
        """7: A message that fails its last attempt becomes a dead letter that tells its story."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", retry=QUICK)
        headers = {"type": "any.v1", Headers.CORRELATION_ID: "c"}
        message_id = await transport.publish(topic, b"poison", headers=headers, key="k")

        outcomes = []
        for _ in range(QUICK.max_attempts):
            delivery = await arrives(subscription.receive())
            outcomes.append(
                await subscription.nack(delivery, delay_s=0, reason="böse", exception="Boom")
            )
        letters = await transport.subscribe(dead_letter_topic(topic), "cli")
        letter = await arrives(letters.receive())

        assert outcomes == [NackOutcome.RETRY, NackOutcome.RETRY, NackOutcome.DEAD_LETTER]
        assert (letter.payload, letter.key) == (b"poison", "k")
        assert letter.headers["type"] == "any.v1"
        assert letter.headers[Headers.MESSAGE_ID] == message_id
        assert letter.headers[Headers.REASON] == "böse"
        assert letter.headers[Headers.EXCEPTION] == "Boom"
        assert letter.headers[Headers.GROUP] == "g"
        assert letter.headers[Headers.ORIGIN] == topic
        assert letter.headers[Headers.ATTEMPTS] == "3"
        first, last = int(letter.headers[Headers.FIRST_AT]), int(letter.headers[Headers.LAST_AT])
        assert 0 < first <= last
        assert await is_silent(subscription)

    async def test_close_hands_back(self, transport_factory: TransportFactory) -> None:
        """8: What a member held when it closed goes to another member, marked as redelivered."""
        one, two = await transport_factory(), await transport_factory()
        topic = fresh_topic()
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

    async def test_prefetch_bounds_in_flight(self, transport_factory: TransportFactory) -> None:
        """9: A member never holds more than its prefetch; settling one lets the next come."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", prefetch=2)
        await publish_all(transport, topic, 5)

        held = await received(subscription, 2)
        assert await is_silent(subscription)
        await subscription.ack(held[0])
        await arrives(subscription.receive())

        assert await is_silent(subscription)

    async def test_slow_consumer_does_not_hoard(self, transport_factory: TransportFactory) -> None:
        """10: While one member is busy the other gets the rest."""
        slow_client, quick_client = await transport_factory(), await transport_factory()
        topic = fresh_topic()
        slow = await slow_client.subscribe(topic, "g", prefetch=1)
        quick = await quick_client.subscribe(topic, "g", prefetch=1)
        await publish_all(slow_client, topic, 20)

        held = await arrives(slow.receive())
        others = await acked(quick, 19)

        assert len({held.payload, *others}) == 20
        assert await slow.ack(held)

    async def test_delayed_publish(self, transport_factory: TransportFactory) -> None:
        """11: A delayed message comes after its delay and overtakes nobody."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", prefetch=2)
        loop = asyncio.get_running_loop()
        start = loop.time()
        await transport.publish(topic, b"later", delay_s=0.5)
        await transport.publish(topic, b"now")

        bodies = await acked(subscription, 2)

        assert bodies == [b"now", b"later"]
        assert loop.time() - start >= 0.45

    async def test_settling_twice_does_nothing(self, transport_factory: TransportFactory) -> None:
        """12: A second ack, and a nack or reject after an ack, change nothing and say so."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", prefetch=2, retry=QUICK)
        await transport.publish(topic, b"x")
        delivery = await arrives(subscription.receive())

        assert await subscription.ack(delivery) is True
        assert await subscription.ack(delivery) is False
        assert await subscription.nack(delivery) is NackOutcome.STALE
        assert await subscription.reject(delivery, reason="late") is NackOutcome.STALE
        assert await is_silent(subscription)

    async def test_nacked_delivery_is_stale(self, transport_factory: TransportFactory) -> None:
        """12: After a nack the old delivery can no longer settle the message."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", retry=QUICK)
        await transport.publish(topic, b"x")
        old = await arrives(subscription.receive())
        await subscription.nack(old, delay_s=0)
        new = await arrives(subscription.receive())

        assert await subscription.ack(old) is False
        assert await subscription.nack(old) is NackOutcome.STALE
        assert await subscription.ack(new) is True

    async def test_oversize_is_refused(self, transport_factory: TransportFactory) -> None:
        """13: A body above the limit is refused before anything is sent."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g")

        with pytest.raises(BadInput, match="bytes"):
            await transport.publish(topic, bytes(transport.max_payload_bytes + 1))

        assert await is_silent(subscription)

    async def test_bad_headers_are_refused(self, transport_factory: TransportFactory) -> None:
        """13: A header that is not a string is refused and named."""
        transport, topic = await transport_factory(), fresh_topic()

        with pytest.raises(BadInput, match="depth"):
            await transport.publish(topic, b"x", headers={"depth": 3})  # type: ignore[dict-item]

    async def test_exclusive_group_is_taken(self, transport_factory: TransportFactory) -> None:
        """14: An exclusive group refuses a second member and takes one when the first has left."""
        one, two = await transport_factory(), await transport_factory()
        topic = fresh_topic()
        first = await one.subscribe(topic, "g", mode=Mode.EXCLUSIVE)

        with pytest.raises(Unavailable):
            await two.subscribe(topic, "g", mode=Mode.EXCLUSIVE)
        await first.aclose()
        second = await two.subscribe(topic, "g", mode=Mode.EXCLUSIVE)
        await one.publish(topic, b"x")

        assert (await arrives(second.receive())).payload == b"x"

    async def test_close_wakes_receive(self, transport_factory: TransportFactory) -> None:
        """15: Closing ends a waiting receive with `Unavailable`, and every later one."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g")
        waiting = asyncio.create_task(subscription.receive())
        await asyncio.sleep(0.01)

        await subscription.aclose()

        with pytest.raises(Unavailable):
            await arrives(waiting)
        with pytest.raises(Unavailable):
            await arrives(subscription.receive())

    async def test_group_without_members_keeps(self, transport_factory: TransportFactory) -> None:
        """16: A group without members keeps what is published until one comes."""
        transport, topic = await transport_factory(), fresh_topic()
        await (await transport.subscribe(topic, "g")).aclose()
        bodies = await publish_all(transport, topic, 3)

        subscription = await transport.subscribe(topic, "g", start=Start.LATEST)

        assert await acked(subscription, 3) == bodies

    async def test_latest_skips_and_earliest_replays(
        self, transport_factory: TransportFactory
    ) -> None:
        """17: A new group begins after what was published, or with what is kept, as it asks."""
        transport, topic = await transport_factory(), fresh_topic()
        bodies = await publish_all(transport, topic, 2)
        latest = await transport.subscribe(topic, "late", start=Start.LATEST)
        earliest = await transport.subscribe(topic, "early", start=Start.EARLIEST)
        await transport.publish(topic, b"new")

        assert await acked(latest, 1) == [b"new"]
        assert await acked(earliest, 3) == [*bodies, b"new"]
        assert await is_silent(latest)

    async def test_key_ordered(self, transport_factory: TransportFactory) -> None:
        """18: One message of a key is in flight at a time, in order; other keys go on."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", mode=Mode.KEY_ORDERED, prefetch=8)
        for n in range(3):
            await transport.publish(topic, f"a{n}".encode(), key="a")
        await transport.publish(topic, b"b0", key="b")

        first = await received(subscription, 2)
        assert sorted(delivery.payload for delivery in first) == [b"a0", b"b0"]
        assert await is_silent(subscription)
        held = next(delivery for delivery in first if delivery.key == "a")
        for expected in (b"a1", b"a2"):
            await subscription.ack(held)
            held = await arrives(subscription.receive())
            assert held.payload == expected

    async def test_broadcast(self, transport_factory: TransportFactory) -> None:
        """19: Every member that is there gets every message; nothing waits for those that are not."""
        clients = [await transport_factory() for _ in range(2)]
        topic = fresh_topic()
        await clients[0].publish(topic, b"before")
        members = [await client.subscribe(topic, "g", mode=Mode.BROADCAST) for client in clients]

        await clients[0].publish(topic, b"x")

        assert [await acked(member, 1) for member in members] == [[b"x"], [b"x"]]
        await members[1].aclose()
        await clients[0].publish(topic, b"y")
        assert await acked(members[0], 1) == [b"y"]
        late = await clients[1].subscribe(topic, "g", mode=Mode.BROADCAST)
        assert await is_silent(late)
        whole = await clients[1].subscribe(topic, "g", mode=Mode.BROADCAST, start=Start.EARLIEST)
        assert await acked(whole, 3) == [b"before", b"x", b"y"]

    async def test_attempt_survives_a_new_client(self, transport_factory: TransportFactory) -> None:
        """21: The attempt is kept with the message, not by the client that counted it."""
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

    async def test_attempt_survives_the_broker(self, transport_factory: TransportFactory) -> None:
        """21: A restart of the broker loses neither messages nor attempts."""
        transport_factory.require(Capability.RESTART)
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", retry=QUICK)
        await transport.publish(topic, b"x")
        await subscription.nack(await arrives(subscription.receive()), delay_s=0.1)

        await transport_factory.restart()
        delivery = await arrives(subscription.receive())

        assert (delivery.payload, delivery.attempt) == (b"x", 2)

    async def test_full_queue_is_felt(self, transport_factory: TransportFactory) -> None:
        """25: When the queue is full a publisher waits or gets `Overloaded`; the loop goes on."""
        transport_factory.require(Capability.BOUNDED)
        transport, topic = await transport_factory(max_backlog=2), fresh_topic()
        subscription = await transport.subscribe(topic, "g", prefetch=50)
        # A broker that is quick has receipts for the first of them while the loop ticks.
        bodies = [f"{n:05d}".encode() for n in range(200)]
        publishing = [asyncio.ensure_future(transport.publish(topic, body)) for body in bodies]
        ticks = 0
        for _ in range(10):
            await asyncio.sleep(0.001)
            ticks += 1

        assert ticks == 10
        assert not all(task.done() and task.exception() is None for task in publishing)
        seen = set(await acked(subscription, 2))
        results = await arrives(asyncio.gather(*publishing, return_exceptions=True))
        refused = {
            body
            for body, result in zip(bodies, results, strict=True)
            if isinstance(result, BaseException)
        }
        assert all(isinstance(r, str | Overloaded) for r in results)
        seen.update(await acked(subscription, len(bodies) - len(refused) - len(seen)))
        assert seen == set(bodies) - refused

    async def test_a_cut_connection_comes_back(self, transport_factory: TransportFactory) -> None:
        """34: After a cut a client goes on by itself and nothing is lost."""
        transport_factory.require(Capability.NETWORK)
        transport, topic = await transport_factory(), fresh_topic()
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

    async def test_soak(self, transport_factory: TransportFactory) -> None:
        """39: Of ten thousand messages each arrives once, and nothing is left behind."""
        transport, topic = await transport_factory(), fresh_topic()
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

    async def test_process_ends_well(self, transport_factory: TransportFactory) -> None:
        """40: A process that closed its client ends with status 0 and without a warning."""
        transport_factory.require(Capability.PROCESS)
        for _ in range(self.exit_runs):
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
            told = [line for line in result.stderr.splitlines() if " took " not in line]
            assert (result.returncode, told) == (0, [])

    async def test_one_megabyte(self, transport_factory: TransportFactory) -> None:
        """41: A body of a megabyte passes unchanged."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g")
        body = bytes(range(256)) * 4096

        await transport.publish(topic, body)

        assert (await arrives(subscription.receive())).payload == body

    async def test_two_clients_in_one_process(self, transport_factory: TransportFactory) -> None:
        """42: Two clients in one loop work side by side; closing one leaves the other alone."""
        one, two = await transport_factory(), await transport_factory()
        topic = fresh_topic()
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

    async def test_pause_and_resume(self, transport_factory: TransportFactory) -> None:
        """A paused member gets nothing; resumed, it goes on where it was."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g")
        subscription.pause()
        await transport.publish(topic, b"x")

        assert await is_silent(subscription)
        subscription.resume()
        assert await acked(subscription, 1) == [b"x"]

    async def test_stats_tell_backlog_and_in_flight(
        self, transport_factory: TransportFactory
    ) -> None:
        """Statistics count what waits and what is held; a group that is done is not behind."""
        transport, topic = await transport_factory(), fresh_topic()
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
        self, transport_factory: TransportFactory
    ) -> None:
        """Closing with patience waits for what is held and ends as soon as it is settled."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g")
        await publish_all(transport, topic, 2)
        held = await arrives(subscription.receive())
        closing = asyncio.create_task(subscription.aclose(drain_s=60))
        await asyncio.sleep(0.01)

        assert not closing.done()
        assert await subscription.ack(held) is True
        await arrives(closing)
        await counts_become(transport, topic, "g", backlog=1, in_flight=0)

    async def test_a_closed_client_says_so(self, transport_factory: TransportFactory) -> None:
        """After closing every call raises `Unavailable`; closing twice is fine."""
        transport, topic = await transport_factory(), fresh_topic()
        await transport.health()
        await transport.aclose()
        await transport.aclose()

        with pytest.raises(Unavailable):
            await transport.publish(topic, b"x")
        with pytest.raises(Unavailable):
            await transport.subscribe(topic, "g")
        with pytest.raises(Unavailable):
            await transport.request(topic, b"x")
        with pytest.raises(Unavailable):
            await transport.health()
