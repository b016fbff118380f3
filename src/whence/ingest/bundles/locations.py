"""Where in a bundle something stands, and errors that say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from whence.schema.errors import BadInput

__all__ = ("Place",)


class Place(msgspec.Struct, frozen=True, gc=False):
    """A bundle, one of its members, a line there, and which item of a list it is."""

    bundle: str
    """File or folder name, for people."""
    member: str = ""
    """Path within the bundle; empty for the bundle as a whole."""
    line: int = 0
    """1 is first; 0 when the whole member is meant."""
    item: int = 0
    """1 is first; 0 when it is no item of a list."""

    def __str__(self) -> str:
        bundle = _printable(self.bundle)
        member = f"{bundle}: {_printable(self.member)}" if self.member else bundle
        line = f", line {self.line}" if self.line else ""
        item = f", item {self.item}" if self.item else ""
        return member + line + item

    def on_line(self, line: int) -> Place:
        """Return a line of the same member."""
        return Place(self.bundle, self.member, line, self.item)

    def of_member(self, member: str) -> Place:
        """Return a member of the same bundle."""
        return Place(self.bundle, member)

    def error(self, reason: str, hint: str = "") -> BadInput:
        """Return the error that something at this place is wrong."""
        return BadInput(f"{self}: {reason}", hint=hint)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Name this place in any `BadInput` that comes out of the block."""
        try:
            yield
        except BadInput as error:
            raise self.error(error.message, error.hint) from error


def _printable(text: str) -> str:
    """Keep control characters in a name from reaching a terminal."""
    return text if text.isprintable() else repr(text)[1:-1]
