"""Find which passages a newer edition of the same passage supersedes.

In: a question and passages with metadata. Out: for each older passage the newest one. Without a release or year
in the question the newest goes first. An edition is known by what people write: metadata (`status`,
`replaced_by`, `version`, `updated`), a number in path or title, a number in the headings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from whence.text.normalization import FUNCTION_WORDS

if TYPE_CHECKING:
    from whence.schema.passages import Passage

Numbers = tuple[int, ...]
"""Parts of a release, as (5, 4), or of a date, as (2025, 1, 31)."""

#: Values of the metadata `status` of an outdated document, in lower case.
_STATUSES: Final = frozenset(
    {"archived", "deprecated", "expired", "obsolete", "outdated", "superseded", "withdrawn"}
)
#: Keys that name the successor of a document.
_REPLACED: Final = "replaced by "
_SUCCESSORS: Final = ("replaced_by", "superseded_by")
_RELEASE_KEYS: Final = ("version", "release")
_DATE_KEYS: Final = ("updated", "modified", "date", "published")
#: Least share of the words of the shorter passage that two editions of a passage have in common.
_LEAST_SHARE: Final = 0.5
#: The first year that is a year rather than a number of a release.
_FIRST_YEAR: Final = 1900
_SUFFIX: Final = re.compile(r"\.[a-z]\w{0,4}\Z")
_NUMBERS: Final = r"v?(\d+(?:[.\-_]\d+){0,7})(?!\w)"
#: A release or date in a path or title, with what joins it to a name: `-2022`, `/v1.2`.
_IN_NAME: Final = re.compile(rf"(?:\A|[-_./ (]){_NUMBERS}", re.IGNORECASE)
#: The same in a heading, where a number at the beginning is that of the section.
_IN_HEADING: Final = re.compile(rf"(?<=[^\s(])[ (]++{_NUMBERS}", re.IGNORECASE)
#: A release or a year in a question, where other numbers count things.
_ASKED: Final = re.compile(
    r"\b(?:v|version\s+|release\s+)(\d+(?:\.\d+)*)\b|(?<![\w.])(\d+(?:\.\d+)+)(?![\w%])"
    r"|\b((?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\w+")


class _Edition(NamedTuple):
    """What a passage says of its subject and its edition."""

    names: frozenset[str]
    """Path and title without numbers; editions of a document have one in common."""
    heading: str
    """Words of the nearest heading without numbers."""
    known_as: tuple[str, str]
    """Id and title of the document."""
    successor: str
    """Id or title of the document that replaces it; empty when none is named."""
    is_old: bool
    release: Numbers
    day: Numbers


def outdated(metadata: Mapping[str, Any]) -> str:
    """Return why a document is out of date by its metadata, so that it does not pass for current; else empty.

    >>> outdated({"status": "superseded", "replaced_by": "Leave policy"})
    'replaced by Leave policy'
    >>> outdated({"status": "Archived"}), outdated({"status": "in force"})
    ('archived', '')
    """
    for key in _SUCCESSORS:
        if successor := _text(metadata.get(key)):
            return _REPLACED + successor
    status = _text(metadata.get("status")).lower()
    return status if status in _STATUSES else ""


def newer_editions(question: str, passages: Sequence[Passage]) -> dict[int, int]:
    """Return for each passage that has a newer edition among the others the number of the newest one.

    Two passages are editions of one in two cases. One document names the other as its successor, and their
    headings are the same but for numbers or at least half of the words of the shorter passage are in both. Or
    their paths or titles are the same but for numbers, and so are their headings and half of these words. The
    newer edition is the one that its document does not call outdated, else that of the higher release, the
    later date, or the one without a number.

    Where the question names a release or year that one of the passages has, those that have it are newer than
    those that have not, and no others are.

    Ties go to the better ranked passage. Cost: a step for each pair of passages whose documents are named alike
    or name one another.
    """
    editions = [_edition(one) for one in passages]
    return _newest(editions, _asked(question, editions), passages)


def _newest(
    editions: Sequence[_Edition], asked: Sequence[Numbers], passages: Sequence[Passage]
) -> dict[int, int]:
    """See `newer_editions`."""
    if not any(one.is_old or one.release or one.day for one in editions):
        return {}
    names = [one.names.union(one.known_as, (one.successor,)) - {""} for one in editions]
    called: dict[str, list[int]] = {}
    for number, own in enumerate(names):
        for name in own:
            called.setdefault(name, []).append(number)

    @cache
    def words(number: int) -> frozenset[str]:
        return frozenset(_WORD.findall(passages[number].text.lower())) - FUNCTION_WORDS

    newest: dict[int, int] = {}
    for old, one in enumerate(editions):
        best = one
        for new in sorted({number for name in names[old] for number in called[name]}):
            other = editions[new]
            if not _is_newer(other, best, asked) or new == old:
                continue
            is_successor, same_heading = _is_successor(one, other), one.heading == other.heading
            if (is_successor and same_heading) or (
                (is_successor or (same_heading and one.names & other.names))
                and _share_words(words(old), words(new))
            ):
                best, newest[old] = other, new
    return newest


def newest_first(question: str, passages: Sequence[Passage]) -> list[int]:
    """Return the numbers of the passages in the order in which older editions follow the newest one.

    The newest edition takes the place of the best ranked one; all others keep their order.
    """
    newest = newer_editions(question, passages)
    if not newest:
        return list(range(len(passages)))
    order: dict[int, None] = {}
    for number in range(len(passages)):
        chain = [number]
        while (new := newest.get(chain[-1], chain[-1])) not in chain:
            chain.append(new)
        order |= dict.fromkeys(one for one in reversed(chain) if one not in order)
    return list(order)


def old_editions(question: str, passages: Sequence[Passage]) -> list[int]:
    """Return the numbers of passages that are older editions than the question asks for, from 0.

    Those with a newer edition among the others, and, unless the question names a release or year that one of
    them has, those whose document is out of date by its metadata.
    """
    editions = [_edition(one) for one in passages]
    asked = _asked(question, editions)
    newer = _newest(editions, asked, passages)
    return [
        number
        for number, one in enumerate(editions)
        if number in newer or (one.is_old and not asked)
    ]


def _asked(question: str, editions: Sequence[_Edition]) -> list[Numbers]:
    named = [_numbers(next(filter(None, found))) for found in _ASKED.findall(question)]
    return [one for one in named if any(_has(edition, one) for edition in editions)]


def _edition(passage: Passage) -> _Edition:
    metadata, document_id = passage.metadata, passage.document_id.lower()
    path = _SUFFIX.sub("", document_id)
    title = _text(metadata.get("title")).lower()
    names = [f"path {_IN_NAME.sub('', path)}", f"title {_IN_NAME.sub('', title)}"]
    found = [*_IN_NAME.findall(path), *_IN_NAME.findall(title)]
    for part in reversed(_text(metadata.get("section_path")).split(" > ")):
        found += _IN_HEADING.findall(part)
    release, day = _first(metadata, _RELEASE_KEYS), _first(metadata, _DATE_KEYS)
    for one in map(_numbers, found):
        if one[0] < _FIRST_YEAR:
            release = release or one
        else:
            day = day or one
    heading = _WORD.findall(_IN_HEADING.sub("", _text(metadata.get("heading")).lower()))
    why_old = outdated(metadata)
    return _Edition(
        names=frozenset(names) - {"path ", "title "},
        heading=" ".join([one for one in heading if one.isalpha() and one not in FUNCTION_WORDS]),
        known_as=(document_id, title),
        successor=why_old.removeprefix(_REPLACED).lower() if why_old not in _STATUSES else "",
        is_old=bool(why_old),
        release=release,
        day=day,
    )


def _is_newer(new: _Edition, old: _Edition, asked: Sequence[Numbers]) -> bool:
    if asked:
        wanted, other = (any(_has(one, number) for number in asked) for one in (new, old))
        return wanted and not other
    if new.is_old != old.is_old:
        return old.is_old
    if new.release and old.release:
        return new.release > old.release
    if new.day and old.day:
        return new.day > old.day
    return not (new.release or new.day) and bool(old.release or old.day)


def _is_successor(one: _Edition, other: _Edition) -> bool:
    """Whether one of two documents names the other as its successor."""
    return bool(
        (one.successor and one.successor in other.known_as)
        or (other.successor and other.successor in one.known_as)
    )


def _share_words(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether half of the words of the shorter passage are in both."""
    return len(one & other) >= _LEAST_SHARE * max(1, min(len(one), len(other)))


def _has(edition: _Edition, asked: Numbers) -> bool:
    return asked in (edition.release[: len(asked)], edition.day[: len(asked)])


def _first(metadata: Mapping[str, Any], keys: Sequence[str]) -> Numbers:
    for key in keys:
        if key in metadata and (numbers := _numbers(str(metadata[key]))):
            return numbers
    return ()


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _numbers(text: str) -> Numbers:
    return tuple(map(int, re.findall(r"\d+", text)[:4]))
