"""One member of a group on Pulsar: what it holds, and the consumers that feed it.

Guards against what the client library (3.13) does when used in the obvious way:

- A cancelled `receive` of the library loses the next message. Here one task per consumer receives and is
  never cancelled; it fills a local queue, and whoever cancels only stops waiting at that queue.
- The library's redelivery after a nack starves under steady nacks, has one delay for all and forgets its
  counters when the broker restarts. Here a retry is published to a topic of the group, with the attempt in
  a header and a time of delivery; the original is acked after the receipt of that.
- An ack returns before the broker knows. What comes again after a lost connection although it was settled
  here is acked once more and not handed out.
"""

# mypy: untyped-calls-exclude=pulsar
from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

import _pulsar
from pulsar.asyncio import Consumer, PulsarException, Reader

from whence.broker.checks import check_nack, dead_letter_headers, number_of
from whence.broker.clock import Clock, Timer
from whence.broker.pulsar.client_calls import acknowledge, close_quietly, next_message
from whence.broker.retry import wait_s
from whence.broker.transport import Delivery, Headers, Mode, NackOutcome, RetryPolicy
from whence.schema.errors import Unavailable, WhenceError
from whence.schema.topics import dead_letter_topic

__all__ = ("INTERNAL", "Link", "PulsarSubscription", "Stamps")

logger = logging.getLogger(__name__)

#: Prefix of message properties that are ours and no headers.
INTERNAL = "_whence-"
#: A non-persistent topic drops what a member does not take at once, so it takes this many.
_MAX_VOLATILE = 10_000
#: Messages kept aside, beyond the prefetch, because their key is busy or their time has not come.
_MAX_ASIDE = 1_000
#: For how many acks, and how many seconds, a message that comes again is known to be settled.
_MAX_SETTLED = 4_096
_SETTLED_S = 60.0
#: First and longest wait before a lost consumer is opened again, seconds.
_REOPEN_S = (0.1, 5.0)
#: Messages taken in a row before others get their turn of the event loop.
_TURN = 32
#: How long closing a consumer may take; a broker that is gone must not keep the caller.
_CLOSE_S = 5.0

_Id = tuple[str, int, int, int]


class Stamps:
    """Names of properties that travel with a message and are not shown as headers; milliseconds."""

    DELIVER_AT = INTERNAL + "deliver-at"
    """Nobody gets it before: brokers round delays, and exclusive subscriptions ignore them."""
    PUBLISHED_AT = INTERNAL + "published-at"
    """First publication, on a retry."""
    FIRST_AT = INTERNAL + "first-at"
    """First delivery, on a retry."""


class Link(Protocol):
    """What a subscription needs of its transport."""

    @property
    def clock(self) -> Clock:
        """Source of time."""
        ...

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        delay_s: float | None = None,
    ) -> str:
        """Publish as `Transport.publish`."""
        ...

    async def publish_retry(
        self, topic: str, group: str, payload: bytes, properties: dict[str, str], key: str | None
    ) -> None:
        """Publish to the retry topic of a group, properties as they are, and wait for the receipt."""
        ...

    def forget(self, subscription: PulsarSubscription) -> None:
        """Drop a subscription that is closed."""
        ...

    def abandon(self) -> None:
        """Shut the client down at once: the event loop is going away."""
        ...


class _Entry:
    """One message that the broker gave to this member and that is not settled."""

    __slots__ = (
        "attempt",
        "first_at",
        "headers",
        "id",
        "key",
        "message",
        "published_at",
        "redelivered",
        "settling",
        "source",
    )

    def __init__(
        self, source: _Source, message: _pulsar.Message, entry_id: _Id, properties: dict[str, str]
    ) -> None:
        self.id = entry_id
        self.source = source
        self.message = message
        self.headers = {
            name: value for name, value in properties.items() if not name.startswith(INTERNAL)
        }
        self.key: str | None = message.partition_key() or None
        self.attempt = max(1, number_of(self.headers.get(Headers.ATTEMPT)))
        stamp = number_of(properties.get(Stamps.PUBLISHED_AT)) or message.publish_timestamp()
        self.published_at = stamp / 1000
        # The broker's count is gone with the last member of a group: what was published before this one
        # came may have been in the hands of another.
        self.redelivered = (
            self.attempt > 1 or message.redelivery_count() > 0 or stamp < source.opened_at_ms
        )
        self.first_at = number_of(properties.get(Stamps.FIRST_AT))
        self.settling = False


