"""Sentences that say the same in other numbers or dates.

Two sentences contradict each other when their content words agree and exactly one value differs. A number that
names a thing (`Room 12`, `§ 5`) is one of the words, and a year or quarter beside another value says of when
that value is: sentences about different things do not contradict each other.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

import regex

from whence.text.languages import detect_language
from whence.text.normalization import function_words
from whence.text.overlap import Words
from whence.text.sentences import split_sentences
from whence.text.values import ValueKind, find_values

#: A number that is no part of a name (`A4`, `v2.1`, `ISO-9001`, `10.0.0.1`).
_NUMBER: Final = regex.compile(
    r"(?<![\p{L}\p{N}_]|[\p{L}\p{N}][-./:])\d+(?:[.,]\d+)?(?![\p{L}\p{N}_]|[-./:]\w)"
)
_UNSPACED_NUMBER: Final = regex.compile(
    r"(?<![\p{N}.,])\d+(?:[.,]\d+)?(?=[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}])"
)
#: What makes a number the name of a thing: a word with a capital letter before it, or a sign.
_NAMING: Final = regex.compile(r"(?:(?<![\p{L}])\p{Lu}[\p{L}\p{M}]+\.?\s|[#\u00a7\u2116]\s?)$")
#: Such a word that is a currency instead.
_CURRENCY: Final = regex.compile(r"(?<![\p{L}])[A-Z]{3}\s$")
_MARK: Final = regex.compile(r"\s*(?:[-*+\u2022]\s+)?(?:\d{1,3}[.)]\s+)?")
_UNIT: Final = regex.compile(r"\s?(?:%|\p{Sc})|[\s-]([\p{L}\p{M}]+)")
_SIGN: Final = regex.compile(r"\p{Sc}|[%\u2030]")
_YEAR: Final = regex.compile(r"(?:19|20)\d\d")
#: Fewer words are a label (`Date: 2026-03-04`) of any document.
_LEAST_WORDS: Final = 2
#: Sentences of fewer words say what they are about in their headings.
_MIN_WORDS: Final = 5


class _Amount(NamedTuple):
    kind: ValueKind
    forms: frozenset[str]
    around: frozenset[str]
    """Forms of what it is part of: the month and year of a day."""
    text: str

    def agrees(self, other: _Amount) -> bool:
        """Return whether both may be the same value, one of them perhaps less exact."""
        return not (self.forms | self.around).isdisjoint(other.forms) or not self.forms.isdisjoint(
            other.around
        )

    @property
    def is_period(self) -> bool:
        return self.kind == "period" or any(_YEAR.fullmatch(form) for form in self.forms)


class Statement(NamedTuple):
    """A sentence: its values and its other words."""

    words: frozenset[str]
    values: tuple[_Amount, ...]
    about: frozenset[str]
    """Words of the headings above it."""


def read_statements(text: str, about: str, language: str) -> list[Statement]:
    """Return the sentences of a text that have values.

    Args:
        text: Any text; the row of a table with its header is one sentence.
        about: What stands above it: headings and titles.
        language: In which all texts that are compared are read.
    """
    above = frozenset(Words(language).of_text(about))
    rows = text.lstrip().startswith("|")
    parts = [text] if rows else [text[one.start : one.end] for one in split_sentences(text)]
    found = (_read(part, above, language) for part in parts)
    return [one for one in found if one.values and len(one.words) >= _LEAST_WORDS]


def common_language(texts: Sequence[str]) -> str:
    """Return the language in which texts are compared."""
    return detect_language("\n".join(texts))


def contradiction(one: Statement, other: Statement) -> tuple[str, str] | None:
    """Return the values in which two statements about the same thing differ, as written; None without any.

    >>> a, b = (read_statements(f"Staff have {n} days of paid leave.", "", "english")[0] for n in (27, 30))
    >>> contradiction(a, b)
    ('27 days', '30 days')
    """
    if one.words != other.words or len(one.values) != len(other.values):
        return None
    if len(one.words) < _MIN_WORDS and not _same_subject(one, other):
        return None
    rest = list(other.values)
    left: list[_Amount] = []
    for value in one.values:
        same = next((each for each in rest if each.agrees(value)), None)
        if same is None:
            left.append(value)
        else:
            rest.remove(same)
    if len(left) != 1 or left[0].kind != rest[0].kind:
        return None
    if len(one.values) > 1 and (left[0].is_period or rest[0].is_period):
        return None
    return left[0].text, rest[0].text


def _same_subject(one: Statement, other: Statement) -> bool:
    """Return whether the headings of two short sentences may name one subject."""
    if not (one.about and other.about):
        return True
    both = one.words | (one.about & other.about)
    return not (both.isdisjoint(one.about) or both.isdisjoint(other.about))


def _read(sentence: str, above: frozenset[str], language: str) -> Statement:
    sentence = sentence[_MARK.match(sentence).end() :]  # type: ignore[union-attr]
    plain = "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in sentence)
    found: list[tuple[int, int, ValueKind, tuple[str, ...], tuple[str, ...]]] = [
        (one.start, one.end, one.kind, one.forms, one.around)
        for one in find_values(sentence, (language,))
    ]
    for match in (*_NUMBER.finditer(plain), *_UNSPACED_NUMBER.finditer(plain)):
        if all(match.end() <= start or end <= match.start() for start, end, *_ in found):
            found.append((*match.span(), "number", (match[0].replace(",", "."),), ()))
    rest, values = sentence, []
    for start, end, kind, forms, around in sorted(found):
        before = sentence[:start]
        if kind == "number" and _NAMING.search(before) and not _CURRENCY.search(before):
            continue
        text = (
            sentence[start:end] if kind != "number" else _with_unit(sentence, start, end, language)
        )
        values.append(_Amount(kind, _plain_forms(kind, forms), frozenset(around), text))
        rest = rest[:start] + " " * (end - start) + rest[end:]
    words = frozenset((*Words(language).of_text(rest), *_SIGN.findall(rest)))
    return Statement(words, tuple(values), above)


def _plain_forms(kind: ValueKind, forms: tuple[str, ...]) -> frozenset[str]:
    """Return the forms of a value, numbers without zeros at the end: `2.50` is `2.5`."""
    if kind != "number":
        return frozenset(forms)
    return frozenset(format(Decimal(form).normalize(), "f") for form in forms)


def _with_unit(sentence: str, start: int, end: int, language: str) -> str:
    """Return a number with what is counted, as written."""
    sign = regex.search(r"(?:\p{Sc}\s?|(?<![\p{L}])[A-Z]{3}\s)$", sentence[:start])
    if sign:
        return sentence[sign.start() : end]
    unit = _UNIT.match(sentence, end)
    if unit and not (unit[1] and unit[1].casefold() in function_words(language)):
        end = unit.end()
    return sentence[start:end]
