"""The transport inside one process: the semantics of a broker without one.

What is published is bytes and leaves as bytes, so that nothing works here that would not work between two
machines. Who waits when a message is published that cannot be changed gets it as it is (`schema.wire`); who
comes later gets its bytes. Closing hands back what was not acknowledged; a connection can be made to break,
and other faults switched on, to see whether a handler survives them.
"""

from __future__ import annotations

import asyncio
import random
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from itertools import chain, count
from typing import Any

from whence.broker.clock import Clock
from whence.broker.memory.faults import Faults
from whence.broker.memory.queues import Entry, Member, MemoryBroker, Taker, Topic, Waiter
from whence.broker.requests import Requester
from whence.broker.retry import check_policy, wait_s
from whence.broker.transport import (
    Delivery,
    Headers,
    Mode,
    NackOutcome,
    Reply,
    RetryPolicy,
    Start,
    Subscription,
    TopicStats,
)
from whence.schema.errors import BadInput, ConfigError, Overloaded, Unavailable
from whence.schema.topics import dead_letter_topic
from whence.schema.wire import Body, Wire, most_bytes, plain

__all__ = ("MemoryBroker", "MemorySubscription", "MemoryTransport", "open_transport")

#: Pulsar's own default for the largest message.
MAX_PAYLOAD_BYTES = 5 * 1024 * 1024
_TOO_LARGE = sys.maxsize
_TEXTS = frozenset({str})
_MESSAGE_ID = Headers.MESSAGE_ID
#: Reasons of dead letters are for people; headers are no place for a whole traceback.
_MAX_REASON = 1_000


