"""Put the pieces of a page into lines, columns and blocks, in the order in which people read them.

In: the pieces of one direction of text. Out: blocks in reading order, each of them rows from the top down; a
row has the segments that stand beside one another, a segment the pieces between which there are only spaces.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from whence.ingest.pdf_drawing import Box
from whence.ingest.pdf_pieces import Piece
from whence.ingest.text_builder import raised

#: Least space between two segments, in font sizes: of words, and of numbers.
_GAP, _NUMBER_GAP = 1.0, 0.55
#: The same for numbers in letters of one width: one and a half letters, each of which is 0.6 of the font size.
_FIXED_GAP = 0.9
#: Least space that parts two words where the file has no space, in font sizes.
_SPACE = 0.16
#: Raised letters are at most so large, and stand at least so high, in sizes of those before.
_RAISED_SIZE, _RAISED_BASE = 0.86, 0.18
#: Width of the space between two columns, in font sizes; lines and characters of a column.
_GUTTER, _COLUMN_LINES, _COLUMN_LETTERS = 0.8, 4, 12
#: Share of the width of a column that its lines fill.
_COLUMN_FILL = 0.6

BULLET_SIGN = re.compile(r"[\u2022\u2023\u25aa\u25a0\u25a1\u25cf\u25cb\u25e6\u2043\uf0b7\uf0a7\u2013\u2014*-]")  # fmt: skip
_MARK = re.compile(
    rf"{BULLET_SIGN.pattern}|\[[ x]\]|\(?(?:\d{{1,3}}|[A-Za-z]|[ivxlIVXL]{{1,6}})[.)]|\d{{1,2}}(?:\.\d{{1,3}}){{1,4}}\.?"
)
CURRENCY = re.compile(r"[$\u00a2-\u00a5\u20a0-\u20cf\ufdfc]|[A-Z]{1,2}[$\u00a3]|[A-Z]{3}")
_SUFFIX = re.compile(r"[%\u2030)\]]{1,3}|\)\s*%|%\s*\)|x|bps|pp|pts?\.?|[*\u2020\u2021]{1,3}")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_DOT = re.compile(r"\.|\u00b7|_")
_DASHES = re.compile(r"[-\u2010-\u2015\u2212]+")


@lru_cache(maxsize=2**14)
def is_number(text: str) -> bool:
    """Whether a text is a number with its signs and unit, or the dash that stands for none.

    >>> is_number("$ (1,234)"), is_number("12.5%"), is_number("-"), is_number("Note 4"), is_number("Q3 2024")
    (True, True, True, False, False)
    """
    if _DASHES.fullmatch(text):
        return True
    digits = sum(map(str.isdigit, text))
    letters = sum(map(str.isalpha, text))
    if not 0 < digits <= 20 or letters > min(3, digits) or len(text) >= 28:
        return False
    return not text[0].isalpha() or bool(CURRENCY.match(text))


class Segment:
    """Pieces of a line between which there are only spaces."""

    __slots__ = ("base", "bold", "bottom", "fixed", "led", "left", "pieces", "right", "size", "text", "top")  # fmt: skip

    def __init__(self, pieces: Sequence[Piece], notes: Collection[str] = ()) -> None:
        self.pieces = pieces
        main = max(pieces, key=lambda piece: (piece.size, len(piece.text)))
        if len(pieces) > 1 and len(main.text) < 2:
            main = max(pieces, key=lambda piece: (len(piece.text) * piece.size, piece.size))
        self.size, self.base = main.size, main.base
        self.left = min(piece.left for piece in pieces)
        self.right = max(piece.right for piece in pieces)
        self.bottom, self.top = main.bottom, main.top
        lettered = [piece for piece in pieces if any(map(str.isalnum, piece.text))] or pieces
        self.bold = all(piece.bold for piece in lettered)
        self.fixed = all(piece.fixed for piece in lettered)
        self.text = joined(pieces, main, notes)
        self.led = False
        """Whether dots lead to it."""

    @property
    def width(self) -> float:
        """Its width, in points."""
        return self.right - self.left

    @property
    def is_number(self) -> bool:
        """Whether it is a number with its signs."""
        return is_number(self.text)


Row = list[Segment]


class Block(NamedTuple):
    """Rows of one column, from the top down."""

    rows: list[Row]


def joined(pieces: Sequence[Piece], main: Piece, notes: Collection[str] = ()) -> str:
    """Return the text of pieces of a line; raised ones as `raised` writes them, marks of notes as `[2]`."""
    words = ""
    last: Piece | None = None
    for piece in pieces:
        text = piece.text
        space = ""
        if last is not None:
            gap = piece.left - last.right if piece.left >= last.left else last.left - piece.right
            follows = piece.order > last.order and piece.glued
            is_apart = gap > (0.35 if follows else _SPACE) * min(piece.size, last.size)
            if is_apart or not (follows or (gap < 0.05 * piece.size and piece.order < last.order) or abs(gap) < 0.02 * piece.size):  # fmt: skip
                space = " "
            if gap < -0.8 * piece.size and not follows:
                space = " "
        is_raised = (
            piece.size <= _RAISED_SIZE * main.size
            and piece.base >= main.base + _RAISED_BASE * main.size
        )
        if is_raised and text in notes:
            words += f"[{text}]" if words else f"[{text}] "
        elif is_raised and words:
            marked = raised(text, words[-1:])
            words += marked if not space or marked != text else space + text
        else:
            words += space + text
        last = piece
    return words.strip()


def rows_of(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Return the pieces by the line of the page on which they stand, from the top down, each from the left."""
    rows: list[list[Piece]] = []
    heads: list[tuple[float, float]] = []
    for piece in sorted(pieces, key=lambda each: (-each.base, each.left)):
        for at in range(len(rows) - 1, max(-1, len(rows) - 4), -1):
            low, high = heads[at]
            shared = min(high, piece.top) - max(low, piece.bottom)
            if shared >= 0.5 * min(high - low, piece.top - piece.bottom):
                rows[at].append(piece)
                if piece.top - piece.bottom > high - low:
                    heads[at] = (piece.bottom, piece.top)
                break
        else:
            rows.append([piece])
            heads.append((piece.bottom, piece.top))
    order = sorted(range(len(rows)), key=lambda at: -heads[at][0])
    return [sorted(rows[at], key=lambda each: (each.left, each.order)) for at in order]


