"""The transport inside one process: the semantics of a broker without one.

Messages are bytes here too, so that nothing works that would not work between two machines. Closing returns
what was not acknowledged; faults can be injected (`memory.faults`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Mapping
from itertools import count

from whence.broker.clock import Clock, SystemClock
from whence.broker.memory.faults import Faults
from whence.broker.queue import (
    QueuedMessage,
    QueueSubscription,
    StoredMessage,
    SubscriptionQueue,
)
from whence.broker.requests import Requester
from whence.broker.retry import check_policy
from whence.broker.transport import (
    Headers,
    Mode,
    RetryPolicy,
    Start,
    Subscription,
    TopicStats,
    check_message,
    check_prefetch,
    message_wait_s,
)
from whence.schema.errors import ConfigError, Overloaded, Unavailable
from whence.schema.topics import full_topic


class Topic:
    """The subscriptions of one topic and the last messages published to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.persistent = name.startswith("persistent://")
        #: Every queue that a new message enters. A consumer of a broadcast has one of its own, removed with it.
        self.queues: list[SubscriptionQueue] = []
        self.retained: deque[StoredMessage] = deque()
        self.retained_bytes = 0

    def durable(self, name: str) -> SubscriptionQueue | None:
        """Return the queue of a durable subscription."""
        for queue in self.queues:
            if queue.name == name and queue.mode is not Mode.BROADCAST:
                return queue
        return None


class MemoryBroker:
    """Topics and subscriptions that several memory transports of one event loop may share.

    A persistent topic retains its last messages, at most `retain_messages` and `retain_bytes`: a new
    subscription that starts at `Start.EARLIEST` begins with those. Unsettled messages of a subscription count
    towards `max_backlog` only. A non-persistent topic retains nothing, keeps nothing for subscriptions without
    consumers, and vanishes with its last consumer.

    Args:
        clock: Source of time.
        faults: Faults to inject; None for none.
        max_backlog: Unsettled messages of one subscription before publishers wait, 1 or more.
        retain_messages: Messages retained of each persistent topic, 0 or more.
        retain_bytes: Bytes of their payloads, 0 or more; the oldest go first.

    Raises:
        ConfigError: `max_backlog` is below 1.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        faults: Faults | None = None,
        max_backlog: int = 10_000,
        retain_messages: int = 1_000,
        retain_bytes: int = 256 * 1024,
    ) -> None:
        if max_backlog < 1:
            raise ConfigError(f"max_backlog is {max_backlog}", hint="use 1 or more")
        self.clock: Clock = clock or SystemClock()
        self.faults = faults
        self.max_backlog = max_backlog
        self._orders = count(1)
        self._retain_messages = retain_messages
        self._retain_bytes = retain_bytes
        self._topics: dict[str, Topic] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Make sure that all calls come from one event loop; a closed one may be followed by another.

        Raises:
            ConfigError: The broker is used in another event loop that still runs.
        """
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise ConfigError(
                "a memory broker serves one event loop",
                hint="make a transport of its own in the other loop, or use pulsar://",
            )
        self._loop = loop
        # Consumers, timers and publishers of the closed loop are gone.
        for topic in list(self._topics.values()):
            for queue in list(topic.queues):
                queue.stop_timer()
                queue.publishers.clear()
                queue.receivers.clear()
                for consumer in list(queue.consumers):
                    self.leave(consumer)

    def topic(self, name: str) -> Topic:
        """Return a topic by its full or short name, made when it is new.

        Raises:
            ConfigError: The name is not the name of a topic, or as for `bind`.
        """
        if asyncio.get_running_loop() is not self._loop:
            self.bind()
        topic = self._topics.get(name)
        if topic is None:
            full = full_topic(name)
            topic = self._topics.setdefault(full, Topic(full))
        return topic

    def store(
        self,
        topic: Topic,
        payload: bytes,
        headers: dict[str, str],
        key: str | None,
        delay_s: float | None,
    ) -> SubscriptionQueue | None:
        """Add a message to every subscription of the topic; when one has no room, return it and add none."""
        if not topic.persistent and not topic.queues:
            self._topics.pop(topic.name, None)
            return None
        for queue in topic.queues:
            if queue.size >= self.max_backlog:
                return queue
        clock = self.clock
        due = clock.monotonic() + delay_s if delay_s else 0.0
        message = StoredMessage(topic.name, payload, headers, key, clock.time(), due)
        if topic.persistent:
            retained = topic.retained
            retained.append(message)
            topic.retained_bytes += len(payload)
            while (
                topic.retained_bytes > self._retain_bytes or len(retained) > self._retain_messages
            ):
                topic.retained_bytes -= len(retained.popleft().payload)
        for queue in list(topic.queues):
            queue.add(QueuedMessage(message))
        return None

    def queue_for(
        self, topic: Topic, name: str, mode: Mode, start: Start | None
    ) -> SubscriptionQueue:
        """Return the queue that a new consumer of a subscription joins, made when it is new.

        Raises:
            Unavailable: The subscription is exclusive and taken, or its consumers share in another mode.
        """
        queue = None if mode is Mode.BROADCAST else topic.durable(name)
        if queue is None:
            return self._new_queue(topic, name, mode, start)
        if not queue.consumers:
            if mode is not queue.mode:
                queue.change_mode(mode)
        elif Mode.EXCLUSIVE in (mode, queue.mode):
            raise Unavailable(
                f"exclusive subscription {queue.label} is taken",
                hint="close the other consumer first, or choose another subscription",
            )
        elif mode is not queue.mode:
            raise Unavailable(
                f"subscription {queue.label} is in mode {queue.mode}, not {mode}",
                hint="all consumers of a subscription share in one mode",
            )
        return queue

    def _new_queue(
        self, topic: Topic, name: str, mode: Mode, start: Start | None
    ) -> SubscriptionQueue:
        queue = SubscriptionQueue(
            topic.name, name, mode, clock=self.clock, faults=self.faults, orders=self._orders
        )
        topic.queues.append(queue)
        first = Start.LATEST if mode is Mode.BROADCAST else Start.EARLIEST
        if (start or first) is Start.EARLIEST:
            for message in topic.retained:
                queue.add(QueuedMessage(message))
        return queue

    def leave(self, consumer: QueueSubscription) -> None:
        """Remove a consumer, and with the last one what does not outlive it."""
        if consumer.closed:
            return
        queue = consumer.queue
        topic = self._topics[queue.topic]
        queue.leave(consumer)
        if queue.consumers or (topic.persistent and queue.mode is not Mode.BROADCAST):
            return
        topic.queues.remove(queue)
        while queue.publishers:
            queue.wake_publisher()
        if not topic.persistent and not topic.queues:
            self._topics.pop(topic.name, None)

    def stats(self, topic_name: str, name: str) -> TopicStats:
        """Return how far a subscription is behind; the consumers of a broadcast are added up."""
        topic = self._topics.get(full_topic(topic_name))
        queues = topic.queues if topic is not None else []
        return TopicStats.total([queue.stats() for queue in queues if queue.name == name])

    def consumers_of(self, client: MemoryTransport) -> list[QueueSubscription]:
        """Return the consumers of one client."""
        return [
            consumer
            for topic in self._topics.values()
            for queue in topic.queues
            for consumer in queue.consumers
            if consumer.transport is client
        ]


