"""Load texts and presentations of OpenDocument (ODT, ODP), as LibreOffice writes them.

Left out and counted: deleted and hidden passages and slides, tables of contents, comments, pictures without a
description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from whence.ingest.blocks import ParsedDocument
from whence.ingest.content_detection import ODF_PROTECTED
from whence.ingest.document_builder import first_heading
from whence.ingest.document_dates import iso_date
from whence.ingest.loaders.base import Loader
from whence.ingest.office.archive import OfficeArchive, telling_title
from whence.ingest.office.document import nesting_refused, office_document
from whence.ingest.office.odf_styles import DRAW, OFFICE, PRESENTATION, TEXT, OdfStyles
from whence.ingest.office.odf_text import OdfText
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_RUNNING = frozenset(("header", "footer", "date-time", "page-number", "page"))
_LENGTH = re.compile(r"(-?\d+(?:\.\d+)?)(cm|mm|in|pt)?")
_POINTS = {"cm": 28.35, "mm": 2.835, "in": 72.0, "pt": 1.0, None: 1.0}
#: Frames whose upper edges differ less stand in one line, in points.
_LINE = 18


def load_opendocument(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a text or a presentation; its title is its first one, else that of its properties."""
    archive = OfficeArchive(data, "OpenDocument file")
    if "META-INF/manifest.xml" in archive and b"encryption-data" in archive.read(
        "META-INF/manifest.xml"
    ):
        raise BadInput(ODF_PROTECTED)
    content = archive.xml("content.xml")
    named = archive.optional_xml("styles.xml") if "styles.xml" in archive else None
    reader = OdfText(archive, OdfStyles([content] if named is None else [content, named]))
    with nesting_refused():
        _write(reader, content)
    title, date = _properties(archive)
    title = reader.title or title or reader.first_title
    return office_document(file, archive, reader.text, reader.counts, title=title, date=date)


def _write(reader: OdfText, content: Element) -> None:
    reader.read_controls(content)
    body = content.find(f"{OFFICE}body")
    for part in body if body is not None else ():
        if part.tag == f"{OFFICE}presentation" or part.find(f"{DRAW}page") is not None:
            _write_slides(reader, part)
        else:
            reader.write(part)
            reader.first_title = first_heading(reader.text.blocks)


def _write_slides(reader: OdfText, part: Element) -> None:
    for number, page in enumerate(part.iterfind(f"{DRAW}page"), 1):
        if reader.is_hidden_page(page):
            reader.counts["hidden slides"] += 1
            continue
        reader.text.slide = reader.text.page = number
        _write_slide(reader, page, number)


def _write_slide(reader: OdfText, page: Element, number: int) -> None:
    frames = [each for each in page if each.tag.startswith(DRAW) and _kind(each) not in _RUNNING]
    title = next((each for each in frames if _kind(each) == "title"), None)
    rest = sorted((each for each in frames if each is not title), key=_order)
    paragraphs = title.iter(f"{TEXT}p") if title is not None else ()
    words = " ".join(filter(None, map(reader.words, paragraphs)))
    notes = list(_notes(page))
    if words or notes or any(next(each.itertext(), "") or len(each) for each in rest):
        # Without a heading its text would stand under that of the slide before.
        reader.text.add_heading(1, words or f"Slide {number}")
    if number == 1 and words and any(_kind(each) == "subtitle" for each in rest):
        reader.title = words
    reader.first_title = reader.first_title or words
    reader.write_inside(rest)
    if notes:
        reader.text.lead_in("Notes")
        reader.write_inside(notes)
        reader.text.end_lead_in()


def _notes(page: Element) -> Iterator[Element]:
    for frame in page.iterfind(f"{PRESENTATION}notes/{DRAW}frame"):
        if _kind(frame) == "notes" and "".join(frame.itertext()).strip():
            yield frame


def _kind(node: Element) -> str:
    return node.get(f"{PRESENTATION}class", "")


def _order(node: Element) -> tuple[float, float, float]:
    if _kind(node):
        return (0, 0, 0)
    x, y = (_length(node.get(f"{_SVG}{name}", "")) for name in ("x", "y"))
    return (1, y // _LINE, x)


def _length(words: str) -> float:
    found = _LENGTH.match(words)
    return float(found[1]) * _POINTS[found[2]] if found else 0.0


def _properties(archive: OfficeArchive) -> tuple[str, str]:
    root = archive.optional_xml("meta.xml") if "meta.xml" in archive else None
    values = (
        {each.tag.rpartition("}")[2]: each.text or "" for each in root.iter()}
        if root is not None
        else {}
    )
    days = (iso_date(values.get(name, "")) for name in ("date", "creation-date"))
    return telling_title(values.get("title", "")), next(filter(None, days), "")


LOADERS = (
    Loader(
        name="OpenDocument",
        suffixes=(".odt", ".ott", ".odp", ".otp"),
        parse_file=load_opendocument,
        is_binary=True,
        version="2",
    ),
)
