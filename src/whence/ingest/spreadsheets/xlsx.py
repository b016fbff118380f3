"""Read workbooks of Office Open XML (`.xlsx`, `.xlsm`): cells by their formats, hidden parts, notes and tables.

Formulas are not run: their values are those that the program stored that saved the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from whence.ingest.office.archive import DamagedPart, OfficeArchive
from whence.ingest.spreadsheets.cells import (
    MAX_UNPACKED_BYTES,
    Area,
    Cell,
    Sheet,
    TextLimit,
    Workbook,
    repeat_merged,
)
from whence.ingest.spreadsheets.number_formats import BUILT_IN, GENERAL, shown_number
from whence.ingest.text_builder import raised
from whence.ingest.xml_events import XmlReader, local_name
from whence.schema.errors import BadInput

#: Characters of all texts that cells share.
_MAX_SHARED = 64 * 2**20
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
#: A character that XML does not allow, as its code.
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")

_NO_STYLE = (GENERAL, False, False)
#: Code of the format, whether it is bold, whether it is struck.
_Style = tuple[str, bool, bool]
_MAX_COLUMN = 16_384


def _read(parts: OfficeArchive, name: str, reader: XmlReader) -> bool:
    """Feed a part to a reader; return whether there is such a part that can be read."""
    try:
        parts.feed(name, reader)
    except DamagedPart:
        return False
    return True


def _links(parts: OfficeArchive, part: str) -> dict[str, tuple[str, str]]:
    """Return kind and target of the links of a part within the file by their ids."""
    return {
        name: (link.kind, link.target)
        for name, link in parts.relations(part).items()
        if not link.is_external
    }


def read_xlsx(data: bytes) -> Workbook:
    """Return what a workbook shows.

    Raises:
        BadInput: It is damaged, protected, or too large for one document.
    """
    parts = OfficeArchive(data, "workbook", MAX_UNPACKED_BYTES)
    main = parts.main_part()
    book = Workbook()
    sheets, epoch_1904 = _sheet_list(parts, main)
    if not sheets:
        raise BadInput("is not a readable workbook: it names no sheets")
    links = _links(parts, main)
    by_kind = dict(links.values())
    texts = _shared_texts(parts, by_kind.get("sharedStrings", ""), book)
    styles = _styles(parts, by_kind.get("styles", ""))
    limit = TextLimit()
    for name, state, link in sheets:
        kind, path = links.get(link, ("", ""))
        if state in ("hidden", "veryHidden"):
            book.hidden.append(name)
        elif kind == "chartsheet":
            book.left_out["charts"] += 1
        else:
            reader = _SheetReader(name, texts, styles, limit, epoch_1904=epoch_1904)
            if not _read(parts, path, reader.events()):
                book.left_out["parts"] += 1
            book.sheets.append(reader.finished(book))
            _read_linked(parts, path, book)
    book.title, book.date = parts.properties()
    return book


def _sheet_list(parts: OfficeArchive, path: str) -> tuple[list[tuple[str, str, str]], bool]:
    """Return name, state and link of each sheet, and whether days are counted from 1904."""
    sheets: list[tuple[str, str, str]] = []
    flags: list[str] = []

    def start(tag: str, values: dict[str, str]) -> None:
        if tag == "sheet":
            link = next((value for name, value in values.items() if local_name(name) == "id"), "")
            sheets.append((values.get("name", ""), values.get("state", ""), link))
        elif tag == "workbookPr":
            flags.append(values.get("date1904", ""))

    _read(parts, path, XmlReader(start))
    return sheets, any(flag in ("1", "true") for flag in flags)


def _shared_texts(parts: OfficeArchive, path: str, book: Workbook) -> list[str]:
    texts: list[str] = []
    rich = _RichText(book)
    size = 0

    def end(tag: str, words: str) -> None:
        nonlocal size
        if tag == "si":
            texts.append(rich.taken())
            size += len(texts[-1])
            if size > _MAX_SHARED:
                raise BadInput(f"its texts are larger than {_MAX_SHARED:,} characters; split it")
        else:
            rich.end(tag, words)

    _read(parts, path, XmlReader(rich.start, end))
    return texts


class _RichText:
    """Joins the runs of a text; those that are struck are left out, raised ones written as such."""

    def __init__(self, book: Workbook) -> None:
        self._book = book
        self._pieces: list[str] = []
        self._reading = self._struck = self._raised = False

    def start(self, tag: str, values: dict[str, str]) -> None:
        if tag == "r":
            self._struck = self._raised = False
        elif tag == "rPh":
            self._reading = True
        elif tag == "strike":
            self._struck = values.get("val", "1") not in ("0", "false")
        elif tag == "vertAlign":
            self._raised = values.get("val") == "superscript"

    def end(self, tag: str, words: str) -> None:
        if tag == "rPh":
            self._reading = False
        elif tag == "t" and not self._reading:
            if self._struck and words.strip():
                self._book.left_out["struck passages"] += 1
            elif self._raised:
                self._pieces.append(raised(words, "".join(self._pieces)))
            else:
                self._pieces.append(words)

    def taken(self) -> str:
        """Return the text, and begin the next one."""
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), "".join(self._pieces))
        self._pieces, self._reading, self._struck, self._raised = [], False, False, False
        return text


def _styles(parts: OfficeArchive, path: str) -> list[_Style]:
    """Return the styles of cells by their numbers."""
    codes: dict[int, str] = dict(BUILT_IN)
    fonts: list[tuple[bool, bool]] = []
    styles: list[_Style] = []
    inside: list[str] = []

    def start(tag: str, values: dict[str, str]) -> None:
        inside.append(tag)
        above = inside[-2] if len(inside) > 1 else ""
        if tag == "numFmt" and above == "numFmts":
            codes[_int(values.get("numFmtId"))] = values.get("formatCode", GENERAL)
        elif tag == "font" and above == "fonts":
            fonts.append((False, False))
        elif above == "font" and tag in ("b", "strike") and fonts:
            is_on = values.get("val", "1") not in ("0", "false")
            bold, struck = fonts[-1]
            fonts[-1] = (is_on or bold, struck) if tag == "b" else (bold, is_on or struck)
        elif tag == "xf" and above == "cellXfs":
            font = _int(values.get("fontId"))
            look = fonts[font] if font < len(fonts) else (False, False)
            styles.append((codes.get(_int(values.get("numFmtId")), GENERAL), *look))

    def end(_tag: str, _words: str) -> None:
        inside.pop()

    _read(parts, path, XmlReader(start, end))
    return styles


class _SheetReader:
    """Reads the cells of one sheet."""

    def __init__(
        self,
        name: str,
        texts: list[str],
        styles: list[_Style],
        limit: TextLimit,
        *,
        epoch_1904: bool,
    ) -> None:
        self._sheet = Sheet(name=name)
        self._texts, self._styles, self._limit = texts, styles, limit
        self._epoch_1904 = epoch_1904
        self._book = Workbook()
        self._rich = _RichText(self._book)
        self._row = self._column = 0
        self._cells: dict[int, Cell] = {}
        self._kind = self._value = ""
        self._style = _NO_STYLE
        self._has_formula = False
        self._merged: list[Area] = []
        self._hidden_rows: set[int] = set()
        self._hidden_columns: set[int] = set()
        self._filtered: Area | None = None

    def events(self) -> XmlReader:
        """Return what the part of the sheet is given to."""
        return XmlReader(self._start, self._end)

    def finished(self, book: Workbook) -> Sheet:
        """Return the sheet without what is hidden, which is counted in the book."""
        book.left_out.update(self._book.left_out)
        rows = self._sheet.rows
        repeat_merged(rows, self._merged, self._limit)
        # A filter is a view of rows that are there.
        top, bottom = (self._filtered[0], self._filtered[2]) if self._filtered else (0, -1)
        hidden = {row for row in self._hidden_rows if not top <= row <= bottom}.intersection(rows)
        for row in hidden:
            del rows[row]
        columns = self._hidden_columns.intersection(*[{c for row in rows.values() for c in row}])
        for cells in rows.values():
            for column in columns.intersection(cells):
                del cells[column]
        book.left_out["hidden rows"] += len(hidden)
        book.left_out["hidden columns"] += len(columns)
        return self._sheet

    def _start(self, tag: str, values: dict[str, str]) -> None:
        if tag == "c":
            self._begin_cell(values)
        elif tag == "row":
            self._begin_row(values)
        elif tag == "f":
            self._has_formula = True
        elif tag == "col" and values.get("hidden") in ("1", "true"):
            last = min(_int(values.get("max")), _MAX_COLUMN)
            self._hidden_columns.update(range(_int(values.get("min")), last + 1))
        elif tag == "mergeCell" and (area := parse_area(values.get("ref", ""))):
            self._merged.append(area)
        elif tag == "autoFilter":
            self._filtered = parse_area(values.get("ref", ""))
        elif self._kind == "inlineStr":
            self._rich.start(tag, values)

    def _begin_row(self, values: dict[str, str]) -> None:
        self._row = _int(values.get("r")) or self._row + 1
        self._column, self._cells = 0, {}
        if values.get("hidden") in ("1", "true"):
            self._hidden_rows.add(self._row)

    def _begin_cell(self, values: dict[str, str]) -> None:
        found = _REFERENCE.fullmatch(values.get("r", ""))
        self._column = _column_number(found[1]) if found else self._column + 1
        self._kind, self._value, self._has_formula = values.get("t", "n"), "", False
        style = _int(values.get("s"))
        self._style = self._styles[style] if style < len(self._styles) else _NO_STYLE

    def _end(self, tag: str, words: str) -> None:
        if tag == "v":
            self._value = words
        elif tag == "c":
            self._end_cell()
        elif tag == "row":
            if self._cells:
                self._sheet.rows.setdefault(self._row, {}).update(self._cells)
        elif self._kind == "inlineStr":
            self._rich.end(tag, words)

    def _end_cell(self) -> None:
        code, bold, struck = self._style
        cell = self._shown(code)
        if cell is None or not cell.text.strip():
            self._book.left_out["formulas without a value"] += self._has_formula and not self._value
            return
        if struck:
            self._book.left_out["struck passages"] += 1
            return
        self._limit.add(cell.text)
        self._cells[self._column] = cell._replace(bold=bold) if bold else cell

    def _shown(self, code: str) -> Cell | None:
        kind, value = self._kind, self._value
        if kind == "inlineStr":
            return Cell(self._rich.taken())
        if kind == "s":
            at = _int(value, -1)
            return Cell(self._texts[at]) if 0 <= at < len(self._texts) else None
        if kind == "b":
            return Cell("TRUE" if value in ("1", "true") else "FALSE") if value else None
        if kind == "d":
            return Cell(value.replace("T", " ").removesuffix(" 00:00:00"), "date")
        if kind in ("str", "e"):
            return Cell(_ESCAPE.sub(lambda found: chr(int(found[1], 16)), value))
        try:
            return shown_number(float(value), code, epoch_1904=self._epoch_1904) if value else None
        except (ValueError, OverflowError):
            return Cell(value)


def _read_linked(parts: OfficeArchive, path: str, book: Workbook) -> None:
    """Read what a sheet links to: comments, pictures, charts, text boxes and tables."""
    sheet = book.sheets[-1]
    for kind, target in _links(parts, path).values():
        if kind in ("comments", "threadedComment"):
            _read(parts, target, XmlReader(_counter(book, {"comment": "comments"})))
        elif kind == "drawing":
            _read_drawing(parts, target, book)
        elif kind in ("oleObject", "package", "control"):
            book.left_out["objects"] += 1
        elif kind == "table":

            def start(tag: str, values: dict[str, str]) -> None:
                area = parse_area(values.get("ref", "")) if tag == "table" else None
                if area:
                    sheet.tables.append((area, _int(values.get("headerRowCount"), 1)))

            _read(parts, target, XmlReader(start))


def _counter(book: Workbook, kinds: dict[str, str]) -> Callable[[str, dict[str, str]], None]:
    def start(tag: str, _values: dict[str, str]) -> None:
        if tag in kinds:
            book.left_out[kinds[tag]] += 1

    return start


def _read_drawing(parts: OfficeArchive, path: str, book: Workbook) -> None:
    words: list[str] = []

    def end(tag: str, text: str) -> None:
        if tag == "t":
            words.append(text)
        elif tag == "p" and words:
            book.sheets[-1].notes.append("".join(words))
            words.clear()

    count = _counter(book, {"pic": "pictures", "graphicFrame": "charts"})
    _read(parts, path, XmlReader(count, end))


def parse_area(reference: str) -> Area | None:
    """Return the rows and columns of `A1:C3`, or of one cell; None if it is none.

    >>> parse_area("B2:$C$10")
    (2, 2, 10, 3)
    """
    first, _, last = reference.rpartition(":")
    ends = [_REFERENCE.fullmatch(each) for each in (first or last, last)]
    if ends[0] is None or ends[1] is None:
        return None
    (top, left), (bottom, right) = ((int(end[2]), _column_number(end[1])) for end in ends if end)
    return top, left, bottom, right


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number


def _int(value: str | None, default: int = 0) -> int:
    try:
        return int(value) if value else default
    except ValueError:
        return default
