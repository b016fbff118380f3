"""Stored texts of documents, and where their parts stand in the files they were read from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import date
from operator import attrgetter
from typing import Any

import msgspec

from whence.schema.message import Message

_OFFSET = attrgetter("char_start")


class Place(Message, frozen=True, kw_only=True, gc=False):
    """Where the text from an offset up to the next place stands in its file."""

    char_start: int
    """Offset in the stored text, in characters."""
    line_start: int = 0
    """First line of the file, from 1; 0 when the format has no lines."""
    line_end: int = 0
    """Last line of the file, not before the first; 0 when the format has no lines."""
    page: int = 0
    """Page, slide or sheet, from 1; 0 when the format has none."""
    anchor: str = ""
    """Id of the element or of the nearest heading of an HTML page; empty when there is none."""
    slide: int = 0
    """Slide, from 1, which is also its page; 0 when the format has none."""
    sheet: str = ""
    """Name of the sheet; empty when the format has none."""
    row_start: int = 0
    """First row of the sheet, from 1; 0 when the format has none."""
    row_end: int = 0
    """Last row of the sheet, not before the first; 0 when the format has none."""
    message: str = ""
    """Date of the message, ISO 8601; empty when the document is no mail or the message has no date."""


def only_line(places: Sequence[Place]) -> int | None:
    """Return the line of a text that is one line of its file; None for any other."""
    if len(places) != 1 or not places[0].line_start or places[0].line_start != places[0].line_end:
        return None
    return places[0].line_start


class Location(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a quote stands; None is what the format does not have or what is not known."""

    page: int | None = None
    """Page, slide or sheet, from 1."""
    line_start: int | None = None
    """First line of the file, from 1."""
    line_end: int | None = None
    """Last line of the file."""
    char_start: int | None = None
    """Offset of its first character in the stored text of the document."""
    char_end: int | None = None
    """Offset after its last character."""
    anchor: str | None = None
    """Id of the element or of the nearest heading of an HTML page."""
    slide: int | None = None
    """Slide, from 1, which is also its page."""
    sheet: str | None = None
    """Name of the sheet."""
    row_start: int | None = None
    """First row of the sheet, from 1."""
    row_end: int | None = None
    """Last row of the sheet."""
    message: str | None = None
    """Date of the message, ISO 8601."""

    def label(self) -> str:
        """Return the place as it follows the name of a file: ` p. 23`, `:412`, ` slide 4`, or nothing.

        >>> Location(sheet="Budget", row_start=12, row_end=12).label()
        ' sheet "Budget" row 12'
        >>> Location(message="2026-03-03T09:15:00+01:00").label()
        ' message of 3 March 2026'
        """
        if self.sheet:
            return f' sheet "{self.sheet}"{self._rows()}'
        if self.message:
            return f" message of {_day(self.message)}"
        if self.slide:
            return f" slide {self.slide}"
        if self.page:
            return f" p. {self.page}"
        return f":{self.line_start}" if self.line_start else ""

    def _rows(self) -> str:
        if not self.row_start:
            return ""
        if self.row_end in (None, self.row_start):
            return f" row {self.row_start}"
        return f" rows {self.row_start}-{self.row_end}"


_MONTHS = "January February March April May June July August September October November December"


def _day(moment: str) -> str:
    """Return the day of an ISO 8601 moment in words; another text as it is."""
    try:
        day = date.fromisoformat(moment[:10])
    except ValueError:
        return moment
    return f"{day.day} {_MONTHS.split()[day.month - 1]} {day.year}"


class StoredPassage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A chunk as a span of the stored text of its document: `text[char_start:char_end]` is its content."""

    id: str
    """IRI of the chunk."""
    char_start: int
    """Offset of its first character."""
    char_end: int
    """Offset after its last character."""
    heading: str = ""
    """Nearest heading above."""
    page: int = 0
    """Page it begins on, from 1; 0 when the document has none."""


class DocumentText(msgspec.Struct, frozen=True, kw_only=True):
    """A stored document as one text."""

    document_id: str
    source_file: str
    root: str = ""
    """Folder or uploads that the file came from; empty when unknown."""
    source_url: str
    title: str
    text: str
    """What the offsets of chunks, citations and places count in."""
    chunks: tuple[StoredPassage, ...]
    """In the order of the text."""
    places: tuple[Place, ...] = ()
    """By offset, ascending; empty when nothing is known, as of documents stored by an earlier version."""
    metadata: dict[str, Any] = {}
    """The document's own metadata."""


def locate(places: Sequence[Place], start: int, end: int, *, words: int | None = None) -> Location:
    """Return where a span of a stored text stands, its offsets included; arguments as of `place_of`."""
    place = place_of(places, start, end, words=words) or Place(char_start=start)
    return Location(
        page=place.page or None,
        line_start=place.line_start or None,
        line_end=place.line_end or None,
        char_start=start,
        char_end=end,
        anchor=place.anchor or None,
        slide=place.slide or None,
        sheet=place.sheet or None,
        row_start=place.row_start or None,
        row_end=place.row_end or None,
        message=place.message or None,
    )


def place_of(
    places: Sequence[Place], start: int, end: int, *, words: int | None = None
) -> Place | None:
    """Return where a span of a stored text stands in the file; None when that is not known.

    Lines and rows reach from the first to the last of all places in the span, rows within one sheet. The rest
    is that of its start, or of the words that it is read for.
    Cost: logarithmic in the places, linear in those of the span.

    Args:
        places: Of the document, by offset.
        start: Offset of the first character of the span.
        end: Offset after its last character.
        words: Offset of the words in it that answer.
    """
    first = bisect_right(places, start, key=_OFFSET) - 1
    if first < 0:
        return None
    inside = places[first : max(first + 1, bisect_left(places, end, key=_OFFSET))]
    read = places[bisect_right(places, start if words is None else words, key=_OFFSET) - 1]
    lined = [place for place in inside if place.line_start]
    rows = [place for place in inside if place.row_start and place.sheet == read.sheet]
    return msgspec.structs.replace(
        read,
        char_start=start,
        row_start=min((place.row_start for place in rows), default=0),
        row_end=max((place.row_end for place in rows), default=0),
        line_start=min((place.line_start for place in lined), default=0),
        line_end=max((place.line_end for place in lined), default=0),
    )