def segments_of(
    row: Sequence[Piece],
    walls: Sequence[Box] = (),
    notes: Collection[str] = (),
    *,
    keep: bool = False,
) -> list[Segment]:
    """Return the segments of a line, from the left.

    Args:
        row: Its pieces, from the left.
        walls: Drawn lines between which segments stand.
        notes: Marks of the notes of the page.
        keep: Whether letters of one width stay together, as in code.
    """
    parts: list[list[Piece]] = []
    edge = 0.0
    leads = False
    led: set[int] = set()
    for piece in row:
        if is_leader(row, piece):
            leads = True
            continue
        is_new = not parts or leads or _is_apart(parts[-1][-1], piece, piece.left - edge, keep)
        if not is_new and walls:
            is_new = any(
                edge - 1 <= wall.left and wall.right <= piece.left + 1
                and wall.bottom <= (piece.bottom + piece.top) / 2 <= wall.top
                for wall in walls
            )  # fmt: skip
        if is_new:
            parts.append([piece])
            if leads:
                led.add(id(piece))
        else:
            parts[-1].append(piece)
        edge, leads = max(edge, piece.right) if not is_new else piece.right, False
    found = []
    for part in _with_signs(parts):
        found.append(Segment(_reading_order(part), notes))
        found[-1].led = id(part[0]) in led
    return found


def marks_of_notes(rows: Iterable[Sequence[Piece]]) -> set[str]:
    """Return the raised marks with which notes on a page begin."""
    return {
        row[0].text
        for row in rows
        if len(row) > 1
        and len(row[0].text) <= 3
        and row[0].size <= _RAISED_SIZE * row[1].size
        and row[0].base >= row[1].base + 0.6 * _RAISED_BASE * row[1].size
    }


def is_leader(row: Sequence[Piece], piece: Piece) -> bool:
    """Whether a piece of a line is dots that lead to the next cell, or one of many such dots with spaces."""
    if piece.is_leader:
        return True
    if not _DOT.fullmatch(piece.text):
        return False
    near = (
        one
        for one in row
        if _DOT.fullmatch(one.text) and abs(one.left - piece.left) < 3.5 * piece.size
    )
    return sum(1 for _ in near) >= 4


