"""Spans of a text: lines, paragraphs and slices as offsets, without white space at their ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: Offset of the first character and offset after the last one.
Span = tuple[int, int]

_LINE_END = re.compile(r"\n")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_SPACE = re.compile(r"\s")


def trimmed(text: str, start: int, end: int) -> Span | None:
    """Return a span without white space at its ends; None when nothing is left."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return (start, end) if start < end else None


def spans_between(text: str, start: int, end: int, borders: Iterable[int]) -> Iterator[Span]:
    """Yield the spans between ascending borders from `start` to `end`, trimmed and without blank ones."""
    previous = start
    for border in (*borders, end):
        span = trimmed(text, previous, border)
        if span:
            yield span
        previous = border


def lines(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the lines that are not blank."""
    return _split(text, start, end, _LINE_END)


def paragraphs(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the parts between blank lines."""
    return _split(text, start, end, _BLANK_LINE)


def _split(text: str, start: int, end: int, separator: re.Pattern[str]) -> Iterator[Span]:
    borders = (match.end() for match in separator.finditer(text, start, end))
    return spans_between(text, start, end, borders)


def slices(text: str, start: int, end: int, count: int) -> Iterator[Span]:
    """Yield about `count` slices of similar length, cut at white space where there is any.

    A stretch without white space is cut anywhere. A span of two or more characters always yields at least two
    slices. Cost: linear in the length.
    """
    size = max(1, (end - start) // count)
    return spans_between(text, start, end, _even_borders(text, start, end, size))


def _even_borders(text: str, start: int, end: int, size: int) -> Iterator[int]:
    at = start
    space = -1  # the next known white space, so that a long word is searched only once
    while end - at > size:
        ideal = at + size
        back = max(text.rfind(mark, at + 1, ideal + 1) for mark in " \n\t")
        if back < 0 and space < ideal:
            found = _SPACE.search(text, ideal, end)
            space = found.start() if found else end
        at = back if back >= 0 else space if space < end else ideal
        yield at
