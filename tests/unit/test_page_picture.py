"""A page of a PDF as a picture: what is marked, and what is refused."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.pdf_canvas import Canvas, canvas_pdf

from whence.ingest.limited_process import Limits
from whence.ingest.page_picture import PictureJob, draw_page, render_page
from whence.schema.errors import BadInput


def pixels_of(png: bytes) -> NDArray[np.uint8]:
    """Return the pixels of a PNG without filters: shape (height, width, 3)."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack("!II", png[16:24])
    start = png.index(b"IDAT") + 4
    size = struct.unpack("!I", png[start - 8 : start - 4])[0]
    rows = np.frombuffer(zlib.decompress(png[start : start + size]), np.uint8)
    found: NDArray[np.uint8] = rows.reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)
    return found


def marked(png: bytes) -> NDArray[np.bool_]:
    """Return which pixels are yellow."""
    pixels = pixels_of(png).astype(int)
    found: NDArray[np.bool_] = pixels[..., 0] - pixels[..., 2] > 60
    return found


def two_lines(rotate: int = 0) -> bytes:
    """Return a page with a line near its top and one near its foot."""
    page = Canvas(rotate=rotate)
    page.text(72, 700, "The annual fee of the library is forty euro.", size=12)
    page.text(72, 100, "The museum opens at nine in the morning.", size=12)
    return canvas_pdf([page])


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_the_quote_is_marked_where_it_stands(rotate: int) -> None:
    """Also on a page that readers turn; the other line and the rest of the page are not."""
    places = []
    for quote in ("The annual fee of the library is forty euro.", "museum opens at nine"):
        png = draw_page(PictureJob(two_lines(rotate), 1, quote, ""))
        yellow = marked(png)
        assert 0 < yellow.mean() < 0.03
        rows, columns = np.nonzero(yellow)
        places.append((rows.mean() / yellow.shape[0], columns.mean() / yellow.shape[1]))
    axis = 0 if rotate in (0, 180) else 1
    first, second = (one[axis] for one in places)
    # Turned by 90 degrees the top of the page is right, by 180 below, by 270 left.
    is_first = rotate in (0, 270)
    assert (first < 0.3 and second > 0.7) if is_first else (first > 0.7 and second < 0.3)


def test_words_stay_readable_below_a_mark() -> None:
    """Dark letters are dark where they are marked."""
    png = render_page(PictureJob(two_lines(), 1, "The annual fee of the library", ""))
    plain = render_page(PictureJob(two_lines(), 1, "", ""))
    assert not marked(plain).any()
    dark = pixels_of(plain).max(axis=2) < 60
    assert dark.any()
    assert (pixels_of(png)[dark].max(axis=1) < 60).all()


def test_a_quote_that_is_not_there_marks_nothing() -> None:
    """The page is shown all the same."""
    assert not marked(
        render_page(PictureJob(two_lines(), 1, "Nothing like it stands here.", ""))
    ).any()


@pytest.mark.parametrize(
    ("data", "page"), [(b"no pdf", 1), (b"", 1), (None, 0), (None, 2), (None, 10**6)]
)
def test_what_cannot_be_drawn_is_refused(data: bytes | None, page: int) -> None:
    """A file that is no PDF, and a page that is not there."""
    with pytest.raises(BadInput):
        draw_page(PictureJob(two_lines() if data is None else data, page, "museum", ""))


def test_a_huge_page_has_a_small_picture() -> None:
    """Whatever size a page says it has, and however thin it is."""
    for size in ("0 0 14400 14400", "0 0 2 14400", "0 0 14400 2"):
        data = two_lines().replace(b"0 0 612 792", size.encode())
        assert data != two_lines()
        height, width, _ = pixels_of(draw_page(PictureJob(data, 1, "museum", ""))).shape
        assert height <= 2401
        assert width <= 1201


def test_drawing_has_limits() -> None:
    """A page that takes too long is refused with the reason."""
    limits = Limits(seconds=0.0001, then="it is not shown")
    with pytest.raises(BadInput, match="longer"):
        draw_page(PictureJob(two_lines(), 1, "museum", ""), limits)
