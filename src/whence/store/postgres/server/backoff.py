"""Waiting for another process, with log lines for the terminal."""

from __future__ import annotations

import asyncio
import logging
import time

#: Long waits have a logger of their own, which the command line shows; it shows nothing else of the server.
logger = logging.getLogger("whence.waiting")

_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.5
_REPORT_EVERY_S = 5.0


class Backoff:
    """Waits with growing pauses up to a timeout, and logs what for every 5 s.

    Args:
        timeout_s: Seconds until `wait` returns False.
        purpose: What it waits for.
    """

    def __init__(self, timeout_s: float, purpose: str) -> None:
        self._started = time.monotonic()
        self._timeout_s = timeout_s
        self._purpose = purpose
        self._pause_s = _FIRST_PAUSE_S
        self._reports = 0

    @property
    def waited_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started

    async def wait(self) -> bool:
        """Wait a little; return False when the time is over."""
        if self.waited_s >= self._timeout_s:
            return False
        if self.waited_s >= _REPORT_EVERY_S * (self._reports + 1):
            self._reports += 1
            logger.warning(
                "still waiting for %s (%.0f s)",
                self._purpose,
                self.waited_s,
                extra={"action": "wait"},
            )
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 1.5, _LONGEST_PAUSE_S)
        return True
