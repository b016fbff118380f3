"""Find the tables of a PDF page whose cells only stand below one another."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from whence.ingest.pdf_drawing import Box
from whence.ingest.pdf_layout import (
    CURRENCY,
    Row,
    Segment,
    is_number,
)

#: Largest space between the rows of a table, in font sizes.
_MAX_ROW_GAP = 2.6
#: A sentence so far below a row is no label of the rows below it, in font sizes.
_PROSE_GAP = 0.9
#: Rows of a table without lines that have one cell and follow one another.
_MAX_LABELS = 4
#: Least share of numbers among the values of a table; words of a cell in one of words.
MIN_NUMBERS, _MAX_WORDS = 0.3, 8
MAX_HEADER = 5
#: More columns are not those of a table without lines.
_MAX_COLUMNS = 40

YEAR = re.compile(r"(?:19|20|21)\d\d(?:[/\u2013-]\d{2,4})?[AEF*]?")
_SPACED_SIGN = re.compile(
    rf"(?:(?<=^)|(?<=\s)|(?<=\())({CURRENCY.pattern.split('|[A-Z]', 1)[0]})\s+(?=[\d(])"
)
#: A hyphen at a line end, which stays only if the word is written with it.
LINE_HYPHEN = "\x02"
_SENTENCE_END = re.compile(r"[.!?;\u2026][\"'\u201d\u2019)\]]*$")


@dataclass
class Table:
    """A table, or the part of one on a page."""

    rows: list[list[str]]
    header_rows: int
    columns: list[tuple[float, float]]
    """Where each column begins and ends."""
    box: Box
    pages: list[int]
    """The page of each row."""
    is_ruled: bool = False
    caption: list[str] = field(default_factory=list)

    @property
    def header(self) -> list[list[str]]:
        """The rows of its header."""
        return self.rows[: self.header_rows]


def tidy(cell: str) -> str:
    """Return the text of a cell with the signs of a number beside it.

    >>> tidy("$ 46,298"), tidy("( 12.5 )"), tidy("12 %"), tidy("In $ million")
    ('$46,298', '(12.5)', '12%', 'In $ million')
    """
    if not any(map(str.isdigit, cell)) or len(cell) > 30:
        return cell
    words = _SPACED_SIGN.sub(r"\1", cell)
    if sum(map(str.isalpha, words)) <= 3:
        words = re.sub(r"\(\s+", "(", re.sub(r"(?<=[\d)])\s+(?=[)%])", "", words))
        words = re.sub(r"^([-+\u2212(])\s+(?=[\d$(])", r"\1", words)
    return words


def join_lines(lines: Iterable[str]) -> str:
    r"""Return the lines of a cell as one; a hyphen at the end of one becomes `LINE_HYPHEN`.

    >>> join_lines(["Delivery", "", "in ship-", "ments"])
    'Delivery in ship\x02ments'
    """
    joined = ""
    for line in filter(None, lines):
        if joined.endswith("-") and joined[-2:-1].isalpha():
            joined = f"{joined[:-1]}{LINE_HYPHEN}{line}"
        else:
            joined = f"{joined} {line}" if joined else line
    return joined


def is_value(text: str) -> bool:
    """Whether the text of a cell is a number, not a year or a date that heads a column."""
    return is_number(text) and not YEAR.fullmatch(text)


@dataclass
class _Run:
    """Rows that may be a table."""

    rows: list[Row]
    first: int
    """Index of the first row in its block."""


def unruled_table(rows: Sequence[Row], at: int, page: int, rules: Sequence[Box]) -> tuple[Table, int, int] | None:  # fmt: skip
    """Return the table that begins with a row, its first row and its end; None if there is none."""
    end = _run_end(rows, at)
    if end - at < 2:
        return None
    run = list(rows[at:end])
    columns = _columns(run)
    if not 2 <= len(columns) <= _MAX_COLUMNS or not _is_aligned(run, columns):
        return None
    start = at
    while start > 0 and at - start < 3 and _heads(rows[start - 1], rows[start], columns):
        start -= 1
    run = [*rows[start:at], *run]
    header = _header_rows(run, [_cells(row, columns, spans=True) for row in run])
    cells = [
        _header_cells(row, below, columns, rules)
        if index < header
        else _cells(row, columns, spans=False)
        for index, (row, below) in enumerate(zip(run, [*run[1:], []], strict=True))
    ]
    body = merge_wrapped(run[header:], cells[header:], rules)
    texts = [[tidy(cell) for cell in row] for row in [*cells[:header], *body]]
    box = Box(
        min(each.left for row in run for each in row),
        min(each.bottom for row in run for each in row),
        max(each.right for row in run for each in row),
        max(each.top for row in run for each in row),
    )
    return Table(texts, header, columns, box, [page] * len(texts)), start, end


def _top(row: Row) -> float:
    return max(each.top for each in row)


def _bottom(row: Row) -> float:
    return min(each.bottom for each in row)


def _run_end(rows: Sequence[Row], at: int) -> int:
    """Return the end of the rows from one with several segments on that may be one table."""
    end = at + 1
    labels = 0
    spans = [(each.left, each.right) for each in rows[at][1:]]
    edge = min(left for left, _ in spans)
    first_value = 0
    for index in range(at + 1, len(rows)):
        row, above = rows[index], rows[index - 1]
        size = max(each.size for each in row)
        if _bottom(above) - _top(row) > _MAX_ROW_GAP * size:
            break
        if len(row) == 1:
            one = row[0]
            if (
                _bottom(above) - _top(row) < 0.5 * size
                and not one.is_number
                and any(one.left < right and left < one.right for left, right in spans)
            ):
                # The next line of a cell.
                end = index + 1 if end == index else end
                continue
            labels += 1
            is_label = one.left < edge and (one.right <= edge + one.size or len(one.text) <= 60)
            is_label = (is_label or _is_within(one, spans)) and not _is_prose(one, above)
            if labels > _MAX_LABELS or not is_label:
                break
            continue
        values = row[1:] if row[0].left < edge - row[0].size or len(row) > len(spans) else row
        if not any(
            min(right, each.right + each.size) > max(left, each.left - each.size)
            for each in values
            for left, right in spans
        ):
            break
        if first_value and _is_year_row(row, edge):
            break
        if any(is_value(each.text) for each in values):
            first_value = index
        spans = united([*spans, *((each.left, each.right) for each in values)])
        edge = min(edge, *(each.left for each in values))
        labels, end = 0, index + 1
    return end


def _is_prose(one: Segment, above: Row) -> bool:
    """Whether a line is a sentence that stands apart from the row above it."""
    is_apart = _bottom(above) - one.top > _PROSE_GAP * one.size
    return is_apart and bool(_SENTENCE_END.search(one.text)) and " " in one.text


def _is_within(one: Segment, spans: Sequence[tuple[float, float]]) -> bool:
    """Whether a text stands in one column of values."""
    over = [span for span in spans if one.left < span[1] and span[0] < one.right]
    return len(over) == 1 and abs(one.left - over[0][0]) < 0.5 * one.size and not one.is_number


def united(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans in order, those that overlap as one."""
    found: list[tuple[float, float]] = []
    for left, right in sorted(spans):
        if found and left <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], right))
        else:
            found.append((left, right))
    return found


