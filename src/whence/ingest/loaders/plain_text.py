"""Load plain text: paragraphs joined from wrapped lines, lists, underlined titles, and indented code.

A text that is reStructuredText by its content is read as such. Logs, settings, scripts and text of an unknown
kind that is no prose are read line by line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from whence.ingest.blocks import ParsedDocument, line_places
from whence.ingest.content_detection import ANY_TEXT
from whence.ingest.decoding import decode_text, has_controls
from whence.ingest.document_builder import build_document
from whence.ingest.line_blocks import line_blocks
from whence.ingest.loaders.base import Loader
from whence.ingest.loaders.rst import load_written, write_rst
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import INVALID, TextBuilder
from whence.schema.errors import BadInput

_UNDERLINE = re.compile(r"[ \t]*([=~^\"*+#-])\1{2,}[ \t]*$")
_ITEM = re.compile(r"([ \t]*)([-*\u2022\u2023\u25e6+]|\(?\d{1,3}[.)])[ \t]+(?=\S)")
#: Space inside a line that puts words below words.
_COLUMNS = re.compile(r"\S {3,}\S|\S\t+\S")
_WORD = re.compile(
    r"""["'(\u201c\u2018\[]*(?:[^\W\d_]+(?:[-'\u2019/][^\W\d_]+)*|\d[\d.]*+)["')\u201d\u2019\]]*[.,;:!?]*$"""
)
_ADDRESS = re.compile(r"\w@\w|\w://\w")
_CODE_LINE = re.compile(r"[ \t]*(?:[$#>%]|>>>|\w+\(.*\)$)|.*(?:[{};\\]|&&|->)[ \t]*$")
#: Least share of plain words in an indented paragraph that is no code.
_WORD_SHARE = 0.6
#: A line that ends before this share of the width although the next word fits is not wrapped.
_SHORT = 0.8
_LEAST_WIDTH = 40
#: Least share of a title that is underlined.
_UNDERLINED = 0.6

_SIGNS = {
    "directive": re.compile(r"(?m)^[ \t]*\.\. [\w:+-]+::(?:\s|$)"),
    "target": re.compile(r"(?m)^[ \t]*\.\. (?:_[^\n:]+:|\|[^\n|]+\| [\w-]+::|\[[#*\w-]+\] )"),
    "role": re.compile(r"(?<!\w):[a-zA-Z][\w:+.-]{0,80}:`[^`\n]+"),
    "fields": re.compile(r"(?m)^:[A-Za-z][\w -]*:[ \t]+\S.*\n:[A-Za-z][\w -]*:[ \t]+\S"),
    "reference": re.compile(r"`[^`]+`__?(?!\w)"),
    "literal": re.compile(r"``[^`\n]+``"),
    "literal block": re.compile(r"(?m)::[ \t]*\n[ \t]*\n[ \t]+\S"),
    "title": re.compile(r"(?m)^\S.{1,}\n([=~^\"'*+#`:.-])\1{2,}[ \t]*$"),
}
#: Signs that nothing but reStructuredText has.
_CERTAIN = frozenset({"directive", "target", "role", "fields"})
#: It has a blank line before it; a line of backticks below a title underlines that.
_MARKDOWN_FENCE = re.compile(r"(?:\A|\n[ \t]*\n)```(?!`)[\w+-]*[ \t]*\n")
_SAMPLE = 200_000
#: Fewest words of a line of prose, on average.
_LEAST_WORDS = 4
#: Kinds of files in which line ends mean something.
_LINE_SUFFIXES = (
    *(".log", ".conf", ".cfg", ".cnf", ".ini", ".properties", ".env", ".service", ".tf"),
    *(".toml", ".yaml", ".yml", ".sh", ".bash", ".zsh", ".bat", ".cmd", ".ps1"),
)
#: Colors and other codes that programs write to a terminal (ECMA-48, 5.4).
_TERMINAL_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")


class _Paragraph(NamedTuple):
    """Lines without a blank one between them; `line` is the number of the first, from 1."""

    lines: tuple[str, ...]
    line: int

    @property
    def indent(self) -> int:
        return min(len(each) - len(each.lstrip()) for each in self.lines)


