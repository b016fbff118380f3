"""Sentences of a text as spans of it, aware of Markdown.

Headings, list items, table rows and lines of code are units of their own; other lines are joined to paragraphs
and cut at the ends of sentences. A span is always verbatim: the text between its offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

__all__ = ("Sentence", "SentenceKind", "split_sentences")

SentenceKind = Literal["prose", "item", "table", "code", "heading"]


class Sentence(NamedTuple):
    """One unit of a text."""

    start: int
    """Offset of the first character."""
    end: int
    """Offset after the last character."""
    kind: SentenceKind
    heading: str
    """Nearest heading above, without its marks; empty when there is none."""
    lead: str
    """What it belongs to: the line before a list, the header row of a table; else empty."""


class _Block(NamedTuple):
    start: int
    end: int
    kind: SentenceKind


_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(?P<body>.*?)[ \t]*#*[ \t]*\Z")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*\Z")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_ITEM = re.compile(r"[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_QUOTE = re.compile(r"[ \t]*(?:>[ \t]?)+")
_TABLE = re.compile(r"[ \t]*\|.*\|[ \t]*\Z")
_RULE = re.compile(r"[ \t]*\|?[ \t:|=+*_-]{3,}\Z")

#: An end of a sentence: marks, closing quotes or brackets, then white space; or a mark of East Asian scripts.
_END = re.compile(
    r"(?P<marks>[.!?\u2026]+)[\"'\u201d\u2019)\]*_]*(?=\s)|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09]*"
)
_OPENS = re.compile(r"[\s\"'\u201c\u2018(\[*_]*(\S)")
#: Abbreviations that are followed by a name or a number, so that a capital proves nothing.
_ABBREVIATIONS_TEXT = """mr mrs ms dr prof rev hon st sr jr gen col capt lt sgt no nos vol fig figs eq eqs sec ch art p pp ed eds vs
    cf al etc approx ca inc ltd co corp dept est min max jan feb mar apr jun jul aug sep sept oct nov dec mon tue
    wed thu fri sat sun e.g i.e a.m p.m u.s u.k"""
_ABBREVIATIONS = frozenset(_ABBREVIATIONS_TEXT.split())
#: Of those, the ones that often end a sentence as well: there a capital does count.
_MAY_END_TEXT = "etc inc ltd co corp a.m p.m u.s u.k al no est min max sat sun mar art"
_MAY_END = frozenset(_MAY_END_TEXT.split())


def split_sentences(text: str) -> list[Sentence]:
    """Cut a text into sentences: in order, not overlapping, none blank, each verbatim.

    Cost: linear in the text.

    >>> [text[s.start:s.end] for s in split_sentences(text := "Dr. No pays 3.5 euros. Done!")]
    ['Dr. No pays 3.5 euros.', 'Done!']
    """
    sentences: list[Sentence] = []
    heading = lead = header = ""
    for block in _blocks(text):
        content = text[block.start : block.end]
        if block.kind == "heading":
            heading, lead = content.strip("#*_ \t"), ""
            sentences.append(Sentence(block.start, block.end, "heading", "", ""))
            continue
        if block.kind == "table":
            first_row = not (sentences and sentences[-1].kind == "table")
            header = content if first_row else header
            context = "" if first_row else header
        else:
            context = "" if block.kind == "prose" else lead
        for start, end in _cut(text, block):
            sentences.append(Sentence(start, end, block.kind, heading, context))
        if block.kind == "prose":
            lead = text[sentences[-1].start : sentences[-1].end]
    return sentences


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, end
        start = end + 1


def _blocks(text: str) -> Iterator[_Block]:
    """Yield trimmed blocks that are not blank."""
    for block in _raw_blocks(text):
        content = text[block.start : block.end]
        start = block.start + len(content) - len(content.lstrip())
        end = block.start + len(content.rstrip())
        if start < end:
            yield _Block(start, end, block.kind)


def _raw_blocks(text: str) -> Iterator[_Block]:
    """Join lines to blocks; fenced code gives one block per line."""
    open_block: _Block | None = None
    for start, end, in_code in _fenced_lines(text):
        line = text[start:end].rstrip("\r")
        if in_code is None:
            fresh = _line_block(line, start, end)
        else:
            fresh = _Block(start, end, "code") if in_code else None
        if open_block and open_block.kind == "prose" and _UNDERLINE.match(line):
            yield open_block._replace(kind="heading")
            open_block = None
        elif open_block and fresh and fresh.kind == "prose":
            # A line without a mark of its own goes on with the paragraph or the list item above.
            open_block = open_block._replace(end=end)
        else:
            if open_block:
                yield open_block
            open_block = fresh if fresh and fresh.kind in ("prose", "item") else None
            if fresh and not open_block:
                yield fresh
    if open_block:
        yield open_block


def _fenced_lines(text: str) -> Iterator[tuple[int, int, bool | None]]:
    """Yield lines with True inside a fence of code, False for the fence itself, None elsewhere."""
    fence = ""
    for start, end in _lines(text):
        mark = _FENCE.match(text, start, end)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            yield start, end, False
        else:
            yield start, end, True if fence else None


def _line_block(line: str, start: int, end: int) -> _Block | None:
    """Return what a line outside of code is; None for one without content."""
    if not line.strip() or _RULE.match(line):
        return None
    heading = _HEADING.match(line)
    if heading:
        return _Block(start + heading.start("body"), start + heading.end("body"), "heading")
    if _TABLE.match(line):
        left = len(line) - len(line.lstrip(" \t|"))
        return _Block(start + left, start + len(line.rstrip(" \t|")), "table")
    quote = _QUOTE.match(line)
    offset = quote.end() if quote else 0
    item = _ITEM.match(line, offset)
    if item:
        return _Block(start + item.end(), end, "item")
    return _Block(start + offset, end, "prose")


def _cut(text: str, block: _Block) -> Iterator[tuple[int, int]]:
    """Cut a block of prose at the ends of its sentences; other blocks stay whole, but for long items."""
    if block.kind in ("table", "code"):
        yield block.start, block.end
        return
    start = block.start
    for match in _END.finditer(text, block.start, block.end):
        if match.end() >= block.end or not _ends(text, match, start, block.end):
            continue
        yield start, match.end()
        start = match.end()
        while start < block.end and text[start].isspace():
            start += 1
    if start < block.end:
        yield start, block.end


def _ends(text: str, match: re.Match[str], start: int, end: int) -> bool:
    """Return whether marks end a sentence."""
    marks = match["marks"]
    if marks is None:
        return True
    following = _OPENS.match(text, match.end(), end)
    opens = following[1] if following else ""
    if opens.islower():
        return False
    if marks != ".":
        return True
    word = re.split(r"[\s(\[\"'\u201c]", text[max(start, match.start() - 24) : match.start()])[-1]
    lowered = word.lower()
    if lowered in _ABBREVIATIONS:
        return lowered in _MAY_END and opens.isupper()
    # An initial, as in `J. Smith`; but not the pronoun, as in `so do I. Then`.
    return not (len(word) == 1 and word.isupper() and word != "I")
