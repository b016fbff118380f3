"""Rows of tables that cannot answer a question: of other periods, or of numbers where none is asked for.

In: a question and a unit of a passage. Out: whether the unit is left out before anything is read or scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import regex

from whence.quoting.evidence_spans import Span
from whence.quoting.tables import header_of, read_rows
from whence.text.normalization import clean
from whence.text.overlap import Words
from whence.text.question_words import asked_kind
from whence.text.values import find_values

_YEAR: Final = regex.compile(r"(?<![\p{N}.,])(?:19|20)\p{N}{2}(?![\p{N}]|[.,]\p{N})")
#: A day in its one form.
_DAY: Final = regex.compile(r"\d{4}-\d\d-\d\d")
#: Letters of the longest unit or currency that stands beside a number: `EUR`, `kWh`.
_UNIT_LETTERS: Final = 3


def rules_out(question: str, words: Words, span: Span) -> bool:
    """Return whether a row of a table cannot answer, whatever its words.

    Its columns are of other periods than the question names, or all its values are numbers where a person, a
    place or a date is asked for. The dates above columns answer when the row shares a word with the question.

    Args:
        question: The question.
        words: Reads both.
        span: Any unit; only rows are ruled out.
    """
    if span.unit.kind not in ("row", "table"):
        return False
    header = span.unit.context[-1] if span.unit.kind == "row" and span.unit.context else ""
    scopes = (*span.scopes, span.source)
    if _periods_differ(question, words.language, header or header_of(span.text), scopes):
        return True
    kind = asked_kind(question, words.asked)
    if kind not in ("person", "place", "date"):
        return False
    if kind == "date" and span.terms & frozenset(words.of_question(question)):
        return False
    rows = read_rows(span.text)[bool(header_of(span.text)) :]
    values = [span.text[slice(*cell)] for row in rows for cell in row.cells[1:]]
    return bool(values) and all(map(_is_number, filter(None, values))) and any(values)


def _periods_differ(question: str, language: str, header: str, scopes: Sequence[str]) -> bool:
    """Return whether columns of a table are years, dates or parts of a year, and none is what is asked for."""
    columns = [header[slice(*cell)] for row in read_rows(header)[:1] for cell in row.cells[1:]]
    dated = [found for one in columns if (found := _times_of(one, language))]
    asked = _times_of(question, language)
    if len(dated) < 2 or not asked:
        return False
    known = frozenset[str]().union(*(_times_of(one, language) for one in scopes))
    # The balance on a day is in the column of its year; the result of a quarter is not.
    named = {one for one in asked if not _DAY.fullmatch(one)}
    finest = {one for one in named if not any(other.startswith(f"{one}-") for other in named)}
    return finest.isdisjoint(known)


def _times_of(text: str, language: str) -> frozenset[str]:
    """Return the years, dates and parts of years of a text in one form, with the years around them."""
    found = [one for one in find_values(text, (language,)) if one.kind != "number"]
    forms = (form for one in found for form in (*one.forms, *one.around))
    return frozenset((*forms, *_YEAR.findall(clean(text))))


def _is_number(cell: str) -> bool:
    """Return whether a cell has digits and at most a unit or sign beside them, and is no date."""
    letters = sum(map(str.isalpha, cell))
    return any(map(str.isdigit, cell)) and letters <= _UNIT_LETTERS and not _YEAR.fullmatch(cell)
