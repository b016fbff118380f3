"""Identifiers in questions and texts: a release, a code, a numbered part, a day.

A sentence about release 4.2 does not answer a question about 4.1, however many words the two share. An
identifier is a value of a name: "Harbour 4.1" and "Harbour 4.2" are two values of one name, "Harbour 4.1" and
"Android 9" are unrelated, and an amount ("0.8 seconds") is not an identifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from whence.text.overlap import content_terms
from whence.text.question_words import ASKING_LANGUAGES
from whence.text.values import find_values, month_number


class Identifier(NamedTuple):
    """A value of a name."""

    name: str
    """Lower case: a word, the letters of a code, `version`, `date`, or empty where a number stands alone."""
    value: str
    """Lower case, without the v of a version; a day or a month as in ISO 8601."""


class _Found(NamedTuple):
    identifier: Identifier
    start: int
    end: int
    named: bool
    """Whether the word before the number is certainly its name."""
    counts: bool = False
    """Whether the number may count the word that follows."""


#: Languages whose names of months are known; of a name that several have the first counts.
_LANGUAGES: Final = ("english", *sorted(ASKING_LANGUAGES))
#: Letters and a number in one word: `P7`, `ERR-1042`, `CVE-2024-1234`, `v2.9.1`.
_CODE: Final = re.compile(
    r"(?<![\w.,-])(?P<name>[a-z]{1,12}(?:[-_/][a-z]{1,12}){0,7})[-_/#]?(?P<value>\d++(?:[._/-][^\W\d]*+\d\w*+)*+)\b",
    re.IGNORECASE,
)
#: Three numbers or more with points between are a version, or something as exact, without a name.
_DOTTED: Final = re.compile(
    r"(?<![\w.,-])(?P<value>\d+(?:\.\d+)+(?:[-+][a-z][\w.]*)?)(?![\w%]|[.,]\d)"
)
#: A word and a number: `Harbour 4.1`, `level 3`. Amounts have units or separators of thousands.
_NAMED: Final = re.compile(
    r"(?P<name>[^\W\d_][\w+#-]{0,60}+)\s+(?:no\.\s*|#)?(?P<value>\d+(?:\.\d+)*)(?![\w%]|[.,]\d|\s*[%\u20ac$\u00b0])"
)
#: What makes a version a requirement on versions: `^1.2.3`, `~=2.0.1`.
_OPERATORS: Final = ("^", "~", "=", "<", ">")
_WORD_AFTER: Final = re.compile(r"\s+([^\W\d_][\w-]*)")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_VERSION_NAMES: Final = frozenset(("v", "ver", "version", "release", "build", "firmware", "patch"))
#: Questions about the relation of one value to others; sentences about the others answer them.
_RELATES: Final = re.compile(
    r"\b(?:newer|older|later|earlier|next|previous|prior|latest|newest"
    r"|call(?:s|ed|ers?)?|depend\w*|import(?:s|ed)?|inherit\w*|extend\w*|implement\w*|refer\w*"
    r"|successors?|predecessors?|replac\w+|supersed\w+|upgrad\w+|migrat\w+|compar\w+|differ\w*|versus|vs|instead)\b"
    r"|\b(?:which|what|whose)\s+(?:\w+\s+)?(?:versions?|releases?|builds?|firmwares?|codes?|levels?|numbers?)\b(?!\s*\d)",
    re.IGNORECASE,
)
#: The same where a value follows at once, unless a verb takes the word as its own: `look after ticket 312`.
_RELATES_TO: Final = re.compile(
    r"(?P<verb>\b(?:look|ask|inquir|enquir|nam|run|go|chas|clean|tid)[a-z]{0,4}\s+)?"
    r"\b(?:since|after|before|until|till|between|than)\s+(?:[^\W\d_][\w-]{0,30}\s+){0,3}#?[^\W\d_]{0,12}[-_]?\d",
    re.IGNORECASE,
)
#: Questions that a date answers.
_ASKS_WHEN: Final = re.compile(
    r"\b(?:when|how long|how many|what day|which day|date)\b", re.IGNORECASE
)
#: Most digits of the ends of a range of numbered things; more is an amount or a date.
_RANGE_DIGITS: Final = 4
#: Whole numbers and what stands between: a dash, or the word of the ten most written languages of Europe.
_RANGE: Final = re.compile(
    rf"(?<![\w.,/-])(?P<first>\d{{1,{_RANGE_DIGITS}}})"
    rf"(?:\s?[-\u2013]\s?|\s(?:to|through|bis|\u00e0|al?|do|tot|till|at\u00e9)\s)"
    rf"(?P<last>\d{{1,{_RANGE_DIGITS}}})(?![\w/-]|[.,]\d)"
)
#: Text before or after a value that begins or ends a range, or is one of a list.
_RANGE_BEFORE: Final = re.compile(
    r"\b(?:since|from|until|till|before|after|by|between|than|above|below)\s+(?:the\s+)?\Z"
    r"|\b(?:introduced|broken|appeared|regressions?|regressed)\s+in\s+(?:version\s+|release\s+)?\Z"
    r"|\d(?:\s*[-\u2013,]\s*|\s+(?:to|and|or)\s+)\Z",
    re.IGNORECASE,
)
_RANGE_AFTER: Final = re.compile(
    r"\s*[-\u2013,]\s*v?\d{1,3}(?!\d)|\s+(?:or|and|to)\s+(?:newer|later|above|older|earlier|up|below|higher|lower|v?\d)",
    re.IGNORECASE,
)


def question_identifiers(question: str, texts: Sequence[str] = ()) -> frozenset[Identifier]:
    """Return the identifiers that a question is about; none if it asks for their relation to others.

    A number counts only if it is certainly a value of the word before it: that word is a name, or some texts
    number other things by it, or the number has a point and no noun follows that it could count.

    Args:
        question: The question.
        texts: Those that may answer it: where they have a task 18 and a task 19, task 17 is one of a series.

    >>> sorted(question_identifiers("What is task 17 about?", ["Task 18: the roof", "Task 19: the door"]))
    [Identifier(name='task', value='17')]
    >>> sorted(question_identifiers("What was repaired in Harbour 4.1?"))
    [Identifier(name='harbour', value='4.1')]
    >>> sorted(question_identifiers("What does ERR-1042 mean in v2.9.1?"))
    [Identifier(name='err', value='1042'), Identifier(name='version', value='2.9.1')]
    >>> question_identifiers("What changed since v2.9.1?"), question_identifiers("May I take 20 days off?")
    (frozenset(), frozenset())
    """
    if _RELATES.search(question) or any(not one["verb"] for one in _RELATES_TO.finditer(question)):
        return frozenset()
    dated = not _ASKS_WHEN.search(question)
    found = _identifiers_in(question)
    numbered = _numbered_names(found, texts)
    return frozenset(
        one.identifier
        for one in found
        if (one.named or one.identifier.name in numbered)
        and (dated or one.identifier.name != "date")
    )


def _numbered_names(asked: Sequence[_Found], texts: Sequence[str]) -> frozenset[str]:
    """Return the names of a question by which some texts number other things."""
    values = {one.identifier.name: one.identifier.value for one in asked if one.identifier.name}
    if all(one.named for one in asked):
        return frozenset()
    return frozenset(
        name
        for text in texts
        for one in _identifiers_in(text)
        if (name := one.identifier.name) in values
        and one.identifier.value != values[name]
        and not one.counts
    )


def names_other_identifier(asked: Iterable[Identifier], scopes: Sequence[str]) -> bool:
    """Return whether a text is about another value of a name than the question.

    Args:
        asked: From `question_identifiers`.
        scopes: The text, then the headings and titles above it, the nearest first. The first scope that names a
            value of the name decides: a sentence about 4.1 in the notes for 4.2 is about 4.1.

    >>> asked = question_identifiers("What was repaired in Harbour 4.1?")
    >>> names_other_identifier(asked, ["The alarm sounds again.", "Repaired", "Harbour 4.2 release notes"])
    True
    >>> names_other_identifier(asked, ["The alarm sounds again.", "Repaired", "Harbour 4.1 release notes"])
    False
    """
    by_name: dict[str, list[Identifier]] = {}
    for one in asked:
        by_name.setdefault(one.name, []).append(one)
    return any(_names_other_value(group, scopes) for group in by_name.values())


def names_value(asked: Identifier, scopes: Iterable[str]) -> bool:
    """Return whether one of the texts has a value, or a value of which it is a part; dates have none.

    >>> asked = Identifier("harbour", "4.1")
    >>> names_value(asked, ["Repaired", "notes/4.1.2.txt"]), names_value(asked, ["Harbour 0.41"])
    (True, False)
    >>> names_value(Identifier("harbour", "29"), ["notes.txt, 2026-11-29"])
    False
    """
    pattern = re.escape(asked.value)
    if asked.value.isdecimal():
        pattern = f"0*{re.escape(without_zeros(asked.value))}"
    exact = re.compile(rf"(?<![\d.]){pattern}(?!\d)", re.IGNORECASE)
    return any(
        exact.search(_without_dates(scope)) or in_range(asked.value, ranges_of(scope))
        for scope in scopes
    )


def _without_dates(text: str) -> str:
    for one in _identifiers_in(text):
        if one.identifier.name == "date":
            text = text[: one.start] + " " * (one.end - one.start) + text[one.end :]
    return text


def without_zeros(value: str) -> str:
    """Return a whole number without leading zeros, and any other value as it is.

    >>> [without_zeros(one) for one in ("0312", "000", "4.05", "1042a")]
    ['312', '0', '4.05', '1042a']
    """
    return str(int(value)) if value.isdecimal() and value.isascii() else value


def ranges_of(text: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges of whole numbers that a text writes out: first and last.

    >>> ranges_of("Grades 3 to 5, rooms 12\u201318; bis: Stufe 2 bis 4; 5-3; 2026-02-03; 1.2-1.4")
    ((3, 5), (12, 18), (2, 4))
    """
    if not any(character.isdigit() for character in text):
        return ()
    found = ((int(one["first"]), int(one["last"])) for one in _RANGE.finditer(text))
    return tuple((first, last) for first, last in found if first < last)


