"""Read workbooks of OpenDocument (`.ods`): the text of each cell is stored as it is shown."""

from __future__ import annotations

from collections import Counter

from whence.ingest.content_detection import ODF_PROTECTED
from whence.ingest.office.archive import OfficeArchive
from whence.ingest.spreadsheets.cells import (
    MAX_UNPACKED_BYTES,
    Area,
    Cell,
    CellKind,
    Sheet,
    TextLimit,
    Workbook,
    iso_seconds,
    repeat_merged,
)
from whence.ingest.xml_events import XmlReader
from whence.schema.errors import BadInput

_KINDS: dict[str, CellKind] = {
    "float": "number",
    "percentage": "number",
    "currency": "number",
    "date": "date",
    "time": "date",
}
#: Most rows or columns that one element stands for and that have text.
_MAX_REPEATED = 10_000
_MAX_COLUMN = 16_384
_COUNTED = {"annotation": "comments", "image": "pictures", "object": "charts"}
_STYLES = frozenset({"style", "table-properties", "text-properties"})
_MANIFEST = "META-INF/manifest.xml"


def read_ods(data: bytes) -> Workbook:
    """Return what a workbook shows.

    Raises:
        BadInput: It is damaged, protected, or too large for one document.
    """
    book = Workbook()
    archive = OfficeArchive(data, "workbook", MAX_UNPACKED_BYTES)
    if _MANIFEST in archive and b":encryption-data" in archive.read(_MANIFEST):
        raise BadInput(ODF_PROTECTED)
    archive.feed("content.xml", _Content(book).reader)
    if "meta.xml" in archive:
        archive.feed("meta.xml", _meta(book))
    return book


def _meta(book: Workbook) -> XmlReader:
    def end(tag: str, words: str) -> None:
        if tag == "title":
            book.title = book.title or words.strip()
        elif tag == "date":
            book.date = book.date or iso_seconds(words)

    return XmlReader(None, end)


