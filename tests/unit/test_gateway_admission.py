"""Which requests of the gateway run, wait or are refused."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.surfaces.http.admission import Admission, TooManyRequests


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """Requests that last until the test ends them; `order` has those that began."""

    def __init__(self, concurrent: int) -> None:
        self.clock = Clock()
        self.admission = Admission(concurrent, self.clock)
        self.order: list[str] = []
        self.done: dict[str, asyncio.Event] = {}
        self.left: dict[str, float] = {}

    async def send(
        self, name: str, caller: str = "a", timeout_s: float = 100.0
    ) -> asyncio.Task[None]:
        """Send a request and let it come as far as it gets."""
        self.done[name] = asyncio.Event()

        async def run() -> None:
            async with self.admission.admit("ask", caller, timeout_s) as left_s:
                self.order.append(name)
                self.left[name] = left_s
                await self.done[name].wait()

        task = asyncio.create_task(run())
        await settle()
        return task

    async def end(self, name: str, after_s: float = 0.0) -> None:
        """End a request after some time."""
        self.clock.now += after_s
        self.done[name].set()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def measured(concurrent: int, seconds: float) -> Desk:
    """Return a desk that measured one request."""
    desk = Desk(concurrent)
    first = await desk.send("measured")
    await desk.end("measured", seconds)
    await first
    desk.order.clear()
    return desk


async def test_requests_beyond_the_number_wait_in_order() -> None:
    """Only so many run at the same time; the others begin in the order in which they came."""
    desk = Desk(2)
    tasks = [await desk.send(name) for name in "abcd"]
    assert desk.order == ["a", "b"]
    await desk.end("b", 3)
    assert desk.order == ["a", "b", "c"]
    assert desk.left["c"] == 97
    for name in "acd":
        await desk.end(name)
    await asyncio.gather(*tasks)
    assert desk.order == ["a", "b", "c", "d"]


async def test_what_cannot_be_done_in_time_is_refused_at_once() -> None:
    """By the measured time the third of three cannot end within its limit; with a longer limit it waits."""
    desk = await measured(1, 10)
    tasks = [await desk.send("a", timeout_s=20), await desk.send("b", timeout_s=25)]
    refused = await desk.send("c", timeout_s=25)
    with pytest.raises(TooManyRequests) as caught:
        await refused
    assert caught.value.retry_after_s == 15
    tasks.append(await desk.send("d", timeout_s=60))
    assert desk.order == ["a"]
    for name in "abd":
        await desk.end(name, 10)
    await asyncio.gather(*tasks)
    assert desk.order == ["a", "b", "d"]


async def test_a_free_place_refuses_nobody() -> None:
    """A request that need not wait is tried, however long such requests took."""
    desk = await measured(1, 1000)
    task = await desk.send("a", timeout_s=1)
    await desk.end("a")
    await task
    assert desk.order == ["a"]


async def test_callers_take_turns() -> None:
    """A caller with many requests delays another one by one request, and does not have it refused."""
    desk = await measured(1, 10)
    tasks = [await desk.send(f"a{n}", "many", 1000) for n in range(6)]
    tasks.append(await desk.send("b", "one", 40))
    tasks.append(await desk.send("c", "one", 1000))
    while running := [name for name in desk.order if not desk.done[name].is_set()]:
        await desk.end(running[0], 10)
    await asyncio.gather(*tasks)
    assert desk.order == ["a0", "a1", "b", "a2", "c", "a3", "a4", "a5"]


async def test_a_caller_who_leaves_frees_its_place() -> None:
    """Leaving while waiting or while running makes room for the next one."""
    desk = Desk(1)
    first, second, third = [await desk.send(name) for name in "abc"]
    second.cancel()
    await settle()
    first.cancel()
    await settle()
    assert desk.order == ["a", "c"]
    await desk.end("c")
    await third


async def test_a_request_that_waited_its_whole_time_is_refused() -> None:
    """When requests take longer than expected, a waiting one ends with a refusal at its limit."""
    desk = Desk(1)
    running = await desk.send("a")
    waiting = await desk.send("b", timeout_s=2.2)
    with pytest.raises(TooManyRequests):
        await waiting
    await desk.end("a")
    await running
    assert desk.order == ["a"]


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12),
)
async def test_no_place_is_lost(concurrent: int, requests: list[tuple[str, bool]]) -> None:
    """Whatever ends or leaves in whatever order, as many run as may while any wait, and all come to an end."""
    desk = Desk(concurrent)
    tasks = {}
    for number, (caller, leaves) in enumerate(requests):
        tasks[f"{number}"] = await desk.send(f"{number}", caller, 1e9)
        if leaves:
            tasks[f"{number}"].cancel()
            await settle()
    remaining = [name for name, task in tasks.items() if not task.done()]
    while remaining:
        running = [name for name in remaining if name in desk.order]
        assert len(running) == min(concurrent, len(remaining))
        await desk.end(running[0])
        remaining.remove(running[0])
    assert all(task.done() for task in tasks.values())