class _Source:
    """A consumer, or a reader for a broadcast, and the tasks that receive from it.

    Args:
        owner: The subscription it feeds.
        topic: Full name on the cluster.
        name: Name of the consumer.
        lanes: Tasks that receive, 1 or more; each asks the broker for one message at a time when the
            consumer fetches nothing ahead.
        open_consumer: Makes the consumer; called again when it is lost.
    """

    def __init__(
        self,
        owner: PulsarSubscription,
        topic: str,
        name: str,
        lanes: int,
        open_consumer: Callable[[], Awaitable[Consumer | Reader]],
    ) -> None:
        self.topic = topic
        self.name = name
        #: Messages asked for and not here.
        self.asked = 0
        #: When the consumer was opened, milliseconds since the epoch.
        self.opened_at_ms = 0
        self._owner = owner
        self._lanes = lanes
        self._open = open_consumer
        self._consumer: Consumer | Reader | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = asyncio.Event()
        self._reopening = asyncio.Lock()

    async def start(self) -> None:
        """Open the consumer, then begin to receive."""
        await self._open_consumer()
        self._tasks = [
            asyncio.create_task(self._pump(), name=f"whence-receive {self.topic}")
            for _ in range(self._lanes)
        ]

    async def _open_consumer(self) -> None:
        opened_at_ms = int(self._owner.now() * 1000)
        self._consumer = await self._open()
        self.opened_at_ms = opened_at_ms

    async def acknowledge(self, message: _pulsar.Message) -> bool:
        """Tell the broker that a message is done; False when the consumer is gone."""
        if not isinstance(self._consumer, Consumer):
            return isinstance(self._consumer, Reader)
        try:
            await acknowledge(self._consumer, message)
        except PulsarException as error:
            logger.debug("ack not taken", extra={"action": "ack", "error": str(error)})
            return False
        return True

    async def aclose(self) -> None:
        """Close the consumer, which sends waiting acks and hands back the rest, then end the tasks."""
        self._closing.set()
        self._owner.wake_sources()
        await self._close_consumer()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)

    async def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await close_quietly(consumer)

    async def _pump(self) -> None:
        try:
            for taken in itertools.count(1):
                if taken % _TURN == 0:
                    # Messages that were fetched ahead come without a turn of the loop.
                    await asyncio.sleep(0)
                await self._owner.room(self, self._closing)
                consumer = self._consumer
                if self._closing.is_set():
                    return
                message = await self._receive(consumer) if consumer is not None else None
                if message is not None:
                    await self._owner.accept(self, message)
                elif not self._closing.is_set():
                    await self._reopen(consumer)
        except asyncio.CancelledError:
            # Only a loop that is being torn down cancels this task: a message that arrives after that
            # would end the whole process.
            self._owner.abandon()
            raise

    async def _receive(self, consumer: Consumer | Reader) -> _pulsar.Message | None:
        self.asked += 1
        try:
            return await next_message(consumer)
        except PulsarException as error:
            if not self._closing.is_set():
                facts = {"action": "receive", "topic": self.topic, "error": str(error)}
                logger.warning("consumer lost", extra=facts)
            return None
        finally:
            self.asked -= 1

    async def _reopen(self, lost: Consumer | Reader | None) -> None:
        """Open the consumer again, as often as needed, until it is there or the member leaves."""
        async with self._reopening:
            if self._consumer is not lost:
                return
            await self._close_consumer()
            wait, longest = _REOPEN_S
            while self._consumer is None and not await self._closes_within(wait):
                wait = min(wait * 2, longest)
                try:
                    await self._open_consumer()
                except WhenceError as error:
                    facts = {"action": "subscribe", "topic": self.topic, "error": str(error)}
                    logger.warning("consumer not opened", extra=facts)
            if self._closing.is_set():
                await self._close_consumer()

    async def _closes_within(self, wait_s: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), wait_s)
        return self._closing.is_set()


