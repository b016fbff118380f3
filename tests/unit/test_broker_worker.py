"""The worker's rules, one by one, on the memory transport."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.clock import ManualClock

from whence.broker.delivery import Handler, IncomingMessage, OutgoingMessage
from whence.broker.idempotency import Claim, ClaimState, MemoryLedger
from whence.broker.memory.faults import Faults
from whence.broker.memory.transport import MemoryBroker, MemoryTransport
from whence.broker.transport import Delivery, Headers, Mode, RetryPolicy
from whence.broker.worker import Worker
from whence.schema.codec import decode_as
from whence.schema.errors import (
    BadInput,
    CodecError,
    ConfigError,
    DiskFull,
    ErrorReply,
    ModelMissing,
    Overloaded,
    Unavailable,
    WhenceError,
)
from whence.schema.topics import cancel_topic, dead_letter_topic, full_topic

TOPIC = full_topic("worked.on")
RESULTS = full_topic("results")
QUICK = RetryPolicy(max_attempts=3, base_delay_s=0.01, factor=1.0, jitter=0.0)


def failure(error: BaseException) -> OutgoingMessage:
    """Raise inside a handler that would otherwise yield."""
    raise error


def reply(body: bytes = b"!", *, end: bool = True) -> OutgoingMessage:
    """Return a reply."""
    return OutgoingMessage(payload=body, headers={Headers.TYPE: "any.v1"}, end=end)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def started(transport: Any, handler: Handler, **options: Any) -> Worker:
    """Return a worker of the group `g` that takes messages."""
    options.setdefault("retry", QUICK)
    worker = Worker(transport, topic=TOPIC, group="g", handler=handler, **options)
    await worker.start()
    return worker


def error_of(payload: bytes) -> str:
    """Return the code of an error reply."""
    return decode_as(payload, ErrorReply).code


async def echo(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
    """Reply with the body."""
    yield reply(work.delivery.payload)


class Recorder(MemoryTransport):
    """Writes down in which order results are published and inputs are settled."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    async def publish(self, topic: str, payload: bytes, **options: Any) -> str:
        self.log.append(f"publish {payload.decode()}")
        return await super().publish(topic, payload, **options)

    async def subscribe(self, topic: str, group: str, **options: Any) -> Any:
        subscription = await super().subscribe(topic, group, **options)
        ack = subscription.ack

        async def logged(delivery: Delivery) -> bool:
            self.log.append(f"ack {delivery.payload.decode()}")
            return await ack(delivery)

        subscription.ack = logged  # type: ignore[method-assign]
        return subscription


async def test_results_are_published_before_the_ack() -> None:
    """The input is acknowledged after its last result was published."""
    transport = Recorder()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield reply(b"one", end=False)
        yield reply(b"two")

    worker = await started(transport, handle, reply_topic=RESULTS)
    await transport.publish(TOPIC, b"in")
    await until(lambda: worker.counters.handled == 1)
    await worker.aclose()

    assert transport.log == ["publish in", "publish one", "publish two", "ack in"]


async def test_a_request_without_a_reply_is_an_error() -> None:
    """A handler may send no reply to an event, but must reply to a request."""
    transport = MemoryTransport()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        for never in ():
            yield never

    worker = await started(transport, handle, retry=RetryPolicy(max_attempts=1))
    await transport.publish(TOPIC, b"in")
    await until(lambda: worker.counters.handled == 1)
    answer = await transport.request(TOPIC, b"in")
    await worker.aclose()
    await transport.aclose()

    assert error_of(answer.payload) == "internal"


async def test_replies_are_numbered_and_joined_to_the_request() -> None:
    """A reply carries its number, the end flag, the request's id and trace, and an id of its own."""
    transport = MemoryTransport()
    output = await transport.subscribe(RESULTS, "g", prefetch=9)

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield reply(b"0", end=False)
        yield reply(b"1")

    worker = await started(transport, handle)
    headers = {
        Headers.REPLY_TO: RESULTS,
        Headers.CORRELATION_ID: "c",
        Headers.MESSAGE_ID: "m",
        Headers.TRACEPARENT: "t",
        Headers.DEADLINE: str(int(time.time() * 1000) + 60_000),
        "private": "not passed on",
    }
    await transport.publish(TOPIC, b"in", headers=headers)
    replies = [await output.receive() for _ in range(2)]
    await worker.aclose()

    for place, delivery in enumerate(replies):
        assert dict(delivery.headers) == {
            Headers.TYPE: "any.v1",
            Headers.CORRELATION_ID: "c",
            Headers.MESSAGE_ID: f"m/g/{place}",
            Headers.TRACEPARENT: "t",
            Headers.SEQUENCE: str(place),
            Headers.END: str(place),
            Headers.ATTEMPT: "1",
        }


