"""Load PDF: pages in reading order with tables, headings, values of forms, and what cannot be read counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime

from whence.ingest import ocr
from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import (
    MAX_HEADING,
    MAX_TEXT,
    build_document,
    first_heading,
    shorten,
)
from whence.ingest.loaders.base import Loader
from whence.ingest.pdf_forms import open_form, read_notes
from whence.ingest.pdf_lines import continued_tables, page_items
from whence.ingest.pdf_pieces import PDFIUM, Page, read_page
from whence.ingest.pdf_running import remove_running
from whence.ingest.pdf_scans import read_scan
from whence.ingest.pdf_writer import (
    HEADING_SIZE,
    MAX_HEADING_SHARE,
    PdfWriter,
    body_size,
)
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder, collapse_spaces
from whence.schema.errors import BadInput

#: Most pages of a document that are read by OCR: an hour or two.
_MOST_SCANS = 1000
_NOT_A_TITLE = re.compile(
    r"(?i)\W*(?:untitled|anonymous|unknown|none|no title|titel|title)\W*\d*|microsoft \w+ - .*|powerpoint presentation"
    r"|(?:document|dokument|presentation|pr\u00e4sentation|slide|book|workbook|sheet)\s*\d*|\S+\.[a-z]\w{1,4}\s*|.*\.(?:docx?|pdf|tex|indd|pptx?|xlsx?|dvi|odt|qxd|rtf)\s*"
)
_WORD = re.compile(r"[^\W\d_]{2}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
#: One word with an underscore or many digits: a name of a file or a number of a filing.
_CODE_NAME = re.compile(r"(?=\S*(?:_|\d\D*\d\D*\d\D*\d))\S+")
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(?:(\d\d)(\d\d)(\d\d)?)?(?:(Z)|([+-])(\d\d)'?(\d\d)?)?")  # fmt: skip


def load_pdf(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file; its title is that of its properties if it says something, else its first heading.

    Cost: fifty to a hundred pages a second.
    """
    with PDFIUM:
        properties, pages, damaged = _read_pages(data)
    empty = sum(not page.letters and page.pictures > 0 for page in pages)
    if not pages:
        raise BadInput("is not a readable PDF: all pages are damaged")
    has_text = any(page.letters for page in pages)
    if empty and not has_text and not ocr.is_available():
        remedy = "install tesseract for OCR (Debian: tesseract-ocr), or run OCR on it first"
        counted = f"{len(pages):,} page{'' if len(pages) == 1 else 's'}"
        raise BadInput(f"has {counted} without text (scanned?): {remedy}")
    left_out = {
        "pictures": sum(page.pictures for page in pages if page.letters or not has_text),
        "comments": sum(page.remarks for page in pages),
        "hidden passages": sum(page.hidden for page in pages),
        "struck passages": sum(page.struck for page in pages),
        "pages without text": empty if has_text else 0,
        "parts": damaged,
    }
    text = TextBuilder()
    _write(pages, text)
    title = _title(properties) or first_heading(text.blocks)
    return build_document(
        file,
        text.text,
        text.blocks,
        title=title,
        places=text.places,
        date=_date(properties),
        left_out=left_out,
    )


def _write(pages: Sequence[Page], text: TextBuilder) -> None:
    sizes: Counter[float] = Counter()
    fixed = whole = 0
    for page in pages:
        for each in page.texts:
            for piece in each.pieces:
                sizes[round(4 * piece.size) / 4] += len(piece.text)
                fixed += piece.fixed * len(piece.text)
                whole += len(piece.text)
    has_code = 0 < fixed <= (1 - MAX_HEADING_SHARE) * whole
    body = body_size(sizes)
    kept = remove_running(pages, body, HEADING_SIZE * body)
    items = [item for page in kept for item in page_items(page, has_code=has_code, pages=len(pages))]  # fmt: skip
    PdfWriter(text, continued_tables(items), sizes).write()


def _read_pages(data: bytes) -> tuple[Mapping[str, str], list[Page], int]:
    """Return the properties of a document, its pages, and how many pages are damaged."""
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        with closing(PdfDocument(data)) as document:
            form = open_form(document)
            pages: list[Page] = []
            length = damaged = scans = 0
            for number in range(1, len(document) + 1):
                try:
                    page = document[number - 1]
                except PdfiumError:
                    damaged += 1
                    continue
                with closing(page):
                    notes = read_notes(page, form)
                    found = read_page(page, number, notes.pieces, notes.strikes)
                    is_scan = not found.letters and found.pictures > 0
                    if is_scan and scans < _MOST_SCANS and ocr.is_available():
                        scans += 1
                        text = read_scan(page, number)
                        found = found._replace(texts=[text], pictures=0 if text.pieces else 1)
                pages.append(found._replace(remarks=notes.remarks))
                length += found.characters
                # The tree of pages may name one page thousands of times.
                if length > MAX_TEXT:
                    raise BadInput(f"has more than {MAX_TEXT:,} characters of text; split it")
            return document.get_metadata_dict(), pages, damaged
    except PdfiumError as error:
        if "password" in str(error).lower():
            raise BadInput("is protected by a password") from error
        raise BadInput(f"is not a readable PDF: {collapse_spaces(str(error))}") from error


def _title(properties: Mapping[str, str]) -> str:
    """Return the title of the properties; empty if it says nothing of the document."""
    words = collapse_spaces(properties.get("Title", ""))
    others = {collapse_spaces(properties.get(key, "")) for key in ("Author", "Creator", "Producer")}
    says_nothing = (
        _NOT_A_TITLE.fullmatch(words)
        or _CODE_NAME.fullmatch(words)
        or not _WORD.search(words)
        or words in others
    )
    return "" if says_nothing else shorten(words, MAX_HEADING)


def _date(properties: Mapping[str, str]) -> str:
    """Return the date on which the document was made, else changed, ISO 8601; empty if it states none."""
    for key in ("CreationDate", "ModDate"):
        found = _DATE.match(properties.get(key, "").strip())
        if found is None:
            continue
        year, month, day, hour, minute, second, utc, sign, hours, minutes = found.groups()
        date = f"{year}-{month or '01'}-{day or '01'}"
        if hour:
            date += f"T{hour}:{minute}:{second or '00'}"
            date += "Z" if utc else f"{sign}{hours}:{minutes or '00'}" if sign else ""
        try:
            datetime.fromisoformat(date)
        except ValueError:
            continue
        return date
    return ""


LOADERS = (
    Loader(
        name="PDF",
        suffixes=(".pdf",),
        parse_file=load_pdf,
        is_binary=True,
        version="4",
        reads_pictures=True,
    ),
)
