"""Messages that may have killed a worker: who is suspected, and how deaths are put down to one message."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whence.broker.poison_messages import Suspects, Verdict, deaths_of
from whence.broker.transport import Delivery, Headers
from whence.testing.clock import ManualClock

START = 1_000.0
MAX_DEATHS = 5


def delivery(name: str = "m", headers: dict[str, str] | None = None, **options: Any) -> Delivery:
    """Give a message that was published before anybody started, and comes again."""
    given: dict[str, Any] = {"redelivered": True, "published_at": START - 10, **options}
    own = {Headers.MESSAGE_ID: name, **(headers or {})}
    return Delivery(body=b"", headers=own, id="1", topic="t", **given)


def suspects(budget: int = 4, now: float = START) -> Suspects:
    """Give the judgement of a worker that starts now."""
    return Suspects(ManualClock(now=now), budget=budget, max_deaths=MAX_DEATHS)


def test_who_is_above_suspicion() -> None:
    """What comes for the first time, was published after the worker came or has a deadline is handled."""
    mine = suspects()

    assert mine.judge(delivery(redelivered=False)) is Verdict.HANDLE
    assert mine.judge(delivery(published_at=START + 1)) is Verdict.HANDLE
    assert mine.judge(delivery(headers={Headers.DEADLINE: "1"})) is Verdict.HANDLE
    assert mine.judge(delivery()) is Verdict.COUNT


def test_a_counted_message_is_handled_by_any_worker_of_that_time() -> None:
    """Once its death is counted a message is handled, by its judge and by workers that were there."""
    mine, other = suspects(), suspects()
    assert mine.judge(delivery()) is Verdict.COUNT

    again = delivery(headers=mine.counted(delivery()))

    assert deaths_of(again) == 1
    assert mine.judge(again) is Verdict.HANDLE
    assert other.judge(again) is Verdict.HANDLE


def test_one_at_a_time() -> None:
    """While one message is on trial, others wait, and so does a death's blame; then comes the next."""
    mine = suspects()
    assert mine.judge(delivery("a")) is Verdict.COUNT
    assert mine.judge(delivery("b")) is Verdict.WAIT
    on_trial = delivery("a", mine.counted(delivery("a")))
    assert mine.judge(on_trial) is Verdict.HANDLE
    mine.begin(on_trial)
    assert mine.judge(delivery("b")) is Verdict.WAIT
    mine.end(on_trial)

    assert mine.judge(delivery("b")) is Verdict.COUNT


def test_a_trial_that_goes_elsewhere_ends() -> None:
    """A message that another member took for its trial is waited for a while only."""
    clock = ManualClock(now=START)
    mine = Suspects(clock, budget=4, max_deaths=MAX_DEATHS)
    assert mine.judge(delivery("a")) is Verdict.COUNT
    assert mine.judge(delivery("b")) is Verdict.WAIT
    clock.advance(6)

    assert mine.judge(delivery("b")) is Verdict.COUNT


def test_a_long_queue_is_not_held_up() -> None:
    """Only as many as a dead worker can have held are put on trial; others go on after that."""
    mine = suspects(budget=2)
    assert mine.judge(delivery("a")) is Verdict.COUNT
    assert mine.judge(delivery("b")) is Verdict.WAIT
    assert mine.judge(delivery("c")) is Verdict.POSTPONE
    mine.end(delivery("a"))
    assert mine.judge(delivery("b")) is Verdict.COUNT
    assert mine.judge(delivery("c")) is Verdict.WAIT
    for name in ("d", "e"):
        assert mine.judge(delivery(name)) is Verdict.POSTPONE
    mine.end(delivery("b"))
    for name in ("c", "d"):
        assert mine.judge(delivery(name)) is Verdict.COUNT
        mine.end(delivery(name))

    assert mine.judge(delivery("e")) is Verdict.HANDLE


@given(st.integers(1, 8))
def test_the_number_of_deaths_is_bounded(max_deaths: int) -> None:
    """A message that kills whoever handles it kills as many workers as it may, and no more."""
    deaths, now = 0, START
    at_hand = delivery(redelivered=False, published_at=START)
    headers: dict[str, str] = {}
    while deaths < 100:
        judge = Suspects(ManualClock(now=now), budget=1, max_deaths=max_deaths)
        verdict = judge.judge(at_hand)
        if verdict is Verdict.DEAD_LETTER:
            break
        if verdict is Verdict.COUNT:
            headers = judge.counted(at_hand)
            assert judge.judge(delivery(headers=headers)) is Verdict.HANDLE
        deaths += 1
        now += 10
        at_hand = delivery(headers=headers)

    assert deaths == max_deaths


@given(st.text(max_size=20))
def test_odd_counts_are_none(text: str) -> None:
    """A header that is no number counts as no death."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        assert deaths_of(delivery(headers={Headers.DEATHS: text})) == 0