def _is_apart(last: Piece, piece: Piece, gap: float, keep: bool) -> bool:
    size = max(last.size, piece.size)
    if keep and last.fixed and piece.fixed:
        return gap > 40 * size
    if CURRENCY.fullmatch(piece.text) and len(piece.text) == 1:
        return gap > 0.6 * size
    numbers = is_number(last.text) or last.text in ")%" or CURRENCY.fullmatch(last.text)
    if numbers and (is_number(piece.text) or piece.text[0] in "($"):
        return gap > (_FIXED_GAP if last.fixed and piece.fixed else _NUMBER_GAP) * size
    return gap > _GAP * size


def _with_signs(parts: list[list[Piece]]) -> list[list[Piece]]:
    """Join signs of currencies, percent signs and brackets to their number, and marks to their item."""
    merged: list[list[Piece]] = []
    for part in parts:
        words = " ".join(piece.text for piece in part)
        if merged:
            last = merged[-1]
            before = " ".join(piece.text for piece in last)
            gap = part[0].left - max(piece.right for piece in last)
            size = part[0].size
            sign = CURRENCY.fullmatch(before.rstrip("( ")) or before in ("(", "-", "\u2212", "+")
            number = is_number(words) or words[:1] == "("
            if sign and number and any(map(str.isdigit, words)):
                last.extend(part)
                continue
            if _SUFFIX.fullmatch(words) and is_number(before) and gap < 2 * size:
                last.extend(part)
                continue
            if len(merged) == 1 and _MARK.fullmatch(before) and gap < 5 * size and not number:
                last.extend(part)
                continue
        merged.append(list(part))
    return merged


def _reading_order(part: list[Piece]) -> list[Piece]:
    """Return pieces of a line in reading order: from the right for scripts that are written so."""
    if any(_RIGHT_TO_LEFT.search(piece.text) for piece in part):
        return sorted(part, key=lambda piece: piece.order)
    return part


def blocks_of(segments: Sequence[Segment], solid: Sequence[Segment] = ()) -> list[Block]:
    """Return blocks in reading order.

    Args:
        segments: All segments of a page.
        solid: Segments among them that stand for what is not cut, such as tables with lines.
    """
    parts = _cut(list(segments), set(map(id, solid)), 0)
    return [Block(_without_gaps(_rows(part))) for part in parts if part]


def _without_gaps(rows: list[Row]) -> list[Row]:
    """Return the rows of a column; words that are set apart to fill its width are one."""
    low = min(each.left for row in rows for each in row)
    high = max(each.right for row in rows for each in row)

    def fills(row: Row) -> bool:
        size = row[0].size
        return row[0].left - low < 2 * size and high - row[-1].right < 0.2 * size

    full = sum(len(row) == 1 and fills(row) for row in rows)
    is_justified = full >= 3 and full >= 0.4 * len(rows)
    return [
        [Segment([piece for each in row for piece in each.pieces])]
        if len(row) > 1 and fills(row) and _is_spread(row, is_justified)
        else row
        for row in rows
    ]


def _is_spread(row: Row, is_justified: bool) -> bool:
    """Whether a line of several segments is one of words with equal spaces."""
    if any(each.is_number for each in row):
        return False
    gaps = [right.left - left.right for left, right in itertools.pairwise(row)]
    words = [len(each.pieces) for each in row]
    is_even = max(gaps) - min(gaps) < 0.05 * max(gaps) + 0.2
    return is_even and (is_justified or (len(gaps) > 1 and max(words) == 1 and len(row) > 3))


def _rows(segments: Sequence[Segment]) -> list[Row]:
    rows: list[Row] = []
    for one in sorted(segments, key=lambda each: (-each.base, each.left)):
        if rows:
            head = rows[-1][0]
            shared = min(head.top, one.top) - max(head.bottom, one.bottom)
            if shared > 0.5 * min(head.top - head.bottom, one.top - one.bottom):
                rows[-1].append(one)
                continue
        rows.append([one])
    return [sorted(row, key=lambda each: each.left) for row in rows]


