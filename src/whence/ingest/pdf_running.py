"""Find what stands on many pages of a PDF and is no part of its text: running titles, numbers, watermarks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from whence.ingest.pdf_layout import Segment, rows_of
from whence.ingest.pdf_pieces import Box, Page, PageText, Piece

#: A line at the edge of a page is a running title if as many pages have it at the same height.
_RUNNING_PAGES = 3
#: Lines at each edge that may be running titles or numbers of pages.
_EDGE_LINES = 2
#: Share of the height of all pages in which they stand, at the top and at the bottom.
_MARGIN = 0.08
#: Least space between the text and running titles, and what is known by its place alone, in font sizes.
_NEAR, _APART = 0.9, 1.5
#: Lines beside a row from the top down that show that it is one of a table; a frame has two.
_TABLE_LINES = 3
#: Share of the pages that have a watermark, and its size, in sizes of the text.
_WATERMARK_PAGES, _WATERMARK_SIZE = 0.6, 1.5
_PAGE_NUMBER = re.compile(
    r"[-\u2013\u2014|\s]*(?:\d{1,4}|[ivxlc]{1,6})[-\u2013\u2014|\s]*(?:(?:/|[^\W\d_]{1,3})\s?\d{1,4})?$"
)
_DIGITS = re.compile(r"\d+|(?<![^\W_])[ivxlc]{1,6}$|^[ivxlc]{1,6}(?![^\W_])")

_Rows = list[list[Piece]]


def remove_running(pages: Sequence[Page], body: float, heading: float) -> list[Page]:
    """Return pages without watermarks, running titles and numbers of pages.

    Args:
        pages: The pages.
        body: Size of the letters of the text.
        heading: Least size of the letters of a heading; such lines that differ in numbers are different.
    """
    pages = _remove_watermarks(pages, body)
    rows = [rows_of(page.texts[0].pieces) if page.texts else [] for page in pages]
    bodies = [own for own in rows if own]
    if not bodies:
        return list(pages)
    high = max(own[0][0].top for own in bodies)
    low = min(own[-1][0].bottom for own in bodies)
    margin = _MARGIN * (high - low)
    for edge in (0, -1) * _EDGE_LINES:
        walls = [page.texts[0].down if page.texts else [] for page in pages]
        _remove_at(edge, rows, heading, (low + margin, high - margin), walls)
    if not any(rows):
        # Pages that have nothing else.
        return list(pages)
    return [
        page._replace(texts=[_with_rows(page.texts[0], own), *page.texts[1:]])
        if page.texts
        else page
        for page, own in zip(pages, rows, strict=True)
    ]


def _with_rows(text: PageText, rows: _Rows) -> PageText:
    return text._replace(pieces=[piece for row in rows for piece in row])


def _remove_at(
    edge: int,
    rows: list[_Rows],
    heading: float,
    middle: tuple[float, float],
    walls: Sequence[Sequence[Box]],
) -> None:
    """Remove the running lines at the upper (0) or lower edge (-1) of pages; `middle` has the text only."""
    keys = [_key(own[edge], heading) if own else ("", 0) for own in rows]
    counts = Counter(keys)
    numbers = [bool(own) and bool(_PAGE_NUMBER.match(Segment(own[edge]).text)) for own in rows]
    for at, own in enumerate(rows):
        if not own or (own[edge][0].top <= middle[1] and own[edge][0].bottom >= middle[0]):
            continue
        if _is_in_table(own[edge], walls[at]):
            continue
        same = counts[keys[at]]
        space = _space(own, edge)
        is_number = numbers[at] and (sum(numbers) >= _RUNNING_PAGES or space > _APART)
        is_pair = len(rows) == same == 2 and len(own) > 2 and space > _APART
        if is_number or is_pair or (same >= _RUNNING_PAGES and space > _NEAR):
            rows[at] = own[1:] if edge == 0 else own[:-1]


def _key(row: Sequence[Piece], heading: float) -> tuple[str, int]:
    words = Segment(row).text
    is_heading = max(piece.size for piece in row) >= heading
    return words if is_heading else _DIGITS.sub("#", words), round(row[0].base / 3)


def _space(own: _Rows, edge: int) -> float:
    """Return the space between the one or two lines at the edge of a page and the next one, in font sizes."""
    spaces = []
    for at in range(min(2, len(own) - 1)):
        one, other = (own[at], own[at + 1]) if edge == 0 else (own[-2 - at], own[-1 - at])
        spaces.append((one[0].bottom - other[0].top) / max(one[0].size, other[0].size))
    return max(spaces, default=9.0)


def _is_in_table(row: Sequence[Piece], walls: Sequence[Box]) -> bool:
    middle = (row[0].bottom + row[0].top) / 2
    return sum(wall.bottom <= middle <= wall.top for wall in walls) >= _TABLE_LINES


def _remove_watermarks(pages: Sequence[Page], body: float) -> list[Page]:
    """Remove large text that stands aslant, and large or turned lines that most pages have at one place."""
    least = max(_RUNNING_PAGES, _WATERMARK_PAGES * len(pages))
    found = [[_large_lines(text, body, bool(at)) for at, text in enumerate(page.texts)] for page in pages]  # fmt: skip
    counts = Counter(key for own in found for lines in own for key in lines)
    kept = []
    for page, own in zip(pages, found, strict=True):
        texts = []
        for text, lines in zip(page.texts, own, strict=True):
            gone = {
                id(piece)
                for key, pieces in lines.items()
                if text.angle < 0 or counts[key] >= least
                for piece in pieces
            }
            if pieces := [piece for piece in text.pieces if id(piece) not in gone]:
                texts.append(text._replace(pieces=pieces))
        kept.append(page._replace(texts=texts))
    return kept


_Key = tuple[str, int, int]


def _large_lines(text: PageText, body: float, is_turned: bool) -> dict[_Key, list[Piece]]:
    """Return the lines of large letters, or all lines of turned text, by their words and place."""
    lines: dict[tuple[int, int], list[Piece]] = {}
    for piece in text.pieces:
        if (is_turned and text.angle >= 0) or piece.size >= _WATERMARK_SIZE * body:
            lines.setdefault((round(piece.size), round(piece.base)), []).append(piece)
    return {
        (" ".join(piece.text for piece in own), round(own[0].left / 3), round(own[0].base / 3)): own
        for own in lines.values()
    }
