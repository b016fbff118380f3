"""The process that reads a bundle for another one, see `reading`.

It is told the bundle on its input and says on its output what it found. When nobody listens any more it ends:
its parent closes the pipe or dies.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

from whence.ingest.bundles.bundle import Bundle
from whence.ingest.bundles.bundle_reader import BundleContents
from whence.ingest.bundles.frames import EDGES, FAILED, NO_MORE, NODES, REFUSED, REPORT, write_frame
from whence.schema.code import CodeNode
from whence.schema.errors import BadInput

__all__ = ("batches", "main")

#: Texts of the nodes of one batch: memory holds some batches.
_MOST_CHARACTERS = 4_000_000
#: Which part of a whole batch the first one is.
_FIRST = 8
#: Frames that wait while the other process writes what it has.
_AHEAD = 4


def main() -> None:
    """Read one bundle."""
    # The keys that stop a program reach all of its processes; what is to happen is the first one's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nodes do not refer to themselves, and to look for some that do takes a twentieth of the time.
    gc.disable()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Nothing that is printed by accident may come between.
    try:
        bundle, prepare, size = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our parent
    except EOFError:
        return  # It has gone before it could tell.
    frames: queue.Queue[tuple[bytes, bytes] | None] = queue.Queue(_AHEAD)
    writer = threading.Thread(target=_write, args=(output, frames))
    writer.start()
    try:
        _read(bundle, prepare, size, frames)
    except BadInput as error:
        _put(frames, REFUSED, (error.message, error.hint))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other process tells it
        _put(frames, FAILED, f"{type(error).__name__}: {error}")
    frames.put(None)
    writer.join()


def batches(
    contents: BundleContents, prepare: Callable[[list[CodeNode]], Any], size: int
) -> Iterator[Any]:
    """Yield what is made of nodes, some at a time: fewer at first, and where their texts are long."""
    some: list[CodeNode] = []
    characters = 0
    # Whoever waits for the first ones has nothing else to do.
    most = max(1, size // _FIRST)
    for node in contents.nodes():
        some.append(node)
        characters += len(node.text)
        if len(some) == most or characters >= _MOST_CHARACTERS:
            yield prepare(some)
            some, characters = [], 0
            most = min(2 * most, size)
    if some:
        yield prepare(some)


def _read(
    bundle: Bundle,
    prepare: Callable[[list[CodeNode]], Any],
    size: int,
    frames: queue.Queue[tuple[bytes, bytes] | None],
) -> None:
    contents = BundleContents(bundle)
    for batch in batches(contents, prepare, size):
        _put(frames, NODES, batch)
    _put(frames, NO_MORE, None)
    _put(frames, EDGES, contents.edges())
    _put(frames, REPORT, contents.report())


def _put(frames: queue.Queue[tuple[bytes, bytes] | None], kind: bytes, value: Any) -> None:
    frames.put((kind, pickle.dumps(value, pickle.HIGHEST_PROTOCOL)))


def _write(output: IO[bytes], frames: queue.Queue[tuple[bytes, bytes] | None]) -> None:
    try:
        while (frame := frames.get()) is not None:
            write_frame(output, *frame)
        output.close()
    except OSError:
        # Nobody listens: nothing is left to do, for the thread that reads neither.
        with contextlib.suppress(OSError):
            os.close(output.fileno())
        os._exit(1)
