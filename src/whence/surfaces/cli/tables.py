"""Tables for people: values become text by one rule, and no line ends in blanks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text


class PlainTable(Table):
    """A table without borders; numbers have separators, truth is `yes` or `no`, nothing is `-`."""

    def __init__(self, *, show_header: bool = True) -> None:
        super().__init__(
            box=None, show_header=show_header, header_style="bold", padding=(0, 2, 0, 0)
        )

    def add_values(self, *values: object) -> None:
        """Add a row; square brackets in a value are no markup."""
        self.add_row(*(one if isinstance(one, Text) else Text(value_text(one)) for one in values))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines without blanks at their ends."""
        segments = cast("Iterable[Segment]", super().__rich_console__(console, options))
        for line in Segment.split_lines(segments):
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                text, style, control = line.pop()
                line.append(Segment(text.rstrip(), style, control))
            yield from line
            yield Segment.line()


def value_text(value: object) -> str:
    """Return a value as people read it: `no`, `1,186`, `0.4375`, `-` for none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
