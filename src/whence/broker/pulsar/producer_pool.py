"""The producers of one client: opened with the first message to a topic, closed when they are idle.

Every client that sends requests has a reply topic of its own, and a broker keeps a topic as long as a producer
is open: producers that stay open would keep the topics of all former clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pulsar.asyncio import Producer

from whence.broker.clock import Clock, Timer
from whence.broker.pulsar.subscription import close_quietly

#: Producers kept open, beyond those that are sending.
_MAX_IDLE = 256
#: Seconds without a message after which a producer is closed; opening one takes about 10 ms.
_IDLE_S = 300.0
#: How long `aclose` waits for producers that are being opened, seconds.
_OPENING_S = 5.0


class PooledProducer:
    """An open producer and its use."""

    def __init__(self, topic: str, producer: Producer, now: float) -> None:
        self.topic = topic
        self.producer = producer
        #: Messages without a receipt.
        self.sending = 0
        #: Monotonic second of the last receipt, or of the opening.
        self.used_at = now


class ProducerPool:
    """Shares producers by topic. Acquiring costs O(1); closing idle ones O(n) every few minutes.

    Args:
        opening: Opens the producer of a topic.
        clock: Source of time.
        max_idle: Producers kept open, 1 or more; the least recently used go first.
        idle_s: Seconds without a message after which a producer is closed, more than 0.
    """

    def __init__(
        self,
        opening: Callable[[str], Awaitable[Producer]],
        clock: Clock,
        *,
        max_idle: int = _MAX_IDLE,
        idle_s: float = _IDLE_S,
    ) -> None:
        self._open = opening
        self._clock = clock
        self._max_idle = max_idle
        self._idle_s = idle_s
        self._pooled: dict[str, PooledProducer] = {}
        self._opening: dict[str, asyncio.Task[PooledProducer]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None

    def __contains__(self, topic: str) -> bool:
        return topic in self._pooled

    def __len__(self) -> int:
        return len(self._pooled)

    async def acquire(self, topic: str) -> PooledProducer:
        """Return the producer of a topic, opened once for concurrent callers; release it after use.

        Raises:
            WhenceError: As the opening does.
        """
        pooled = self._pooled.get(topic) or await self._opened(topic)
        pooled.sending += 1
        return pooled

    def release(self, pooled: PooledProducer) -> None:
        """End what `acquire` began."""
        pooled.sending -= 1
        pooled.used_at = self._clock.monotonic()

    def discard(self, pooled: PooledProducer) -> None:
        """Close a producer and forget it; the next message to its topic opens another."""
        if self._pooled.get(pooled.topic) is pooled:
            del self._pooled[pooled.topic]
            task = asyncio.create_task(close_quietly(pooled.producer))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Wait for producers that are being opened, then close all. Waits 5 s at most for each of the two."""
        if self._timer is not None:
            self._timer.cancel()
        if self._opening:
            await asyncio.wait(set(self._opening.values()), timeout=_OPENING_S)
        for pooled in list(self._pooled.values()):
            self.discard(pooled)
        if self._closing:
            await asyncio.wait(set(self._closing))

    async def _opened(self, topic: str) -> PooledProducer:
        task = self._opening.get(topic)
        if task is None:
            task = self._opening[topic] = asyncio.create_task(self._add(topic))
            task.add_done_callback(lambda _: self._opening.pop(topic, None))
            # An error reaches the callers that wait; there may be none left to retrieve it.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _add(self, topic: str) -> PooledProducer:
        producer = await self._open(topic)
        oldest = sorted(self._idle(), key=lambda one: one.used_at)
        pooled = self._pooled[topic] = PooledProducer(topic, producer, self._clock.monotonic())
        for other in oldest[: max(0, len(self._pooled) - self._max_idle)]:
            self.discard(other)
        if self._timer is None:
            self._timer = self._clock.call_later(self._idle_s, self._close_idle)
        return pooled

    def _idle(self) -> list[PooledProducer]:
        return [pooled for pooled in self._pooled.values() if not pooled.sending]

    def _close_idle(self) -> None:
        """Close idle producers, and check again later."""
        expired = self._clock.monotonic() - self._idle_s
        for pooled in self._idle():
            if pooled.used_at <= expired:
                self.discard(pooled)
        self._timer = (
            self._clock.call_later(self._idle_s / 2, self._close_idle) if self._pooled else None
        )
