"""Write text with line breaks that its author set: code, lines such as those of an address, or paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from whence.ingest.text_builder import BREAK, TextBuilder, collapse_spaces

#: A line that is nothing but code.
_CODE_LINE = re.compile(r"`[^`]+`")
_LINE_ENDS = re.compile("[\n\x0b]")
#: The end of a sentence.
_ENDS = re.compile(r"[.!?][)\"'\u201d]?$")
#: Characters of a line; text that is wrapped has longer ones.
_SHORT_LINE = 60


def add_run(text: TextBuilder, words: str, *, line: int = 0) -> None:
    r"""Add a paragraph in which `BREAK` stands for a line break.

    Lines of nothing but code become a block of code. Other lines stay lines; where one is long, and they are
    sentences or one goes on in the next, they are a paragraph. Two breaks in a row end it.

    Args:
        text: What is added to.
        words: The text; `\n` and `LINE_END` are line ends of the file, also beside a `BREAK`.
        line: Line of the file, from 1, on which it begins; 0 for none.
    """
    if BREAK not in words:
        text.add_paragraph(words, line=line)
        return
    lines = list(_lines(words, line))
    for kind, group in groupby(zip(_kinds(lines), lines, strict=True), lambda each: each[0]):
        kept = [each for _, each in group]
        shown, first = [each.words for each in kept], kept[0].line
        if kind == "code":
            text.add_code([each.strip("`") for each in shown], line=first)
        elif kind == "text" and _is_wrapped(shown):
            whole = words[kept[0].start : kept[-1].end]
            text.add_paragraph(whole.replace(BREAK, " "), line=first)
        elif kind == "text":
            text.add_lines(shown, places=[(each.line, each.last) for each in kept])


class _Line(NamedTuple):
    """A line between breaks: where it begins and ends, its lines in the file, and what is shown."""

    start: int
    end: int
    line: int
    last: int
    words: str


def _lines(words: str, line: int) -> Iterator[_Line]:
    start = 0
    for each in words.split(BREAK):
        bare = each.strip()
        begin = start + len(each) - len(each.lstrip())
        first = line and line + _count(each[: begin - start])
        yield _Line(
            begin, begin + len(bare), first, first and first + _count(bare), collapse_spaces(bare)
        )
        line = line and line + _count(each)
        start += len(each) + 1


def _count(text: str) -> int:
    return len(_LINE_ENDS.findall(text))


def _kinds(lines: Sequence[_Line]) -> list[str]:
    """Return `code`, `text` or nothing, which an empty line is unless it stands in code."""
    kinds = [
        ("code" if _CODE_LINE.fullmatch(each.words) else "text") if each.words else ""
        for each in lines
    ]
    written = [at for at, kind in enumerate(kinds) if kind]
    for one, following in pairwise(written):
        if kinds[one] == kinds[following] == "code":
            kinds[one:following] = ["code"] * (following - one)
    return kinds


def _is_wrapped(lines: Sequence[str]) -> bool:
    """Return whether lines are text that goes on in the next line, or sentences, and no verse or address."""
    if max(map(len, lines)) <= _SHORT_LINE:
        return False
    return any(each[0].islower() for each in lines[1:]) or all(map(_ENDS.search, lines[:-1]))
