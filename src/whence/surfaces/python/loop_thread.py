"""An event loop in a thread, for blocking calls from any thread, also from one whose own loop is running."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: Time that `close` waits for the thread, in seconds.
_CLOSE_TIMEOUT_S = 15.0


class LoopThread(Generic[T]):
    """Runs coroutines in a thread that starts with the first call and ends with `close`.

    Args:
        open_resource: Returns what the coroutines use; opened when the thread starts and closed when it ends,
            in its loop. When opening fails the caller gets the error, and the next call tries again.
        name: Name of the thread.
    """

    def __init__(
        self,
        open_resource: Callable[[], AbstractAsyncContextManager[T]],
        name: str = "whence-retriever",
    ) -> None:
        self._open_resource = open_resource
        self._name = name
        self._lock = threading.Lock()
        self._worker: _Worker[T] | None = None
        self._pending: set[concurrent.futures.Future[Any]] = set()

    def run(self, work: Callable[[T], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine in the thread, as soon as that is ready, and wait for its result."""
        loop, resource = self._running_worker().ready.result()
        future = asyncio.run_coroutine_threadsafe(work(resource), loop)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            raise RuntimeError("closed while it was searching") from error
        finally:
            # After an interrupted wait (Ctrl-C) the result is not needed.
            future.cancel()

    def close(self) -> None:
        """Cancel running work and end the thread. Safe to call twice, and from any thread."""
        with self._lock:
            worker, self._worker = self._worker, None
        for future in list(self._pending):
            future.cancel()
        if worker is not None:
            worker.end()

    def _running_worker(self) -> _Worker[T]:
        with self._lock:
            if self._worker is not None and self._worker.thread is threading.current_thread():
                raise RuntimeError("a blocking search cannot be made by the search itself")
            if self._worker is None or not self._worker.is_alive():
                self._worker = _Worker(self._open_resource, self._name)
                # Ends the thread when this object is collected; the worker must not refer to it.
                weakref.finalize(self, self._worker.end)
            return self._worker


class _Worker(Generic[T]):
    def __init__(
        self, open_resource: Callable[[], AbstractAsyncContextManager[T]], name: str
    ) -> None:
        #: The loop and the resource, once it is open.
        self.ready: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, T]]
        self.ready = concurrent.futures.Future()
        self._open_resource = open_resource
        self._stop = asyncio.Event()
        # A daemon thread does not keep a program alive that ends without closing.
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def is_alive(self) -> bool:
        return self.thread.is_alive() and not (self.ready.done() and self.ready.exception())

    def end(self) -> None:
        try:
            loop, _ = self.ready.result()
        except Exception:  # noqa: BLE001 - it never started; the caller of `run` got the error
            return
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._stop.set)
        if self.thread is not threading.current_thread():
            self.thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised in the caller of `run`
            if not self.ready.done():
                self.ready.set_exception(error)

    async def _serve(self) -> None:
        async with self._open_resource() as resource:
            self.ready.set_result((asyncio.get_running_loop(), resource))
            await self._stop.wait()
