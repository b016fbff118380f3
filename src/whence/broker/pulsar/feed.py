"""A consumer of the client library and the tasks that receive from it.

A cancelled `receive` of the library (3.13) loses the next message, so the tasks here are never cancelled: they
fill a queue, and a caller that is cancelled only stops waiting at that queue. A consumer that is lost is opened
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from pulsar import Message
from pulsar.asyncio import Consumer, Producer, PulsarException, Reader

from whence.broker.clock import Clock
from whence.schema.errors import WhenceError

logger = logging.getLogger(__name__)

#: First and longest wait before a lost consumer is opened again, seconds.
_REOPEN_S = (0.1, 5.0)
#: How long closing something may take; a broker that is gone must not keep the caller.
_CLOSE_S = 5.0


async def close_quietly(resource: Consumer | Producer | Reader) -> None:
    """Close, but wait no longer than 5 s for a broker that may be gone."""
    with suppress(PulsarException, TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await resource.close()


class FeedOwner(Protocol):
    """What a feed needs of its subscription."""

    @property
    def clock(self) -> Clock:
        """Source of time."""
        ...

    #: Set when `has_room` may have changed.
    room: asyncio.Event

    def has_room(self, feed: ConsumerFeed) -> bool:
        """Return whether a feed may fetch one more message."""
        ...

    async def accept(self, feed: ConsumerFeed, message: Message) -> None:
        """Take a message from the broker."""
        ...

    async def abandon(self) -> None:
        """Close the client at once: the event loop is closing."""
        ...


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
        owner: FeedOwner,
        topic: str,
        name: str,
        lanes: int,
        open_consumer: Callable[[], Awaitable[Consumer | Reader]],
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
        self._consumer: Consumer | Reader | None = None
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
        if not isinstance(self._consumer, Consumer):
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
            await owner.abandon()
            raise

    async def _receive(self, consumer: Consumer | Reader) -> Message | None:
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

    async def _reopen(self, lost: Consumer | Reader | None) -> None:
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
