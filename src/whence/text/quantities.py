"""Numbers of a text with their units: `27 days`, `$20`, `thirty-five per cent`, `27 March`, `五百円`.

A number has one form however it is written (`values`), and a unit one name in all languages
(`unit_words.json`). A currency without a name of its own there is `money` (`money_words.json`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any, Final, NamedTuple

import regex

from whence.text.normalization import clean, fold, snowball_stem
from whence.text.scripts import TOUCHING, UNSPACED
from whence.text.values import find_values, month_number

_NUMBER: Final = regex.compile(
    rf"(?<!{TOUCHING})(?<![.,:])(?:\d{{1,3}}(?:(?:,\d{{3}})+|(?:_\d{{3}})+)(?![\d,_])|\d+(?:[.:]\d+)*)",
    regex.V1,
)
#: Numbers in characters of China, up to ten thousands.
_HAN_NUMBER: Final = regex.compile(r"[\u3007一二两三四五六七八九十百千万]+")
_HAN_DIGITS: Final = {one: value for value, one in enumerate("\u3007一二三四五六七八九")} | {
    "两": 2
}
_HAN_TENS: Final = {"十": 10, "百": 100, "千": 1000}
_WORD: Final = regex.compile(r"[\p{L}\p{M}]+|[%\u2030\p{Sc}]|\u00b0[CF]?")
_SIGN: Final = regex.compile(r"\p{Sc}")
_LATIN: Final = regex.compile(r"\p{Latin}")
_WORDS: Final = regex.compile(r"[\p{L}\p{M}]+")
_SIGNS: Final[dict[str, str]] = {
    "%": "percent",
    "\u20ac": "eur",
    "$": "usd",
    "\u00a3": "gbp",
    "\u00a5": "jpy",
    "\u00b0": "degree",
}
_CODES: Final = frozenset(["eur", "usd", "gbp", "chf", "jpy", "cny", "inr", "pln", "sek", "czk"])
#: Words behind a time of day by language, the symbol of the hour in all; no unit of CLDR.
_CLOCK: Final = {
    "english": ("am", "pm"),
    "german": ("uhr",),
    "chinese": ("\u70b9", "\u9ede"),
    "japanese": ("\u6642",),
    "korean": ("\uc2dc",),
}
#: A currency that has no name of its own here.
MONEY: Final = "money"
#: What the unit of a price is.
CURRENCIES: Final = _CODES | {MONEY}
#: Words of a number at most, `ninety nine` or `quatre vingt dix neuf`.
_MOST_WORDS: Final = 4
#: Units of time.
TIMES: Final = frozenset(("second", "minute", "hour", "day", "week", "month", "year", "night"))
#: Least letters of a name that a longer word may have within it.
_WITHIN: Final = 4
#: Characters between a number and its unit at most, and words between them.
_REACH: Final = 24
#: Letters of the word that links a day with its month at most.
_LINK: Final = 3
#: Characters of the longest name of a unit in a script without spaces.
_LONGEST_UNIT: Final = 8
#: Languages in which the name of a month has a capital; there `may` is none.
CAPITAL_MONTHS: Final = frozenset(("english", "german"))


class Quantity(NamedTuple):
    """A number of a text."""

    forms: tuple[str, ...]
    """Its form, or its forms where it can be read in two ways; that of a date has `-`."""
    unit: str
    """Name of its unit, or `month-N` of a day; empty when it has none."""
    in_words: bool
    start: int
    end: int

    @property
    def value(self) -> float | None:
        """The number; None for a date and other forms."""
        try:
            return float(self.forms[0])
        except ValueError:
            return None

    def agrees(self, other: Quantity) -> bool:
        """Return whether both are one number, and no unit says otherwise."""
        same = not set(self.forms).isdisjoint(other.forms)
        return same and (not (self.unit and other.unit) or self.unit == other.unit)


def quantities(text: str, languages: Sequence[str]) -> list[Quantity]:
    """Return the numbers of a text, in order; a date also stands as a day of its month, and its parts.

    Args:
        text: Any text.
        languages: Languages whose words count beside the English ones.

    >>> [(*one.forms, one.unit) for one in quantities("thirty-five days, \u20ac1,200.50, 20%", ["english"])]
    [('35', 'day'), ('1200.5', 'eur'), ('20', 'percent')]
    >>> [one.forms for one in quantities("1_000 of 2_500_000", ["english"])]
    [('1000',), ('2500000',)]
    """
    known = tuple(dict.fromkeys((*languages, "english")))
    plain = clean(text)
    text = plain if len(plain) == len(text) else text
    found: list[Quantity] = []
    taken: list[tuple[int, int]] = []
    for one in find_values(text, known):
        taken.append((one.start, one.end))
        unit = _unit(text, one.start, one.end, known) if one.kind == "number" else ""
        forms = tuple(map(_plain_form, one.forms))
        found.append(Quantity(forms, unit, False, one.start, one.end))
        for form in one.forms if one.kind == "date" else ():
            _year, _, rest = form.partition("-")
            month, _, day = rest.partition("-")
            if day:
                unit = f"month-{int(month)}"
                found.append(Quantity((str(int(day)),), unit, False, one.start, one.end))
        found += [Quantity((part,), "", False, one.start, one.end) for part in one.around]
    for match in _NUMBER.finditer(text):
        if not any(start < match.end() and match.start() < end for start, end in taken):
            unit = _unit(text, *match.span(), known)
            form = _plain_form(match[0].replace(",", "").replace("_", ""))
            found.append(Quantity((form,), unit, False, *match.span()))
    for match in _HAN_NUMBER.finditer(text):
        # Without a unit these characters are parts of words.
        if unit := _unit(text, *match.span(), known):
            form = str(_han_number(match[0]))
            found.append(Quantity((form,), unit, True, *match.span()))
    for value, start, end in _in_words(text, known):
        found.append(Quantity((str(value),), _unit(text, start, end, known), True, start, end))
    return sorted(found, key=lambda one: one.start)


def names_time(text: str, language: str) -> bool:
    """Return whether a text names a unit of time, as a word or within one.

    >>> names_time("z dwutygodniowym terminem", "polish"), names_time("dwa psy", "polish")
    (True, False)
    """
    named = _table("unit_words.json").get(language, {})
    names = [name for name, unit in named.items() if unit in TIMES and len(name) >= _WITHIN]
    words = {fold(one) for one in _WORDS.findall(clean(text))}
    return any(name in word for word in words for name in names)


def _plain_form(form: str) -> str:
    """Return the form of a number without what does not count: `20.50` is `20.5`, `007` is `7`."""
    whole, dot, part = form.partition(".")
    if not whole.isdecimal() or (dot and not part.isdecimal()):
        return form
    part = part.rstrip("0")
    return f"{int(whole)}.{part}" if part else str(int(whole))


def _han_number(text: str) -> int:
    """Return the value of a number in characters of China.

    >>> _han_number("五百"), _han_number("二万三千"), _han_number("十七")
    (500, 23000, 17)
    """
    total = section = digit = 0
    for one in text:
        if one == "万":
            total, section, digit = total + max(1, section + digit) * 10_000, 0, 0
        elif one in _HAN_TENS:
            section, digit = section + max(1, digit) * _HAN_TENS[one], 0
        else:
            digit = 10 * digit + _HAN_DIGITS[one]
    return total + section + digit


def _in_words(text: str, languages: tuple[str, ...]) -> Iterator[tuple[int, int, int]]:
    """Yield the numbers in words, the longest first: value, start, end."""
    words = [(fold(match[0]), match.start(), match.end()) for match in _WORDS.finditer(text)]
    values, firsts = _number_words(languages)
    place = 0
    while place < len(words):
        most = min(_MOST_WORDS, len(words) - place) if words[place][0] in firsts else 0
        for count in range(most, 0, -1):
            some = words[place : place + count]
            value = values.get(" ".join(one[0] for one in some))
            gaps = [text[a[2] : b[1]] for a, b in pairwise(some)]
            if value is not None and not any(gap.strip(" -\u2010\u2011\u00a0") for gap in gaps):
                yield value, some[0][1], some[-1][2]
                place += count - 1
                break
        place += 1


@cache
def _number_words(languages: tuple[str, ...]) -> tuple[dict[str, int], frozenset[str]]:
    """Return the numbers by their words, of the first language that has them, and their first words."""
    tables = _table("number_values.json")
    values: dict[str, int] = {}
    for language in reversed(languages):
        values.update(tables.get(language, {}))
    return values, frozenset(words.partition(" ")[0] for words in values)


def _unit(text: str, start: int, end: int, languages: Sequence[str]) -> str:
    """Return the unit of a number: behind it, with at most one word between, or a sign or month in front."""
    behind = [*_WORD.finditer(text, end, min(len(text), end + _REACH))][:2]
    for place, match in enumerate(behind):
        gap = text[end if place == 0 else behind[0].end() : match.start()]
        if gap.strip(" \u00a0\u202f-.") or (place and "." in gap):
            break
        if unit := _name_of(match[0], languages, near=place == 0):
            return unit
        # `17 de mayo`
        if place and len(behind[0][0]) <= _LINK and (unit := _month(match[0], languages)):
            return unit
    before = [*_WORD.finditer(text, max(0, start - _REACH), start)][-1:]
    for match in before:
        if not text[match.end() : start].strip(" \u00a0\u202f."):
            word: str = match[0]
            if word in _SIGNS or word.lower() in _CODES:
                return _SIGNS.get(word, word.lower())
            return _month(word, languages) or (MONEY if _SIGN.match(word) else "")
    return ""


def _name_of(word: str, languages: Sequence[str], *, near: bool) -> str:
    if word in _SIGNS or _SIGN.match(word):
        return _SIGNS.get(word, MONEY)
    lowered = fold(word)
    if near and UNSPACED.match(word):
        return _begins_with_unit(lowered, languages)
    if near and (lowered == "h" or lowered in _CLOCK.get(languages[0], ())):
        return "hour"
    if lowered in _CODES and word.isupper():
        return lowered
    if near and (month := _month(word, languages)):
        return month
    for language in languages:
        table = _units(language)
        unit = table.get(lowered)
        if unit is None and len(lowered) > 3 and near:
            unit = table.get(snowball_stem(word, language))
        if unit is not None and (len(lowered) > 2 or near):
            return unit
        if near and not {lowered, snowball_stem(word, language)}.isdisjoint(_money(language)):
            return MONEY
    # A few words may not show their language.
    return _units_of_any_language().get(lowered, "") if near and len(lowered) > 3 else ""


def _begins_with_unit(run: str, languages: Sequence[str]) -> str:
    """Return the unit that a sequence in a script without spaces begins with, by its longest name."""
    if month := _month(run, languages):
        return month
    for language in languages:
        units, money = _units(language), _money(language)
        for end in range(min(len(run), _LONGEST_UNIT), 0, -1):
            if run[:end] in units:
                return units[run[:end]]
            if run[:end] in money:
                return MONEY
    return "hour" if run.startswith(_CLOCK.get(languages[0], ())) else ""


@cache
def _money(language: str) -> frozenset[str]:
    """Return the folded words of money of a language, and their stems."""
    words = _table("money_words.json").get(language, [])
    return frozenset((*words, *(snowball_stem(one, language) for one in words)))


def _month(word: str, languages: Sequence[str]) -> str:
    if (len(word) < 3 and _LATIN.match(word)) or (
        languages[0] in CAPITAL_MONTHS and not word[0].isupper()
    ):
        return ""
    number = month_number(word, languages)
    return f"month-{number}" if number else ""


@cache
def _units(language: str) -> dict[str, str]:
    """Return the units of a language by folded name and by its stem."""
    named: dict[str, str] = _table("unit_words.json").get(language, {})
    stems = {snowball_stem(name, language): unit for name, unit in named.items() if len(name) > 3}
    return {**stems, **named}


@cache
def _units_of_any_language() -> dict[str, str]:
    """Return the units by the names that no two languages give to different ones."""
    found: dict[str, set[str]] = {}
    for named in _table("unit_words.json").values():
        for name, unit in named.items():
            found.setdefault(name, set()).add(unit)
    return {name: min(units) for name, units in found.items() if len(units) == 1}


@cache
def _table(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((resources.files(__package__) / name).read_text("utf-8"))
    return table
