"""Queries that wait for a thread are computed together, and nothing else is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from whence.models.onnx_sessions import Workers
from whence.models.query_queue import QueryQueue


class Runs:
    """A session that notes the tokens of each run, and waits until it may compute; a 0 makes it fail."""

    def __init__(self) -> None:
        self.runs: list[list[list[int]]] = []
        self.started = threading.Event()
        self.free = threading.Event()

    def run(self, names: Sequence[str] | None, inputs: Mapping[str, Any]) -> list[Any]:
        ids = inputs["input_ids"]
        self.runs.append(ids.tolist())
        self.started.set()
        assert self.free.wait(30)
        if not ids.all():
            raise ValueError("no such token")
        return [ids[:, :1].astype(np.float32)]

    def get_inputs(self) -> Sequence[Any]:
        return ()

    get_outputs = get_inputs


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    one = Workers(1, "test")
    yield one
    await one.aclose()


async def begun(queue: QueryQueue, session: Runs, *queries: list[int]) -> list[asyncio.Task[Any]]:
    """Start the first query, and add the others once it is computed."""
    first, *others = [asyncio.create_task(queue.compute(session, one)) for one in queries[:1]]
    await asyncio.to_thread(session.started.wait, 30)
    others = [asyncio.create_task(queue.compute(session, one)) for one in queries[1:]]
    await asyncio.sleep(0)
    return [first, *others]


async def test_a_query_alone_waits_for_no_other(workers: Workers) -> None:
    """A free thread begins at once."""
    session = Runs()
    session.free.set()
    vector = await asyncio.wait_for(QueryQueue(workers).compute(session, [7, 8]), 30)
    assert vector.tolist() == [7.0]
    assert session.runs == [[[7, 8]]]


async def test_queries_of_one_length_that_wait_are_one_run(workers: Workers) -> None:
    """The one that waits longest takes those of its length along; each caller gets its own vector."""
    session, queue = Runs(), QueryQueue(workers)
    tasks = await begun(queue, session, [1, 1], [2, 2], [3, 3, 3], [4, 4], [5, 5, 5], [6])
    session.free.set()
    vectors = await asyncio.wait_for(asyncio.gather(*tasks), 30)
    assert [one.tolist() for one in vectors] == [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    assert session.runs == [[[1, 1]], [[2, 2], [4, 4]], [[3, 3, 3], [5, 5, 5]], [[6]]]


async def test_a_run_is_bounded(workers: Workers) -> None:
    """However many wait, a run has at most 16 queries."""
    session, queue = Runs(), QueryQueue(workers)
    tasks = await begun(queue, session, *[[n] for n in range(1, 40)])
    session.free.set()
    vectors = await asyncio.wait_for(asyncio.gather(*tasks), 30)
    assert [one.tolist() for one in vectors] == [[float(n)] for n in range(1, 40)]
    assert [len(one) for one in session.runs] == [1, 16, 16, 6]


async def test_an_error_reaches_those_of_its_run_alone(workers: Workers) -> None:
    """Queries of another run are computed."""
    session, queue = Runs(), QueryQueue(workers)
    tasks = await begun(queue, session, [1], [2, 0], [3, 3], [4])
    session.free.set()
    ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    assert [isinstance(one, ValueError) for one in ends] == [False, True, True, False]


async def test_what_callers_gave_up_is_not_computed(workers: Workers) -> None:
    """A cancelled query leaves the queue, and takes no other along."""
    session, queue = Runs(), QueryQueue(workers)
    tasks = await begun(queue, session, [1], [2], [3])
    tasks[1].cancel()
    await asyncio.gather(tasks[1], return_exceptions=True)
    session.free.set()
    assert [(await tasks[0]).tolist(), (await tasks[2]).tolist()] == [[1.0], [3.0]]
    assert session.runs == [[[1]], [[3]]]


async def test_closing_leaves_no_caller_waiting() -> None:
    """A query that threads no longer come to is cancelled."""
    session, workers = Runs(), Workers(1, "test")
    queue = QueryQueue(workers)
    tasks = await begun(queue, session, [1], [2])
    closing = asyncio.create_task(workers.aclose())
    await asyncio.sleep(0.05)
    session.free.set()
    await closing
    queue.cancel()
    ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    assert np.asarray(ends[0]).tolist() == [1.0]
    assert isinstance(ends[1], asyncio.CancelledError)
