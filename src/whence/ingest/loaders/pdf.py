"""Load PDF: pages, paragraphs without hyphenation, and headings by font size."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import MAX_HEADING, build_document, first_heading, shorten
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder, collapse_spaces
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

#: PDFium is not thread-safe.
_PDFIUM = threading.Lock()

#: Least font size of a heading, relative to that of the text.
_HEADING_SIZE = 1.15
_MAX_HEADING_LENGTH = 150
#: If a larger share of the text has the size of a heading, size does not indicate headings.
_MAX_HEADING_SHARE = 0.3
#: Largest space between two lines of one paragraph, in line heights.
_MAX_LEADING = 0.55
_INDENT = 0.8
#: A first or last line is a running title if this share of the pages has it, and at least so many.
_RUNNING_SHARE, _RUNNING_PAGES = 0.5, 3

_BULLET = re.compile(r"[•‣▪●○◦\u2013\u2014*-]\s|\(?(?:\d{1,3}|[a-z])[.)]\s")
_SENTENCE_END = re.compile(r"[.!?:;…][\"'\u201d\u2019)\]]*$")
#: A hyphen at a line end; PDFium writes U+0002 or U+FFFE instead of hyphen and line end.
_LINE_HYPHEN = "\x02"
_HYPHENATED_BREAK = re.compile(r"([^\W\d_]*)[\x02\ufffe\xad]\s*([^\W\d_]*)")
_HYPHENATED = re.compile(r"[^\W\d_]+-[^\W\d_]+")
_NOT_A_TITLE = re.compile(
    r"(?i)untitled|microsoft (?:word|powerpoint)|.*\.(?:docx?|pdf|tex|indd|pptx?|dvi)\s*$"
)
_DIGITS = re.compile(r"\d+")


class _Line(NamedTuple):
    """A line of a page; coordinates in points from the lower left corner."""

    text: str
    left: float
    top: float
    bottom: float

    @property
    def height(self) -> float:
        """Font height, rounded to a quarter of a point."""
        return round(4 * (self.top - self.bottom)) / 4


_Page = list[_Line]


def load_pdf(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file; its title is that of its properties, else its first heading.

    Cost: about a hundred pages a second.
    """
    with _PDFIUM:
        title, pages = _read_pages(data)
    if not any(pages):
        raise BadInput(f"has {len(pages):,} pages and no text: run OCR on it first")
    pages = _remove_running_titles(pages)
    text = TextBuilder()
    levels = _heading_levels(pages)
    every = (line for page in pages for line in page)
    compounds = {word.casefold() for line in every for word in _HYPHENATED.findall(line.text)}
    for page in pages:
        text.page += 1
        for lines in _paragraphs(page, levels):
            level = levels.get(lines[0].height)
            words = _join_lines([line.text for line in lines], compounds)
            if level is None:
                text.add_paragraph(words)
            else:
                text.add_heading(level, words)
    title = title or first_heading(text.blocks)
    return build_document(file, text.text, text.blocks, title=title, places=text.places)


def _read_pages(data: bytes) -> tuple[str, list[_Page]]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        with closing(PdfDocument(data)) as document:
            return _title(document), [_lines(document[number]) for number in range(len(document))]
    except PdfiumError as error:
        if "password" in str(error).lower():
            raise BadInput("is protected by a password") from error
        raise BadInput(f"is not a readable PDF: {collapse_spaces(str(error))}") from error


def _title(document: PdfDocument) -> str:
    words = collapse_spaces(document.get_metadata_dict().get("Title", ""))
    return "" if _NOT_A_TITLE.match(words) else shorten(words, MAX_HEADING)


def _lines(page: PdfPage) -> _Page:
    from pypdfium2 import raw

    found: _Page = []
    with closing(page), closing(page.get_textpage()) as text:
        letters = [chr(raw.FPDFText_GetUnicode(text, at)) for at in range(text.count_chars())]
        start = 0
        for end in [*(at for at, letter in enumerate(letters) if letter in "\r\n"), len(letters)]:
            # PDFium returns surrogate pairs as two characters.
            pairs = "".join(letters[start:end]).encode("utf-16", "surrogatepass")
            words = pairs.decode("utf-16", "replace").strip()
            first = next((at for at in range(start, end) if not letters[at].isspace()), None)
            if first is not None:
                left, bottom, _, top = text.get_charbox(first, loose=True)
                found.append(_Line(words, left, top, bottom))
            start = end + 1
    return found


def _remove_running_titles(pages: Sequence[_Page]) -> list[_Page]:
    """Remove first and last lines that many pages share, ignoring digits."""
    for edge in (0, -1):
        counts = Counter(_DIGITS.sub("#", page[edge].text) for page in pages if page)
        least = max(_RUNNING_PAGES, _RUNNING_SHARE * len(pages))
        running = {words for words, count in counts.items() if count >= least}
        pages = [
            [
                line
                for line in page
                if line is not page[edge] or _DIGITS.sub("#", line.text) not in running
            ]
            for page in pages
        ]
    return list(pages)


def _heading_levels(pages: Sequence[_Page]) -> dict[float, int]:
    """Return the heading level of each font height of headings, 1 for the largest."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page:
            sizes[line.height] += len(line.text)
    if not sizes:
        return {}
    body = max(sizes, key=lambda height: (sizes[height], -height))
    tall = sorted((height for height in sizes if height >= _HEADING_SIZE * body), reverse=True)
    if sum(sizes[height] for height in tall) > _MAX_HEADING_SHARE * sizes.total():
        return {}
    return {height: min(level, 6) for level, height in enumerate(tall, 1)}


def _paragraphs(page: _Page, levels: dict[float, int]) -> Iterator[list[_Line]]:
    paragraph: list[_Line] = []
    for line in page:
        if paragraph and not _continues(paragraph, line, levels):
            yield paragraph
            paragraph = []
        paragraph.append(line)
    if paragraph:
        yield paragraph


def _continues(paragraph: Sequence[_Line], line: _Line, levels: dict[float, int]) -> bool:
    last = paragraph[-1]
    if levels.get(last.height) != levels.get(line.height) or _BULLET.match(line.text):
        return False
    if line.height in levels and sum(len(each.text) for each in paragraph) > _MAX_HEADING_LENGTH:
        return False
    is_end = bool(_SENTENCE_END.search(last.text))
    if line.top > last.top:
        # The next column, where a sentence may continue.
        return not is_end and line.text[:1].islower()
    if last.bottom - line.top > _MAX_LEADING * max(last.height, line.height):
        return False
    return not (is_end and line.left > last.left + _INDENT * line.height)


def _join_lines(lines: Sequence[str], compounds: set[str]) -> str:
    """Join lines and hyphenated words.

    A hyphen is kept if the word has it elsewhere, or if no lower-case letter follows.
    """
    joined = ""
    for line in lines:
        if joined.endswith("-") and joined[-2:-1].isalpha():
            joined = joined[:-1] + _LINE_HYPHEN + line
        else:
            joined = f"{joined} {line}" if joined else line
    return _HYPHENATED_BREAK.sub(lambda found: _join_word(found, compounds), joined).replace(
        "\xad", ""
    )


def _join_word(found: re.Match[str], compounds: set[str]) -> str:
    first, second = found[1], found[2]
    has_hyphen = not second[:1].islower() or f"{first}-{second}".casefold() in compounds
    return f"{first}-{second}" if has_hyphen and second else first + second


LOADERS = (Loader(name="PDF", suffixes=(".pdf",), parse_file=load_pdf, is_binary=True),)
