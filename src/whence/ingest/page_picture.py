"""A page of a PDF as a picture with the words of a quote marked, drawn in a process with limits.

`draw_page` starts this module as a program, sends it one job and receives a PNG. A file that was read once may
still take any time or memory to draw.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from whence.ingest.limited_process import (
    LimitedProcess,
    Limits,
    connect,
    limit_processor_time,
    receive_message,
    send_message,
)
from whence.ingest.pdf_boxes import pdf_boxes
from whence.ingest.reading_process import failure_reason
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from pypdfium2 import PdfPage

#: Wanted width of a picture, most of its height, in pixels, and most pixels for a point.
_WIDTH: Final = 1200
_HEIGHT: Final = 2400
_MOST_SCALE: Final = 3.0
#: Colour of a mark, as parts of what shines through: red, green, blue.
_MARK: Final = (1.0, 0.93, 0.45)
#: Pixels that a mark reaches beyond the words.
_MARGIN: Final = 2
_LIMITS: Final = Limits(seconds=20.0, memory=2**30, output=16 * 2**20, then="it is not shown")


class PictureJob(msgspec.Struct, frozen=True, array_like=True):
    """A page to draw."""

    data: bytes
    page: int
    """From 1."""
    quote: str
    before: str
    """Words before the quote, see `pdf_boxes`."""


class Picture(msgspec.Struct, frozen=True, array_like=True):
    """A drawn page, or the reason why there is none."""

    png: bytes = b""
    reason: str = ""


def draw_page(job: PictureJob, limits: Limits = _LIMITS) -> bytes:
    """Return a page as PNG, at most 1200 by 2400 pixels, with the words of the quote marked.

    Raises:
        BadInput: The file cannot be read, has no such page, or takes too much time or memory.
    """
    process: LimitedProcess | None = None
    try:
        process = LimitedProcess(__name__, limits)
        process.wait_until_ready()
        process.connection.settimeout(limits.seconds)
        send_message(process.connection, msgspec.msgpack.encode(job))
        found = msgspec.msgpack.decode(receive_message(process.connection), type=Picture)
    except TimeoutError as error:
        raise BadInput(limits.too_slow) from error
    except (OSError, EOFError) as error:
        raise BadInput(limits.too_much_memory) from error
    finally:
        if process is not None:
            process.end()
    if not found.png:
        raise BadInput(found.reason)
    return found.png


def render_page(job: PictureJob) -> bytes:
    """Return the same, drawn in this process."""
    from pypdfium2 import PdfDocument, PdfiumError

    boxes = pdf_boxes(job.data, job.page, job.quote, job.before) if job.quote else []
    try:
        with closing(PdfDocument(job.data)) as document:
            if not 1 <= job.page <= len(document):
                raise BadInput(f"has {len(document)} pages, and no page {job.page}")
            document.init_forms()
            with closing(document[job.page - 1]) as page:
                width, height = page.get_size()
                scale = min(_MOST_SCALE, _WIDTH / max(1.0, width), _HEIGHT / max(1.0, height))
                pixels = page.render(scale=scale, rev_byteorder=True).to_numpy()[..., :3].copy()
                for box in boxes:
                    _mark(pixels, _on_picture(page, box, pixels.shape))
    except PdfiumError as error:
        raise BadInput(f"page {job.page} cannot be drawn: {error}") from error
    return _png(pixels)


def _on_picture(
    page: PdfPage, box: Sequence[float], shape: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """Return a box of the page in pixels: left, top, right, bottom; rotation and crop are those of the page."""
    import ctypes

    from pypdfium2 import raw

    xs, ys = [], []
    for x, y in ((box[0], box[1]), (box[2], box[3])):
        at_x, at_y = ctypes.c_int(), ctypes.c_int()
        raw.FPDF_PageToDevice(page.raw, 0, 0, shape[1], shape[0], 0, x, y, at_x, at_y)
        xs.append(at_x.value)
        ys.append(at_y.value)
    return min(xs) - _MARGIN, min(ys) - _MARGIN, max(xs) + _MARGIN, max(ys) + _MARGIN


def _mark(pixels: NDArray[np.uint8], place: tuple[int, int, int, int]) -> None:
    """Colour a part of a picture like a pen that lets dark letters through."""
    left, top, right, bottom = (max(0, one) for one in place)
    part = pixels[top:bottom, left:right]
    part[:] = (part * _MARK).astype(part.dtype)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """Return a picture of shape (height, width, 3) as PNG (ISO/IEC 15948)."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def main() -> None:
    """Draw one page."""
    connection, limits = connect()
    with suppress(EOFError, ConnectionError):
        job = msgspec.msgpack.decode(receive_message(connection), type=PictureJob)
        limit_processor_time(limits.seconds)
        reply: Any
        try:
            reply = Picture(render_page(job))
        except MemoryError:
            reply = Picture(reason=limits.too_much_memory)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is the reason
            reply = Picture(reason=failure_reason(error))
        if len(reply.png) > limits.output:
            reply = replace(reply, png=b"", reason=limits.too_large)
        send_message(connection, msgspec.msgpack.encode(reply))


if __name__ == "__main__":
    main()
