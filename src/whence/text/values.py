"""Numbers, dates and periods of a text in one form each, whatever their writing.

`1,250,000`, `1.250.000` and `1 250 000` are `1250000`; `3 February 2026`, `3. Februar 2026` and `03.02.2026`
are `2026-02-03`; `2Q23` and `second quarter of 2023` are `2023-q2`. A day is also a day of its month, a quarter
one of its year. A date whose day and month could be either way round is both.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Final, Literal, NamedTuple

import regex

from whence.text.normalization import clean, fold
from whence.text.scripts import TOUCHING

ValueKind = Literal["number", "date", "period"]

_OTHER_DIGIT: Final = regex.compile(r"[\p{Nd}--[0-9]]", regex.V1)
#: Separators of thousands: those of English, German, Swiss and Arabic writing.
_GROUP: Final = "[,.'\u2019\u066c]"
_GROUPED: Final = regex.compile(
    rf"(?<!{TOUCHING})(?<![.,])\d{{1,3}}+(?:(?P<mark>{_GROUP})\d{{3}}(?:(?P=mark)\d{{3}})*|(?:[\u00a0\u2009\u202f]\d{{3}})+|(?:\ \d{{3}}){{2,}}"
    rf"|(?:,\d{{2}})+,\d{{3}})(?P<part>[.,\u066b]\d+)?(?!{TOUCHING}|[.,]\d)",
    regex.V1,
)
_DECIMAL: Final = regex.compile(
    rf"(?<!{TOUCHING})(?<![.,])(\d+)[,\u066b](\d+)(?!{TOUCHING}|[.,]\d)", regex.V1
)
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_ANY_YEAR: Final = regex.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_DAY: Final = r"(?P<day>[0-3]?\d)"
_WORD: Final = r"(?P<month>[\p{L}\p{M}][\p{L}\p{M}.]{1,16})"
#: A word of at most three letters between the parts of a date: `of`, `de`, `del`.
_LINK: Final = r"(?:\p{L}{1,3}\s+)?"
#: What a date may be written as; the first that fits counts.
_DATES: Final = tuple(
    regex.compile(rf"(?<![\w.-]){pattern}", regex.IGNORECASE)
    for pattern in (
        rf"{_YEAR}[-/.](?P<month>[01]?\d)[-/.]{_DAY}(?![\d])",
        rf"{_YEAR}\s?[年년]\s?(?P<month>[01]?\d)\s?[月월](?:\s?{_DAY}\s?[日일])?",
        rf"{_DAY}[./-]\s?(?P<month>[01]?\d)[./-]\s?{_YEAR}(?!\d)",
        rf"{_DAY}(?:st|nd|rd|th|er|[.º°])?\s+{_LINK}{_WORD},?\s+{_LINK}{_YEAR}(?!\d)",
        rf"{_WORD}\s+{_DAY}(?:st|nd|rd|th)?,?\s+{_YEAR}(?!\d)",
        rf"{_WORD},?\s+{_LINK}{_YEAR}(?!\d)",
        rf"{_YEAR}-(?P<month>[01]\d)(?![\w-])",
        rf"(?P<month>[01]?\d)/{_YEAR}(?![\w/])",
    )
)
#: Characters before and after a year that may belong to its date.
_BEFORE: Final = 40
_AFTER: Final = 12
#: Year and part of a year: `FY2023`, `FY23`, `Q2 2023`, `2Q23`, `H1/2024`, `FY2023Q1`.
_SHORT_YEAR: Final = r"'?(?P<year>(?:19|20)\d\d|\d\d)"
_PERIODS: Final = tuple(
    regex.compile(rf"(?<![\w.-]){pattern}(?!\w|[.,-]\d)", regex.IGNORECASE)
    for pattern in (
        rf"(?P<unit>[QH])(?P<part>[1-4])[\s/-]{{0,2}}(?:FY|CY)?\s?{_SHORT_YEAR}",
        rf"(?P<part>[1-4])(?P<unit>[QH])[\s/-]{{0,2}}(?:FY|CY)?\s?{_SHORT_YEAR}",
        r"(?:FY|CY)?\s?(?P<year>(?:19|20)\d\d|(?<=[FC]Y\s?)\d\d)\s?[-/]?\s?(?P<unit>[QH])(?P<part>[1-4])",
        rf"(?:FY|CY)[\s-]?{_SHORT_YEAR}",
    )
)
_ORDINALS: Final = (
    ("first", "1st", "erste[ns]?", "1", "premier", "1er", "primer"),
    ("second", "2nd", "zweite[ns]?", "2", "deuxieme", "2e", "segundo"),
    ("third", "3rd", "dritte[ns]?", "3", "troisieme", "3e", "tercer"),
    ("fourth", "4th", "vierte[ns]?", "4", "quatrieme", "4e", "cuarto"),
)
_ORDINAL: Final = "|".join(f"(?P<q{n}>{'|'.join(some)})" for n, some in enumerate(_ORDINALS, 1))
#: A quarter in words, in the languages of the interface.
_QUARTER: Final = regex.compile(
    rf"(?<![\w.])(?:{_ORDINAL})"
    rf"\.?[\s-]+(?:quarter|quartals?|trimestre)(?:\s+\p{{L}}+){{0,3}}?\s+{_YEAR}(?!\d)"
)
#: What each of the patterns of periods contains, and each quarter in words; most texts have none.
_PERIOD_HINT: Final = re.compile(r"[QHqh][1-4]|[1-4][QHqh]|[FCfc][Yy][\s-]?'?\d")
_QUARTER_WORDS: Final = ("quart", "trimestre")
#: First two-digit year of the last century.
_CENTURY: Final = 70
#: Least letters of a beginning that stands for the name of a month.
_BEGINNING: Final = 4


class Value(NamedTuple):
    """A number, date or period of a text."""

    kind: ValueKind
    forms: tuple[str, ...]
    """Its form, or its forms where it can be read in two ways."""
    around: tuple[str, ...]
    """The month of a day, the year of a month or period."""
    start: int
    end: int
    """Offsets in the text."""


def find_values(text: str, languages: Iterable[str] = ("english",)) -> list[Value]:
    """Return the dates, periods and grouped or decimal numbers of a text, in order, not overlapping.

    Args:
        text: Any text.
        languages: Languages whose names of months count beside the English ones.

    >>> [one.forms for one in find_values("3. Februar 2026, 2Q23 and 1.250.000", ["german"])]
    [('2026-02-03',), ('2023-q2',), ('1250000',)]
    """
    if not any(map(str.isdecimal, text)):
        return []
    known = tuple(dict.fromkeys((*languages, "english")))
    text = _plain_digits(text)
    found: list[Value] = []
    taken: list[tuple[int, int]] = []
    for one in (*_dates(text, known), *_periods(text), *_numbers(text)):
        if all(one.end <= start or end <= one.start for start, end in taken):
            found.append(one)
            taken.append((one.start, one.end))
    return sorted(found, key=lambda one: one.start)


def without_values(text: str, values: Iterable[Value]) -> str:
    """Return a text with spaces in place of some of its values; all other offsets stay.

    >>> without_values("by 3 May 2026", find_values("by 3 May 2026"))
    'by           '
    """
    for one in values:
        text = text[: one.start] + " " * (one.end - one.start) + text[one.end :]
    return text


def _plain_digits(text: str) -> str:
    """Return a text with ASCII digits, of the same length."""
    if text.isascii():
        return text
    return _OTHER_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)


def value_terms(text: str, languages: Sequence[str] = ("english",)) -> list[str]:
    """Return the index terms of the values of a text: each form, and the months of days."""
    return [
        term
        for one in find_values(text, languages)
        for term in (*one.forms, *(around for around in one.around if not around.isdecimal()))
    ]


def month_number(word: str, languages: Iterable[str]) -> int | None:
    """Return the number of a month by its name or abbreviation in any of some languages.

    >>> month_number("Février", ["french"]), month_number("Sept.", ["english"])
    (2, 9)
    """
    name = fold(clean(word)).strip(".")
    tables = [_months().get(language, {}) for language in languages]
    for table in tables:
        if name in table:
            return table[name]
    if len(name) >= _BEGINNING:
        for table in tables:
            numbers = {number for full, number in table.items() if full.startswith(name)}
            if len(numbers) == 1:
                return numbers.pop()
    return None


@cache
def _months() -> dict[str, dict[str, int]]:
    """Return the numbers of months by folded name, for each language, from Unicode's CLDR."""
    text = (resources.files(__package__) / "calendar_words.json").read_text("utf-8")
    tables: dict[str, dict[str, int]] = json.loads(text)
    return tables