def _is_year_row(row: Row, edge: float) -> bool:
    """Whether a row has nothing but the years of columns, with which another table begins."""
    values = [each for each in row if each.left >= edge - each.size]
    return (
        len(values) == len(row)
        and any(YEAR.search(each.text) for each in values)
        and not any(is_value(each.text) for each in values)
    )


def _columns(run: Sequence[Row]) -> list[tuple[float, float]]:
    """Return where the columns of some rows begin and end; cells that span several do not count."""
    most = sorted(run, key=lambda row: -len(row))
    columns: list[tuple[float, float]] = []
    for row in most:
        if len(row) < 2 and columns:
            continue
        for each in row:
            over = [at for at, (left, right) in enumerate(columns) if each.left < right and left < each.right]  # fmt: skip
            if not over:
                columns.append((each.left, each.right))
                columns.sort()
            elif len(over) == 1:
                at = over[0]
                low = columns[at - 1][1] if at else float("-inf")
                high = columns[at + 1][0] if at + 1 < len(columns) else float("inf")
                if low < each.left and each.right < high:
                    left, right = columns[at]
                    columns[at] = (min(left, each.left), max(right, each.right))
    return columns


def _over(each: Segment, columns: Sequence[tuple[float, float]]) -> list[int]:
    """Return the columns over which a segment stands; the nearest one if it stands over none."""
    over = [at for at, (left, right) in enumerate(columns) if min(each.right, right) - max(each.left, left) > 0.05 * each.size]  # fmt: skip
    if over:
        return over
    middle = (each.left + each.right) / 2
    return [min(range(len(columns)), key=lambda at: max(columns[at][0] - middle, middle - columns[at][1]))]  # fmt: skip


def _cells(row: Row, columns: Sequence[tuple[float, float]], *, spans: bool) -> list[str]:
    """Return the texts of a row by column; one over several is in each if it `spans`, else in the first."""
    cells = [""] * len(columns)
    for each in _split_at_columns(row, columns):
        for at in _over(each, columns)[: None if spans else 1]:
            cells[at] = f"{cells[at]} {each.text}".strip()
    return cells


