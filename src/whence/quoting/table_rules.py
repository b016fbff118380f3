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
#: Letters of the longest unit or currency that stands beside a number: `EUR`, `kWh`.
_UNIT_LETTERS: Final = 3


def rules_out(question: str, words: Words, span: Span) -> bool:
    """Return whether a row of a table cannot answer, whatever its words.

    Its columns are of other periods than the question names, or all its values are numbers where a person, a
    place or a date is asked for and its label has a word of the question. The dates above columns answer when
    the row shares a word with the question.

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
    labels = " ".join(span.text[slice(*row.cells[0])] for row in rows if row.cells)
    if frozenset(words.of_text(labels)).isdisjoint(words.of_question(question)):
        # The label itself may be who or what is asked for.
        return False
    values = [span.text[slice(*cell)] for row in rows for cell in row.cells[1:]]
    return bool(values) and all(map(_is_number, filter(None, values))) and any(values)


def _periods_differ(question: str, language: str, header: str, scopes: Sequence[str]) -> bool:
    """Return whether columns of a table are years, dates or parts of a year, and none is what is asked for."""
    columns = [header[slice(*cell)] for row in read_rows(header)[:1] for cell in row.cells[1:]]
    dated = [found for one in columns if (found := _times_of(one, language))]
    asked = _asked_times(question, language)
    if len(dated) < 2 or not asked:
        return False
    known = frozenset[str]().union(*(_times_of(one, language) for one in scopes))
    return asked.isdisjoint(known)


def _asked_times(question: str, language: str) -> frozenset[str]:
    """Return the times whose column answers: a day also by its month or year, a quarter only by itself."""
    forms: list[str] = []
    for one in reversed(find_values(question, (language,))):
        if one.kind != "number":
            forms += one.forms if one.kind == "period" else (*one.forms, *one.around)
            question = question[: one.start] + question[one.end :]
    return frozenset((*forms, *_YEAR.findall(clean(question))))


def _times_of(text: str, language: str) -> frozenset[str]:
    """Return the years, dates and parts of years of a text in one form, with the years around them."""
    found = [one for one in find_values(text, (language,)) if one.kind != "number"]
    forms = (form for one in found for form in (*one.forms, *one.around))
    return frozenset((*forms, *_YEAR.findall(clean(text))))


def _is_number(cell: str) -> bool:
    """Return whether a cell has digits and at most a unit or sign beside them, and is no date."""
    letters = sum(map(str.isalpha, cell))
    return any(map(str.isdigit, cell)) and letters <= _UNIT_LETTERS and not _YEAR.fullmatch(cell)