async def test_results_without_a_reply_topic_are_dropped() -> None:
    """Without `reply-to` and without a reply topic results are dropped and the input is acknowledged."""
    transport = MemoryTransport()
    worker = await started(transport, echo)
    await transport.publish(TOPIC, b"in")
    await until(lambda: worker.counters.handled == 1)
    await worker.aclose()

    assert worker.counters.replies == 0


async def test_no_retry_after_a_partial_reply() -> None:
    """When a caller has part of the reply, a retryable error is reported, not retried."""
    transport = MemoryTransport()
    attempts: list[int] = []

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        attempts.append(work.attempt)
        yield reply(b"part", end=False)
        yield failure(Unavailable("gone"))

    worker = await started(transport, handle)
    replies = [r async for r in transport.stream(TOPIC, b"?")]
    await until(lambda: worker.counters.failed == 1)
    await worker.aclose()

    assert [r.payload for r in replies[:1]] == [b"part"]
    assert error_of(replies[1].payload) == "unavailable"
    assert (len(replies), attempts) == (2, [1])


@pytest.mark.parametrize(("made", "called"), [(1, 5), (2, 3), (5, 1), (9, 1)])
async def test_attempts_of_the_handler_count(made: int, called: int) -> None:
    """Attempts that the handler made itself reduce those of the worker."""
    transport = MemoryTransport()
    calls: list[int] = []

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        calls.append(work.attempt)
        error = Unavailable("down")
        error.attempts = made
        yield failure(error)

    policy = RetryPolicy(max_attempts=5, base_delay_s=0.0)
    worker = await started(transport, handle, retry=policy)
    answer = await transport.request(TOPIC, b"?", timeout_s=60)
    await worker.aclose()

    assert error_of(answer.payload) == "unavailable"
    assert len(calls) == called


async def test_repeated_results_have_equal_ids() -> None:
    """A retried one-way message publishes its results again, with the same ids."""
    transport = MemoryTransport()
    output = await transport.subscribe(RESULTS, "g", prefetch=9)

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield reply(b"0", end=False)
        if work.attempt == 1:
            yield failure(Unavailable("not now"))
        yield reply(b"1")

    worker = await started(transport, handle, reply_topic=RESULTS)
    await transport.publish(TOPIC, b"in", headers={Headers.MESSAGE_ID: "m"})
    ids = [(await output.receive()).headers[Headers.MESSAGE_ID] for _ in range(3)]
    await worker.aclose()

    assert ids == ["m/g/0", "m/g/0", "m/g/1"]


async def test_long_waits_go_through_the_broker() -> None:
    """A wait of half a second or more is a delayed message, with the attempts so far."""
    clock = ManualClock(now=time.time())
    transport = MemoryTransport(clock=clock)
    attempts: list[int] = []

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        attempts.append(work.attempt)
        if work.attempt < 4:
            yield failure(Unavailable("not now"))
        yield reply()

    policy = RetryPolicy(max_attempts=5, base_delay_s=0.1, factor=5.0, jitter=0.0)
    worker = await started(transport, handle, retry=policy, clock=clock)
    await transport.publish(TOPIC, b"in")
    await until(lambda: attempts == [1, 2] and not worker.in_flight)
    backlog = (await transport.stats(TOPIC, "g")).backlog
    clock.advance(0.5)
    await until(lambda: attempts == [1, 2, 3] and not worker.in_flight)
    clock.advance(2.5)
    await until(lambda: worker.counters.handled == 1)
    await worker.aclose()

    assert (backlog, attempts, worker.counters.retries) == (1, [1, 2, 3, 4], 3)


