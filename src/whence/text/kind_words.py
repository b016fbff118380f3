"""Words of time, place and people: a text without any of them does not say when, where or who.

The words stand around a time or a place (`after`, `beside`), or mean somebody (`they`, `council`). They were
written by hand, one row a language (`circumstance_words.json`); a language without a row is left open. In
scripts without spaces they are looked for anywhere, else as whole words; `-platz` stands for the end of one.
Dates, numbers and names are read elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

import regex

from whence.text.normalization import clean, fold, function_words, snowball_stem
from whence.text.quantities import CAPITAL_MONTHS
from whence.text.scripts import UNSPACED

_LETTER: Final = r"[\p{L}\p{M}]"
_WORD: Final = regex.compile(rf"{_LETTER}+")
#: Least letters of the name of a month; `may` and `mar` are other words as well.
_SHORTEST: Final = 4

Circumstance = Literal["time", "place", "person"]


@cache
def _pattern(circumstance: Circumstance, language: str) -> regex.Pattern[str] | None:
    """Return the pattern of the words of a language, for folded text; None where it has none."""
    listed = _table("circumstance_words.json").get(language, {}).get(circumstance)
    if listed is None:
        return None
    words = sorted({fold(clean(one)) for one in listed}, key=lambda one: (-len(one), one))
    if UNSPACED.search(words[0]):
        return regex.compile(rf"(?:{'|'.join(map(regex.escape, words))})(?P<ended>)")
    whole = "|".join(regex.escape(one) for one in words if not one.startswith("-"))
    endings = "|".join(regex.escape(one[1:]) for one in words if one.startswith("-"))
    within = rf"|(?P<ended>{_LETTER}{{2}}{_LETTER}*+(?<={endings}))" if endings else "(?P<ended>)?"
    # `rendez-vous` means nobody.
    begins, ends_here = rf"(?<!{_LETTER}|{_LETTER}-)", rf"(?!-?{_LETTER})"
    return regex.compile(rf"{begins}(?:(?:{whole}){ends_here}{within})")


def circumstance_ends(circumstance: Circumstance, text: str, language: str) -> list[int] | None:
    """Return where the words of time or of place end in a folded text; None in a language without them.

    >>> circumstance_ends("place", "die kiste liegt neben dem ofen", "german")
    [21]
    """
    pattern = _pattern(circumstance, language)
    if pattern is None:
        return None
    known = function_words(language)
    # No article or verb such as `ist` means somebody by its end.
    return [one.end() for one in pattern.finditer(text) if one["ended"] not in known]


def calendar_words(text: str, language: str) -> frozenset[str]:
    """Return the folded words of a text that name a month or a day of the week, in any of their forms.

    A short name of a month is often another word, and so is one in lower case where months have a capital.

    >>> sorted(calendar_words("Immer montags, ab M\u00e4rz.", "german"))
    ['marz', 'montags']
    """
    if UNSPACED.search(text):
        folded = fold(text)
        return frozenset(one for one in _weekdays(language) if one in folded)
    months, days = _months(language), _weekdays(language)
    found = set()
    for word in _WORD.findall(text):
        folded, stem = fold(word), snowball_stem(word, language)
        if not days.isdisjoint((folded, stem)) or (
            not months.isdisjoint((folded, stem))
            and len(folded) >= _SHORTEST
            and (word[0].isupper() or language not in CAPITAL_MONTHS)
        ):
            found.add(folded)
    return frozenset(found)


def _with_stems(names: Iterable[str], language: str) -> frozenset[str]:
    return frozenset(one for name in names for one in (name, snowball_stem(name, language)))


@cache
def _months(language: str) -> frozenset[str]:
    names = _table("calendar_words.json").get(language, {})
    return _with_stems((one for one in names if len(one) >= _SHORTEST), language)


@cache
def _weekdays(language: str) -> frozenset[str]:
    """Return the names of the days of the week, from Unicode's CLDR."""
    return _with_stems(_table("weekday_words.json").get(language, ()), language)


@cache
def _table(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((resources.files(__package__) / name).read_text("utf-8"))
    return table
