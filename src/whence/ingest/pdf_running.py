"""Find what stands on many pages of a PDF and is no part of its text: running titles, numbers, watermarks."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

from whence.ingest.pdf_drawing import Box
from whence.ingest.pdf_layout import Segment, rows_of, segments_of
from whence.ingest.pdf_pieces import Page, PageText, Piece

#: A text at the edge of a page is a running title if as many pages have it at the same height.
_RUNNING_PAGES = 3
#: Lines at each edge that may have running titles or numbers of pages.
_EDGE_LINES = 4
#: Share of the height of all pages in which they stand, at the top and at the bottom.
_MARGIN = 0.1
#: Least space between the text and running titles, in font sizes and in spaces between lines of the text; and
#: between the text and what is known by its place alone.
_NEAR, _WIDER, _APART = 0.9, 1.3, 1.5
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
    for is_top in (True, False):
        edges = [
            _edge(own, page, is_top, low + margin, high - margin)
            for own, page in zip(rows, pages, strict=True)
        ]
        rows = _without_running(rows, edges, is_top, heading)
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


def _edge(own: _Rows, page: Page, is_top: bool, low: float, high: float) -> list[list[Piece]]:
    """Return the lines in the margin of a page, from the edge inwards; lines of tables do not count."""
    edge = []
    for row in own[:_EDGE_LINES] if is_top else own[: -_EDGE_LINES - 1 : -1]:
        is_outside = row[0].top > high if is_top else row[0].bottom < low
        if not is_outside or _is_in_table(row, page.texts[0].down):
            break
        edge.append(row)
    return edge


def _without_running(
    rows: list[_Rows], edges: list[_Rows], is_top: bool, heading: float
) -> list[_Rows]:
    """Return the lines of pages without the running texts at one edge."""
    segments = [[segments_of(row) for row in edge] for edge in edges]
    counts = Counter(
        key for page in segments for key in {_key(each, heading) for row in page for each in row}
    )
    kept = []
    for own, page in zip(rows, segments, strict=True):
        gone: set[int] = set()
        waiting: set[int] = set()
        for at, row in enumerate(page):
            space, is_wide = _space(own, at, is_top)
            running = [
                each
                for each in row
                if (counts[_key(each, heading)] >= _RUNNING_PAGES)
                or (
                    space > _APART
                    and len(row) == 1
                    and _is_known(each, counts[_key(each, heading)], rows)
                )
            ]
            if not running:
                break
            waiting |= {id(piece) for each in running for piece in each.pieces}
            if is_wide:
                gone |= waiting
        left = ([piece for piece in row if id(piece) not in gone] for row in own)
        kept.append([row for row in left if row])
    return kept


def _is_known(each: Segment, same: int, rows: list[_Rows]) -> bool:
    """Whether a text that stands apart is a number of a page, or one that both pages of two have."""
    is_number = bool(_PAGE_NUMBER.match(each.text))
    return is_number or (len(rows) == same == 2 and all(len(own) > 2 for own in rows))


def _key(each: Segment, heading: float) -> tuple[str, int]:
    words = each.text
    return words if each.size >= heading else _DIGITS.sub("#", words), round(each.base / 3)


def _space(own: _Rows, at: int, is_top: bool) -> tuple[float, bool]:
    """Return the space inwards of a line of an edge, in font sizes, and whether it is a wide one."""
    order = own if is_top else own[::-1]
    spaces = []
    for one, other in itertools.pairwise(order[at : at + 5]):
        upper, lower = (one, other) if is_top else (other, one)
        size = max(upper[0].size, lower[0].size)
        spaces.append((upper[0].bottom - lower[0].top) / size)
    if not spaces:
        return 0.0, True
    return spaces[0], spaces[0] > max(_NEAR, _WIDER * min(spaces[1:], default=0.0))


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
