"""Poison messages: which are suspected, and how deaths are attributed to one message."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import ManualClock

from whence.broker.poison_messages import Decision, Probation, deaths_of
from whence.broker.transport import Delivery, Headers

START = 1_000.0
MAX_DEATHS = 5


def delivery(name: str = "m", headers: dict[str, str] | None = None, **options: Any) -> Delivery:
    """Return a redelivered message that was published before any worker started."""
    given: dict[str, Any] = {"redelivered": True, "published_at": START - 10, **options}
    own = {Headers.MESSAGE_ID: name, **(headers or {})}
    return Delivery(payload=b"", headers=own, id="1", topic="t", **given)


def suspects(budget: int = 4, now: float = START) -> Probation:
    """Return the probation of a worker that starts now."""
    return Probation(ManualClock(now=now), budget=budget, max_deaths=MAX_DEATHS)


def test_unsuspicious_messages_are_handled() -> None:
    """A first delivery, a message newer than the worker, and one with a deadline are handled."""
    mine = suspects()

    assert mine.decide(delivery(redelivered=False)) is Decision.HANDLE
    assert mine.decide(delivery(published_at=START + 1)) is Decision.HANDLE
    assert mine.decide(delivery(headers={Headers.DEADLINE: "1"})) is Decision.HANDLE
    assert mine.decide(delivery()) is Decision.COUNT


def test_a_counted_message_is_handled() -> None:
    """Once its death is counted, the worker that decided, and earlier ones, handle a message."""
    mine, other = suspects(), suspects()
    assert mine.decide(delivery()) is Decision.COUNT

    again = delivery(headers=mine.count_headers(delivery()))

    assert deaths_of(again) == 1
    assert mine.decide(again) is Decision.HANDLE
    assert other.decide(again) is Decision.HANDLE


def test_one_message_is_on_probation_at_a_time() -> None:
    """While one message is on probation, others wait; a death is counted for it alone."""
    mine = suspects()
    assert mine.decide(delivery("a")) is Decision.COUNT
    assert mine.decide(delivery("b")) is Decision.HOLD
    on_probation = delivery("a", mine.count_headers(delivery("a")))
    assert mine.decide(on_probation) is Decision.HANDLE
    mine.begin(on_probation)
    assert mine.decide(delivery("b")) is Decision.HOLD
    mine.end(on_probation)

    assert mine.decide(delivery("b")) is Decision.COUNT


def test_a_probation_taken_by_another_worker_ends() -> None:
    """A message on probation that another worker received is awaited for a limited time."""
    clock = ManualClock(now=START)
    mine = Probation(clock, budget=4, max_deaths=MAX_DEATHS)
    assert mine.decide(delivery("a")) is Decision.COUNT
    assert mine.decide(delivery("b")) is Decision.HOLD
    clock.advance(6)

    assert mine.decide(delivery("b")) is Decision.COUNT


def test_a_long_queue_is_not_blocked() -> None:
    """At most as many messages as a dead worker could hold are put on probation."""
    mine = suspects(budget=2)
    assert mine.decide(delivery("a")) is Decision.COUNT
    assert mine.decide(delivery("b")) is Decision.HOLD
    assert mine.decide(delivery("c")) is Decision.POSTPONE
    mine.end(delivery("a"))
    assert mine.decide(delivery("b")) is Decision.COUNT
    assert mine.decide(delivery("c")) is Decision.HOLD
    for name in ("d", "e"):
        assert mine.decide(delivery(name)) is Decision.POSTPONE
    mine.end(delivery("b"))
    for name in ("c", "d"):
        assert mine.decide(delivery(name)) is Decision.COUNT
        mine.end(delivery(name))

    assert mine.decide(delivery("e")) is Decision.HANDLE


@given(st.integers(1, 8))
def test_the_number_of_deaths_is_bounded(max_deaths: int) -> None:
    """A poison message kills `max_deaths` workers and no more."""
    deaths, now = 0, START
    at_hand = delivery(redelivered=False, published_at=START)
    headers: dict[str, str] = {}
    while deaths < 100:
        probation = Probation(ManualClock(now=now), budget=1, max_deaths=max_deaths)
        decision = probation.decide(at_hand)
        if decision is Decision.DEAD_LETTER:
            break
        if decision is Decision.COUNT:
            headers = probation.count_headers(at_hand)
            assert probation.decide(delivery(headers=headers)) is Decision.HANDLE
        deaths += 1
        now += 10
        at_hand = delivery(headers=headers)

    assert deaths == max_deaths


@given(st.text(max_size=20))
def test_invalid_counts_are_zero(text: str) -> None:
    """A header that is not a number counts as no death."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        assert deaths_of(delivery(headers={Headers.DEATHS: text})) == 0
