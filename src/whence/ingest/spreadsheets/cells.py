"""The cells of a workbook, as they are shown."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal, NamedTuple

import msgspec

from whence.ingest.document_builder import MAX_TEXT
from whence.schema.errors import BadInput
from whence.text.spans import Span

CellKind = Literal["text", "number", "date"]
#: Row and column of the first cell of a range and of the last one, from 1.
Area = tuple[int, int, int, int]
#: Largest unpacked size of the parts of a workbook, in bytes: they are read as events.
MAX_UNPACKED_BYTES = 512 * 2**20
#: Most cells that repeat the text of merged cells.
_MAX_REPEATED = 100_000


class Cell(NamedTuple):
    """A cell that is not empty."""

    text: str
    kind: CellKind = "text"
    bold: bool = False
    source: tuple[int, int] = (0, 0)
    """Row and column of the merged cell whose text it repeats; `(0, 0)` if it is none."""


class Sheet(msgspec.Struct, kw_only=True):
    """A sheet that is shown."""

    name: str
    rows: dict[int, dict[int, Cell]] = {}
    """Its cells by row and column, from 1; rows and columns that are hidden are left out."""
    tables: list[tuple[Area, int]] = []
    """Ranges that the author made a table, with the number of their header rows."""
    notes: list[str] = []
    """Paragraphs of its text boxes."""
    lines: dict[int, Span] = {}
    """First and last line of each row in the file; empty if it has no lines."""
    is_grid: bool = False
    """Whether an empty column parts no tables."""


class Workbook(msgspec.Struct, kw_only=True):
    """What a workbook shows."""

    sheets: list[Sheet] = []
    hidden: list[str] = []
    """Names of hidden sheets, which are not read."""
    title: str = ""
    date: str = ""
    """When it was last changed, ISO 8601; empty if it does not say."""
    left_out: Counter[str] = msgspec.field(default_factory=Counter)


def iso_seconds(moment: str) -> str:
    """Return a date with a time without fractions of seconds, some of which have more digits than ISO 8601."""
    return re.sub(r"[.,]\d+", "", moment.strip())


class TextLimit:
    """Counts the characters of a workbook, so that a huge one is refused before all of it is read."""

    def __init__(self) -> None:
        self._left = MAX_TEXT

    def add(self, text: str) -> None:
        """Count a text.

        Raises:
            BadInput: There are more than one document may have.
        """
        self._left -= len(text)
        if self._left < 0:
            raise BadInput(
                f"its cells hold more than {MAX_TEXT:,} characters, the limit for one document; split it"
            )


def repeat_merged(rows: dict[int, dict[int, Cell]], merged: list[Area], limit: TextLimit) -> None:
    """Repeat the text of merged cells in each cell that they cover, as a reader sees it."""
    left = _MAX_REPEATED
    for top, first, bottom, last in merged:
        cell = rows.get(top, {}).get(first)
        size = (bottom - top + 1) * (last - first + 1)
        if cell is None or size > left:
            continue
        left -= size
        repeated = cell._replace(source=(top, first))
        for row in range(top, bottom + 1):
            for column in range(first, last + 1):
                limit.add(cell.text)
                rows.setdefault(row, {})[column] = repeated
