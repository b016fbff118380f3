"""The producers of one Pulsar client: opened with the first message to a topic, closed when nobody sends there.

Every client that asks something has a reply topic of its own, and a broker keeps a topic as long as a producer
is open: one that stayed open would keep the topics of all clients that ever asked.
"""

# mypy: untyped-calls-exclude=pulsar
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pulsar.asyncio import Producer

from whence.broker.clock import Clock, Timer
from whence.broker.pulsar.feed import close_quietly

__all__ = ("Lent", "Producers")

#: Producers kept open, beyond those that send just now.
_MOST = 256
#: Seconds without a message after which a producer is closed; opening one takes about 10 ms.
_IDLE_S = 300.0
#: How long to wait for what is being opened when all is closed, seconds.
_OPENING_S = 5.0


class Lent:
    """An open producer, and whether somebody sends with it."""

    __slots__ = ("producer", "sending", "topic", "used_at")

    def __init__(self, topic: str, producer: Producer, now: float) -> None:
        self.topic = topic
        self.producer = producer
        #: Messages without a receipt.
        self.sending = 0
        #: Monotonic second of the last receipt, or of the opening.
        self.used_at = now


class Producers:
    """Lends producers by topic. Lending costs O(1); looking for idle ones O(n) every few minutes.

    Args:
        opening: Opens the producer of a topic.
        clock: Source of time.
        most: Producers kept open, 1 or more; beyond it those go first that were not used for longest.
        idle_s: Seconds without a message after which a producer is closed, more than 0.
    """

    def __init__(
        self,
        opening: Callable[[str], Awaitable[Producer]],
        clock: Clock,
        *,
        most: int = _MOST,
        idle_s: float = _IDLE_S,
    ) -> None:
        self._open = opening
        self._clock = clock
        self._most = most
        self._idle_s = idle_s
        self._lent: dict[str, Lent] = {}
        self._opening: dict[str, asyncio.Task[Lent]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None

    def __contains__(self, topic: str) -> bool:
        return topic in self._lent

    def __len__(self) -> int:
        return len(self._lent)

    async def borrow(self, topic: str) -> Lent:
        """Give the producer of a topic, opened once for all that come together; give it back when done.

        Raises:
            WhenceError: As the opening does.
        """
        lent = self._lent.get(topic) or await self._opened(topic)
        lent.sending += 1
        return lent

    def give_back(self, lent: Lent) -> None:
        """End what `borrow` began."""
        lent.sending -= 1
        lent.used_at = self._clock.monotonic()

    def drop(self, lent: Lent) -> None:
        """Close a producer and forget it; the next to send to its topic opens another."""
        if self._lent.get(lent.topic) is lent:
            del self._lent[lent.topic]
            self._close_later(lent)

    async def aclose(self) -> None:
        """Wait for what is being opened, then close all. Waits 5 s at most for each of the two."""
        if self._timer is not None:
            self._timer.cancel()
        if self._opening:
            await asyncio.wait(set(self._opening.values()), timeout=_OPENING_S)
        for lent in list(self._lent.values()):
            self.drop(lent)
        if self._closing:
            await asyncio.wait(set(self._closing))

    async def _opened(self, topic: str) -> Lent:
        task = self._opening.get(topic)
        if task is None:
            task = self._opening[topic] = asyncio.create_task(self._add(topic))
            task.add_done_callback(lambda _: self._opening.pop(topic, None))
            # Told to those who wait; nobody may be left to be told.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _add(self, topic: str) -> Lent:
        producer = await self._open(topic)
        others = sorted(self._idle(), key=lambda one: one.used_at)
        lent = self._lent[topic] = Lent(topic, producer, self._clock.monotonic())
        for other in others[: max(0, len(self._lent) - self._most)]:
            self.drop(other)
        if self._timer is None:
            self._timer = self._clock.call_later(self._idle_s, self._sweep)
        return lent

    def _idle(self) -> list[Lent]:
        return [lent for lent in self._lent.values() if not lent.sending]

    def _sweep(self) -> None:
        """Close what nobody used for long, and look again later."""
        long_ago = self._clock.monotonic() - self._idle_s
        for lent in self._idle():
            if lent.used_at <= long_ago:
                self.drop(lent)
        self._timer = self._clock.call_later(self._idle_s / 2, self._sweep) if self._lent else None

    def _close_later(self, lent: Lent) -> None:
        task = asyncio.create_task(close_quietly(lent.producer))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
