"""Load workbooks: every sheet that is shown, as the tables that stand on it.

The places of their rows are those of the sheet. Formulas are not run.
"""

from __future__ import annotations

from collections.abc import Callable

from whence.ingest.blocks import ParsedDocument
from whence.ingest.content_detection import format_of
from whence.ingest.document_builder import build_document
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.spreadsheets.binary import read_binary
from whence.ingest.spreadsheets.cells import Workbook
from whence.ingest.spreadsheets.opendocument import read_ods
from whence.ingest.spreadsheets.tables import write_sheet
from whence.ingest.spreadsheets.xls import read_xls
from whence.ingest.spreadsheets.xlsx import read_xlsx
from whence.ingest.text_builder import TextBuilder

_READERS: dict[str, Callable[[bytes], Workbook]] = {".ods": read_ods, ".xls": read_xls}
_BINARY_PART = b"xl/workbook.bin"


def load_workbook(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a workbook; its title is that of its properties. Hidden sheets, rows and columns are counted."""
    read = _READERS.get(format_of(data), read_binary if _BINARY_PART in data else read_xlsx)
    book = read(data)
    text = TextBuilder()
    for number, sheet in enumerate(book.sheets, 1):
        text.page, text.sheet = number, sheet.name
        if sheet.rows or sheet.notes:
            text.add_heading(1, sheet.name)
            write_sheet(text, sheet)
    if book.hidden and text.blocks:
        text.page, text.sheet = 0, ""
        text.add_paragraph(f"Hidden sheets, not read: {', '.join(book.hidden)}")
    left_out = {**book.left_out, "hidden sheets": len(book.hidden)}
    return build_document(
        file,
        text.text,
        text.blocks,
        title=book.title,
        places=text.places,
        date=book.date,
        left_out=left_out,
    )


LOADERS = (
    Loader(
        name="workbook",
        suffixes=(".xlsx", ".xlsm", ".xltx", ".xls", ".xlsb", ".ods"),
        parse_file=load_workbook,
        is_binary=True,
        version="2",
    ),
)
