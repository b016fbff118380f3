"""Faults of the memory transport occur when they are switched on, and only then."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clock import ManualClock

from whence.broker.delivery import IncomingMessage, OutgoingMessage
from whence.broker.idempotency import MemoryLedger
from whence.broker.memory.faults import Faults
from whence.broker.memory.transport import MemoryBroker, MemoryTransport
from whence.broker.transport import Mode, NackOutcome, RetryPolicy, Start
from whence.broker.worker import Worker
from whence.schema.errors import ConfigError, Overloaded, Unavailable
from whence.schema.topics import dead_letter_topic, full_topic

TOPIC = full_topic("faults")
FOREVER = RetryPolicy(max_attempts=1_000, base_delay_s=1.0, jitter=0.0)


async def receive_now(subscription: object) -> object | None:
    """Return the waiting message, or None."""
    waiting = asyncio.ensure_future(subscription.receive())  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if waiting.done():
        return waiting.result()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return None


async def test_duplicate_after_ack() -> None:
    """The fault delivers an acknowledged message again, as often as configured."""
    transport = MemoryTransport(faults=Faults(duplicate_after_ack=1))
    subscription = await transport.subscribe(TOPIC, "g")
    await transport.publish(TOPIC, b"x")

    await subscription.ack(await subscription.receive())
    again = await subscription.receive()
    await subscription.ack(again)

    assert (again.payload, again.redelivered, again.attempt) == (b"x", True, 1)
    assert await receive_now(subscription) is None


async def test_lost_acks_are_redelivered_after_a_cut() -> None:
    """A lost acknowledgement succeeds until the connection is cut; then its message is redelivered."""
    transport = MemoryTransport(faults=Faults(lose_acks=2))
    subscription = await transport.subscribe(TOPIC, "g")
    for body in (b"0", b"1", b"2"):
        await transport.publish(TOPIC, body)
    for _ in range(3):
        assert await subscription.ack(await subscription.receive())
    assert await receive_now(subscription) is None

    transport.drop_connection()
    back = []
    for _ in range(2):
        delivery = await subscription.receive()
        back.append((delivery.payload, delivery.redelivered))
        await subscription.ack(delivery)

    assert back == [(b"0", True), (b"1", True)]
    assert await receive_now(subscription) is None


async def test_cut_makes_deliveries_stale() -> None:
    """After a cut unsettled messages are redelivered, and the old deliveries settle nothing."""
    transport = MemoryTransport()
    subscription = await transport.subscribe(TOPIC, "g", prefetch=2)
    await transport.publish(TOPIC, b"x")
    old = await subscription.receive()

    transport.drop_connection()
    new = await subscription.receive()

    assert await subscription.ack(old) is False
    assert await subscription.nack(old) is NackOutcome.STALE
    assert (new.payload, new.redelivered) == (b"x", True)
    assert await subscription.ack(new) is True


async def test_failed_publish_stores_nothing_and_lost_receipt_does() -> None:
    """One fault fails before the message is stored, the other after; both raise the same error."""
    faults = Faults(fail_publishes=1)
    transport = MemoryTransport(faults=faults)
    subscription = await transport.subscribe(TOPIC, "g")

    with pytest.raises(Unavailable):
        await transport.publish(TOPIC, b"failed")
    assert await receive_now(subscription) is None
    faults.lose_receipts = 1
    with pytest.raises(Unavailable):
        await transport.publish(TOPIC, b"stored")

    assert (await subscription.receive()).payload == b"stored"


async def test_full_queue_fault() -> None:
    """The fault raises what a full queue raises, with a time to wait before the next attempt."""
    transport = MemoryTransport(faults=Faults(fill_queue=1))

    with pytest.raises(Overloaded) as caught:
        await transport.publish(TOPIC, b"x")
    assert caught.value.retry_after_s is not None
    await transport.publish(TOPIC, b"x")


async def test_reordering_keeps_every_message() -> None:
    """Reordered messages arrive in another order, and none is lost."""
    transport = MemoryTransport(faults=Faults(reorder=50))
    subscription = await transport.subscribe(TOPIC, "g", prefetch=50)
    bodies = [f"{n:02d}".encode() for n in range(50)]
    for body in bodies:
        await transport.publish(TOPIC, body)

    seen = [(await subscription.receive()).payload for _ in bodies]

    assert seen != bodies
    assert sorted(seen) == bodies


async def test_delay_tick_rounds_up() -> None:
    """With a coarse timer a delayed message arrives at the next tick, never before its time."""
    clock = ManualClock(now=1000.0)
    transport = MemoryTransport(clock=clock, faults=Faults(delay_tick_s=1.0))
    subscription = await transport.subscribe(TOPIC, "g")
    await transport.publish(TOPIC, b"x", delay_s=0.3)

    clock.advance(0.9)
    assert await receive_now(subscription) is None
    clock.advance(0.1)

    assert await receive_now(subscription) is not None


async def test_faults_can_be_limited_to_topics() -> None:
    """A fault applies to the chosen topics only."""
    faults = Faults(fail_publishes=9, topics=lambda topic: topic.endswith(".dlq"))
    transport = MemoryTransport(faults=faults)
    subscription = await transport.subscribe(TOPIC, "g")
    await transport.publish(TOPIC, b"x")
    delivery = await subscription.receive()

    with pytest.raises(Unavailable):
        await subscription.reject(delivery, reason="r")
    faults.fail_publishes = 0

    assert await subscription.reject(delivery, reason="r") is NackOutcome.DEAD_LETTER
    assert await subscription.ack(delivery) is False


async def test_a_worker_survives_all_faults_at_once() -> None:
    """With every fault on, each message has exactly one effect and none is lost."""
    faults = Faults(duplicate_after_ack=30, lose_acks=30, reorder=100, fail_publishes=0)
    transport = MemoryTransport(faults=faults)
    results = full_topic("faults.results")
    output = await transport.subscribe(results, "g", prefetch=1000)
    effects: Counter[bytes] = Counter()

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        effects[work.delivery.payload] += 1
        await asyncio.sleep(0)
        yield OutgoingMessage(payload=work.delivery.payload, headers={"type": "any.v1"})

    worker = Worker(
        transport,
        topic=TOPIC,
        group="g",
        handler=handle,
        concurrency=4,
        ledger=MemoryLedger(),
        reply_topic=results,
    )
    await worker.start()
    bodies = [f"{n:03d}".encode() for n in range(200)]
    for place, body in enumerate(bodies):
        await transport.publish(TOPIC, body)
        if place % 20 == 0:
            await asyncio.sleep(0.001)
            transport.drop_connection()
    async with asyncio.timeout(30):
        while worker.counters.handled < len(bodies):
            await asyncio.sleep(0.01)
    transport.drop_connection()
    await asyncio.sleep(0.05)
    await worker.aclose()

    assert set(effects) == set(bodies)
    # A cut in the middle of a handler leaves the message to be delivered again while it is still claimed.
    assert set(effects.values()) == {1}
    seen = {(await output.receive()).payload for _ in bodies}
    assert seen == set(bodies)


async def test_late_group_gets_retained_messages() -> None:
    """The retained messages of a topic are bounded by number and by bytes; the oldest are dropped first."""
    broker = MemoryBroker(retain_messages=3, retain_bytes=25)
    transport = MemoryTransport(broker=broker)
    for body in (b"0" * 10, b"1" * 10, b"2" * 10, b"3"):
        await transport.publish(TOPIC, body)

    subscription = await transport.subscribe(TOPIC, "late", start=Start.EARLIEST, prefetch=9)

    assert (await subscription.receive()).payload[:1] == b"1"
    assert (await subscription.receive()).payload[:1] == b"2"
    assert (await subscription.receive()).payload[:1] == b"3"


async def test_non_persistent_topics_leave_nothing() -> None:
    """A non-persistent topic keeps nothing for absent consumers and vanishes with its last one."""
    broker = MemoryBroker()
    transport = MemoryTransport(broker=broker)
    topic = full_topic("volatile", persistent=False)
    await transport.publish(topic, b"nobody is there")
    subscription = await transport.subscribe(topic, "g")
    assert await receive_now(subscription) is None
    await transport.publish(topic, b"x")
    await subscription.receive()
    await subscription.aclose()

    assert broker._topics == {}


async def test_memory_stays_flat() -> None:
    """After a thousand requests only the retained messages are in memory."""
    broker = MemoryBroker(retain_messages=10)
    transport = MemoryTransport(broker=broker)

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield OutgoingMessage(payload=work.delivery.payload, headers={"type": "any.v1"})

    ledger = MemoryLedger(max_records=50)
    worker = Worker(transport, topic=TOPIC, group="g", handler=handle, ledger=ledger)
    await worker.start()
    for _ in range(1_000):
        await transport.request(TOPIC, b"x")
    await worker.aclose()
    topic = broker.topic(TOPIC)
    group = topic.queues[0]

    assert (group.size, len(group._ready), group._parked, group._busy_keys) == (0, 0, {}, set())
    assert len(topic.retained) == 10
    assert transport.requester.pending == 0
    assert len(ledger) <= 50
    await transport.aclose()
    assert not [name for name in broker._topics if name.startswith("non-persistent")]


async def test_no_task_or_timer_is_left() -> None:
    """After closing, no task runs and no timer is pending."""
    clock = ManualClock()
    transport = MemoryTransport(clock=clock)

    async def handle(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        yield OutgoingMessage(payload=b"", headers={"type": "any.v1"})

    worker = Worker(transport, topic=TOPIC, group="g", handler=handle, clock=clock)
    await worker.start()
    await transport.request(TOPIC, b"x")
    await transport.publish(TOPIC, b"x", delay_s=3600)
    assert clock.pending == 1
    await worker.aclose()
    await transport.aclose()

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert clock.pending == 0


async def test_delayed_message_waits_for_a_consumer() -> None:
    """A message whose delay ends without consumers is delivered to the first one that joins."""
    clock = ManualClock()
    transport = MemoryTransport(clock=clock)
    await (await transport.subscribe(TOPIC, "g")).aclose()
    await transport.publish(TOPIC, b"x", delay_s=5)
    clock.advance(10)

    subscription = await transport.subscribe(TOPIC, "g")
    clock.advance(0)

    assert (await subscription.receive()).payload == b"x"


async def test_waiting_consumers_take_turns() -> None:
    """When all consumers wait, messages are delivered in turn."""
    transport = MemoryTransport()
    consumers = [await transport.subscribe(TOPIC, "g", prefetch=9) for _ in range(3)]
    counts = [0, 0, 0]

    async def take(place: int) -> None:
        while True:
            await consumers[place].ack(await consumers[place].receive())
            counts[place] += 1

    tasks = [asyncio.create_task(take(place)) for place in range(3)]
    for _ in range(30):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await transport.publish(TOPIC, b"x")
    for _ in range(3):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert counts == [10, 10, 10]


async def test_close_during_delivery() -> None:
    """A receiver that was served but has not run when its subscription closes gets no stale message."""
    transport = MemoryTransport()
    subscription = await transport.subscribe(TOPIC, "g")
    waiting = asyncio.create_task(subscription.receive())
    await asyncio.sleep(0)
    await transport.publish(TOPIC, b"x")
    await subscription.aclose()

    with pytest.raises(Unavailable):
        await waiting
    other = await transport.subscribe(TOPIC, "g")
    assert (await other.receive()).payload == b"x"


async def test_cut_while_the_dead_letter_waits_for_room() -> None:
    """A message redelivered while its dead letter waits for room is duplicated, not lost, without an error."""
    transport = MemoryTransport(max_backlog=1)
    subscription = await transport.subscribe(TOPIC, "g")
    letters = await transport.subscribe(dead_letter_topic(TOPIC), "cli")
    await transport.publish(dead_letter_topic(TOPIC), b"fills the queue")
    await transport.publish(TOPIC, b"x")
    rejecting = asyncio.create_task(subscription.reject(await subscription.receive(), reason="r"))
    await asyncio.sleep(0)
    transport.drop_connection()
    await letters.ack(await letters.receive())

    assert await rejecting is NackOutcome.DEAD_LETTER
    assert (await letters.receive()).payload == b"x"
    assert await subscription.ack(await subscription.receive()) is True


async def test_cancelled_publisher_passes_its_turn_on() -> None:
    """A publisher that is cancelled when its turn comes passes its turn on."""
    transport = MemoryTransport(max_backlog=1, full_wait_s=3600.0)
    subscription = await transport.subscribe(TOPIC, "g")
    await transport.publish(TOPIC, b"0")
    leaving = asyncio.create_task(transport.publish(TOPIC, b"1"))
    staying = asyncio.create_task(transport.publish(TOPIC, b"2"))
    await asyncio.sleep(0.01)
    await subscription.ack(await subscription.receive())
    leaving.cancel()

    await asyncio.wait_for(staying, 30)
    assert leaving.cancelled()
    assert (await subscription.receive()).payload == b"2"


async def test_consumers_of_a_group_share_one_mode() -> None:
    """A group with consumers refuses another mode; without consumers it can change, and loses nothing."""
    transport = MemoryTransport()
    ordered = await transport.subscribe(TOPIC, "g", mode=Mode.KEY_ORDERED, prefetch=9)
    for body in (b"0", b"1", b"2"):
        await transport.publish(TOPIC, body, key="k")
    await ordered.receive()
    assert await receive_now(ordered) is None

    with pytest.raises(Unavailable, match="key_ordered"):
        await transport.subscribe(TOPIC, "g", mode=Mode.SHARED)
    await ordered.aclose()
    shared = await transport.subscribe(TOPIC, "g", mode=Mode.SHARED, prefetch=9)

    assert [(await shared.receive()).payload for _ in range(3)] == [b"0", b"1", b"2"]


def test_a_broker_outlives_an_event_loop() -> None:
    """Messages held in a closed event loop are redelivered in the next one."""
    broker = MemoryBroker()

    async def first() -> None:
        transport = MemoryTransport(broker=broker)
        subscription = await transport.subscribe(TOPIC, "g", mode=Mode.EXCLUSIVE)
        await transport.publish(TOPIC, b"x")
        await subscription.receive()

    async def second() -> bytes:
        transport = MemoryTransport(broker=broker)
        subscription = await transport.subscribe(TOPIC, "g", mode=Mode.EXCLUSIVE)
        return (await subscription.receive()).payload

    asyncio.run(first())

    assert asyncio.run(second()) == b"x"


async def test_two_loops_at_once_are_refused() -> None:
    """A second event loop is refused with an error; the first one keeps working."""
    broker = MemoryBroker()
    await MemoryTransport(broker=broker).publish(TOPIC, b"x")
    outcome: list[object] = []

    async def elsewhere() -> None:
        try:
            await MemoryTransport(broker=broker).publish(TOPIC, b"y")
        except ConfigError as error:
            outcome.append(error)
        outcome.append(await MemoryTransport().publish(TOPIC, b"z"))

    thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
    thread.start()
    await asyncio.to_thread(thread.join)

    assert [type(item) for item in outcome] == [ConfigError, str]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from(["a", "b", None]), st.integers(0, 3)),
        st.tuples(st.just("receive"), st.integers(0, 2)),
        st.tuples(st.just("ack"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("nack"), st.integers(0, 2), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("reject"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.integers(0, 2)),
        st.tuples(st.just("snatch"), st.integers(0, 2)),
        st.tuples(st.just("close"), st.integers(0, 2)),
        st.tuples(st.just("cut")),
        st.tuples(st.just("pause"), st.integers(0, 2)),
        st.tuples(st.just("resume"), st.integers(0, 2)),
        st.tuples(st.just("advance"), st.integers(1, 4)),
    ),
    max_size=60,
)


class Schedule:
    """Runs random steps on a group of three consumers and checks what must hold after each."""

    PREFETCH = 2

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.clock = ManualClock()
        self.transport = MemoryTransport(clock=self.clock)
        self.published: list[bytes] = []
        self.keys: dict[bytes, str | None] = {}
        self.settled: Counter[bytes] = Counter()
        self.held: list[list[object]] = [[], [], []]
        self.waiting: list[list[asyncio.Future[object]]] = [[], [], []]

    async def join(self, place: int) -> None:
        self.consumers[place] = await self.transport.subscribe(
            TOPIC, "g", mode=self.mode, prefetch=self.PREFETCH, retry=FOREVER
        )

    async def run(self, steps: list[tuple[object, ...]]) -> None:
        self.consumers: list[object] = [None, None, None]
        for place in range(3):
            await self.join(place)
        letters = await self.transport.subscribe(dead_letter_topic(TOPIC), "g", prefetch=1000)
        for name, *arguments in steps:
            await getattr(self, f"do_{name}")(*arguments)
            await self.settle_futures()
            self.check()
        await self.finish(letters)

    async def do_publish(self, key: str | None, delay: int) -> None:
        body = f"{len(self.published):04d}".encode()
        self.published.append(body)
        self.keys[body] = key
        await self.transport.publish(TOPIC, body, key=key, delay_s=delay or None)

    async def do_receive(self, place: int) -> None:
        self.waiting[place].append(asyncio.ensure_future(self.consumers[place].receive()))

    async def do_ack(self, place: int, which: int) -> None:
        delivery = self.pick(place, which)
        if delivery is not None and await self.consumers[place].ack(delivery):
            self.settled[delivery.payload] += 1

    async def do_nack(self, place: int, which: int, delay: int) -> None:
        if delivery := self.pick(place, which):
            await self.consumers[place].nack(delivery, delay_s=delay)

    async def do_reject(self, place: int, which: int) -> None:
        if delivery := self.pick(place, which):
            await self.consumers[place].reject(delivery, reason="r")

    async def do_cancel(self, place: int) -> None:
        for future in self.waiting[place]:
            future.cancel()

    async def do_snatch(self, place: int) -> None:
        # The receiver is cancelled after it was served and before it could run.
        await self.do_receive(place)
        await asyncio.sleep(0)
        await self.do_publish("a", 0)
        await self.do_cancel(place)

    async def do_close(self, place: int) -> None:
        await self.consumers[place].aclose()
        self.held[place].clear()
        await self.settle_futures()
        await self.join(place)

    async def do_cut(self) -> None:
        # Receivers that were just served get a delivery that is stale; they must be able to find out.
        self.transport.drop_connection()
        for held in self.held:
            held.clear()

    async def do_pause(self, place: int) -> None:
        self.consumers[place].pause()

    async def do_resume(self, place: int) -> None:
        self.consumers[place].resume()

    async def do_advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    def pick(self, place: int, which: int) -> object | None:
        held = self.held[place]
        return held.pop(which % len(held)) if held else None

    async def settle_futures(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        for place, futures in enumerate(self.waiting):
            for future in [future for future in futures if future.done()]:
                futures.remove(future)
                if not future.cancelled() and future.exception() is None:
                    self.held[place].append(future.result())

    def check(self) -> None:
        group = self.transport.broker.topic(TOPIC).queues[0]
        for consumer in group.consumers:
            assert len(consumer.held) <= self.PREFETCH
        in_flight = [entry for consumer in group.consumers for entry in consumer.held.values()]
        assert group.size == len(in_flight) + group.stats().backlog
        if self.mode is Mode.KEY_ORDERED:
            keys = Counter(e.message.key for e in in_flight if e.message.key is not None)
            assert all(count == 1 for count in keys.values())

    async def finish(self, letters: object) -> None:
        for futures in self.waiting:
            for future in futures:
                future.cancel()
        await self.settle_futures()
        for consumer in self.consumers:
            await consumer.aclose()
        last = await self.transport.subscribe(TOPIC, "g", mode=self.mode, retry=FOREVER)
        self.clock.advance(1_000)
        while (delivery := await receive_now(last)) is not None:
            assert await last.ack(delivery)
            self.settled[delivery.payload] += 1
        while (letter := await receive_now(letters)) is not None:
            self.settled[letter.payload] += 1
        assert self.settled == Counter(self.published)
        await self.transport.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, mode=st.sampled_from([Mode.SHARED, Mode.KEY_ORDERED]))
def test_no_schedule_loses_a_message(steps: list[tuple[object, ...]], mode: Mode) -> None:
    """Whatever the order of steps, each message is settled once, within prefetch, one of a key at a time."""
    asyncio.run(Schedule(mode).run(steps))


@settings(max_examples=60, deadline=None)
@given(
    keys=st.lists(st.sampled_from("abc"), min_size=1, max_size=30),
    consumers=st.integers(1, 3),
    seed=st.randoms(use_true_random=False),
)
def test_key_order_is_kept(keys: list[str], consumers: int, seed: object) -> None:
    """Without failures the messages of a key are received in the order of publishing."""

    async def run() -> None:
        transport = MemoryTransport()
        subscriptions = [
            await transport.subscribe(TOPIC, "g", mode=Mode.KEY_ORDERED, prefetch=3)
            for _ in range(consumers)
        ]
        for place, key in enumerate(keys):
            await transport.publish(TOPIC, str(place).encode(), key=key)
        order: dict[str, list[int]] = {}
        held: list[tuple[object, object]] = []
        while sum(map(len, order.values())) < len(keys) or held:
            subscription = seed.choice(subscriptions)
            delivery = await receive_now(subscription)
            if delivery is not None:
                order.setdefault(delivery.key, []).append(int(delivery.payload))
                held.append((subscription, delivery))
            elif held:
                owner, done = held.pop(seed.randrange(len(held)))
                assert await owner.ack(done)
        for key, places in order.items():
            assert places == [n for n, k in enumerate(keys) if k == key]
        await transport.aclose()

    asyncio.run(run())
