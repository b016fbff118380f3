"""Read the records of a bundle: lines and CSV rows of a member, one at a time, and the fields of a record.

A field may have several names.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from whence.code.bundles.archive import Location, MemberStream
from whence.ingest.decoding import refuse_wide_encoding
from whence.ingest.field_validation import validate_text
from whence.schema.errors import BadInput

_BYTE_ORDER_MARK = "\ufeff"


class TableRow(NamedTuple):
    """One row of a table."""

    location: Location
    """The line on which it ends."""
    cells: dict[str, str]
    """Value by column; a column beyond the end of a short row is absent."""


def text_lines(stream: MemberStream, max_bytes: int) -> Iterator[tuple[Location, str]]:
    """Yield the lines of a member with their line ends and locations; memory holds one."""
    number = 0
    while data := stream.readline(max_bytes + 1):
        number += 1
        location = stream.location.at_line(number)
        if number == 1:
            with location.prefix_errors():
                refuse_wide_encoding(data)
        if len(data) > max_bytes:
            raise location.error(f"is longer than {max_bytes:,} bytes, the limit for one line")
        text = location.decode(data)
        yield location, text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text


def csv_rows(
    stream: MemberStream, max_bytes: int, *, required: Sequence[Sequence[str]]
) -> Iterator[TableRow]:
    """Yield the rows of a table whose first row names the columns; blank lines are skipped."""
    reader = csv.reader((text for _, text in text_lines(stream, max_bytes)), strict=True)
    columns: list[str] | None = None
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            location = stream.location.at_line(reader.line_num)
            raise location.error(f"is not CSV: {error}") from error
        if values is None:
            return
        location = stream.location.at_line(reader.line_num)
        if not values:
            continue
        if columns is None:
            columns = _columns(values, location, required)
            continue
        if len(values) > len(columns):
            raise location.error(f"has {len(values)} values for {len(columns)} columns")
        yield TableRow(location, dict(zip(columns, values, strict=False)))


def _columns(values: list[str], location: Location, required: Sequence[Sequence[str]]) -> list[str]:
    columns = [value.strip() for value in values]
    twice = {name for name in columns if name and columns.count(name) > 1}
    if twice:
        raise location.error(f"names the column {min(twice)!r} twice")
    for names in required:
        if not set(names) & set(columns):
            raise location.error(f"has no column {' or '.join(names)}")
    return columns


def first_text(record: Mapping[str, Any], *names: str, default: str = "") -> str:
    """Return the first of these fields that holds text, stripped."""
    texts = (_string(record, name).strip() for name in names)
    return next(filter(None, texts), default)


def whole_text(record: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that is not empty, unchanged."""
    return next(filter(None, (_string(record, name) for name in names)), "")


def _string(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a string, not {type(value).__name__}")
    if not value.isascii() or "\0" in value:
        validate_text(value, name)
    return value


def integer(record: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is an integer of 0 or more; None if it is absent."""
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise BadInput(f"{name} must be an integer from 0 to 2,147,483,647, not {value!r}")
    return value
