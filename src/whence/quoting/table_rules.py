"""Rows of tables that cannot answer a question: of other periods, or of numbers where none is asked for.

In: a question and units of passages. Out: whether a unit is left out before anything is read or scored.
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
from whence.text.values import find_values, without_values

_YEAR: Final = regex.compile(r"(?<![\p{N}.,])(?:19|20)\p{N}{2}(?![\p{N}]|[.,]\p{N})")
#: Letters of the longest unit or currency that stands beside a number: `EUR`, `kWh`.
_UNIT_LETTERS: Final = 3


class RowRules:
    """What rules out rows of tables for one question.

    Cost: the question is read once, and each header, heading and text once.

    Args:
        question: The question.
        words: Reads it and the documents.
    """

    def __init__(self, question: str, words: Words) -> None:
        self._words = words
        self._kind = asked_kind(question, words.asked)
        self._terms = frozenset(words.of_question(question))
        self._asked_times = _asked_times(question, words.language)
        self._times: dict[str, frozenset[str]] = {}

    def rule_out(self, span: Span) -> bool:
        """Return whether a row of a table cannot answer, whatever its words; no other unit is ruled out.

        Its columns are of other periods than the question names, or all its values are numbers where a person,
        a place or a date is asked for and its label has a word of the question. The dates above columns answer
        when the row shares a word with the question.
        """
        if span.unit.kind not in ("row", "table"):
            return False
        own_header = header_of(span.text)
        above = span.unit.context[-1] if span.unit.kind == "row" and span.unit.context else ""
        if self._periods_differ(above or own_header, (*span.scopes, span.source)):
            return True
        if self._kind not in ("person", "place", "date"):
            return False
        if self._kind == "date" and not span.terms.isdisjoint(self._terms):
            return False
        rows = read_rows(span.text)[bool(own_header) :]
        labels = " ".join(span.text[slice(*row.cells[0])] for row in rows if row.cells)
        if self._terms.isdisjoint(self._words.of_text(labels)):
            # The label itself may be who or what is asked for.
            return False
        values = [span.text[slice(*cell)] for row in rows for cell in row.cells[1:]]
        return any(values) and all(map(_is_number, filter(None, values)))

    def _periods_differ(self, header: str, scopes: Sequence[str]) -> bool:
        """Return whether two columns or more are of years, dates or parts of one, and none of those asked."""
        if not self._asked_times:
            return False
        columns = [header[slice(*cell)] for row in read_rows(header)[:1] for cell in row.cells[1:]]
        if sum(map(bool, map(self._times_of, columns))) < 2:
            return False
        return all(self._asked_times.isdisjoint(self._times_of(one)) for one in scopes)

    def _times_of(self, text: str) -> frozenset[str]:
        """Return the years, dates and parts of years of a text in one form, with the years around them."""
        if text not in self._times:
            values = find_values(text, (self._words.language,))
            found = [one for one in values if one.kind != "number"]
            forms = (form for one in found for form in (*one.forms, *one.around))
            self._times[text] = frozenset((*forms, *_YEAR.findall(clean(text))))
        return self._times[text]


def _asked_times(question: str, language: str) -> frozenset[str]:
    """Return the times whose column answers: a day also by its month or year, a quarter only by itself."""
    found = [one for one in find_values(question, (language,)) if one.kind != "number"]
    forms = [
        form
        for one in found
        for form in (one.forms if one.kind == "period" else (*one.forms, *one.around))
    ]
    return frozenset((*forms, *_YEAR.findall(clean(without_values(question, found)))))


def _is_number(cell: str) -> bool:
    """Return whether a cell has digits and at most a unit or sign beside them, and is no date."""
    letters = sum(map(str.isalpha, cell))
    return any(map(str.isdigit, cell)) and letters <= _UNIT_LETTERS and not _YEAR.fullmatch(cell)
