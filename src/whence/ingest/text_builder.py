"""Write the text, the blocks and the places of a document in the form in which all texts are stored.

The form can be read as plain text and as Markdown. It has no markup of its source: roles, directives, targets,
tags, entities, emphasis, underlines and addresses of links are gone, their words stay.

- A blank line stands between blocks; no line ends in white space.
- A *heading* is a line without marks.
- A *paragraph* is one line, with single spaces; lines that were not wrapped, such as an address, stay lines.
  Code inside it stands in single backticks.
- An *item* of a list begins with `- `, or `1. ` and so on; what belongs to it is indented to the width of
  this mark. Items follow line by line; a blank line stands between them if one is inside the item above.
- A *definition* is its terms, a line each, and below them what is said of them, indented by four spaces. A
  blank line stands between definitions. Settings, functions and options that a text documents are definitions.
- A *table* is lines of cells, `| a | b |`; a line `|---|---|` stands below its header, if it has one.
- *Code* of several lines stands between lines of three backticks; the first may name its language.
- Notes, warnings and the like are paragraphs that begin with `Note: ` and so on; quotations are paragraphs.

Lists, tables and definitions contain other blocks with a deeper indent. Source code, SQL and records are not
rewritten: their text is that of the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from whence.ingest.blocks import Block, Outline, heading_path, push_heading
from whence.ingest.document_builder import MAX_HEADING, shorten
from whence.schema.places import Place
from whence.text.sentences import sentence_spans
from whence.text.spans import Span

#: In a text given to a builder: the file has a line end here, the text has not even a space.
LINE_END = "\x0b"
#: In a text given to `line_breaks.add_run`: the reader sees a line end here, whether or not the file has one.
BREAK = "\f"
DEFINITION_INDENT = " " * 4
_BLANK_LINE = "\n\n"
#: Control characters, surrogates and noncharacters, which damaged files contain, and characters that nobody
#: sees and that part words for a search, such as soft hyphens. Joiners stay: scripts need them.
INVALID = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad\u200b\u2060-\u2064\ufeff\ud800-\udfff\ufffe\uffff]"
)
_LINE_ENDS = re.compile("[\n\x0b]")


def collapse_spaces(text: str) -> str:
    """Return a text with single spaces for white space, without invalid characters."""
    return " ".join(INVALID.sub("", text).split())


def code_span(text: str) -> str:
    """Return inline code in backticks; without them if it has some itself, or is empty.

    >>> code_span("x = 1"), code_span("`x`")
    ('`x = 1`', '`x`')
    """
    bare = text.strip()
    return f"`{bare}`" if bare and "`" not in bare else bare


def raised(text: str, before: str) -> str:
    """Return raised text as it stands in a line after `before`: numbers after a sign, `^`, other text as it is.

    A power or the mark of a note is thereby apart from the number or word before it; ordinals stay words.

    >>> raised("6", "10"), raised("st", "1"), raised("n+1", "x"), raised("th", "the 5")
    ('^6', 'st', '^(n+1)', 'th')
    """
    bare = text.strip()
    follows = bool(before) and (before[-1].isalnum() or before[-1] in ")]}")
    # Endings of words and of ordinal numbers; a single letter after a letter is a power.
    is_ending = bare.isalpha() and (len(bare) > 1 or before[-1:].isdigit())
    if not follows or is_ending or not any(map(str.isalnum, bare)):
        return text
    return f"^{bare}" if bare.lstrip("+-\u2212").isalnum() else f"^({bare})"


def lowered(text: str, before: str) -> str:
    """Return lowered text as it stands in a line: a number after a letter as it is, other text after `_`.

    >>> lowered("2", "H"), lowered("2", "101"), lowered("i", "x"), lowered("n+1", "x")
    ('2', '_2', '_i', '_(n+1)')
    """
    bare = text.strip()
    follows = bool(before) and (before[-1].isalnum() or before[-1] in ")]}")
    if not bare or not follows:
        return text
    if bare.isdecimal() and not before[-1].isdecimal():
        return bare
    return f"_{bare}" if bare.isalnum() or bare[0] == "(" else f"_({bare})"


class TextBuilder:
    r"""A text with its blocks and places, written in order.

    A text that is given may contain line ends; each, like `LINE_END`, is one of the file. `line` is the line
    of the file, from 1, on which a text begins; 0 for formats without lines.
    """

    def __init__(self) -> None:
        self.page = 0
        """Page of what is added next; 0 for none."""
        self.anchor = ""
        """Id of the element of what is added next; empty for none."""
        self.slide = 0
        """Slide of what is added next; 0 for none."""
        self.sheet = ""
        """Sheet of what is added next; empty for none."""
        self.rows: Span = (0, 0)
        """First and last row of the sheet of what is added next; `(0, 0)` for none."""
        self.message = ""
        """Date of the message of what is added next, ISO 8601; empty for none."""
        self.lines: Span = (0, 0)
        """First and last line of what is added next without a line of its own."""
        self.left_out: Counter[str] = Counter()
        """What was seen and not taken, by kind in the plural."""
        self.date = ""
        """The date that the text states as its own, ISO 8601; empty for none."""
        self._pieces: list[str] = []
        self._length = 0
        self._outline: Outline = []
        self._blocks: list[Block] = []
        self._places: list[Place] = []
        self._parts: list[Span] = []
        self._items: list[int] = []
        self._leads: list[tuple[Span, ...]] = []
        self._depth = 0
        self._terms: tuple[Span, ...] = ()
        """Terms of the definitions that are open."""
        self._glued: tuple[int, int, int] | None = None
        """Terms that wait for the first part of their definition: offset, first and last line."""
        self._indent = ""
        self._mark = ""
        """Mark of the item that begins with the next line."""
        self._separator = _BLANK_LINE
        self._lead_in = ""
        self._lead_line = 0
        self._begins_item = False
        self._blank_lines = 0

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks so far, in order."""
        return tuple(self._blocks)

    @property
    def places(self) -> tuple[Place, ...]:
        """The places of the parts so far, those that say the same as the one before left out."""
        return tuple(self._places)

    def add_heading(self, level: int, text: str, *, line: int = 0) -> None:
        """Add a heading, 1 is the top level; inside a list or a definition it is a paragraph."""
        words = collapse_spaces(text)
        if not words:
            return
        if self._depth:
            self.add_paragraph(text, line=line)
            return
        start = self._write(words)
        self._outline = push_heading(self._outline, level, shorten(words, MAX_HEADING))
        self._add_part((start, self._length), line, line and line + _count_lines(text))
        self._end_block("heading")

    def lead_in(self, words: str, *, line: int = 0) -> None:
        """Let the next paragraph begin with words such as `Note` and a colon, or be these words."""
        self._lead_in = f"{collapse_spaces(words).rstrip(':.')}: "
        self._lead_line = line

    def add_paragraph(self, text: str, *, line: int = 0, pages: Sequence[int] = ()) -> None:
        """Add a paragraph, with single spaces for white space; `pages` has the page of each of its lines."""
        words, starts = _joined(text)
        if not words:
            return
        lead, self._lead_in = self._lead_in, ""
        if lead:
            words, starts = lead + words, [0, *(len(lead) + at for at in starts[1:])]
        start = self._write(words)
        body = self._length - len(words)
        for begin, end in sentence_spans(words, 0, len(words)):
            first, last = (bisect_right(starts, at) - 1 for at in (begin, end - 1))
            lines = (line + first, line + last) if line else (0, 0)
            self.page = pages[first] if pages else self.page
            if lead and not begin and 0 < self._lead_line < line:
                lines = (self._lead_line, lines[1])
            self._add_part((body + begin if begin else start, body + end), *lines)
        self._end_block("prose")

    def end_lead_in(self) -> None:
        """Write words that no paragraph followed."""
        self._write_lead_in()

    def _write_lead_in(self) -> None:
        """Write the words that wait for a paragraph above a block that is none."""
        if self._lead_in:
            words, self._lead_in = self._lead_in, ""
            self.add_paragraph(words, line=self._lead_line)

    def add_code(self, lines: Sequence[str], *, language: str = "", line: int = 0) -> None:
        """Add code; blank lines at its ends are left out, so is the indent that all lines share."""
        kept = [INVALID.sub("", each).rstrip().expandtabs(4) for each in lines]
        first = next((at for at, each in enumerate(kept) if each), len(kept))
        while kept and not kept[-1]:
            kept.pop()
        kept = kept[first:]
        if not kept:
            return
        margin = min(_indent_of(each) for each in kept if each)
        self._write_lead_in()
        fence = "```" if not any(each.lstrip().startswith("```") for each in kept) else "````"
        start = self._write(fence + language)
        self._separator = "\n"
        last = max(at for at, each in enumerate(kept) if each)
        follows_blank = False
        for at, each in enumerate(kept):
            if not each:
                self._raw("\n")
                follows_blank = True
                continue
            begin = self._write(each[margin:]) + _indent_of(each) - margin
            self._separator = "\n"
            if at == last:
                self._write(fence)
            own = line and line + first + at
            self._begins_item |= follows_blank
            self._add_part((start if at == 0 else begin, self._length), own, own)
            follows_blank = False
        self._end_block("atomic")

    def add_lines(
        self, lines: Sequence[str], *, line: int = 0, places: Sequence[Span] = ()
    ) -> None:
        """Add lines that are not wrapped, such as an address; `places` has the first and last line of each."""
        self._write_lead_in()
        for at, words in enumerate(map(collapse_spaces, lines)):
            if words:
                start = self._write(words)
                self._separator = "\n"
                own = line and line + at
                first, last = places[at] if places else (own, own)
                self._add_part((start, self._length), first, last)
        self._end_block("atomic")

    def add_table(
        self,
        rows: Sequence[Sequence[str]],
        *,
        header_rows: int = 1,
        caption: str = "",
        lines: Sequence[Span] = (),
        sheet_rows: Sequence[Span] = (),
        pages: Sequence[int] = (),
    ) -> None:
        """Add a table.

        Several header rows become one, in which each cell has the texts of its column from top to bottom: give
        the text of a cell that spans columns in each of them.

        Args:
            rows: Texts of the cells of each row; rows may differ in length.
            header_rows: How many of the first rows are the header; 0 for none.
            caption: What stands above or below the table to name it, or its units; a line above it.
            lines: First and last line of each row in the file.
            sheet_rows: First and last row of each row in its sheet, from 1.
            pages: Page of each row, from 1.
        """
        numbered = [
            (
                [_cell(cell) for cell in row],
                lines[at] if lines else (0, 0),
                sheet_rows[at] if sheet_rows else (0, 0),
                pages[at] if pages else self.page,
            )
            for at, row in enumerate(rows)
        ]
        if header_rows > 1:
            numbered[:header_rows] = [_merged_header(numbered[:header_rows])]
        kept = [each for each in numbered if any(each[0])]
        if not kept:
            return
        self._write_lead_in()
        has_header = header_rows > 0 and any(numbered[0][0])
        self.add_paragraph(caption)
        named: tuple[Span, ...] = ()
        if collapse_spaces(caption):
            named = ((self._length - len(collapse_spaces(caption)), self._length),)
        header: tuple[Span, ...] = ()
        begin = begin_line = -1
        for at, (row, (line, last), sheet_row, page) in enumerate(kept):
            self.rows, self.page = sheet_row, page
            start = self._write(f"| {' | '.join(row)} |".replace("|  |", "| |"))
            self._separator = "\n"
            if at == 0 and has_header:
                header = (*named, (start, self._length))
                self._write("|" + "---|" * len(row))
                self._separator = "\n"
                if len(kept) > 1:
                    begin, begin_line = start, line
                    continue
            self._begins_item = True
            leads = self._terms + (header or named if begin < 0 else named)
            own = (begin if begin >= 0 else start, self._length)
            self._add_part(own, begin_line if begin >= 0 else line, last, leads)
            if begin >= 0:
                # The first row is part of what the header begins, and has a place of its own.
                self._add_place(start, line, last)
            begin = -1
        self.rows = (0, 0)
        self._end_block("atomic")

    @contextmanager
    def block(self) -> Iterator[None]:
        """Add a list or definitions: what is added meanwhile is one block, or part of the one that is open."""
        self._write_lead_in()
        self._depth += 1
        if self._depth > 1 and self._separator == _BLANK_LINE and not self._mark:
            self._separator = "\n"
        try:
            yield
        finally:
            self._depth -= 1
            self._end_block("atomic")
            self._separator = _BLANK_LINE

    @contextmanager
    def item(self, mark: str = "- ") -> Iterator[None]:
        """Add an item of a list, within a `block`; what is added meanwhile belongs to it."""
        indent = self._indent
        self._mark, self._indent = indent + mark, indent + " " * len(mark)
        self._begins_item = True
        begin = self._length
        blank_lines = self._blank_lines + (begin > 0 and self._separator == _BLANK_LINE)
        try:
            yield
        finally:
            self._mark, self._indent = "", indent
            self._begins_item = True
            if self._length > begin:
                is_loose = self._blank_lines > blank_lines
                self._separator = _BLANK_LINE if is_loose else "\n"

    @contextmanager
    def definition(self, terms: Sequence[str], *, line: int = 0) -> Iterator[None]:
        """Add terms of a definition, within a `block`; what is added inside the `with` block defines them."""
        indent, outer = self._indent, self._terms
        self._separator = _BLANK_LINE if self._length else ""
        self._begins_item = True
        for at, term in enumerate(filter(None, map(collapse_spaces, terms))):
            start = self._write(term)
            self._separator = "\n"
            # The terms of an outer definition that begins with this one wait, too.
            begin, first = self._glued[:2] if self._glued else (start, line)
            self._glued = (begin, first, line + at if line else 0)
            self._terms = (*self._terms, (start, self._length))
        self._indent = indent + DEFINITION_INDENT
        try:
            yield
        finally:
            self._flush_glued()
            self._indent, self._terms = indent, outer
            self._separator = _BLANK_LINE

    def _flush_glued(self) -> None:
        """Make a part of terms without a definition."""
        if self._glued is not None:
            start, first, last = self._glued
            self._glued = None
            self._add_part((start, self._length), first, last)

    def _add_part(
        self, span: Span, first: int, last: int, leads: tuple[Span, ...] | None = None
    ) -> None:
        if self._glued is not None:
            begin, term_first, _ = self._glued
            span, first = (begin, span[1]), term_first or first
            self._glued = None
        if self._begins_item:
            self._items.append(len(self._parts))
            self._begins_item = False
        self._parts.append(span)
        above = self._terms if leads is None else leads
        self._leads.append(tuple(lead for lead in above if lead[0] < span[0]))
        self._add_place(span[0], first, last)

    def _add_place(self, start: int, first: int, last: int) -> None:
        if not first:
            first, last = self.lines
        place = Place(
            char_start=start,
            line_start=first,
            line_end=max(first, last),
            page=self.page,
            anchor=self.anchor,
            slide=self.slide,
            sheet=self.sheet,
            row_start=self.rows[0],
            row_end=self.rows[1],
            message=self.message,
        )
        if not self._places or _differ(self._places[-1], place):
            self._places.append(place)

    def _end_block(self, kind: str) -> None:
        self._separator = _BLANK_LINE
        if self._depth or not self._parts:
            return
        block = Block(
            "heading" if kind == "heading" else "prose" if kind == "prose" else "atomic",
            heading_path(self._outline),
            tuple(self._parts),
            tuple(self._items),
            tuple(self._leads) if any(self._leads) else (),
        )
        self._blocks.append(block)
        self._parts, self._items, self._leads = [], [], []
        self._begins_item = False

    def _write(self, words: str) -> int:
        """Write a line below the separator; return the offset of its mark or first character."""
        if self._length:
            self._raw(self._separator)
            self._blank_lines += self._separator == _BLANK_LINE
        self._separator = _BLANK_LINE
        lead, self._mark = self._mark or self._indent, ""
        mark = lead.lstrip()
        self._raw(lead)
        start = self._length - len(mark)
        self._raw(words)
        return start

    def _raw(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)


