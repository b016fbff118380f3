"""Tables of Markdown in a text, printed with aligned columns; what is bold marks the row it is in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.box import MARKDOWN
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from whence.quoting.tables import header_of, read_rows

_TABLE = re.compile(r"^[ \t]*\|.*\|[ \t]*(?:\n[ \t]*\|.*\|[ \t]*)+$", re.MULTILINE)
_ANSWERS = "bold"


def with_tables(text: Text) -> Iterator[RenderableType]:
    """Yield the parts of a text in order, each table as one that the console fits to its width."""
    done = 0
    for found in _TABLE.finditer(text.plain):
        table = _table(text[found.start() : found.end()])
        if table is None:
            continue
        if found.start() > done:
            yield text[done : found.start() - 1]
        yield Indented(table, frame=1)
        done = found.end() + 1
    if done < len(text) or not done:
        yield text[done:]


class Indented:
    """Lines of something that can be printed, below one another some columns to the right.

    Args:
        body: What is printed.
        columns: How far to the right.
        frame: Lines that are left out above and below.
    """

    def __init__(self, body: RenderableType, columns: int = 0, *, frame: int = 0) -> None:
        self._body = body
        self._columns = columns
        self._frame = frame

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        inner = options.update(width=max(1, options.max_width - self._columns))
        lines = console.render_lines(self._body, inner, pad=False)
        for line in lines[self._frame : len(lines) - self._frame]:
            yield Segment(" " * self._columns)
            yield from line
            yield Segment.line()


def _table(lines: Text) -> Table | None:
    rows = read_rows(lines.plain)
    header = header_of(lines.plain)
    if not rows:
        return None
    table = Table(box=MARKDOWN, show_header=bool(header), header_style="")
    for at in range(max(len(row.cells) for row in rows)):
        named = header and at < len(rows[0].cells)
        table.add_column(lines[slice(*rows[0].cells[at])] if named else "", overflow="fold")
    for row in rows[1:] if header else rows:
        is_marked = any(
            span.style == _ANSWERS and span.start < row.end and row.start < span.end
            for span in lines.spans
        )
        cells = [lines[slice(*cell)] for cell in row.cells]
        table.add_row(*cells, style=_ANSWERS if is_marked else None)
    return table
