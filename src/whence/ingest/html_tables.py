"""Read the tables of a page: rows of texts, with header rows and spanned cells, or layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from whence.ingest.html_nodes import (
    ALL_HEADINGS,
    attribute,
    words_of,
)
from whence.ingest.text_builder import collapse_spaces

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

#: Most rows or columns that a cell spans.
_MAX_SPAN = 100
_GROUPS = ("thead", "tbody", "tfoot")
#: Cells of a table that arranges a page contain these, or more text.
_LAYOUT_BLOCKS = f"{ALL_HEADINGS}, pre, table, form, article, section"
_MAX_CELL = 2000


class Table(NamedTuple):
    """The rows of a table, how many of them are its header, and what names it."""

    rows: list[list[str]]
    header_rows: int
    caption: str


def is_layout(table: LexborNode) -> bool:
    """Return whether a table arranges parts of a page: its cells are no values of rows and columns."""
    role = attribute(table, "role").lower()
    if role in ("presentation", "none"):
        return True
    if role in ("table", "grid"):
        return False
    rows = list(table_rows(table))
    own = [cell for row in rows for cell in _cells(row)]
    is_data = any(cell.tag == "th" for cell in own) or any(
        child.tag in ("caption", "thead") for child in table.iter()
    )
    if is_data:
        return False
    is_single = len(rows) < 2 or max(len(_cells(row)) for row in rows) < 2
    if is_single and any(cell.css_first("p, div, ul, ol, br") is not None for cell in own):
        return True
    return any(
        cell.css_first(_LAYOUT_BLOCKS) is not None or len(cell.text()) > _MAX_CELL for cell in own
    )


def table_rows(table: LexborNode) -> Iterator[LexborNode]:
    """Yield the rows of a table without those of tables in it, its foot last."""
    groups = [child for child in table.iter() if child.tag in (*_GROUPS, "tr")]
    order = {"thead": 0, "tfoot": 2}
    groups.sort(key=lambda group: order.get(group.tag or "", 1))
    for group in groups:
        if group.tag == "tr":
            yield group
        else:
            yield from (row for row in group.iter() if row.tag == "tr")


def read_table(table: LexborNode, text_of: Callable[[LexborNode], str]) -> Table:
    """Return a table that is no layout.

    A cell that spans all columns names the table if it stands above the header. Cells that span rows or columns
    stand in each; one that spans a whole row stands in the first column.

    Args:
        table: The table.
        text_of: Returns the text of a cell.
    """
    rows = [row for row in table_rows(table) if _cells(row)]
    captions = [text_of(child) for child in table.iter() if child.tag == "caption"]
    width = max((_width(_cells(row)) for row in rows), default=0)
    while (
        len(rows) > 2
        and width > 1
        and len(_cells(rows[0])) == 1
        and _width(_cells(rows[0])) >= width
    ):
        captions.append(text_of(_cells(rows.pop(0))[0]))
    cells = [_cells(row) for row in rows]
    header_rows = _header_rows(rows, cells)
    grid = _grid(cells, width, header_rows, text_of)
    caption = " ".join(filter(None, map(collapse_spaces, captions)))
    return Table(_joined_records(cells, grid, header_rows), header_rows, caption)


def is_bold(cell: LexborNode) -> bool:
    """Return whether all words of an element are bold."""
    bold = cell.css_first("strong, b")
    words = words_of(cell)
    return bold is not None and bool(words) and words_of(bold) == words


def _cells(row: LexborNode) -> list[LexborNode]:
    return [cell for cell in row.iter() if cell.tag in ("td", "th")]


def _width(cells: Sequence[LexborNode]) -> int:
    return sum(_span(cell, "colspan") for cell in cells)


def _header_rows(rows: Sequence[LexborNode], cells: Sequence[Sequence[LexborNode]]) -> int:
    """Return how many of the first rows are the header: those of `thead`, else of header or bold cells."""
    count = 0
    for row, own in zip(rows, cells, strict=True):
        is_head = row.parent is not None and row.parent.tag == "thead"
        is_marked = len(own) > 1 and all(
            (cell.tag == "th" and attribute(cell, "scope") != "row") or not words_of(cell)
            for cell in own
        )
        if not (is_head or is_marked):
            break
        count += 1
    if not count and len(rows) > 1 and len(cells[0]) > 1 and all(map(is_bold, cells[0])):
        count = 1
    if count == len(rows):
        count = 1 if len(rows) > 1 and any(cell.tag == "th" for cell in cells[0]) else 0
    # A header whose cells span rows has their rest, too.
    reach = max((_span(cell, "rowspan") for own in cells[:count] for cell in own), default=0)
    return max(count, reach) if count == 1 and reach < len(rows) and len(cells[0]) > 1 else count


def _grid(
    cells: Sequence[Sequence[LexborNode]],
    width: int,
    header_rows: int,
    text_of: Callable[[LexborNode], str],
) -> list[list[str]]:
    grid: list[list[str]] = []
    spanning: dict[int, tuple[int, str]] = {}
    for at, row in enumerate(cells):
        texts: list[str] = []
        pending = list(row)[::-1]
        while pending or len(texts) in spanning:
            column = len(texts)
            if column in spanning:
                left, words = spanning.pop(column)
                texts.append(words)
                if left > 1:
                    spanning[column] = (left - 1, words)
                continue
            node = pending.pop()
            words = collapse_spaces(text_of(node))
            down, across = _span(node, "rowspan"), _span(node, "colspan")
            is_whole = across >= width > 1 and at >= header_rows
            for offset in range(min(across, max(width, 1))):
                texts.append("" if offset and is_whole else words)
                if down > 1:
                    spanning[column + offset] = (down - 1, texts[-1])
        grid.append(texts)
    return grid


def _joined_records(
    cells: Sequence[Sequence[LexborNode]], grid: list[list[str]], first: int
) -> list[list[str]]:
    """Join two rows where each is followed by a cell that is as wide as the row, such as a description."""
    above, below = range(first, len(cells), 2), range(first + 1, len(cells), 2)
    if not len(above) == len(below) > 1 or not all(
        map(_is_below, cells[first::2], cells[first + 1 :: 2])
    ):
        return grid
    return grid[:first] + [[*grid[at], grid[at + 1][0]] for at in above]


def _is_below(above: Sequence[LexborNode], below: Sequence[LexborNode]) -> bool:
    spans = [_span(cell, "colspan") for cell in below if cell.tag == "td"]
    return len(above) > 1 and len(below) == 1 and spans >= [_width(above)]


def _span(node: LexborNode, name: str) -> int:
    stated = attribute(node, name)
    return min(max(1, int(stated)), _MAX_SPAN) if stated.isdecimal() and len(stated) < 6 else 1
