"""Keeps one replica of a processor running: starts it, watches it, starts it again when it fails.

Waits between restarts grow from 0.5 s to 30 s. Five restarts within a minute mean that restarting does not
help: the replica is given up, with the last error as the cause. A start that fails for a reason that no
repetition can cure (a wrong setting) is given up at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

import msgspec

from whence.broker.retry import ErrorKind, classify
from whence.schema.errors import InternalError, WhenceError

__all__ = ("Member", "RestartPolicy", "State", "Supervisor")

logger = logging.getLogger(__name__)


class Member(Protocol):
    """One life of a replica; a new one is made for every restart."""

    async def start(self) -> None:
        """Get ready; messages may come from now on."""
        ...

    async def run(self) -> None:
        """Work until `stop` is called.

        Raises:
            Exception: Whatever ended it otherwise.
        """
        ...

    async def stop(self, drain_s: float) -> None:
        """Take no more, finish what is begun within `drain_s` seconds, hand back the rest, free all.

        Must also work when `start` failed or never ran, and more than once.
        """
        ...


class State(StrEnum):
    """Where a replica stands."""

    STARTING = "starting"
    """Getting ready for the first time."""
    RUNNING = "running"
    """It takes messages."""
    RESTARTING = "restarting"
    """It failed and waits, or gets ready, to run again."""
    UNHEALTHY = "unhealthy"
    """It was given up."""
    STOPPED = "stopped"
    """It was asked to stop, and did."""


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When to start again, and when to give up."""

    first_delay_s: float = 0.5
    """Seconds before the first restart."""
    factor: float = 2.0
    """Growth from one wait to the next."""
    max_delay_s: float = 30.0
    """Longest wait in seconds."""
    max_restarts: int = 5
    """Restarts within `window_s` that are one too many."""
    window_s: float = 60.0
    """Seconds for which a restart counts."""

    def delay_s(self, restarts: int) -> float:
        """Return the wait before a restart, after `restarts` others within the window."""
        return min(self.first_delay_s * self.factor**restarts, self.max_delay_s)


class Supervisor:
    """Supervises one replica.

    Args:
        name: Name for logs, e.g. `search[0]`.
        make: Makes a new life of the replica.
        policy: When to restart.
        clock: Seconds that never go back.
        sleep: Waits.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Member],
        *,
        policy: RestartPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self.state = State.STARTING
        #: Restarts since the beginning.
        self.restarts = 0
        #: What ended the last life; None as long as nothing did.
        self.last_error: BaseException | None = None
        #: Set when it takes messages for the first time, or was given up before.
        self.settled = asyncio.Event()
        self._make = make
        self._policy = policy or RestartPolicy()
        self._clock = clock
        self._sleep = sleep
        self._recent: deque[float] = deque()
        self._member: Member | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Begin; the task ends with an error when the replica is given up."""
        assert self._task is None, "a supervisor starts once"
        self._task = asyncio.create_task(self._supervise(), name=f"whence-{self.name}")
        return self._task

    async def stop(self, drain_s: float = 0.0) -> None:
        """Stop the replica: finish what is begun within `drain_s` seconds. Safe to call twice."""
        running = self.state is State.RUNNING
        if self.state is not State.UNHEALTHY:
            self.state = State.STOPPED
        if not running:
            # A start that goes on behind our back would leave a member that nobody stops.
            await self._end_task()
        try:
            if self._member is not None:
                await self._member.stop(drain_s if running else 0.0)
        finally:
            await self._end_task()

    def raise_failure(self) -> None:
        """Raise what the replica was given up for; nothing happens when it was not."""
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
            # Whoever waits for the replica sees the error; here it is only marked as seen.
            task.exception()

    async def _supervise(self) -> None:
        try:
            while True:
                error, started = await self._live()
                if self.state is State.STOPPED:
                    return
                self.last_error = error
                self._check(error, started=started)
                await self._pause(error)
        finally:
            self.settled.set()

    async def _live(self) -> tuple[BaseException, bool]:
        """Live one life of the replica; gives what ended it and whether it ever ran."""
        member = self._make()
        self._member = member
        started = False
        try:
            await member.start()
            started = True
            self.state = State.RUNNING
            self.settled.set()
            await member.run()
            return InternalError(f"{self.name} ended without being asked to"), started
        except Exception as error:  # noqa: BLE001 - whatever it is decides only about a restart
            return error, started
        finally:
            await self._bury(member)

    async def _bury(self, member: Member) -> None:
        """Free what a life held, unless `stop` does."""
        if self.state is State.STOPPED:
            return
        try:
            await member.stop(0.0)
        except Exception as error:  # noqa: BLE001 - it is over either way; the first error counts
            logger.warning(
                "processor did not close cleanly",
                extra={"action": "close", "processor": self.name, "error": str(error)},
            )

    def _check(self, error: BaseException, *, started: bool) -> None:
        """Raise when the replica is to be given up."""
        now = self._clock()
        while self._recent and self._recent[0] <= now - self._policy.window_s:
            self._recent.popleft()
        incurable = (
            isinstance(error, WhenceError)
            and not isinstance(error, InternalError)
            and classify(error) is not ErrorKind.RETRYABLE
        )
        hopeless = incurable and not started
        if not hopeless and len(self._recent) < self._policy.max_restarts:
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
            # Where it happened helps with a fault of ours; what is wrong outside is in the error's words.
            exc_info=None if incurable else error,
        )
        raise _cause(self.name, error, len(self._recent)) from error

    async def _pause(self, error: BaseException) -> None:
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
        await self._sleep(delay_s)


def _cause(name: str, error: BaseException, restarts: int) -> WhenceError:
    """Return the error that a flow ends with, of the same class as its cause when that is ours."""
    after = f" after {restarts} restarts" if restarts else ""
    text = str(error) or type(error).__name__
    message = f"processor {name} failed{after}: {text}"
    if isinstance(error, WhenceError):
        return type(error)(message, hint=error.hint)
    return InternalError(f"processor {name} failed{after}: {type(error).__name__}: {text}")