async def test_no_retry_beyond_the_deadline() -> None:
    """When the next attempt would start after the deadline the caller gets the error at once."""
    transport = MemoryTransport()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield failure(Overloaded("full", retry_after_s=3600.0))

    worker = await started(transport, handle)
    answer = await transport.request(TOPIC, b"?", timeout_s=60)
    await worker.aclose()

    assert error_of(answer.payload) == "overloaded"
    assert decode_as(answer.payload, ErrorReply).retry_after_s == 3600.0
    assert worker.counters.retries == 0


async def test_undecodable_input_is_answered_and_stored() -> None:
    """Undecodable bytes become a dead letter, and a waiting caller gets an error."""
    transport = MemoryTransport()
    letters = await transport.subscribe(dead_letter_topic(TOPIC), "cli")

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield failure(CodecError("not an any.v1"))

    worker = await started(transport, handle)
    answer = await transport.request(TOPIC, b"\xff")
    letter = await letters.receive()
    await worker.aclose()

    assert error_of(answer.payload) == "undecodable"
    assert letter.payload == b"\xff"


async def test_failed_request_is_answered_and_not_stored() -> None:
    """A request that fails is answered and acknowledged; it makes no dead letter."""
    transport = MemoryTransport()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield failure(BadInput("blank question", hint="ask something"))

    worker = await started(transport, handle)
    answer = decode_as((await transport.request(TOPIC, b"?")).payload, ErrorReply)
    await until(lambda: worker.counters.failed == 1 and not worker.in_flight)
    await worker.aclose()

    assert (answer.code, answer.message, answer.hint) == (
        "bad_input",
        "blank question",
        "ask something",
    )
    assert await transport.stats(TOPIC, "g") == (0, 0, 0.0)
    assert not transport.broker.topic(dead_letter_topic(TOPIC)).retained


async def test_unexpected_exception_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, with its traceback, and reported by its class only."""
    transport = MemoryTransport()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield failure(ZeroDivisionError("a secret"))

    worker = await started(transport, handle)
    with caplog.at_level(logging.DEBUG, logger="whence"):
        answer = decode_as((await transport.request(TOPIC, b"?")).payload, ErrorReply)
        await worker.aclose()

    traces = [record for record in caplog.records if record.exc_info]
    assert len(traces) == 1
    assert traces[0].levelno == logging.ERROR
    assert answer.code == "internal"
    assert "ZeroDivisionError" in answer.message
    assert "secret" not in answer.message


@pytest.mark.parametrize(
    ("error", "level"),
    [(BadInput("x"), logging.INFO), (ModelMissing("x"), logging.ERROR)],
    ids=lambda one: type(one).__name__,
)
async def test_a_bad_request_is_not_logged_as_a_fault(
    caplog: pytest.LogCaptureFixture, error: WhenceError, level: int
) -> None:
    """An error that the caller has to correct is logged as information."""
    transport = MemoryTransport()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield failure(error)

    worker = await started(transport, handle)
    with caplog.at_level(logging.DEBUG, logger="whence"):
        await transport.request(TOPIC, b"?")
        await worker.aclose()
    (record,) = [one for one in caplog.records if getattr(one, "action", "") == "give_up"]

    assert record.levelno == level


@pytest.mark.parametrize("error", [asyncio.CancelledError(), TimeoutError(), StopAsyncIteration()])
async def test_no_exception_of_a_handler_ends_the_worker(error: BaseException) -> None:
    """Exceptions that control event loops are reported like any other."""
    transport = MemoryTransport()

    class Broken:
        def __aiter__(self) -> Broken:
            return self

        async def __anext__(self) -> OutgoingMessage:
            await asyncio.sleep(0)
            raise error

    def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        return Broken() if work.delivery.payload == b"bad" else echo(work)

    worker = await started(transport, handle)
    bad = await transport.request(TOPIC, b"bad")
    good = await transport.request(TOPIC, b"good")
    await worker.aclose()

    assert error_of(bad.payload) == "internal"
    assert good.payload == b"good"


async def test_a_missing_last_reply_is_reported() -> None:
    """A caller gets an error when the handler sends no last reply."""
    transport = MemoryTransport()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        if work.delivery.payload == b"some":
            yield reply(end=False)

    worker = await started(transport, handle)
    none = [r async for r in transport.stream(TOPIC, b"none")]
    some = [r async for r in transport.stream(TOPIC, b"some")]
    await worker.aclose()

    assert [error_of(r.payload) for r in (none[-1], some[-1])] == ["internal", "internal"]
    assert (len(none), len(some)) == (1, 2)


async def test_reply_that_is_too_large_is_an_error() -> None:
    """A reply above the transport's limit becomes an error reply."""
    transport = MemoryTransport(max_payload_bytes=1000)

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield reply(bytes(2000))

    worker = await started(transport, handle)
    answer = await transport.request(TOPIC, b"?")
    await worker.aclose()

    assert error_of(answer.payload) == "bad_input"


