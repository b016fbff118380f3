"""PDF to text and blocks: pages kept, hyphens at line ends undone, headings by the size of their letters."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import MAX_HEADING, file_document, shortened
from whence.ingest.loaders.front_matter import FrontMatter
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import ExtractedText, one_line
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

__all__ = ("load_pdf",)

#: PDFium may be called by one thread at a time only.
_PDFIUM = threading.Lock()

#: Letters of a heading stand at least so much taller than those of the text.
_TALLER = 1.15
_LONGEST_HEADING = 150
#: With more of the text in tall letters than this, size tells nothing.
_MOST_HEADINGS = 0.3
#: Space between two lines of one paragraph, in heights of a line.
_WIDEST_LEADING = 0.55
_INDENT = 0.8
#: A line at the top or bottom is a running title when this share of the pages has it, and so many.
_RUNNING_SHARE, _RUNNING_PAGES = 0.5, 3

_BULLET = re.compile(r"[•‣▪●○◦\u2013\u2014*-]\s|\(?(?:\d{1,3}|[a-z])[.)]\s")
_ENDED = re.compile(r"[.!?:;…][\"'\u201d\u2019)\]]*$")
#: A hyphen at a line end; PDFium writes it as U+0002 or U+FFFE and leaves the line end out.
_LINE_END = "\x02"
_DIVIDED = re.compile(r"([^\W\d_]*)[\x02\ufffe\xad]\s*([^\W\d_]*)")
_HYPHENATED = re.compile(r"[^\W\d_]+-[^\W\d_]+")
_NO_TITLE = re.compile(
    r"(?i)untitled|microsoft (?:word|powerpoint)|.*\.(?:docx?|pdf|tex|indd|pptx?|dvi)\s*$"
)
_DIGITS = re.compile(r"\d+")


class _Line(NamedTuple):
    """A line of a page, in points from the lower left corner."""

    words: str
    left: float
    top: float
    bottom: float

    @property
    def height(self) -> float:
        """Height of its letters, to a quarter of a point."""
        return round(4 * (self.top - self.bottom)) / 4


_Page = list[_Line]


def load_pdf(file: SourceFile, data: bytes) -> ParsedDocument:
    """Read one file. The title is that of its properties, else its first heading.

    Cost: linear in the letters, about a hundred pages a second.

    Raises:
        BadInput: It is damaged or protected by a password, or its pages hold no text.
    """
    with _PDFIUM:
        title, pages = _read(data)
    if not any(pages):
        raise BadInput(f"has {len(pages):,} pages and no text: make its pictures text (OCR) first")
    pages = _without_running_titles(pages)
    text = ExtractedText()
    levels = _heading_levels(pages)
    compounds = {
        word.casefold()
        for page in pages
        for line in page
        for word in _HYPHENATED.findall(line.words)
    }
    for page in pages:
        text.page()
        for lines in _paragraphs(page, levels):
            level = levels.get(lines[0].height)
            words = _joined([line.words for line in lines], compounds)
            if level is None:
                text.prose(words)
            else:
                text.heading(level, words)
    title = title or next((block.path[0] for block in text.blocks if block.kind == "heading"), "")
    return file_document(file, text.text, FrontMatter(), text.blocks, title=title, pages=text.pages)


def _read(data: bytes) -> tuple[str, list[_Page]]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        with closing(PdfDocument(data)) as document:
            return _title(document), [_lines(document[number]) for number in range(len(document))]
    except PdfiumError as error:
        if "password" in str(error).lower():
            raise BadInput("is protected by a password") from error
        raise BadInput(f"is no PDF that can be read: {one_line(str(error))}") from error


def _title(document: PdfDocument) -> str:
    words = one_line(document.get_metadata_dict().get("Title", ""))
    return "" if _NO_TITLE.match(words) else shortened(words, MAX_HEADING)


def _lines(page: PdfPage) -> _Page:
    """Return the lines of a page in the order they are written in."""
    from pypdfium2 import raw

    found: _Page = []
    with closing(page), closing(page.get_textpage()) as text:
        letters = [chr(raw.FPDFText_GetUnicode(text, at)) for at in range(text.count_chars())]
        start = 0
        for end in [*(at for at, letter in enumerate(letters) if letter in "\r\n"), len(letters)]:
            words = "".join(letters[start:end])
            inked = next((at for at in range(start, end) if not letters[at].isspace()), None)
            if inked is not None:
                left, bottom, _, top = text.get_charbox(inked, loose=True)
                found.append(_Line(_whole_characters(words).strip(), left, top, bottom))
            start = end + 1
    return found


def _whole_characters(words: str) -> str:
    """Join the halves in which PDFium gives characters beyond U+FFFF."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _without_running_titles(pages: Sequence[_Page]) -> list[_Page]:
    """Leave out first and last lines that many pages share, whatever numbers are in them."""
    for edge in (0, -1):
        counts = Counter(_DIGITS.sub("#", page[edge].words) for page in pages if page)
        least = max(_RUNNING_PAGES, _RUNNING_SHARE * len(pages))
        running = {words for words, count in counts.items() if count >= least}
        pages = [
            [
                line
                for line in page
                if line is not page[edge] or _DIGITS.sub("#", line.words) not in running
            ]
            for page in pages
        ]
    return list(pages)


def _heading_levels(pages: Sequence[_Page]) -> dict[float, int]:
    """Return the level for each height of letters that is a heading's, 1 for the tallest."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page:
            sizes[line.height] += len(line.words)
    if not sizes:
        return {}
    body = max(sizes, key=lambda height: (sizes[height], -height))
    tall = sorted((height for height in sizes if height >= _TALLER * body), reverse=True)
    if sum(sizes[height] for height in tall) > _MOST_HEADINGS * sizes.total():
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
    """Return whether a line goes on with a paragraph, or begins the next."""
    last = paragraph[-1]
    if levels.get(last.height) != levels.get(line.height) or _BULLET.match(line.words):
        return False
    if line.height in levels and sum(len(each.words) for each in paragraph) > _LONGEST_HEADING:
        return False
    ended = bool(_ENDED.search(last.words))
    if line.top > last.top:
        # Up again: the next column, where a sentence may go on.
        return not ended and line.words[:1].islower()
    if last.bottom - line.top > _WIDEST_LEADING * max(last.height, line.height):
        return False
    return not (ended and line.left > last.left + _INDENT * line.height)


def _joined(lines: Sequence[str], compounds: set[str]) -> str:
    """Join lines, and words that were divided between two of them.

    A hyphen stays when the word is written with it elsewhere, or when no small letter follows.
    """
    whole = ""
    for line in lines:
        if whole.endswith("-") and whole[-2:-1].isalpha():
            whole = whole[:-1] + _LINE_END + line
        else:
            whole = f"{whole} {line}" if whole else line
    return _DIVIDED.sub(lambda found: _rejoined(found, compounds), whole).replace("\xad", "")


def _rejoined(found: re.Match[str], compounds: set[str]) -> str:
    first, second = found[1], found[2]
    kept = not second[:1].islower() or f"{first}-{second}".casefold() in compounds
    return f"{first}-{second}" if kept and second else first + second
