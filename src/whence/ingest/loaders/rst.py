"""Load reStructuredText: sections as docutils finds them, with offsets into the source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from whence.ingest.blocks import (
    Block,
    Outline,
    ParsedDocument,
    heading_path,
    line_places,
    push_heading,
)
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import MAX_HEADING, build_document, first_heading, shorten
from whence.ingest.front_matter import read_front_matter
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput
from whence.text.sentences import sentence_spans
from whence.text.spans import Span, lines, paragraphs, trimmed

_ITEM = re.compile(
    r"(?:[*+\-•‣\u2043]|(?:\d+|[a-zA-Z#]|[ivxlcdmIVXLCDM]+)[.)]|\([\da-zA-Z#]+\)|:[^:\n]+:)\s"
)
_EXPLICIT = re.compile(r"(?:\.\.(?:\s|$)|__\s)")
_TABLE = re.compile(r"(?:\+[-=+]{2,}|={2,}(?:\s+={2,})+\s*$)")
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n(?:[^\S\n]*\n)*")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*$")
_SETTINGS = {
    # A document must not read other files, run code or raise errors; unknown directives (of Sphinx) are
    # ignored.
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": False,
    "line_length_limit": 2**31,
}


class _Title(NamedTuple):
    level: int
    title: str
    span: Span
    """Includes its underline and overline."""


def load_rst(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file; its title is that of the front matter, else of the first section."""
    text, encoding = decode_text(data)
    front = read_front_matter(text)
    blocks = rst_blocks(text, front.end)
    title = first_heading(blocks)
    return build_document(
        file,
        text,
        blocks,
        front=front,
        title=title,
        encoding=encoding,
        places=line_places(text, blocks),
    )


def rst_blocks(text: str, start: int = 0) -> tuple[Block, ...]:
    r"""Return the blocks of reStructuredText that begins at offset `start`; line ends must be `\n`.

    docutils finds the titles and their levels; the text between them is split at blank lines. Directives,
    literal blocks, tables and lists are atomic.
    """
    blocks: list[Block] = []
    outline: Outline = []
    done = start
    for title in _titles(text, start):
        blocks += _body(text, done, title.span[0], heading_path(outline))
        outline = push_heading(outline, title.level, shorten(title.title, MAX_HEADING))
        blocks.append(Block("heading", heading_path(outline), tuple(lines(text, *title.span))))
        done = title.span[1]
    return (*blocks, *_body(text, done, len(text), heading_path(outline)))


def _titles(text: str, start: int) -> Iterator[_Title]:
    """Yield the titles of docutils with their positions in the source."""
    rows = text[start:].split("\n")
    offsets = list(accumulate((len(row) + 1 for row in rows), initial=start))
    row = 0
    for level, raw, words in _sections(text[start:]):
        found = next((at for at in range(row, len(rows) - 1) if _is_title(rows, at, raw)), None)
        if found is None:
            continue
        # The line above may be the underline of the previous title.
        first = found - 1 if found > row and _is_overline(rows, found) else found
        span = trimmed(text, offsets[first], min(offsets[found + 2], len(text)))
        row = found + 2
        if span:
            yield _Title(level, words, span)


def _is_title(rows: Sequence[str], at: int, raw: str) -> bool:
    return rows[at].strip() == raw and bool(_ADORNMENT.match(rows[at + 1]))


def _is_overline(rows: Sequence[str], at: int) -> bool:
    return bool(rows[at - 1].strip()) and rows[at - 1].strip() == rows[at + 1].strip()


def _sections(source: str) -> list[tuple[int, str, str]]:
    from docutils import nodes
    from docutils.frontend import get_default_settings
    from docutils.parsers.rst import Parser
    from docutils.utils import new_document

    settings = get_default_settings(Parser)
    vars(settings).update(_SETTINGS)
    tree = new_document("document", settings)
    try:
        Parser().parse(_titles_only(source), tree)
    except RecursionError as error:
        raise BadInput("is nested too deeply") from error
    found = []
    for section in tree.findall(nodes.section):
        title = section.next_node(nodes.title)
        if title is not None and title.astext().strip():
            found.append((_depth(section), title.rawsource.strip(), title.astext()))
    return found


def _titles_only(source: str) -> str:
    """Return the paragraphs that may contain a title: docutils takes a millisecond for each paragraph."""
    return "\n\n".join(
        each for each in _BLANK_LINES.split(source) if any(map(_ADORNMENT.match, each.split("\n")))
    )


def _depth(section: Any) -> int:
    depth = 0
    while section is not None:
        depth += section.tagname == "section"
        section = section.parent
    return depth


def _body(text: str, start: int, end: int, path: tuple[str, ...]) -> Iterator[Block]:
    """Yield the blocks between two titles.

    An indented paragraph belongs to the directive, list or `::` above it, or is a quotation.
    """
    kind, parts = "", list[Span]()
    for paragraph in paragraphs(text, start, end):
        found = _kind_of(text, paragraph)
        if found == "indented" and kind:
            parts += lines(text, *paragraph)
            continue
        if found != "list" or kind != "list":
            yield from _atomic(parts, path)
            kind, parts = "", []
        if found in ("list", "explicit", "table"):
            kind = found
            parts += lines(text, *paragraph)
            continue
        yield Block("prose", path, tuple(sentence_spans(text, *paragraph)))
        kind = "literal" if text.endswith("::", *paragraph) else ""
    yield from _atomic(parts, path)


def _atomic(parts: Sequence[Span], path: tuple[str, ...]) -> Iterator[Block]:
    if parts:
        yield Block("atomic", path, tuple(parts))


def _kind_of(text: str, paragraph: Span) -> str:
    start = paragraph[0]
    line = text[start : start + 200].partition("\n")[0]
    before = text[start - 1 : start] if start else "\n"
    if before not in ("\n", ""):
        return "indented"
    if _EXPLICIT.match(line):
        return "explicit"
    if _ITEM.match(line):
        return "list"
    return "table" if _TABLE.match(line) or line.startswith("| ") else "prose"


LOADERS = (Loader(name="reStructuredText", suffixes=(".rst", ".rest"), parse_file=load_rst),)
