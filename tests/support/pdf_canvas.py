"""Draw PDF files for tests: words, lines, boxes, pictures, fields and notes at places of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tests.support.documents import escape_pdf, pdf_file

#: Widths of the letters of Helvetica from the space to the tilde, in thousandths of the font size.
_WIDTHS = [
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556,) * 10,
    *(278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556),
    *(833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556),
    *(333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333),
    *(500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
]  # fmt: skip


def width_of(words: str, size: float) -> float:
    """Return the width of words in Helvetica, in points."""
    return sum(_WIDTHS[min(94, ord(each) - 32)] for each in words) * size / 1000


class Canvas:
    """A page of 612 by 792 points.

    Args:
        rotate: Degrees by which a reader turns the page, clockwise.
    """

    def __init__(self, *, rotate: int = 0) -> None:
        self.rotate = rotate
        self.content: list[str] = []
        self.notes: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 10,
        font: str = "F1",
        align: str = "left",
        angle: float = 0,
        mode: int = 0,
        grey: float = 0,
    ) -> None:
        """Draw words; fonts are F1 (Helvetica), F2 (bold) and F3 (Courier)."""
        if align == "right":
            x -= width_of(words, size)
        elif align == "centre":
            x -= width_of(words, size) / 2
        a, b = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        self.content.append(
            f"BT /{font} {size} Tf {mode} Tr {grey} g {a:.4f} {b:.4f} {-b:.4f} {a:.4f} {x:.2f} {y:.2f} Tm"
            f" ({escape_pdf(words)}) Tj ET"
        )

    def lines(self, x: float, y: float, lines: Sequence[str], *, size: float = 10) -> float:
        """Draw lines below one another; return the place of the next one."""
        for words in lines:
            self.text(x, y, words, size=size)
            y -= 1.25 * size
        return y

    def line(self, x: float, y: float, right: float, top: float) -> None:
        """Draw a line."""
        self.content.append(f"0 G 0.5 w {x:.2f} {y:.2f} m {right:.2f} {top:.2f} l S")

    def box(
        self, x: float, y: float, width: float, height: float, *, grey: float | None = None
    ) -> None:
        """Draw a frame, or fill a box."""
        paint = "0 G 0.5 w" if grey is None else f"{grey} g"
        self.content.append(f"{paint} {x} {y} {width} {height} re {'S' if grey is None else 'f'}")

    def picture(self, x: float, y: float, width: float, height: float) -> None:
        """Draw a picture of one point."""
        self.content.append(
            f"q {width} 0 0 {height} {x} {y} cm BI /W 1 /H 1 /CS /G /BPC 8 ID \x80 EI Q"
        )

    def note(self, kind: str, box: tuple[float, float, float, float], rest: str) -> None:
        """Add an annotation, such as `Widget` with the entries of its field."""
        rect = " ".join(map(str, box))
        self.notes.append(f"<< /Type /Annot /Subtype /{kind} /Rect [{rect}] /F 4 {rest} >>")


def canvas_pdf(pages: Sequence[Canvas], properties: Mapping[str, str] | None = None) -> bytes:
    """Return a PDF of these pages."""
    fonts = "/F1 3 0 R /F2 4 0 R /F3 5 0 R"
    first = 6
    objects: list[bytes] = []
    kids: list[int] = []
    fields: list[int] = []
    for page in pages:
        number = first + len(objects)
        content = "\n".join(page.content).encode("latin-1")
        notes = range(number + 2, number + 2 + len(page.notes))
        kids.append(number)
        fields.extend(at for at, note in zip(notes, page.notes, strict=True) if "/Widget" in note)
        references = " ".join(f"{at} 0 R" for at in notes)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Rotate {page.rotate}"
            f" /Contents {number + 1} 0 R /Annots [{references}]"
            f" /Resources << /Font << {fonts} >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
        objects.extend(note.encode("latin-1") for note in page.notes)
    form = " ".join(f"{at} 0 R" for at in fields)
    head = [
        f"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [{form}] >> >>",
        f"<< /Type /Pages /Kids [{' '.join(f'{at} 0 R' for at in kids)}] /Count {len(kids)} >>",
        *(
            f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>"
            for name in ("Helvetica", "Helvetica-Bold", "Courier")
        ),
    ]
    info = " ".join(f"/{key} ({escape_pdf(words)})" for key, words in (properties or {}).items())
    return pdf_file([*map(str.encode, head), *objects, f"<< {info} >>".encode("latin-1")])
