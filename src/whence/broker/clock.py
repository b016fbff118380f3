"""Time as the broker sees it: one source that a test can replace."""

from __future__ import annotations

import asyncio
import time as machine
from collections.abc import Callable
from typing import Protocol

__all__ = ("Clock", "SystemClock", "Timer")


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
