"""Make the lines and tables of a PDF from the pieces of its pages, in the order in which people read them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from statistics import median
from typing import NamedTuple

from whence.ingest.pdf_layout import (
    BULLET_SIGN,
    Row,
    Segment,
    blocks_of,
    marks_of_notes,
    rows_of,
    segments_of,
)
from whence.ingest.pdf_pieces import Page, PageText, Piece
from whence.ingest.pdf_ruled_tables import ruled_tables
from whence.ingest.pdf_tables import Table, unruled_table

#: Lines above a table that name it, their length in characters and the space between them, in font sizes.
_CAPTION_LINES, _CAPTION_LENGTH, _CAPTION_GAP = 4, 110, 2.2
_SENTENCE_END = re.compile(r"[.!?;\u2026][\"'\u201d\u2019)\]]*$")
#: A table or a figure with its number, which may be followed by sentences.
_NUMBERED = re.compile(r"[^\W\d_]+\.? \d+(?:[.-]\d+)*[.:\u2013 -]")
_CONTENTS_NUMBER = re.compile(r"\d{1,4}|[ivxlc]{1,7}|[A-Z]{1,2}-\d{1,3}")


#: The sign before an item of a list; a number may be that of a table.
_ITEM = re.compile(rf"{BULLET_SIGN.pattern}\s|\(?[a-z][.)]\s")


class Line(NamedTuple):
    """A line of a page; coordinates in points from the lower left corner."""

    text: str
    left: float
    top: float
    bottom: float
    right: float = 0.0
    is_fixed: bool = False
    """Whether its letters have one width, as in code."""
    is_bold: bool = False
    page: int = 0
    """From 1."""

    @property
    def height(self) -> float:
        """Font height, rounded to a quarter of a point."""
        return round(4 * (self.top - self.bottom)) / 4


Item = Line | Table


def page_items(page: Page, *, has_code: bool, pages: int) -> list[Item]:
    """Return the lines and tables of a page, in reading order.

    Args:
        page: The page.
        has_code: Whether letters of one width are code.
        pages: How many pages the document has.
    """
    return [item for text in page.texts for item in _text_items(text, has_code, pages)]


def _text_items(text: PageText, has_code: bool, pages: int) -> list[Item]:
    rows = rows_of(text.pieces)
    notes = marks_of_notes(rows)
    tables, rest = ruled_tables(text, notes)
    if tables:
        rows = rows_of(rest)
    segments: list[Segment] = []
    for row in rows:
        found = segments_of(row, text.down, notes, keep=has_code)
        segments.extend(_with_names(found))
    solid = {}
    for table in tables:
        segment = _stand_in(table)
        solid[id(segment)] = table
        segments.append(segment)
    items: list[Item] = []
    for block in blocks_of(segments, [each for each in segments if id(each) in solid]):
        items.extend(_block_items(block.rows, text, solid, has_code, pages))
    return _with_captions(items)


def _stand_in(table: Table) -> Segment:
    """Return a segment that keeps the place of a table among the others."""
    box = table.box
    piece = Piece("\ufffc", box.left, box.right, box.bottom, 1.0)
    segment = Segment([piece])
    segment.bottom, segment.top = box.bottom, box.top
    segment.base, segment.size = box.top - 8.0, 8.0
    return segment


def _with_names(row: list[Segment]) -> list[Segment]:
    """Write the names of fields before their values where no text beside them says what they are."""
    pieces = [piece for each in row for piece in each.pieces]
    if not any(piece.field for piece in pieces):
        return row
    has_label = False
    for at, piece in enumerate(pieces):
        if not piece.field:
            has_label = has_label or any(map(str.isalpha, piece.text))
            continue
        after = pieces[at + 1] if at + 1 < len(pieces) else None
        is_box = piece.text in ("[x]", "[ ]") and after is not None and not after.field
        if not has_label and not is_box:
            piece.text = f"{piece.field}: {piece.text}"
        has_label = has_label and piece.text in ("[x]", "[ ]")
    return [Segment(each.pieces) for each in row]


def _block_items(
    rows: Sequence[Row],
    text: PageText,
    solid: dict[int, Table],
    has_code: bool,
    pages: int,
) -> list[Item]:
    rows = _without_contents(rows, pages)
    items: list[Item] = []
    starts: list[int] = []
    at = 0
    while at < len(rows):
        row = rows[at]
        table = next((solid[id(each)] for each in row if id(each) in solid), None)
        if table is not None:
            items.append(table)
            starts.append(at)
            items.extend(_line(own, text.number, has_code) for own in _around(row, solid))
            starts.extend([at] * (len(items) - len(starts)))
            at += 1
            continue
        is_code = has_code and all(each.fixed for each in row)
        found = None
        if len(row) > 1 and not is_code:
            stop = next((i for i in range(at, len(rows)) if any(id(each) in solid for each in rows[i])), len(rows))  # fmt: skip
            found = unruled_table(rows[:stop], at, text.number, text.across)
        if found is not None:
            table, first, end = found
            while starts and starts[-1] >= first and isinstance(items[-1], Line):
                items.pop()
                starts.pop()
            items.append(table)
            starts.append(at)
            at = end
            continue
        items.append(_line(row, text.number, has_code))
        starts.append(at)
        at += 1
    return items


def _around(row: Row, solid: dict[int, Table]) -> list[Row]:
    """Return the text beside a table, as a row of its own."""
    rest = [each for each in row if id(each) not in solid]
    return [rest] if rest else []


def _line(row: Row, page: int, has_code: bool) -> Line:
    sizes = max(row, key=lambda each: len(each.text))
    fixed = all(each.fixed for each in row)
    words = " ".join(each.text for each in row)
    if fixed and has_code:
        words = _code_line(row)
    return Line(
        words,
        row[0].left,
        sizes.top,
        sizes.bottom,
        max(each.right for each in row),
        fixed,
        all(each.bold for each in row),
        page,
    )


def _code_line(row: Row) -> str:
    """Return a line of code with its spaces."""
    pieces = sorted((piece for each in row for piece in each.pieces), key=lambda one: one.left)
    width = max(0.5, median((one.right - one.left) / max(1, len(one.text)) for one in pieces))
    line, edge = "", pieces[0].left
    for piece in pieces:
        line += " " * min(80, max(0, round((piece.left - edge) / width))) + piece.text
        edge = piece.right
    return line


def _without_contents(rows: Sequence[Row], pages: int) -> list[Row]:
    """Return rows without the entries of a table of contents: dots lead to numbers of pages that rise."""
    kept: list[Row] = []
    at = 0
    while at < len(rows):
        end = at
        while end < len(rows) and _is_entry(rows[end]):
            end += 1
        if end > at and _are_contents([rows[i][-1].text for i in range(at, end)], pages):
            at = end
            continue
        kept.extend(rows[at : max(end, at + 1)])
        at = max(end, at + 1)
    return kept


def _is_entry(row: Row) -> bool:
    return len(row) <= 3 and row[-1].led and bool(_CONTENTS_NUMBER.fullmatch(row[-1].text))


def _are_contents(numbers: Sequence[str], pages: int) -> bool:
    values = [int(each) for each in numbers if each.isdecimal()]
    rises = all(one <= other for one, other in itertools.pairwise(values))
    return rises and (len(numbers) >= 3 or all(value <= pages for value in values))


def _with_captions(items: list[Item]) -> list[Item]:
    """Move the lines above a table that name it into its caption."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, Table):
            lines = _caption_lines(found, item)
            if lines:
                item.caption = [line.text for line in found[-lines:] if isinstance(line, Line)]
                del found[-lines:]
        found.append(item)
    return found


