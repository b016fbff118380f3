"""Signals that ask a process to stop, as something that its event loop can wait for."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from contextlib import suppress

__all__ = ("Signals",)


class Signals:
    """Counts the requests to stop, for the time of a `with`."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def __enter__(self) -> Signals:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Only the main thread can take signals; elsewhere the caller cancels instead.
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self._asked.set)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.remove_signal_handler(number)

    async def asked(self) -> None:
        """Wait for a signal."""
        await self._asked.wait()

    def again(self) -> None:
        """Wait for the next signal from now on."""
        self._asked.clear()

    async def unless_asked(self, work: Awaitable[None]) -> bool:
        """Do some work, or leave it when a signal comes; tells whether it was done.

        Raises:
            Exception: Whatever the work raises.
        """
        task = asyncio.ensure_future(work)
        asked = asyncio.create_task(self.asked())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
                return True
            return False
        finally:
            for one in (task, asked):
                one.cancel()
            await asyncio.gather(task, asked, return_exceptions=True)