_Row = tuple[list[str], Span, Span, int]


def _cell(words: str) -> str:
    """Return the text of a cell as one line; a bar between spaces would end it.

    >>> _cell(" pack  |  piece ")
    'pack|piece'
    """
    line = collapse_spaces(words)
    return f" {line} ".replace(" | ", "|").strip() if "|" in line else line


def _merged_header(rows: Sequence[_Row]) -> _Row:
    """Return the rows of a header as one; a text that a column has twice is written once."""
    width = max(len(row) for row, *_ in rows)
    columns = ([row[at] for row, *_ in rows if at < len(row)] for at in range(width))
    cells = [" ".join(dict.fromkeys(filter(None, column))) for column in columns]
    (_, first, top, page), (_, last, bottom, _) = rows[0], rows[-1]
    return cells, (first[0], last[1]), (top[0], bottom[1]), page


def _differ(one: Place, other: Place) -> bool:
    return replace(one, char_start=0) != replace(other, char_start=0)


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def _count_lines(text: str) -> int:
    return len(_LINE_ENDS.findall(text.rstrip()))


def _joined(text: str) -> tuple[str, list[int]]:
    """Return a text as one line, and the offset in it at which each line of the file begins."""
    pieces: list[str] = []
    starts: list[int] = []
    length = 0
    done = 0
    space = False
    for found in (*_LINE_ENDS.finditer(text), None):
        end = found.start() if found else len(text)
        raw = text[done:end]
        words = collapse_spaces(raw)
        if words and pieces and (space or raw[0].isspace()):
            pieces.append(" ")
            length += 1
        starts.append(length)
        if words:
            pieces.append(words)
            length += len(words)
            space = raw[-1].isspace()
        else:
            space = space or bool(raw)
        if found:
            space = space or found[0] == "\n"
            done = found.end()
    return "".join(pieces), starts
