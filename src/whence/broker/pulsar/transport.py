"""The transport over Apache Pulsar.

Consumers are closed first, producers second and the client last. A semaphore bounds the messages without a
receipt, for a full queue of the library raises at once or blocks the event loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from pulsar import ConsumerType
from pulsar.asyncio import Consumer, PulsarException, Reader

from whence.broker.clock import ShiftedClock, SystemClock
from whence.broker.pulsar.admin import clock_offset, find_admin, group_stats
from whence.broker.pulsar.client import PulsarClient
from whence.broker.pulsar.errors import is_gone, translate
from whence.broker.pulsar.options import PulsarOptions, checked_url
from whence.broker.pulsar.producer_pool import ProducerPool
from whence.broker.pulsar.schema_registry import MessageSchema
from whence.broker.pulsar.subscription import INTERNAL, InternalProperties, PulsarSubscription
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
from whence.schema.errors import BadInput, ConfigError, Overloaded, Unavailable
from whence.schema.message import Message
from whence.schema.topics import full_topic, retry_topic

__all__ = ("PulsarOptions", "PulsarTransport", "open_transport")

logger = logging.getLogger(__name__)

#: Pulsar's own default for the largest message is 5 MiB, headers included, and some are added on the way to a
#: dead letter; this much is kept free for them.
HEADROOM_BYTES = 16 * 1024
MAX_PAYLOAD_BYTES = 5 * 1024 * 1024 - HEADROOM_BYTES
#: Up to this prefetch every message is asked for when there is room for it, so that a slow consumer keeps
#: nothing from the others; beyond it the library fetches half the prefetch ahead, which hides the way to the
#: broker, within these bounds.
_FETCH = 8
_MAX_FETCH = 64
#: A non-persistent topic drops what finds no room here.
_VOLATILE_FETCH = 1_000
#: The library sends acks every 100 ms; after this long the broker knows of them.
_ACK_FLUSH_S = 0.2

_CONSUMER_TYPES = {
    Mode.SHARED: ConsumerType.Shared,
    Mode.EXCLUSIVE: ConsumerType.Exclusive,
    Mode.KEY_ORDERED: ConsumerType.KeyShared,
}

_Opening = Callable[[], Awaitable[Consumer | Reader]]


class PulsarTransport:
    """A client of a Pulsar cluster; belongs to the event loop it is first used in.

    Topics need not exist. A group keeps its messages from its first subscription on; messages to a topic
    that never had one may be gone after a minute, as the broker drops what no subscription keeps.

    Args:
        url: `pulsar://host:port` or `pulsar+ssl://host:port`, without credentials.
        options: Credentials, certificates, namespace and limits.

    Raises:
        ConfigError: The address or an option is wrong.
    """

    #: Largest payload in bytes.
    max_payload_bytes = MAX_PAYLOAD_BYTES

    def __init__(self, url: str, *, options: PulsarOptions | None = None) -> None:
        self.url = checked_url(url)
        self.options = options or PulsarOptions()
        self.clock = ShiftedClock(SystemClock())
        self._instance = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._client = PulsarClient(self.url, self.options)
        self._producers = ProducerPool(self._client.open_producer, self.clock)
        self._subscriptions: set[PulsarSubscription] = set()
        self._slots = asyncio.Semaphore(self.options.max_pending)
        self._looked_for_admin = False
        self._closing: asyncio.Task[None] | None = None
        self.requester = Requester(self, instance=self._instance, clock=self.clock, persistent=True)
        self.request = self.requester.request
        self.stream = self.requester.stream
        self.cancel = self.requester.cancel

    def register_topic(self, topic: str, message_type: type[Message]) -> None:
        """See `SupportsSchemas.register_topic`. Topics with several types, such as replies, stay unchecked."""
        name = full_topic(topic)
        known = self._client.types.get(name, message_type)
        if known is not message_type:
            raise ConfigError(f"{name} carries {known.TYPE} already, not {message_type.TYPE}")
        MessageSchema(message_type)
        self._client.types[name] = message_type

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
        """Publish, as `Transport.publish`; also refuses what does not fit the schema of the topic.

        Being cancelled leaves it unknown whether the message was stored.
        """
        name = full_topic(topic)
        own = self._checked(name, payload, headers, delay_s)
        message_id = own.get(Headers.MESSAGE_ID) or f"{self._instance}-{next(self._numbers)}"
        own[Headers.MESSAGE_ID] = message_id
        if delay_s:
            own[InternalProperties.DELIVER_AT] = str(round((self.clock.time() + delay_s) * 1000))
        if name.endswith(".dlq"):
            await self._client.keep_dead_letters(name)
        await self._send(name, payload, own, key)
        return message_id

    async def publish_retry(
        self, topic: str, group: str, payload: bytes, properties: dict[str, str], key: str | None
    ) -> None:
        """Publish to the retry topic of a group, properties as they are, and wait for the receipt."""
        await self._send(retry_topic(topic, group), payload, properties, key)

    def _checked(
        self, topic: str, payload: bytes, headers: Mapping[str, str] | None, delay_s: float | None
    ) -> dict[str, str]:
        """Return a copy of the headers without the attempt: a message that is published begins again."""
        own = dict(headers or {})
        check_message(topic, payload, own, delay_s, self.max_payload_bytes)
        size = 0
        for name, value in own.items():
            if name.startswith(INTERNAL):
                raise BadInput(f"header {name!r} for {topic} is reserved")
            size += len(name.encode()) + len(value.encode())
        if size > HEADROOM_BYTES // 2 and size + len(payload) > self.max_payload_bytes:
            raise BadInput(
                f"headers for {topic} have {size} bytes beside a payload of {len(payload)}",
                hint="keep headers short",
            )
        own.pop(Headers.ATTEMPT, None)
        return own

    async def _send(
        self, topic: str, payload: bytes, properties: dict[str, str], key: str | None
    ) -> None:
        wait_s = message_wait_s(properties, self.options.full_wait_s, self.clock.time())
        try:
            async with asyncio.timeout(wait_s if self._slots.locked() else None):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Overloaded(
                f"{self.options.max_pending} messages wait for their receipt, no room for {topic}",
                retry_after_s=self.options.full_wait_s,
            ) from error
        try:
            await self._send_now(topic, bytes(payload), properties, key)
        finally:
            self._slots.release()

    async def _send_now(
        self, topic: str, payload: bytes, properties: dict[str, str], key: str | None
    ) -> None:
        due = properties.get(InternalProperties.DELIVER_AT)
        for last in (False, True):
            pooled = await self._producers.acquire(topic)
            try:
                await pooled.producer.send(
                    payload,
                    properties=properties,
                    partition_key=key,
                    deliver_at=int(due) if due else None,
                )
                return
            except PulsarException as error:
                # Closed by the broker, with its topic for example: nothing was stored.
                if last or not is_gone(error) or self._closing is not None:
                    raise translate(error, f"publish to {topic}", self.url) from error
                self._producers.discard(pooled)
            finally:
                self._producers.release(pooled)

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
        """Join a consumer group, as `Transport.subscribe`.

        A broadcast's reader that is lost altogether begins with what comes then; a broken connection loses
        nothing. With a prefetch above 8 the client library fetches half as many again ahead, 8 to 64, also for
        a consumer that is busy or paused.
        """
        check_prefetch(prefetch, topic)
        policy = check_policy(retry or RetryPolicy())
        name = full_topic(topic)
        self._client.connected()
        subscription = PulsarSubscription(
            self, name, group, mode=mode, prefetch=prefetch, retry=policy
        )
        # The consumer's name decides which keys it gets: one name on both topics, the same keys on both.
        consumer_name = f"{self._instance}-{next(self._numbers)}"
        lanes, fetch = (prefetch, 0)
        if prefetch > _FETCH:
            lanes, fetch = _FETCH, min(max(_FETCH, prefetch // 2), _MAX_FETCH)
        if mode is Mode.BROADCAST:
            lanes = 1
        if not name.startswith("persistent://"):
            lanes, fetch = 1, _VOLATILE_FETCH
        self._subscriptions.add(subscription)
        try:
            for source, opening in _openings(
                self._client, name, group, mode, start, fetch, consumer_name
            ):
                topic_name = self._client.on_cluster(source)
                await subscription.add_feed(topic_name, consumer_name, lanes, opening)
        except BaseException:
            await subscription.aclose()
            raise
        return subscription

    def forget(self, subscription: PulsarSubscription) -> None:
        """Drop a subscription that is closed."""
        self._subscriptions.discard(subscription)

    # Watching

    async def stats(self, topic: str, group: str) -> TopicStats:
        """Return how far a group is behind.

        With an admin address the broker is asked, after up to 0.2 s in which this client's last acks
        reach it. Without one only what this client has fetched is known, which is a lower bound.

        Raises:
            Unavailable: The admin interface does not answer.
        """
        name = full_topic(topic)
        own = [
            one for one in self._subscriptions if (one.queue.topic, one.queue.name) == (name, group)
        ]
        if not self.options.admin_url:
            return TopicStats.total([one.queue.stats() for one in own])
        settled = max((one.settled_at for one in own), default=0.0)
        await asyncio.sleep(max(0.0, settled + _ACK_FLUSH_S - self.clock.monotonic()))
        held = {place: n for one in own for place, n in one.in_flight().items()}
        topics = [self._client.on_cluster(name)]
        if name.startswith("persistent://"):
            topics.append(self._client.on_cluster(retry_topic(name, group)))
        return await group_stats(self.options, topics, group, held)

    async def has_full_stats(self) -> bool:
        """Return whether `stats` counts all processes: it does with an admin address.

        Without one the usual place is looked at once, port 8080 of the broker's host, and used when an admin
        interface answers there.
        """
        if not self.options.admin_url and not self._looked_for_admin:
            self._looked_for_admin = True
            found = await find_admin(self.url, self.options)
            self.options = dataclasses.replace(self.options, admin_url=found)
        return bool(self.options.admin_url)

    async def set_clock(self) -> None:
        """Adopt the broker's clock when this machine's differs by seconds; needs an admin address.

        Deadlines and times of retries travel between machines: by a clock that is an hour ahead all work would
        have expired. A difference that cannot be found out is ignored.
        """
        try:
            self.clock.offset_s += await clock_offset(self.options, self.clock.time)
        except Unavailable as error:
            logger.warning("clock not compared", extra={"action": "clock", "error": str(error)})
            return
        if self.clock.offset_s:
            fields = {"action": "clock", "offset_s": round(self.clock.offset_s, 1)}
            logger.warning("this machine's clock differs from the broker's", extra=fields)

    async def health(self) -> None:
        """See `Transport.health`; raises `ConfigError` when the broker refuses the credentials."""
        await self._client.check()

    async def abandon(self) -> None:
        """Close the client at once: the event loop is closing without `aclose`."""
        if self._client.closing:
            return
        self._client.closing = True
        fields = {"action": "close", "broker": self.url}
        logger.warning("transport was not closed before its event loop", extra=fields)
        await asyncio.gather(*(one.close_consumers() for one in self._subscriptions))
        await self._producers.aclose()
        await self._client.aclose()

    async def aclose(self) -> None:
        """Close subscriptions, then producers, then the connection; safe to call twice."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="whence-close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self.requester.aclose()
        self._client.closing = True
        await asyncio.gather(*(one.aclose() for one in list(self._subscriptions)))
        await self._producers.aclose()
        await self._client.aclose()


