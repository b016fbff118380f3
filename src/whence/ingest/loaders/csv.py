"""Load tables of text (CSV, TSV): the sign between cells is found, and whether there is a header.

The places of rows are their lines in the file, and their numbers.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from whence.ingest.blocks import ParsedDocument
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import MAX_TEXT, build_document
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.spreadsheets.cells import Cell, CellKind, Sheet, TextLimit
from whence.ingest.spreadsheets.tables import write_sheet
from whence.ingest.text_builder import TextBuilder
from whence.schema.errors import BadInput
from whence.text.spans import Span

#: Signs that part cells; of two that part rows alike the first one does, since a comma may be a decimal one.
_DELIMITERS = "\t;|,"
_SAMPLE_LINES = 200
#: Excel writes it into the first line.
_STATED = re.compile(r"\s*sep=(.)\s*\n", re.IGNORECASE)
#: A cell of more lines is a quotation mark that is none.
_MAX_CELL_LINES = 200
_NUMBER = re.compile(r"[-+(]{0,2}[€$£¥]?\s?\d[\d.,'\u00a0\u202f ]*(?:[eE][-+]?\d+)?\s?[€$£¥%]?\)?")
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?|\d{1,2}([./-])\d{1,2}\1\d{2,4}|\d\d:\d\d(?::\d\d)?"
)


def load_table(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file of rows; rows may differ in length, and empty ones part tables."""
    decoded = decode_text(data, file.encoding)
    text = TextBuilder()
    write_sheet(text, _sheet(decoded.text))
    return build_document(
        file,
        text.text,
        text.blocks,
        encoding=decoded.encoding,
        places=text.places,
        left_out=decoded.left_out,
    )


def _sheet(source: str) -> Sheet:
    stated = _STATED.match(source)
    skipped = stated.end() if stated else 0
    delimiter = stated[1] if stated else _delimiter(source)
    lines = source[skipped:].split("\n")
    first = source.count("\n", 0, skipped) + 1
    sheet, limit = Sheet(name="", is_grid=True), TextLimit()
    for number, (row, (top, bottom)) in enumerate(_rows(lines, delimiter), 1):
        cells = {at: _cell(value) for at, value in enumerate(row, 1) if value.strip()}
        if cells:
            limit.add("".join(row))
            sheet.rows[number] = cells
            sheet.lines[number] = (top + first, bottom + first)
    return sheet


def _rows(lines: list[str], delimiter: str) -> Iterator[tuple[list[str], Span]]:
    """Yield the rows with the indexes of their first and last lines."""
    rows = list(_read(lines, delimiter, csv.QUOTE_MINIMAL))
    if any(bottom - top > _MAX_CELL_LINES for _, (top, bottom) in rows):
        rows = list(_read(lines, delimiter, csv.QUOTE_NONE))
    yield from rows


def _read(
    lines: list[str], delimiter: str, quoting: Literal[0, 3]
) -> Iterator[tuple[list[str], Span]]:
    csv.field_size_limit(MAX_TEXT)
    reader = csv.reader(
        (f"{line}\n" for line in lines), delimiter=delimiter, quoting=quoting, skipinitialspace=True
    )
    done = 0
    try:
        for row in reader:
            yield row, (done, reader.line_num - 1)
            done = reader.line_num
    except csv.Error as error:
        raise BadInput(f"line {reader.line_num}: {error}") from error


def _delimiter(source: str) -> str:
    """Return the sign that parts most rows into the same number of cells; a comma if none parts any."""
    lines = source[: 100 * _SAMPLE_LINES].split("\n")[:_SAMPLE_LINES]
    best, most = ",", 0.0
    for delimiter in _DELIMITERS:
        widths = Counter(len(row) for row, _ in _rows(lines, delimiter) if any(row))
        width, count = max(widths.items(), key=lambda pair: (pair[1], pair[0]), default=(1, 0))
        share = count / widths.total() if width > 1 else 0.0
        if share > most:
            best, most = delimiter, share
    return best


def _cell(value: str) -> Cell:
    text = value.strip()
    kind: CellKind = "text"
    if _DATE.fullmatch(text):
        kind = "date"
    elif _NUMBER.fullmatch(text):
        kind = "number"
    return Cell(text, kind)


LOADERS = (
    Loader(
        name="table", suffixes=(".csv", ".tsv", ".tab", ".psv"), parse_file=load_table, version="1"
    ),
)
