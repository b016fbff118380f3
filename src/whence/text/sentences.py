"""Sentences of a text as spans of it: sentences of Markdown for answers, sentence borders for chunks.

The two find different ends of sentences, because answers and chunk borders depend on them: chunking wants a
simple rule for any text, answers want no half sentences. A span is always verbatim.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from whence.text.spans import Span, spans_between, trimmed
from whence.text.values import month_number

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
    """The line before a list or the header row of a table; else empty."""


class _Block(NamedTuple):
    start: int
    end: int
    kind: SentenceKind


_LINE = re.compile(r"^.*$", re.MULTILINE)
_HEADING = re.compile(
    r" {0,3}(#{1,6})[ \t]++(?P<body>(?:[^ \t#\n]|[ \t]++(?!#*+[ \t]*+\Z)|#++(?![ \t]*+\Z))*+)[ \t]*+#*+[ \t]*+\Z"
)
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*\Z")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_ITEM = re.compile(r"[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_QUOTE = re.compile(r"[ \t]*(?:>[ \t]?)+")
_TABLE = re.compile(r"[ \t]*\|.*\|[ \t]*\Z")
_RULE = re.compile(r"[ \t:|=+*_-]{3,}\Z")

#: For chunks: a closing mark, closing quotes, white space, then something that can begin the next sentence. The
#: full-width marks need no white space.
_CHUNK_END = re.compile(
    r"""[.!?\u2026\u0964\u061f\u06d4]["'\u201d\u2019)\]*_]*\s+(?=["'\u201c\u2018(\[*_`#\-]*[^\W_a-z])"""
    r"""|[\u3002\uff01\uff1f]["\u201d\u2019\u300d\u300f\uff09]*\s*"""
)
#: For answers: marks, closing quotes or brackets, then white space; or a mark of East Asian scripts.
_ANSWER_END = re.compile(
    r"(?P<marks>(?<![.!?\u2026\u0964\u061f\u06d4])[.!?\u2026\u0964\u061f\u06d4]++)[\"'\u201d\u2019)\]*_]*+(?=\s)|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09]*"
)
_OPENING = re.compile(r"[\s\"'\u201c\u2018(\[*_]*(\S)")
_LAST_WORD = re.compile(r"(?:^|[^\w.])([\w.]+)\Z")

_COMMON_ABBREVIATIONS = """e.g i.e etc cf vs al approx est ca mr mrs ms dr prof st inc ltd co corp dept no nos fig figs
    eq sec ch vol pp ed eds jan feb mar apr jun jul aug sep sept oct nov dec"""
_FURTHER_ABBREVIATIONS = """rev hon sr jr gen col capt lt sgt eqs art p min max mon tue wed thu fri sat sun a.m p.m u.s
    u.k"""
_FINAL_TEXT = "etc inc ltd co corp a.m p.m u.s u.k al no est min max sat sun mar art"
#: Abbreviations whose full stop ends no sentence of a chunk.
_CHUNK_ABBREVIATIONS = frozenset(_COMMON_ABBREVIATIONS.split())
#: Abbreviations that a name or a number may follow, so that a capital does not prove the end of a sentence.
_ANSWER_ABBREVIATIONS = _CHUNK_ABBREVIATIONS.union(_FURTHER_ABBREVIATIONS.split())
#: Those that often end a sentence as well: after them a capital does prove it.
_FINAL_ABBREVIATIONS = frozenset(_FINAL_TEXT.split())


