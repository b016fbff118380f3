"""Read what is drawn on the page of a PDF besides its text: lines, filled areas and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_float, c_int, c_uint, c_void_p, cast
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

#: Parts of a page that are looked at; a drawing of more has no tables.
_MAX_OBJECTS = 20_000
_MAX_DEPTH = 5
_MAX_RULES = 4_000
_MAX_SEGMENTS = 2_000
_MAX_FILLS = 2_000
#: Filled areas are kept by bands of so many points.
_BAND, _MAX_BAND = 24.0, 300
#: A drawn line is at most so thick, in points.
THICK = 2.5


class Box(NamedTuple):
    """A rectangle, in points."""

    left: float
    bottom: float
    right: float
    top: float


class Painted(NamedTuple):
    """A filled area; `order` is its position in the file."""

    box: Box
    order: int
    colour: tuple[int, int, int]
    is_plain: bool
    """Whether it is a rectangle without transparency."""


class Drawing:
    """What is drawn on a page besides text."""

    def __init__(self) -> None:
        self.rules: list[Box] = []
        self.fills = 0
        self.pictures: list[Box] = []
        self.orders: dict[int, int] = {}
        self.count = 0
        self._bands: dict[int, list[Painted]] = {}

    def fill(self, painted: Painted) -> None:
        """Add an area."""
        self.fills += 1
        low, high = (round(edge / _BAND) for edge in (painted.box.bottom, painted.box.top))
        for band in range(max(low, -_MAX_BAND), min(high, _MAX_BAND) + 1):
            self._bands.setdefault(band, []).append(painted)

    def fills_at(self, x: float, y: float) -> list[Painted]:
        """Return the areas that hold a point, in the order in which they were drawn."""
        return [one for one in self._bands.get(round(y / _BAND), ()) if holds(one.box, x, y)]


def holds(box: Box, x: float, y: float) -> bool:
    """Whether a point is in a box."""
    return box.left <= x <= box.right and box.bottom <= y <= box.top


def read_drawing(page: PdfPage) -> Drawing:
    """Return what is drawn on a page."""
    from pypdfium2 import raw

    drawing = Drawing()
    count = max(0, raw.FPDFPage_CountObjects(page.raw))
    items = (raw.FPDFPage_GetObject(page.raw, at) for at in range(min(count, _MAX_OBJECTS)))
    _draw(raw, items, drawing, (1.0, 0.0, 0.0, 1.0, 0.0, 0.0), 0)
    return drawing


_Matrix = tuple[float, float, float, float, float, float]


def _draw(raw: Any, items: Iterator[Any], drawing: Drawing, matrix: _Matrix, depth: int) -> None:
    """Add what some objects draw; `matrix` leads from their coordinates to those of the page."""
    for item in items:
        drawing.count += 1
        if drawing.count > _MAX_OBJECTS or not item:
            return
        kind = raw.FPDFPageObj_GetType(item)
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            drawing.orders[cast(item, c_void_p).value or 0] = drawing.count
        elif kind == raw.FPDF_PAGEOBJ_PATH:
            _draw_path(raw, item, drawing, matrix)
        elif kind == raw.FPDF_PAGEOBJ_IMAGE:
            if box := _bounds(raw, item, matrix):
                drawing.pictures.append(box)
        elif kind == raw.FPDF_PAGEOBJ_SHADING:
            if box := _bounds(raw, item, matrix):
                drawing.fill(Painted(box, drawing.count, (0, 0, 0), False))
        elif kind == raw.FPDF_PAGEOBJ_FORM and depth < _MAX_DEPTH:
            inner = raw.FS_MATRIX()
            raw.FPDFPageObj_GetMatrix(item, inner)
            count = min(max(0, raw.FPDFFormObj_CountObjects(item)), _MAX_OBJECTS)
            parts = (raw.FPDFFormObj_GetObject(item, at) for at in range(count))
            own = (inner.a, inner.b, inner.c, inner.d, inner.e, inner.f)
            _draw(raw, parts, drawing, _product(own, matrix), depth + 1)


def _product(one: _Matrix, other: _Matrix) -> _Matrix:
    a, b, c, d, e, f = one
    g, h, i, j, k, m = other
    return (
        a * g + b * i,
        a * h + b * j,
        c * g + d * i,
        c * h + d * j,
        e * g + f * i + k,
        e * h + f * j + m,
    )


def _moved(matrix: _Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _bounds(raw: Any, item: Any, matrix: _Matrix) -> Box | None:
    left, bottom, right, top = c_float(), c_float(), c_float(), c_float()
    if not raw.FPDFPageObj_GetBounds(item, left, bottom, right, top):
        return None
    return _box(_moved(matrix, left.value, bottom.value), _moved(matrix, right.value, top.value))


def _box(one: tuple[float, float], other: tuple[float, float]) -> Box:
    (a, b), (c, d) = one, other
    return Box(min(a, c), min(b, d), max(a, c), max(b, d))


def _draw_path(raw: Any, item: Any, drawing: Drawing, matrix: _Matrix) -> None:
    """Add the straight lines of a path, or the area that it fills."""
    box = _bounds(raw, item, matrix)
    if box is None or len(drawing.rules) > _MAX_RULES:
        return
    fill, stroke = c_int(), c_int()
    raw.FPDFPath_GetDrawMode(item, fill, stroke)
    width, height = box.right - box.left, box.top - box.bottom
    if min(width, height) <= THICK:
        if max(width, height) > THICK and (fill.value or stroke.value):
            drawing.rules.append(box)
        return
    segments = raw.FPDFPath_CountSegments(item)
    if fill.value and drawing.fills < _MAX_FILLS:
        red, green, blue, alpha = c_uint(), c_uint(), c_uint(), c_uint()
        raw.FPDFPageObj_GetFillColor(item, red, green, blue, alpha)
        colour = (red.value, green.value, blue.value)
        is_plain = segments <= 6 and alpha.value == 255 and not raw.FPDFPageObj_HasTransparency(item)  # fmt: skip
        if alpha.value:
            drawing.fill(Painted(box, drawing.count, colour, is_plain))
    if stroke.value and segments <= _MAX_SEGMENTS:
        own = raw.FS_MATRIX()
        raw.FPDFPageObj_GetMatrix(item, own)
        whole = _product((own.a, own.b, own.c, own.d, own.e, own.f), matrix)
        drawing.rules.extend(_path_rules(raw, item, segments, whole))


def _path_rules(raw: Any, item: Any, segments: int, matrix: _Matrix) -> Iterator[Box]:
    begin = last = (0.0, 0.0)
    x, y = c_float(), c_float()
    for at in range(segments):
        segment = raw.FPDFPath_GetPathSegment(item, at)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = _moved(matrix, x.value, y.value)
        kind = raw.FPDFPathSegment_GetType(segment)
        ends = [point]
        if kind == raw.FPDF_SEGMENT_MOVETO:
            begin = last = point
            ends = []
        elif kind != raw.FPDF_SEGMENT_LINETO:
            last, ends = point, []
        if raw.FPDFPathSegment_GetClose(segment):
            ends.append(begin)
        for end in ends:
            line = _box(last, end)
            thin, long = sorted((line.right - line.left, line.top - line.bottom))
            if thin < 1 < long:
                yield line
            last = end
