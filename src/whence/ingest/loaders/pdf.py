"""Load PDF: pages, paragraphs without hyphenation, and headings by font size."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import (
    MAX_HEADING,
    MAX_TEXT,
    build_document,
    first_heading,
    shorten,
)
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import LINE_END, TextBuilder, code_span, collapse_spaces
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

#: PDFium is not thread-safe.
_PDFIUM = threading.Lock()

#: Least font size of a heading, relative to that of the text.
_HEADING_SIZE = 1.15
_MAX_HEADING_LENGTH = 150
#: If a larger share of the text has the size of a heading, size does not indicate headings; nor does bold.
_MAX_HEADING_SHARE = 0.3
#: A line of bold letters is a heading up to this share of the width of the text.
_MAX_BOLD_WIDTH = 0.8
#: Largest space between two lines of one paragraph, in line heights.
_MAX_LEADING = 0.55
_INDENT = 0.8
#: A line at the edge of a page is a running title if as many pages have it at the same height.
_RUNNING_PAGES = 3
#: Lines at each edge that may be running titles or numbers of pages.
_EDGE_LINES = 2
#: Share of the height of all pages in which they stand, at the top and at the bottom.
_MARGIN = 0.08

_BULLET = re.compile(
    r"(?P<sign>[\u2022\u2023\u25aa\u25cf\u25cb\u25e6\u2013\u2014*-])\s+|\(?(?P<number>\d{1,3}|[a-z])[.)]\s"
)
_SENTENCE_END = re.compile(r"[.!?:;\u2026][\"'\u201d\u2019)\]]*$")
#: An entry of a table of contents: dots that lead to the number of a page.
_CONTENTS = re.compile(r"(?<!\.)(?<!\.\s)(?:\.\s?+){4,}+\s*+[\divxlc]{0,6}$")
_PAGE_NUMBER = re.compile(r"[-\u2013\s]*(?:\d{1,4}|[ivxlc]{1,6})[-\u2013\s]*$")
_FIXED_FONT = re.compile(
    r"mono|courier|consol|typewriter|cmtt|sftt|inconsolata|menlo|code", re.IGNORECASE
)
_BOLD_FONT = re.compile(r"bold|black|heavy|-bd|cmbx|sfbx|demi", re.IGNORECASE)
#: A hyphen at a line end; PDFium writes U+0002 or U+FFFE instead of hyphen and line end.
_LINE_HYPHEN = "\x02"
_HYPHENATED_BREAK = re.compile(r"((?:(?<![^\W\d_])[^\W\d_]++)?)[\x02\ufffe\xad](\s*+)([^\W\d_]*+)")
_HYPHENATED = re.compile(r"(?<![^\W\d_])[^\W\d_]++-[^\W\d_]++")
_LETTERS = re.compile(r"[^\W\d_]+")
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
    right: float = 0.0
    is_fixed: bool = False
    """Whether its letters have one width, as in code."""
    is_bold: bool = False
    page: int = 0
    """From 1."""

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
    every = [line for page in pages for line in page if not _CONTENTS.search(line.text)]
    text = TextBuilder()
    _Writer(text, every).write()
    title = title or first_heading(text.blocks)
    return build_document(file, text.text, text.blocks, title=title, places=text.places)


def _read_pages(data: bytes) -> tuple[str, list[_Page]]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        with closing(PdfDocument(data)) as document:
            pages: list[_Page] = []
            length = 0
            for number in range(len(document)):
                pages.append(_lines(document[number], number + 1))
                length += sum(len(line.text) for line in pages[-1])
                # The tree of pages may name one page thousands of times.
                if length > MAX_TEXT:
                    raise BadInput(f"has more than {MAX_TEXT:,} characters of text; split it")
            return _title(document), pages
    except PdfiumError as error:
        if "password" in str(error).lower():
            raise BadInput("is protected by a password") from error
        raise BadInput(f"is not a readable PDF: {collapse_spaces(str(error))}") from error


def _title(document: PdfDocument) -> str:
    words = collapse_spaces(document.get_metadata_dict().get("Title", ""))
    return "" if _NOT_A_TITLE.match(words) else shorten(words, MAX_HEADING)


def _lines(page: PdfPage, number: int) -> _Page:
    from pypdfium2 import raw

    found: _Page = []
    with closing(page), closing(page.get_textpage()) as text:
        letters = [chr(raw.FPDFText_GetUnicode(text, at)) for at in range(text.count_chars())]
        start = 0
        for end in [*(at for at, letter in enumerate(letters) if letter in "\r\n"), len(letters)]:
            # PDFium returns surrogate pairs as two characters.
            pairs = "".join(letters[start:end]).encode("utf-16", "surrogatepass")
            words = pairs.decode("utf-16", "replace").strip()
            shown = [at for at in range(start, end) if not letters[at].isspace()]
            if shown:
                left, bottom, _, top = text.get_charbox(shown[0], loose=True)
                right = text.get_charbox(shown[-1], loose=True)[2]
                fonts = [_font(text, at) for at in (shown[0], shown[len(shown) // 2], shown[-1])]
                is_fixed = all(_FIXED_FONT.search(font) for font in fonts)
                is_bold = all(_BOLD_FONT.search(font) for font in fonts)
                found.append(_Line(words, left, top, bottom, right, is_fixed, is_bold, number))
            start = end + 1
    return found


def _font(text: Any, at: int) -> str:
    """Return the name of the font of a letter; empty if it has none."""
    from ctypes import c_int, create_string_buffer

    from pypdfium2 import raw

    name, flags = create_string_buffer(128), c_int()
    length = raw.FPDFText_GetFontInfo(text, at, name, 128, flags)
    return name.value.decode(errors="replace") if 0 < length <= 128 else ""


def _remove_running_titles(pages: Sequence[_Page]) -> list[_Page]:
    """Remove lines at the edges of pages that other pages have as well, and numbers of pages.

    Lines that differ in their numbers are the same, unless they are as large as headings.
    """
    every = [line for page in pages for line in page]
    levels = _heading_levels(every)
    high, low = max(line.top for line in every), min(line.bottom for line in every)

    def key(line: _Line) -> tuple[str, int]:
        words = line.text if line.height in levels else _DIGITS.sub("#", line.text)
        return words, round(line.top / 3)

    def is_in_margin(line: _Line) -> bool:
        return line.top > high - _MARGIN * (high - low) or line.bottom < low + _MARGIN * (
            high - low
        )

    kept = list(pages)
    for edge in (0, -1) * _EDGE_LINES:
        counts = Counter(key(page[edge]) for page in kept if page)
        numbers = sum(bool(_PAGE_NUMBER.match(page[edge].text)) for page in kept if page)
        for at, page in enumerate(kept):
            if not page or not is_in_margin(page[edge]):
                continue
            is_number = numbers >= _RUNNING_PAGES and _PAGE_NUMBER.match(page[edge].text)
            if is_number or counts[key(page[edge])] >= _RUNNING_PAGES:
                kept[at] = page[1:] if edge == 0 else page[:-1]
    return kept


class _Writer:
    """Writes the lines of all pages in their order."""

    def __init__(self, text: TextBuilder, lines: Sequence[_Line]) -> None:
        self._text, self._lines = text, lines
        self._levels = _heading_levels(lines)
        self._has_bold = _share(lines, lambda line: line.is_bold) <= _MAX_HEADING_SHARE
        self._has_code = _share(lines, lambda line: line.is_fixed) <= 1 - _MAX_HEADING_SHARE
        widths = sorted(line.right - line.left for line in lines)
        self._width = widths[len(widths) * 9 // 10] if widths else 0.0
        self._words = Counter(
            word.casefold() for line in lines for word in _LETTERS.findall(line.text)
        )
        self._compounds = {
            word.casefold() for line in lines for word in _HYPHENATED.findall(line.text)
        }

    def write(self) -> None:
        """Write headings, lists, definitions, code and paragraphs."""
        paragraphs = list(self._paragraphs())
        at = 0
        while at < len(paragraphs):
            end = at
            while end < len(paragraphs) and self._is_item(paragraphs[end]):
                end += 1
            if end > at:
                self._list(paragraphs[at:end])
            elif (end := self._definition_end(paragraphs, at)) > at:
                term, *bodies = paragraphs[at:end]
                self._text.page = term[0].page
                with self._text.block(), self._text.definition([code_span(term[0].text)]):
                    for lines in bodies:
                        self._paragraph(lines)
            else:
                self._paragraph(paragraphs[at])
                end = at + 1
            at = end

    def _paragraph(self, lines: Sequence[_Line]) -> None:
        self._text.page = lines[0].page
        level = self._level(lines[0])
        if level is not None:
            self._text.add_heading(level, self._join(lines))
        elif self._is_code(lines[0]):
            self._code(lines)
        else:
            self._text.add_paragraph(self._join(lines), pages=[line.page for line in lines])

    def _is_item(self, lines: Sequence[_Line]) -> bool:
        first = lines[0]
        is_text = self._level(first) is None and not self._is_code(first)
        return is_text and bool(_BULLET.match(first.text))

    def _definition_end(self, paragraphs: Sequence[Sequence[_Line]], at: int) -> int:
        """Return the end of a line of code and the deeper paragraphs below it; `at` if it is no such line."""
        term = paragraphs[at][0]
        if len(paragraphs[at]) > 1 or not self._is_code(term):
            return at
        end = at + 1
        while end < len(paragraphs):
            first = paragraphs[end][0]
            is_body = self._level(first) is None and first.left > term.left + term.height
            if not is_body or (end == at + 1 and (self._is_code(first) or first.page != term.page)):
                break
            end += 1
        return end if end > at + 1 else at

    def _list(self, items: Sequence[Sequence[_Line]]) -> None:
        with self._text.block():
            for lines in items:
                words = self._join(lines)
                found = _BULLET.match(words)
                number = found["number"] if found else ""
                mark = f"{number}. " if number and number.isdecimal() else "- "
                keeps = bool(number) and not number.isdecimal()
                self._text.page = lines[0].page
                with self._text.item(mark):
                    bare = words[found.end() :] if found and not keeps else words
                    self._text.add_paragraph(bare, pages=[line.page for line in lines])

    def _code(self, lines: Sequence[_Line]) -> None:
        margin = min(line.left for line in lines)
        widths = ((line.right - line.left) / max(1, len(line.text)) for line in lines)
        letter = max(1.0, *widths)
        self._text.add_code(
            [" " * min(80, round((line.left - margin) / letter)) + line.text for line in lines]
        )

    def _level(self, line: _Line) -> int | None:
        """Return the level of a heading; None for other lines."""
        level = self._levels.get(line.height)
        is_bold = line.is_bold and self._has_bold and not line.is_fixed
        short = line.right - line.left <= _MAX_BOLD_WIDTH * self._width
        if level is None and is_bold and short and not _SENTENCE_END.search(line.text):
            words = len(_LETTERS.findall(line.text))
            level = min(6, max(self._levels.values(), default=0) + 1) if words else None
        return level

    def _is_code(self, line: _Line) -> bool:
        return line.is_fixed and self._has_code and self._level(line) is None

    def _paragraphs(self) -> Iterator[list[_Line]]:
        paragraph: list[_Line] = []
        for line in self._lines:
            if paragraph and not self._continues(paragraph, line):
                yield paragraph
                paragraph = []
            paragraph.append(line)
        if paragraph:
            yield paragraph

    def _continues(self, paragraph: Sequence[_Line], line: _Line) -> bool:
        last = paragraph[-1]
        if self._level(last) != self._level(line) or self._is_code(last) != self._is_code(line):
            return False
        if self._is_code(line):
            return line.page == last.page and last.bottom - line.top < 2.5 * last.height
        if _BULLET.match(line.text):
            return False
        is_heading = self._level(line) is not None
        if is_heading and sum(len(each.text) for each in paragraph) > _MAX_HEADING_LENGTH:
            return False
        is_end = bool(_SENTENCE_END.search(last.text))
        if line.page != last.page or line.top > last.top:
            # The next column or page, where a sentence may continue.
            return not is_end and not is_heading and line.text[:1].islower()
        if last.bottom - line.top > _MAX_LEADING * max(last.height, line.height):
            return False
        return not (is_end and line.left > last.left + _INDENT * line.height)

    def _join(self, lines: Sequence[_Line]) -> str:
        """Join lines and hyphenated words; line ends stay, so that pages can be told."""
        joined = ""
        for line in lines:
            if joined.endswith("-") and joined[-2:-1].isalpha():
                joined = f"{joined[:-1]}{_LINE_HYPHEN}{LINE_END}{line.text}"
            elif joined.endswith("/") and line.text[:1].isalnum():
                # A path or an address that is broken after a slash.
                joined += LINE_END + line.text
            else:
                joined = f"{joined}\n{line.text}" if joined else line.text
        return _HYPHENATED_BREAK.sub(self._join_word, joined).replace("\xad", "")

    def _join_word(self, found: re.Match[str]) -> str:
        """Return a word whose parts stand on two lines.

        It keeps its hyphen if the document has it so elsewhere, or if it does not have the whole word but both
        of its parts, or if no lower-case letter follows.
        """
        first, space, second = found.groups()
        whole, parts = f"{first}{second}".casefold(), (first.casefold(), second.casefold())
        is_compound = f"{first}-{second}".casefold() in self._compounds
        are_words = whole not in self._words and all(
            self._words[part] > 1 and len(part) > 2 for part in parts
        )
        keeps = second and (is_compound or are_words or not second[:1].islower())
        lines = LINE_END * space.count(LINE_END)
        return f"{first}{'-' if keeps else ''}{second}{lines}"


def _share(lines: Sequence[_Line], holds: Callable[[_Line], bool]) -> float:
    whole = sum(len(line.text) for line in lines)
    return sum(len(line.text) for line in lines if holds(line)) / max(1, whole)


def _heading_levels(lines: Sequence[_Line]) -> dict[float, int]:
    """Return the heading level of each font height of headings, 1 for the largest."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.height] += len(line.text)
    if not sizes:
        return {}
    body = max(sizes, key=lambda height: (sizes[height], -height))
    tall = sorted((height for height in sizes if height >= _HEADING_SIZE * body), reverse=True)
    if sum(sizes[height] for height in tall) > _MAX_HEADING_SHARE * sizes.total():
        return {}
    return {height: min(level, 6) for level, height in enumerate(tall, 1)}


LOADERS = (Loader(name="PDF", suffixes=(".pdf",), parse_file=load_pdf, is_binary=True),)
