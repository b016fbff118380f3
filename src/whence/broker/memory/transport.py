"""The transport inside one process: the semantics of a broker without one.

Messages are bytes here too, so that nothing works that would not work between two machines. Closing returns
what was not acknowledged; faults can be injected (`memory.faults`).
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Mapping
from itertools import count

from whence.broker.checks import (
    check_message,
    check_prefetch,
    message_wait_s,
)
from whence.broker.clock import Clock
from whence.broker.memory.broker import MemoryBroker, Topic
from whence.broker.memory.faults import Faults
from whence.broker.queue import Consumer, QueuedMessage
from whence.broker.requests import Requester
from whence.broker.retry import check_policy
from whence.broker.subscription import QueueSubscription
from whence.broker.transport import (
    Headers,
    Mode,
    RetryPolicy,
    Start,
    Subscription,
    TopicStats,
)
from whence.schema.errors import ConfigError, Overloaded, Unavailable

__all__ = ("MemoryBroker", "MemorySubscription", "MemoryTransport", "open_transport")

#: Pulsar's own default for the largest message.
MAX_PAYLOAD_BYTES = 5 * 1024 * 1024


class MemorySubscription(QueueSubscription):
    """The `Subscription` of one consumer; made by `MemoryTransport.subscribe`."""

    def __init__(self, transport: MemoryTransport, consumer: Consumer, retry: RetryPolicy) -> None:
        super().__init__(transport, consumer, transport.broker.clock, retry, transport.uniform)
        self._broker = transport.broker

    async def _settle(self, delivery_id: str, entry: QueuedMessage) -> bool:
        faults, topic = self._broker.faults, self.queue.topic
        if faults.armed and faults.strikes("lose_acks", topic):
            self.consumer.lost.append(entry)
        self.consumer.settle(delivery_id)
        if faults.armed and faults.strikes("duplicate_after_ack", topic):
            self.queue.duplicate(entry)
        return True

    async def _retry_later(
        self, delivery_id: str, entry: QueuedMessage, attempt: int, delay_s: float
    ) -> None:
        entry.attempt = attempt
        self.queue.retry(self.consumer, delivery_id, self.clock.monotonic() + delay_s)

    async def aclose(self, *, drain_s: float = 0.0) -> None:
        """Leave: wait up to `drain_s` seconds for open deliveries, return the others."""
        try:
            await self.consumer.drain(drain_s)
        finally:
            self._broker.leave(self.consumer)


class MemoryTransport:
    """A client of a broker in this process, its own unless one is given.

    Args:
        clock: Source of time; not together with `broker`.
        faults: Faults to inject; not together with `broker`.
        max_payload_bytes: Largest payload, 5 MiB as Pulsar's default.
        max_backlog: Unsettled messages of one subscription before `publish` waits, 1 or more; not together with
            `broker`.
        full_wait_s: Seconds that `publish` waits for room before it raises `Overloaded`.
        uniform: Source of the random share of waits, numbers from 0 to 1.
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
        uniform: Callable[[], float] = random.random,
        instance: str = "",
        broker: MemoryBroker | None = None,
    ) -> None:
        self.broker = broker or MemoryBroker(clock=clock, faults=faults, max_backlog=max_backlog)
        self.faults = self.broker.faults
        self.uniform = uniform
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
        self._check_open()
        own = dict(headers or {})
        check_message(topic, payload, own, delay_s, self.max_payload_bytes)
        message_id = own.get(Headers.MESSAGE_ID) or f"{self._instance}-{next(self._numbers)}"
        own[Headers.MESSAGE_ID] = message_id
        target = self.broker.topic(topic)
        faults = self.faults
        if faults.armed and faults.strikes("fail_publishes", target.name):
            raise Unavailable(f"cannot publish to {target.name} (an injected fault)")
        if faults.armed and faults.strikes("fill_queue", target.name):
            raise Overloaded(f"{target.name} is full (an injected fault)", retry_after_s=0.1)
        while not self.broker.store(target, bytes(payload), own, key, delay_s):
            target = await self._wait_for_room(target.name, own)
        if faults.armed and faults.strikes("lose_receipts", target.name):
            raise Unavailable(f"no receipt from {target.name} (an injected fault)")
        return message_id

    async def _wait_for_room(self, name: str, headers: Mapping[str, str]) -> Topic:
        """Wait until every subscription of the topic has room, but not past the message's deadline."""
        broker = self.broker
        try:
            async with asyncio.timeout(
                message_wait_s(headers, self._full_wait_s, broker.clock.time())
            ):
                while (queue := broker.full_queue(broker.topic(name))) is not None:
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
        return broker.topic(name)

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
        self._check_open()
        check_prefetch(prefetch, topic)
        policy = check_policy(retry or RetryPolicy())
        consumer = self.broker.join(
            self.broker.topic(topic), group, mode=mode, prefetch=prefetch, start=start, client=self
        )
        return MemorySubscription(self, consumer, policy)

    async def stats(self, topic: str, group: str) -> TopicStats:
        """Return how far a group is behind. Cost: O(messages of the group)."""
        return self.broker.stats(topic, group)

    async def health(self) -> None:
        """Return as long as the transport is open.

        Raises:
            Unavailable: It is closed.
        """
        self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the memory transport is closed")
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
