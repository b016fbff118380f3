"""Time as the broker sees it: one source that a test can replace."""

from __future__ import annotations

import asyncio
import time as machine
from collections.abc import Callable
from typing import Protocol, runtime_checkable

__all__ = ("Clock", "Clocked", "ShiftedClock", "SystemClock", "Timer", "clock_of")


class Timer(Protocol):
    """A call that was arranged for later."""

    def cancel(self) -> None:
        """Call it off; nothing happens when it ran already."""
        ...


class Clock(Protocol):
    """Two clocks and an alarm."""

    def time(self) -> float:
        """Give seconds since the epoch, for stamps and deadlines that travel."""
        ...

    def monotonic(self) -> float:
        """Give seconds from some fixed point, never backwards, for waits."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Arrange for `callback` to run on the event loop after `delay_s` seconds."""
        ...


class SystemClock:
    """The clocks of this machine and the timers of the running event loop."""

    time = staticmethod(machine.time)
    monotonic = staticmethod(machine.monotonic)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Arrange for `callback` to run on the running event loop after `delay_s` seconds."""
        return asyncio.get_running_loop().call_later(delay_s, callback)


class ShiftedClock:
    """A clock whose time of day is set right by somebody else's.

    Args:
        clock: The clock of this machine.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Seconds to add to the time of day.
        self.offset_s = 0.0

    def time(self) -> float:
        """Give seconds since the epoch by the other's clock."""
        return self._clock.time() + self.offset_s

    def monotonic(self) -> float:
        """Give seconds from some fixed point, never backwards, for waits."""
        return self._clock.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Arrange for `callback` to run on the event loop after `delay_s` seconds."""
        return self._clock.call_later(delay_s, callback)


@runtime_checkable
class Clocked(Protocol):
    """Something that goes by a clock of its own."""

    @property
    def clock(self) -> Clock:
        """Its source of time."""
        ...


def clock_of(thing: object) -> Clock:
    """Give the clock that something goes by, else this machine's."""
    return thing.clock if isinstance(thing, Clocked) else SystemClock()
