"""A bundle read beside the work that is done with what it holds: in a thread, or in a process of its own.

To read nodes and make them ready for the database is a third of the work of an import, and threads of one
process take turns. For a large bundle another process does both, and gives what it made through a pipe. To
start one takes longer than to read a small bundle.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from whence.ingest.bundles.archive import open_archive
from whence.ingest.bundles.bundle import Bundle
from whence.ingest.bundles.bundle_reader import BundleContents
from whence.ingest.bundles.frames import EDGES, NO_MORE, NODES, REFUSED, REPORT, read_frame
from whence.ingest.bundles.reader_process import batches
from whence.schema.code import CodeNode, ImportReport
from whence.schema.errors import BadInput, InternalError
from whence.store.snapshot_protocols import SnapshotEdges

__all__ = ("BundleReader", "reading")

#: Unpacked bytes from which on a process is started: some 10,000 nodes, which take half a second to read. It
#: takes a quarter of a second to start.
_LARGE_BYTES = 8 * 1024 * 1024
#: The other process finds modules where this one does, and never in the folder that a user happens to be in.
_BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from whence.ingest.bundles.reader_process import main; main()"
)
_END_TIMEOUT_S = 10.0


class BundleReader(Protocol):
    """What `BundleContents` gives, in this order."""

    async def nodes(self) -> Any:
        """Return what was made of the next nodes; None when there are no more.

        Raises:
            BadInput: As for `BundleContents`.
            InternalError: The process that reads has ended.
        """
        ...

    async def edges(self) -> SnapshotEdges:
        """Return all edges, after the nodes; errors as for `nodes`."""
        ...

    async def report(self) -> ImportReport:
        """Return the account, after the edges; errors as for `nodes`."""
        ...


@asynccontextmanager
async def reading(
    bundle: Bundle, prepare: Callable[[list[CodeNode]], Any], size: int
) -> AsyncIterator[BundleReader]:
    """Read a bundle for the time of a block; afterwards no process and no open file is left.

    Args:
        bundle: What to read.
        prepare: What is to be made of nodes; it can be sent to another process, as can what it makes.
        size: Nodes that it gets at once.
    """
    if not sys.executable or await asyncio.to_thread(_bytes_of, bundle) < _LARGE_BYTES:
        yield _InThread(bundle, prepare, size)
        return
    async with _InProcess(bundle, prepare, size) as reader:
        yield reader


def _bytes_of(bundle: Bundle) -> int:
    with open_archive(bundle.path, bundle.limits) as archive:
        return sum(archive.sizes.values())


class _InThread:
    """Reads in threads of this process."""

    def __init__(self, bundle: Bundle, prepare: Callable[[list[CodeNode]], Any], size: int) -> None:
        self._contents = BundleContents(bundle)
        self._batches = batches(self._contents, prepare, size)

    async def nodes(self) -> Any:
        return await asyncio.to_thread(next, self._batches, None)

    async def edges(self) -> SnapshotEdges:
        return await asyncio.to_thread(self._contents.edges)

    async def report(self) -> ImportReport:
        return await asyncio.to_thread(self._contents.report)


class _InProcess:
    """Listens to the process that reads; one frame is read ahead by it, and a few wait there."""

    def __init__(self, bundle: Bundle, prepare: Callable[[list[CodeNode]], Any], size: int) -> None:
        self._bundle = bundle
        self._order = (bundle, prepare, size)
        self._process: subprocess.Popen[bytes]

    async def __aenter__(self) -> _InProcess:
        path = json.dumps([one or str(Path.cwd()) for one in sys.path])
        self._process = await asyncio.to_thread(
            subprocess.Popen,
            [sys.executable, "-I", "-c", _BEGIN, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Threads for matrices, of which there are none here, would spin for a tenth of a second.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        try:
            await asyncio.to_thread(self._tell, pickle.dumps(self._order))
        except BaseException:
            await self.aclose()
            raise
        return self

    def _tell(self, order: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order)
            self._process.stdin.close()
        except BrokenPipeError as error:
            raise self._ended() from error

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the process, wherever it is; whoever waits for a frame is told that it has gone."""
        self._process.kill()
        await asyncio.shield(asyncio.to_thread(self._process.wait, _END_TIMEOUT_S))
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                await asyncio.shield(asyncio.to_thread(pipe.close))

    async def nodes(self) -> Any:
        kind, value = await self._frame()
        if kind == NODES:
            return value
        assert kind == NO_MORE
        return None

    async def edges(self) -> SnapshotEdges:
        kind, value = await self._frame()
        assert kind == EDGES
        edges: SnapshotEdges = value
        return edges

    async def report(self) -> ImportReport:
        kind, value = await self._frame()
        assert kind == REPORT
        report: ImportReport = value
        return report

    async def _frame(self) -> tuple[bytes, Any]:
        """Return the next frame, read off the event loop.

        Raises:
            BadInput: The bundle is refused.
            InternalError: The other process failed, or has ended.
        """
        return await asyncio.to_thread(self._next)

    def _next(self) -> tuple[bytes, Any]:
        assert self._process.stdout is not None
        frame = read_frame(self._process.stdout)
        if frame is None:
            raise self._ended()
        kind, data = frame
        value = pickle.loads(data)  # noqa: S301 - our own
        if kind == REFUSED:
            message, hint = value
            raise BadInput(message, hint=hint)
        if kind not in (NODES, NO_MORE, EDGES, REPORT):
            raise InternalError(f"reading {self._bundle.name} failed: {value}")
        return kind, value

    def _ended(self) -> InternalError:
        status = self._process.wait(_END_TIMEOUT_S)
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return InternalError(
            f"the process that read {self._bundle.name} {how}",
            hint="run the same command again; nothing was changed",
        )