def _header_cells(
    row: Row, below: Row, columns: Sequence[tuple[float, float]], rules: Sequence[Box]
) -> list[str]:
    """Return the texts of a row of a header by column, those that span columns in each of them.

    What a text spans is shown by a line below it, or else by its place in the middle of columns.
    """
    cells = [""] * len(columns)
    values = [each for each in row if _over(each, columns) != [0]]
    groups = _spanned(values, len(below) > len(row), columns)
    for each in row:
        over = _over(each, columns)
        if each in values:
            over = _underlined(each, row, columns, rules) or (groups or {}).get(id(each)) or over
        for at in over:
            cells[at] = f"{cells[at]} {each.text}".strip()
    return cells


def _underlined(
    each: Segment, row: Row, columns: Sequence[tuple[float, float]], rules: Sequence[Box]
) -> list[int]:
    """Return the columns over which the line below a text reaches; none if there is no such line."""
    for rule in rules:
        height = (rule.bottom + rule.top) / 2
        if (
            each.bottom - 0.4 * each.size < height < each.base
            and rule.left <= each.left + each.size
            and rule.right >= each.right - each.size
            and sum(one.left < rule.right and one.right > rule.left for one in row) == 1
        ):
            over = [at for at, (left, right) in enumerate(columns) if rule.left - 1 <= (left + right) / 2 <= rule.right + 1]  # fmt: skip
            return over if 1 < len(over) < len(columns) else []
    return []


def _spanned(
    values: Sequence[Segment], has_more: bool, columns: Sequence[tuple[float, float]]
) -> dict[int, list[int]] | None:
    """Return the columns that each text of a header spans, if each is in the middle of as many columns."""
    count, whole = len(values), len(columns) - 1
    if not count or not has_more or count >= whole or whole % count:
        return None
    width = whole // count
    groups: dict[int, list[int]] = {}
    for number, each in enumerate(values):
        own = list(range(1 + number * width, 1 + (number + 1) * width))
        middle = (columns[own[0]][0] + columns[own[-1]][1]) / 2
        if abs((each.left + each.right) / 2 - middle) > 2.5 * each.size:
            return None
        groups[id(each)] = own
    return groups


def _split_at_columns(row: Row, columns: Sequence[tuple[float, float]]) -> list[Segment]:
    """Return the segments of a row; the number at the end of one that reaches into another column is apart."""
    found: list[Segment] = []
    for each in row:
        rest = list(each.pieces)
        tail: list[Segment] = []
        while (
            len(rest) > 1 and each.left < columns[0][1] and len(_over(Segment(rest), columns)) > 1
        ):
            last = rest[-1]
            place = _over(Segment([last]), columns)
            before = _over(Segment([rest[-2]]), columns)
            if not is_value(last.text) or place == before or len(place) > 1:
                break
            tail.insert(0, Segment([rest.pop()]))
        found.extend([*([each] if not tail else [Segment(rest)]), *tail])
    return found


def _is_aligned(run: Sequence[Row], columns: Sequence[tuple[float, float]]) -> bool:
    """Whether rows are those of a table: mostly numbers, or short texts that stand below one another."""
    by_column: dict[int, list[Segment]] = {}
    for row in run:
        if len(row) > 1:
            for each in row:
                by_column.setdefault(_over(each, columns)[0], []).append(each)
    values = [each for at, own in by_column.items() if at for each in own]
    numbers = sum(each.is_number or bool(YEAR.fullmatch(each.text)) for each in values)
    rows = sum(len(row) > 1 for row in run)
    if numbers >= 2 and numbers >= MIN_NUMBERS * len(values) and rows >= 2:
        return True
    if rows < 2 or not values or 2 * _crossings(run, columns) > rows:
        return False
    words = [len(each.text.split()) for own in by_column.values() for each in own]
    if sum(words) / len(words) > _MAX_WORDS:
        return False
    aligned = 0
    for own in by_column.values():
        size = own[0].size
        aligned += max(
            sum(abs(place - median(places)) < 0.5 * size for place in places)
            for places in (
                [each.left for each in own],
                [each.right for each in own],
                [(each.left + each.right) / 2 for each in own],
            )
        )
    return aligned >= 0.85 * sum(map(len, by_column.values()))


def _crossings(run: Sequence[Row], columns: Sequence[tuple[float, float]]) -> int:
    """Return how many lines have a text over the space between columns, as lines of prose do."""
    spaces = [(left, right) for (_, left), (right, _) in itertools.pairwise(columns)]
    return sum(
        any(each.left < left and right < each.right for each in row for left, right in spaces)
        for row in run
    )