def sentence_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the sentences of plain text, for chunks.

    A rule of thumb for languages with full stops: a mark, white space, then a capital, digit or opening mark.
    Well-known abbreviations and initials (`e.g. `, `J. `) end no sentence.
    """
    return _cut(text, start, end, _CHUNK_END, _ends_chunk_sentence)


def split_sentences(text: str) -> list[Sentence]:
    """Split Markdown into sentences: in order, not overlapping, none blank, each verbatim.

    Headings, list items, table rows and lines of code are units of their own. Other lines are joined to
    paragraphs, which are split at the ends of sentences. Cost: linear in the text.

    >>> [text[s.start:s.end] for s in split_sentences(text := "Dr. No pays 3.5 euros. Done!")]
    ['Dr. No pays 3.5 euros.', 'Done!']
    """
    sentences: list[Sentence] = []
    heading = lead = header = ""
    for block in _blocks(text):
        span = trimmed(text, block.start, block.end)
        if span is None:
            continue
        (start, end), kind = span, block.kind
        content = text[start:end]
        if kind == "heading":
            heading, lead = content.strip("#*_ \t"), ""
            sentences.append(Sentence(start, end, "heading", "", ""))
            continue
        if kind == "table":
            first_row = not (sentences and sentences[-1].kind == "table")
            header = content if first_row else header
            context = "" if first_row else header
        else:
            context = "" if kind == "prose" else lead
        whole = kind in ("table", "code")
        spans = [(start, end)] if whole else _cut(text, start, end, _ANSWER_END, _ends_sentence)
        sentences += [Sentence(*span, kind, heading, context) for span in spans]
        if kind == "prose":
            lead = text[sentences[-1].start : sentences[-1].end]
    return sentences


def _blocks(text: str) -> Iterator[_Block]:
    """Join lines to blocks; each line of fenced code is a block."""
    open_block: _Block | None = None
    for start, end, in_code in _fenced_lines(text):
        line = text[start:end].rstrip("\r")
        if in_code is None:
            block = _line_block(line, start, end)
        else:
            block = _Block(start, end, "code") if in_code else None
        if open_block and open_block.kind == "prose" and _UNDERLINE.match(line):
            yield open_block._replace(kind="heading")
            open_block = None
        elif open_block and block and block.kind == "prose":
            # A line without a mark of its own continues the paragraph or the list item above.
            open_block = open_block._replace(end=end)
        else:
            if open_block:
                yield open_block
            open_block = block if block and block.kind in ("prose", "item") else None
            if block and not open_block:
                yield block
    if open_block:
        yield open_block


def _fenced_lines(text: str) -> Iterator[tuple[int, int, bool | None]]:
    """Yield lines with True inside a fence of code, False for the fence itself, None elsewhere."""
    fence = ""
    for line in _LINE.finditer(text):
        start, end = line.span()
        mark = _FENCE.match(text, start, end)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            yield start, end, False
        else:
            yield start, end, True if fence else None


def _line_block(line: str, start: int, end: int) -> _Block | None:
    """Return the block that a line outside of code makes; None for a line without content."""
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


def _cut(
    text: str,
    start: int,
    end: int,
    ending: re.Pattern[str],
    ends: Callable[[str, re.Match[str], int], bool],
) -> Iterator[Span]:
    """Yield the sentences of a span.

    Args:
        text: The text.
        start: Where the span begins.
        end: Where it ends.
        ending: Matches what may be the end of a sentence.
        ends: Whether a match is one, given the start of its sentence.
    """

    def borders() -> Iterator[int]:
        begin = start
        for match in ending.finditer(text, start, end):
            if ends(text, match, begin):
                begin = match.end()
                yield begin

    return spans_between(text, start, end, borders())


def _ends_chunk_sentence(text: str, match: re.Match[str], start: int) -> bool:
    """Return whether a match of `_CHUNK_END` ends a sentence: no abbreviation and no initial."""
    stop = match.start()
    word = _LAST_WORD.search(text[max(start, stop - 12) : stop]) if text[stop] == "." else None
    if not word:
        return True
    is_initial = len(word[1]) == 1 and word[1].isalpha() and word[1] != "I"
    return not is_initial and word[1].casefold() not in _CHUNK_ABBREVIATIONS


def _ends_sentence(text: str, match: re.Match[str], start: int) -> bool:
    """Return whether a match of `_ANSWER_END` ends a sentence."""
    marks = match["marks"]
    if marks is None:
        return True
    following = _OPENING.match(text, match.end(), match.endpos)
    opening = following[1] if following else ""
    if opening.islower():
        return False
    if marks != ".":
        return True
    word = re.split(r"[\s(\[\"'\u201c]", text[max(start, match.start() - 24) : match.start()])[-1]
    lowered = word.lower()
    if lowered in _ANSWER_ABBREVIATIONS:
        return lowered in _FINAL_ABBREVIATIONS and opening.isupper()
    if word.isdecimal() and len(word) <= 2 and _is_month(text, match.end()):
        return False
    # An initial, as in `J. Smith`; but not the pronoun, as in `so do I. Then`.
    return not (len(word) == 1 and word.isupper() and word != "I")


def _is_month(text: str, start: int) -> bool:
    """Return whether the next word is a month, as in `31. Mai`; only German writes one with a capital there."""
    found = re.compile(r"(?<!\s)\s++(\w++)").match(text, start)
    return found is not None and month_number(found[1], ("german",)) is not None