def in_range(value: str, ranges: Iterable[tuple[int, int]]) -> bool:
    """Return whether a value is a whole number within one of the ranges."""
    whole = value.isdecimal() and len(value) <= _RANGE_DIGITS
    return whole and any(first <= int(value) <= last for first, last in ranges)


def neighbours_in_path(name: str) -> list[str]:
    """Return the pairs of neighbours in a dotted name of three parts or more; none for any other name.

    A text that has each of them imports in one line and uses in another what the name names as a whole.

    >>> neighbours_in_path("mypy.api.run"), neighbours_in_path("api.run"), neighbours_in_path("9.3.1")
    (['mypy.api', 'api.run'], [], [])
    """
    parts = name.split(".")
    is_path = len(parts) > 2 and all(part.isidentifier() for part in parts)
    return [".".join(pair) for pair in pairwise(parts)] if is_path else []


def defines_key(name: str, text: str, headings: str) -> bool:
    r"""Return whether a text defines the last part of a dotted name, below a heading with the first one.

    >>> [defines_key("web.port", text, "Sections > web") for text in ("port\n    Of TCP.", "the port")]
    [True, False]
    """
    section, _, key = name.casefold().partition(".")
    lines = (line.strip(" \t`") for line in text.casefold().splitlines())
    return key != "" and section in re.findall(r"\w+", headings.casefold()) and key in lines


