"""Put paragraphs and rows of an RTF file together, in the order of the file."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from whence.ingest.office.runs import RunText
from whence.ingest.office.tables import Cell, cell_text
from whence.ingest.text_builder import BREAK


class RtfParagraph(NamedTuple):
    """A paragraph."""

    text: str
    mark: str
    """Number or bullet as the file writes it; empty for none."""
    level: int
    """Level in its list, from 0."""
    heading: int
    """Level of a heading, from 1; 0 for none."""
    is_bold: bool
    beside: list[RtfFlow]
    """Notes and boxes that stand beside it."""


class RtfRow(NamedTuple):
    """A row of a table."""

    cells: list[Cell]
    is_header: bool
    beside: list[RtfFlow]


class RtfFlow:
    """Text in order: that of the document, of a note or of a box.

    Args:
        counts: What is left out is counted here, by kind.
        mark: Mark of the note; empty for other text.
    """

    def __init__(self, counts: Counter[str], mark: str = "") -> None:
        self.mark = mark
        self.blocks: list[RtfParagraph | RtfRow] = []
        self.list_text = ""
        self.beside: list[RtfFlow] = []
        self._counts = counts
        self.runs = RunText(counts)
        self._parts: list[str] = []
        self._looks: list[bool] = []
        self._cells: list[tuple[str, bool]] = []

    def end_paragraph(self, *, in_table: bool, level: int = 0, heading: int = 0) -> None:
        """End a paragraph, which in a table is part of a cell."""
        words, is_bold = self.runs.text, self.runs.is_bold
        self.runs = RunText(self._counts)
        mark, self.list_text = self.list_text.strip(), ""
        if in_table:
            label = f"{mark} " if any(map(str.isalnum, mark)) else ""
            if words.strip():
                self._parts.append(label + words.replace(BREAK, " "))
                self._looks.append(is_bold)
            return
        beside, self.beside = self.beside, []
        if words.strip() or beside:
            shown = mark if any(map(str.isalnum, mark)) else "-" if mark else ""
            paragraph = RtfParagraph(
                words, shown, level, heading, is_bold and bool(words.strip()), beside
            )
            self.blocks.append(paragraph)

    def end_cell(self) -> None:
        """End a cell."""
        self.end_paragraph(in_table=True)
        self._cells.append((cell_text(self._parts), bool(self._looks) and all(self._looks)))
        self._parts, self._looks = [], []

    def end_row(self, layout: list[str], *, is_header: bool) -> None:
        """End a row.

        Args:
            layout: For each cell how it is merged: `-` with the one before it, `|` with the one above it.
            is_header: Whether the row heads the table.
        """
        cells: list[Cell] = []
        above = self._row_above()
        for at, (words, is_bold) in enumerate(self._cells):
            how = layout[at] if at < len(layout) else ""
            if "-" in how and cells:
                cells[-1] = cells[-1]._replace(across=cells[-1].across + 1)
            elif "|" in how and at < len(above):
                cells.append(Cell(above[at], is_header=is_bold))
            else:
                cells.append(Cell(words, is_header=is_bold))
        beside, self.beside, self._cells = self.beside, [], []
        if cells:
            self.blocks.append(RtfRow(cells, is_header, beside))

    def _row_above(self) -> list[str]:
        last = self.blocks[-1] if self.blocks else None
        if not isinstance(last, RtfRow):
            return []
        return [cell.text for cell in last.cells for _ in range(cell.across)]

    def end(self) -> None:
        """End the text; cells without the end of their row are paragraphs."""
        for words in (*(words for words, _ in self._cells), *self._parts):
            self.blocks.append(RtfParagraph(words, "", 0, 0, False, []))
        self._cells, self._parts = [], []
        self.end_paragraph(in_table=False)
