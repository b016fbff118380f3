"""Whether a text has the kind of thing that a question asks for: a date, an amount, a person, a place.

Language decides little here: dates and numbers are read in any writing (`whence.text.values`), and names are
known by their capital, where a language writes no other nouns so. What cannot be told is left open.
"""

from __future__ import annotations

import json
import unicodedata
from functools import cache
from importlib import resources
from typing import Final

import regex

from whence.text.normalization import clean, fold
from whence.text.question_words import AskedKind
from whence.text.values import find_values

_YEAR: Final = regex.compile(r"(?<![\p{N}.,])[12]\p{N}{3}(?![\p{N}])")
_CLOCK: Final = regex.compile(r"(?<!\p{N})[012]?\p{N}[:.h][0-5]\p{N}(?!\p{N})")
_WORD: Final = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}'\u2019-]*")
_BEGINS: Final = regex.compile(r"(?:\A|[.!?:\u2026\n\"'(\u201c])[\s#>*_-]*\Z")
_CASED: Final = regex.compile(r"\p{Lu}")
#: Languages that write all nouns with a capital.
_CAPITAL_NOUNS: Final = frozenset(("german",))
#: Kinds that a number answers.
NUMERIC: Final = frozenset(("amount", "duration"))


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
        return not _numbers(text, language) <= _numbers(question, language)
    if kind in ("person", "place") and language not in _CAPITAL_NOUNS and _CASED.search(text):
        return not _names(text) <= {fold(one) for one in _WORD.findall(question)}
    return None


def _has_date(text: str, question: str, language: str) -> bool:
    known = {form for one in find_values(question, (language,)) for form in one.forms}
    known |= set(_YEAR.findall(clean(question)))
    values = [one for one in find_values(text, (language,)) if one.kind != "number"]
    found = {form for one in values for form in one.forms}
    found |= {*_YEAR.findall(clean(text)), *_CLOCK.findall(clean(text))}
    months = {number for word in _WORD.findall(text) if (number := _month(word, language))}
    return bool(found - known) or bool(months)


def _month(word: str, language: str) -> int | None:
    from whence.text.values import month_number

    # A month without a year; `may` and `march` are verbs as well.
    return month_number(word, (language,)) if word[:1].isupper() and len(word) > 3 else None


def _numbers(text: str, language: str) -> set[str]:
    """Return the numbers of a text, in digits or words."""
    plain = clean(text)
    found = set(regex.findall(r"\p{N}+", plain))
    found |= {one for one in plain if not one.isdecimal() and unicodedata.numeric(one, 0) > 0}
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
