"""Read XML as events, within limits: no external parts, and no entities that a file defines."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO
from xml.parsers import expat

from whence.schema.errors import BadInput

_BLOCK = 2**16
#: Deepest nesting; more serves no purpose.
MAX_DEPTH = 200


def local_name(name: str) -> str:
    """Return the name of an element or attribute without its prefix."""
    return name[name.find(":") + 1 :]


class XmlReader:
    """Calls a function at the start of each element, and another at its end with the text directly before it.

    Names are without prefixes. Text of an element that has other elements is given in pieces.

    Args:
        start: Called with the name and the attributes, whose names keep their prefixes.
        end: Called with the name, and the text since the last start or end.
    """

    def __init__(
        self,
        start: Callable[[str, dict[str, str]], None] | None = None,
        end: Callable[[str, str], None] | None = None,
        *,
        encoding: str | None = None,
    ) -> None:
        self._on_start, self._on_end = start, end
        self._pieces: list[str] = []
        self._depth = 0
        parser = self.parser = expat.ParserCreate(encoding)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._pieces.append
        parser.EntityDeclHandler = _refuse_entity

    @property
    def line(self) -> int:
        """Line of the file of the event, from 1."""
        return self.parser.CurrentLineNumber

    def taken(self) -> str:
        """Return the text since the last start or end."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def _start(self, name: str, values: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadInput(f"its elements are nested more than {MAX_DEPTH} deep")
        if self._on_start:
            self._on_start(local_name(name), values)
        self._pieces.clear()

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._on_end:
            self._on_end(local_name(name), "".join(self._pieces))
        self._pieces.clear()


def _refuse_entity(name: str, *_: object) -> None:
    raise BadInput(f"defines the entity {name[:40]!r}, which may expand to any size")


def feed(reader: XmlReader, stream: IO[bytes]) -> None:
    """Feed all of a stream to a reader.

    Raises:
        BadInput: It defines entities, or is nested too deeply.
        xml.parsers.expat.ExpatError: It is not well-formed.
    """
    while block := stream.read(_BLOCK):
        reader.parser.Parse(block, False)
    reader.parser.Parse(b"", True)
