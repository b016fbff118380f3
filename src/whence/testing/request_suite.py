"""Asking and answering: the part of the transport suite about requests, streams and cancelling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from itertools import islice
from uuid import uuid4

import pytest

from whence.broker.transport import Delivery, Headers, Reply, Subscription, Transport
from whence.schema.errors import BadInput, DeadlineExceeded, Unavailable
from whence.schema.topics import cancel_topic, full_topic
from whence.testing.transport_factory import (
    PATIENCE_S,
    Capability,
    TransportFactory,
    arrives,
    eventually,
    fresh_topic,
)


async def _answer(
    transport: Transport, asked: Delivery, body: bytes, *, sequence: int = 0, end: bool = True
) -> None:
    headers = {
        Headers.TYPE: "any.v1",
        Headers.CORRELATION_ID: asked.headers[Headers.CORRELATION_ID],
        Headers.SEQUENCE: str(sequence),
        Headers.END: "1" if end else "0",
    }
    await transport.publish(asked.headers[Headers.REPLY_TO], body, headers=headers)


async def _asked(subscription: Subscription) -> Delivery:
    delivery = await arrives(subscription.receive())
    await subscription.ack(delivery)
    return delivery


async def _echo(server: Transport, subscription: Subscription) -> None:
    while True:
        asked = await subscription.receive()
        await _answer(server, asked, asked.payload)
        await subscription.ack(asked)


async def _ask_all(client: Transport, topic: str, numbers: Iterator[int]) -> int:
    answered = 0
    for number in numbers:
        body = str(number).encode()
        reply = await client.request(topic, body, timeout_s=PATIENCE_S)
        answered += reply.payload == body
    return answered


async def _collect(replies: AsyncIterator[Reply]) -> list[bytes]:
    return [reply.payload async for reply in replies]


class RequestSuite:
    """Requests, deadlines and cancelling on the caller's side; behaviours 28 to 30 and 32."""

    async def test_a_request_has_the_required_headers(
        self, client: Transport, server: Transport, topic: str
    ) -> None:
        """29: A request has its reply topic, its own id and its absolute deadline."""
        subscription = await server.subscribe(topic, "g")
        before = time.time()
        asking = asyncio.create_task(
            client.request(topic, b"?", headers={"type": "ask.v1"}, key="k", timeout_s=20)
        )
        asked = await _asked(subscription)
        await _answer(server, asked, b"!")
        reply = await arrives(asking)

        assert (reply.payload, reply.sequence, reply.end) == (b"!", 0, True)
        assert reply.headers[Headers.TYPE] == "any.v1"
        assert (asked.payload, asked.key, asked.headers["type"]) == (b"?", "k", "ask.v1")
        assert full_topic(asked.headers[Headers.REPLY_TO]) == asked.headers[Headers.REPLY_TO]
        timeout_s = int(asked.headers[Headers.DEADLINE]) / 1000 - before
        assert 15 < timeout_s < 25

    async def test_hundred_callers(self, transport_factory: TransportFactory) -> None:
        """29: Each of a hundred concurrent callers in two clients gets the reply to its own request."""
        clients = [await transport_factory() for _ in range(2)]
        server, topic = await transport_factory(), fresh_topic()
        subscription = await server.subscribe(topic, "g", prefetch=100)

        async def serve() -> None:
            held = [await subscription.receive() for _ in range(100)]
            for asked in reversed(held):
                await _answer(server, asked, b"re " + asked.payload)
                await subscription.ack(asked)

        serving = asyncio.create_task(serve())
        calls = [clients[n % 2].request(topic, str(n).encode()) for n in range(100)]
        replies = await arrives(asyncio.gather(*calls))
        await serving

        assert [reply.payload for reply in replies] == [f"re {n}".encode() for n in range(100)]

    async def test_replies_beside_large_messages(self, transport_factory: TransportFactory) -> None:
        """29: No reply is lost on a connection that is busy with large messages."""
        client, server = await transport_factory(), await transport_factory()
        topic, large = fresh_topic(), fresh_topic()
        subscription = await server.subscribe(topic, "g", prefetch=8)
        heavy = await client.subscribe(large, "g", prefetch=4)

        on_their_way = asyncio.Semaphore(8)

        async def flood() -> None:
            while True:
                await on_their_way.acquire()
                await server.publish(large, b"x" * 400_000)

        async def ack_all() -> None:
            while True:
                await heavy.ack(await heavy.receive())
                on_their_way.release()

        others = [_echo(server, subscription), ack_all(), flood(), flood(), flood()]
        numbers = iter(range(400))
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(other) for other in others]
            asking = (_ask_all(client, topic, numbers) for _ in range(8))
            answered = sum(await asyncio.gather(*asking))
            for task in beside:
                task.cancel()

        assert answered == 400

    async def test_replies_over_cut_connections(
        self, transport_factory: TransportFactory, client: Transport, server: Transport, topic: str
    ) -> None:
        """34: Replies published while the caller is disconnected reach it after it reconnects."""
        transport_factory.require(Capability.CUT)
        subscription = await server.subscribe(topic, "g", prefetch=8)
        numbers = iter(range(120))

        async def ask() -> int:
            answered = 0
            for _ in range(30):
                if answered % 10 == 5:
                    # In the middle of what the others ask.
                    await transport_factory.cut(client)
                answered += await _ask_all(client, topic, islice(numbers, 1))
            return answered

        async with asyncio.TaskGroup() as group:
            serving = group.create_task(_echo(server, subscription))
            asking = asyncio.gather(*(ask() for _ in range(4)))
            # Also before the first reply ever.
            await transport_factory.cut(client)
            answered = sum(await asking)
            serving.cancel()

        assert answered == 120

    async def test_a_missing_reply_is_an_error(self, transport: Transport, topic: str) -> None:
        """30: A request without a reply ends with `DeadlineExceeded`, which names the topic."""
        with pytest.raises(DeadlineExceeded, match=topic):
            await arrives(transport.request(topic, b"?", timeout_s=0.1))
        with pytest.raises(DeadlineExceeded, match=topic):
            await arrives(_collect(transport.stream(topic, b"?", timeout_s=0.1)))

    async def test_an_expired_request_is_not_published(
        self, transport: Transport, topic: str
    ) -> None:
        """30: A request whose deadline has passed is not published; the nearer deadline counts."""
        subscription = await transport.subscribe(topic, "g")
        past = {Headers.DEADLINE: str(int(time.time() * 1000) - 1)}
        soon = {Headers.DEADLINE: str(int(time.time() * 1000) + 5_000)}

        with pytest.raises(DeadlineExceeded):
            await transport.request(topic, b"late", headers=past)
        asking = asyncio.create_task(transport.request(topic, b"soon", headers=soon, timeout_s=500))
        asked = await _asked(subscription)
        await _answer(transport, asked, b"!")

        assert (await arrives(asking)).payload == b"!"
        assert asked.payload == b"soon"
        assert asked.headers[Headers.DEADLINE] == soon[Headers.DEADLINE]

    async def test_late_reply_is_dropped(
        self, client: Transport, server: Transport, topic: str
    ) -> None:
        """30: A reply after the deadline is dropped and does not affect the next request."""
        subscription = await server.subscribe(topic, "g")
        with pytest.raises(DeadlineExceeded):
            await arrives(client.request(topic, b"first", timeout_s=0.1))
        late = await _asked(subscription)

        await _answer(server, late, b"late")
        asking = asyncio.create_task(client.request(topic, b"second"))
        await _answer(server, await _asked(subscription), b"in time")

        assert (await arrives(asking)).payload == b"in time"

    async def test_invalid_replies_are_ignored(
        self, client: Transport, server: Transport, topic: str
    ) -> None:
        """30: Invalid messages on the reply topic do not affect the client."""
        subscription = await server.subscribe(topic, "g")
        asking = asyncio.create_task(client.request(topic, b"?"))
        asked = await _asked(subscription)
        reply_to = asked.headers[Headers.REPLY_TO]
        known = {Headers.CORRELATION_ID: asked.headers[Headers.CORRELATION_ID]}

        await server.publish(reply_to, b"no headers at all")
        await server.publish(reply_to, b"", headers={Headers.CORRELATION_ID: "unknown"})
        for sequence in ("-1", "one", "٣", "9" * 40, "1.5", ""):
            await server.publish(reply_to, b"\xff", headers={**known, Headers.SEQUENCE: sequence})
        await _answer(server, asked, b"fine")

        assert (await arrives(asking)).payload == b"fine"

    async def test_same_id_twice_is_refused(self, transport: Transport, topic: str) -> None:
        """29: A second request with the id of a pending one is refused."""
        subscription = await transport.subscribe(topic, "g")
        headers = {Headers.CORRELATION_ID: uuid4().hex}
        asking = asyncio.create_task(transport.request(topic, b"?", headers=headers))
        asked = await _asked(subscription)

        with pytest.raises(BadInput, match=headers[Headers.CORRELATION_ID]):
            await transport.request(topic, b"?", headers=headers)
        await _answer(transport, asked, b"!")
        assert (await arrives(asking)).payload == b"!"

    async def test_a_cancelled_caller_cancels_its_request(
        self, client: Transport, server: Transport, topic: str
    ) -> None:
        """28: Cancelling the caller cancels its request at the server."""
        subscription = await server.subscribe(topic, "g")
        control = await server.subscribe(cancel_topic(topic), "c")
        asking = asyncio.create_task(client.request(topic, b"?"))
        asked = await _asked(subscription)

        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

        wanted = asked.headers[Headers.CORRELATION_ID]
        assert (await _asked(control)).payload == wanted.encode()

    async def test_reply_topic_gone(self, transport_factory: TransportFactory) -> None:
        """32: Replies to a client that has left neither fail nor delay the server."""
        client, other, server = [await transport_factory() for _ in range(3)]
        topic = fresh_topic()
        subscription = await server.subscribe(topic, "g")
        asking = asyncio.create_task(client.request(topic, b"?"))
        asked = await _asked(subscription)
        await client.aclose()
        with pytest.raises(Unavailable):
            await arrives(asking)

        for place in range(20):
            await arrives(_answer(server, asked, b"!", sequence=place, end=False))
        again = asyncio.create_task(other.request(topic, b"??"))
        await _answer(server, await _asked(subscription), b"!!")

        assert (await arrives(again)).payload == b"!!"

    async def test_closing_ends_requests(self, transport: Transport, topic: str) -> None:
        """30: Closing a transport ends its pending requests with `Unavailable`."""
        subscription = await transport.subscribe(topic, "g")
        asking = asyncio.create_task(transport.request(topic, b"?"))
        reading = asyncio.create_task(_collect(transport.stream(topic, b"?")))
        await _asked(subscription)
        await _asked(subscription)

        await transport.aclose()

        results = await arrives(asyncio.gather(asking, reading, return_exceptions=True))
        assert [type(result) for result in results] == [Unavailable, Unavailable]


