"""Spans: the units of passages that can be an answer, each as its author wrote it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from whence.models.protocols import WriteRequest
from whence.quoting.tables import AskedCells, asked_cells, read_rows
from whence.quoting.units import FENCE_LINE, LABEL, MAX_WORDS, Unit, split_units
from whence.text.overlap import Words
from whence.text.scripts import UNSPACED_RUN, count_words
from whence.text.sentences import split_sentences

_MIN_LETTERS = 8
#: A text of no more words that its headings have, too, says nothing.
_TITLE_WORDS = 12
#: A heading above the entries of an index, which say where to read of a name.
_INDEX = re.compile(r"\bindex(?: [-\u2013] \w{1,7})?\Z", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?:][\"')\]`*]*(?=\s|\Z)")
#: Kinds of units that are read sentence by sentence.
_OF_SENTENCES = frozenset(("prose", "item", "section"))
#: Words of a window that a long paragraph is narrowed to.
_WINDOW = 60
#: Most words of a unit that is quoted in place of a part of it.
_WHOLE = 60


#: Passage, start and end of a span.
Key = tuple[int, int, int]


class Span(NamedTuple):
    """One unit of a passage that may answer."""

    document: int
    """Place of its passage, from 0."""
    unit: Unit
    text: str
    """Verbatim from the passage."""
    section: str
    """Titles and headings above its passage."""
    terms: frozenset[str]
    above: frozenset[str]
    """Terms of section, context and source."""
    source: str = ""
    """What is known of its document beside the text: its id, version and date."""

    @property
    def key(self) -> Key:
        """Passage, start and end."""
        return self.document, self.unit.start, self.unit.end

    @property
    def scopes(self) -> tuple[str, ...]:
        """The text, then what stands above it, the nearest first."""
        return (self.text, *reversed(self.unit.context), self.section)


def all_spans(request: WriteRequest, words: Words) -> list[Span]:
    """Return the units of all passages that can be an answer; long paragraphs as windows of their sentences.

    Args:
        request: Passages with the headings above them.
        words: Reads the terms of both.
    """
    without = ("",) * len(request.documents)
    sections, sources = request.sections or without, request.sources or without
    leads = request.leads or without
    spans = []
    for number, (text, section, source, lead) in enumerate(
        zip(request.documents, sections, sources, leads, strict=True)
    ):
        headings = tuple(filter(None, section.split(" > ")))
        titles = frozenset(words.of_text(section))
        known = titles.union(words.of_text(source))
        # A passage without a title is its own heading, and still says something.
        is_own_title = frozenset(words.of_text(text)) <= titles
        head = 0
        # A text that is its own title is no heading.
        split = partial(split_units, is_preformatted=number + 1 in request.preformatted)
        for unit in _units_below(lead, text, headings, split) or split(text):
            for one in _narrowed(text, unit):
                content = text[one.start : one.end]
                terms = frozenset(words.of_text(content))
                repeats = count_words(content) <= _TITLE_WORDS and terms <= titles
                if (repeats and not is_own_title) or _letters(content) < _MIN_LETTERS:
                    continue
                if one.kind == "item" and one.start < head:
                    continue
                if one.kind == "prose" and _labels_title(content, titles, words):
                    head = one.end
                if _INDEX.search(section) and not _SENTENCE_END.search(content):
                    continue
                above = known.union(words.of_text(" ".join(one.context)))
                spans.append(Span(number, one, content, section, terms, above, source))
    return spans


def _units_below(
    lead: str, text: str, headings: Sequence[str], split: Callable[..., list[Unit]]
) -> list[Unit]:
    """Return the units of a text that continues what its lead begins; the lead is context of the first ones."""
    if not lead:
        return split(text, headings)
    offset = len(lead) + 1
    found: dict[tuple[int, int], Unit] = {}
    for unit in split(f"{lead}\n{text}", headings):
        start, end = unit.start - offset, unit.end - offset
        if end <= 0:
            continue
        above = (*unit.context, lead) if start < 0 else unit.context
        found.setdefault((max(0, start), end), Unit(max(0, start), end, unit.kind, above))
    return list(found.values())


def asked_rows(
    questions: Sequence[str], spans: Sequence[Span], words: Words
) -> Mapping[Key, AskedCells]:
    """Return the rows of tables that a question asks for, by passage, start and end."""
    tables: defaultdict[tuple[int, tuple[str, ...]], list[Span]] = defaultdict(list)
    for span in spans:
        if span.unit.kind == "row":
            tables[span.document, span.unit.context].append(span)
    found = {}
    for (document, context), rows in tables.items():
        if len(rows) == 1:
            continue  # the only one is asked for whatever the question
        header = read_rows(context[-1])[-1:] if context else []
        named = [context[-1][slice(*cell)] for row in header for cell in row.cells]
        cells = [
            [one.text[slice(*cell)] for row in read_rows(one.text) for cell in row.cells]
            for one in rows
        ]
        for question in questions:
            asked = asked_cells(question, words, named, cells)
            for at in asked.rows:
                unit = rows[at].unit
                found[document, unit.start, unit.end] = asked
    return found


def _labels_title(text: str, titles: frozenset[str], words: Words) -> bool:
    """Return whether one of the lines is the title with a label, as in the head of a mail.

    Its lines are no units of their own: the date of a mail is not that of what it is about.
    """
    values = (line[label.end() :] for line in text.split("\n") if (label := LABEL.match(line)))
    said = (frozenset(words.of_text(one)) for one in values)
    return any(one and one <= titles for one in said)


def _letters(text: str) -> int:
    """Return the number of letters and digits; a character of a script without spaces says as much as three."""
    characters = 0 if text.isascii() else sum(map(len, UNSPACED_RUN.findall(text)))
    return sum(map(str.isalnum, text)) + 2 * characters


def _narrowed(text: str, unit: Unit) -> Iterator[Unit]:
    """Yield a unit, or of a long one each stretch of whole sentences that is short."""
    content = text[unit.start : unit.end]
    if unit.kind in ("code", "table", "list") or count_words(content) <= MAX_WORDS:
        yield unit
        return
    sentences = split_sentences(content)
    reached = 0
    for place, first in enumerate(sentences):
        end, words = first.end, 0
        for sentence in sentences[place:]:
            words += count_words(content[sentence.start : sentence.end])
            if words > _WINDOW and sentence is not first:
                break
            end = sentence.end
        fences = len(FENCE_LINE.findall(content, first.start, end))
        if end > reached and fences % 2 == 0:
            reached = end
            yield unit._replace(start=unit.start + first.start, end=unit.start + end)


def sentences_of(spans: Sequence[Span], words: Words) -> list[Span]:
    """Return the sentences of spans, each once and in order; tables, code and definitions stay whole.

    A model that tells sentences from one another tells an answer from its neighbours, which a paragraph hides.
    """
    found: dict[Key, Span] = {}
    for span in spans:
        sentences = split_sentences(span.text) if span.unit.kind in _OF_SENTENCES else []
        inside = [one for one in sentences if one.kind in ("prose", "item")]
        if len(inside) < 2 or len(inside) < len(sentences):
            found.setdefault(span.key, span)
            continue
        for one in inside:
            start, end = span.unit.start + one.start, span.unit.start + one.end
            text = span.text[one.start : one.end]
            unit = span.unit._replace(start=start, end=end)
            part = span._replace(unit=unit, text=text, terms=frozenset(words.of_text(text)))
            found.setdefault(part.key, part)
    return list(found.values())


def overlaps(a: Span, b: Span) -> bool:
    """Return whether two spans have characters in common."""
    return a.document == b.document and a.unit.start < b.unit.end and b.unit.start < a.unit.end


def whole_around(spans: Sequence[Span], one: Span) -> Span:
    """Return the longest short unit that contains a span: what its author wrote together is read together.

    A definition may be longer than others: its parts say little without one another.
    """
    around = [
        other
        for other in spans
        if other.document == one.document
        and other.unit.start <= one.unit.start
        and one.unit.end <= other.unit.end
        and count_words(other.text) <= (MAX_WORDS if other.unit.kind == "definition" else _WHOLE)
    ]
    return max(around, key=lambda other: len(other.text), default=one)