def _names_other_value(group: Sequence[Identifier], scopes: Sequence[str]) -> bool:
    """Return whether the first scope with a value of the group's name has only other values."""
    for scope in scopes:
        found = _identifiers_in(scope)
        ranges = ranges_of(scope)
        if any(in_range(one.value, ranges) for one in group if one.name != "date"):
            return False
        if any(_same(one, other.identifier) for one in group for other in found):
            return False
        if any(_is_other_value(group[0], other, scope, scopes) for other in found):
            return True
    return False


def _same(asked: Identifier, other: Identifier) -> bool:
    """Return whether one of two values is equal to, or a part of, the other.

    A value with a point or a dash identifies itself without its name.
    """
    exact = asked.name == other.name or re.search(r"\D", asked.value) is not None
    if not exact or (asked.name == "date") != (other.name == "date"):
        return False
    values = without_zeros(asked.value), without_zeros(other.value)
    ours, theirs = (re.split(r"[^\w]", one) for one in values)
    shorter = min(len(ours), len(theirs))
    return ours[:shorter] == theirs[:shorter]


def _is_other_value(asked: Identifier, found: _Found, text: str, scopes: Sequence[str]) -> bool:
    """Return whether a value is another one of the same name, and not the end of a range.

    A version without a name belongs to a name in any of the scopes. "Version 1" and "version 2.9" are not
    compared.
    """
    name, value = found.identifier
    if name == "version" and ("." in value) != ("." in asked.value):
        return False
    unnamed = name == "version" and "." in value
    named = any(asked.name in re.findall(r"\w+", one.lower()) for one in scopes)
    if name != asked.name and not (unnamed and named):
        return False
    before, after = text[: found.start], text[found.end :]
    return not (_RANGE_BEFORE.search(before) or _RANGE_AFTER.match(after))