_CLOSED = "the memory transport is closed"
#: Pulsar's own default for the largest message.
MAX_PAYLOAD_BYTES = 5 * 1024 * 1024


class MemorySubscription(QueueSubscription):
    """The `Subscription` of one consumer; made by `MemoryTransport.subscribe`."""

    transport: MemoryTransport

    async def aclose(self, *, drain_s: float = 0.0) -> None:
        """See `Subscription.aclose`."""
        try:
            await self.drain(drain_s)
        finally:
            self.transport.broker.leave(self)


class MemoryTransport:
    """A client of a broker in this process, its own unless one is given.

    Args:
        clock: Source of time; not together with `broker`.
        faults: Faults to inject, None for none; not together with `broker`.
        max_payload_bytes: Largest payload, 5 MiB as Pulsar's default.
        max_backlog: Unsettled messages of one subscription before `publish` waits, 1 or more; not together with
            `broker`.
        full_wait_s: Seconds that `publish` waits for room before it raises `Overloaded`.
        instance: Name of this client, part of its reply topic and of the ids it makes; random when empty.
        broker: Broker to join, so that several clients see the same topics.

    Raises:
        ConfigError: `max_backlog` is below 1.
    """

    url = "memory://"

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        faults: Faults | None = None,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        max_backlog: int = 10_000,
        full_wait_s: float = 5.0,
        instance: str = "",
        broker: MemoryBroker | None = None,
    ) -> None:
        self.broker = broker or MemoryBroker(clock=clock, faults=faults, max_backlog=max_backlog)
        self.max_payload_bytes = max_payload_bytes
        self._full_wait_s = full_wait_s
        self._instance = instance or uuid.uuid4().hex
        self._numbers = count(1)
        self._closed = False
        self.requester = Requester(self, instance=self._instance, clock=self.broker.clock)
        self.request = self.requester.request
        self.stream = self.requester.stream
        self.cancel = self.requester.cancel

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        delay_s: float | None = None,
    ) -> str:
        """Publish, as `Transport.publish`."""
        if self._closed:
            raise Unavailable(_CLOSED)
        own = dict(headers or {})
        check_message(topic, payload, own, delay_s, self.max_payload_bytes)
        message_id = own.get(Headers.MESSAGE_ID) or f"{self._instance}-{next(self._numbers)}"
        own[Headers.MESSAGE_ID] = message_id
        broker = self.broker
        target = broker.topic(topic)
        faults = broker.faults
        if faults is not None and faults.strikes("fail_publishes", target.name):
            raise Unavailable(f"cannot publish to {target.name} (an injected fault)")
        if faults is not None and faults.strikes("fill_queue", target.name):
            raise Overloaded(f"{target.name} is full (an injected fault)", retry_after_s=0.1)
        message = (bytes(payload), own, key, delay_s)
        if broker.store(target, *message) is not None:
            await self._store_with_room(target.name, *message)
        if faults is not None and faults.strikes("lose_receipts", target.name):
            raise Unavailable(f"no receipt from {target.name} (an injected fault)")
        return message_id

    async def _store_with_room(
        self,
        name: str,
        payload: bytes,
        headers: dict[str, str],
        key: str | None,
        delay_s: float | None,
    ) -> None:
        """Store when every subscription of the topic has room, but not past the message's deadline."""
        broker = self.broker
        try:
            async with asyncio.timeout(
                message_wait_s(headers, self._full_wait_s, broker.clock.time())
            ):
                while queue := broker.store(broker.topic(name), payload, headers, key, delay_s):
                    publisher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    queue.publishers.append(publisher)
                    try:
                        await publisher
                    except asyncio.CancelledError:
                        if publisher.done() and not publisher.cancelled():
                            queue.wake_publisher()
                        raise
        except TimeoutError as error:
            raise Overloaded(
                f"{name} is full: {broker.max_backlog} messages wait",
                retry_after_s=self._full_wait_s,
            ) from error

    async def subscribe(
        self,
        topic: str,
        group: str,
        *,
        mode: Mode = Mode.SHARED,
        prefetch: int = 1,
        retry: RetryPolicy | None = None,
        start: Start | None = None,
    ) -> Subscription:
        """Join a consumer group, as `Transport.subscribe`."""
        if self._closed:
            raise Unavailable(_CLOSED)
        check_prefetch(prefetch, topic)
        policy = check_policy(retry or RetryPolicy())
        broker = self.broker
        queue = broker.queue_for(broker.topic(topic), group, mode, start)
        subscription = MemorySubscription(self, queue, prefetch, policy, broker.clock)
        queue.join(subscription)
        return subscription

    async def stats(self, topic: str, group: str) -> TopicStats:
        """Return how far a group is behind. Cost: O(messages of the group)."""
        return self.broker.stats(topic, group)

    async def health(self) -> None:
        """See `Transport.health`."""
        if self._closed:
            raise Unavailable(_CLOSED)
        self.broker.bind()

    def drop_connection(self) -> None:
        """Break the connection and restore it at once (a fault): all unsettled messages come again.

        Deliveries of this client's subscriptions are stale from then on; lost acknowledgements show.
        """
        for consumer in self.broker.consumers_of(self):
            consumer.queue.return_all(consumer)

    async def aclose(self) -> None:
        """Close subscriptions and return what is unsettled; safe to call twice."""
        if self._closed:
            return
        await self.requester.aclose()
        self._closed = True
        for consumer in self.broker.consumers_of(self):
            self.broker.leave(consumer)


async def open_transport(url: str) -> MemoryTransport:
    """Return a client with a broker of its own.

    Raises:
        ConfigError: The address names a host or a path, which would suggest a shared broker.
    """
    if url != "memory://":
        raise ConfigError(
            f"{url!r} names something inside memory://",
            hint="use memory:// alone; every client has a broker of its own",
        )
    return MemoryTransport()
