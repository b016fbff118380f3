"""Pictures of pages, and PDF files that have nothing else."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pypdfium2
from numpy.typing import NDArray

#: US Letter, in points.
_WIDTH, _HEIGHT = 612, 792


def picture_of(pdf: bytes, dpi: int = 150) -> NDArray[np.uint8]:
    """Return the first page of a PDF as grey pixels."""
    document: Any = pypdfium2.PdfDocument(pdf)
    pixels: NDArray[np.uint8] = document[0].render(scale=dpi / 72, grayscale=True).to_numpy()
    return np.ascontiguousarray(pixels.reshape(pixels.shape[:2]))


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return grey pixels as a PNG file."""

    def part(kind: bytes, data: bytes) -> bytes:
        end = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + end

    rows, columns = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    parts = (part(b"IHDR", head), part(b"IDAT", zlib.compress(lines)), part(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def scanned_pdf(pages: Sequence[NDArray[np.uint8] | str]) -> bytes:
    """Return a PDF with a picture, or a line of text in Helvetica, on each page."""
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    objects: list[bytes] = [b"", b"", font]
    kids = []
    for page in pages:
        if isinstance(page, str):
            content, resources = (
                f"BT /F 12 Tf 72 700 Td ({page}) Tj ET".encode(),
                b"/Font<</F 3 0 R>>",
            )
        else:
            objects.append(_picture(page))
            resources = b"/XObject<</I %d 0 R>>" % len(objects)
            content = b"%d 0 0 %d 0 0 cm /I Do" % (_WIDTH, _HEIGHT)
        objects.append(b"<</Length %d>>stream\n%b\nendstream" % (len(content), content))
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d %d]/Resources<<%b>>/Contents %d 0 R>>"
            % (_WIDTH, _HEIGHT, resources, len(objects))
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[0] = b"<</Type/Catalog/Pages 2 0 R>>"
    objects[1] = b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(kids), b" ".join(kids))
    out, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end


def _picture(pixels: NDArray[np.uint8]) -> bytes:
    data = zlib.compress(pixels.tobytes())
    return (
        b"<</Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8"
        b"/Filter/FlateDecode/Length %d>>stream\n%b\nendstream"
        % (pixels.shape[1], pixels.shape[0], len(data), data)
    )
