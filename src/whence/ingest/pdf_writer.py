"""Write the lines and tables of a PDF: headings, paragraphs without hyphenation, lists, code and tables."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from whence.ingest.pdf_layout import BULLET_SIGN, is_number
from whence.ingest.pdf_lines import Item, Line
from whence.ingest.pdf_pieces import EAST_ASIAN
from whence.ingest.pdf_tables import LINE_HYPHEN, Table
from whence.ingest.text_builder import LINE_END, TextBuilder, code_span
from whence.text.values import find_values

#: Least font size of a heading, relative to that of the text.
HEADING_SIZE = 1.15
_MAX_HEADING_LENGTH = 150
#: If a larger share of the text has the size of a heading, size does not indicate headings; nor does bold.
MAX_HEADING_SHARE = 0.3
#: A text of fewer characters may have more headings than text.
_SHORT = 600
#: A line of bold letters is a heading up to this share of the width of the text, and so many words.
_MAX_BOLD_WIDTH, _MAX_BOLD_WORDS = 0.8, 14
#: Largest space between two lines of one paragraph, in line heights: at least, and beyond the usual one.
_MAX_LEADING, _MORE_LEADING = 0.72, 0.3
#: Least space above a heading of bold letters.
_HEADING_SPACE = 0.6
_INDENT = 0.8

_BULLET = re.compile(
    rf"(?P<sign>{BULLET_SIGN.pattern})\s+|\(?(?P<number>\d{{1,3}}|[a-z]|[ivx]{{1,5}})[.)]\s"
)
_SENTENCE_END = re.compile(r"[.!?:;\u2026][\"'\u201d\u2019)\]]*$")
_NUMBERING = re.compile(
    r"(?P<depth>\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+(?=[^\W\d_])|(?:[A-Z]|[IVX]{1,5})\.\s+(?=[^\W\d_])|\u00a7\s*\d+"
)
_HYPHENATED_BREAK = re.compile(r"((?:(?<![^\W\d_])[^\W\d_]++)?)[\x02\ufffe\xad](\s*+)([^\W\d_]*+)")
_HYPHENATED = re.compile(r"(?<![^\W\d_])[^\W\d_]++-[^\W\d_]++")
_LETTERS = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]{2}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MONTH_LANGUAGES = ("english", "german", "french", "spanish", "italian", "portuguese", "dutch")


class PdfWriter:
    """Writes the items of a document in their order.

    Args:
        text: Where to write.
        items: All lines and tables of the document.
        sizes: How many characters of the document have each height.
    """

    def __init__(self, text: TextBuilder, items: Sequence[Item], sizes: Counter[float]) -> None:
        self._text, self._items = text, items
        lines = [item for item in items if isinstance(item, Line)]
        self._lines = lines
        self._levels = heading_levels(sizes, lines)
        self._has_bold = share(lines, lambda line: line.is_bold) <= MAX_HEADING_SHARE
        self._has_code = share(lines, lambda line: line.is_fixed) <= 1 - MAX_HEADING_SHARE
        widths = sorted(line.right - line.left for line in lines)
        self._width = widths[len(widths) * 9 // 10] if widths else 0.0
        self._leading = _usual_leading(lines)
        self._words = Counter(
            word.casefold() for line in lines for word in _LETTERS.findall(line.text)
        )
        self._compounds = {
            word.casefold() for line in lines for word in _HYPHENATED.findall(line.text)
        }
        self._bold = self._bold_headings()

    def write(self) -> None:
        """Write headings, lists, definitions, code, paragraphs and tables."""
        lines: list[Line] = []
        for item in (*self._items, None):
            if isinstance(item, Line):
                lines.append(item)
                continue
            self._write_lines(lines)
            lines = []
            if item is not None:
                self._table(item)

    def _table(self, table: Table) -> None:
        self._text.page = table.pages[0]
        self._text.add_table(
            [[self._unhyphenated(cell) for cell in row] for row in table.rows],
            header_rows=table.header_rows,
            caption=" ".join(table.caption),
            pages=table.pages,
        )

    def _write_lines(self, lines: Sequence[Line]) -> None:
        paragraphs = list(self._paragraphs(lines))
        at = 0
        while at < len(paragraphs):
            end = at
            while end < len(paragraphs) and self._is_item(paragraphs[end]):
                end += 1
            if end == at + 1 and paragraphs[at][0].text.startswith("*"):
                # A note, not an item.
                self._paragraph(paragraphs[at])
            elif end > at:
                self._list(paragraphs[at:end])
            elif (end := self._definition_end(paragraphs, at)) > at:
                term, *bodies = paragraphs[at:end]
                self._text.page = term[0].page
                with self._text.block(), self._text.definition([code_span(term[0].text)]):
                    for own in bodies:
                        self._paragraph(own)
            else:
                self._paragraph(paragraphs[at])
                end = at + 1
            at = end

    def _paragraph(self, lines: Sequence[Line]) -> None:
        self._text.page = lines[0].page
        level = self._level(lines[0])
        words = self._join(lines)
        if level is not None and len(words) <= _MAX_HEADING_LENGTH:
            self._text.add_heading(level, words)
        elif self._is_code(lines[0]):
            self._code(lines)
        else:
            self._text.add_paragraph(words, pages=[line.page for line in lines])

    def _is_item(self, lines: Sequence[Line]) -> bool:
        first = lines[0]
        is_text = self._level(first) is None and not self._is_code(first)
        return is_text and bool(_BULLET.match(first.text))

    def _definition_end(self, paragraphs: Sequence[Sequence[Line]], at: int) -> int:
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

    def _list(self, items: Sequence[Sequence[Line]]) -> None:
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

    def _code(self, lines: Sequence[Line]) -> None:
        margin = min(line.left for line in lines)
        widths = ((line.right - line.left) / max(1, len(line.text)) for line in lines)
        letter = max(1.0, *widths)
        self._text.add_code(
            [" " * min(80, round((line.left - margin) / letter)) + line.text for line in lines]
        )

    def _level(self, line: Line) -> int | None:
        """Return the level of a heading; None for other lines."""
        level = self._levels.get(line.height)
        if level is not None and not _is_title(line.text):
            level = None
        if level is None and id(line) in self._bold:
            found = _NUMBERING.match(line.text)
            depth = found["depth"].count(".") if found and found["depth"] else 0
            level = min(6, max(self._levels.values(), default=0) + 1 + depth)
        return level

    def _bold_headings(self) -> set[int]:
        """Return the lines of bold letters that are headings.

        They are short and stand by themselves, and either have a number or stand above plain text with a space
        above them, as another line of the document does.
        """
        if not self._has_bold:
            return set()
        numbered, spaced = [], []
        for at, line in enumerate(self._lines):
            if not self._may_head(line):
                continue
            above = self._lines[at - 1] if at else None
            below = self._lines[at + 1] if at + 1 < len(self._lines) else None
            is_last = below is not None and not below.is_bold and below.page == line.page
            if not is_last or below is None or below.top > line.top:
                continue
            is_first = above is None or above.page != line.page or above.top < line.top
            gap = 9.0 if is_first or above is None else (above.bottom - line.top) / line.height
            if above is not None and above.is_bold and gap <= self._leading:
                continue
            if _NUMBERING.match(line.text) and not (_BULLET.match(line.text) and gap <= self._leading):  # fmt: skip
                numbered.append(line)
            elif gap >= max(_HEADING_SPACE, self._leading) and len(below.text) > 25:
                spaced.append(line)
        if len({line.text for line in spaced}) < 2:
            spaced = []
        return {id(line) for line in (*numbered, *spaced) if not _ends_row(line)}

    def _may_head(self, line: Line) -> bool:
        return (
            line.is_bold
            and not line.is_fixed
            and line.height not in self._levels
            and line.right - line.left <= _MAX_BOLD_WIDTH * self._width
            and not _SENTENCE_END.search(line.text)
            and not re.match(rf"{BULLET_SIGN.pattern}|[\u2020\u2021(\[]", line.text)
            and len(line.text.split()) <= _MAX_BOLD_WORDS
            and _is_title(line.text)
        )

    def _is_code(self, line: Line) -> bool:
        return line.is_fixed and self._has_code and self._level(line) is None

    def _paragraphs(self, lines: Sequence[Line]) -> Iterator[list[Line]]:
        paragraph: list[Line] = []
        for line in lines:
            if paragraph and not self._continues(paragraph, line):
                yield paragraph
                paragraph = []
            paragraph.append(line)
        if paragraph:
            yield paragraph

    def _continues(self, paragraph: Sequence[Line], line: Line) -> bool:
        last = paragraph[-1]
        if self._level(last) != self._level(line) or self._is_code(last) != self._is_code(line):
            return False
        if self._is_code(line):
            return line.page == last.page and last.bottom - line.top < 2.5 * last.height
        if _BULLET.match(line.text):
            return False
        is_heading = self._level(line) is not None
        if is_heading and id(line) in self._bold:
            return False
        is_end = bool(_SENTENCE_END.search(last.text))
        if line.page != last.page or line.top > last.top:
            # The next column or page, where a sentence may continue.
            return not is_end and not is_heading and line.text[:1].islower()
        if abs(last.height - line.height) > 0.3 * max(last.height, line.height):
            return False
        if last.bottom - line.top > self._leading * max(last.height, line.height):
            return False
        first = paragraph[0]
        hangs = len(paragraph) > 1 and paragraph[1].left > first.left + 0.3 * first.height
        if hangs and _BULLET.match(first.text) and line.left < first.left + 0.3 * first.height:
            # What stands to the left of the lines of an item does not belong to it.
            return False
        return not (is_end and line.left > last.left + _INDENT * line.height)

    def _join(self, lines: Sequence[Line]) -> str:
        """Join lines and hyphenated words; line ends stay, so that pages can be told."""
        joined = ""
        for line in lines:
            if joined.endswith("-") and joined[-2:-1].isalpha():
                joined = f"{joined[:-1]}{LINE_HYPHEN}{LINE_END}{line.text}"
            elif joined.endswith("/") and line.text[:1].isalnum():
                # A path or an address that is broken after a slash.
                joined += LINE_END + line.text
            elif EAST_ASIAN.match(joined[-1:]) and EAST_ASIAN.match(line.text):
                # These scripts have no space between words.
                joined += LINE_END + line.text
            else:
                joined = f"{joined}\n{line.text}" if joined else line.text
        return self._unhyphenated(joined)

    def _unhyphenated(self, joined: str) -> str:
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


def share(lines: Sequence[Line], holds: Callable[[Line], bool]) -> float:
    """Return the share of the characters that are in lines of a kind."""
    whole = sum(len(line.text) for line in lines)
    return sum(len(line.text) for line in lines if holds(line)) / max(1, whole)


def heading_levels(sizes: Counter[float], lines: Sequence[Line]) -> dict[float, int]:
    """Return the heading level of each font height of headings, 1 for the largest.

    Args:
        sizes: How many characters of the document have each height.
        lines: Its lines outside of tables.
    """
    own = Counter[float]()
    for line in lines:
        own[line.height] += len(line.text)
    if not sizes or not own:
        return {}
    body = body_size(sizes)
    tall = sorted((height for height in own if height >= HEADING_SIZE * body), reverse=True)
    most = MAX_HEADING_SHARE if own.total() > _SHORT else 2 * MAX_HEADING_SHARE
    if sum(own[height] for height in tall) > most * max(own.total(), sizes.total()):
        return {}
    return {height: min(level, 6) for level, height in enumerate(tall, 1)}


def body_size(sizes: Counter[float]) -> float:
    """Return the height of most of the text."""
    return max(sizes, key=lambda height: (sizes[height], -height), default=10.0)


def _usual_leading(lines: Sequence[Line]) -> float:
    """Return the largest space between two lines of a paragraph, in line heights."""
    gaps = Counter(
        round((above.bottom - below.top) / max(1.0, below.height), 1)
        for above, below in itertools.pairwise(lines)
        if above.page == below.page
        and above.top > below.top
        and above.height == below.height
        and len(above.text) > 40
    )
    usual = max(gaps, key=lambda gap: (gaps[gap], -gap), default=0.2)
    return max(_MAX_LEADING, usual + _MORE_LEADING) if usual <= 1.6 else _MAX_LEADING


def _is_title(words: str) -> bool:
    """Whether words may head a text: they are not a number, a date or a sign for nothing.

    >>> _is_title("Scope of work"), _is_title("31 May 2024"), _is_title("N/A"), _is_title("12.4 %")
    (True, False, False, False)
    """
    rest = words
    for value in reversed(find_values(words, _MONTH_LANGUAGES)):
        rest = rest[: value.start] + rest[value.end :]
    return bool(_WORD.search(rest)) and not is_number(words)


def _ends_row(line: Line) -> bool:
    """Whether a line ends with a number after its words, as a row of totals."""
    words = line.text.split()
    return len(words) > 1 and is_number(words[-1]) and any(map(str.isdigit, words[-1])) and not _NUMBERING.match(line.text)  # fmt: skip
