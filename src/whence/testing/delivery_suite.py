"""The part of the transport suite about publishing, receiving and settling messages."""

from __future__ import annotations

import asyncio

import pytest

from whence.broker.transport import Headers, Mode, NackOutcome, RetryPolicy, Start, Transport
from whence.schema.errors import BadInput, Overloaded
from whence.schema.topics import dead_letter_topic
from whence.testing.transport_factory import (
    QUICK,
    Capability,
    TransportFactory,
    acked,
    arrives,
    eventually,
    fresh_topic,
    is_silent,
    publish_all,
    received,
)


class DeliverySuite:
    """Publishing and receiving; behaviours 1 to 4, 9 to 11, 13, 17 to 19, 25 and 41."""

    async def test_body_headers_and_key_survive(self, transport: Transport, topic: str) -> None:
        """1: The body, the key and every header, of any Unicode, arrive as published."""
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

    async def test_a_given_message_id_is_kept(self, transport: Transport, topic: str) -> None:
        """1: A message id that the publisher set is kept; an attempt that it set is not."""
        subscription = await transport.subscribe(topic, "g")

        given = {Headers.MESSAGE_ID: "m-1", Headers.ATTEMPT: "4"}
        message_id = await transport.publish(topic, b"x", headers=given)
        delivery = await arrives(subscription.receive())

        assert message_id == delivery.headers[Headers.MESSAGE_ID] == "m-1"
        assert delivery.headers[Headers.ATTEMPT] == "1"

    async def test_headers_are_copied(self, transport: Transport, topic: str) -> None:
        """1: Changing headers after publishing, or those received, changes no message."""
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
        """2: The consumers of a group share its messages; each message goes to one."""
        clients = [await transport_factory() for _ in range(2)]
        topic = fresh_topic()
        consumers = [await client.subscribe(topic, "g", prefetch=4) for client in clients]
        bodies = await publish_all(clients[0], topic, 40)
        seen: list[bytes] = []

        async def consume(index: int) -> None:
            while True:
                delivery = await consumers[index].receive()
                seen.append(delivery.payload)
                await consumers[index].ack(delivery)

        tasks = [asyncio.create_task(consume(index)) for index in range(2)]
        await eventually(lambda: len(seen) >= len(bodies))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        assert sorted(seen) == bodies
        assert all([await is_silent(consumer) for consumer in consumers])

    async def test_groups_are_independent(self, transport: Transport, topic: str) -> None:
        """3: Every group gets every message; a nack in one is not seen by the other."""
        one = await transport.subscribe(topic, "one", retry=QUICK)
        two = await transport.subscribe(topic, "two", retry=QUICK)
        await transport.publish(topic, b"x")

        await one.nack(await arrives(one.receive()))
        again = await arrives(one.receive())
        first = await arrives(two.receive())

        assert (again.attempt, first.attempt) == (2, 1)
        assert await two.ack(first)
        assert await is_silent(two)

    async def test_cancelled_receive_loses_nothing(self, transport: Transport, topic: str) -> None:
        """4: A cancelled receive, waiting or just served, loses no message."""
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

    async def test_prefetch_bounds_in_flight(self, transport: Transport, topic: str) -> None:
        """9: A consumer never holds more than its prefetch; settling a message admits the next."""
        subscription = await transport.subscribe(topic, "g", prefetch=2)
        await publish_all(transport, topic, 5)

        held = await received(subscription, 2)
        assert await is_silent(subscription)
        await subscription.ack(held[0])
        await arrives(subscription.receive())

        assert await is_silent(subscription)

    async def test_a_busy_consumer_leaves_messages_to_others(
        self, transport_factory: TransportFactory
    ) -> None:
        """10: While one consumer is busy the other gets the other messages."""
        slow_client, quick_client = await transport_factory(), await transport_factory()
        topic = fresh_topic()
        slow = await slow_client.subscribe(topic, "g", prefetch=1)
        quick = await quick_client.subscribe(topic, "g", prefetch=1)
        await publish_all(slow_client, topic, 20)

        held = await arrives(slow.receive())
        others = await acked(quick, 19)

        assert len({held.payload, *others}) == 20
        assert await slow.ack(held)

    async def test_delayed_publish(self, transport: Transport, topic: str) -> None:
        """11: A delayed message arrives after its delay and does not overtake others."""
        subscription = await transport.subscribe(topic, "g", prefetch=2)
        loop = asyncio.get_running_loop()
        start = loop.time()
        await transport.publish(topic, b"later", delay_s=0.5)
        await transport.publish(topic, b"now")

        bodies = await acked(subscription, 2)

        assert bodies == [b"now", b"later"]
        assert loop.time() - start >= 0.45

    async def test_nacked_delivery_is_stale(self, transport: Transport, topic: str) -> None:
        """12: After a nack the old delivery can no longer settle the message."""
        subscription = await transport.subscribe(topic, "g", retry=QUICK)
        await transport.publish(topic, b"x")
        old = await arrives(subscription.receive())
        await subscription.nack(old, delay_s=0)
        new = await arrives(subscription.receive())

        assert await subscription.ack(old) is False
        assert await subscription.nack(old) is NackOutcome.STALE
        assert await subscription.ack(new) is True

    async def test_oversize_is_refused(self, transport: Transport, topic: str) -> None:
        """13: A body above the limit is refused before anything is sent."""
        subscription = await transport.subscribe(topic, "g")

        with pytest.raises(BadInput, match="bytes"):
            await transport.publish(topic, bytes(transport.max_payload_bytes + 1))

        assert await is_silent(subscription)

    async def test_bad_headers_are_refused(self, transport: Transport, topic: str) -> None:
        """13: A header that is not a string is refused and named."""
        with pytest.raises(BadInput, match="depth"):
            await transport.publish(topic, b"x", headers={"depth": 3})  # type: ignore[dict-item]

    async def test_latest_skips_and_earliest_replays(
        self, transport: Transport, topic: str
    ) -> None:
        """17: A new group begins after the published messages, or with the retained ones, as configured."""
        bodies = await publish_all(transport, topic, 2)
        latest = await transport.subscribe(topic, "late", start=Start.LATEST)
        earliest = await transport.subscribe(topic, "early", start=Start.EARLIEST)
        await transport.publish(topic, b"new")

        assert await acked(latest, 1) == [b"new"]
        assert await acked(earliest, 3) == [*bodies, b"new"]
        assert await is_silent(latest)

    async def test_key_ordered(self, transport: Transport, topic: str) -> None:
        """18: One message of a key is in flight at a time, in order; other keys are not blocked."""
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
        """19: Every connected consumer gets every message; none is kept for absent ones."""
        clients = [await transport_factory() for _ in range(2)]
        topic = fresh_topic()
        await clients[0].publish(topic, b"before")
        consumers = [await client.subscribe(topic, "g", mode=Mode.BROADCAST) for client in clients]

        await clients[0].publish(topic, b"x")

        assert [await acked(consumer, 1) for consumer in consumers] == [[b"x"], [b"x"]]
        await consumers[1].aclose()
        await clients[0].publish(topic, b"y")
        assert await acked(consumers[0], 1) == [b"y"]
        late = await clients[1].subscribe(topic, "g", mode=Mode.BROADCAST)
        assert await is_silent(late)
        whole = await clients[1].subscribe(topic, "g", mode=Mode.BROADCAST, start=Start.EARLIEST)
        assert await acked(whole, 3) == [b"before", b"x", b"y"]

    async def test_publishers_wait_for_a_full_queue(
        self, transport_factory: TransportFactory
    ) -> None:
        """25: When the queue is full a publisher waits or gets `Overloaded`; the event loop is not blocked."""
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

    async def test_one_megabyte(self, transport: Transport, topic: str) -> None:
        """41: A body of a megabyte arrives unchanged."""
        subscription = await transport.subscribe(topic, "g")
        body = bytes(range(256)) * 4096

        await transport.publish(topic, body)

        assert (await arrives(subscription.receive())).payload == body