class PulsarSubscription:
    """A member's hold on a topic; made by `PulsarTransport.subscribe`.

    Handing out and settling cost O(1) a message. `redelivered` is True on all that was published before this
    member came: the broker forgets what former members had.

    Args:
        link: The transport.
        topic: Full name of the topic as the caller knows it.
        group: Name of the group.
        mode: How the group shares.
        prefetch: Most messages held, 1 or more.
        retry: When to try again.
        uniform: Source of the random share of waits, numbers from 0 to 1.
    """

    def __init__(
        self,
        link: Link,
        topic: str,
        group: str,
        *,
        mode: Mode,
        prefetch: int,
        retry: RetryPolicy,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self.topic = topic
        self.group = group
        self._link = link
        self._mode = mode
        self._prefetch = prefetch
        self._retry = retry
        self._uniform = uniform
        self._volatile = not topic.startswith("persistent://")
        self._sources: list[_Source] = []
        #: Everything unsettled, by the broker's id of the message.
        self._known: dict[_Id, _Entry] = {}
        self._ready: deque[_Entry] = deque()
        self._held: dict[str, _Entry] = {}
        self._busy: set[str] = set()
        self._parked: dict[str, deque[_Entry]] = {}
        self._timers: dict[_Id, Timer] = {}
        self._settled: OrderedDict[_Id, float] = OrderedDict()
        #: Monotonic second of the last ack.
        self.settled_at = float("-inf")
        self._numbers = itertools.count(1)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._paused = False
        self._leaving = False
        self._closed = False

    async def add_source(
        self,
        topic: str,
        name: str,
        lanes: int,
        open_consumer: Callable[[], Awaitable[Consumer | Reader]],
    ) -> None:
        """Open one more consumer that feeds this member, with so many messages asked for at a time."""
        source = _Source(self, topic, name, lanes, open_consumer)
        await source.start()
        self._sources.append(source)

    def now(self) -> float:
        """Give seconds since the epoch."""
        return self._link.clock.time()

    def in_flight(self) -> dict[tuple[str, str], int]:
        """Count what is handed out, by topic on the cluster and name of the consumer."""
        counts = {(source.topic, source.name): 0 for source in self._sources}
        for entry in self._held.values():
            counts[entry.source.topic, entry.source.name] += 1
        return counts

    def waiting(self) -> list[float]:
        """Give the times of publishing of what waits in this process, in seconds since the epoch."""
        held = {entry.id for entry in self._held.values()}
        return [entry.published_at for entry in self._known.values() if entry.id not in held]

    def holding(self) -> list[float]:
        """Give the times of publishing of what is handed out, in seconds since the epoch."""
        return [entry.published_at for entry in self._held.values()]

    # From the broker to the local queue

    async def room(self, source: _Source, closing: asyncio.Event) -> None:
        """Wait until a source may fetch one more message, or `closing` is set and the event is woken."""
        while not closing.is_set() and not self._has_room(source):
            self._room.clear()
            await self._room.wait()

    def wake_sources(self) -> None:
        """Have the sources look again whether there is room, or an end."""
        self._room.set()

    def _has_room(self, source: _Source) -> bool:
        if self._volatile:
            return len(self._known) < _MAX_VOLATILE
        if self._paused or self._leaving:
            return False
        fetched = len(self._ready) + len(self._held) + source.asked
        return fetched < self._prefetch and len(self._known) < self._prefetch + _MAX_ASIDE

    async def accept(self, source: _Source, message: _pulsar.Message) -> None:
        """Take a message from the broker into the local queue."""
        number = message.message_id()
        entry_id = (source.topic, number.ledger_id(), number.entry_id(), number.partition())
        if self._volatile:
            # Such topics count nothing; a number of our own tells their messages apart.
            entry_id = (source.topic, 0, next(self._numbers), 0)
        if entry_id in self._known:
            return
        if await self._was_settled(source, message, entry_id):
            return
        properties: dict[str, str] = message.properties()
        entry = self._known[entry_id] = _Entry(source, message, entry_id, properties)
        due = number_of(properties.get(Stamps.DELIVER_AT))
        wait = due / 1000 - self._link.clock.time() if due else 0.0
        if wait > 0:
            self._later(entry, wait)
        else:
            self._queue(entry)

    async def _was_settled(self, source: _Source, message: _pulsar.Message, entry_id: _Id) -> bool:
        """Ack again what comes back because its ack was lost with a connection."""
        settled = self._settled.get(entry_id)
        if settled is None or self._link.clock.monotonic() - settled > _SETTLED_S:
            return False
        await source.acknowledge(message)
        return True

    def _later(self, entry: _Entry, wait: float) -> None:
        def due() -> None:
            self._timers.pop(entry.id, None)
            self._queue(entry)

        self._timers[entry.id] = self._link.clock.call_later(wait, due)

    def _queue(self, entry: _Entry) -> None:
        if self._mode is Mode.KEY_ORDERED and entry.key is not None:
            if entry.key in self._busy:
                self._parked.setdefault(entry.key, deque()).append(entry)
                return
            self._busy.add(entry.key)
        self._ready.append(entry)
        self._wake()

    # From the local queue to the caller

    async def receive(self) -> Delivery:
        """Wait for the next message. Cancelling loses nothing.

        Raises:
            Unavailable: The subscription was closed, also while waiting.
        """
        while True:
            if self._leaving:
                raise Unavailable(f"subscription {self.group!r} of {self.topic} was closed")
            if self._can_hand():
                return self._hand(self._ready.popleft())
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # Woken and cancelled in the same moment: somebody else takes the message.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise

    def _can_hand(self) -> bool:
        return bool(self._ready) and not self._paused and len(self._held) < self._prefetch

    def _wake(self) -> None:
        """Let one receiver look at the queue."""
        if not self._can_hand():
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _hand(self, entry: _Entry) -> Delivery:
        entry.first_at = entry.first_at or round(self._link.clock.time() * 1000)
        delivery_id = str(next(self._numbers))
        self._held[delivery_id] = entry
        self._empty.clear()
        self._wake()
        return Delivery(
            payload=entry.message.data(),
            headers={**entry.headers, Headers.ATTEMPT: str(entry.attempt)},
            key=entry.key,
            id=delivery_id,
            topic=self.topic,
            attempt=entry.attempt,
            redelivered=entry.redelivered,
            published_at=entry.published_at,
        )

    # From the caller back to the broker

    async def ack(self, delivery: Delivery) -> bool:
        """Settle as done; False when it was settled before or is no longer this member's."""
        entry = self._held.get(delivery.id)
        if entry is None or entry.settling:
            return False
        return await self._settle(delivery.id, entry)

    async def _settle(self, delivery_id: str, entry: _Entry) -> bool:
        acked = entry.source.acknowledge(entry.message)
        self._release(delivery_id, entry)
        del self._known[entry.id]
        self._remember(entry.id)
        return await acked

    def _remember(self, entry_id: _Id) -> None:
        self.settled_at = self._link.clock.monotonic()
        if self._volatile:
            return
        self._settled[entry_id] = self.settled_at
        if len(self._settled) > _MAX_SETTLED:
            self._settled.popitem(last=False)

    def _release(self, delivery_id: str, entry: _Entry) -> None:
        """Take a message out of the caller's hands and let its key and the queue go on."""
        del self._held[delivery_id]
        if self._mode is Mode.KEY_ORDERED and entry.key is not None:
            self._free_key(entry.key)
        if not self._held:
            self._empty.set()
        self._room.set()
        self._wake()

    def _free_key(self, key: str) -> None:
        parked = self._parked.get(key)
        if not parked:
            self._busy.discard(key)
            return
        # The key stays busy with the next message, which was there before all that is ready.
        self._ready.appendleft(parked.popleft())
        if not parked:
            del self._parked[key]

    async def nack(
        self,
        delivery: Delivery,
        *,
        delay_s: float | None = None,
        reason: str = "",
        exception: str = "",
        attempts: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> NackOutcome:
        """Ask for another attempt after `delay_s` seconds, the retry policy's wait when None.

        The retry is on the broker when this returns; a crash just before may double the message.

        Raises:
            BadInput: The delay or the number of attempts is negative.
            Unavailable: The broker cannot be reached; the message is still this member's.
            Overloaded: The queue stayed full; the message is still this member's.
        """
        check_nack(delay_s, attempts)
        entry = self._held.get(delivery.id)
        if entry is None or entry.settling:
            return NackOutcome.STALE
        attempt = entry.attempt + attempts
        if attempt > self._retry.max_attempts:
            return await self._dead_letter(delivery.id, entry, attempt - 1, reason, exception)
        if delay_s is None:
            delay_s = wait_s(self._retry, attempt - 1, uniform=self._uniform)
        if headers:
            entry.headers = {**entry.headers, **headers}
        if self._volatile or self._mode is Mode.BROADCAST:
            # Nothing of this member outlives it, so neither need its retries.
            entry.attempt, entry.redelivered = attempt, True
            self._release(delivery.id, entry)
            self._later(entry, delay_s)
            return NackOutcome.RETRY
        entry.settling = True
        try:
            await self._publish_retry(entry, attempt, delay_s)
        finally:
            entry.settling = False
        if delivery.id in self._held:
            await self._settle(delivery.id, entry)
        return NackOutcome.RETRY

    async def _publish_retry(self, entry: _Entry, attempt: int, delay_s: float) -> None:
        properties = {
            **entry.headers,
            Headers.ATTEMPT: str(attempt),
            Stamps.PUBLISHED_AT: str(round(entry.published_at * 1000)),
            Stamps.FIRST_AT: str(entry.first_at),
        }
        if delay_s > 0:
            due = self._link.clock.time() + delay_s
            properties[Stamps.DELIVER_AT] = str(round(due * 1000))
        await self._link.publish_retry(
            self.topic, self.group, entry.message.data(), properties, entry.key
        )

    async def reject(self, delivery: Delivery, *, reason: str, exception: str = "") -> NackOutcome:
        """Give up at once: the message goes to the dead-letter topic.

        Raises:
            Unavailable: The broker cannot be reached; the message is still this member's.
            Overloaded: The queue stayed full; the message is still this member's.
        """
        entry = self._held.get(delivery.id)
        if entry is None or entry.settling:
            return NackOutcome.STALE
        return await self._dead_letter(delivery.id, entry, entry.attempt, reason, exception)

    async def _dead_letter(
        self, delivery_id: str, entry: _Entry, attempts: int, reason: str, exception: str
    ) -> NackOutcome:
        """Publish the dead letter first and ack second: a failure in between doubles, never loses."""
        headers = dead_letter_headers(
            entry.headers,
            reason=reason,
            exception=exception,
            group=self.group,
            topic=self.topic,
            attempts=attempts,
            first_at=entry.first_at / 1000,
            last_at=self._link.clock.time(),
        )
        entry.settling = True
        try:
            await self._link.publish(
                dead_letter_topic(self.topic), entry.message.data(), headers=headers, key=entry.key
            )
        finally:
            entry.settling = False
        if delivery_id in self._held:
            await self._settle(delivery_id, entry)
        return NackOutcome.DEAD_LETTER

    # Pausing and leaving

    def pause(self) -> None:
        """Hand out no more messages until `resume`; a few stay fetched for this member meanwhile."""
        self._paused = True

    def resume(self) -> None:
        """Hand out messages again."""
        self._paused = False
        self._room.set()
        self._wake()

    def abandon(self) -> None:
        """Pass on that the event loop is going away."""
        self._link.abandon()

    async def aclose(self, *, drain_s: float = 0.0) -> None:
        """Leave the group: wait up to `drain_s` seconds for open deliveries, hand back the rest."""
        if self._closed:
            return
        self._leaving = True
        self._wake_all()
        try:
            if drain_s > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._empty.wait(), drain_s)
        finally:
            self._closed = True
            await self._leave()

    async def _leave(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        closing = [asyncio.ensure_future(source.aclose()) for source in self._sources]
        # A caller that gives up waiting must not leave a consumer half closed.
        await asyncio.shield(asyncio.gather(*closing))
        for queue in (self._timers, self._held, self._known, self._ready, self._parked):
            queue.clear()
        self._empty.set()
        self._link.forget(self)

    def _wake_all(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
