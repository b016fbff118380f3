"""The transport over Apache Pulsar.

The client library is used through a few guards, each for something that was seen to lose messages or to
end the process (library 3.13): what concerns receiving and settling is told in `broker.pulsar_subscription`,
what concerns publishing and closing here.

- Batching is off: by default every message waits 10 ms for others, and redelivering one redelivers all.
- A full queue of the library raises at once or blocks the event loop; a semaphore waits before it instead.
- Consumers are closed first, producers second, the client last and in a thread: its own asynchronous close
  answers on a thread that may outlive the interpreter and then takes it down.
"""

# mypy: untyped-calls-exclude=pulsar
from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import os
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import _pulsar
import pulsar
from pulsar.asyncio import Client, Consumer, Producer, PulsarException, Reader

from whence.broker.checks import check_message, check_prefetch, message_wait_s
from whence.broker.clock import Clock, ShiftedClock, SystemClock
from whence.broker.pulsar.admin import clock_offset, find_admin, group_stats
from whence.broker.pulsar.client_calls import close_quietly
from whence.broker.pulsar.errors import is_gone, is_taken, translate
from whence.broker.pulsar.options import PulsarOptions, checked_url
from whence.broker.pulsar.producers import Producers
from whence.broker.pulsar.schema_registry import MessageSchema
from whence.broker.pulsar.subscription import INTERNAL, PulsarSubscription, Stamps
from whence.broker.requests import Requester
from whence.broker.retry import check_policy
from whence.broker.transport import (
    Headers,
    Mode,
    Reply,
    RetryPolicy,
    Start,
    Subscription,
    TopicStats,
)
from whence.schema.errors import BadInput, ConfigError, Overloaded, Unavailable
from whence.schema.message import Message
from whence.schema.topics import (
    DEAD_LETTER_GROUP,
    DEFAULT_NAMESPACE,
    full_topic,
    retry_topic,
)

__all__ = ("PulsarOptions", "PulsarTransport", "open_transport")

logger = logging.getLogger(__name__)

C = TypeVar("C", Consumer, Reader)

#: Pulsar's own default for the largest message is 5 MiB, headers included, and some are added on the way to a
#: dead letter; this much is kept free for them.
HEADROOM_BYTES = 16 * 1024
MAX_PAYLOAD_BYTES = 5 * 1024 * 1024 - HEADROOM_BYTES
#: Up to this prefetch every message is asked for when there is room for it, so that a slow member keeps
#: nothing from the others; beyond it the library fetches half the prefetch ahead, which hides the way to the
#: broker, within these bounds.
_FETCH = 8
_MAX_FETCH = 64
#: A non-persistent topic drops what finds no room here.
_VOLATILE_FETCH = 1_000
#: The library sends acks every 100 ms; after this long the broker knows of them.
_ACK_FLUSH_S = 0.2
#: How long closing something may take when the broker is gone, seconds.
_CLOSE_S = 5.0

_CONSUMER_TYPES = {
    Mode.SHARED: _pulsar.ConsumerType.Shared,
    Mode.EXCLUSIVE: _pulsar.ConsumerType.Exclusive,
    Mode.KEY_ORDERED: _pulsar.ConsumerType.KeyShared,
}