class MemorySubscription:
    """One member of a group; made by `MemoryTransport.subscribe`."""

    def __init__(
        self, transport: MemoryTransport, topic: Topic, member: Member, retry: RetryPolicy
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._member = member
        self._retry = retry

    async def receive(self) -> Delivery:
        """Wait for the next message. Cancelling loses nothing.

        Raises:
            Unavailable: The subscription was closed, also while waiting.
        """
        return await self.serve(None)

    async def serve(self, begin: Callable[[Delivery], bool] | None) -> Delivery:
        """Wait for the next message, as `receive`; what is published meanwhile is begun at once.

        Args:
            begin: Called within `publish`. True when it is done with the message and has settled it, and then
                the next one is waited for; otherwise the message comes out of here, begun.

        Raises:
            Unavailable: As for `receive`.
        """
        member = self._member
        group = member.group
        if member.closed:
            raise Unavailable(f"subscription {group.label} is closed")
        delivery = group.take(member)
        if delivery is not None:
            return delivery
        future: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        waiter = Waiter(future, begin)
        member.waiters.append(waiter)
        try:
            delivery = await future
        except asyncio.CancelledError:
            # The message may have been handed over in the very moment of the cancellation.
            if waiter.is_left():
                group.take_one_back(member, future.result().id)
            raise
        if not waiter.begun and member.closed:
            raise Unavailable(f"subscription {group.label} was closed")
        return delivery

    def push_to(self, taker: Taker) -> None:
        """Give every message to `taker` in the moment it is published, and settle it as done."""
        self._member.taker = taker
        self._member.settle_taken = self._done
        self._member.group.dispatch()

    async def ack(self, delivery: Delivery) -> bool:
        """Settle as done; False when it was settled before or is no longer this member's."""
        return self._done(delivery)

    def _done(self, delivery: Delivery) -> bool:
        member = self._member
        entry = member.held.get(delivery.id)
        if entry is None or entry.settling:
            return False
        faults = self._transport.faults
        if faults.armed and faults.strikes("lose_acks", self._topic.name):
            member.lost.append(entry)
        member.settle(delivery.id)
        if faults.armed and faults.strikes("duplicate_after_ack", self._topic.name):
            member.group.again(entry)
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
            Unavailable: The dead letter could not be published; the message is still this member's.
            Overloaded: The dead-letter topic stayed full; the message is still this member's.
        """
        if attempts < 0 or (delay_s is not None and not 0 <= delay_s < float("inf")):
            raise BadInput(f"nack with delay {delay_s!r} after {attempts!r} attempts")
        entry = self._member.held.get(delivery.id)
        if entry is None or entry.settling:
            return NackOutcome.STALE
        attempt = entry.attempt + attempts
        if attempt > self._retry.max_attempts:
            return await self._dead_letter(delivery.id, entry, attempt - 1, reason, exception)
        if delay_s is None:
            delay_s = wait_s(self._retry, attempt - 1, uniform=self._transport.uniform)
        entry.attempt = attempt
        if headers:
            # The message itself belongs to all groups.
            entry.message = entry.message.with_headers(headers)
        due = self._transport.broker.clock.monotonic() + delay_s
        self._member.group.retry(self._member, delivery.id, due)
        return NackOutcome.RETRY

    async def reject(self, delivery: Delivery, *, reason: str, exception: str = "") -> NackOutcome:
        """Give up at once: the message goes to the dead-letter topic.

        Raises:
            Unavailable: The dead letter could not be published; the message is still this member's.
            Overloaded: The dead-letter topic stayed full; the message is still this member's.
        """
        entry = self._member.held.get(delivery.id)
        if entry is None or entry.settling:
            return NackOutcome.STALE
        return await self._dead_letter(delivery.id, entry, entry.attempt, reason, exception)

    async def _dead_letter(
        self, delivery_id: str, entry: Entry, attempts: int, reason: str, exception: str
    ) -> NackOutcome:
        """Publish the dead letter first and settle second: a failure in between doubles, never loses."""
        message = entry.message
        now = self._transport.broker.clock.time()
        headers = {
            **message.headers,
            Headers.REASON: (reason or "attempts ran out")[:_MAX_REASON],
            Headers.GROUP: self._member.group.name,
            Headers.ORIGIN: message.topic,
            Headers.EXCEPTION: exception,
            Headers.ATTEMPTS: str(attempts),
            Headers.FIRST_AT: str(round(entry.first_at * 1000)),
            Headers.LAST_AT: str(round(now * 1000)),
        }
        entry.settling = True
        try:
            await self._transport.publish(
                dead_letter_topic(message.topic),
                plain(message.payload),
                headers=headers,
                key=message.key,
            )
        finally:
            entry.settling = False
        if delivery_id in self._member.held:
            self._member.settle(delivery_id)
        return NackOutcome.DEAD_LETTER

    def pause(self) -> None:
        """Hand out no more messages until `resume`."""
        self._member.paused = True

    def resume(self) -> None:
        """Hand out messages again."""
        self._member.paused = False
        self._member.group.dispatch()

    async def aclose(self, *, drain_s: float = 0.0) -> None:
        """Leave the group: wait up to `drain_s` seconds for open deliveries, hand back the rest."""
        member = self._member
        member.paused = True
        try:
            if drain_s > 0 and member.held and not member.closed:
                member.drained = asyncio.get_running_loop().create_future()
                await asyncio.wait([member.drained], timeout=drain_s)
        finally:
            self._transport.broker.leave(self._topic, member)


class MemoryTransport:
    """A client of a broker in this process; every one has a broker of its own unless one is given.

    Args:
        clock: Source of time; not together with `broker`.
        faults: Switches of what goes wrong; not together with `broker`.
        max_payload_bytes: Largest body, 5 MiB as Pulsar's default.
        max_backlog: Unsettled messages of one group before `publish` waits, 1 or more; not together with
            `broker`.
        full_wait_s: Seconds that `publish` waits for room before it raises `Overloaded`.
        uniform: Source of the random share of waits, numbers from 0 to 1.
        instance: Name of this client, part of its reply topic and of the ids it makes; random when empty.
        broker: Broker to join, so that several clients see the same topics.

    Raises:
        ConfigError: `max_backlog` is below 1.
    """

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
        self._max_payload_bytes = max_payload_bytes
        self._full_wait_s = full_wait_s
        self._instance = instance or uuid.uuid4().hex
        self._numbers = count(1)
        self._requester = Requester(
            self, instance=self._instance, clock=self.broker.clock, punctual=True
        )
        self._closed = False

    @property
    def url(self) -> str:
        """Always `memory://`."""
        return "memory://"

    @property
    def max_payload_bytes(self) -> int:
        """Largest body; `publish` refuses a larger one with `BadInput`."""
        return self._max_payload_bytes

    @property
    def requester(self) -> Requester:
        """The side of this client that asks and waits, with its counters."""
        return self._requester

    async def publish(
        self,
        topic: str,
        payload: Body,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        delay_s: float | None = None,
    ) -> str:
        """Publish; gives the `message-id` header, made when not given.

        A worker of this process that is free takes its first step in here (`broker.eager`).

        Raises:
            BadInput: The body is too large or no bytes, a header is not a string, a delay is negative.
            ConfigError: That is not the name of a topic.
            Overloaded: A group of the topic stayed full.
            Unavailable: The transport is closed.
        """
        if self._closed:
            raise Unavailable("the memory transport is closed")
        broker = self.broker
        if asyncio.get_running_loop() is not broker.loop:
            broker.bind()
        own = dict(headers) if headers else {}
        if type(payload) is Wire:
            size = payload.most
        else:
            size = len(payload) if type(payload) is bytes else _TOO_LARGE
        if (
            size > self._max_payload_bytes
            or delay_s is not None
            or not _TEXTS.issuperset(map(type, chain(own, own.values())))
        ):
            payload = self._checked(topic, payload, own, delay_s)
            size = most_bytes(payload)
        message_id = own.get(_MESSAGE_ID)
        if not message_id:
            message_id = own[_MESSAGE_ID] = f"{self._instance}-{next(self._numbers)}"
        target = broker.known(topic) or broker.topic(topic)
        faults = self.faults
        if faults.armed:
            self._strike_before(target.name)
        while not broker.store(target, payload, own, key, delay_s, size):
            target = await self._wait_for_room(target.name, own)
        if faults.armed and faults.strikes("lose_receipts", target.name):
            raise Unavailable(f"no receipt from {target.name} (a fault that was switched on)")
        return message_id

    def _checked(
        self, topic: str, payload: Body, headers: Mapping[str, str], delay_s: float | None
    ) -> Body:
        """Give a body in the form it is kept in, when there is nothing wrong with its message."""
        if not isinstance(payload, bytes | bytearray | Wire):
            raise BadInput(
                f"a body for {topic} is {type(payload).__name__}, not bytes", hint="encode it first"
            )
        size = len(plain(payload))
        if size > self._max_payload_bytes:
            raise BadInput(
                f"a body for {topic} has {size} bytes, {self._max_payload_bytes} are allowed",
                hint="send it in several messages",
            )
        for name, value in headers.items():
            if type(name) is not str or type(value) is not str:
                raise BadInput(f"header {name!r} for {topic} is {value!r}, not a string")
        if delay_s is not None and not 0 <= delay_s < float("inf"):
            raise BadInput(f"a delay of {delay_s!r} seconds for {topic}", hint="use 0 or more")
        return payload if isinstance(payload, Wire) else plain(payload)

    def _strike_before(self, topic: str) -> None:
        faults = self.faults
        if faults.strikes("fail_publishes", topic):
            raise Unavailable(f"cannot publish to {topic} (a fault that was switched on)")
        if faults.strikes("fill_queue", topic):
            raise Overloaded(f"{topic} is full (a fault that was switched on)", retry_after_s=0.1)

    async def _wait_for_room(self, name: str, headers: Mapping[str, str]) -> Topic:
        """Wait until every group of the topic has room, but not longer than the message is wanted."""
        broker = self.broker
        patience = self._full_wait_s
        deadline = headers.get(Headers.DEADLINE, "")
        if deadline.isdecimal():
            patience = min(patience, max(0.0, int(deadline) / 1000 - broker.clock.time()))
        try:
            async with asyncio.timeout(patience):
                while (group := broker.full_group(broker.topic(name))) is not None:
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    group.space.append(waiter)
                    try:
                        await waiter
                    except asyncio.CancelledError:
                        if waiter.done() and not waiter.cancelled():
                            group.wake_publisher()
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
        """Join a group of a topic; at most `prefetch` messages are held by the member.

        Where no `start` is given, a group begins with the earliest message remembered, a broadcast with what
        is published from now on.

        Raises:
            BadInput: `prefetch` is below 1.
            ConfigError: The retry policy or the name of the topic is wrong.
            Unavailable: The group is exclusive and taken, or the transport is closed.
        """
        if self._closed:
            raise Unavailable("the memory transport is closed")
        if prefetch < 1:
            raise BadInput(f"a prefetch of {prefetch} for {topic}", hint="use 1 or more")
        policy = check_policy(retry or RetryPolicy())
        self.broker.bind()
        target = self.broker.topic(topic)
        member = self.broker.join(
            target, group, mode=mode, prefetch=prefetch, start=start, client=self
        )
        return MemorySubscription(self, target, member, policy)

    def request(
        self,
        topic: str,
        payload: Body,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
    ) -> Coroutine[Any, Any, Reply]:
        """Publish a request and wait for its one reply.

        Raises:
            DeadlineExceeded: No reply within `timeout_s` seconds, or the deadline header passed before.
        """
        return self._requester.request(
            topic, payload, headers=headers, key=key, timeout_s=timeout_s
        )

    def stream(
        self,
        topic: str,
        payload: Body,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
    ) -> AsyncIterator[Reply]:
        """Publish a request and yield its replies in order, up to the one with `end`.

        Leaving the iterator early cancels the request.
        """
        return self._requester.stream(topic, payload, headers=headers, key=key, timeout_s=timeout_s)

    async def cancel(self, topic: str, correlation_id: str) -> None:
        """Ask, at best effort, whoever works on a request to stop."""
        await self._requester.cancel(topic, correlation_id)

    async def stats(self, topic: str, group: str) -> TopicStats:
        """Tell how far a group is behind. Cost: O(messages of the group)."""
        return self.broker.stats(topic, group)

    async def health(self) -> None:
        """Return as long as the transport is open.

        Raises:
            Unavailable: It is closed.
        """
        if self._closed:
            raise Unavailable("the memory transport is closed")

    def drop_connection(self) -> None:
        """Break the connection and mend it at once, as a fault: all that is unsettled comes again.

        Deliveries in the hands of this client's subscriptions are stale from now on; lost acks turn out
        to be lost.
        """
        for member in self.broker.members_of(self):
            member.group.take_back(member)

    async def aclose(self) -> None:
        """Close subscriptions and hand back what is unsettled; safe to call twice."""
        if self._closed:
            return
        await self._requester.aclose()
        self._closed = True
        for member in self.broker.members_of(self):
            self.broker.leave(member.group.topic, member)


async def open_transport(url: str) -> MemoryTransport:
    """Give a client with a broker of its own; `url` has nothing to say beyond `memory://`.

    Raises:
        ConfigError: The address names a host or a path, which would suggest a shared broker.
    """
    if url != "memory://":
        raise ConfigError(
            f"{url!r} names something inside memory://",
            hint="use memory:// alone; every client has a broker of its own",
        )
    return MemoryTransport()
