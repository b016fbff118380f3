"""The `Subscription` of one consumer on Pulsar, and the feeds that fill its queue.

It works around the client library (3.13) in three places:

- The library's redelivery after a nack starves under steady nacks, has one delay for all and forgets its
  counters when the broker restarts. Here a retry is published to a retry topic of the group, with the attempt
  in a header and a time of delivery; the original is acked after the receipt of that.
- An ack returns before the broker knows. A message that was settled here and comes again after a lost
  connection is acked once more and not handed out.
- A cancelled `receive` of the library loses the next message. The tasks of a `ConsumerFeed` are never
  cancelled: they fill a queue, and a caller that is cancelled only stops waiting at that queue.
"""

# mypy: untyped-calls-exclude=pulsar

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pulsar import Message
from pulsar.asyncio import Consumer as PulsarConsumer
from pulsar.asyncio import Producer, PulsarException, Reader

from whence.broker.queue import (
    QueuedMessage,
    QueueSubscription,
    StoredMessage,
    SubscriptionQueue,
)
from whence.broker.transport import (
    Delivery,
    Headers,
    Mode,
    RetryPolicy,
    number_of,
)
from whence.schema.errors import WhenceError

if TYPE_CHECKING:
    from whence.broker.pulsar.transport import PulsarTransport

logger = logging.getLogger(__name__)

#: First and longest wait before a lost consumer is opened again, seconds.
_REOPEN_S = (0.1, 5.0)
#: How long closing something may take; a broker that is gone must not keep the caller.
_CLOSE_S = 5.0