class SettlementSuite:
    """Acknowledging, retrying and giving up; behaviours 3, 5 to 7 and 12."""

    async def test_nack_sets_headers(self, transport: Transport, topic: str) -> None:
        """3: Headers set by a nack are redelivered with the message, in that group only, and accumulate."""
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

    async def test_nack_backs_off_and_counts(self, transport: Transport, topic: str) -> None:
        """5: After a nack the message waits, longer each time, and its attempt is one higher."""
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

    async def test_nack_counts_attempts_of_the_consumer(
        self, transport: Transport, topic: str
    ) -> None:
        """5: Attempts made by the consumer count; a delivery without an attempt does not."""
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

    async def test_nacks_do_not_starve_redelivery(self, transport: Transport, topic: str) -> None:
        """6: A steady stream of nacks does not delay the redelivery of an earlier one."""
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

    async def test_dead_letter_after_last_attempt(self, transport: Transport, topic: str) -> None:
        """7: A message that fails its last attempt becomes a dead letter with reason, group and times."""
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

    async def test_settling_twice_does_nothing(self, transport: Transport, topic: str) -> None:
        """12: A second ack, and a nack or reject after an ack, change nothing and return False."""
        subscription = await transport.subscribe(topic, "g", prefetch=2, retry=QUICK)
        await transport.publish(topic, b"x")
        delivery = await arrives(subscription.receive())

        assert await subscription.ack(delivery) is True
        assert await subscription.ack(delivery) is False
        assert await subscription.nack(delivery) is NackOutcome.STALE
        assert await subscription.reject(delivery, reason="late") is NackOutcome.STALE
        assert await is_silent(subscription)
