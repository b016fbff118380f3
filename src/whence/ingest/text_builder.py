"""Build text and blocks for formats whose files are not text, such as PDF; offsets count in the built text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from whence.ingest.blocks import Block, Outline, heading_path, push_heading
from whence.ingest.document_builder import MAX_HEADING, shorten
from whence.text.sentences import sentence_spans
from whence.text.spans import Span

_SEPARATOR = "\n\n"
#: Control characters, surrogates and noncharacters, which damaged files contain.
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def collapse_spaces(text: str) -> str:
    """Return a text with single spaces for white space, without invalid characters."""
    return " ".join(_INVALID.sub("", text).split())


class TextBuilder:
    """A text and its blocks, written in order and separated by blank lines."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._outline: Outline = []
        self._blocks: list[Block] = []
        self._pages: list[int] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks so far, in order."""
        return tuple(self._blocks)

    @property
    def pages(self) -> tuple[int, ...]:
        """The offset of each page."""
        return tuple(self._pages)

    def begin_page(self) -> None:
        """Begin a page."""
        self._pages.append(self._length)

    def add_heading(self, level: int, text: str) -> None:
        """Add a heading; 1 is the top level."""
        line = collapse_spaces(text)
        if not line:
            return
        start = self._write(line)
        self._outline = push_heading(self._outline, level, shorten(line, MAX_HEADING))
        self._blocks.append(Block("heading", heading_path(self._outline), ((start, self._length),)))

    def add_paragraph(self, text: str) -> None:
        """Add a paragraph, with single spaces for white space."""
        line = collapse_spaces(text)
        if not line:
            return
        start = self._write(line)
        parts = tuple(
            (start + begin, start + end) for begin, end in sentence_spans(line, 0, len(line))
        )
        self._blocks.append(Block("prose", heading_path(self._outline), parts))

    def add_lines(self, lines: Sequence[str]) -> None:
        """Add a list, a table or code, which is split between lines only."""
        present = [line for line in (_INVALID.sub("", line).rstrip() for line in lines) if line]
        if not present:
            return
        start = self._write("\n".join(present))
        parts: list[Span] = []
        for line in present:
            indent = len(line) - len(line.lstrip())
            parts.append((start + indent, start + len(line)))
            start += len(line) + 1
        self._blocks.append(Block("atomic", heading_path(self._outline), tuple(parts)))

    def _write(self, piece: str) -> int:
        if self._pieces:
            self._pieces.append(_SEPARATOR)
            self._length += len(_SEPARATOR)
        start = self._length
        self._pieces.append(piece)
        self._length += len(piece)
        return start
