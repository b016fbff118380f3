"""Read workbooks of Excel before 2007 (`.xls`): cells by their formats, as in `xlsx`."""

from __future__ import annotations

import io
from typing import Any

from whence.ingest.spreadsheets.cells import Cell, Sheet, TextLimit, Workbook, repeat_merged
from whence.ingest.spreadsheets.number_formats import GENERAL, shown_number
from whence.schema.errors import BadInput, error_text


def read_xls(data: bytes) -> Workbook:
    """Return what a workbook shows.

    Raises:
        BadInput: It is damaged, protected, or too large for one document.
    """
    import xlrd

    try:
        source = xlrd.open_workbook(file_contents=data, formatting_info=True, logfile=io.StringIO())
        return _Reader(source).book()
    except (BadInput, MemoryError):
        raise
    # The library does not validate files: any exception means that the file is invalid.
    except Exception as error:
        words = error_text(error)[:200]
        if "encrypted" in words:
            raise BadInput("is protected by a password") from error
        raise BadInput(f"is not a readable workbook: {words}") from error


class _Reader:
    def __init__(self, source: Any) -> None:
        self._source = source
        self._book = Workbook()
        self._limit = TextLimit()

    def book(self) -> Workbook:
        for source in self._source.sheets():
            if source.visibility:
                self._book.hidden.append(source.name)
            else:
                self._book.sheets.append(self._sheet(source))
                self._book.left_out["comments"] += len(source.cell_note_map)
        return self._book

    def _sheet(self, source: Any) -> Sheet:
        sheet = Sheet(name=source.name)
        hidden_rows = {row for row, about in source.rowinfo_map.items() if about.hidden}
        hidden_columns = {column for column, about in source.colinfo_map.items() if about.hidden}
        for row in range(source.nrows):
            cells = {
                column + 1: cell
                for column in range(source.row_len(row))
                if (cell := self._cell(source.cell(row, column))) is not None
            }
            shown = {
                column: cell for column, cell in cells.items() if column - 1 not in hidden_columns
            }
            if cells and row in hidden_rows:
                self._book.left_out["hidden rows"] += 1
            elif shown:
                sheet.rows[row + 1] = shown
        used = hidden_columns.intersection(range(source.ncols))
        self._book.left_out["hidden columns"] += len(used)
        merged = [
            (top + 1, first + 1, bottom, last)
            for top, bottom, first, last in source.merged_cells
            if top not in hidden_rows and first not in hidden_columns
        ]
        repeat_merged(sheet.rows, merged, self._limit)
        return sheet

    def _cell(self, source: Any) -> Cell | None:
        import xlrd

        kind, value = source.ctype, source.value
        style = self._source.xf_list[source.xf_index] if source.xf_index is not None else None
        font = self._source.font_list[style.font_index] if style else None
        if kind in (xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK) or value == "":
            return None
        if kind == xlrd.XL_CELL_BOOLEAN:
            cell = Cell("TRUE" if value else "FALSE")
        elif kind == xlrd.XL_CELL_ERROR:
            cell = Cell(xlrd.error_text_from_code.get(value, "#ERROR"))
        elif kind == xlrd.XL_CELL_TEXT:
            cell = Cell(str(value))
        else:
            found = self._source.format_map.get(style.format_key) if style else None
            code = found.format_str if found else GENERAL
            cell = shown_number(value, code, epoch_1904=bool(self._source.datemode))
        if font and font.struck_out:
            self._book.left_out["struck passages"] += 1
            return None
        self._limit.add(cell.text)
        return cell._replace(bold=True) if font and font.bold else cell
