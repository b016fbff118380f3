"""The queue of one subscription in this process, and its consumers: messages wait, are delayed or are held.

The memory broker has one for each subscription, the Pulsar transport one for what it has fetched. Plain data,
changed between two awaits of one event loop: nothing here locks. Adding, handing out and settling cost O(1).
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain

import msgspec

from whence.broker.clock import Clock, Timer
from whence.broker.memory.faults import Faults
from whence.broker.retry import wait_s
from whence.broker.transport import (
    Delivery,
    Headers,
    Mode,
    NackOutcome,
    RetryPolicy,
    TopicStats,
    Transport,
    dead_letter_headers,
)
from whence.schema.errors import BadInput, Unavailable
from whence.schema.topics import dead_letter_topic


class StoredMessage(msgspec.Struct, frozen=True, eq=False):
    """One message of a topic; its subscriptions may share it."""

    topic: str
    payload: bytes
    headers: Mapping[str, str]
    key: str | None
    published_at: float
    due: float = 0.0
    """Monotonic seconds before which it is not delivered; 0 for at once."""


class QueuedMessage(msgspec.Struct, eq=False):
    """One message in the queue of one subscription."""

    message: StoredMessage
    order: int = 0
    """Place in the order of arrival."""
    attempt: int = 1
    redelivered: bool = False
    first_at: float = 0.0
    """First delivery in seconds since the epoch; 0 before."""
    settling: bool = False
    """True while its dead letter is being published."""

    def __lt__(self, other: QueuedMessage) -> bool:
        return self.order < other.order


class SubscriptionQueue:
    """The messages and consumers of one subscription of a topic.

    Args:
        topic: Full name of the topic.
        name: Name of the subscription.
        mode: How its consumers share.
        clock: Source of time.
        orders: Source of increasing numbers.
        faults: Faults to inject; None for none.
    """

    def __init__(
        self,
        topic: str,
        name: str,
        mode: Mode,
        *,
        clock: Clock,
        orders: Iterator[int],
        faults: Faults | None = None,
    ) -> None:
        self.topic = topic
        self.name = name
        self.mode = mode
        self.consumers: list[QueueSubscription] = []
        #: Calls of `receive` that wait, first come, first served.
        self.receivers: deque[tuple[QueueSubscription, asyncio.Future[Delivery]]] = deque()
        #: Unsettled messages: waiting, delayed and held.
        self.size = 0
        #: Publishers that wait for the queue to shrink.
        self.publishers: deque[asyncio.Future[None]] = deque()
        self._clock = clock
        self._faults = faults
        self._orders = orders
        self._ready: deque[QueuedMessage] = deque()
        self._delayed: list[tuple[float, int, QueuedMessage]] = []
        #: Keys of which a message is held, and the messages that wait for such a key.
        self._busy_keys: set[str] = set()
        self._parked: dict[str, list[QueuedMessage]] = {}
        self._timer: Timer | None = None
        self._timer_due = 0.0

    @property
    def label(self) -> str:
        """Names of the subscription and its topic, for error messages."""
        return f"{self.name!r} of {self.topic}"

    @property
    def ready(self) -> int:
        """Messages that may be handed out now."""
        return len(self._ready)

    # Entering the queue

    def add(self, entry: QueuedMessage) -> None:
        """Take in a new message and deliver it when a receiver waits."""
        entry.order = next(self._orders)
        self.size += 1
        due = entry.message.due
        if due and due > self._clock.monotonic():
            self._delay(entry, due)
            return
        faults = self._faults
        if faults is not None and faults.strikes("reorder", self.topic):
            place = faults.random.randrange(len(self._ready) + 1)
            self._ready.insert(place, entry)
        else:
            self._ready.append(entry)
        self.dispatch()

    def retry(self, consumer: QueueSubscription, delivery_id: str, due: float) -> None:
        """Move a held message to the delayed ones, until the monotonic second `due`."""
        entry = consumer.held[delivery_id]
        entry.redelivered = True
        self.size += 1
        self._delay(entry, due)
        self.settle(consumer, delivery_id, acked=False)

    def _delay(self, entry: QueuedMessage, due: float) -> None:
        tick = self._faults.delay_tick_s if self._faults is not None else 0.0
        if tick > 0.0:
            due = -(-due // tick) * tick
        entry.order = next(self._orders)
        heapq.heappush(self._delayed, (due, entry.order, entry))
        self._set_timer()

    # Leaving the queue

    def take(self, consumer: QueueSubscription) -> Delivery | None:
        """Hand the next message whose key is free to a consumer with room; None when there is none."""
        if not self._ready or consumer.paused or len(consumer.held) >= consumer.prefetch:
            return None
        entry = self._next_free() if self.mode is Mode.KEY_ORDERED else self._ready.popleft()
        if entry is None:
            return None
        message = entry.message
        entry.first_at = entry.first_at or self._clock.time()
        delivery_id = str(next(self._orders))
        consumer.held[delivery_id] = entry
        return Delivery(
            payload=message.payload,
            headers={**message.headers, Headers.ATTEMPT: str(entry.attempt)},
            key=message.key,
            id=delivery_id,
            topic=message.topic,
            attempt=entry.attempt,
            redelivered=entry.redelivered,
            published_at=message.published_at,
        )

    def dispatch(self) -> None:
        """Deliver messages to waiting receivers, one after the other, while there are both."""
        for _ in range(len(self.receivers)):
            if not self._ready:
                return
            consumer, receiver = self.receivers.popleft()
            if receiver.done():
                # Its caller was cancelled.
                continue
            delivery = self.take(consumer)
            if delivery is None:
                # Its consumer is paused or holds as much as it may.
                self.receivers.append((consumer, receiver))
            else:
                receiver.set_result(delivery)

    def settle(self, consumer: QueueSubscription, delivery_id: str, *, acked: bool = True) -> None:
        """Forget a delivery: free its key and its place, and wake who waits for one of them."""
        entry = consumer.held.pop(delivery_id)
        faults = self._faults if acked else None
        if faults is not None and faults.strikes("lose_acks", self.topic):
            consumer.lost.append(entry)
        self.size -= 1
        if self.mode is Mode.KEY_ORDERED:
            self._free_key(entry)
        if self.publishers:
            self.wake_publisher()
        if self._ready:
            self.dispatch()
        drained = consumer.drained
        if drained is not None and not consumer.held and not drained.done():
            drained.set_result(None)
        if faults is not None and faults.strikes("duplicate_after_ack", self.topic):
            self.add(msgspec.structs.replace(entry, redelivered=True))

    def wake_publisher(self) -> None:
        """Let one waiting publisher check again whether the queue has room."""
        while self.publishers:
            publisher = self.publishers.popleft()
            if not publisher.done():
                publisher.set_result(None)
                return

    def _next_free(self) -> QueuedMessage | None:
        """Return the first message whose key is free; those skipped wait for their key, in order."""
        while self._ready:
            entry = self._ready.popleft()
            key = entry.message.key
            if key is None:
                return entry
            if key not in self._busy_keys:
                self._busy_keys.add(key)
                return entry
            heapq.heappush(self._parked.setdefault(key, []), entry)
        return None

    def _free_key(self, entry: QueuedMessage) -> None:
        key = entry.message.key
        if key is None or self.mode is not Mode.KEY_ORDERED:
            return
        self._busy_keys.discard(key)
        parked = self._parked.get(key)
        if parked:
            self._ready.appendleft(heapq.heappop(parked))
        if not parked:
            self._parked.pop(key, None)

    # Consumers

    def join(self, consumer: QueueSubscription) -> None:
        """Add a consumer."""
        self.consumers.append(consumer)
        self._set_timer()

    def leave(self, consumer: QueueSubscription) -> None:
        """Remove a consumer; its receivers fail and its messages return to the queue."""
        consumer.closed = True
        self.consumers.remove(consumer)
        waiting, self.receivers = self.receivers, deque()
        for owner, receiver in waiting:
            if owner is not consumer:
                self.receivers.append((owner, receiver))
            elif not receiver.done():
                receiver.set_exception(Unavailable(f"subscription {self.label} was closed"))
        self.return_all(consumer)
        if not self.consumers:
            self.stop_timer()

    def return_all(self, consumer: QueueSubscription) -> None:
        """Return all that a consumer holds to the head of the queue, in its old order.

        The consumer's deliveries are stale from then on.
        """
        held = list(consumer.held.values())
        for entry in held:
            self._free_key(entry)
        returning = sorted([*held, *consumer.lost], reverse=True)
        self.size += len(consumer.lost)
        consumer.held.clear()
        consumer.lost.clear()
        for entry in returning:
            entry.redelivered = True
            entry.settling = False
            self._ready.appendleft(entry)
        self.dispatch()

    def return_unseen(self, consumer: QueueSubscription, delivery_id: str) -> None:
        """Return a delivery whose receiver was cancelled before it got it."""
        entry = consumer.held.pop(delivery_id, None)
        if entry is not None:
            self._free_key(entry)
            self._ready.appendleft(entry)
            self.dispatch()

    def change_mode(self, mode: Mode) -> None:
        """Change how consumers share; only while there are none."""
        self._ready = deque(sorted(chain(self._ready, *self._parked.values())))
        self._parked.clear()
        self._busy_keys.clear()
        self.mode = mode

    def stats(self) -> TopicStats:
        """Count what waits and what is held. Cost: O(messages of the queue)."""
        held = [entry for consumer in self.consumers for entry in consumer.held.values()]
        delayed = (entry for _, _, entry in self._delayed)
        waiting = list(chain(self._ready, delayed, *self._parked.values()))
        oldest = min((e.message.published_at for e in (*held, *waiting)), default=None)
        age = 0.0 if oldest is None else max(0.0, self._clock.time() - oldest)
        return TopicStats(backlog=len(waiting), in_flight=len(held), oldest_age_s=age)

    # Time

    def stop_timer(self) -> None:
        """Stop delivering delayed messages until a consumer joins again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        """Arrange a call at the moment the first delayed message is due, while there are consumers."""
        if not self._delayed or not self.consumers:
            return
        due = self._delayed[0][0]
        if self._timer is not None and self._timer_due <= due:
            return
        self.stop_timer()
        self._timer_due = due
        delay_s = max(0.0, due - self._clock.monotonic())
        self._timer = self._clock.call_later(delay_s, self._deliver_delayed)

    def _deliver_delayed(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            self._ready.append(heapq.heappop(self._delayed)[2])
        self._set_timer()
        self.dispatch()


class QueueSubscription:
    """A `Subscription`: one consumer of a `SubscriptionQueue` and the messages that it holds.

    Args:
        transport: Client that the consumer belongs to; publishes dead letters.
        queue: Queue of the subscription.
        prefetch: Most messages held, 1 or more.
        retry: Attempts and waits.
        clock: Source of time.
    """

    def __init__(
        self,
        transport: Transport,
        queue: SubscriptionQueue,
        prefetch: int,
        retry: RetryPolicy,
        clock: Clock,
    ) -> None:
        self.transport = transport
        self.queue = queue
        self.prefetch = prefetch
        self.clock = clock
        #: Messages handed out and not settled, by delivery id.
        self.held: dict[str, QueuedMessage] = {}
        #: Messages whose acknowledgement was lost (a fault): settled for the consumer, not for the broker.
        self.lost: list[QueuedMessage] = []
        self.paused = False
        self.closed = False
        #: Resolved when `held` becomes empty.
        self.drained: asyncio.Future[None] | None = None
        self._retry = retry

    async def receive(self) -> Delivery:
        """Wait for the next message, as `Subscription.receive`."""
        queue = self.queue
        if self.closed:
            raise Unavailable(f"subscription {queue.label} is closed")
        delivery = queue.take(self)
        if delivery is not None:
            return delivery
        receiver: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        queue.receivers.append((self, receiver))
        try:
            delivery = await receiver
        except asyncio.CancelledError:
            # The message may have been handed over at the moment of the cancellation.
            if receiver.done() and not receiver.cancelled() and receiver.exception() is None:
                queue.return_unseen(self, receiver.result().id)
            raise
        if self.closed:
            raise Unavailable(f"subscription {queue.label} was closed")
        return delivery

    async def ack(self, delivery: Delivery) -> bool:
        """Settle as done; False when it was settled before or is no longer this consumer's."""
        entry = self.held.get(delivery.id)
        if entry is None or entry.settling:
            return False
        self.queue.settle(self, delivery.id)
        return True

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

        Raises:
            BadInput: The delay or the number of attempts is negative.
        """
        if attempts < 0 or (delay_s is not None and not 0 <= delay_s < math.inf):
            raise BadInput(f"nack with delay {delay_s!r} after {attempts!r} attempts")
        entry = self.held.get(delivery.id)
        if entry is None or entry.settling:
            return NackOutcome.STALE
        attempt = entry.attempt + attempts
        if attempt > self._retry.max_attempts:
            return await self._dead_letter(delivery, entry, attempt - 1, reason, exception)
        if delay_s is None:
            delay_s = wait_s(self._retry, attempt - 1)
        if headers:
            own = {**entry.message.headers, **headers}
            entry.message = msgspec.structs.replace(entry.message, headers=own)
        await self._retry_later(delivery, entry, attempt, delay_s)
        return NackOutcome.RETRY

    async def _retry_later(
        self, delivery: Delivery, entry: QueuedMessage, attempt: int, delay_s: float
    ) -> None:
        """Have a held message come again after `delay_s` seconds as that attempt."""
        entry.attempt = attempt
        self.queue.retry(self, delivery.id, self.clock.monotonic() + delay_s)

    async def reject(self, delivery: Delivery, *, reason: str, exception: str = "") -> NackOutcome:
        """Move the message to the dead-letter topic at once."""
        entry = self.held.get(delivery.id)
        if entry is None or entry.settling:
            return NackOutcome.STALE
        return await self._dead_letter(delivery, entry, entry.attempt, reason, exception)

    async def _dead_letter(
        self, delivery: Delivery, entry: QueuedMessage, attempts: int, reason: str, exception: str
    ) -> NackOutcome:
        """Publish the dead letter first and settle second: a failure in between doubles, never loses."""
        message = entry.message
        headers = dead_letter_headers(
            message.headers,
            reason=reason,
            exception=exception,
            group=self.queue.name,
            topic=message.topic,
            attempts=attempts,
            first_at=entry.first_at,
            last_at=self.clock.time(),
        )
        topic = dead_letter_topic(message.topic)
        entry.settling = True
        try:
            await self.transport.publish(topic, message.payload, headers=headers, key=message.key)
        finally:
            entry.settling = False
        await self.ack(delivery)
        return NackOutcome.DEAD_LETTER

    def pause(self) -> None:
        """Hand out no more messages until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Hand out messages again."""
        self.paused = False
        self.queue.dispatch()

    async def drain(self, timeout_s: float) -> None:
        """Stop handing out messages and wait up to `timeout_s` seconds until all held ones are settled."""
        self.paused = True
        if timeout_s > 0 and self.held and not self.closed:
            self.drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self.drained], timeout=timeout_s)
