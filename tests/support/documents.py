"""Small PDF and Word files for tests, written by hand: what is in them is what the test says."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from html import escape

Line = tuple[float, float, str]
"""Height of the letters in points, distance from the lower edge in points, words (Latin 1)."""

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def make_pdf(pages: Sequence[Sequence[Line]], *, title: str = "") -> bytes:
    """Return a PDF with these lines on its pages, in Helvetica."""
    font = 3
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(pages):
        content = "\n".join(
            f"BT /F1 {size} Tf 72 {y} Td ({escape_pdf(words)}) Tj ET" for size, y, words in lines
        ).encode("latin-1")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R"
            f" /Resources << /Font << /F1 {font} 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
    objects.append(f"<< /Title ({escape_pdf(title)}) >>".encode("latin-1"))
    return pdf_file(objects)


def pdf_file(objects: Sequence[bytes]) -> bytes:
    """Return a PDF of these objects; the first is the catalog, the last the properties of the document."""
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    places = []
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%b\nendobj\n" % (number, body))
    table = out.tell()
    size = len(objects) + 1
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % size)
    out.writelines(b"%010d 00000 n \n" % place for place in places)
    trailer = f"trailer << /Size {size} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{table}\n%%EOF\n"
    out.write(trailer.encode())
    return out.getvalue()


def escape_pdf(words: str) -> str:
    """Return words as they stand in a string of a PDF."""
    return words.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def make_docx(*blocks: tuple[str, str] | Sequence[Sequence[str]]) -> bytes:
    """Return a Word document of paragraphs `(style, words)` and tables (rows of cells).

    Args:
        blocks: In order; the style is a name such as `Heading1`, or empty.
    """
    body = "".join(
        _paragraph(*block) if isinstance(block, tuple) else _table(block) for block in blocks
    )
    return docx_file(body)


def docx_file(body: str) -> bytes:
    """Return a Word document whose body has this markup."""
    document = f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    kinds = (
        f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument'
        '.wordprocessingml.document.main+xml"/></Types>'
    )
    links = (
        f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}" Target="word/document.xml"/></Relationships>'
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        parts = {"[Content_Types].xml": kinds, "_rels/.rels": links, "word/document.xml": document}
        for name, content in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{content}')
    return out.getvalue()


def _paragraph(style: str, words: str) -> str:
    look = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{look}<w:r><w:t>{escape(words)}</w:t></w:r></w:p>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    cells = ("".join(f"<w:tc>{_paragraph('', cell)}</w:tc>" for cell in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"
