"""Sources of time that a test can replace."""

from __future__ import annotations

import asyncio
import time as machine
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call; does nothing when it ran already."""
        ...


class Clock(Protocol):
    """The time of day, a monotonic clock and timers."""

    def time(self) -> float:
        """Return seconds since the epoch, for timestamps and deadlines that travel."""
        ...

    def monotonic(self) -> float:
        """Return seconds from some fixed point, never backwards, for waits."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Schedule `callback` to run on the event loop after `delay_s` seconds."""
        ...


class SystemClock:
    """The clocks of this machine and the timers of the running event loop."""

    time = staticmethod(machine.time)
    monotonic = staticmethod(machine.monotonic)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Schedule `callback` to run on the running event loop after `delay_s` seconds."""
        return asyncio.get_running_loop().call_later(delay_s, callback)


class ShiftedClock:
    """A clock whose time of day is corrected by an offset.

    Args:
        clock: The clock of this machine.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Seconds to add to the time of day.
        self.offset_s = 0.0

    def time(self) -> float:
        """Return corrected seconds since the epoch."""
        return self._clock.time() + self.offset_s

    def monotonic(self) -> float:
        """Return seconds from some fixed point, never backwards, for waits."""
        return self._clock.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Schedule `callback` to run on the event loop after `delay_s` seconds."""
        return self._clock.call_later(delay_s, callback)


def clock_of(resource: object) -> Clock:
    """Return the clock of a resource that has one, else this machine's."""
    clock: Clock | None = getattr(resource, "clock", None)
    return clock or SystemClock()