async def test_a_cancellation_can_precede_its_request() -> None:
    """A request whose cancellation arrived first is not handled."""
    transport = MemoryTransport()
    handled: list[bytes] = []

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        handled.append(work.delivery.payload)
        yield reply()

    worker = await started(transport, handle)
    await transport.cancel(TOPIC, "c")
    await until(lambda: "c" in worker._control.cancelled)
    await transport.publish(TOPIC, b"in", headers={Headers.CORRELATION_ID: "c"})
    await until(lambda: worker.counters.cancelled == 1)
    await transport.publish(TOPIC, b"other", headers={Headers.CORRELATION_ID: "d"})
    await until(lambda: worker.counters.handled == 1)
    await worker.aclose()

    assert handled == [b"other"]


async def test_invalid_cancellations_are_ignored() -> None:
    """Any message on the control topic is handled; the memory for cancellations is bounded."""
    transport = MemoryTransport()
    worker = await started(transport, echo)
    for body in (b"", b"\xff\xfe", b"x" * 10_000, *(str(n).encode() for n in range(2_000))):
        await transport.publish(cancel_topic(TOPIC), body)
    answer = await transport.request(TOPIC, b"fine")
    await worker.aclose()

    assert answer.payload == b"fine"
    assert len(worker._control.cancelled) <= 1_024


async def test_a_stopped_handler_runs_its_finally() -> None:
    """A handler that is stopped runs its `finally`, also while it waits in a stream."""
    transport = MemoryTransport()
    cleaned: list[str] = []

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        try:
            yield reply(end=False)
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            cleaned.append(work.delivery.headers[Headers.CORRELATION_ID])

    worker = await started(transport, handle)
    stream = transport.stream(TOPIC, b"?", headers={Headers.CORRELATION_ID: "c"})
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    await until(lambda: worker.counters.cancelled == 1)
    await worker.aclose()

    assert cleaned == ["c"]


async def test_drain_without_a_timeout_returns_messages() -> None:
    """Draining without a timeout returns current messages unanswered, to be redelivered."""
    broker = MemoryBroker()
    transport = MemoryTransport(broker=broker)

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        await asyncio.sleep(3600)
        yield reply()

    worker = await started(transport, handle, concurrency=2)
    for body in (b"0", b"1", b"2"):
        await transport.publish(TOPIC, body)
    await until(lambda: worker.in_flight == 2)
    await worker.aclose(drain_s=0)
    subscription = await transport.subscribe(TOPIC, "g", prefetch=9)
    back = [await subscription.receive() for _ in range(3)]

    assert [(d.payload, d.redelivered) for d in back] == [
        (b"0", True),
        (b"1", True),
        (b"2", False),
    ]
    assert worker.counters.handed_back == 2
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_handler_that_ignores_cancellation_is_abandoned() -> None:
    """A handler that swallows its cancellation delays closing by seconds only."""
    transport = MemoryTransport()
    release = asyncio.Event()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        yield reply()

    worker = await started(transport, handle)
    await transport.publish(TOPIC, b"in")
    await until(lambda: worker.in_flight == 1)
    await asyncio.wait_for(worker.aclose(drain_s=0), 60)
    release.set()
    await until(lambda: len(asyncio.all_tasks()) == 1)

    assert not worker.alive


async def test_a_cancelled_handler_makes_no_error_reply() -> None:
    """The message of a handler that was cancelled twice is returned: no error reply, no dead letter."""
    transport = MemoryTransport()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(3600)
        yield reply()

    worker = await started(transport, handle)
    await transport.publish(TOPIC, b"in")
    await until(lambda: worker.in_flight == 1)
    await asyncio.wait_for(worker.aclose(drain_s=0), 60)

    assert worker.counters.failed == 0
    assert (await transport.stats(TOPIC, "g")).backlog == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_error_of_settling_redelivers_the_message() -> None:
    """When settling fails unexpectedly the message is redelivered and does not block its place."""
    transport = MemoryTransport()
    faults = [RuntimeError("a bug in the ledger")]

    class Broken(MemoryLedger):
        async def claim(self, group: str, message_id: str, *, lease_s: float) -> Claim:
            if faults:
                raise faults.pop()
            return await super().claim(group, message_id, lease_s=lease_s)

    worker = await started(transport, echo, ledger=Broken())
    await transport.publish(TOPIC, b"in")
    await until(lambda: worker.counters.handled == 1)
    await worker.aclose()

    assert worker.counters.received == 2