def _caption_lines(items: Sequence[Item], table: Table) -> int:
    """Return how many of the last lines name the table below them."""
    top, count = table.box.top, 0
    while count < min(_CAPTION_LINES, len(items)):
        line = items[-1 - count]
        if not isinstance(line, Line) or not _may_name(line, table, top):
            break
        top = line.top
        count += 1
    if count and count < len(items):
        above, first = items[-1 - count], items[-count]
        assert isinstance(first, Line)
        if isinstance(above, Line) and _goes_on(above, first):
            # These lines end a paragraph.
            return 0
    return count


def _may_name(line: Line, table: Table, top: float) -> bool:
    numbered = bool(_NUMBERED.match(line.text))
    return (
        0 <= line.bottom - top + line.height <= (_CAPTION_GAP + 1) * line.height
        and (line.left < table.box.right and line.right > table.box.left)
        and (numbered or len(line.text) <= _CAPTION_LENGTH)
        and not _ITEM.match(line.text)
        and (numbered or not _SENTENCE_END.search(line.text))
        and any(map(str.isalpha, line.text))
    )


def _goes_on(above: Line, line: Line) -> bool:
    """Whether a line is the next one of a paragraph."""
    return (
        above.height == line.height
        and above.is_bold == line.is_bold
        and above.bottom - line.top < 0.75 * line.height
        and not _SENTENCE_END.search(above.text)
        and (len(above.text) > _CAPTION_LENGTH or line.text[:1].islower())
    )


def continued_tables(items: Sequence[Item]) -> list[Item]:
    """Return items in which tables that go on over pages are one; headers that are repeated are left out."""
    found: list[Item] = []
    for item in items:
        last = found[-1] if found else None
        if (
            isinstance(item, Table)
            and isinstance(last, Table)
            and item.pages[0] == last.pages[-1] + 1
            and _goes_with(last, item)
        ):
            skip = item.header_rows if item.header == last.header else 0
            last.rows.extend(item.rows[skip:])
            last.pages.extend(item.pages[skip:])
            continue
        found.append(item)
    return found


def _goes_with(one: Table, other: Table) -> bool:
    """Whether a table on the next page is the rest of another one."""
    if len(one.columns) != len(other.columns):
        return False
    is_below = all(
        min(a[1], b[1]) - max(a[0], b[0]) > 0
        for a, b in zip(one.columns, other.columns, strict=True)
    )
    if not is_below:
        return False
    names, others = _names(one.caption), _names(other.caption)
    is_named = others <= names or all(any(each.startswith(name) for name in names) for each in others)  # fmt: skip
    if other.header and other.header == one.header:
        return is_named
    rest = other.is_ruled == one.is_ruled and not other.caption
    return rest and (not other.header_rows or other.is_ruled)


def _names(caption: Collection[str]) -> set[str]:
    return {" ".join(line.casefold().split()) for line in caption}
