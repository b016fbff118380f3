"""Find the tables of a PDF page that are drawn with lines, also when some of their lines are not drawn."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from whence.ingest.pdf_drawing import Box
from whence.ingest.pdf_layout import Row, Segment, is_leader, rows_of, segments_of
from whence.ingest.pdf_pieces import PageText, Piece
from whence.ingest.pdf_tables import (
    MAX_HEADER,
    MIN_NUMBERS,
    Table,
    is_value,
    join_lines,
    merge_wrapped,
    tidy,
    united,
)

#: Lines that meet within so many points touch.
_NEAR = 2.5
#: Lines that reach so far beyond the last one across them leave a side of the table open.
_OPEN = 6.0
#: Largest text of a cell: a box around more is a frame, in characters.
_MAX_CELL = 1_500
_MAX_CELLS = 20_000


def ruled_tables(text: PageText, notes: Collection[str] = ()) -> tuple[list[Table], list[Piece]]:
    """Return the tables that are drawn with lines, and the pieces that are in none."""
    tables: list[Table] = []
    rest = text.pieces
    for across, down in _grids(text):
        table, rest = _read_grid(across, down, rest, text.number, notes)
        if table is not None:
            tables.append(table)
    return tables, rest


def _merged(rules: Iterable[Box], is_across: bool) -> list[tuple[float, float, float]]:
    """Return lines as place, begin and end; those that lie on one another or follow one another are one."""
    lines = sorted(
        (round((r.bottom + r.top) / 2, 1), r.left, r.right)
        if is_across
        else (round((r.left + r.right) / 2, 1), r.bottom, r.top)
        for r in rules
    )
    levels: list[list[tuple[float, float, float]]] = []
    for line in lines:
        if levels and line[0] - levels[-1][0][0] < _NEAR:
            levels[-1].append(line)
        else:
            levels.append([line])
    found: list[tuple[float, float, float]] = []
    for level in levels:
        place = sum(line[0] for line in level) / len(level)
        for low, high in united([(low - _NEAR, high) for _, low, high in level]):
            found.append((place, low + _NEAR, high))
    return found


_Line = tuple[float, float, float]


def _grids(text: PageText) -> list[tuple[list[_Line], list[_Line]]]:
    """Return the groups of lines that touch one another and have several cells."""
    across, down = _merged(text.across, True), _merged(text.down, False)
    if len(across) < 2 or len(down) < 2 or len(across) * len(down) > 400_000:
        return []
    parent = list(range(len(across) + len(down)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    for i, (y, left, right) in enumerate(across):
        for j, (x, bottom, top) in enumerate(down):
            if left - _NEAR <= x <= right + _NEAR and bottom - _NEAR <= y <= top + _NEAR:
                parent[root(i)] = root(len(across) + j)
    groups: dict[int, tuple[list[_Line], list[_Line]]] = {}
    for i, line in enumerate(across):
        groups.setdefault(root(i), ([], []))[0].append(line)
    for j, line in enumerate(down):
        groups.setdefault(root(len(across) + j), ([], []))[1].append(line)
    closed = [_closed(*group) for group in groups.values()]
    return [
        group
        for group in closed
        if len({y for y, _, _ in group[0]}) >= 2 and len({x for x, _, _ in group[1]}) >= 3
    ]


def _closed(across: list[_Line], down: list[_Line]) -> tuple[list[_Line], list[_Line]]:
    """Return the lines of a table with those that are not drawn at its open sides."""
    if not across or not down:
        return across, down
    left, right = min(line[1] for line in across), max(line[2] for line in across)
    bottom, top = min(line[1] for line in down), max(line[2] for line in down)
    low, high = min(line[0] for line in across), max(line[0] for line in across)
    first, last = min(line[0] for line in down), max(line[0] for line in down)
    across = [*across, *((y, left, right) for y, gap in ((bottom, low - bottom), (top, top - high)) if gap > _OPEN)]  # fmt: skip
    down = [*down, *((x, bottom, top) for x, gap in ((left, first - left), (right, right - last)) if gap > _OPEN)]  # fmt: skip
    return across, down


def _read_grid(
    across: list[_Line],
    down: list[_Line],
    pieces: list[Piece],
    page: int,
    notes: Collection[str],
) -> tuple[Table | None, list[Piece]]:
    xs = sorted({x for x, _, _ in down})
    ys = sorted({y for y, _, _ in across}, reverse=True)
    box = Box(xs[0], ys[-1], xs[-1], ys[0])
    if (len(xs) - 1) * (len(ys) - 1) > _MAX_CELLS:
        return None, pieces
    inside: list[Piece] = []
    rest: list[Piece] = []
    for piece in pieces:
        x, y = (piece.left + piece.right) / 2, (piece.bottom + piece.top) / 2
        is_inside = box.left <= x <= box.right and box.bottom <= y <= box.top
        (inside if is_inside else rest).append(piece)
    owner = _joined_cells(across, down, xs, ys)
    open_cells = _open_corners(across, down, xs, ys)
    cells: dict[tuple[int, int], list[Piece]] = {}
    for piece in inside:
        x, y = (piece.left + piece.right) / 2, (piece.bottom + piece.top) / 2
        column = max(at for at, edge in enumerate(xs[:-1]) if edge <= x)
        row = max(at for at, edge in enumerate(ys[:-1]) if edge >= y)
        if (row, column) in open_cells:
            rest.append(piece)
        else:
            cells.setdefault(owner[row, column], []).append(piece)
    texts = {key: _lines(own, notes) for key, own in cells.items()}
    if not _is_table(texts) or _has_columns(cells.values()):
        return None, pieces
    table = _grid_table(texts, owner, xs, ys, box, page)
    if max(len(cell) for row in table.rows for cell in row) > _MAX_CELL:
        return None, pieces
    return table, rest


def _joined_cells(
    across: list[_Line], down: list[_Line], xs: list[float], ys: list[float]
) -> dict[tuple[int, int], tuple[int, int]]:
    """Return for each cell of a grid the first cell of those with which it is one."""
    owner: dict[tuple[int, int], tuple[int, int]] = {}
    walls = {x: [(low, high) for at, low, high in down if at == x] for x in xs}
    floors = {y: [(low, high) for at, low, high in across if at == y] for y in ys}
    for row in range(len(ys) - 1):
        y = (ys[row] + ys[row + 1]) / 2
        for column in range(len(xs) - 1):
            x = (xs[column] + xs[column + 1]) / 2
            own = (row, column)
            if column and not any(low <= y <= high for low, high in walls[xs[column]]):
                own = owner[row, column - 1]
            elif row and not any(low <= x <= high for low, high in floors[ys[row]]):
                own = owner[row - 1, column]
            owner[row, column] = own
    return owner


def _open_corners(
    across: list[_Line], down: list[_Line], xs: list[float], ys: list[float]
) -> set[tuple[int, int]]:
    """Return the cells at the corners of a grid that are outside: no line is drawn on either side of theirs.

    Frames that touch, such as those of the fields of a form, have such corners; so has a table above which
    another one of fewer columns stands.
    """
    found: set[tuple[int, int]] = set()
    rows, columns = range(len(ys) - 1), range(len(xs) - 1)
    for is_top in (True, False):
        for is_left in (True, False):
            own: set[tuple[int, int]] = set()
            for row in rows if is_top else reversed(rows):
                edge, y = ys[row if is_top else row + 1], (ys[row] + ys[row + 1]) / 2
                before = len(own)
                for column in columns if is_left else reversed(columns):
                    side, x = xs[column if is_left else column + 1], (xs[column] + xs[column + 1]) / 2  # fmt: skip
                    behind = (row - 1 if is_top else row + 1, column)
                    if (
                        any(at == side and low <= y <= high for at, low, high in down)
                        or any(at == edge and low <= x <= high for at, low, high in across)
                        or (behind[0] in rows and behind not in own)
                    ):
                        break
                    own.add((row, column))
                if len(own) == before:
                    break
            found |= own
    return found


def _lines(pieces: list[Piece], notes: Collection[str]) -> list[Segment]:
    """Return the lines of a cell."""
    rows = ([each for each in row if not is_leader(row, each)] for row in rows_of(pieces))
    return [Segment(row, notes) for row in rows if row]


def _has_columns(cells: Iterable[list[Piece]]) -> bool:
    """Whether the cells of a grid have columns of numbers themselves, between which no lines are drawn."""
    several = whole = 0
    for pieces in cells:
        for row in rows_of(pieces):
            numbers = sum(each.is_number for each in segments_of(row))
            several += numbers > 1
            whole += numbers > 0
    return several > 2 and several > MIN_NUMBERS * whole


def _is_table(texts: dict[tuple[int, int], list[Segment]]) -> bool:
    """Whether cells are those of a table, not a frame, a chart or a page with borders."""
    columns, rows = {column for _, column in texts}, {row for row, _ in texts}
    return len(texts) >= 2 and (len(columns) >= 2 or len(rows) >= 3)


def _grid_table(
    texts: dict[tuple[int, int], list[Segment]],
    owner: dict[tuple[int, int], tuple[int, int]],
    xs: list[float],
    ys: list[float],
    box: Box,
    page: int,
) -> Table:
    kept_columns = sorted({column for _, column in texts})
    rows: list[list[str]] = []
    bold: list[bool] = []
    for row in range(len(ys) - 1):
        own = [owner[row, column] for column in kept_columns]
        if not any(key in texts for key in own):
            continue
        if all(key[0] < row for key in own if key in texts):
            continue
        split, strong = _split_rows([texts.get(key, []) for key in own])
        rows.extend([tidy(each) for each in words] for words in split)
        bold.extend(strong)
    spans = [[owner[row, column] for column in kept_columns] for row in range(len(ys) - 1)]
    header = _ruled_header(rows, bold)
    _blank_spans(rows, spans, header)
    columns = [(xs[column], xs[column + 1]) for column in kept_columns]
    return Table(rows, header, columns, box, [page] * len(rows), is_ruled=True)


def _split_rows(cells: list[list[Segment]]) -> tuple[list[list[str]], list[bool]]:
    """Return the rows that stand in one row of a grid, and which of them are bold.

    There are several if several columns have several lines, and one has several numbers.
    """
    full = [cell for cell in cells if len(cell) > 1]
    if len(full) < 2 or not any(sum(line.is_number for line in cell) > 1 for cell in full):
        words = [join_lines(each.text for each in cell) for cell in cells]
        return [words], [all(each.bold for cell in cells for each in cell)]
    lines = sorted(
        ((line, at) for at, cell in enumerate(cells) for line in cell),
        key=lambda each: -each[0].base,
    )
    rows: list[Row] = []
    texts: list[list[str]] = []
    for line, at in lines:
        if not rows or rows[-1][0].base - line.base > 0.5 * line.size:
            rows.append([])
            texts.append([""] * len(cells))
        rows[-1].append(line)
        texts[-1][at] = f"{texts[-1][at]} {line.text}".strip()
    rows = [sorted(row, key=lambda each: each.left) for row in rows]
    merged = merge_wrapped(rows, texts, ())
    return merged, [False] * len(merged)


def _ruled_header(rows: list[list[str]], bold: list[bool]) -> int:
    """Return how many rows of a table with lines are its header."""
    if len(rows) < 2:
        return 0
    header = 0
    while header < min(MAX_HEADER, len(rows) - 1) and _is_header_row(rows[header]):
        header += 1
        if not any(bold[:header]) or not bold[header]:
            break
    return header


def _is_header_row(row: Sequence[str]) -> bool:
    values = [cell for cell in row[1:] if cell]
    return bool(values or row[0]) and not any(is_value(cell) for cell in values)


def _blank_spans(rows: list[list[str]], spans: list[list[tuple[int, int]]], header: int) -> None:
    """Blank the repeated text of cells that span columns below the header."""
    if len(rows) != len(spans):
        return
    for row, keys in list(zip(rows, spans, strict=True))[header:]:
        for at in range(len(row) - 1, 0, -1):
            if keys[at] == keys[at - 1]:
                row[at] = ""
