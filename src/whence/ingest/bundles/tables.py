"""Lines and CSV rows of a member, one at a time, each with its place."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from whence.ingest.bundles.archive import MemberStream
from whence.ingest.bundles.json_stream import decoded
from whence.ingest.bundles.locations import Place
from whence.ingest.decoding import refuse_wide_encoding

__all__ = ("Line", "Row", "csv_rows", "text_lines")

_MARK = "\ufeff"


class Line(NamedTuple):
    """One line with its end."""

    place: Place
    text: str


class Row(NamedTuple):
    """One row of a table."""

    place: Place
    """The line on which it ends."""
    cells: dict[str, str]
    """Value by column; a column beyond the end of a short row is absent."""


def text_lines(stream: MemberStream, max_bytes: int) -> Iterator[Line]:
    """Yield the lines of a member; memory holds one.

    Raises:
        BadInput: A line is not UTF-8 or is longer than `max_bytes`.
    """
    number = 0
    while data := stream.readline(max_bytes + 1):
        number += 1
        place = stream.place.on_line(number)
        if number == 1:
            with place.blamed():
                refuse_wide_encoding(data)
        if len(data) > max_bytes:
            raise place.error(f"is longer than {max_bytes:,} bytes, the limit for one line")
        text = decoded(data, place)
        yield Line(place, text.removeprefix(_MARK) if number == 1 else text)


def csv_rows(
    stream: MemberStream, max_bytes: int, *, needed: Sequence[Sequence[str]]
) -> Iterator[Row]:
    """Yield the rows of a table whose first row names the columns; blank lines are passed over.

    Args:
        stream: The member.
        max_bytes: Longest line.
        needed: For each column that must be there, the names it may have.

    Raises:
        BadInput: A line is not UTF-8 or too long, the quoting is broken, a column is named twice or is
            missing, or a row has more values than there are columns.
    """
    reader = csv.reader((line.text for line in text_lines(stream, max_bytes)), strict=True)
    columns: list[str] | None = None
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            place = stream.place.on_line(reader.line_num)
            raise place.error(f"is not CSV: {error}") from error
        if values is None:
            return
        place = stream.place.on_line(reader.line_num)
        if not values:
            continue
        if columns is None:
            columns = _columns(values, place, needed)
            continue
        if len(values) > len(columns):
            raise place.error(f"has {len(values)} values for {len(columns)} columns")
        yield Row(place, dict(zip(columns, values, strict=False)))


def _columns(values: list[str], place: Place, needed: Sequence[Sequence[str]]) -> list[str]:
    columns = [value.strip() for value in values]
    twice = {name for name in columns if name and columns.count(name) > 1}
    if twice:
        raise place.error(f"names the column {min(twice)!r} twice")
    for names in needed:
        if not set(names) & set(columns):
            raise place.error(f"has no column {' or '.join(names)}")
    return columns