class PulsarTransport:
    """A client of a Pulsar cluster; belongs to the event loop it is first used in.

    Topics need not exist. A group keeps its messages from its first subscription on; messages to a topic
    that never had one may be gone after a minute, as the broker drops what nobody keeps.

    Args:
        url: `pulsar://host:port` or `pulsar+ssl://host:port`, without credentials.
        options: Credentials, certificates, namespace and limits.
        clock: Source of time.
        uniform: Source of the random share of waits, numbers from 0 to 1.
        instance: Name of this client, part of its reply topic and of the ids it makes; random when empty.
        max_payload_bytes: Largest body; the cluster's `maxMessageSize` less 16 KiB for headers.

    Raises:
        ConfigError: The address or an option is wrong.
    """

    def __init__(
        self,
        url: str,
        *,
        options: PulsarOptions | None = None,
        clock: Clock | None = None,
        uniform: Callable[[], float] = random.random,
        instance: str = "",
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
    ) -> None:
        self._url = checked_url(url)
        self.options = options or PulsarOptions()
        self.clock = ShiftedClock(clock or SystemClock())
        self._uniform = uniform
        self._instance = instance or uuid.uuid4().hex
        self._max_payload_bytes = max_payload_bytes
        self._numbers = itertools.count(1)
        self._types: dict[str, type[Message]] = {}
        self._producers = Producers(self._open_producer, self.clock)
        self._kept: set[str] = set()
        self._subscriptions: set[PulsarSubscription] = set()
        self._orphans: set[asyncio.Task[Any]] = set()
        self._slots = asyncio.Semaphore(self.options.max_pending)
        self._looked_for_admin = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._closing: asyncio.Task[None] | None = None
        self._requester = Requester(
            self, instance=self._instance, clock=self.clock, persistent=True
        )

    @property
    def url(self) -> str:
        """Address without credentials."""
        return self._url

    @property
    def max_payload_bytes(self) -> int:
        """Largest body; `publish` refuses a larger one with `BadInput`."""
        return self._max_payload_bytes

    @property
    def requester(self) -> Requester:
        """The side of this client that asks and waits, with its counters."""
        return self._requester

    def register_topic(self, topic: str, message_type: type[Message]) -> None:
        """State the one message type of a topic, before it is published or subscribed to.

        The broker then keeps the type's schema and refuses whoever comes with one that does not fit.
        Topics that carry several types, such as replies, stay unregistered and unchecked.

        Raises:
            ConfigError: Another type was stated, or the type cannot be described to the broker.
        """
        name = full_topic(topic)
        known = self._types.get(name, message_type)
        if known is not message_type:
            raise ConfigError(f"{name} carries {known.TYPE} already, not {message_type.TYPE}")
        MessageSchema(message_type)
        self._types[name] = message_type

    # Publishing

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        delay_s: float | None = None,
    ) -> str:
        """Publish and wait for the receipt; gives the `message-id` header, made when not given.

        Being cancelled leaves it unknown whether the message was stored.

        Raises:
            BadInput: The body is too large or no bytes, a header is not a string, a delay is negative, or
                the broker keeps another schema for the topic.
            ConfigError: That is not the name of a topic, or the credentials are refused.
            Overloaded: Too many messages waited for their receipt, or the cluster has no room.
            Unavailable: The broker cannot be reached; whether the message was stored is unknown.
        """
        name = full_topic(topic)
        own = self._checked(name, payload, headers, delay_s)
        message_id = own.get(Headers.MESSAGE_ID)
        if not message_id:
            message_id = own[Headers.MESSAGE_ID] = f"{self._instance}-{next(self._numbers)}"
        if delay_s:
            own[Stamps.DELIVER_AT] = str(round((self.clock.time() + delay_s) * 1000))
        if name.endswith(".dlq"):
            await self._keep(name)
        await self._send(name, payload, own, key)
        return message_id

    async def publish_retry(
        self, topic: str, group: str, payload: bytes, properties: dict[str, str], key: str | None
    ) -> None:
        """Publish to the retry topic of a group, properties as they are, and wait for the receipt."""
        await self._send(retry_topic(topic, group), payload, properties, key)

    def _checked(
        self,
        topic: str,
        payload: bytes,
        headers: Mapping[str, str] | None,
        delay_s: float | None,
    ) -> dict[str, str]:
        """Give a copy of the headers without the attempt: a message that is published begins anew."""
        own = dict(headers or {})
        check_message(topic, payload, own, delay_s, self._max_payload_bytes)
        size = 0
        for name, value in own.items():
            if name.startswith(INTERNAL):
                raise BadInput(f"header {name!r} for {topic} is reserved")
            size += len(name.encode()) + len(value.encode())
        if size > HEADROOM_BYTES // 2 and size + len(payload) > self._max_payload_bytes:
            raise BadInput(
                f"headers for {topic} have {size} bytes beside a body of {len(payload)}",
                hint="keep headers short",
            )
        own.pop(Headers.ATTEMPT, None)
        return own

    async def _send(
        self, topic: str, payload: bytes, properties: dict[str, str], key: str | None
    ) -> None:
        if self._slots.locked():
            await self._wait_for_slot(topic, properties)
        else:
            await self._slots.acquire()
        try:
            await self._send_now(topic, bytes(payload), properties, key)
        finally:
            self._slots.release()

    async def _wait_for_slot(self, topic: str, properties: Mapping[str, str]) -> None:
        """Wait for a place among those without a receipt, but not longer than the message is wanted."""
        wait_s = message_wait_s(properties, self.options.full_wait_s, self.clock.time())
        try:
            async with asyncio.timeout(wait_s):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Overloaded(
                f"{self.options.max_pending} messages wait for their receipt, no room for {topic}",
                retry_after_s=self.options.full_wait_s,
            ) from error

    async def _send_now(
        self, topic: str, payload: bytes, properties: dict[str, str], key: str | None
    ) -> None:
        due = properties.get(Stamps.DELIVER_AT)
        for last in (False, True):
            lent = await self._producers.borrow(topic)
            try:
                await lent.producer.send(
                    payload,
                    properties=properties,
                    partition_key=key,
                    deliver_at=int(due) if due else None,
                )
                return
            except PulsarException as error:
                # Closed by the broker, with its topic for example: nothing was stored.
                if last or not is_gone(error) or self._closing is not None:
                    raise translate(error, f"publish to {topic}", self._url) from error
                self._producers.drop(lent)
            finally:
                self._producers.give_back(lent)

    async def _open_producer(self, topic: str) -> Producer:
        client = self._connected()
        message_type = self._types.get(topic)
        try:
            return await client.create_producer(
                self._on_cluster(topic),
                schema=MessageSchema(message_type) if message_type else None,
                batching_enabled=False,
                block_if_queue_full=False,
                max_pending_messages=2 * self.options.max_pending,
                send_timeout_millis=round(self.options.send_timeout_s * 1000),
                initial_sequence_id=None,
            )
        except PulsarException as error:
            raise translate(error, f"publish to {topic}", self._url) from error

    async def _keep(self, topic: str) -> None:
        """Make sure that a group holds dead letters: a topic without one is emptied by the broker."""
        if topic in self._kept or not topic.startswith("persistent://"):
            return
        kind = _pulsar.ConsumerType.Shared
        try:
            consumer = await self._shielded(
                self._subscribe(topic, DEAD_LETTER_GROUP, kind, Start.EARLIEST, 1, "")
            )
        except Unavailable as error:
            if not is_taken(error):
                raise
            # Somebody reads the dead letters now, so there is a group.
        else:
            await close_quietly(consumer)
        self._kept.add(topic)

    # Subscribing

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

        Where no `start` is given, a group begins with the earliest message that the topic has, a broadcast
        with what is published from now on. A broadcast's reader that is lost altogether begins anew with
        what comes then; a broken connection loses nothing.

        With a prefetch above 8 the client library fetches half as many again ahead, 8 to 64, also for a member
        that is busy or paused.

        Raises:
            BadInput: `prefetch` is below 1, or the broker keeps another schema for the topic.
            ConfigError: The retry policy, the name of the topic or the credentials are wrong.
            Unavailable: The group is exclusive and taken or shares in another mode, or the broker cannot be
                reached.
        """
        check_prefetch(prefetch, topic)
        policy = check_policy(retry or RetryPolicy())
        name = full_topic(topic)
        subscription = PulsarSubscription(
            self, name, group, mode=mode, prefetch=prefetch, retry=policy, uniform=self._uniform
        )
        # The name decides which keys a member gets: the same on both topics, the same keys on both.
        member = f"{self._instance}-{next(self._numbers)}"
        self._connected()
        self._subscriptions.add(subscription)
        try:
            for source, lanes, opening in self._openings(
                name, group, mode, prefetch, start, member
            ):
                await subscription.add_source(self._on_cluster(source), member, lanes, opening)
        except BaseException:
            await subscription.aclose()
            raise
        return subscription

    def _openings(
        self, topic: str, group: str, mode: Mode, prefetch: int, start: Start | None, member: str
    ) -> list[tuple[str, int, Callable[[], Awaitable[Consumer | Reader]]]]:
        """Give the topics of a member, its retry topic last, how many to ask for, how to open each."""
        persistent = topic.startswith("persistent://")
        ahead = min(max(_FETCH, prefetch // 2), _MAX_FETCH)
        lanes, fetch = (prefetch, 0) if prefetch <= _FETCH else (1, ahead)
        if not persistent:
            lanes, fetch = 1, _VOLATILE_FETCH

        # A reader that is opened again must not begin anew.
        starts = iter((start,))

        async def read() -> Reader:
            return await self._shielded(
                self._read(topic, max(fetch, 1), member, next(starts, None))
            )

        async def consume() -> Consumer:
            kind = _CONSUMER_TYPES[mode]
            return await self._shielded(self._subscribe(topic, group, kind, start, fetch, member))

        async def consume_retries() -> Consumer:
            # Delays are for shared subscriptions; an exclusive group has one member anyhow.
            kind = _CONSUMER_TYPES[Mode.KEY_ORDERED if mode is Mode.KEY_ORDERED else Mode.SHARED]
            again = retry_topic(topic, group)
            return await self._shielded(
                self._subscribe(again, group, kind, Start.EARLIEST, fetch, member)
            )

        if mode is Mode.BROADCAST:
            return [(topic, 1, read)]
        if not persistent:
            return [(topic, lanes, consume)]
        return [(topic, lanes, consume), (retry_topic(topic, group), lanes, consume_retries)]

    async def _subscribe(
        self,
        topic: str,
        group: str,
        kind: _pulsar.ConsumerType,
        start: Start | None,
        fetch: int,
        member: str,
    ) -> Consumer:
        earliest = start is not Start.LATEST
        message_type = self._types.get(topic)
        initial = _pulsar.InitialPosition
        try:
            return await self._connected().subscribe(
                self._on_cluster(topic),
                group,
                consumer_type=kind,
                schema=MessageSchema(message_type) if message_type else None,
                receiver_queue_size=fetch,
                consumer_name=member or None,
                initial_position=initial.Earliest if earliest else initial.Latest,
            )
        except PulsarException as error:
            if error.error() == _pulsar.Result.InvalidConfiguration and fetch == 0:
                # A partitioned topic cannot be read without fetching ahead.
                return await self._subscribe(topic, group, kind, start, 1, member)
            if error.error() == _pulsar.Result.IncompatibleSchema and topic not in self._producers:
                # A member may not bring the schema of a topic that is in use without one; a publisher may,
                # and a publisher is told which field does not fit.
                self._producers.give_back(await self._producers.borrow(topic))
                return await self._subscribe(topic, group, kind, start, fetch, member)
            raise translate(error, f"subscribe {group!r} to {topic}", self._url) from error

    async def _read(self, topic: str, fetch: int, member: str, start: Start | None) -> Reader:
        """Open a reader: an exclusive subscription that the broker forgets when it is closed."""
        first = pulsar.MessageId
        try:
            return await self._connected().create_reader(
                self._on_cluster(topic),
                first.earliest if start is Start.EARLIEST else first.latest,
                receiver_queue_size=fetch,
                reader_name=member,
            )
        except PulsarException as error:
            raise translate(error, f"read {topic}", self._url) from error

    async def _shielded(self, opening: Coroutine[Any, Any, C]) -> C:
        """Finish opening although the caller gives up, and close then what nobody has."""
        task = asyncio.create_task(opening)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._in_background(_close_when_open(task))
            raise

    def forget(self, subscription: PulsarSubscription) -> None:
        """Drop a subscription that is closed."""
        self._subscriptions.discard(subscription)

    # Asking

    async def request(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
    ) -> Reply:
        """Publish a request and wait for its one reply.

        Raises:
            DeadlineExceeded: No reply within `timeout_s` seconds, or the deadline header passed before.
        """
        return await self._requester.request(
            topic, payload, headers=headers, key=key, timeout_s=timeout_s
        )

    def stream(
        self,
        topic: str,
        payload: bytes,
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

    # Watching

    async def stats(self, topic: str, group: str) -> TopicStats:
        """Tell how far a group is behind.

        With an admin address the broker is asked, after up to 0.2 s in which this client's last acks
        reach it. Without one only what this client has fetched is known, which is a lower bound.

        Raises:
            Unavailable: The admin interface does not answer.
        """
        name = full_topic(topic)
        members = [
            member
            for member in self._subscriptions
            if member.topic == name and member.group == group
        ]
        if not self.options.admin_url:
            return self._local_stats(members)
        settled = max((member.settled_at for member in members), default=0.0)
        await asyncio.sleep(max(0.0, settled + _ACK_FLUSH_S - self.clock.monotonic()))
        own = {place: n for member in members for place, n in member.in_flight().items()}
        topics = [self._on_cluster(name)]
        if name.startswith("persistent://"):
            topics.append(self._on_cluster(retry_topic(name, group)))
        return await group_stats(self.options, topics, group, own)

    async def has_full_stats(self) -> bool:
        """Tell whether `stats` counts all processes: it does with an admin address.

        Without one the usual place is looked at once, port 8080 of the broker's host, and used when an admin
        interface answers there.
        """
        if not self.options.admin_url and not self._looked_for_admin:
            self._looked_for_admin = True
            found = await find_admin(self._url, self.options)
            self.options = dataclasses.replace(self.options, admin_url=found)
        return bool(self.options.admin_url)

    async def set_clock(self) -> None:
        """Go by the broker's clock when this machine's differs by seconds; needs an admin address.

        Deadlines and times of retries travel between machines: by a clock that is an hour ahead all work would
        have expired. What cannot be found out is left as it is.
        """
        try:
            self.clock.offset_s += await clock_offset(self.options, self.clock.time)
        except Unavailable as error:
            logger.warning("clock not compared", extra={"action": "clock", "error": str(error)})
            return
        if self.clock.offset_s:
            facts = {"action": "clock", "offset_s": round(self.clock.offset_s, 1)}
            logger.warning("this machine's clock is wrong by the broker's", extra=facts)

    def _local_stats(self, members: list[PulsarSubscription]) -> TopicStats:
        waiting = [published for member in members for published in member.waiting()]
        holding = [published for member in members for published in member.holding()]
        times = [*waiting, *holding]
        oldest = max(0.0, self.clock.time() - min(times)) if times else 0.0
        return TopicStats(backlog=len(waiting), in_flight=len(holding), oldest_age_s=oldest)

    async def health(self) -> None:
        """Return when the broker answers.

        Raises:
            ConfigError: It refuses the credentials.
            Unavailable: It does not answer; the message says where it was looked for.
        """
        topic = full_topic("health")
        try:
            async with asyncio.timeout(self.options.operation_timeout_s):
                await self._connected().get_topic_partitions(self._on_cluster(topic))
        except PulsarException as error:
            raise translate(error, "look up a topic", self._url) from error
        except TimeoutError as error:
            raise Unavailable(
                f"no broker answers at {self._url}",
                hint="check that it runs and that the address is right",
            ) from error

    # Opening and closing

    def _connected(self) -> Client:
        """Give the client, made in the loop it is used in.

        Raises:
            ConfigError: The transport is used in two event loops.
            Unavailable: It is closed.
        """
        if self._closing is not None:
            raise Unavailable(f"the transport to {self._url} is closed")
        loop = asyncio.get_running_loop()
        if self._client is None:
            self._loop = loop
            self._client = self._make_client()
        elif loop is not self._loop:
            raise ConfigError(
                "a Pulsar transport serves one event loop",
                hint="make a transport of its own in the other loop",
            )
        return self._client

    def _make_client(self) -> Client:
        options = self.options
        log = pulsar.FileLogger(_pulsar.LoggerLevel.Warn, options.client_log or os.devnull)
        return Client(
            self._url,
            authentication=options.authentication(),
            operation_timeout_seconds=options.operation_timeout_s,
            io_threads=1,
            message_listener_threads=1,
            stats_interval_in_seconds=0,
            tls_trust_certs_file_path=options.tls_trust_certs or None,
            tls_validate_hostname=True,
            logger=log,
        )

    def _on_cluster(self, topic: str) -> str:
        """Give the name of a topic on the cluster, where the default namespace may be another one."""
        if self.options.namespace == DEFAULT_NAMESPACE:
            return topic
        return topic.replace(f"://{DEFAULT_NAMESPACE}/", f"://{self.options.namespace}/", 1)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._orphans.add(task)
        task.add_done_callback(self._orphans.discard)

    def abandon(self) -> None:
        """Shut the client down at once: the event loop is going away without `aclose`."""
        client, self._client = self._client, None
        if client is not None:
            facts = {"action": "close", "broker": self._url}
            logger.warning("transport was not closed before its event loop", extra=facts)
            _close_client(client)

    async def aclose(self) -> None:
        """Close subscriptions, then producers, then the connection; safe to call twice."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="whence-close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._requester.aclose()
        await asyncio.gather(*(member.aclose() for member in list(self._subscriptions)))
        if self._orphans:
            await asyncio.wait(set(self._orphans), timeout=_CLOSE_S)
        await self._producers.aclose()
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(_close_client, client)


def _close_client(client: Client) -> None:
    """Close and wait, the interpreter running on meanwhile.

    The library's asynchronous close answers on a thread that may outlive the interpreter, and its
    `shutdown` keeps the interpreter from its own callbacks, so that both wait up to 10 s.
    """
    with suppress(_pulsar.PulsarException):
        client._client.close()  # noqa: SLF001 - the only close that does neither


async def _close_when_open(opening: asyncio.Task[C]) -> None:
    with suppress(Exception):
        await close_quietly(await opening)


async def open_transport(url: str) -> PulsarTransport:
    """Give a client of the cluster at `url`, with the settings of `WHENCE_PULSAR_...`.

    Raises:
        ConfigError: The address, a setting or the credentials are wrong.
        Unavailable: No broker answers there.
    """
    transport = PulsarTransport(url, options=PulsarOptions.from_environment())
    try:
        await transport.health()
        if transport.options.admin_url:
            await transport.set_clock()
    except BaseException:
        await transport.aclose()
        raise
    return transport
