"""Limits in time for many pieces of work, with one timer for all of them.

Nearly everything is done long before its time is over. A timer of its own for each request and each message
(`asyncio.timeout`) costs as much as handing a message over; the rules here are the same as there.
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Protocol

__all__ = ("Limit", "Limited", "Limits")

#: How late a limit may strike, in seconds; bounds how often all of them are looked through.
_TICK_S = 0.01


class Limit:
    """A limit for the time of a `with`: when it strikes, what runs inside is cancelled.

    The cancellation becomes a `TimeoutError` on the way out, unless somebody else cancelled the task as well.
    """

    __slots__ = ("_held", "_limits", "_open", "_task", "due", "struck")

    def __init__(self, limits: Limits, due: float) -> None:
        self._limits = limits
        #: End of its time, in seconds of the event loop's clock.
        self.due = due
        #: True once it struck.
        self.struck = False
        self._open = False

    def __enter__(self) -> Limit:
        task = asyncio.current_task()
        assert task is not None, "there is nothing to cancel outside a task"
        self._task = task
        self._held = task.cancelling()
        self._open = True
        if self.due != math.inf:
            self._limits.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = False
        if not self.struck:
            self._limits.discard(self)
            return
        alone = self._task.uncancel() <= self._held
        if alone and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error

    def strike(self) -> None:
        """Cancel what runs inside; nothing when it is over or was struck before."""
        if self._open and not self.struck:
            self.struck = True
            self._task.cancel()

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
        """Give a limit of some seconds from now on, not begun; None never strikes by itself.

        One of no seconds or less strikes as soon as the task waits for something.
        """
        if seconds is None:
            return Limit(self, math.inf)
        return Limit(self, asyncio.get_running_loop().time() + seconds)

    def add(self, limit: Limited) -> None:
        """Begin to watch."""
        loop = asyncio.get_running_loop()
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
