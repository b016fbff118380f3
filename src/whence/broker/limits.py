"""Limits in time for many pieces of work, with one timer for all of them.

Nearly everything is done long before its time is over. A timer of its own for each request and each message
(`asyncio.timeout`) costs as much as handing a message over; the rules here are the same as there.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Protocol

import msgspec

from whence.broker.eager import DONE, first_step, rest

__all__ = ("Limit", "Limited", "Limits")

#: How late a limit may strike, in seconds; bounds how often all of them are looked through.
_TICK_S = 0.01


class Limit(msgspec.Struct, eq=False):
    """A limit for the time of a `with`: when it strikes, what runs inside is cancelled.

    The cancellation becomes a `TimeoutError` on the way out, unless somebody else cancelled the task as well.
    """

    limits: Limits
    """Watch it."""
    seconds: float | None
    """Its time; without, it strikes by hand only."""
    due: float = math.inf
    """End of its time, in seconds of the event loop's clock."""
    struck: bool = False
    """True once it struck."""
    task: asyncio.Task[Any] | None = None
    """What is cancelled; None before it begins and when it is over."""
    held: int = 0
    """Cancellations that the task knew of when it began."""

    def __enter__(self) -> Limit:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None, "there is nothing to cancel outside a task"
        self.task = task
        self.held = task.cancelling()
        if self.seconds is not None:
            self.due = loop.time() + self.seconds
            self.limits.add(self, loop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self.task = self.task, None
        if not self.struck:
            self.limits.discard(self)
        elif task is not None:
            alone = task.uncancel() <= self.held
            if alone and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise TimeoutError from error

    def strike(self) -> None:
        """Cancel what runs inside; nothing when it is over or was struck before."""
        if self.task is not None and not self.struck:
            self.struck = True
            self.task.cancel()

    def strike_soon(self) -> None:
        """Strike in the next turn of the event loop."""
        asyncio.get_running_loop().call_soon(self.strike)


class Limited(Protocol):
    """Something whose time ends."""

    due: float
    """End of its time, in seconds of the event loop's clock."""

    def strike(self) -> None:
        """Take note that its time is over."""
        ...


class Limits:
    """Watches limits of one event loop at a time.

    Cost: O(1) for each that is left in time. When the timer goes off all are looked through, at most once in
    10 ms.
    """

    def __init__(self) -> None:
        self._open: set[Limited] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

    def within(self, seconds: float | None) -> Limit:
        """Give a limit of some seconds from its `with` on; None never strikes by itself.

        One of no seconds or less strikes as soon as the task waits for something.
        """
        return Limit(self, seconds)

    async def keep(self, work: Coroutine[Any, Any, object], seconds: float) -> None:
        """Do some work within some seconds, watched from where it first waits for something.

        Raises:
            TimeoutError: It took longer.
        """
        waits_for = first_step(work)
        if waits_for is not DONE:
            with self.within(seconds):
                await rest(work, waits_for)

    def add(self, limit: Limited, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch in the running event loop."""
        if loop is not self._loop:
            # What another loop left behind never ends, nor does its timer go off.
            self._open.clear()
            self._loop, self._alarm, self._alarm_at = loop, None, math.inf
        self._open.add(limit)
        if limit.due < self._alarm_at:
            self._arm(loop, limit.due)

    def discard(self, limit: Limited) -> None:
        """Watch no more. The timer stays for the next one."""
        self._open.discard(limit)

    def close(self) -> None:
        """Put the timer away."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = None, math.inf

    def _arm(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = loop.call_at(due, self._look, loop), due

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm, self._alarm_at = None, math.inf
        now = loop.time()
        for limit in [one for one in self._open if one.due <= now]:
            self._open.discard(limit)
            limit.strike()
        if self._open:
            self._arm(loop, max(now + _TICK_S, min(one.due for one in self._open)))
