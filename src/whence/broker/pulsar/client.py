"""The client of the library with our settings: connects, and opens producers, consumers and readers."""

# mypy: untyped-calls-exclude=pulsar
from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import pulsar
from pulsar import ConsumerType, InitialPosition, Result
from pulsar.asyncio import Client, Consumer, Producer, PulsarException, Reader

from whence.broker.pulsar.errors import is_taken, translate
from whence.broker.pulsar.options import PulsarOptions
from whence.broker.pulsar.schema_registry import MessageSchema
from whence.broker.pulsar.subscription import close_quietly
from whence.broker.transport import Start
from whence.schema.errors import ConfigError, Unavailable
from whence.schema.message import Message
from whence.schema.topics import DEAD_LETTER_GROUP, DEFAULT_NAMESPACE, full_topic

T = TypeVar("T")
C = TypeVar("C", Consumer, Reader)

#: How long closing may take when the broker is gone, seconds.
_CLOSE_S = 5.0
#: How long the last thread of the library needs to end after the connection is closed, seconds.
_THREAD_END_S = 0.05


class PulsarClient:
    """A connection to a cluster; belongs to the event loop it is first used in.

    Args:
        url: Address without credentials.
        options: Credentials, certificates, namespace and limits.
    """

    def __init__(self, url: str, options: PulsarOptions) -> None:
        self.url = url
        #: The one message type of a topic, by full name; the broker keeps its schema.
        self.types: dict[str, type[Message]] = {}
        self.closing = False
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        #: Topics with a group that keeps their dead letters.
        self._kept: set[str] = set()
        self._orphans: set[asyncio.Task[Any]] = set()

    def on_cluster(self, topic: str) -> str:
        """Return the name of a topic on the cluster, where the default namespace may be another one."""
        namespace = self._options.namespace
        return topic.replace(f"://{DEFAULT_NAMESPACE}/", f"://{namespace}/", 1)

    async def check(self) -> None:
        """Return when the broker answers.

        Raises:
            ConfigError: It refuses the credentials.
            Unavailable: It does not answer.
        """
        topic = self.on_cluster(full_topic("health"))
        try:
            async with asyncio.timeout(self._options.operation_timeout_s):
                await self.connected().get_topic_partitions(topic)
        except PulsarException as error:
            raise translate(error, "look up a topic", self.url) from error
        except TimeoutError as error:
            raise Unavailable(
                f"no broker answers at {self.url}",
                hint="check that it runs and that the address is right",
            ) from error

    async def open_producer(self, topic: str) -> Producer:
        """Open a producer; batching is off, for it delays every message by 10 ms."""
        pending = 2 * self._options.max_pending
        try:
            return await self.connected().create_producer(
                self.on_cluster(topic),
                schema=self._schema(topic),
                batching_enabled=False,
                block_if_queue_full=False,
                max_pending_messages=pending,
                send_timeout_millis=round(self._options.send_timeout_s * 1000),
                initial_sequence_id=None,
            )
        except PulsarException as error:
            raise translate(error, f"publish to {topic}", self.url) from error

    async def open_consumer(
        self, topic: str, group: str, kind: ConsumerType, start: Start | None, fetch: int, name: str
    ) -> Consumer:
        """Join a subscription of the cluster.

        Args:
            topic: Full name of the topic.
            group: Name of the subscription.
            kind: How its consumers share.
            start: Where it begins when it is new.
            fetch: Messages that the library fetches ahead, 0 or more.
            name: Name of the consumer; made by the broker when empty.
        """
        return await self._shielded(self._subscribe(topic, group, kind, start, fetch, name))

    async def _subscribe(
        self,
        topic: str,
        group: str,
        kind: ConsumerType,
        start: Start | None,
        fetch: int,
        name: str,
        *,
        schema_published: bool = False,
    ) -> Consumer:
        earliest = start is not Start.LATEST
        try:
            return await self.connected().subscribe(
                self.on_cluster(topic),
                group,
                consumer_type=kind,
                schema=self._schema(topic),
                receiver_queue_size=fetch,
                consumer_name=name or None,
                initial_position=InitialPosition.Earliest if earliest else InitialPosition.Latest,
            )
        except PulsarException as error:
            if error.error() == Result.InvalidConfiguration and fetch == 0:
                # A partitioned topic cannot be read without fetching ahead.
                return await self._subscribe(topic, group, kind, start, 1, name)
            if error.error() == Result.IncompatibleSchema and not schema_published:
                # A consumer may not bring the schema of a topic that is in use without one; a producer may, and
                # its error names the field that does not fit.
                await close_quietly(await self.open_producer(topic))
                return await self._subscribe(
                    topic, group, kind, start, fetch, name, schema_published=True
                )
            raise translate(error, f"subscribe {group!r} to {topic}", self.url) from error

    async def open_reader(self, topic: str, start: Start | None, fetch: int, name: str) -> Reader:
        """Open a reader: an exclusive subscription that the broker forgets when it is closed."""
        first = pulsar.MessageId.earliest if start is Start.EARLIEST else pulsar.MessageId.latest
        try:
            return await self._shielded(
                self.connected().create_reader(
                    self.on_cluster(topic), first, receiver_queue_size=fetch, reader_name=name
                )
            )
        except PulsarException as error:
            raise translate(error, f"read {topic}", self.url) from error

    async def keep_dead_letters(self, topic: str) -> None:
        """Make sure that a group holds dead letters: the broker empties a topic without one."""
        if topic in self._kept or not topic.startswith("persistent://"):
            return
        try:
            consumer = await self.open_consumer(
                topic, DEAD_LETTER_GROUP, ConsumerType.Shared, Start.EARLIEST, 1, ""
            )
        except Unavailable as error:
            if not is_taken(error):
                raise
            # The dead letters are being read, so there is a group.
        else:
            await close_quietly(consumer)
        self._kept.add(topic)

    def connected(self) -> Client:
        """Return the client of the library, made in the event loop it is used in.

        Raises:
            ConfigError: The transport is used in two event loops.
            Unavailable: It is closed.
        """
        if self.closing:
            raise Unavailable(f"the transport to {self.url} is closed")
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
        options = self._options
        log = pulsar.FileLogger(pulsar.LoggerLevel.Warn, options.client_log or os.devnull)
        return Client(
            self.url,
            authentication=options.authentication(),
            operation_timeout_seconds=options.operation_timeout_s,
            io_threads=1,
            message_listener_threads=1,
            stats_interval_in_seconds=0,
            tls_trust_certs_file_path=options.tls_trust_certs or None,
            tls_validate_hostname=True,
            logger=log,
        )

    def _schema(self, topic: str) -> MessageSchema | None:
        message_type = self.types.get(topic)
        return MessageSchema(message_type) if message_type else None

    async def _shielded(self, opening: Coroutine[Any, Any, C]) -> C:
        """Finish opening although the caller gives up, and close then what was opened."""
        task = asyncio.create_task(opening)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            orphan = asyncio.create_task(_close_when_open(task))
            self._orphans.add(orphan)
            orphan.add_done_callback(self._orphans.discard)
            raise

    async def aclose(self) -> None:
        """Close the connection, after consumers and producers."""
        if self._orphans:
            await asyncio.wait(set(self._orphans), timeout=_CLOSE_S)
        client, self._client = self._client, None
        if client is not None:
            with suppress(PulsarException, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await client.close()
            # The library answers from a thread that then ends; an interpreter that ends before it crashes.
            await asyncio.sleep(_THREAD_END_S)


async def _close_when_open(opening: asyncio.Task[C]) -> None:
    with suppress(Exception):
        await close_quietly(await opening)
