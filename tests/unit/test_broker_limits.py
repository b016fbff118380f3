"""Limits in time behave as `asyncio.timeout` does, with one timer for all of them."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.broker.limits import Limits


async def forever(seen: list[str], *, instead: Exception | None = None) -> None:
    """Wait for nothing and write down what happens."""
    seen.append("begun")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        seen.append("cancelled")
        if instead is not None:
            raise instead from None
        raise


async def test_what_lasts_too_long_is_cancelled() -> None:
    """The cancellation reaches what runs inside and leaves as a `TimeoutError`; the task goes on."""
    limits = Limits()
    seen: list[str] = []
    limit = limits.within(0.01)
    with pytest.raises(TimeoutError), limit:
        await forever(seen)
    await asyncio.sleep(0)

    assert seen == ["begun", "cancelled"]
    assert limit.struck
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_no_time_at_all_strikes_at_the_first_wait() -> None:
    """What needs no waiting is done all the same."""
    seen: list[str] = []
    with pytest.raises(TimeoutError), Limits().within(-1.0):
        await forever(seen)
    with Limits().within(-1.0):
        seen.append("done")

    assert seen == ["begun", "cancelled", "done"]


async def test_what_is_done_in_time_is_left_alone() -> None:
    """A limit that was left cancels nothing later, by its time or by hand."""
    limits = Limits()
    with limits.within(0.01) as limit:
        pass
    limit.strike()
    limit.strike_soon()
    await asyncio.sleep(0.03)

    assert not limit.struck


async def test_a_limit_without_end_strikes_only_by_hand() -> None:
    """None sets no time; the switch works all the same, once."""
    limits = Limits()
    limit = limits.within(None)
    asyncio.get_running_loop().call_soon(limit.strike_soon)
    asyncio.get_running_loop().call_soon(limit.strike_soon)
    with pytest.raises(TimeoutError), limit:
        await forever([])
    await asyncio.sleep(0)


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    """Whoever cancels the task sees it cancelled, also when the limit strikes in the same moment."""
    limits = Limits()

    async def work(*, struck: bool) -> None:
        with limits.within(None) as limit:
            if struck:
                limit.strike_soon()
            await asyncio.Event().wait()

    for struck in (False, True):
        task = asyncio.create_task(work(struck=struck))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_the_error_of_the_work_wins() -> None:
    """What is raised instead of the cancellation is not replaced."""
    with pytest.raises(KeyError), Limits().within(0.0):
        await forever([], instead=KeyError())


async def test_the_inner_and_the_outer_limit_do_not_mix_up() -> None:
    """The outer limit ends both; the inner one is not taken for the reason."""
    limits = Limits()
    outer, inner = limits.within(0.01), limits.within(60.0)
    with pytest.raises(TimeoutError), outer, inner:
        await forever([])

    assert (outer.struck, inner.struck) == (True, False)


@settings(max_examples=20, deadline=None)
@given(order=st.permutations([0.0, 0.02, 0.04, 60.0]))
def test_each_ends_in_its_turn(order: list[float]) -> None:
    """Whatever the order in which limits are set, the nearest strikes first, and none that is far."""

    async def work(limits: Limits, seconds: float, ended: list[float]) -> None:
        try:
            with limits.within(seconds):
                await asyncio.Event().wait()
        except TimeoutError:
            ended.append(seconds)

    async def run() -> list[float]:
        limits, ended = Limits(), []
        tasks = [asyncio.create_task(work(limits, one, ended)) for one in order]
        while len(ended) < 3:
            await asyncio.sleep(0.001)
        tasks[order.index(60.0)].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        limits.close()
        return ended

    assert asyncio.run(run()) == [0.0, 0.02, 0.04]


def test_a_new_event_loop_begins_anew() -> None:
    """What a closed loop left behind keeps no limit of the next one from striking."""
    limits = Limits()

    async def leave() -> None:
        with limits.within(0.02):
            pass

    async def wait() -> None:
        with limits.within(0.04):
            await asyncio.Event().wait()

    asyncio.run(leave())
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(wait(), 30))
