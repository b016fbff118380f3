"""When to retry and how long to wait, in tenacity's terms: stop, wait, retry-if.

`WhenceError.retryable` states whether a retry can help; any other exception is a bug, which repeating does not
cure.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from enum import StrEnum

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
)
from tenacity.wait import wait_base

from whence.broker.transport import RetryPolicy
from whence.schema.errors import ConfigError, DiskFull, HomeTooNew, ModelMissing, WhenceError

__all__ = ("ErrorKind", "check_policy", "classify", "retrying", "wait_backoff", "wait_s")

#: Errors that every message would meet, so that giving up this one would not help.
_FATAL = (DiskFull, HomeTooNew, ModelMissing, MemoryError)


class ErrorKind(StrEnum):
    """What an error means for the message at hand."""

    RETRYABLE = "retryable"
    """The same message may succeed later."""
    PERMANENT = "permanent"
    """This message can never succeed."""
    FATAL = "fatal"
    """No message can succeed until somebody repairs something outside."""


def classify(error: BaseException) -> ErrorKind:
    """Return whether the message that caused an error can succeed later."""
    if isinstance(error, _FATAL):
        return ErrorKind.FATAL
    if isinstance(error, WhenceError) and error.retryable:
        return ErrorKind.RETRYABLE
    return ErrorKind.PERMANENT


def check_policy(policy: RetryPolicy) -> RetryPolicy:
    """Return the policy when all its values are in range.

    Raises:
        ConfigError: One is not; the message names it.
    """
    ranges = {
        "max_attempts": policy.max_attempts >= 1,
        "base_delay_s": 0 <= policy.base_delay_s < float("inf"),
        "factor": 1 <= policy.factor < float("inf"),
        "max_delay_s": 0 <= policy.max_delay_s < float("inf"),
        "jitter": 0 <= policy.jitter <= 1,
    }
    for name, good in ranges.items():
        if not good:
            raise ConfigError(
                f"retry policy: {name} is {getattr(policy, name)!r}",
                hint="attempts and factor are at least 1, delays finite and 0 or more, jitter 0 to 1",
            )
    return policy


class wait_backoff(wait_base):  # noqa: N801 - tenacity names its strategies so
    """Wait strategy of a `RetryPolicy`: exponential, capped, its last share random.

    The random part only ever shortens the wait, so the cap holds. `retry_after_s` of the last error is
    respected as a lower bound.

    Args:
        policy: Base, factor, cap and jitter.
        uniform: Source of numbers from 0 to 1.
    """

    def __init__(self, policy: RetryPolicy, uniform: Callable[[], float] = random.random) -> None:
        self._exponential = wait_exponential(
            multiplier=policy.base_delay_s, exp_base=policy.factor, max=policy.max_delay_s
        )
        self._jitter = policy.jitter
        self._uniform = uniform

    def __call__(self, retry_state: RetryCallState) -> float:
        """Return the seconds to wait after attempt `retry_state.attempt_number`."""
        wait = self._exponential(retry_state) * (1.0 - self._jitter * self._uniform())
        error = retry_state.outcome.exception() if retry_state.outcome is not None else None
        if isinstance(error, WhenceError) and error.retry_after_s is not None:
            return max(wait, error.retry_after_s)
        return wait


def wait_s(
    policy: RetryPolicy,
    attempt: int,
    *,
    error: BaseException | None = None,
    uniform: Callable[[], float] = random.random,
) -> float:
    """Return the seconds between attempt `attempt` (from 1), which failed with `error`, and the next."""
    state = RetryCallState(AsyncRetrying(), None, (), {})
    state.attempt_number = max(attempt, 1)
    if error is not None:
        state.set_exception((type(error), error, error.__traceback__))
    return wait_backoff(policy, uniform)(state)


def retrying(
    policy: RetryPolicy,
    *,
    uniform: Callable[[], float] = random.random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncRetrying:
    """Return a tenacity controller that repeats what is retryable and raises the last error.

    Example:
        `async for attempt in retrying(policy):` and in it `with attempt: await call()`.
    """
    return AsyncRetrying(
        stop=stop_after_attempt(policy.max_attempts),
        wait=wait_backoff(policy, uniform),
        retry=retry_if_exception(lambda error: classify(error) is ErrorKind.RETRYABLE),
        sleep=sleep,
        reraise=True,
    )
