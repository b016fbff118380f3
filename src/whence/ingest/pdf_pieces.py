"""Read the pages of a PDF as pieces of text with their places, and the lines and boxes that are drawn.

A piece is a word, or a part of one in its own font. Coordinates are points in the direction of reading: lines
go from left to right and from the top down, whatever the rotation of the page or of the text; the origin is the
lower left corner. What a reader of the page cannot see is left out.
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from ctypes import (
    CFUNCTYPE,
    Array,
    byref,
    c_char,
    c_double,
    c_int,
    c_uint,
    c_ulong,
    c_ushort,
    c_void_p,
    cast,
)
from typing import TYPE_CHECKING, Any, NamedTuple

from whence.ingest.pdf_drawing import THICK, Box, Drawing, holds, read_drawing

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

#: PDFium is not thread-safe: whoever calls it holds this lock.
PDFIUM = threading.Lock()

#: Share of the font size below and above the base line.
DESCENT, ASCENT = 0.22, 0.78
#: Pictures of fewer points on a side are ornaments.
_PICTURE = 24.0
#: Text of fewer points cannot be read.
_TINY = 1.5
_INVISIBLE_MODE = 3
_STROKED_MODE = 2
_SAME_COLOUR = 12

_FIXED_FONT = re.compile(
    r"mono|courier|consol|typewriter|cmtt|sftt|inconsolata|menlo|code", re.IGNORECASE
)
_BOLD_FONT = re.compile(r"bold|black|heavy|-bd|cmbx|sfbx|demi", re.IGNORECASE)
_FIXED_PITCH, _FORCE_BOLD = 1, 1 << 18
_LEADER = re.compile(r"\.{4,}|\u2026{2,}|_{4,}|\u00b7{4,}")
#: Letters of scripts that have no spaces between words and may be written downwards.
EAST_ASIAN = re.compile(
    "[\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]"
)
_WORDS = re.compile(r"[^\s\u200b\0]+")
#: PDFium has signs of its own for a hyphen at the end of a line.
_HYPHENS = {0x02: "-", 0xFFFE: "-"}
_HALF = re.compile("[\ud800-\udfff]")


class Piece:
    """A word or a part of one."""

    __slots__ = ("base", "bold", "bottom", "field", "fixed", "glued", "left", "order", "right", "size", "text", "top")  # fmt: skip

    def __init__(
        self, text: str, left: float, right: float, base: float, size: float, order: int = 0
    ) -> None:
        self.text, self.left, self.right = text, left, right
        self.base = base
        """The line on which its letters stand."""
        self.size = size
        """Height of the font."""
        self.bottom, self.top = base - DESCENT * size, base + ASCENT * size
        self.order = order
        """Its position in the file."""
        self.glued = False
        """Whether no space is before it in the file."""
        self.bold = self.fixed = False
        self.field = ""
        """Name of the field of a form whose value it is."""

    @property
    def is_leader(self) -> bool:
        """Whether it is a row of dots or a line that leads to the next cell."""
        return _LEADER.fullmatch(self.text) is not None


class PageText(NamedTuple):
    """Text of one direction on a page, with what is drawn there."""

    pieces: list[Piece]
    across: list[Box]
    """Drawn lines from left to right."""
    down: list[Box]
    """Drawn lines from the top to the bottom."""
    number: int
    """Number of the page, from 1."""
    angle: int = 0
    """Its direction; -1 for text that stands aslant."""


class Page(NamedTuple):
    """What is on a page."""

    texts: list[PageText]
    """Its text by direction, the direction of most letters first."""
    pictures: int
    hidden: int
    """Passages that a reader of the page cannot see."""
    struck: int
    """Passages that a line crosses out."""
    number: int
    characters: int
    """How many characters it has, with those that cannot be seen."""
    remarks: int = 0
    """Remarks that readers left on it."""

    @property
    def letters(self) -> int:
        """How many characters its text has."""
        return sum(len(piece.text) for text in self.texts for piece in text.pieces)


class _Style(NamedTuple):
    """How the letters of one object of the page look."""

    angle: int
    """Degrees, a multiple of 90; -1 for text that stands aslant."""
    size: float
    bold: bool
    fixed: bool
    mode: int
    colour: tuple[int, int, int]
    is_artifact: bool


class _Run(NamedTuple):
    """Letters of one word in one style."""

    start: int
    end: int
    style: _Style
    box: Box
    owner: int
    glued: bool

    def with_next(self, other: _Run) -> _Run:
        """Return these letters and those after them."""
        one, two = self.box, other.box
        box = Box(min(one.left, two.left), min(one.bottom, two.bottom), max(one.right, two.right), max(one.top, two.top))  # fmt: skip
        return self._replace(end=other.end, box=box)


def _are_one(one: _Run, other: _Run) -> bool:
    """Whether letters follow others in the same style, on one line and without a space."""
    slack = 0.6 * one.style.size
    return (
        one.style == other.style
        and abs(one.box.bottom - other.box.bottom) <= 0.12 * one.style.size
        and min(abs(other.box.left - one.box.right), abs(one.box.left - other.box.right)) < slack
    )


def read_page(
    page: PdfPage, number: int, extra: Sequence[Piece] = (), strikes: Sequence[Box] = ()
) -> Page:
    """Read a page.

    Args:
        page: The page.
        number: Its number, from 1.
        extra: Further pieces on it, such as values of fields, in its own coordinates.
        strikes: Further lines on it that cross out text.
    """
    with closing(page.get_textpage()) as text:
        drawing = read_drawing(page)
        crop = Box(*_visible_box(page))
        count = max(0, text.count_chars())
        groups, hidden = _read_text(text, drawing, crop)
    turned = page.get_rotation() % 360
    for piece in extra:
        groups.setdefault(turned, []).append(_turn_piece(piece, turned))
    take_vertical(groups)
    drawing.rules.extend(strikes)
    struck = 0
    texts = []
    for angle, pieces in sorted(groups.items(), key=lambda each: -_letters(each[1])):
        rules = [turn(box, angle) for box in drawing.rules]
        across = [box for box in rules if box.right - box.left > box.top - box.bottom]
        down = [box for box in rules if box.right - box.left <= box.top - box.bottom]
        kept, crossed = _remove_struck(pieces, across)
        struck += crossed
        texts.append(PageText(kept, across, down, number, angle))
    pictures = sum(min(box.right - box.left, box.top - box.bottom) >= _PICTURE for box in drawing.pictures)  # fmt: skip
    return Page(texts, pictures, hidden, struck, number, count)


def _letters(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.text) for piece in pieces)


def _visible_box(page: PdfPage) -> tuple[float, float, float, float]:
    left, bottom, right, top = page.get_cropbox()
    return min(left, right), min(bottom, top), max(left, right), max(bottom, top)


def turn(box: Box, angle: int) -> Box:
    """Return a box as it lies for a reader of text that is turned by an angle."""
    if angle == 90:
        return Box(box.bottom, -box.right, box.top, -box.left)
    if angle == 180:
        return Box(-box.right, -box.top, -box.left, -box.bottom)
    if angle == 270:
        return Box(-box.top, box.left, -box.bottom, box.right)
    return box


def _turn_piece(piece: Piece, angle: int) -> Piece:
    box = turn(Box(piece.left, piece.bottom, piece.right, piece.top), angle)
    base = (box.bottom + box.top) / 2 - (0.5 - DESCENT) * piece.size
    turned = Piece(piece.text, box.left, box.right, base, piece.size, piece.order)
    turned.glued, turned.field = piece.glued, piece.field
    turned.bold, turned.fixed = piece.bold, piece.fixed
    return turned


class _Calls:
    """Functions of PDFium that are called for each letter, with cheap types."""

    def __init__(self) -> None:
        from pypdfium2 import raw

        self.object_of = cast(raw.FPDFText_GetTextObject, CFUNCTYPE(c_void_p, c_void_p, c_int))
        self.box_of = cast(
            raw.FPDFText_GetLooseCharBox, CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
        )
        self.raw = raw


def _read_text(
    text: PdfTextPage, drawing: Drawing, crop: Box
) -> tuple[dict[int, list[Piece]], int]:
    """Return the visible pieces by their angle, and how many passages are hidden."""
    reader = _TextReader(text, drawing, crop)
    reader.read()
    return reader.groups, reader.hidden


class _TextReader:
    def __init__(self, text: PdfTextPage, drawing: Drawing, crop: Box) -> None:
        self._calls = _Calls()
        self._handle = cast(text.raw, c_void_p)
        self._page_text = text
        self._drawing, self._crop = drawing, crop
        self.groups: dict[int, list[Piece]] = {}
        self.hidden = 0
        self._hidden_at: int | None = None
        self._fonts: dict[Any, tuple[bool, bool]] = {}
        self._styles: dict[int, _Style] = {}

    def read(self) -> None:
        """Read all letters, in the order of the file."""
        count = self._page_text.count_chars()
        if count <= 0:
            return
        codes = _codes(self._page_text, count)
        rect = self._calls.raw.FS_RECTF()
        reference = cast(byref(rect), c_void_p)
        box_of, handle = self._calls.box_of, self._handle
        last: _Run | None = None
        for word in _WORDS.finditer(codes):
            glued = False
            for start, end, owner in self._objects(*word.span()):
                style = self._styles.get(owner)
                if style is None:
                    style = self._styles[owner] = self._style(start, owner)
                box_of(handle, start, reference)
                box = Box(rect.left, rect.bottom, rect.right, rect.top)
                if end - start > 1:
                    box_of(handle, end - 1, reference)
                    box = Box(
                        min(box.left, rect.left),
                        min(box.bottom, rect.bottom),
                        max(box.right, rect.right),
                        max(box.top, rect.top),
                    )
                run = _Run(start, end, style, turn(box, style.angle), owner, glued)
                if last is not None and glued and _are_one(last, run):
                    run = last.with_next(run)
                elif last is not None:
                    self._add(codes, last)
                last, glued = run, True
            if last is not None:
                self._add(codes, last)
                last = None

    def _objects(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the parts of a word by the object of the page that has them, each with its address."""
        object_of, handle = self._calls.object_of, self._handle
        owner = object_of(handle, start) or 0
        if end - start == 1 or owner == (object_of(handle, end - 1) or 0):
            yield start, end, owner
            return
        begin = start
        for at in range(start + 1, end):
            current = object_of(handle, at) or 0
            if current != owner:
                yield begin, at, owner
                begin, owner = at, current
        yield begin, end, owner

    def _add(self, codes: str, run: _Run) -> None:
        """Add the pieces of some letters, if they are visible."""
        style, box = run.style, run.box
        words = codes[run.start : run.end]
        is_whole = True
        if _HALF.search(words):
            words = words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            is_whole = False
        size, height = style.size, box.top - box.bottom
        if style.angle == 0 and height > 1.6 * size > box.right - box.left and EAST_ASIAN.search(words):  # fmt: skip
            self._add_vertical(words, run, size)
            return
        if size < _TINY or size < 0.3 * height:
            # Fonts of drawn letters have sizes that say nothing.
            size = height
        if not self._is_visible(style, size, box, run.owner):
            # A passage is what is hidden in a line.
            self.hidden += self._hidden_at != round(box.bottom)
            self._hidden_at = round(box.bottom)
            return
        self._hidden_at = None
        base = self._base(run.start, style.angle) if style.angle >= 0 else box.bottom + DESCENT * size  # fmt: skip
        pieces = self.groups.setdefault(style.angle, [])
        for text, begin, stop in _split_leaders(words):
            left = self._left(run, run.start + begin) if begin and is_whole else box.left
            right = self._left(run, run.start + stop) if stop < len(words) and is_whole else box.right  # fmt: skip
            one = Piece(text, left, right, base, size, run.start + begin)
            one.bold, one.fixed, one.glued = style.bold, style.fixed, run.glued or begin > 0
            pieces.append(one)

    def _add_vertical(self, words: str, run: _Run, size: float) -> None:
        """Add letters that stand below one another."""
        if self._is_visible(run.style, size, run.box, run.owner):
            box = turn(run.box, 270)
            one = Piece(words, box.left, box.right, box.bottom + DESCENT * size, size, run.start)
            one.bold, one.glued = run.style.bold, run.glued
            self.groups.setdefault(270, []).append(one)

    def _left(self, run: _Run, at: int) -> float:
        rect = self._calls.raw.FS_RECTF()
        self._calls.raw.FPDFText_GetLooseCharBox(self._page_text.raw, at, rect)
        return turn(Box(rect.left, rect.bottom, rect.right, rect.top), run.style.angle).left

    def _base(self, at: int, angle: int) -> float:
        x, y = c_double(), c_double()
        self._calls.raw.FPDFText_GetCharOrigin(self._page_text.raw, at, x, y)
        return {0: y.value, 90: -x.value, 180: -y.value, 270: x.value}[angle]

    def _style(self, at: int, current: int) -> _Style:
        raw, handle = self._calls.raw, self._page_text.raw
        matrix = raw.FS_MATRIX()
        raw.FPDFText_GetMatrix(handle, at, matrix)
        slant = math.degrees(math.atan2(matrix.b, matrix.a)) % 360
        angle = round(slant / 90) * 90
        turned = angle % 360 if abs(slant - angle) < 5 else -1
        size = raw.FPDFText_GetFontSize(handle, at) * math.hypot(matrix.c, matrix.d)
        if not current:
            return _Style(turned, size, False, False, 0, (0, 0, 0), False)
        item = cast(current, raw.FPDF_PAGEOBJECT)
        mode = raw.FPDFTextObj_GetTextRenderMode(item)
        bold, fixed = self._font(item)
        return _Style(
            turned,
            round(size, 2),
            bold or mode == _STROKED_MODE,
            fixed,
            mode,
            _colour(item, raw.FPDFPageObj_GetFillColor),
            _is_artifact(raw, item),
        )

    def _font(self, item: Any) -> tuple[bool, bool]:
        """Return whether the letters of an object are bold, and whether they have one width."""
        raw = self._calls.raw
        font = raw.FPDFTextObj_GetFont(item)
        if not font:
            return False, False
        key = cast(font, c_void_p).value
        if key not in self._fonts:
            name = (c_char * 128)()
            length = raw.FPDFFont_GetBaseFontName(font, name, 128)
            label = name.value.decode(errors="replace") if 0 < length <= 128 else ""
            bold = bool(_BOLD_FONT.search(label))
            flags = max(0, raw.FPDFFont_GetFlags(font))
            self._fonts[key] = (
                bold or bool(flags & _FORCE_BOLD),
                bool(flags & _FIXED_PITCH or _FIXED_FONT.search(label)),
            )
        return self._fonts[key]

    def _is_visible(self, style: _Style, size: float, box: Box, owner: int) -> bool:
        if style.is_artifact or size < _TINY:
            return False
        if style.angle > 0:
            box = turn(box, 360 - style.angle)
        x, y = (box.left + box.right) / 2, (box.bottom + box.top) / 2
        crop, drawing = self._crop, self._drawing
        if not (crop.left <= x <= crop.right and crop.bottom <= y <= crop.top):
            return False
        if style.mode == _INVISIBLE_MODE:
            # Invisible text on a picture is what was recognised in it.
            return any(holds(picture, x, y) for picture in drawing.pictures)
        order = drawing.orders.get(owner, -1)
        ground = (255, 255, 255)
        is_painted = any(holds(picture, x, y) for picture in drawing.pictures)
        slack = 0.2 * size
        for fill in drawing.fills_at(x, y):
            if not fill.is_plain:
                is_painted = True
            elif order < 0 or fill.order < order:
                ground, is_painted = fill.colour, False
            elif _covers(fill.box, box, slack):
                return False
        is_same = all(abs(a - b) <= _SAME_COLOUR for a, b in zip(style.colour, ground, strict=True))
        return not is_same or is_painted or style.mode not in (0, 4)


