"""Work whose first step is taken at once does what it would have done in one piece."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.broker.delivery import Outgoing, Work
from whence.broker.eager import DONE, Starter, first_step, rest
from whence.broker.memory.transport import MemoryTransport
from whence.broker.transport import Headers
from whence.broker.worker import Worker
from whence.schema.topics import full_topic

TOPIC = full_topic("begun.at.once")
PLACE: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


def answer(body: bytes = b"!") -> Outgoing:
    """Give a reply."""
    return Outgoing(payload=body, headers={Headers.TYPE: "any.v1"})


async def in_parts(work: Any) -> None:
    """Do some work as it is done at once and gone on with."""
    waits_for = first_step(work)
    if waits_for is not DONE:
        await rest(work, waits_for)


async def plainly(work: Any) -> None:
    """Do some work in one piece."""
    await work


async def in_the_name_of_another(work: Any) -> None:
    """Begin some work for a task that waits, from here."""
    context = contextvars.copy_context()
    told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    made: list[Starter] = []

    async def taker() -> None:
        task = asyncio.current_task()
        assert task is not None
        made.append(Starter(task, context))
        try:
            await told
        except asyncio.CancelledError:
            if not made[0].begun:
                raise
            await made[0].go_on(cancelled=True)
            return
        await made[0].go_on()

    task = asyncio.create_task(taker(), context=context)
    await asyncio.sleep(0)
    if made[0].begin(work):
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    else:
        told.cancelled() or told.set_result(None)
        await task


def step(kind: str, seen: list[str]) -> Callable[[], Any]:
    """Give one thing that work may do."""

    async def wait() -> None:
        match kind:
            case "turn":
                await asyncio.sleep(0)
            case "future":
                future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(future.set_result, "came")
                seen.append(await future)
            case "error":
                failing: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(failing.set_exception, KeyError("k"))
                await failing
            case "raise":
                raise LookupError("raised")
            case "late":
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
            case "gather":
                seen.extend(await asyncio.gather(said("a"), said("b")))
            case "cancelled":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                try:
                    await asyncio.Event().wait()
                finally:
                    task.uncancel()
            case _:
                pass

    return wait


async def said(text: str) -> str:
    """Give a text after a turn."""
    await asyncio.sleep(0)
    return text


async def program(kinds: list[str], seen: list[str]) -> None:
    """Do things in turn and write down what comes of each."""
    for kind in kinds:
        task = asyncio.current_task()
        PLACE.set(f"{PLACE.get()}/{kind}")
        try:
            await step(kind, seen)()
        except (Exception, asyncio.CancelledError) as error:
            seen.append(type(error).__name__)
        seen.append(f"{kind} at {PLACE.get()}")
        assert asyncio.current_task() is task


KINDS = ["turn", "future", "error", "raise", "late", "gather", "cancelled", "nothing"]


@settings(max_examples=150, deadline=None)
@given(kinds=st.lists(st.sampled_from(KINDS), max_size=5))
def test_work_in_parts_is_work_in_one_piece(kinds: list[str]) -> None:
    """Waits, errors, limits, cancellations, context: in parts, and in another's name, all is the same."""
    found: list[list[str]] = []
    for way in (plainly, in_parts, in_the_name_of_another):
        seen: list[str] = []
        asyncio.run(way(program(kinds, seen)))
        found.append(seen)

    assert found[0] == found[1] == found[2]


async def test_a_future_may_have_others_who_wait_for_it() -> None:
    """Between the first step and the rest another task may begin to wait for the same."""
    shared: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def wait() -> None:
        seen.append(await shared)

    work = wait()
    waits_for = first_step(work)
    other = asyncio.create_task(wait())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(shared.set_result, "x")
    await rest(work, waits_for)
    await other

    assert seen == ["x", "x"]


async def test_what_fails_at_once_fails_where_it_is_begun() -> None:
    """`first_step` raises what the work raises."""

    async def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        first_step(fail())


async def served(handler: Any, **options: Any) -> tuple[MemoryTransport, Worker]:
    """Give a worker that takes messages."""
    transport = MemoryTransport()
    worker = Worker(transport, topic=TOPIC, group="g", handler=handler, **options)
    await worker.start()
    await asyncio.sleep(0)
    return transport, worker


async def closed(transport: MemoryTransport, worker: Worker) -> None:
    """Stop both."""
    await worker.aclose(1.0)
    await transport.aclose()