async def test_fatal_error_stops_the_worker_and_keeps_the_message() -> None:
    """An error of the whole service stops a one-way worker; the message is returned."""
    transport = MemoryTransport()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield failure(DiskFull("no space in /data"))

    worker = await started(transport, handle)
    await transport.publish(TOPIC, b"in")
    with pytest.raises(DiskFull):
        await asyncio.wait_for(worker.join(), 30)
    await worker.aclose()

    assert (await transport.stats(TOPIC, "g")).backlog == 1
    assert not worker.alive


async def test_fatal_error_of_a_request_is_answered() -> None:
    """A caller gets a fatal error, and the worker continues."""
    transport = MemoryTransport()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield failure(DiskFull("no space"))

    worker = await started(transport, handle)
    answers = [await transport.request(TOPIC, b"?") for _ in range(2)]
    await worker.aclose()

    assert [error_of(answer.payload) for answer in answers] == ["disk_full", "disk_full"]


async def test_lost_subscription_ends_the_worker_with_its_reason() -> None:
    """When the transport is closed, `join` raises the reason; closing the worker still works."""
    transport = MemoryTransport()
    worker = await started(transport, echo)
    assert worker.alive
    await transport.aclose()

    with pytest.raises(Unavailable):
        await asyncio.wait_for(worker.join(), 30)
    await worker.aclose()
    await worker.aclose()


async def test_join_of_a_closed_worker_returns() -> None:
    """`join` of a closed worker returns without an error; it cannot be started again."""
    worker = await started(MemoryTransport(), echo)
    joining = asyncio.create_task(worker.join())
    await worker.aclose()
    await joining

    with pytest.raises(ConfigError):
        await worker.start()


async def test_a_failed_start_leaves_nothing() -> None:
    """A start that fails leaves no subscription and no task."""
    broker = MemoryBroker()
    transport = MemoryTransport(broker=broker)
    await transport.subscribe(TOPIC, "g", mode=Mode.EXCLUSIVE)
    worker = Worker(transport, topic=TOPIC, group="g", handler=echo)

    with pytest.raises(Unavailable):
        await worker.start()

    assert broker.topic(cancel_topic(TOPIC)).queues == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(("concurrency", "prefetch"), [(1, 2), (2, 3), (3, 5), (4, 6), (10, 15)])
async def test_prefetch_is_one_and_a_half_times_the_concurrency(
    concurrency: int, prefetch: int
) -> None:
    """By default a worker holds half as many messages again as it handles."""
    broker = MemoryBroker()
    transport = MemoryTransport(broker=broker)
    worker = await started(transport, echo, concurrency=concurrency)

    assert broker.topic(TOPIC).queues[0].consumers[0].prefetch == prefetch
    await worker.aclose()


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"prefetch": 0}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """Numbers out of range are refused before anything is subscribed."""
    with pytest.raises(ConfigError):
        Worker(MemoryTransport(), topic=TOPIC, group="g", handler=echo, **wrong)


class FlakyLedger(MemoryLedger):
    """A ledger whose calls fail as long as `left` lasts."""

    def __init__(self, method: str, left: int) -> None:
        super().__init__()
        self._method = method
        self._left = left

    def _strike(self, method: str) -> None:
        if method == self._method and self._left:
            self._left -= 1
            raise Unavailable("the ledger does not answer")

    async def claim(self, group: str, message_id: str, *, lease_s: float) -> Claim:
        self._strike("claim")
        return await super().claim(group, message_id, lease_s=lease_s)

    async def done(self, group: str, message_id: str) -> None:
        self._strike("done")
        await super().done(group, message_id)

    async def release(self, group: str, message_id: str) -> None:
        self._strike("release")
        await super().release(group, message_id)


