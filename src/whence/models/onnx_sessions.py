"""Sessions of ONNX Runtime, and worker threads that share them.

A session computes with one thread; worker threads compute several texts at the same time. For 8 bit graphs that
was up to twice as fast as the threads of the runtime, since some of its operators use only one. And a result is
always the same, because one thread computes it in one order.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from whence.models.installed import shipped_graph
from whence.schema.errors import ModelMissing

T = TypeVar("T")
R = TypeVar("R")


class Port(Protocol):
    """The used part of `onnxruntime.NodeArg`: an input or output of a graph."""

    name: str
    type: str
    """E.g. `tensor(int64)`."""
    shape: Sequence[int | str | None] | None


class Session(Protocol):
    """The used part of `onnxruntime.InferenceSession`."""

    def get_inputs(self) -> Sequence[Port]:
        """Return the inputs of the graph."""
        ...

    def get_outputs(self) -> Sequence[Port]:
        """Return the outputs of the graph."""
        ...

    def run(self, names: Sequence[str] | None, inputs: Mapping[str, Any]) -> list[Any]:
        """Compute the named outputs, or all; safe to call from several threads."""
        ...


def usable_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@cache
def int8_is_exact() -> bool:
    """Return whether this processor multiplies signed 8 bit weights without saturation, by trying.

    On x86 that needs the VNNI instructions; older ones add pairs of products in 16 bits. With unsigned weights
    all are exact, and give the same bits.
    """
    import numpy as np

    row = np.full((1, 8), 255, dtype=np.uint8)
    (sums,) = _new_session(shipped_graph("int8-probe.onnx"), _options()).run(None, {"x": row})
    return bool((sums == 8 * 255 * 127).all())


def open_session(graph: Path | bytes, weights: Path | None = None) -> Session:
    """Open a graph for use by several threads, each computing alone.

    Args:
        graph: A file, or the content of one.
        weights: Folder of the data files that the content of a graph points into.
    """
    options = _options()
    if not int8_is_exact():  # unsigned weights take twice the time, and are exact
        options.add_session_config_entry("session.x64quantprecision", "1")
    if weights is not None:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(weights))
    try:
        return _new_session(graph if isinstance(graph, bytes) else str(graph), options)
    except Exception as error:  # the runtime's exceptions have no common base of their own
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else ""
        place = weights if isinstance(graph, bytes) else graph
        raise ModelMissing(f"the model {place} cannot be loaded: {first_line}") from error


def _options() -> Any:
    """Return options of a session that one thread computes."""
    # Without this, the import writes a device id and a queue of usage events into the user's cache folder.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only; they come back as exceptions
    # Lengths vary between runs: memory plans for each shape would be kept and hardly used again.
    options.enable_mem_pattern = False
    return options


def _new_session(graph: str | bytes, options: Any) -> Session:
    import onnxruntime

    session: Session = onnxruntime.InferenceSession(
        graph, options, providers=["CPUExecutionProvider"]
    )
    return session


def typed_inputs(types: Mapping[str, str], values: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return those values that a graph wants, as a batch of one in the integer type of each input.

    Args:
        types: Type by input, e.g. `tensor(int64)`.
        values: Integers by input.
    """
    import numpy as np

    return {
        name: np.array([value], dtype=np.int32 if "int32" in types[name] else np.int64)
        for name, value in values.items()
        if name in types
    }


class Workers:
    """Threads for computation, started on first use."""

    def __init__(self, threads: int | None, name: str) -> None:
        self.threads = usable_cores() if threads is None else max(1, threads)
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[[], R]) -> R:
        """Run a function in a thread."""
        return await asyncio.wrap_future(self.submit(function))

    def submit(self, function: Callable[[], R]) -> Future[R]:
        """Queue a function for the threads."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix=self._name)
        return self._pool.submit(function)

    async def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run a function over items in all threads; return the results in order.

        A call queues at most two items per thread: no thread waits for the event loop between two, and a short
        call does not wait for all of a long one. No further item is queued after a cancellation.
        """
        results: dict[int, R] = {}
        queue: Iterator[tuple[int, T]] = iter(enumerate(items))

        async def work() -> None:
            for index, item in queue:
                results[index] = await self.run(lambda item=item: function(item))  # type: ignore[misc]

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(2 * self.threads, len(items))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:  # callers expect the error itself
            raise errors.exceptions[0] from None
        return [results[index] for index in range(len(items))]

    async def aclose(self) -> None:
        """Wait for running work and end the threads; the next use starts them again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)
