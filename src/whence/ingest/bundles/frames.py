"""What the process that reads a bundle says to the one that imports it: frames on a pipe.

A frame is its length, one byte that tells what it is, and the rest. Both ends are of one program, and nobody
else has the pipe.
"""

from __future__ import annotations

import struct
from typing import IO

__all__ = ("EDGES", "FAILED", "NODES", "NO_MORE", "REFUSED", "REPORT", "read_frame", "write_frame")

NODES, NO_MORE, EDGES, REPORT, REFUSED, FAILED = b"n", b".", b"e", b"r", b"x", b"!"
_HEAD = struct.Struct("!Ic")


def write_frame(stream: IO[bytes], kind: bytes, data: bytes) -> None:
    """Write a frame and see that it goes out."""
    stream.write(_HEAD.pack(len(data), kind))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """Return kind and rest of the next frame; None when the other end has gone before it was whole."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    size, kind = _HEAD.unpack(head)
    data = stream.read(size)
    return (kind, data) if len(data) == size else None