@pytest.mark.parametrize("method", ["claim", "done", "release"])
async def test_a_failing_ledger_delays_the_message(method: str) -> None:
    """While the ledger does not answer the message waits; then it has one effect."""
    transport = MemoryTransport()
    effects: list[int] = []

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        if method == "release" and work.attempt == 1:
            yield failure(Unavailable("not now"))
        effects.append(work.attempt)
        yield reply()

    worker = await started(transport, handle, ledger=FlakyLedger(method, 2))
    await transport.publish(TOPIC, b"in")
    await until(lambda: worker.counters.handled == 1)
    await worker.aclose()

    assert len(effects) == 1


async def test_a_claimed_message_waits() -> None:
    """A message that another worker has claimed is redelivered until that one completes it."""
    transport = MemoryTransport()
    ledger = MemoryLedger()
    await ledger.claim("g", "m", lease_s=60)
    worker = await started(transport, echo, ledger=ledger)
    await transport.publish(TOPIC, b"in", headers={Headers.MESSAGE_ID: "m"})
    await until(lambda: worker.counters.received >= 1)
    await ledger.done("g", "m")
    await until(lambda: worker.counters.duplicates == 1)
    await worker.aclose()

    assert worker.counters.handled == 0
    assert worker.counters.dead_letters == 0


async def test_a_message_that_kills_its_workers_is_a_dead_letter() -> None:
    """After as many deaths as allowed attempts a message becomes a dead letter, without another attempt."""
    clock = ManualClock()
    transport = MemoryTransport()
    letters = await transport.subscribe(dead_letter_topic(TOPIC), "cli")
    ledger = MemoryLedger(clock=clock)
    for _ in range(QUICK.max_attempts + 1):
        claim = await ledger.claim("g", "m", lease_s=1)
        assert claim.state is ClaimState.CLAIMED
        clock.advance(2)
    handled: list[bytes] = []

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        handled.append(work.delivery.payload)
        yield reply()

    worker = await started(transport, handle, ledger=ledger)
    await transport.publish(TOPIC, b"poison", headers={Headers.MESSAGE_ID: "m"})
    letter = await letters.receive()
    await worker.aclose()

    assert handled == []
    assert "died" in letter.headers[Headers.REASON]


async def test_dead_letter_topic_down_does_not_lose_or_spin() -> None:
    """While the dead letter cannot be published the message is kept; later it arrives there once."""
    faults = Faults(fail_publishes=2, topics=lambda topic: topic.endswith(".dlq"))
    transport = MemoryTransport(faults=faults)
    letters = await transport.subscribe(dead_letter_topic(TOPIC), "cli", prefetch=9)

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield failure(BadInput("never"))

    worker = await started(transport, handle)
    await transport.publish(TOPIC, b"in")
    letter = await letters.receive()
    await worker.aclose()

    assert letter.payload == b"in"
    assert (await transport.stats(dead_letter_topic(TOPIC), "cli")).backlog == 0
    assert await transport.stats(TOPIC, "g") == (0, 0, 0.0)


@pytest.mark.parametrize("text", ["soon", "-5", "1e9", "٣٤", "9" * 30, " 12"])
async def test_unreadable_deadline_is_none(text: str) -> None:
    """A deadline that cannot be read does not keep the work from being done."""
    transport = MemoryTransport()
    worker = await started(transport, echo)
    await transport.publish(TOPIC, b"in", headers={Headers.DEADLINE: text})
    await until(lambda: worker.counters.handled == 1)
    await worker.aclose()


async def test_every_error_class_is_answered() -> None:
    """Whatever a handler raises, what the caller gets is one of the known codes."""
    transport = MemoryTransport()
    errors: list[BaseException] = [Unavailable("x"), BadInput("x"), KeyError("x"), OSError("x")]
    known = {cls.code for cls in _all_errors(WhenceError)}

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield failure(errors[int(work.delivery.payload)])

    worker = await started(transport, handle)
    codes = [
        error_of((await transport.request(TOPIC, str(n).encode())).payload)
        for n in range(len(errors))
    ]
    await worker.aclose()

    assert codes == ["unavailable", "bad_input", "internal", "internal"]
    assert set(codes) <= known


def _all_errors(cls: type[WhenceError]) -> set[type[WhenceError]]:
    return {cls}.union(*(_all_errors(sub) for sub in cls.__subclasses__()))
