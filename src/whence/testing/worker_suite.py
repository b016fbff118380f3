"""Handlers at work: the part of the transport suite about retries, deadlines, effects and draining."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from whence.broker.delivery import Handler, IncomingMessage, OutgoingMessage, Replies
from whence.broker.idempotency import MemoryLedger
from whence.broker.transport import Headers, Reply, RetryPolicy, Transport
from whence.broker.worker import Worker
from whence.schema.codec import decode, decode_as, encode
from whence.schema.errors import BadInput, ErrorReply, Unavailable
from whence.schema.search import SearchResponse
from whence.schema.texts import TextResponse
from whence.schema.topics import dead_letter_topic
from whence.testing.transport_factory import (
    QUICK,
    Capability,
    TransportFactory,
    acked,
    arrives,
    dead_letters,
    eventually,
    fresh_topic,
    is_silent,
)

_TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _done(body: bytes = b"done") -> OutgoingMessage:
    return OutgoingMessage(payload=body, headers={Headers.TYPE: "any.v1"})


def _failure(error: Exception) -> OutgoingMessage:
    raise error


def _recorder(payloads: list[bytes]) -> Handler:
    """Return a handler that records the payload of each message."""

    async def handle(message: IncomingMessage) -> Replies:
        payloads.append(message.delivery.payload)
        yield _done()

    return handle


class _Refusing:
    """A transport whose publishes to topics with some words in their name fail as long as `left` lasts."""

    def __init__(self, transport: Transport, words: str, left: int) -> None:
        self._transport = transport
        self._words = words
        self.left = left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def publish(self, topic: str, payload: bytes, **options: Any) -> str:
        if self._words in topic and self.left:
            self.left -= 1
            raise Unavailable("refused by the test")
        return await self._transport.publish(topic, payload, **options)


async def _start(transport: Transport, topic: str, handler: Handler, **options: Any) -> Worker:
    options.setdefault("retry", QUICK)
    worker = Worker(transport, topic=topic, group="g", handler=handler, **options)
    await worker.start()
    return worker


async def _ask_over_three_hops(
    transport: Transport,
    pass_on: Callable[[IncomingMessage], Awaitable[Mapping[str, str]]],
    **options: Any,
) -> Reply:
    """Ask a worker that asks a second one, which asks a third; `pass_on` returns the headers of each call."""
    topics = [fresh_topic() for _ in range(3)]
    workers = []
    for topic, after in zip(topics, [*topics[1:], ""], strict=True):

        async def handle(message: IncomingMessage, after: str = after) -> Replies:
            headers = await pass_on(message)
            if after:
                await transport.request(after, b"x", headers=headers)
            yield _done()

        workers.append(await _start(transport, topic, handle))
    reply = await arrives(transport.request(topics[0], b"x", **options))
    for worker in workers:
        await worker.aclose()
    return reply


class WorkerSuite:
    """Errors, effects and replies of a worker; behaviours 5, 20, 22 to 24, 35, 36 and 38."""

    async def test_permanent_error_is_a_dead_letter_at_once(
        self, transport: Transport, topic: str
    ) -> None:
        """20: A permanent error makes a dead letter on the first attempt."""
        letters = await transport.subscribe(dead_letter_topic(topic), "cli")
        calls = 0

        async def handle(_: IncomingMessage) -> Replies:
            nonlocal calls
            calls += 1
            yield _failure(BadInput("the document has no id"))

        worker = await _start(transport, topic, handle)
        await transport.publish(topic, b"x")
        letter = await arrives(letters.receive())
        await worker.aclose()

        assert calls == 1
        assert "the document has no id" in letter.headers[Headers.REASON]
        assert letter.headers[Headers.EXCEPTION] == "BadInput"
        assert letter.headers[Headers.ATTEMPTS] == "1"

    async def test_a_retryable_error_is_retried(self, transport: Transport, topic: str) -> None:
        """5: A retryable error is retried, in the worker or by the broker, up to the limit."""
        letters = await transport.subscribe(dead_letter_topic(topic), "cli")
        policy = RetryPolicy(
            max_attempts=4, base_delay_s=0.2, factor=3.0, max_delay_s=0.7, jitter=0
        )
        attempts: list[int] = []

        async def handle(message: IncomingMessage) -> Replies:
            attempts.append(message.attempt)
            yield _failure(Unavailable("not now"))

        worker = await _start(transport, topic, handle, retry=policy)
        await transport.publish(topic, b"x")
        letter = await arrives(letters.receive())
        await worker.aclose()

        assert attempts == [1, 2, 3, 4]
        assert letter.headers[Headers.ATTEMPTS] == "4"

    async def test_a_duplicated_message_has_one_effect(
        self, transport: Transport, topic: str
    ) -> None:
        """22: A message that was published twice after a crash has one effect."""
        effects: list[bytes] = []
        worker = await _start(transport, topic, _recorder(effects), ledger=MemoryLedger())
        for body in (b"x", b"x", b"y"):
            headers = {Headers.MESSAGE_ID: f"id-{body.decode()}"}
            await transport.publish(topic, body, headers=headers)
        await eventually(lambda: worker.counters.handled + worker.counters.duplicates == 3)
        await worker.aclose()

        assert sorted(effects) == [b"x", b"y"]
        assert worker.counters.duplicates == 1

    async def test_lost_ack_has_one_effect(
        self, transport_factory: TransportFactory, transport: Transport, topic: str
    ) -> None:
        """23: When the connection breaks right after the ack, the message still has one effect."""
        transport_factory.require(Capability.CUT)
        effects: list[bytes] = []
        worker = await _start(
            transport, topic, _recorder(effects), ledger=MemoryLedger(), concurrency=4
        )
        bodies = [str(n).encode() for n in range(10)]
        for body in bodies:
            await transport.publish(topic, body)
        await eventually(lambda: worker.counters.handled == len(bodies))
        await transport_factory.cut(transport)
        other = await transport_factory()
        await other.publish(topic, b"after")
        await eventually(lambda: b"after" in effects)
        await worker.aclose()

        assert sorted(effects) == sorted([*bodies, b"after"])

    async def test_failed_publish_keeps_the_input(
        self, transport_factory: TransportFactory
    ) -> None:
        """24: An input whose result could not be published is not acknowledged and is redelivered."""
        transport = await transport_factory()
        topic, results = fresh_topic(), fresh_topic()
        output = await transport.subscribe(results, "g")
        refusing = _Refusing(transport, results, left=2)

        async def handle(message: IncomingMessage) -> Replies:
            yield _done(b"result of " + message.delivery.payload)

        worker = await _start(refusing, topic, handle, reply_topic=results)
        await transport.publish(topic, b"x")

        assert await acked(output, 1) == [b"result of x"]
        await eventually(lambda: worker.counters.handled == 1)
        assert worker.counters.unpublished == 2
        await worker.aclose()

    async def test_unpublishable_replies_do_not_stop_the_worker(
        self, transport: Transport, topic: str
    ) -> None:
        """24: A worker that cannot publish replies continues with the next message."""
        refusing = _Refusing(transport, "whence.reply.", left=10**6)
        worker = await _start(refusing, topic, _recorder([]))
        lost = asyncio.create_task(transport.request(topic, b"lost", timeout_s=1.5))
        results = await arrives(asyncio.gather(lost, return_exceptions=True))
        refusing.left = 0
        reply = await arrives(transport.request(topic, b"answered"))
        await worker.aclose()

        assert isinstance(results[0], Exception)
        assert reply.payload == b"done"

    async def test_restart_keeps_group_and_backlog(self, transport: Transport, topic: str) -> None:
        """35: A worker that is closed and started again continues with its group's backlog."""
        seen: list[bytes] = []
        first = await _start(transport, topic, _recorder(seen))
        await transport.publish(topic, b"0")
        await eventually(lambda: first.counters.handled == 1)
        await first.aclose()
        for n in range(1, 4):
            await transport.publish(topic, str(n).encode())
        second = await _start(transport, topic, _recorder(seen))
        await eventually(lambda: second.counters.handled == 3)
        await second.aclose()

        assert sorted(seen) == [b"0", b"1", b"2", b"3"]

    async def test_dead_letters_can_be_replayed(self, transport: Transport, topic: str) -> None:
        """36: A replayed dead letter keeps its id, starts with attempt 1 and is no longer listed."""
        letters = dead_letters(transport)
        broken = True
        seen: list[tuple[str, int]] = []

        async def handle(message: IncomingMessage) -> Replies:
            seen.append((message.delivery.message_id, message.attempt))
            if broken:
                raise BadInput("broken")
            yield _done()

        worker = await _start(transport, topic, handle, ledger=MemoryLedger())
        # One by one, so that the letter of the first is the older one.
        ids = [await transport.publish(topic, b"x")]
        await eventually(lambda: worker.counters.dead_letters == 1 and not worker.in_flight)
        ids.append(await transport.publish(topic, b"y"))
        await eventually(lambda: worker.counters.dead_letters == 2 and not worker.in_flight)
        listed = await letters.list(topic)
        broken = False
        replayed = await letters.replay(topic, {ids[1]})
        await eventually(lambda: worker.counters.handled == 1)
        dropped = await letters.drop(topic)
        left = await letters.list(topic)
        await worker.aclose()

        assert [(letter.id, letter.payload) for letter in listed] == [
            (ids[0], b"x"),
            (ids[1], b"y"),
        ]
        assert (replayed, dropped, left) == (1, 1, [])
        assert seen[-1] == (ids[1], 1)

    async def test_unknown_type_is_a_dead_letter_and_answered(
        self, transport: Transport, topic: str
    ) -> None:
        """38: A message of an unknown type becomes a dead letter, and a waiting caller gets an error."""
        letters = await transport.subscribe(dead_letter_topic(topic), "cli")

        async def handle(message: IncomingMessage) -> Replies:
            decode(message.delivery.payload, message.delivery.headers[Headers.TYPE])
            yield _done()

        worker = await _start(transport, topic, handle)
        headers = {Headers.TYPE: "from-the-future.v9"}
        reply = await arrives(transport.request(topic, b"{}", headers=headers))
        letter = await arrives(letters.receive())
        await worker.aclose()

        assert decode_as(reply.payload, ErrorReply).code == "undecodable"
        assert letter.headers[Headers.EXCEPTION] == "CodecError"
        assert "from-the-future.v9" in letter.headers[Headers.REASON]

    async def test_older_and_newer_bodies_are_read(self, transport: Transport, topic: str) -> None:
        """38: Within a version a body without newer fields is read, and one with unknown fields, too."""
        seen: list[Any] = []

        async def handle(message: IncomingMessage) -> Replies:
            seen.append(decode(message.delivery.payload, message.delivery.headers[Headers.TYPE]))
            yield _done()

        worker = await _start(transport, topic, handle)
        headers = {Headers.TYPE: SearchResponse.TYPE}
        await transport.publish(topic, b'{"candidates":[]}', headers=headers)
        await transport.publish(topic, b'{"candidates":[],"novelty":{"a":1}}', headers=headers)
        await eventually(lambda: worker.counters.handled == 2)
        await worker.aclose()

        assert seen == [SearchResponse(candidates=())] * 2

    async def test_an_unexpected_exception_is_reported(
        self, transport: Transport, topic: str
    ) -> None:
        """20: An unexpected exception is reported by its class, and the worker continues."""

        async def handle(message: IncomingMessage) -> Replies:
            if message.delivery.payload == b"bug":
                raise KeyError("secret detail")
            yield _done(encode(TextResponse(texts=())))

        worker = await _start(transport, topic, handle)
        reply = await arrives(transport.request(topic, b"bug"))
        fine = await arrives(transport.request(topic, b"fine"))
        letters = await transport.subscribe(dead_letter_topic(topic), "cli")
        silent = await is_silent(letters)
        await worker.aclose()

        error = decode_as(reply.payload, ErrorReply)
        assert (error.code, "KeyError" in error.message) == ("internal", True)
        assert "secret detail" not in error.message + error.hint
        assert decode_as(fine.payload, TextResponse) == TextResponse(texts=())
        assert silent


