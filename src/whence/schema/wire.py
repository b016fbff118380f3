"""Bytes that remember what they were made of.

An explain event goes to its topic, to the caller and into the trace. It is encoded once for all of them, and
within the process that made it nobody needs to read it from bytes again: it holds nothing but texts and whole
numbers, and nothing of it can be changed. All else is read from bytes, in one process as between two.
"""

from __future__ import annotations

from typing import Any

__all__ = ("Wire",)


class Wire(bytes):
    """The wire form of a message, equal to its bytes, with frozen messages that need not be read from it."""

    #: The same bytes and nothing else, for whoever keeps them.
    plain: bytes
    #: What stands in the bytes and cannot be changed.
    parts: tuple[Any, ...]
    #: The wire form of the message without the parts; empty when it is the part.
    rest: bytes

    @classmethod
    def of(cls, payload: bytes, parts: tuple[Any, ...], rest: bytes = b"") -> Wire:
        """Make one."""
        wire = cls(payload)
        wire.plain = payload
        wire.parts = parts
        wire.rest = rest
        return wire
