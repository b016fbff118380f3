"""An event loop in a thread of its own, for blocking calls.

They work from plain code, from any thread, and from the thread of a loop that is running: no loop is nested.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

__all__ = ("LoopThread",)

T = TypeVar("T")
R = TypeVar("R")

#: How long `close` waits for the thread, in seconds; what it holds is closed within.
_CLOSE_TIMEOUT_S = 15.0


class LoopThread(Generic[T]):
    """Runs coroutines for callers that wait. The thread starts with the first call and ends with `close`.

    Args:
        opened: Gives what the work needs, opened when the thread starts and closed when it ends, both in its
            loop. When opening fails the caller gets the error and the next call tries again.
        name: Name of the thread.
    """

    def __init__(
        self, opened: Callable[[], AbstractAsyncContextManager[T]], name: str = "whence-retriever"
    ) -> None:
        self._opened = opened
        self._name = name
        self._lock = threading.Lock()
        self._life: _Life[T] | None = None
        self._pending: set[concurrent.futures.Future[Any]] = set()

    def submit(self, work: Callable[[T], Coroutine[Any, Any, R]]) -> concurrent.futures.Future[R]:
        """Start a piece of work in the thread; waits until the thread is ready.

        Raises:
            RuntimeError: This is that thread: waiting here would be waiting for oneself.
        """
        life = self._started()
        future = asyncio.run_coroutine_threadsafe(work(life.thing()), life.loop())
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def run(self, work: Callable[[T], Coroutine[Any, Any, R]]) -> R:
        """Run a piece of work in the thread and wait for it.

        Raises:
            RuntimeError: As for `submit`, or the thread was closed meanwhile.
        """
        future = self.submit(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            raise RuntimeError("closed while it was searching") from error
        finally:
            # When the wait itself was interrupted (Ctrl-C) nobody wants the result any more.
            future.cancel()

    def close(self) -> None:
        """End the thread; work that is going on is cancelled. Safe to call twice, and from any thread."""
        with self._lock:
            life, self._life = self._life, None
        # First the work, then what it uses.
        for future in list(self._pending):
            future.cancel()
        if life is not None:
            life.end()

    def _started(self) -> _Life[T]:
        with self._lock:
            if self._life is not None and self._life.is_current():
                raise RuntimeError("a blocking search cannot be made by the search itself")
            if self._life is None or not self._life.is_alive():
                self._life = _Life(self._opened, self._name)
                # Whoever forgets to close does so when nobody can search any more. The life knows nothing of
                # this object, or it would never be let go.
                weakref.finalize(self, self._life.end)
            return self._life


class _Life(Generic[T]):
    """One thread from its start to its end."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[T]], name: str) -> None:
        self._opened = opened
        self._ready: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, T]]
        self._ready = concurrent.futures.Future()
        self._stop: asyncio.Event | None = None
        # A daemon: a program that ends without closing is not kept from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def loop(self) -> asyncio.AbstractEventLoop:
        return self._ready.result()[0]

    def thing(self) -> T:
        return self._ready.result()[1]

    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def is_alive(self) -> bool:
        return self._thread.is_alive() and not (self._ready.done() and self._ready.exception())

    def end(self) -> None:
        try:
            loop = self.loop()
        except Exception:  # noqa: BLE001 - it never began; whoever waited for it was told
            return
        if self._stop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._stop.set)
        if not self.is_current():
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the start
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        async with self._opened() as thing:
            self._ready.set_result((asyncio.get_running_loop(), thing))
            await self._stop.wait()