class _Content:
    """Reads `content.xml`."""

    def __init__(self, book: Workbook) -> None:
        self._book = book
        self._limit = TextLimit()
        self.reader = XmlReader(self._start, self._end)
        self._inside: Counter[str] = Counter()
        self._hidden_styles: set[str] = set()
        self._struck_styles: set[str] = set()
        self._style = ""
        self._sheet: Sheet | None = None
        self._merged: list[Area] = []
        self._row = self._column = 0
        self._row_times = 1
        self._row_hidden = False
        self._cells: dict[int, Cell] = {}
        self._hidden_columns: set[int] = set()
        self._columns = 0
        self._cell: dict[str, str] = {}
        self._lines: list[str] = []
        self._struck: list[bool] = []

    def _start(self, tag: str, values: dict[str, str]) -> None:
        if self._inside["cell"]:
            self._add_text(self.reader.taken())
        self._inside[tag] += 1
        if tag in _COUNTED and self._sheet:
            self._book.left_out[_COUNTED[tag]] += 1
        elif tag in _STYLES:
            self._note_style(tag, values)
        elif tag == "table" and "table:name" in values and self._sheet is None:
            self._begin_sheet(values)
        elif tag == "table-column" and self._sheet:
            self._begin_columns(values)
        elif tag == "table-row":
            self._row_times = _times(values, "rows")
            self._row_hidden = values.get("table:visibility") == "collapse"
            self._column, self._cells = 0, {}
        elif tag in ("table-cell", "covered-table-cell"):
            self._cell, self._lines = values, []
            self._struck = [values.get("table:style-name", "") in self._struck_styles]
            self._inside["cell"] = tag == "table-cell"
        elif self._inside["cell"]:
            self._begin_text(tag, values)

    def _note_style(self, tag: str, values: dict[str, str]) -> None:
        if tag == "style":
            self._style = values.get("style:name", "")
        elif values.get("table:display") == "false":
            self._hidden_styles.add(self._style)
        elif values.get("style:text-line-through-style", "none") != "none":
            self._struck_styles.add(self._style)

    def _begin_columns(self, values: dict[str, str]) -> None:
        times = min(_times(values, "columns"), _MAX_COLUMN)
        if values.get("table:visibility") in ("collapse", "filter"):
            self._hidden_columns.update(range(self._columns + 1, self._columns + times + 1))
        self._columns = min(self._columns + times, _MAX_COLUMN)

    def _begin_text(self, tag: str, values: dict[str, str]) -> None:
        if tag == "p" and not self._inside["annotation"]:
            self._lines.append("")
        elif tag == "span":
            self._struck.append(values.get("text:style-name", "") in self._struck_styles)
        elif tag in ("s", "tab", "line-break"):
            self._add_text(" ")

    def _end(self, tag: str, words: str) -> None:
        self._inside[tag] -= 1
        if self._inside["cell"]:
            self._add_text(words)
        if tag == "span" and len(self._struck) > 1:
            self._struck.pop()
        elif tag in ("table-cell", "covered-table-cell") and self._sheet:
            self._end_cell()
        elif tag == "table-row" and self._sheet:
            self._end_row()
        elif tag == "table" and self._sheet and not self._inside["table"]:
            self._end_sheet(self._sheet)

    def _add_text(self, words: str) -> None:
        if not self._lines or self._inside["annotation"] or not words:
            return
        if any(self._struck):
            self._book.left_out["struck passages"] += bool(words.strip())
        else:
            self._lines[-1] += words

    def _begin_sheet(self, values: dict[str, str]) -> None:
        name = values["table:name"]
        self._sheet = Sheet(name=name)
        self._merged, self._row, self._columns = [], 0, 0
        self._hidden_columns = set()
        if values.get("table:style-name") in self._hidden_styles:
            self._book.hidden.append(name)

    def _end_cell(self) -> None:
        values, times = self._cell, _times(self._cell, "columns")
        self._inside["cell"] = 0
        text = "\n".join(filter(None, (line.strip() for line in self._lines)))
        kind = _KINDS.get(values.get("office:value-type", ""), "text")
        if kind == "date" and (stated := values.get("office:date-value")):
            text = stated.replace("T", " ").removesuffix(" 00:00:00") if text else ""
        if text:
            rows, columns = (_span(values, name) for name in ("rows", "columns"))
            if rows * columns > 1:
                top, left = self._row + 1, self._column + 1
                self._merged.append((top, left, top + rows - 1, left + columns - 1))
            for at in range(self._column + 1, self._column + min(times, _MAX_REPEATED) + 1):
                self._limit.add(text)
                self._cells[at] = Cell(text, kind)
        elif "table:formula" in values:
            self._book.left_out["formulas without a value"] += times
        self._column += times

    def _end_row(self) -> None:
        assert self._sheet is not None
        if self._cells and self._row_hidden:
            self._book.left_out["hidden rows"] += self._row_times
        elif self._cells:
            size = sum(len(cell.text) for cell in self._cells.values())
            for at in range(self._row + 1, self._row + min(self._row_times, _MAX_REPEATED) + 1):
                self._limit.add("x" * size if at > self._row + 1 else "")
                self._sheet.rows[at] = dict(self._cells)
        self._row += self._row_times

    def _end_sheet(self, sheet: Sheet) -> None:
        self._sheet = None
        if sheet.name in self._book.hidden:
            return
        repeat_merged(sheet.rows, self._merged, self._limit)
        hidden: set[int] = set()
        for cells in sheet.rows.values():
            for column in self._hidden_columns.intersection(cells):
                del cells[column]
                hidden.add(column)
        self._book.left_out["hidden columns"] += len(hidden)
        self._book.sheets.append(sheet)


def _times(values: dict[str, str], what: str) -> int:
    return _positive(values.get(f"table:number-{what}-repeated"))


def _span(values: dict[str, str], what: str) -> int:
    return _positive(values.get(f"table:number-{what}-spanned"))


def _positive(value: str | None) -> int:
    return max(1, int(value)) if value and value.isdigit() else 1
