"""Read workbooks of the binary form of Excel (`.xlsb`)."""

from __future__ import annotations

import io
from datetime import date, datetime, time, timedelta

from whence.ingest.spreadsheets.cells import Cell, Sheet, TextLimit, Workbook, repeat_merged
from whence.ingest.spreadsheets.number_formats import general
from whence.schema.errors import BadInput, error_text

#: What the library raises, outside the classes of Python, when a file is not what it expects.
_PANIC = "PanicException"
_Value = int | float | str | bool | time | date | datetime | timedelta


def read_binary(data: bytes) -> Workbook:
    """Return what a workbook shows; numbers as they are stored: the library reads formats of dates only.

    Raises:
        BadInput: It is damaged, protected, or too large for one document.
    """
    import python_calamine as calamine

    book, limit = Workbook(), TextLimit()
    try:
        source = calamine.load_workbook(io.BytesIO(data))
        for at, about in enumerate(source.sheets_metadata):
            if about.typ == calamine.SheetTypeEnum.ChartSheet:
                book.left_out["charts"] += 1
            elif about.visible != calamine.SheetVisibleEnum.Visible:
                book.hidden.append(about.name)
            elif about.typ == calamine.SheetTypeEnum.WorkSheet:
                book.sheets.append(_sheet(source.get_sheet_by_index(at), limit))
    except calamine.PasswordError as error:
        raise BadInput("is protected by a password") from error
    except calamine.CalamineError as error:
        raise BadInput(f"is not a readable workbook: {error_text(error)[:200]}") from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise BadInput("is not a readable workbook: it is damaged") from error
    return book


def _sheet(source: object, limit: TextLimit) -> Sheet:
    from python_calamine import CalamineSheet

    assert isinstance(source, CalamineSheet)
    sheet = Sheet(name=source.name)
    if source.start is None:
        return sheet
    # The rows begin with the first of the sheet, whether or not it is empty.
    for number, values in enumerate(source.iter_rows(), 1):
        cells = {column: _cell(value) for column, value in enumerate(values, 1) if value != ""}
        for cell in cells.values():
            limit.add(cell.text)
        if cells:
            sheet.rows[number] = cells
    merged = [
        (top + 1, first + 1, bottom + 1, last + 1)
        for (top, first), (bottom, last) in source.merged_cell_ranges or ()
    ]
    repeat_merged(sheet.rows, merged, limit)
    return sheet


def _cell(value: _Value) -> Cell:
    if isinstance(value, bool):
        return Cell("TRUE" if value else "FALSE")
    if isinstance(value, str):
        return Cell(value)
    if isinstance(value, int | float):
        return Cell(general(value), "number")
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return Cell(f"{minutes // 60}:{minutes % 60:02}:{seconds:02}", "date")
    if isinstance(value, datetime):
        return Cell(value.isoformat(" ", "seconds").removesuffix(" 00:00:00"), "date")
    return Cell(value.isoformat(), "date")
