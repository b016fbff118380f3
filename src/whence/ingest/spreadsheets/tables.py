"""Find the tables on a sheet: blocks of cells parted by empty rows and columns, their captions and headers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from whence.ingest.spreadsheets.cells import Area, Cell, Sheet
from whence.ingest.text_builder import TextBuilder, collapse_spaces
from whence.text.spans import Span

Rows = Mapping[int, Mapping[int, Cell]]
_YEAR = re.compile(r"(?:FY ?)?(?:19|20)\d\d")
#: Most rows of one header.
_MAX_HEADER = 4
#: Rows that are looked at to tell a header from what stands below.
_SAMPLE_ROWS = 50
#: A column of longer cells is text, not a table.
_PARAGRAPH = 60
#: Share of the cells of a column that are of one kind.
_ONE_KIND = 0.75
#: Longest text that stands for a missing number.
_MAX_SIGN = 4
#: Empty rows inside a table whose rows go on below them.
_MAX_GAP = 2
#: Most lines of a title, and most characters of one.
_MAX_TITLES, _MAX_TITLE = 4, 200


class Table(msgspec.Struct, kw_only=True):
    """A table of a sheet."""

    columns: list[int]
    """Its columns, from 1, ascending."""
    rows: list[tuple[int, list[str]]]
    """Row of the sheet, and the texts of its cells."""
    header_rows: int = 0
    caption: list[str] = []
    """Lines above the header that name the table."""
    number_columns: frozenset[int] = frozenset()
    """Columns that have numbers below the header."""
    is_text: bool = False
    """Whether it is text and no table: rows of one cell, sentences or a few words."""
    first_row: int = 0
    """Row of the sheet of its caption; 0 if that is not known."""

    @property
    def top(self) -> int:
        """First row of the sheet, with its caption."""
        return self.first_row or self.rows[0][0]


def write_sheet(text: TextBuilder, sheet: Sheet) -> None:
    """Write a sheet: its tables, with captions and headers, and the paragraphs between them."""
    for table in _tables(sheet):
        _write(text, table, sheet.lines)
    for note in sheet.notes:
        text.add_paragraph(note)


def _tables(sheet: Sheet) -> list[Table]:
    """Return the tables and paragraphs of a sheet in order."""
    rows = {number: dict(cells) for number, cells in sheet.rows.items() if cells}
    found: list[Table] = []
    for area, header in sorted(sheet.tables):
        if block := _cut(rows, area):
            found.append(_table(block, header))
    for part in _parted_rows(rows):
        above = next((table for table in reversed(found) if _continues(part, table)), None)
        if above is not None:
            above.rows.extend(_aligned(part, above.columns))
        else:
            blocks = (part,) if sheet.is_grid else _parted_columns(part)
            found.extend(_table(block, -1) for block in blocks)
    found.sort(key=lambda table: (table.rows[0][0], table.columns[0]))
    return _captioned(found)


def _captioned(tables: list[Table]) -> list[Table]:
    """Return the tables, with the titles that stand closely above a table as its caption."""
    done: list[Table] = []
    for table in tables:
        while done and table.header_rows and _is_title(done[-1], table):
            title = done.pop()
            table.caption = [_words(row) for _, row in title.rows] + table.caption
            table.first_row = title.rows[0][0]
        done.append(table)
    return done


def _is_title(title: Table, table: Table) -> bool:
    gap = table.top - title.rows[-1][0] - 1
    is_above = title.columns[0] <= table.columns[-1] and table.columns[0] <= title.columns[-1]
    return (
        title.is_text
        and 0 <= gap <= _MAX_GAP
        and is_above
        and len(title.rows) <= _MAX_TITLES
        and all(len(_words(row)) <= _MAX_TITLE for _, row in title.rows)
    )


def _words(row: Sequence[str]) -> str:
    """Return the text of a row, that of merged cells once."""
    return " ".join(filter(None, dict.fromkeys(map(collapse_spaces, row))))


def header_rows(rows: Sequence[Sequence[Cell | None]]) -> int:
    """Return how many of the first rows of a table are its header; 0 if it has none.

    A header is text, or years or dates beside text, in most columns. It has more than one row if cells of the
    upper one span columns, or are empty above those of the lower one. The cells of a form, a name and a value
    in each row, are no table with a header.
    """
    if len(rows) < 2 or _is_form(rows):
        return 0
    if not _may_be_header(rows[0]) or _recurs(rows):
        return 0
    count = 1
    while count < min(_MAX_HEADER, len(rows) - 1):
        upper, lower = rows[count - 1], rows[count]
        spans = any(cell and cell.source[0] for cell in upper)
        is_open = any(cell is None and below for cell, below in zip(upper, lower, strict=False))
        if not (
            (spans or is_open) and _may_be_header(lower) and _differs(lower, rows[count + 1 :])
        ):
            break
        count += 1
    return count


def _may_be_header(row: Sequence[Cell | None]) -> bool:
    cells = [cell for cell in row if cell]
    names = [cell for cell in cells if cell.kind == "text" and not _is_number(cell.text)]
    others = [cell for cell in cells if cell not in names]
    return (
        2 * len(cells) > len(row)
        and (bool(names) or row[0] is None)
        and all(len(cell.text) <= _MAX_TITLE for cell in names)
        and all(cell.kind == "date" or _YEAR.fullmatch(cell.text) for cell in others)
    )


def _recurs(rows: Sequence[Sequence[Cell | None]]) -> bool:
    """Return whether a text of the first row stands in its column again, but for a header that is repeated."""
    first = [cell.text if cell and not cell.source[0] else "" for cell in rows[0]]
    for row in rows[1:_SAMPLE_ROWS]:
        texts = [cell.text if cell else "" for cell in row]
        same = [text == other for text, other in zip(first, texts, strict=False) if text]
        if any(same) and not all(same):
            return True
    return False


def _differs(row: Sequence[Cell | None], below: Sequence[Sequence[Cell | None]]) -> bool:
    """Return whether a row of texts stands above numbers or dates, so that it names them."""
    return any(
        cell is not None
        and cell.kind == "text"
        and any(
            at < len(each) and (value := each[at]) and value.kind != "text"
            for each in below[:_SAMPLE_ROWS]
        )
        for at, cell in enumerate(row)
    )


def _is_form(rows: Sequence[Sequence[Cell | None]]) -> bool:
    """Return whether rows are names with values: `Name: Ida`, `Start: 2026-01-01`."""
    if any(len(row) != 2 or row[0] is None for row in rows):
        return False
    names = [row[0].text for row in rows if row[0]]
    if all(name.rstrip().endswith((":", "\uff1a")) for name in names):
        return True
    # The values of one column are of one kind, but for its name and short signs such as `n/a`.
    values = [row[1] for row in rows if row[1] and not _is_sign(row[1])]
    below = Counter(value.kind for value in values[1:])
    is_mixed = bool(below) and max(below.values()) < _ONE_KIND * below.total()
    is_mixed |= len(below) > 0 and values[0].kind != "text" and values[0].kind not in below
    has_numbers = any(row[0] and (row[0].kind != "text" or _is_number(row[0].text)) for row in rows)
    bold_names = all(row[0] and row[0].bold and not (row[1] and row[1].bold) for row in rows)
    return len(set(names)) == len(names) and not has_numbers and (is_mixed or bold_names)


def _is_sign(cell: Cell) -> bool:
    return cell.kind == "text" and len(cell.text) <= _MAX_SIGN


def _is_number(text: str) -> bool:
    return text.strip("-+ ()%€$£").replace(",", "").replace(".", "").isdigit()


def _cut(rows: dict[int, dict[int, Cell]], area: Area) -> dict[int, dict[int, Cell]]:
    """Take the cells of an area out of some rows."""
    top, left, bottom, right = area
    block: dict[int, dict[int, Cell]] = {}
    for number in [each for each in rows if top <= each <= bottom]:
        cells = rows[number]
        inside = {column: cells.pop(column) for column in list(cells) if left <= column <= right}
        if inside:
            block[number] = inside
        if not cells:
            del rows[number]
    return block


def _parted_rows(rows: dict[int, dict[int, Cell]]) -> Iterator[dict[int, dict[int, Cell]]]:
    for _, group in groupby(enumerate(sorted(rows)), lambda pair: pair[1] - pair[0]):
        yield {number: rows[number] for _, number in group}


def _parted_columns(rows: dict[int, dict[int, Cell]]) -> Iterator[dict[int, dict[int, Cell]]]:
    """Yield the parts of rows between empty columns; a lone column of values stays with its names."""
    used = sorted({column for cells in rows.values() for column in cells})
    groups = [
        [column for _, column in group]
        for _, group in groupby(enumerate(used), lambda pair: pair[1] - pair[0])
    ]
    if len(groups) == 1:
        yield rows
        return
    joined = [groups[0]]
    for group in groups[1:]:
        is_near = group[0] - joined[-1][-1] == 2
        if is_near and not _stands_alone(rows, group):
            joined[-1].extend(group)
        else:
            joined.append(group)
    for group in joined:
        wanted = set(group)
        part = {
            number: inside
            for number, cells in rows.items()
            if (inside := {column: cell for column, cell in cells.items() if column in wanted})
        }
        for piece in _parted_rows(part):
            yield piece if len(joined) > 1 else rows


def _stands_alone(rows: Rows, columns: Sequence[int]) -> bool:
    """Return whether some columns are a table of their own: two or more, the first of which has names."""
    if len(columns) < 2:
        return False
    first = [cells[columns[0]] for cells in rows.values() if columns[0] in cells]
    names = [cell for cell in first if cell.kind == "text" and not _is_number(cell.text)]
    return len(names) > 1 or (bool(names) and len(first) > 1 and not _YEAR.fullmatch(names[0].text))


def _table(block: dict[int, dict[int, Cell]], stated: int) -> Table:
    columns = sorted({column for cells in block.values() for column in cells})
    numbers = sorted(block)
    caption: list[str] = []
    while stated < 0 and len(numbers) > 1 and len(columns) > 1:
        title = _only_text(block[numbers[0]])
        if not title or not _is_wider(block, numbers[1:]):
            break
        caption.append(title)
        numbers = numbers[1:]
    grid = [[block[number].get(column) for column in columns] for number in numbers]
    count = header_rows(grid) if stated < 0 else min(stated, len(grid))
    rows = [
        (number, [cell.text if cell else "" for cell in row])
        for number, row in zip(numbers, grid, strict=True)
    ]
    return Table(
        columns=columns,
        rows=rows,
        header_rows=count,
        caption=caption,
        number_columns=frozenset(
            column
            for number in numbers[count:]
            for column, cell in block[number].items()
            if cell.kind == "number"
        ),
        is_text=stated < 0 and _is_text(block),
        first_row=min(block) if caption else 0,
    )


def _only_text(cells: Mapping[int, Cell]) -> str:
    """Return the text of a row with one cell, merged or not; empty if it has several or a number."""
    texts = {cell.source if cell.source[0] else (0, column) for column, cell in cells.items()}
    cell = next(iter(cells.values()))
    return cell.text if len(texts) == 1 and cell.kind == "text" else ""


def _is_wider(block: Rows, numbers: Iterable[int]) -> bool:
    return any(len(block[number]) > 1 for number in numbers)


def _continues(part: Rows, above: Table) -> bool:
    """Return whether rows below an empty one go on with a table: numbers below numbers, without a header."""
    gap = min(part) - above.rows[-1][0] - 1
    used = {column for cells in part.values() for column in cells}
    if not above.header_rows or not 0 < gap <= _MAX_GAP or not used <= set(above.columns):
        return False
    grid = [[part[number].get(column) for column in above.columns] for number in sorted(part)]
    numeric = above.number_columns
    return not header_rows(grid) and any(
        cell.kind == "number" and column in numeric
        for cells in part.values()
        for column, cell in cells.items()
    )


def _aligned(part: Rows, columns: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
    for number in sorted(part):
        cells = part[number]
        yield number, [cells[column].text if column in cells else "" for column in columns]


def _write(text: TextBuilder, table: Table, lines: Mapping[int, Span]) -> None:
    if table.is_text:
        for number, row in table.rows:
            text.rows, text.lines = (number, number), lines.get(number, (0, 0))
            text.add_paragraph(_words(row))
        text.rows = text.lines = (0, 0)
        return
    if table.caption:
        text.rows = (table.top, table.rows[0][0])
        text.lines = lines.get(table.top, (0, 0))
    text.add_table(
        [row for _, row in table.rows],
        header_rows=table.header_rows,
        caption=" \u2013 ".join(map(collapse_spaces, table.caption)),
        lines=[lines[number] for number, _ in table.rows] if lines else (),
        sheet_rows=[(number, number) for number, _ in table.rows],
    )
    text.rows = text.lines = (0, 0)


def _is_text(block: Rows) -> bool:
    """Return whether each row is one text, and these are sentences or few."""
    texts = [_only_text(cells) for cells in block.values()]
    if not all(texts):
        return False
    return len(texts) <= _MAX_TITLES or any(len(text) > _PARAGRAPH for text in texts)
