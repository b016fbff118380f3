"""Make rows of text from the cells of a table, with the texts of merged cells repeated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: Most columns or rows that a cell spans.
_MAX_SPAN = 100
#: A longer text is not repeated in the rows, or in the columns, that it spans.
_MAX_REPEATED_DOWN, _MAX_REPEATED_ACROSS = 1000, 100
#: Most words of a cell of a header that nothing but its text shows to be one.
_MOST_HEADER_WORDS = 5
#: Columns of a table whose first row is the header even if there is one row below it.
_WIDE = 3
_YEAR = re.compile(r"(?<!\d)(?:19|20|21)\d\d(?!\d)")
_NUMBER = re.compile(r"[^\w]*\d[\d.,'\u2019\s%\u20ac$\u00a3\u2013-]*\w{0,3}")
_ENDS = re.compile(r"[.:;,!?)\u3002]$")


class Cell(NamedTuple):
    """A cell: its text, the columns and rows it spans, and whether it looks like one of a header."""

    text: str
    across: int = 1
    down: int = 1
    is_header: bool = False


def grid(rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """Return the texts of all columns of each row; a cell that spans a whole row stands in its first column."""
    widths = [sum(_limited(cell.across) for cell in row) for row in rows]
    width = max(widths, default=0)
    found: list[list[str]] = []
    spanning: dict[int, tuple[int, str]] = {}
    for row in rows:
        cells: list[str] = []
        pending = list(row)[::-1]
        while pending or len(cells) in spanning:
            if len(cells) in spanning:
                left, words = spanning.pop(len(cells))
                if left > 1:
                    spanning[len(cells)] = (left - 1, words)
                cells.append(words)
                continue
            cell = pending.pop()
            across, down = _limited(cell.across), _limited(cell.down)
            size = len(cell.text)
            beside = cell.text if size <= _MAX_REPEATED_ACROSS and across < width else ""
            for at in range(across):
                words = beside if at else cell.text
                if down > 1:
                    spanning[len(cells)] = (down - 1, words if size <= _MAX_REPEATED_DOWN else "")
                cells.append(words)
        found.append(cells)
    return found


def _limited(span: int) -> int:
    return min(max(span, 1), _MAX_SPAN)


def header_rows(rows: Sequence[Sequence[Cell]], texts: Sequence[Sequence[str]], stated: int) -> int:
    """Return how many of the first rows are the header.

    It is what the file states; else the first row, if all its cells look like a header and not all of those
    below it, or if it has no number but years while a column below it has nothing else; in wide tables also if
    it has short texts that are all different and stand nowhere below.

    Args:
        rows: The cells of each row.
        texts: The texts of each row, as `grid` returns them.
        stated: What the file states; 0 if it states nothing.
    """
    count = stated
    if not count and len(rows) > 1 and len(texts[0]) > 1:
        looks = [all(cell.is_header or not cell.text for cell in row) for row in rows]
        is_marked = any(texts[0]) and looks[0] and not all(looks)
        count = int(is_marked or _heads_numbers(texts) or _names_columns(texts))
    # A cell of the header that spans rows makes them rows of the header.
    reaches = (at + cell.down for at, row in enumerate(rows[:count]) for cell in row)
    return max(min(max(reaches, default=0), len(rows) - 1), 0)


def _heads_numbers(texts: Sequence[Sequence[str]]) -> bool:
    head, body = texts[0], texts[1:]
    # Two columns and two rows are as often names with their values.
    is_wide = len(head) >= _WIDE
    if len(body) < 2 - is_wide or not all(head[1:]):
        return False
    if any(any(map(str.isdigit, cell)) and not (is_wide and _YEAR.search(cell)) for cell in head):
        return False
    return any(
        all(at < len(row) and _NUMBER.fullmatch(row[at]) for row in body)
        for at in range(1, len(head))
    )


def _names_columns(texts: Sequence[Sequence[str]]) -> bool:
    head, body = texts[0], texts[1:]
    if len(head) < _WIDE or len(set(head)) < len(head) or not all(head):
        return False
    below = {cell for row in body for cell in row}
    is_short = all(len(cell.split()) <= _MOST_HEADER_WORDS for cell in head)
    has_digits = any(any(map(str.isdigit, cell)) for cell in head)
    return is_short and not has_digits and below.isdisjoint(head)


def cell_text(parts: Iterable[str]) -> str:
    """Return the paragraphs of a cell as one text: a semicolon stands between those that are no sentences.

    >>> cell_text(["Small", "Large"]), cell_text(["It is new.", "Ask first."])
    ('Small; Large', 'It is new. Ask first.')
    """
    written = ""
    for part in parts:
        words = " ".join(part.split())
        if words and written:
            written += f" {words}" if _ENDS.search(written) else f"; {words}"
        else:
            written += words
    return written
