"""Whether a text has the kind of thing that a question asks for: a date, an amount, a person, a place.

Language decides little here: dates and numbers are read in any writing (`whence.text.values`), and names are
known by their capital, where a language writes no other nouns so. What cannot be told is left open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import regex

from whence.text.kind_words import calendar_words, circumstance_ends
from whence.text.normalization import clean, fold, function_words
from whence.text.overlap import Words
from whence.text.quantities import CURRENCIES, TIMES, Quantity, names_time, quantities
from whence.text.question_words import AskedKind
from whence.text.scripts import UNSPACED
from whence.text.sentences import split_sentences
from whence.text.values import find_values, without_values

if TYPE_CHECKING:
    from whence.quoting.evidence_spans import Span

_YEAR: Final = regex.compile(r"(?<![\p{N}.,])[12]\p{N}{3}(?![\p{N}])")
_CLOCK: Final = regex.compile(r"(?<!\p{N})[012]?\p{N}[:.h][0-5]\p{N}(?!\p{N})")
_HAN: Final = "[\\p{N}一二三四五六七八九十]{1,3}"
#: A month, or a day of it, in Chinese characters, in digits or words.
_MONTH_OR_DAY: Final = regex.compile(rf"{_HAN}\s?[月월](?:\s?{_HAN}\s?[日号號일])?")
#: Characters that are no parts of other words as often as numbers, as the one of 1 is.
_HAN_NUMBER: Final = frozenset("二三四五六七八九十百千万两")
_WORD: Final = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}'\u2019-]*")
_BEGINS: Final = regex.compile(r"(?:\A|[.!?:\u2026\n\"'(\u201c])[\s#>*_-]*\Z")
#: What stands in an address or a list of values instead of words of place, and in names of files and menus.
_PLACE_MARK: Final = regex.compile(r"[:@>/\\|]")
#: Characters and words behind a word of place that are examined.
_REACH: Final = 40
_FOLLOWING: Final = 3
#: Languages that write all nouns with a capital.
_CAPITAL_NOUNS: Final = frozenset(("german",))
#: Kinds that a number answers.
NUMERIC: Final = frozenset(("amount", "duration", "price", "clock"))
#: Kinds of which a question asks for one thing, which no list as a whole is.
OF_ONE_THING: Final = NUMERIC | {"date", "place", "person"}
#: Hours of a day.
_HOURS: Final = 24
#: Characters between the ends of a range at most.
_RANGE_GAP: Final = 6
#: Kinds of units that are no text to read.
_UNREAD: Final = frozenset(("code", "definition"))
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
    if kind not in ("person", "place"):
        return None
    asked = {fold(one) for one in _WORD.findall(question)}
    if not _names(text, language) <= asked:
        return True
    # The absence of a name alone tells nothing: `the caretaker` is a person, `on the shelf` a place.
    lacks = _lacks_person if kind == "person" else _lacks_place
    return False if lacks(text, asked, language) else None


def cannot_answer(
    kind: AskedKind | None, span: Span, asked: AbstractSet[str], question: str, words: Words
) -> bool:
    """Return whether a text cannot answer who, when, where or how much, whatever its other words.

    It has no word of a time or place, or no number; or words such as `after` alone, and nothing of the
    question; or nobody, and not all words of the question. An item of a list has nothing of the others, and a
    paragraph nothing of the sentences before the first that has a word of the question. Of the sentences that
    answer such questions on every other page of XQuAD, in English, German, Spanish, Russian and Chinese, 2 %
    have no thing of the kind.

    Args:
        kind: What the question asks for.
        span: What may answer it.
        asked: Terms of the question.
        question: The question.
        words: Reads both.
    """
    if kind not in OF_ONE_THING or span.unit.kind in _UNREAD:
        return False
    return all(
        _lacks(kind, one, asked, question, words.language)
        for one in _parts_about(span, asked - span.above, words)
    )


def _parts_about(span: Span, asked: AbstractSet[str], words: Words) -> list[Span]:
    """Return the items of a list that have words of a question, or the rest of a paragraph from the first."""
    kinds = ("list", "prose", "section")
    sentences = split_sentences(span.text) if asked and span.unit.kind in kinds else []
    said = [frozenset(words.of_text(span.text[one.start : one.end])) for one in sentences]
    about = [place for place, terms in enumerate(said) if not asked.isdisjoint(terms)]
    if not about:
        return [span]
    if span.unit.kind == "list":
        pairs = ((sentences[at], said[at]) for at in about)
        return [span._replace(text=span.text[a.start : a.end], terms=b) for a, b in pairs]
    rest = frozenset.union(*said[about[0] :])
    return [span._replace(text=span.text[sentences[about[0]].start :], terms=rest)]


def _lacks(
    kind: AskedKind, span: Span, asked: AbstractSet[str], question: str, language: str
) -> bool:
    held = holds_kind(kind, span.text, question, language)
    if kind == "person":
        return held is False and not asked <= span.terms
    if kind != "date" or held:
        return held is False
    # A heading such as `Saturdays` has the time; one such as `Entrance` has no word of place.
    above = [holds_kind(kind, one, question, language) for one in span.scopes[1:]]
    # The number may be a day of the month: `before the 5th`.
    is_about = not asked.isdisjoint(span.terms) or any(map(str.isdecimal, span.text))
    return True not in above and (held is False or not is_about)


def _lacks_person(text: str, asked: AbstractSet[str], language: str) -> bool:
    """Return whether a text has no word of somebody, and does not begin with what may be a name."""
    plain = fold(clean(text))
    without = _WORD.sub(lambda word: "" if word[0] in asked else word[0], plain)
    ends = circumstance_ends("person", without, language)
    return ends == [] and ":" not in plain and not _begins_with_name(plain, asked, language)


def _begins_with_name(plain: str, asked: AbstractSet[str], language: str) -> bool:
    """Return whether the first word of a folded text is none of the question, and no function word."""
    first = _WORD.search(plain)
    return first is not None and first[0] not in function_words(language) | asked


def _lacks_place(text: str, asked: AbstractSet[str], language: str) -> bool:
    """Return whether all words of place in a text stand before a time, or before a word of the question."""
    plain = fold(clean(text))
    ends = circumstance_ends("place", plain, language)
    if ends is None or _PLACE_MARK.search(plain):
        return False
    if not UNSPACED.search(plain) and _begins_with_name(plain, asked, language):
        return False
    known = function_words(language) | asked
    return not any(_may_be_place(plain[end : end + _REACH], known, language) for end in ends)


def _may_be_place(after: str, known: AbstractSet[str], language: str) -> bool:
    """Return whether a word of place stands before a place: no number, time, or word of the question."""
    if UNSPACED.match(after):
        return True
    for word in _WORD.findall(after)[:_FOLLOWING]:
        if (
            word[0].isdecimal()
            or names_time(word, language)
            or calendar_words(word.title(), language)
        ):
            return False
        if word not in function_words(language):
            return word not in known
    return True


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
    found = [
        one
        for one in quantities(text, (language,))
        if not one.unit.startswith("month-") and not (one.in_words and one.forms == ("1",))
    ]
    # Of `16 to 21 euro` both are euro.
    for place, (first, last) in enumerate(pairwise(found)):
        if not first.unit and 0 <= last.start - first.end <= _RANGE_GAP:
            found[place] = first._replace(unit=last.unit)
    return found


def _has_date(text: str, question: str, language: str) -> bool | None:
    """Return whether a text has a date, a time of day, a month or a day of the week.

    Returns:
        None where it has none of these, but another word of time, such as `after`, or a number without a unit
        that may be an hour: `at eight`.
    """
    if _dates_of(text, language) - _dates_of(question, language):
        return True
    if calendar_words(text, language) - calendar_words(question, language):
        return True
    if circumstance_ends("time", fold(clean(text)), language) or names_time(text, language):
        return None
    return None if _may_have_hour(text, question, language) else False


def _may_have_hour(text: str, question: str, language: str) -> bool:
    """Return whether a text has a number without a unit, up to the hours of a day, that its question lacks."""
    known = {form for one in _counted(question, language) for form in one.forms}
    return any(
        not one.unit
        and one.value is not None
        and one.value <= _HOURS
        and known.isdisjoint(one.forms)
        for one in _counted(text, language)
    )


def _dates_of(text: str, language: str) -> set[str]:
    """Return the dates, years, times of day and days of a month that a text has, the latter without a year."""
    plain = clean(text)
    found = {
        form for one in find_values(text, (language,)) if one.kind != "number" for form in one.forms
    }
    days = (one for one in quantities(text, (language,)) if one.unit.startswith("month-"))
    found |= {f"{one.unit}-{one.forms[0]}" for one in days}
    return found | {*_YEAR.findall(plain), *_CLOCK.findall(plain), *_MONTH_OR_DAY.findall(plain)}


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


def _names(text: str, language: str) -> set[str]:
    """Return the folded words with a capital that begin no sentence; pairs where all nouns have one."""
    found = [
        match
        for match in _WORD.finditer(text)
        if match[0][0].isupper() and not _BEGINS.search(text, 0, match.start())
    ]
    if language in _CAPITAL_NOUNS:
        found = [
            one
            for pair in pairwise(found)
            if text[pair[0].end() : pair[1].start()] == " "
            for one in pair
        ]
    return {fold(one[0]) for one in found} - calendar_words(text, language)