@lru_cache(maxsize=4096)  # Headings and titles are examined with every sentence below them.
def _identifiers_in(text: str) -> tuple[_Found, ...]:
    if not any(character.isdigit() for character in text):
        return ()
    found = list(_dates(text))
    # Each pattern sees only text that no earlier one has matched.
    rest = list(text)
    for reader in (_codes, _named_numbers, _numbers):
        for one in found:
            rest[one.start : one.end] = " " * (one.end - one.start)
        found += reader("".join(rest))
    return tuple(found)


def _dates(text: str) -> Iterator[_Found]:
    for one in find_values(text, _LANGUAGES):
        if one.kind == "date":
            for form in one.forms:
                yield _Found(Identifier("date", form), one.start, one.end, True)
        elif one.kind == "period":
            # Neither a code nor the number of something: `FY2023`, `2Q23`.
            yield _Found(Identifier("", one.forms[0]), one.start, one.end, False)


def _codes(text: str) -> Iterator[_Found]:
    for match in _CODE.finditer(text):
        name, value = match["name"].lower(), match["value"].lower()
        known = "version" if name in _VERSION_NAMES and "." in value else name
        yield _Found(Identifier(known, value), match.start(), match.end(), True)


def _named_numbers(text: str) -> Iterator[_Found]:
    for match in _NAMED.finditer(text):
        name, value = match["name"], match["value"]
        if not content_terms(name) or _YEAR.fullmatch(value) or month_number(name, _LANGUAGES):
            continue
        lower = name.lower()
        known = "version" if lower in _VERSION_NAMES and "." in value else lower
        # The first word of a question has a capital anyway.
        a_name = name[0].isupper() and ("." in value or text[: match.start()].strip() != "")
        counts = _counts(text, match.end())
        certain = a_name or ("." in value and not counts)
        yield _Found(Identifier(known, value), match.start("name"), match.end(), certain, counts)


def _counts(text: str, end: int) -> bool:
    """Return whether a number that ends at `end` may count the word that follows."""
    word = _WORD_AFTER.match(text, end)
    return word is not None and bool(content_terms(word[1]))


def _numbers(text: str) -> Iterator[_Found]:
    for match in _DOTTED.finditer(text):
        value = match["value"].lower()
        before = text[: match.start()]
        heads = not before.strip(" [(#*")
        name = "version" if value.count(".") > 1 or heads else ""
        required = before.endswith(_OPERATORS)
        yield _Found(
            Identifier(name, value), match.start(), match.end(), bool(name) and not required
        )
