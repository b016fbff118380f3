"""A clock that the test advances."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class _ManualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Both clocks of `whence.broker.clock.Clock` in one, with timers that run inside `advance`.

    Args:
        now: Seconds since the epoch at the start.
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._numbers = count()
        self._timers: list[tuple[float, int, _ManualTimer]] = []

    def time(self) -> float:
        """Return seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """Return the same seconds."""
        return self._now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> _ManualTimer:
        """Schedule `callback` for the time `delay_s` seconds from now."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (self._now + delay_s, next(self._numbers), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Advance the clock, and run every timer on the way in order."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            if timer.callback is not None:
                timer.callback()
        self._now = end

    @property
    def pending(self) -> int:
        """Timers that have not run and were not cancelled."""
        return sum(timer.callback is not None for _, _, timer in self._timers)
