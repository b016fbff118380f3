"""Signals that request a stop, awaitable in the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable
from contextlib import suppress

#: Exit code of a process that Ctrl-C ended.
_INTERRUPTED = 130


class StopSignals:
    """Handles SIGTERM and SIGINT within a `with` block.

    After a block that SIGINT ended, another SIGINT ends the process at once with exit code 130. An exception of
    it could reach code that must not be left half-way, such as that of extensions.
    """

    def __init__(self) -> None:
        self.received = asyncio.Event()
        """Set by the first signal, for work that ends by itself."""
        self.interrupted = False
        """Whether SIGINT (Ctrl-C) was among the signals."""

    def __enter__(self) -> StopSignals:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Only the main thread can handle signals; elsewhere the caller cancels instead.
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self._stop, number)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.remove_signal_handler(number)
        if self.interrupted:
            with suppress(ValueError):
                signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))

    def _stop(self, number: int) -> None:
        self.interrupted |= number == signal.SIGINT
        self.received.set()

    def reset(self) -> None:
        """Forget the signal received; `run` waits for the next one."""
        self.received.clear()

    async def run(self, work: Awaitable[None]) -> bool:
        """Await work, or cancel it on a signal; return whether the work was completed."""
        task = asyncio.ensure_future(work)
        signal_task = asyncio.create_task(self.received.wait())
        try:
            await asyncio.wait({task, signal_task}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
                return True
            return False
        finally:
            for one in (task, signal_task):
                one.cancel()
            await asyncio.gather(task, signal_task, return_exceptions=True)