def _covers(box: Box, other: Box, slack: float) -> bool:
    return (
        box.left <= other.left + slack
        and box.bottom <= other.bottom + slack
        and box.right >= other.right - slack
        and box.top >= other.top - slack
    )


def _codes(text: PdfTextPage, count: int) -> str:
    """Return one character for each of the page; the halves of those of two UTF-16 units stay apart."""
    from pypdfium2 import raw

    buffer = (c_ushort * (count + 2))()
    if raw.FPDFText_GetText(text.raw, 0, count, buffer) == count + 1:
        codes = bytes(buffer)[: 2 * count].decode("utf-16-le", "surrogatepass")
        if len(codes) == count:
            return codes.translate(_HYPHENS)
    codes = "".join(chr(raw.FPDFText_GetUnicode(text.raw, at)) for at in range(count))
    return codes.translate(_HYPHENS)


def _split_leaders(words: str) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of a piece between and with its rows of dots, each with its span."""
    done = 0
    if "...." not in words and words.isalnum():
        yield words, 0, len(words)
        return
    for found in _LEADER.finditer(words):
        if found.start() > done:
            yield words[done : found.start()], done, found.start()
        yield found[0], found.start(), found.end()
        done = found.end()
    if done < len(words):
        yield words[done:], done, len(words)


def _colour(item: Any, read: Any) -> tuple[int, int, int]:
    red, green, blue, alpha = c_uint(), c_uint(), c_uint(), c_uint()
    if not read(item, red, green, blue, alpha):
        return 0, 0, 0
    return red.value, green.value, blue.value


def _is_artifact(raw: Any, item: Any) -> bool:
    """Whether the file marks an object as a running title, a number of a page or a watermark."""
    for at in range(min(8, max(0, raw.FPDFPageObj_CountMarks(item)))):
        mark = raw.FPDFPageObj_GetMark(item, at)
        name = (c_ushort * 32)()
        length = c_ulong()
        raw.FPDFPageObjMark_GetName(mark, name, 64, length)
        if _utf16(name) != "Artifact":
            continue
        for key in (b"Type", b"Subtype"):
            value = (c_ushort * 32)()
            found = raw.FPDFPageObjMark_GetParamStringValue(mark, key, value, 64, length)
            if found and _utf16(value) in ("Pagination", "Watermark", "Header", "Footer"):
                return True
    return False


def _utf16(units: Array[c_ushort]) -> str:
    return bytes(units).decode("utf-16-le", "replace").partition("\0")[0]


def take_vertical(groups: dict[int, list[Piece]]) -> None:
    """Move East Asian letters that stand below one another to the text that goes down."""
    pieces = groups.get(0, [])
    at = 0
    taken: set[int] = set()
    while at < len(pieces):
        end = at + 1
        while end < len(pieces) and _is_below(pieces[end - 1], pieces[end]):
            end += 1
        if end - at >= 3:
            taken.update(range(at, end))
        at = end
    if not taken:
        return
    groups[0] = [piece for at, piece in enumerate(pieces) if at not in taken]
    down = groups.setdefault(270, [])
    for at in sorted(taken):
        down.append(_turn_piece(pieces[at], 270))
        down[-1].glued = True


def _is_below(one: Piece, other: Piece) -> bool:
    step = (one.base - other.base) / max(1.0, one.size)
    return (
        len(one.text) == len(other.text) == 1
        and abs(one.left + one.right - other.left - other.right) < 0.4 * one.size
        and 0.6 < step < 1.6
        and bool(EAST_ASIAN.match(one.text) and EAST_ASIAN.match(other.text))
    )


def _remove_struck(pieces: list[Piece], across: Sequence[Box]) -> tuple[list[Piece], int]:
    """Return the pieces without those that a line crosses out, and how many passages these are."""
    lines = sorted(across, key=lambda box: box.bottom)
    if not lines:
        return pieces, 0

    heights = [box.bottom for box in lines]
    kept: list[Piece] = []
    struck, last = 0, -2
    for piece in pieces:
        low, high = piece.base + 0.12 * piece.size, piece.base + 0.48 * piece.size
        near = lines[bisect_left(heights, low - THICK) : bisect_left(heights, high)]
        width = max(0.1, piece.right - piece.left)
        if any(
            low <= (box.bottom + box.top) / 2 <= high
            and min(piece.right, box.right) - max(piece.left, box.left) > 0.7 * width
            for box in near
        ):
            struck += last != len(kept)
            last = len(kept)
        else:
            kept.append(piece)
    return kept, struck
