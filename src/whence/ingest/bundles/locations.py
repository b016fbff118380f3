"""Locations inside a bundle, and errors that name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from whence.schema.errors import BadInput


class Location(msgspec.Struct, frozen=True, gc=False):
    """A bundle, one of its members, a line of the member, and the number of an item in a list."""

    bundle: str
    member: str = ""
    """Path within the bundle; empty for the bundle as a whole."""
    line: int = 0
    """1-based; 0 for the member as a whole."""
    item: int = 0
    """1-based; 0 outside lists."""

    def __str__(self) -> str:
        bundle = _printable(self.bundle)
        member = f"{bundle}: {_printable(self.member)}" if self.member else bundle
        line = f", line {self.line}" if self.line else ""
        item = f", item {self.item}" if self.item else ""
        return member + line + item

    def at_line(self, line: int, item: int = 0) -> Location:
        """Return a line of the same member."""
        return Location(self.bundle, self.member, line, item)

    def in_member(self, member: str) -> Location:
        """Return a member of the same bundle."""
        return Location(self.bundle, member)

    def error(self, reason: str, hint: str = "") -> BadInput:
        """Return an error about this location."""
        return BadInput(f"{self}: {reason}", hint=hint)

    @contextmanager
    def prefix_errors(self) -> Iterator[None]:
        """Prefix the message of any `BadInput` raised in the block with this location."""
        try:
            yield
        except BadInput as error:
            raise self.error(error.message, error.hint) from error

    def decode(self, data: bytes | bytearray) -> str:
        """Decode UTF-8 that begins on this line."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = max(self.line, 1) + data.count(b"\n", 0, error.start)
            raise self.at_line(line, self.item).error(
                f"is not UTF-8: byte 0x{data[error.start]:02x}", "save the member as UTF-8"
            ) from error


def _printable(text: str) -> str:
    """Escape control characters, so that a name cannot control the terminal."""
    return text if text.isprintable() else repr(text)[1:-1]