def load_text(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file of plain text; its title is that of the front matter, else its only one of the top level."""
    return load_written(file, data, _write_either)


def load_any_text(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load text of an unknown kind: prose as plain text is read, all other line by line.

    Raises:
        BadInput: It is no text.
    """
    decoded = decode_text(data, file.encoding)
    if has_controls(decoded.text):
        raise BadInput("is not text: it is full of control characters")
    paragraphs = list(_paragraphs(decoded.text[:_SAMPLE], 0))
    prose = sum(len(each.lines) for each in paragraphs if _has_sentences(each.lines))
    if 2 * prose > sum(len(each.lines) for each in paragraphs):
        return load_text(file, data)
    return load_lines(file, data)


def _has_sentences(lines: Sequence[str]) -> bool:
    words = sum(len(line.split()) for line in lines)
    return words >= _LEAST_WORDS * len(lines) and _is_prose(lines)


def load_lines(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file whose lines mean something: a log, settings, a script. Its text is that of the file.

    Lines between blank ones are kept in one chunk if they fit. Escapes that color a terminal are left out.
    """
    decoded = decode_text(data, file.encoding)
    text = INVALID.sub("", _TERMINAL_ESCAPE.sub("", decoded.text))
    blocks = line_blocks(text)
    return build_document(
        file,
        text,
        blocks,
        encoding=decoded.encoding,
        left_out=decoded.left_out,
        places=line_places(text, blocks),
        is_preformatted=True,
    )


def _write_either(text: str, start: int) -> TextBuilder:
    return write_rst(text, start) if looks_like_rst(text) else write_text(text, start)


def looks_like_rst(text: str) -> bool:
    """Return whether a text is reStructuredText: signs of several kinds, one of them certain.

    Inline literals beside titles or literal blocks are enough, too. A text with fences of Markdown is not.
    """
    sample = text[:_SAMPLE]
    if _MARKDOWN_FENCE.search(sample):
        return False
    found = {name for name, sign in _SIGNS.items() if sign.search(sample)}
    has_literals = "literal" in found and bool(found & {"title", "literal block"})
    return has_literals or (len(found) > 1 and bool(found & _CERTAIN))


def write_text(text: str, start: int = 0) -> TextBuilder:
    r"""Return the text of plain text that begins at an offset; line ends must be `\n`. Cost: linear."""
    builder = TextBuilder()
    _Writer(builder).write(list(_paragraphs(text, start)))
    return builder


def write_text_into(builder: TextBuilder, text: str) -> None:
    r"""Write plain text that stands inside another format, which has no lines; line ends must be `\n`."""
    _Writer(builder, numbered=False).write(list(_paragraphs(text, 0)))


def _paragraphs(text: str, start: int) -> Iterator[_Paragraph]:
    line = text.count("\n", 0, start) + 1
    lines: list[str] = []
    for each in (*text[start:].expandtabs(8).split("\n"), ""):
        bare = each.replace("\f", " ").rstrip()
        if bare:
            lines.append(bare)
        elif lines:
            yield _Paragraph(tuple(lines), line - len(lines))
            lines = []
        line += 1


class _Writer:
    def __init__(self, text: TextBuilder, *, numbered: bool = True) -> None:
        self._text = text
        self._numbered = numbered
        self._levels: list[str] = []
        self._width = 0

    def write(self, paragraphs: Sequence[_Paragraph]) -> None:
        """Write paragraphs; lists, code and other text that stand side by side form a block each."""
        lengths = sorted(len(line) for each in paragraphs for line in each.lines)
        self._width = max(_LEAST_WIDTH, lengths[len(lengths) * 95 // 100]) if lengths else 0
        margin = min((each.indent for each in paragraphs), default=0)
        pending = [piece for each in paragraphs for piece in _split_titles(each)][::-1]
        while pending:
            first = pending.pop()
            kind = _kind(first, margin)
            group = [first]
            while kind in ("list", "code") and pending and _kind(pending[-1], margin) == kind:
                group.append(pending.pop())
            if kind == "title":
                self._title(first)
            elif kind == "list":
                self._list(group)
            elif kind == "code":
                self._code(group)
            elif self._is_wrapped(first.lines):
                self._text.add_paragraph("\n".join(first.lines), line=self._line(first.line))
            else:
                self._text.add_lines(first.lines, line=self._line(first.line))

    def _line(self, number: int) -> int:
        """Return the line of the file; 0 if its lines are not those of the text."""
        return number if self._numbered else 0

    def _title(self, paragraph: _Paragraph) -> None:
        words, mark = paragraph.lines[0], paragraph.lines[1].strip()[:1]
        if mark not in self._levels:
            self._levels.append(mark)
        self._text.add_heading(self._levels.index(mark) + 1, words, line=self._line(paragraph.line))

    def _list(self, group: Sequence[_Paragraph]) -> None:
        with self._text.block():
            for mark, lines, line in _items(group):
                with self._text.item(mark):
                    self._text.add_paragraph("\n".join(lines), line=self._line(line))

    def _code(self, group: Sequence[_Paragraph]) -> None:
        first, last = group[0], group[-1]
        lines = [""] * (last.line + len(last.lines) - first.line)
        for each in group:
            at = each.line - first.line
            lines[at : at + len(each.lines)] = each.lines
        self._text.add_code(lines, line=self._line(first.line))

    def _is_wrapped(self, lines: Sequence[str]) -> bool:
        """Return whether most lines end where the next word did not fit."""
        early = sum(
            len(line) + 1 + len(following.split(maxsplit=1)[0]) <= _SHORT * self._width
            for line, following in itertools.pairwise(lines)
        )
        return 2 * early <= len(lines) - 1


def _split_titles(paragraph: _Paragraph) -> Iterator[_Paragraph]:
    """Yield underlined titles, without the line above them, and the lines between them."""
    lines, rest = paragraph.lines, 0
    at = 0
    while at < len(lines):
        over = bool(_UNDERLINE.match(lines[at]))
        title = at + over
        if (
            title + 1 < len(lines)
            and _UNDERLINE.match(lines[title + 1])
            and not _UNDERLINE.match(lines[title])
            and len(lines[title + 1].strip()) >= _UNDERLINED * len(lines[title].strip())
        ):
            if at > rest:
                yield _Paragraph(lines[rest:at], paragraph.line + rest)
            yield _Paragraph(lines[title : title + 2], paragraph.line + title)
            at = rest = title + 2
        elif over:
            # A line of marks alone separates.
            if at > rest:
                yield _Paragraph(lines[rest:at], paragraph.line + rest)
            at = rest = at + 1
        else:
            at += 1
    if rest < len(lines):
        yield _Paragraph(lines[rest:], paragraph.line + rest)


def _kind(paragraph: _Paragraph, margin: int) -> Literal["title", "list", "code", "text"]:
    lines = paragraph.lines
    if len(lines) == 2 and _UNDERLINE.match(lines[1]):
        return "title"
    if _ITEM.match(lines[0]):
        return "list"
    if 2 * sum(bool(_COLUMNS.search(line.strip())) for line in lines) > len(lines):
        return "code"
    is_indented = paragraph.indent >= margin + 2
    return "code" if is_indented and not _is_prose(lines) else "text"


def _is_prose(lines: Sequence[str]) -> bool:
    words = [word for line in lines for word in line.split()]
    plain = sum(bool(_WORD.match(word) or _ADDRESS.search(word)) for word in words)
    is_code = any(_CODE_LINE.match(line) for line in lines)
    return not is_code and plain >= _WORD_SHARE * len(words)


def _items(group: Sequence[_Paragraph]) -> Iterator[tuple[str, list[str], int]]:
    """Yield the items of a list: mark, lines without it, and the number of the first line."""
    for paragraph in group:
        mark, lines, line = "", list[str](), paragraph.line
        for at, each in enumerate(paragraph.lines):
            found = _ITEM.match(each)
            if found is None:
                lines.append(each)
                continue
            if lines:
                yield mark, lines, line
            sign = found[2].strip("()")
            mark = f"{sign.rstrip('.)')}. " if sign[0].isdigit() else "- "
            lines, line = [each[found.end() :]], paragraph.line + at
        yield mark, lines, line


LOADERS = (
    Loader(
        name="text",
        suffixes=(".txt", ".text"),
        parse_file=load_text,
        detects_html=True,
        is_plain=True,
        version="4",
    ),
    Loader(
        name="text",
        suffixes=_LINE_SUFFIXES,
        parse_file=load_lines,
        is_plain=True,
        version="2",
    ),
    Loader(
        name="text",
        suffixes=(ANY_TEXT,),
        parse_file=load_any_text,
        detects_html=True,
        is_plain=True,
        version="2",
    ),
)