def _openings(
    client: PulsarClient,
    topic: str,
    group: str,
    mode: Mode,
    start: Start | None,
    fetch: int,
    name: str,
) -> list[tuple[str, _Opening]]:
    """Return the topics of a consumer, its retry topic last, and how to open each."""
    if mode is Mode.BROADCAST:
        # A reader that is opened again must not start from the beginning.
        starts = iter((start,))
        return [(topic, lambda: client.open_reader(topic, next(starts, None), max(fetch, 1), name))]
    own = partial(client.open_consumer, topic, group, _CONSUMER_TYPES[mode], start, fetch, name)
    if not topic.startswith("persistent://"):
        return [(topic, own)]
    # Delays need a shared subscription; an exclusive group has one consumer anyhow.
    kind = _CONSUMER_TYPES[Mode.KEY_ORDERED if mode is Mode.KEY_ORDERED else Mode.SHARED]
    again = retry_topic(topic, group)
    retries = partial(client.open_consumer, again, group, kind, Start.EARLIEST, fetch, name)
    return [(topic, own), (again, retries)]


async def open_transport(url: str) -> PulsarTransport:
    """Return a client of the cluster at `url`, with the settings of `WHENCE_PULSAR_...`.

    Raises:
        ConfigError: The address, a setting or the credentials are wrong.
        Unavailable: The broker does not answer.
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