def _cut(segments: list[Segment], solid: set[int], depth: int) -> list[list[Segment]]:
    """Cut a region at the widest space between two columns, into what is above, left, right and below."""
    if len(segments) < 2 * _COLUMN_LINES or depth > 8:
        return [segments]
    best: tuple[float, float, list[Segment], list[Segment]] | None = None
    for x in _gutters(segments):
        for left, right in _zones(segments, x, solid):
            if not _are_columns(left, right):
                continue
            height = max(each.top for each in left + right) - min(
                each.bottom for each in left + right
            )
            width = min(each.left for each in right) - max(each.right for each in left)
            if best is None or (height, width) > best[:2]:
                best = (height, width, left, right)
    if best is None:
        return [segments]
    _, _, left, right = best
    inside = set(map(id, left + right))
    top = max(each.top for each in left + right)
    rest = [each for each in segments if id(each) not in inside]
    above = [each for each in rest if each.base >= top - 0.5 * each.size]
    below = [each for each in rest if each.base < top - 0.5 * each.size]
    parts = (above, left, right, below)
    return [block for part in parts if part for block in _cut(part, solid, depth + 1)]


def _gutters(segments: Sequence[Segment]) -> list[float]:
    """Return places from left to right at which there may be a space between columns."""
    sizes = sorted(each.size for each in segments)
    gap = _GUTTER * sizes[len(sizes) // 2]
    low = min(each.left for each in segments)
    high = max(each.right for each in segments)
    lefts = sorted(each.left for each in segments)
    found: dict[int, float] = {}
    for left in lefts:
        x = left - gap / 2
        if low + 0.12 * (high - low) < x < high - 0.12 * (high - low):
            found.setdefault(round(x / 3), x)
    scored = []
    for x in found.values():
        begins = bisect_left(lefts, x + 4 * gap) - bisect_left(lefts, x)
        scored.append((begins, x))
    # A column begins where many lines begin.
    return [x for begins, x in sorted(scored, reverse=True)[:8] if begins >= _COLUMN_LINES]


def _zones(
    segments: Sequence[Segment], x: float, solid: set[int]
) -> list[tuple[list[Segment], list[Segment]]]:
    """Return the parts of a region that no segment across a place cuts, each as what is left and right."""
    zones: list[tuple[list[Segment], list[Segment]]] = [([], [])]
    for each in sorted(segments, key=lambda one: (-one.base, one.left)):
        if each.left < x < each.right or id(each) in solid:
            if each.left < x < each.right:
                zones.append(([], []))
            else:
                zones[-1][each.left >= x].append(each)
            continue
        zones[-1][each.left >= x].append(each)
    return [zone for zone in zones if min(len(zone[0]), len(zone[1])) >= _COLUMN_LINES]


def _are_columns(left: Sequence[Segment], right: Sequence[Segment]) -> bool:
    """Whether two groups of segments are columns of text, not of a table."""
    fills = [_fill(left), _fill(right)]
    if min(fills) < _COLUMN_FILL and not (min(fills) >= 0.5 * _COLUMN_FILL and _are_apart(left, right)):  # fmt: skip
        return False
    return not _share_breaks(left, right)


def _are_apart(left: Sequence[Segment], right: Sequence[Segment]) -> bool:
    """Whether the lines of two groups stand at heights of their own."""
    bases = [each.base for each in left]
    same = sum(any(abs(each.base - base) < 0.1 * each.size for base in bases) for each in right)
    return same < 0.4 * min(len(left), len(right))


def _fill(side: Sequence[Segment]) -> float:
    """Return the share of its width that most lines of a column of text fill; 0 if it is not text."""
    numbers = sum(each.is_number for each in side)
    rows = _rows(side)
    if numbers > 0.25 * len(side) or len(rows) < _COLUMN_LINES:
        return 0.0
    low, high = min(each.left for each in side), max(each.right for each in side)
    widths = sorted((row[-1].right - row[0].left) / max(1.0, high - low) for row in rows)
    letters = sorted(sum(len(each.text) for each in row) for row in rows)
    most = len(rows) * 3 // 5
    return widths[most] if letters[most] >= _COLUMN_LETTERS else 0.0


def _share_breaks(left: Sequence[Segment], right: Sequence[Segment]) -> bool:
    """Whether two sides have their larger spaces between lines at the same heights, as the rows of a table."""
    breaks = []
    for side in (left, right):
        rows = _rows(side)
        steps = [above[0].base - below[0].base for above, below in itertools.pairwise(rows)]  # fmt: skip
        if len(steps) < 2:
            return False
        usual = sorted(steps)[len(steps) // 4]
        breaks.append(
            {
                round(rows[at + 1][0].base / 3)
                for at, step in enumerate(steps)
                if step > 1.25 * usual
            }
        )
    one, other = breaks
    near = sum(any(abs(a - b) <= 1 for b in other) for a in one)
    return near >= 3 and near >= 0.6 * max(len(one), len(other))