class StreamSuite:
    """Streams of replies; behaviour 31."""

    async def test_stream_is_ordered(
        self, client: Transport, server: Transport, topic: str
    ) -> None:
        """31: A stream yields its replies by number, each once, in any order of arrival."""
        subscription = await server.subscribe(topic, "g")
        reading = asyncio.create_task(_collect(client.stream(topic, b"?")))
        asked = await _asked(subscription)

        for place in (2, 0, 0, 3, 2, 1, 1):
            await _answer(server, asked, str(place).encode(), sequence=place, end=place == 3)

        assert await arrives(reading) == [b"0", b"1", b"2", b"3"]

    async def test_stream_with_a_gap_ends_with_the_deadline(
        self, client: Transport, server: Transport, topic: str
    ) -> None:
        """31: When a reply of a stream is lost the reader gets those before it, then the deadline."""
        subscription = await server.subscribe(topic, "g")
        seen: list[bytes] = []

        async def read() -> None:
            async for reply in client.stream(topic, b"?", timeout_s=1.0):
                seen.append(reply.payload)  # noqa: PERF401 - what came before the error counts

        reading = asyncio.create_task(read())
        asked = await _asked(subscription)
        await _answer(server, asked, b"0", sequence=0, end=False)
        await _answer(server, asked, b"2", sequence=2)

        with pytest.raises(DeadlineExceeded):
            await arrives(reading)
        assert seen == [b"0"]

    async def test_error_ends_a_stream(
        self, client: Transport, server: Transport, topic: str
    ) -> None:
        """31: An error is the last reply of a stream and reaches the reader unchanged."""
        subscription = await server.subscribe(topic, "g")
        reading = asyncio.create_task(_collect(client.stream(topic, b"?")))
        asked = await _asked(subscription)
        await _answer(server, asked, b"0", sequence=0, end=False)
        headers = {
            Headers.TYPE: "error.v1",
            Headers.CORRELATION_ID: asked.headers[Headers.CORRELATION_ID],
            Headers.SEQUENCE: "1",
        }
        await server.publish(asked.headers[Headers.REPLY_TO], b"{}", headers=headers)

        assert await arrives(reading) == [b"0", b"{}"]

    async def test_closing_a_stream_cancels(
        self, client: Transport, server: Transport, topic: str
    ) -> None:
        """31: A reader that closes the stream early cancels its request."""
        subscription = await server.subscribe(topic, "g")
        control = await server.subscribe(cancel_topic(topic), "c")
        correlation = uuid4().hex

        async def read_one() -> bytes:
            headers = {Headers.CORRELATION_ID: correlation}
            async with aclosing(client.stream(topic, b"?", headers=headers)) as replies:  # type: ignore[type-var]
                async for reply in replies:
                    return reply.payload
            return b""

        reading = asyncio.create_task(read_one())
        await _answer(server, await _asked(subscription), b"0", sequence=0, end=False)

        assert await arrives(reading) == b"0"
        assert (await _asked(control)).payload == correlation.encode()

    async def test_many_streams_side_by_side(
        self, client: Transport, server: Transport, topic: str
    ) -> None:
        """31: Streams of one client do not mix."""
        subscription = await server.subscribe(topic, "g", prefetch=20)
        readers = [
            asyncio.create_task(_collect(client.stream(topic, str(n).encode()))) for n in range(20)
        ]
        held = [await arrives(subscription.receive()) for _ in range(20)]
        for place in range(5):
            for asked in held:
                body = asked.payload + f".{place}".encode()
                await _answer(server, asked, body, sequence=place, end=place == 4)
        await eventually(lambda: all(reader.done() for reader in readers))

        for n, reader in enumerate(readers):
            assert reader.result() == [f"{n}.{place}".encode() for place in range(5)]
