"""What the process that reads a bundle says to the one that imports it: frames on a pipe.

A frame is its length, one byte that tells what it is, and the rest. Both ends are of one program, one started the
other, and nobody else has the pipe.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from operator import attrgetter
from typing import IO, Any

import msgspec

from whence.schema.access import DocumentTags
from whence.schema.code import CodeNode

__all__ = (
    "EDGES",
    "FAILED",
    "NODES",
    "REFUSED",
    "REPORT",
    "pack",
    "read_frame",
    "unpack",
    "write_frame",
)

NODES, EDGES, REPORT, REFUSED, FAILED = b"n", b"e", b"r", b"x", b"!"
_HEAD = struct.Struct("!Ic")
_NAMES = tuple(name for name in CodeNode.__struct_fields__ if name != "tags")
_values = attrgetter(*_NAMES)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[list[DocumentTags], list[int], list[tuple[Any, ...]]])


def pack(kind: bytes, value: Any) -> bytes:
    """Give the rest of a frame."""
    if kind == NODES:
        return _encoder.encode(_packed(value))
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def unpack(kind: bytes, data: bytes) -> Any:
    """Read the rest of a frame."""
    if kind == NODES:
        return _nodes(*_decoder.decode(data))
    return pickle.loads(data)  # noqa: S301 - our own


def _packed(nodes: Sequence[CodeNode]) -> tuple[list[DocumentTags], list[int], list[Any]]:
    """Give rights, which many nodes share and which are costly to make, and which of them each node has."""
    known: dict[DocumentTags, int] = {}
    numbers = [known.setdefault(node.tags, len(known)) for node in nodes]
    return list(known), numbers, list(map(_values, nodes))


def _nodes(
    tags: Sequence[DocumentTags], numbers: Sequence[int], rows: Sequence[tuple[Any, ...]]
) -> list[CodeNode]:
    return [
        CodeNode(tags=tags[number], **dict(zip(_NAMES, row, strict=True)))
        for number, row in zip(numbers, rows, strict=True)
    ]


def write_frame(stream: IO[bytes], kind: bytes, data: Sequence[int] | bytes) -> None:
    """Write a frame and see that it goes out."""
    stream.write(_HEAD.pack(len(data), kind))
    stream.write(bytes(data))
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """Give kind and rest of the next frame; None when the other end has gone before it was whole."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    size, kind = _HEAD.unpack(head)
    data = stream.read(size)
    return (kind, data) if len(data) == size else None
