"""The time allowed for a piece of work, and how much of it each call may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from whence.schema.errors import DeadlineExceeded, InternalError, Unavailable, WhenceError

__all__ = ("Deadline", "as_whence_error")

T = TypeVar("T")


class Deadline:
    """The end of the time for a piece of work.

    Args:
        total_s: Seconds from now; None for no limit.
        monotonic: Clock in seconds that never goes back.
    """

    def __init__(
        self, total_s: float | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._end = None if total_s is None else monotonic() + total_s

    def remaining_s(self) -> float | None:
        """Return the seconds left, never negative; None when there is no limit."""
        return None if self._end is None else max(0.0, self._end - self._monotonic())

    def within(self, seconds: float) -> Deadline:
        """Return a deadline that ends after some seconds, or with this one."""
        left = self.remaining_s()
        total = seconds if left is None else min(seconds, left)
        return Deadline(total, monotonic=self._monotonic)

    async def limit(
        self,
        what: str,
        call: Callable[[], Awaitable[T]],
        timeout_s: float | None = None,
        *,
        share: float = 1.0,
    ) -> T:
        """Make one call within its own time and that of the whole.

        Args:
            what: The call in words, for messages, e.g. `embedding the question`.
            call: Starts it; not called when the time is over.
            timeout_s: Seconds for this call; None for no limit of its own.
            share: Part of the remaining time that it may take, 0 to 1. A call whose result is optional must
                leave time for those after it.

        Raises:
            DeadlineExceeded: The time ran out.
            WhenceError: The call failed; other exceptions are chained to an `InternalError`.
        """
        left = self.remaining_s()
        allowed = timeout_s
        if left is not None:
            allowed = left * share if timeout_s is None else min(timeout_s, left * share)
        if allowed is not None and allowed <= 0:
            raise DeadlineExceeded(f"the time of the question was over before {what}")
        scope = asyncio.timeout(allowed)
        try:
            async with scope:
                return await call()
        except WhenceError:
            raise
        except Exception as error:
            if scope.expired() and isinstance(error, TimeoutError):
                raise DeadlineExceeded(f"{what} was not done within {allowed:.3g} s") from error
            raise as_whence_error(error, what) from error


def as_whence_error(error: Exception, what: str) -> WhenceError:
    """Return a `WhenceError` for any exception; its message is never empty."""
    if isinstance(error, WhenceError):
        return error
    if isinstance(error, TimeoutError):
        return Unavailable(f"{what} timed out" + (f": {error}" if str(error) else ""))
    detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return InternalError(f"{what} failed: {detail}")
