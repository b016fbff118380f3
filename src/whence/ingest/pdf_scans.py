"""Pages of PDF that are pictures: read by OCR into the pieces that pages with letters have."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from whence.ingest import ocr
from whence.ingest.pdf_pieces import ASCENT, DESCENT, PageText, Piece

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

#: Points and pixels of an inch, and the longest side of a picture in pixels. With 300 pixels a page takes half
#: as long again, and the words of clear print are the same.
_POINTS, _PIXELS, _LONGEST = 72.0, 200.0, 6000.0
#: Share of the height of a font that most words have without the letters that reach below the line.
_TALL = ASCENT - 0.06


def read_scan(page: PdfPage, number: int) -> PageText:
    """Return the text of a page that is a picture, in points from the bottom left corner of the page."""
    width, height = page.get_size()
    scale = min(_PIXELS / _POINTS, _LONGEST / max(width, height, 1.0))
    pixels = page.render(scale=scale, grayscale=True).to_numpy()
    rows, columns = pixels.shape[:2]
    words = ocr.read_words(b"P5 %d %d 255\n" % (columns, rows) + pixels.tobytes())
    return PageText(pieces_of(words, scale, height), [], [], number)


def pieces_of(words: Sequence[ocr.Word], scale: float, height: float) -> list[Piece]:
    """Return words as pieces; those of a line have one base line and one size.

    Args:
        words: In pixels from the top.
        scale: Pixels of a point.
        height: Of the page, in points.
    """
    lines: dict[tuple[int, int, int], list[ocr.Word]] = {}
    for word in words:
        lines.setdefault(word.line, []).append(word)
    pieces: list[Piece] = []
    for line in lines.values():
        size = median(word.height for word in line) / scale / _TALL
        base = height - median(word.top + word.height for word in line) / scale
        base += DESCENT * size / 4
        for word in line:
            left, right = word.left / scale, (word.left + word.width) / scale
            pieces.append(Piece(word.text, left, right, base, size, len(pieces)))
    return pieces