def _heads(row: Row, below: Row, columns: Sequence[tuple[float, float]]) -> bool:
    """Whether a row above a table heads its columns: it stands over the values, not over the labels."""
    size = max(each.size for each in row)
    if _bottom(row) - _top(below) > 1.2 * size:
        return False
    first = columns[0][1]
    return (
        all(each.left >= first - 0.5 * size for each in row)
        and max(each.right for each in row) <= columns[-1][1] + 3 * size
        and not any(is_value(each.text) for each in row)
        and sum(len(each.text) for each in row) <= 120
    )


def _header_rows(run: Sequence[Row], cells: Sequence[Sequence[str]]) -> int:
    """Return how many rows are the header: those above the first value of a column."""
    has_numbers = any(is_value(cell) for row in cells for cell in row[1:])
    header = 0
    for row, own in zip(run, cells, strict=True):
        if header == MAX_HEADER or not any(own[1:]):
            break
        if any(is_value(cell) for cell in own[1:]) or (len(own) == 2 and _is_fact(own[1])):
            break
        header += 1
        if not has_numbers:
            rest = [each for other in run[1:] for each in other]
            is_bold = all(each.bold for each in row) and not all(each.bold for each in rest)
            return int(is_bold)
    return header if header < len(run) else 0


def _is_fact(cell: str) -> bool:
    """Whether a cell beside a label has digits and no year, such as the number of an order."""
    return any(map(str.isdigit, cell)) and not YEAR.search(cell)


def merge_wrapped(
    rows: Sequence[Row], cells: Sequence[list[str]], rules: Sequence[Box]
) -> list[list[str]]:
    """Return the rows of a table, those that are the next line of the row before joined to it."""
    clusters = _clusters(rows, cells, rules)
    merged: list[list[str]] = []
    for at, own in enumerate(cells):
        if merged and (clusters[at] == clusters[at - 1] if clusters else _is_wrapped(rows, cells, at)):  # fmt: skip
            merged[-1] = [join_lines(pair) for pair in zip(merged[-1], own, strict=True)]
        else:
            merged.append(list(own))
    return merged


def _is_wrapped(rows: Sequence[Row], cells: Sequence[list[str]], at: int) -> bool:
    """Whether a row goes on with the label of the row before it."""
    above, own = cells[at - 1], cells[at]
    gap = _bottom(rows[at - 1]) - _top(rows[at])
    size = rows[at][0].size
    if gap > 0.5 * size or not own[0]:
        return not own[0] and gap <= 0.5 * size and not any(map(str.isdigit, "".join(own))) and len(rows[at]) == 1 and bool(own[-1] or any(own)) and above[0] != ""  # fmt: skip
    if rows[at][0].bold != rows[at - 1][0].bold:
        return False
    label_only = not any(above[1:])
    starts_lower = own[0][:1].islower() or own[0][:1] in "($" or own[0][:1].isdigit()
    is_indented = rows[at][0].left > rows[at - 1][0].left + 0.3 * size
    if label_only:
        is_open = not above[0].endswith((":", "."))
        is_long = len(above[0]) >= 0.75 * max(len(cell[0]) for cell in cells)
        return is_open and (own[0][:1].islower() or (is_long and (starts_lower or is_indented)))
    # The label goes on below the line of its numbers.
    return not any(own[1:]) and own[0][:1].islower()


def _clusters(rows: Sequence[Row], cells: Sequence[list[str]], rules: Sequence[Box]) -> list[int]:
    """Return the row of the table of each line, by drawn lines or larger spaces; empty if each is one."""
    if len(rows) < 3:
        return []
    gaps = [_bottom(above) - _top(below) for above, below in itertools.pairwise(rows)]
    left = min(each.left for row in rows for each in row)
    right = max(each.right for row in rows for each in row)
    long = [rule for rule in rules if rule.right - rule.left > 0.8 * (right - left)]
    ruled = [
        any(_base(below) < (rule.bottom + rule.top) / 2 < _base(above) for rule in long)
        for above, below in itertools.pairwise(rows)
    ]
    size = rows[0][0].size
    loose = [gap > min(gaps) + 0.35 * size for gap in gaps]
    for breaks in (ruled, loose):
        if sum(breaks) < 2 or all(breaks):
            continue
        found = [0]
        for is_break in breaks:
            found.append(found[-1] + is_break)
        if all(_is_one_row(cells, found, number) for number in range(found[-1] + 1)):
            return found
    return []


def _base(row: Row) -> float:
    return row[0].base


def _is_one_row(cells: Sequence[list[str]], clusters: Sequence[int], number: int) -> bool:
    own = [row for row, cluster in zip(cells, clusters, strict=True) if cluster == number]
    if len(own) > 8:
        return False
    if sum(bool(any(row[1:])) for row in own) < 1 and len(own) > 1:
        return False
    return all(
        sum(any(map(str.isdigit, cell)) and is_value(cell) for cell in column) <= 1
        for column in zip(*own, strict=True)
    )