async def close_quietly(resource: PulsarConsumer | Producer | Reader) -> None:
    """Close, but wait no longer than 5 s for a broker that may be gone."""
    with suppress(PulsarException, TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await resource.close()


class ConsumerFeed:
    """Receives from a consumer, or from a reader for a broadcast, for a subscription.

    Args:
        owner: The subscription.
        topic: Full name on the cluster.
        name: Name of the consumer.
        lanes: Tasks that receive, 1 or more; each asks the broker for one message at a time when the
            consumer fetches nothing ahead.
        open_consumer: Opens the consumer; called again when it is lost.
    """

    def __init__(
        self,
        owner: PulsarSubscription,
        topic: str,
        name: str,
        lanes: int,
        open_consumer: Callable[[], Awaitable[PulsarConsumer | Reader]],
    ) -> None:
        self.topic = topic
        self.name = name
        #: Messages asked for that have not arrived.
        self.pending = 0
        #: When the consumer was opened, milliseconds since the epoch.
        self.opened_at_ms = 0
        self._owner = owner
        self._lanes = lanes
        self._open = open_consumer
        self._consumer: PulsarConsumer | Reader | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = asyncio.Event()
        self._reopening = asyncio.Lock()

    async def start(self) -> None:
        """Open the consumer, then begin to receive."""
        await self._open_consumer()
        self._tasks = [
            asyncio.create_task(self._receive_all(), name=f"whence-receive {self.topic}")
            for _ in range(self._lanes)
        ]

    async def acknowledge(self, message: Message) -> bool:
        """Acknowledge a message; False when the consumer is gone."""
        if not isinstance(self._consumer, PulsarConsumer):
            return isinstance(self._consumer, Reader)
        try:
            await self._consumer.acknowledge(message)
        except PulsarException as error:
            logger.debug("ack not taken", extra={"action": "ack", "error": str(error)})
            return False
        return True

    async def aclose(self) -> None:
        """Close the consumer, which sends waiting acks and returns open messages, then end the tasks."""
        self._closing.set()
        self._owner.room.set()
        await self.close_consumer()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)

    async def _open_consumer(self) -> None:
        opened_at_ms = int(self._owner.clock.time() * 1000)
        self._consumer = await self._open()
        self.opened_at_ms = opened_at_ms

    async def close_consumer(self) -> None:
        """Close the consumer, but not the tasks."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await close_quietly(consumer)

    async def _receive_all(self) -> None:
        owner = self._owner
        try:
            while not self._closing.is_set():
                if not owner.has_room(self):
                    owner.room.clear()
                    await owner.room.wait()
                    continue
                consumer = self._consumer
                message = None if consumer is None else await self._receive(consumer)
                if message is not None:
                    await owner.accept(self, message)
                elif not self._closing.is_set():
                    await self._reopen(consumer)
        except asyncio.CancelledError:
            # Only a closing event loop cancels this task. A message that came later would end the process.
            await owner.transport.abandon()
            raise

    async def _receive(self, consumer: PulsarConsumer | Reader) -> Message | None:
        self.pending += 1
        try:
            if isinstance(consumer, Reader):
                return await consumer.read_next()
            return await consumer.receive()
        except PulsarException as error:
            if not self._closing.is_set():
                fields = {"action": "receive", "topic": self.topic, "error": str(error)}
                logger.warning("consumer lost", extra=fields)
            return None
        finally:
            self.pending -= 1

    async def _reopen(self, lost: PulsarConsumer | Reader | None) -> None:
        """Open the consumer again, as often as needed, until that succeeds or the feed closes."""
        async with self._reopening:
            if self._consumer is not lost:
                return
            await self.close_consumer()
            wait, longest = _REOPEN_S
            while self._consumer is None and not await self._closes_within(wait):
                wait = min(wait * 2, longest)
                try:
                    await self._open_consumer()
                except WhenceError as error:
                    fields = {"action": "subscribe", "topic": self.topic, "error": str(error)}
                    logger.warning("consumer not opened", extra=fields)
            if self._closing.is_set():
                await self.close_consumer()

    async def _closes_within(self, wait_s: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), wait_s)
        return self._closing.is_set()


#: Prefix of message properties that are ours and not headers.
INTERNAL = "_whence-"
#: A non-persistent topic drops what a consumer does not take at once, so it takes this many.
_MAX_VOLATILE = 10_000
#: Messages fetched beyond the prefetch because their key is busy or their time has not come.
_MAX_ASIDE = 1_000
#: For how many acks, and how many seconds, a message that comes again is known to be settled.
_MAX_SETTLED = 4_096
_SETTLED_S = 60.0

_Id = tuple[str, int, int, int]


class InternalProperties:
    """Names of properties that travel with a message and are not shown as headers; milliseconds."""

    DELIVER_AT = INTERNAL + "deliver-at"
    """Not delivered before: brokers round delays, and exclusive subscriptions ignore them."""
    PUBLISHED_AT = INTERNAL + "published-at"
    """First publication, on a retry."""
    FIRST_AT = INTERNAL + "first-at"
    """First delivery, on a retry."""


class FetchedMessage(QueuedMessage, kw_only=True):
    """One message that the broker gave to this consumer and that is not settled."""

    raw: Message
    """As the client library returned it."""
    id: _Id
    feed: ConsumerFeed
    """Where it came from and is acknowledged."""


class PulsarSubscription(QueueSubscription):
    """One consumer of a group; made by `PulsarTransport.subscribe`.

    `redelivered` is True on all that was published before this consumer came: the broker does not report what
    former consumers held.

    Args:
        transport: Publishes retries and dead letters.
        topic: Full name of the topic as the caller knows it.
        group: Name of the consumer group.
        mode: How the group shares.
        prefetch: Most messages held, 1 or more.
        retry: Attempts and waits.
    """

    transport: PulsarTransport

    def __init__(
        self,
        transport: PulsarTransport,
        topic: str,
        group: str,
        *,
        mode: Mode,
        prefetch: int,
        retry: RetryPolicy,
    ) -> None:
        clock = transport.clock
        queue = SubscriptionQueue(topic, group, mode, clock=clock, orders=itertools.count(1))
        super().__init__(transport, queue, prefetch, retry, clock)
        queue.join(self)
        #: Monotonic second of the last ack.
        self.settled_at = float("-inf")
        #: Set when a feed may have room for another message.
        self.room = asyncio.Event()
        self._persistent = topic.startswith("persistent://")
        self._numbers = itertools.count(1)
        self._feeds: list[ConsumerFeed] = []
        #: Ids of all unsettled messages, and when others were settled.
        self._unsettled: set[_Id] = set()
        self._settled: OrderedDict[_Id, float] = OrderedDict()

    async def add_feed(
        self,
        topic: str,
        name: str,
        lanes: int,
        open_consumer: Callable[[], Awaitable[PulsarConsumer | Reader]],
    ) -> None:
        """Open one more consumer that fills the queue; see `ConsumerFeed`."""
        feed = ConsumerFeed(self, topic, name, lanes, open_consumer)
        await feed.start()
        self._feeds.append(feed)

    def in_flight(self) -> dict[tuple[str, str], int]:
        """Count what is handed out, by topic on the cluster and name of the consumer."""
        counts = {(feed.topic, feed.name): 0 for feed in self._feeds}
        for entry in self.held.values():
            assert isinstance(entry, FetchedMessage)
            counts[entry.feed.topic, entry.feed.name] += 1
        return counts

    # From the broker to the queue

    def has_room(self, feed: ConsumerFeed) -> bool:
        """Return whether a feed may fetch one more message."""
        if not self._persistent:
            return len(self._unsettled) < _MAX_VOLATILE
        if self.paused:
            return False
        fetched = self.queue.ready + len(self.held) + feed.pending
        return fetched < self.prefetch and len(self._unsettled) < self.prefetch + _MAX_ASIDE

    async def accept(self, feed: ConsumerFeed, message: Message) -> None:
        """Take a message from the broker into the queue."""
        number = message.message_id()
        message_id = (feed.topic, number.ledger_id(), number.entry_id(), number.partition())
        if not self._persistent:
            # The ids of such topics are not unique.
            message_id = (feed.topic, 0, next(self._numbers), 0)
        if message_id in self._unsettled or self.closed:
            return
        settled = self._settled.get(message_id)
        if settled is not None and self.clock.monotonic() - settled <= _SETTLED_S:
            # Its ack was lost with a connection.
            await feed.acknowledge(message)
            return
        self._unsettled.add(message_id)
        self.queue.add(self._fetched(feed, message, message_id))

    def _fetched(self, feed: ConsumerFeed, message: Message, message_id: _Id) -> FetchedMessage:
        properties: dict[str, str] = message.properties()
        published_at_ms = number_of(properties.get(InternalProperties.PUBLISHED_AT)) or (
            message.publish_timestamp()
        )
        attempt = max(1, number_of(properties.get(Headers.ATTEMPT)))
        deliver_at = number_of(properties.get(InternalProperties.DELIVER_AT)) / 1000
        wait = deliver_at - self.clock.time() if deliver_at else 0.0
        return FetchedMessage(
            StoredMessage(
                self.queue.topic,
                message.data(),
                {k: value for k, value in properties.items() if not k.startswith(INTERNAL)},
                message.partition_key() or None,
                published_at_ms / 1000,
                self.clock.monotonic() + wait if wait > 0 else 0.0,
            ),
            attempt=attempt,
            # The broker's count is gone with the last consumer of a group: what was published before this one
            # came may have been held by another.
            redelivered=(
                attempt > 1 or message.redelivery_count() > 0 or published_at_ms < feed.opened_at_ms
            ),
            first_at=number_of(properties.get(InternalProperties.FIRST_AT)) / 1000,
            raw=message,
            id=message_id,
            feed=feed,
        )

    # From the queue to the caller and back to the broker

    async def receive(self) -> Delivery:
        """Wait for the next message. Cancelling loses nothing."""
        # Messages whose key is busy leave the ready ones when a receiver looks; the feeds run after that.
        self.room.set()
        return await super().receive()

    async def ack(self, delivery: Delivery) -> bool:
        """Settle as done; also False when the consumer of the library is gone."""
        entry = self.held.get(delivery.id)
        if not await super().ack(delivery):
            return False
        assert isinstance(entry, FetchedMessage)
        # Remembered before the ack: a message may come again while that is sent.
        self.settled_at = self.clock.monotonic()
        self._unsettled.discard(entry.id)
        if self._persistent:
            self._settled[entry.id] = self.settled_at
            if len(self._settled) > _MAX_SETTLED:
                self._settled.popitem(last=False)
        self.room.set()
        return await entry.feed.acknowledge(entry.raw)

    async def _retry_later(
        self, delivery: Delivery, entry: QueuedMessage, attempt: int, delay_s: float
    ) -> None:
        """Publish the retry first and ack second; a crash in between doubles the message."""
        if not self._persistent or self.queue.mode is Mode.BROADCAST:
            # Nothing of this consumer outlives it, so neither need its retries.
            await super()._retry_later(delivery, entry, attempt, delay_s)
            self.room.set()
            return
        message = entry.message
        properties = {
            **message.headers,
            Headers.ATTEMPT: str(attempt),
            InternalProperties.PUBLISHED_AT: str(round(message.published_at * 1000)),
            InternalProperties.FIRST_AT: str(round(entry.first_at * 1000)),
        }
        if delay_s > 0:
            properties[InternalProperties.DELIVER_AT] = str(
                round((self.clock.time() + delay_s) * 1000)
            )
        entry.settling = True
        try:
            await self.transport.publish_retry(
                self.queue.topic, self.queue.name, message.payload, properties, message.key
            )
        finally:
            entry.settling = False
        await self.ack(delivery)

    # Pausing and leaving

    def resume(self) -> None:
        """Hand out messages again."""
        self.room.set()
        super().resume()

    async def close_consumers(self) -> None:
        """Close the consumers of the library at once."""
        await asyncio.gather(*(feed.close_consumer() for feed in self._feeds))

    async def aclose(self, *, drain_s: float = 0.0) -> None:
        """Leave the group: wait up to `drain_s` seconds for open deliveries, return the others."""
        if self.closed:
            return
        try:
            await self.drain(drain_s)
        finally:
            if not self.closed:
                self.queue.leave(self)
                closing = [asyncio.ensure_future(feed.aclose()) for feed in self._feeds]
                # A caller that gives up waiting must not leave a consumer half closed.
                await asyncio.shield(asyncio.gather(*closing))
                self.transport.forget(self)