class WorkerRequestSuite:
    """Deadlines, cancelling, draining and traces of a worker; behaviours 26 to 28, 33 and 37."""

    async def test_expired_input_is_not_handled(self, transport: Transport, topic: str) -> None:
        """26: A message whose deadline has passed is answered and acknowledged, and not handled."""
        replies = await transport.subscribe(fresh := fresh_topic(), "me")
        calls: list[bytes] = []
        headers = {
            Headers.REPLY_TO: fresh,
            Headers.CORRELATION_ID: "c",
            Headers.DEADLINE: str(int(time.time() * 1000) - 1000),
        }
        await transport.publish(topic, b"x", headers=headers)
        worker = await _start(transport, topic, _recorder(calls))
        delivery = await arrives(replies.receive())
        await eventually(lambda: worker.counters.expired == 1 and not worker.in_flight)
        await worker.aclose()

        reply = decode_as(delivery.payload, ErrorReply)
        assert (reply.code, delivery.headers[Headers.CORRELATION_ID]) == ("deadline_exceeded", "c")
        assert delivery.headers[Headers.END] == "1"
        assert calls == []
        assert (await transport.stats(topic, "g")).backlog == 0

    async def test_slow_handler_is_answered_in_time(self, transport: Transport, topic: str) -> None:
        """26: A handler that takes too long is stopped, and its caller gets an error in time."""
        stopped = asyncio.Event()

        async def handle(_: IncomingMessage) -> Replies:
            try:
                await asyncio.sleep(3600)
            finally:
                stopped.set()
            yield _done()

        worker = await _start(transport, topic, handle)
        reply = await arrives(transport.request(topic, b"x", timeout_s=2.0))
        await arrives(stopped.wait())
        await worker.aclose()

        assert decode_as(reply.payload, ErrorReply).code == "deadline_exceeded"

    async def test_deadline_shrinks_over_three_hops(
        self, transport_factory: TransportFactory
    ) -> None:
        """27: Each of three nested requests has an earlier deadline than its caller."""
        left: list[float] = []

        async def pass_on(message: IncomingMessage) -> Mapping[str, str]:
            assert message.deadline is not None
            left.append(message.deadline - time.time())
            await asyncio.sleep(0.02)
            return {Headers.DEADLINE: message.delivery.headers[Headers.DEADLINE]}

        await _ask_over_three_hops(await transport_factory(), pass_on, timeout_s=20.0)

        assert 20.0 >= left[0] > left[1] > left[2] > 0

    async def test_cancel_stops_a_running_handler(self, transport: Transport, topic: str) -> None:
        """28: A cancelled request stops its handler."""
        started, stopped = asyncio.Event(), asyncio.Event()

        async def handle(message: IncomingMessage) -> Replies:
            if message.delivery.payload == b"long":
                started.set()
                try:
                    await asyncio.sleep(3600)
                finally:
                    stopped.set()
            yield _done()

        worker = await _start(transport, topic, handle)
        asking = asyncio.create_task(transport.request(topic, b"long", timeout_s=3600))
        await arrives(started.wait())
        asking.cancel()
        await arrives(stopped.wait())
        reply = await arrives(transport.request(topic, b"short"))
        await eventually(lambda: worker.counters.cancelled == 1)
        await worker.aclose()

        assert reply.payload == b"done"
        assert (await transport.stats(topic, "g")).backlog == 0

    async def test_drain_finishes_or_returns_messages(
        self, one: Transport, two: Transport, topic: str
    ) -> None:
        """33: Draining finishes current messages, returns those that take too long, and loses none."""
        finished: list[bytes] = []

        async def handle(message: IncomingMessage) -> Replies:
            await asyncio.sleep(3600 if message.delivery.payload == b"long" else 0.2)
            finished.append(message.delivery.payload)
            yield _done()

        worker = await _start(one, topic, handle, concurrency=2)
        for body in (b"long", b"short", b"queued"):
            await one.publish(topic, body)
        await eventually(lambda: worker.in_flight == 2)
        await arrives(worker.aclose(drain_s=1.5))
        done_before = list(finished)
        successor = await _start(two, topic, _recorder(finished))
        await eventually(lambda: len(finished) == 3)
        await successor.aclose()

        assert done_before == [b"short"]
        assert sorted(finished) == [b"long", b"queued", b"short"]

    async def test_one_trace_over_three_hops(self, transport_factory: TransportFactory) -> None:
        """37: Three nested requests and all replies have the trace id of the first."""
        traces: list[Mapping[str, str]] = []

        async def pass_on(message: IncomingMessage) -> Mapping[str, str]:
            names = (Headers.TRACEPARENT, Headers.TRACESTATE)
            traces.append({name: message.delivery.headers[name] for name in names})
            return traces[-1]

        sent = {Headers.TRACEPARENT: _TRACE, Headers.TRACESTATE: "edge=1"}
        reply = await _ask_over_three_hops(await transport_factory(), pass_on, headers=sent)

        assert traces == [sent, sent, sent]
        assert sent.items() <= reply.headers.items()
