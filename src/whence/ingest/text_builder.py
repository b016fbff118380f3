"""Text that is taken out of a file piece by piece: what offsets count in where the file itself is no text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from whence.ingest.blocks import Block, Outline, outlined, path_of
from whence.ingest.document_builder import MAX_HEADING, shortened
from whence.text.sentences import sentence_spans
from whence.text.spans import Span

__all__ = ("ExtractedText", "one_line")

_BETWEEN_BLOCKS = "\n\n"
#: Control characters and what is no character at all; extraction meets both in damaged files.
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def one_line(words: str) -> str:
    """Return a text with one space for all white space, without what is no text."""
    return " ".join(_NO_TEXT.sub("", words).split())


class ExtractedText:
    """A text and its blocks, written from the top; every block stands between blank lines."""

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
        """Where each page begins."""
        return tuple(self._pages)

    def page(self) -> None:
        """Begin a page: what is written from here on stands on it."""
        self._pages.append(self._length)

    def heading(self, level: int, words: str) -> None:
        """Write a heading; the smaller the level, the higher it stands."""
        line = one_line(words)
        if not line:
            return
        start = self._write(line)
        self._outline = outlined(self._outline, level, shortened(line, MAX_HEADING))
        self._blocks.append(Block("heading", path_of(self._outline), ((start, self._length),)))

    def prose(self, words: str) -> None:
        """Write a paragraph; white space inside is one space each."""
        line = one_line(words)
        if not line:
            return
        start = self._write(line)
        parts = tuple(
            (start + begin, start + end) for begin, end in sentence_spans(line, 0, len(line))
        )
        self._blocks.append(Block("prose", path_of(self._outline), parts))

    def whole(self, lines: Sequence[str]) -> None:
        """Write a list, table or piece of code that may be cut between its lines only."""
        kept = [line for line in (_NO_TEXT.sub("", line).rstrip() for line in lines) if line]
        if not kept:
            return
        start = self._write("\n".join(kept))
        parts: list[Span] = []
        for line in kept:
            indent = len(line) - len(line.lstrip())
            parts.append((start + indent, start + len(line)))
            start += len(line) + 1
        self._blocks.append(Block("whole", path_of(self._outline), tuple(parts)))

    def _write(self, piece: str) -> int:
        if self._pieces:
            self._pieces.append(_BETWEEN_BLOCKS)
            self._length += len(_BETWEEN_BLOCKS)
        start = self._length
        self._pieces.append(piece)
        self._length += len(piece)
        return start
