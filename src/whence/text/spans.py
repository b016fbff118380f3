"""Where a text may be cut: spans of lines and sentences, as offsets, white space left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

__all__ = ("Span", "lines", "paragraphs", "sentences", "slices", "spans_between", "trimmed")

#: First character and the one after the last.
Span = tuple[int, int]

#: The end of a sentence: closing mark, closing quotes, white space, then something that can begin the
#: next one. The full-width marks need no white space.
_SENTENCE_END = re.compile(
    r"""[.!?\u2026]["'\u201d\u2019)\]*_]*\s+(?=["'\u201c\u2018(\[*_`#\-]*[^\W_a-z])"""
    r"""|[\u3002\uff01\uff1f]["\u201d\u2019\u300d\u300f\uff09]*\s*"""
)
#: Words whose full stop ends no sentence.
_ABBREVIATIONS = frozenset(
    {
        *("e.g", "i.e", "etc", "cf", "vs", "al", "approx", "est", "ca"),
        *("mr", "mrs", "ms", "dr", "prof", "st", "inc", "ltd", "co", "corp", "dept"),
        *("no", "nos", "fig", "figs", "eq", "sec", "ch", "vol", "pp", "ed", "eds"),
        *("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec"),
    }
)
_LAST_WORD = re.compile(r"(?:^|[^\w.])([\w.]+)\Z")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_SPACE = re.compile(r"\s")


def trimmed(text: str, start: int, end: int) -> Span | None:
    """Return a span without white space at its ends, None when nothing is left."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return (start, end) if start < end else None


def spans_between(text: str, start: int, end: int, borders: Iterable[int]) -> Iterator[Span]:
    """Yield what lies between borders that rise from `start` to `end`, trimmed, blank parts left out."""
    before = start
    for border in (*borders, end):
        span = trimmed(text, before, border)
        if span:
            yield span
        before = border


def lines(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the lines that are not blank."""
    return spans_between(text, start, end, _all(text, "\n", start, end))


def paragraphs(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the parts between blank lines."""
    borders = (found.end() for found in _BLANK_LINE.finditer(text, start, end))
    return spans_between(text, start, end, borders)


def sentences(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the sentences.

    A rule of thumb for languages with full stops: a mark, white space, then a capital, digit or
    opening mark; well-known abbreviations and initials (`e.g. `, `J. `) end no sentence.
    """
    borders = (
        found.end()
        for found in _SENTENCE_END.finditer(text, start, end)
        if not _abbreviated(text, start, found.start())
    )
    return spans_between(text, start, end, borders)


def slices(text: str, start: int, end: int, count: int) -> Iterator[Span]:
    """Yield about `count` slices of like length, cut at white space as long as there is any.

    A stretch without white space is cut anywhere. A span of two characters or more always gives at
    least two slices. Cost is linear in the length.
    """
    size = max(1, (end - start) // count)
    return spans_between(text, start, end, _even_borders(text, start, end, size))


def _even_borders(text: str, start: int, end: int, size: int) -> Iterator[int]:
    at = start
    space = -1  # the next white space known of; kept, so that a long word is searched only once
    while end - at > size:
        ideal = at + size
        back = max(text.rfind(mark, at + 1, ideal + 1) for mark in " \n\t")
        if back < 0 and space < ideal:
            found = _SPACE.search(text, ideal, end)
            space = found.start() if found else end
        at = back if back >= 0 else space if space < end else ideal
        yield at


def _abbreviated(text: str, start: int, stop: int) -> bool:
    """Return whether the full stop at `stop` belongs to an abbreviation or an initial."""
    if text[stop] != ".":
        return False
    found = _LAST_WORD.search(text[max(start, stop - 12) : stop])
    if not found:
        return False
    word = found[1]
    return word.casefold() in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word != "I")


def _all(text: str, mark: str, start: int, end: int) -> Iterator[int]:
    at = text.find(mark, start, end)
    while at >= 0:
        yield at + 1
        at = text.find(mark, at + 1, end)
