"""Keeps one replica of a processor running: starts it, watches it and restarts it when it fails.

Waits between restarts grow from 0.5 s to 30 s. After five restarts within a minute the replica is unhealthy
and is not restarted. The same holds for a first start that fails for a permanent reason, such as a wrong
setting.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from whence.broker.retry import ErrorKind, classify_error
from whence.schema.errors import InternalError, WhenceError, error_text

if TYPE_CHECKING:
    from whence.flow.binding import Replica

logger = logging.getLogger(__name__)


class State(StrEnum):
    """State of a replica."""

    STARTING = "starting"
    """Starting for the first time."""
    RUNNING = "running"
    RESTARTING = "restarting"
    """Failed; waiting for a restart, or restarting."""
    UNHEALTHY = "unhealthy"
    """Failed too often, or permanently; not restarted."""
    STOPPED = "stopped"


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Waits between restarts, and their number."""

    first_delay_s: float = 0.5
    factor: float = 2.0
    max_delay_s: float = 30.0
    max_restarts: int = 5
    """Restarts within `window_s` after which the next failure is final."""
    window_s: float = 60.0

    def delay_s(self, restarts: int) -> float:
        """Return the wait before a restart, after `restarts` others within the window."""
        return min(self.first_delay_s * self.factor**restarts, self.max_delay_s)


class Supervisor:
    """Supervises one replica."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Replica],
        *,
        policy: RestartPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.state = State.STARTING
        #: Restarts since the beginning.
        self.restarts = 0
        #: The last failure; None before the first one.
        self.last_error: BaseException | None = None
        #: Set when the replica receives messages for the first time, or is unhealthy.
        self.settled = asyncio.Event()
        self._make = make
        self._policy = policy or RestartPolicy()
        self._clock = clock
        self._recent: deque[float] = deque()
        self._replica: Replica | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Start the replica; the task ends with an error when it becomes unhealthy."""
        assert self._task is None, "a supervisor starts once"
        self._task = asyncio.create_task(self._supervise(), name=f"whence-{self.name}")
        return self._task

    async def stop(self, drain_s: float = 0.0) -> None:
        """Stop the replica after at most `drain_s` seconds for messages in progress. Idempotent."""
        running = self.state is State.RUNNING
        if self.state is not State.UNHEALTHY:
            self.state = State.STOPPED
        if not running:
            # A start that continues would leave a consumer that is never stopped.
            await self._end_task()
        try:
            if self._replica is not None:
                await self._replica.stop(drain_s if running else 0.0)
        finally:
            await self._end_task()

    def raise_failure(self) -> None:
        """Raise the failure of an unhealthy replica, if there is one."""
        task = self._task
        if task is not None and task.done() and not task.cancelled():
            error = task.exception()
            if error is not None:
                raise error

    async def _end_task(self) -> None:
        task = self._task
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            # Marks the error as retrieved; the runtime raises it by `raise_failure`.
            task.exception()

    async def _supervise(self) -> None:
        try:
            while True:
                error, started = await self._run_once()
                if self.state is State.STOPPED:
                    return
                self.last_error = error
                self._raise_if_final(error, started=started)
                await self._wait_for_restart(error)
        finally:
            self.settled.set()

    async def _run_once(self) -> tuple[BaseException, bool]:
        """Run a replica until it fails; return the error and whether the start succeeded."""
        replica = self._replica = self._make()
        started = False
        try:
            await replica.start()
            started = True
            self.state = State.RUNNING
            self.settled.set()
            await replica.run()
            return InternalError(f"{self.name} ended without being asked to"), started
        except Exception as error:  # noqa: BLE001 - any error leads to a restart or to the end
            return error, started
        finally:
            # On request, `stop` closes the replica.
            if self.state is not State.STOPPED:
                await self._close(replica)

    async def _close(self, replica: Replica) -> None:
        try:
            await replica.stop(0.0)
        except Exception as error:  # noqa: BLE001 - the replica failed already; its first error counts
            logger.warning(
                "processor did not close cleanly",
                extra={"action": "close", "processor": self.name, "error": str(error)},
            )

    def _raise_if_final(self, error: BaseException, *, started: bool) -> None:
        now = self._clock()
        while self._recent and self._recent[0] <= now - self._policy.window_s:
            self._recent.popleft()
        permanent = (
            isinstance(error, WhenceError)
            and not isinstance(error, InternalError)
            and classify_error(error) is not ErrorKind.RETRYABLE
        )
        if (started or not permanent) and len(self._recent) < self._policy.max_restarts:
            return
        self.state = State.UNHEALTHY
        logger.error(
            "processor given up",
            extra={
                "action": "give_up",
                "processor": self.name,
                "restarts": self.restarts,
                "error": f"{type(error).__name__}: {error}",
            },
            # A traceback helps with a fault of Whence, not with one of its environment.
            exc_info=None if permanent else error,
        )
        raise _failure(self.name, error, len(self._recent)) from error

    async def _wait_for_restart(self, error: BaseException) -> None:
        delay_s = self._policy.delay_s(len(self._recent))
        self.state = State.RESTARTING
        self.restarts += 1
        self._recent.append(self._clock())
        logger.warning(
            "processor restarts",
            extra={
                "action": "restart",
                "processor": self.name,
                "delay_s": delay_s,
                "error": f"{type(error).__name__}: {error}",
            },
        )
        await asyncio.sleep(delay_s)


def _failure(name: str, error: BaseException, restarts: int) -> WhenceError:
    """Return the error that ends the flow, of the same class as its cause where that is ours."""
    after = f" after {restarts} restarts" if restarts else ""
    text = error_text(error)
    if isinstance(error, WhenceError):
        return type(error)(f"processor {name} failed{after}: {text}", hint=error.hint)
    return InternalError(f"processor {name} failed{after}: {type(error).__name__}: {text}")
