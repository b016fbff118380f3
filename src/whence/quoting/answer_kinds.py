"""Whether a text has the kind of thing that a question asks for: a date, an amount, a person, a place.

Language decides little here: dates and numbers are read in any writing (`whence.text.values`), and names are
known by their capital, where a language writes no other nouns so. What cannot be told is left open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

import regex

from whence.text.normalization import clean, fold
from whence.text.quantities import CURRENCIES, TIMES, Quantity, names_time, quantities
from whence.text.question_words import AskedKind
from whence.text.values import find_values, month_number, without_values

_YEAR: Final = regex.compile(r"(?<![\p{N}.,])[12]\p{N}{3}(?![\p{N}])")
_CLOCK: Final = regex.compile(r"(?<!\p{N})[012]?\p{N}[:.h][0-5]\p{N}(?!\p{N})")
_HAN: Final = "[\\p{N}一二三四五六七八九十]{1,3}"
#: A month, or a day of it, in Chinese characters, in digits or words.
_MONTH_OR_DAY: Final = regex.compile(rf"{_HAN}\s?[月월](?:\s?{_HAN}\s?[日号號일])?")
#: Characters that are no parts of other words as often as numbers, as the one of 1 is.
_HAN_NUMBER: Final = frozenset("二三四五六七八九十百千万两")
_WORD: Final = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}'\u2019-]*")
_BEGINS: Final = regex.compile(r"(?:\A|[.!?:\u2026\n\"'(\u201c])[\s#>*_-]*\Z")
#: Languages that write all nouns with a capital.
_CAPITAL_NOUNS: Final = frozenset(("german",))
#: Kinds that a number answers.
NUMERIC: Final = frozenset(("amount", "duration", "price", "clock"))
#: Units that a number has when it is of a kind; a number without a unit may be of any.
_UNITS: Final[Mapping[AskedKind, frozenset[str]]] = {
    "duration": TIMES,
    "price": CURRENCIES,
    "clock": frozenset(("hour",)),
}


def holds_kind(kind: AskedKind | None, text: str, question: str, language: str) -> bool | None:
    """Return whether a text has something of the kind that its question does not name itself.

    Args:
        kind: What the question asks for.
        text: A text that may answer it.
        question: The question.
        language: Language of the text.

    Returns:
        None where that cannot be told, as for reasons and ways.

    >>> question = "When did the club play its first game?"
    >>> holds_kind("date", "The club was founded in 1959.", question, "english")
    True
    >>> holds_kind("date", "The club was founded by a smith.", question, "english")
    False
    """
    if kind == "date":
        return _has_date(text, question, language)
    if kind in NUMERIC:
        return _has_number(kind, text, question, language)
    # The absence of a name tells nothing: `the caretaker` is a person, `on the shelf` a place.
    is_named = kind in ("person", "place") and language not in _CAPITAL_NOUNS
    if is_named and not _names(text) <= {fold(one) for one in _WORD.findall(question)}:
        return True
    return None


def _has_number(kind: AskedKind, text: str, question: str, language: str) -> bool | None:
    """Return whether a text has a number that its question lacks, of a kind or of none that it shows."""
    if kind == "clock" and _CLOCK.search(clean(text)):
        return True
    known = {form for one in _counted(question, language) for form in one.forms}
    found = [one for one in _counted(text, language) if known.isdisjoint(one.forms)]
    units = _UNITS.get(kind)
    if any(units is None or not one.unit or one.unit in units for one in found):
        return True
    # Not all languages have tables of numbers in words, and none has those of clocks.
    if kind in ("amount", "duration") and names_time(text, language):
        return True
    if kind == "clock" and not found:
        return None
    counted = _numbers(_MONTH_OR_DAY.sub(" ", text), language) - _numbers(question, language)
    # A number of a price in these characters has its currency behind it.
    return not found and bool(counted - _HAN_NUMBER if kind == "price" else counted)


def _counted(text: str, language: str) -> list[Quantity]:
    """Return the numbers of a text that belong to no date; a single one in words may be an article."""
    dated = [one for one in find_values(text, (language,)) if one.kind != "number"]
    text = _MONTH_OR_DAY.sub(" ", without_values(text, dated))
    return [
        one
        for one in quantities(text, (language,))
        if not one.unit.startswith("month-") and not (one.in_words and one.forms == ("1",))
    ]


def _has_date(text: str, question: str, language: str) -> bool:
    known = _dates_of(question, language)
    months = {number for word in _WORD.findall(text) if (number := _month(word, language))}
    return bool(_dates_of(text, language) - known) or bool(months)


def _dates_of(text: str, language: str) -> set[str]:
    """Return the dates, years, times of day and days of a month that a text has, the latter without a year."""
    plain = clean(text)
    found = {
        form for one in find_values(text, (language,)) if one.kind != "number" for form in one.forms
    }
    days = (one for one in quantities(text, (language,)) if one.unit.startswith("month-"))
    found |= {f"{one.unit}-{one.forms[0]}" for one in days}
    return found | {*_YEAR.findall(plain), *_CLOCK.findall(plain), *_MONTH_OR_DAY.findall(plain)}


def _month(word: str, language: str) -> int | None:
    # A month without a year; `may` and `march` are verbs as well.
    return month_number(word, (language,)) if word[:1].isupper() and len(word) > 3 else None


def _numbers(text: str, language: str) -> set[str]:
    """Return the numbers of a text, in digits or words."""
    plain = clean(text)
    found = set(regex.findall(r"\p{N}+", plain))
    found |= {one for one in plain if one in _HAN_NUMBER}
    words = _number_words().get(language, frozenset()) | _number_words()["english"]
    return found | {folded for one in _WORD.findall(plain) if (folded := fold(one)) in words}


@cache
def _number_words() -> dict[str, frozenset[str]]:
    """Return the folded words of small numbers in each language."""
    text = resources.files("whence.text").joinpath("number_words.json").read_text("utf-8")
    return {language: frozenset(words) for language, words in json.loads(text).items()}


def _names(text: str) -> set[str]:
    """Return the folded words with a capital that begin no sentence."""
    return {
        fold(match[0])
        for match in _WORD.finditer(text)
        if match[0][0].isupper() and not _BEGINS.search(text, 0, match.start())
    }