def _dates(text: str, languages: Sequence[str]) -> Iterator[Value]:
    reached = 0
    for year in _ANY_YEAR.finditer(text):
        start, end = max(reached, year.start() - _BEFORE), year.end() + _AFTER
        value = _date_around(text, start, end, year.start(), languages)
        if value is not None:
            reached = value.end
            yield value


def _date_around(
    text: str, start: int, end: int, year: int, languages: Sequence[str]
) -> Value | None:
    for pattern in _DATES:
        for match in pattern.finditer(text, start, end):
            if match.start("year") != year:
                continue
            forms = _date_forms(match, languages)
            if forms:
                months = dict.fromkeys(form[:7] for form in forms)
                around = (
                    (*months, match["year"]) if len(forms[0]) > len("2026-02") else (match["year"],)
                )
                return Value("date", forms, around, match.start(), match.end())
    return None


def _date_forms(match: regex.Match[str], languages: Sequence[str]) -> tuple[str, ...]:
    parts = match.groupdict()
    year, named = parts["year"], parts["month"]
    month = int(named) if named.isdecimal() else month_number(named, languages)
    if month is None:
        return ()
    if parts.get("day") is None:
        return (f"{year}-{month:02}",) if 1 <= month <= 12 else ()
    day = int(parts["day"])
    pairs = [(month, day)]
    if named.isdecimal() and match.start("day") < match.start("year"):
        # Day and month, or month and day: `03/04/2026` is written in both ways.
        marks = _between(match)
        pairs += [(day, month)] if "/" in marks or month > 12 else []
    forms = (f"{year}-{m:02}-{d:02}" for m, d in pairs if 1 <= m <= 12 and 1 <= d <= 31)
    return tuple(dict.fromkeys(forms))


