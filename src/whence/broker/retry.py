"""When to retry, and how long to wait.

`WhenceError.retryable` states whether a retry can help; any other exception is a bug, which repeating does not
cure.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import StrEnum

from whence.broker.transport import RetryPolicy
from whence.schema.errors import ConfigError, DiskFull, HomeTooNew, ModelMissing, WhenceError

#: Errors that every message would meet, so that giving up this one would not help.
_FATAL = (DiskFull, HomeTooNew, ModelMissing, MemoryError)


class ErrorKind(StrEnum):
    """What an error means for the message at hand."""

    RETRYABLE = "retryable"
    """The same message may succeed later."""
    PERMANENT = "permanent"
    """This message can never succeed."""
    FATAL = "fatal"
    """No message can succeed until an operator acts, for example frees disk space."""


def classify_error(error: BaseException) -> ErrorKind:
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


def wait_s(
    policy: RetryPolicy,
    attempt: int,
    *,
    error: BaseException | None = None,
    uniform: Callable[[], float] = random.random,
) -> float:
    """Return the seconds between an attempt that failed and the next: exponential, capped, with jitter.

    The random part only shortens the wait, so that the cap holds. `retry_after_s` of the error is a lower
    bound.

    Args:
        policy: Base, factor, cap and jitter.
        attempt: Number of the attempt that failed, from 1.
        error: Why it failed.
        uniform: Source of numbers from 0 to 1.
    """
    try:
        wait = policy.base_delay_s * policy.factor ** (max(attempt, 1) - 1)
    except OverflowError:
        wait = policy.max_delay_s
    wait = min(wait, policy.max_delay_s) * (1.0 - policy.jitter * uniform())
    if isinstance(error, WhenceError) and error.retry_after_s is not None:
        return max(wait, error.retry_after_s)
    return wait
