"""Waits of the retry policy, and which errors are retried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.broker.retry import ErrorKind, check_policy, classify_error, wait_s
from whence.broker.transport import RetryPolicy
from whence.schema import errors
from whence.schema.errors import ConfigError, DiskFull, Overloaded, Unavailable

POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 20),
    base_delay_s=st.floats(0, 10),
    factor=st.floats(1, 5),
    max_delay_s=st.floats(0, 100),
    jitter=st.floats(0, 1),
)


def test_default_waits() -> None:
    """Without jitter the default policy waits 0.2 s, twice as long each time, and 30 s at most."""
    waits = [wait_s(RetryPolicy(jitter=0.0), attempt) for attempt in range(1, 11)]

    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])


@given(policy=POLICIES, attempt=st.integers(1, 200), share=st.floats(0, 1))
def test_wait_stays_in_its_bounds(policy: RetryPolicy, attempt: int, share: float) -> None:
    """A wait is between its fixed share and the whole, and at most the maximum."""
    whole = wait_s(policy, attempt, uniform=lambda: 0.0)
    wait = wait_s(policy, attempt, uniform=lambda: share)

    assert whole * (1 - policy.jitter) - 1e-9 <= wait <= whole <= policy.max_delay_s


@given(policy=POLICIES, attempt=st.integers(1, 50))
def test_waits_never_shrink(policy: RetryPolicy, attempt: int) -> None:
    """Apart from jitter, the next wait is at least as long."""
    first, second = (wait_s(policy, n, uniform=lambda: 0.0) for n in (attempt, attempt + 1))

    assert second >= first


def test_same_source_same_wait() -> None:
    """Equal randomness gives equal waits."""
    assert wait_s(RetryPolicy(), 3, uniform=lambda: 0.25) == pytest.approx(0.8 * (1 - 0.2 * 0.25))


def test_an_error_can_extend_the_wait() -> None:
    """`retry_after_s` of an error is a lower bound of the wait, even above the maximum."""
    slow = Overloaded("full", retry_after_s=45.0)
    quick = Overloaded("full", retry_after_s=0.01)
    policy = RetryPolicy(jitter=0.0)

    assert wait_s(policy, 1, error=slow) == 45.0
    assert wait_s(policy, 1, error=quick) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unavailable("x"), ErrorKind.RETRYABLE),
        (Overloaded("x"), ErrorKind.RETRYABLE),
        (errors.BadInput("x"), ErrorKind.PERMANENT),
        (errors.CodecError("x"), ErrorKind.PERMANENT),
        (errors.DeadlineExceeded("x"), ErrorKind.PERMANENT),
        (KeyError("x"), ErrorKind.PERMANENT),
        (ConnectionError("x"), ErrorKind.PERMANENT),
        (DiskFull("x"), ErrorKind.FATAL),
        (errors.ModelMissing("x"), ErrorKind.FATAL),
        (MemoryError(), ErrorKind.FATAL),
    ],
)
def test_error_kinds(error: BaseException, kind: ErrorKind) -> None:
    """`retryable` of an error decides; an error of the whole service is fatal, a bug is permanent."""
    assert classify_error(error) is kind


@pytest.mark.parametrize(
    "change",
    [
        {"max_attempts": 0},
        {"base_delay_s": -1.0},
        {"base_delay_s": float("nan")},
        {"factor": 0.5},
        {"max_delay_s": float("inf")},
        {"jitter": 1.5},
    ],
)
def test_policy_out_of_range_is_named(change: dict[str, float]) -> None:
    """A policy with a value out of range is refused, and the value is named."""
    with pytest.raises(ConfigError, match=next(iter(change))):
        check_policy(RetryPolicy(**change))  # type: ignore[arg-type]