def _between(match: regex.Match[str]) -> str:
    """Return what stands between the parts of a date of numbers."""
    return match.string[match.end("day") : match.start("year")]


def _periods(text: str) -> Iterator[Value]:
    for pattern in _PERIODS if _PERIOD_HINT.search(text) else ():
        for match in pattern.finditer(text):
            parts = match.groupdict()
            year = parts["year"]
            if len(year) == 2:
                year = f"{20 if int(year) < _CENTURY else 19}{year}"
            part = parts.get("part")
            if part and parts["unit"].lower() == "h" and int(part) > 2:
                continue
            form = f"{year}-{parts['unit'].lower()}{part}" if part else year
            yield Value("period", (form,), (year,) if part else (), match.start(), match.end())
    if not _ANY_YEAR.search(text):
        return
    folded = fold(text)
    # Offsets hold only where folding keeps the length.
    if len(folded) == len(text) and any(word in folded for word in _QUARTER_WORDS):
        for match in _QUARTER.finditer(folded):
            number = next(n for n in range(1, 5) if match[f"q{n}"])
            year = match["year"]
            yield Value("period", (f"{year}-q{number}",), (year,), match.start(), match.end())


def _numbers(text: str) -> Iterator[Value]:
    for match in _GROUPED.finditer(text):
        part = match["part"]
        whole = match[0][: len(match[0]) - len(part or "")]
        digits = "".join(filter(str.isdecimal, whole))
        form = digits + (f".{part[1:]}" if part else "")
        yield Value("number", (form,), (), match.start(), match.end())
    for match in _DECIMAL.finditer(text):
        yield Value("number", (f"{match[1]}.{match[2]}",), (), match.start(), match.end())