async def test_what_waits_for_nothing_is_answered_in_the_same_turn() -> None:
    """Request, work and reply take no turn of the event loop, and the message is settled."""

    async def handler(work: Work) -> Outgoing:
        return answer(work.delivery.payload)

    transport, worker = await served(handler)
    await transport.request(TOPIC, b"0")
    turns: list[None] = []
    asyncio.get_running_loop().call_soon(turns.append, None)
    reply = await transport.request(TOPIC, b"1")
    assert (reply.payload, turns) == (b"1", [])
    assert (await transport.stats(TOPIC, "g")).in_flight == 0
    assert (worker.in_flight, worker.counters.handled) == (0, 2)
    await closed(transport, worker)


async def test_who_publishes_does_not_wait_for_the_rest() -> None:
    """A handler that waits goes on in the worker's own task, and a caller's deadline holds."""
    tasks: list[Any] = []

    async def handler(_: Work) -> Outgoing:
        tasks.append(asyncio.current_task())
        await asyncio.sleep(0.01)
        tasks.append(asyncio.current_task())
        return answer()

    transport, worker = await served(handler)
    await transport.publish(TOPIC, b"")
    assert len(tasks) == 1
    await worker.aclose(5.0)
    await transport.aclose()

    assert len(tasks) == 2
    assert tasks[0] is tasks[1]
    assert tasks[0] is not asyncio.current_task()
    assert worker.counters.handled == 1


async def test_a_limit_that_strikes_before_the_task_goes_on_reaches_the_work() -> None:
    """Time that is over at once ends the wait and nothing else; the message is handled once."""
    seen: list[str] = []

    async def handler(_: Work) -> Outgoing:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("late")
        return answer()

    transport, worker = await served(handler, concurrency=2)
    for _ in range(3):
        await transport.request(TOPIC, b"", timeout_s=5.0)
    assert (seen, worker.counters.handled, worker.alive) == (["late"] * 3, 3, True)
    await closed(transport, worker)


async def test_work_within_work_has_an_end() -> None:
    """A handler that publishes to its own topic is begun within itself a few times only; nothing is lost."""
    active, most, done = 0, 0, 0

    async def handler(work: Work) -> None:
        nonlocal active, most, done
        active += 1
        most = max(most, active)
        left = int(work.delivery.payload)
        if left:
            await transport.publish(TOPIC, str(left - 1).encode())
        active -= 1
        done += 1

    transport, worker = await served(handler, concurrency=30)
    await transport.publish(TOPIC, b"99")
    async with asyncio.timeout(10):
        while done < 100:
            await asyncio.sleep(0)
    await closed(transport, worker)

    # Eight, and the one that a task has taken.
    assert most <= 9


async def test_a_worker_that_is_busy_takes_the_rest_in_turn() -> None:
    """No more are begun than may be handled at a time; what comes meanwhile waits, in order."""
    free, seen = asyncio.Event(), []

    async def handler(work: Work) -> None:
        seen.append(work.delivery.payload)
        await free.wait()

    transport, worker = await served(handler, concurrency=2)
    for number in range(5):
        await transport.publish(TOPIC, str(number).encode())
    assert seen == [b"0", b"1"]
    free.set()
    async with asyncio.timeout(5):
        while len(seen) < 5:
            await asyncio.sleep(0)
    await closed(transport, worker)

    assert seen == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_handler_may_close_its_own_worker() -> None:
    """It is stopped like any other that is at work; nothing hangs."""

    async def handler(_: Work) -> None:
        await worker.aclose(0.01)

    transport, worker = await served(handler)
    async with asyncio.timeout(10):
        await transport.publish(TOPIC, b"")
        await worker.join()
        await worker.aclose(1.0)
    await transport.aclose()
    assert not worker.alive


async def test_a_stop_in_the_first_step_holds() -> None:
    """A request that is taken back while its first step is at work is stopped where it first waits."""
    seen: list[str] = []

    async def handler(work: Work) -> Outgoing:
        await transport.cancel(TOPIC, work.correlation_id)
        for run in list(worker._runs):
            run.stop(cancelled=True)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("stopped")
            raise
        return answer()

    transport, worker = await served(handler)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(transport.request(TOPIC, b"", timeout_s=20.0), 1.0)
    await closed(transport, worker)

    assert seen == ["stopped"]
    assert worker.counters.cancelled == 1
