"""Find which passages a newer edition of the same passage supersedes.

In: a question and passages with metadata. Out: for each older passage the newest one. Documents are editions of
one another only where something says so: a field (`replaced_by`, `status`, `version`, `release`, `valid_from`),
or equal names with a version in the form of a version (`v2`, `4.1`) in both. A bare number is a name, and so is
a date or a year. A version in the question selects; without one the newest goes first.
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
#: The day from which a document is in force. Days on which it was written or printed make no edition.
_DATE_KEYS: Final = ("valid_from",)
#: Where a year may stand that a question names.
_DATED: Final = ("section_path", "valid_from", "updated", "modified", "date", "published")
_YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
#: Least share of the words of the shorter passage that two editions of a passage have in common.
_LEAST_SHARE: Final = 0.5
_SUFFIX: Final = re.compile(r"\.[a-z]\w{0,4}\Z")
#: A version in a path or title, with what joins it to a name: `-4.1`, `/v2`.
_IN_NAME: Final = re.compile(
    r"(?:\A|[-_./ (])(v\d+(?:[._]\d+){0,7}|\d+(?:\.\d+){1,7})(?!\w)", re.IGNORECASE
)
#: A version or a year in a question, where other numbers count things.
_ASKED: Final = re.compile(
    r"\b(?:v|version\s+|release\s+)(\d+(?:\.\d+)*)\b|(?<![\w.])(\d+(?:\.\d+)+)(?![\w%])"
    r"|\b((?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\w+")


class _Edition(NamedTuple):
    """What a passage says of its subject and its edition."""

    names: frozenset[str]
    """Path and title without versions; editions of a document have one in common."""
    heading: str
    """Words of the nearest heading without numbers."""
    known_as: tuple[str, str]
    """Id and title of the document."""
    successor: str
    """Id or title of the document that replaces it; empty when none is named."""
    is_old: bool
    release: Numbers
    day: Numbers
    years: frozenset[Numbers]
    """Years in its path, titles and dates, one of which a question may name."""


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
    their paths or titles are the same but for versions, both have a version or a day from which they are in
    force, or one is called outdated, and so are their headings and half of these words. Then the newer one must
    also have each word of the question that the older one has. The newer edition is the one that its document
    does not call outdated, else that of the higher release, else that of the later day.

    Where the question names a release or year that one of the passages has, those that have it are newer than
    those that have not, and no others are.

    Ties go to the better ranked passage. Cost: a step for each pair of passages whose documents are named alike
    or name one another.
    """
    return _newest(question, _editions(passages), passages)


def _newest(
    question: str, editions: Sequence[_Edition], passages: Sequence[Passage]
) -> dict[int, int]:
    """See `newer_editions`."""
    names = [one.names.union(one.known_as, (one.successor,)) - {""} for one in editions]
    asked, wanted = _asked(question, editions), frozenset(_WORD.findall(question.lower()))
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
            is_edition = same_heading and bool(one.names & other.names)
            is_edition = is_edition and wanted & words(old) <= words(new)
            if (is_successor and same_heading) or (
                (is_successor or is_edition) and _share_words(words(old), words(new))
            ):
                best, newest[old] = other, new
    return newest


def newest_first(question: str, passages: Sequence[Passage]) -> list[int]:
    """Return the numbers of the passages in the order in which older editions follow the newest one.

    The newest edition takes the place of the best ranked one; all others keep their order.
    """
    return order_of_editions(len(passages), newer_editions(question, passages))


def order_of_editions(count: int, newest: Mapping[int, int]) -> list[int]:
    """Return the order of `newest_first` for some passages whose newer editions are known."""
    order: dict[int, None] = {}
    for number in range(count):
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
    editions = _editions(passages)
    asked, newer = _asked(question, editions), _newest(question, editions, passages)
    return [
        number
        for number, one in enumerate(editions)
        if number in newer or (one.is_old and not asked)
    ]


def _asked(question: str, editions: Sequence[_Edition]) -> list[Numbers]:
    named = [_numbers(next(filter(None, found))) for found in _ASKED.findall(question)]
    return [one for one in named if any(_has(edition, one) for edition in editions)]


def _editions(passages: Sequence[Passage]) -> list[_Edition]:
    """Return the edition of each passage; nothing where no document says that it is one."""
    stated = any(
        outdated(one.metadata) or _first(one.metadata, _DATE_KEYS) or _release(one)
        for one in passages
    )
    return [_edition(one) for one in passages] if stated else []


def _release(passage: Passage) -> Numbers:
    """Return the release in a field, else in the path, else in the title."""
    found = _first(passage.metadata, _RELEASE_KEYS)
    if found:
        return found
    names = (_path(passage), _text(passage.metadata.get("title")))
    return next((_numbers(one[1]) for one in map(_IN_NAME.search, names) if one), ())


def _path(passage: Passage) -> str:
    """Return the id of the document in lower case, without the suffix of a file."""
    return _SUFFIX.sub("", passage.document_id.lower())


def _edition(passage: Passage) -> _Edition:
    metadata, path = passage.metadata, _path(passage)
    title = _text(metadata.get("title")).lower()
    names = [f"path {_IN_NAME.sub('', path)}", f"title {_IN_NAME.sub('', title)}"]
    release, day = _release(passage), _first(metadata, _DATE_KEYS)
    if release or day:
        # A field says that it is an edition, so an equal name of the file is enough.
        names.append(f"file {_IN_NAME.sub('', path.rpartition('/')[2])}")
    dated = " ".join(_text(metadata.get(key)) for key in _DATED)
    years = _YEAR.findall(f"{path} {title} {dated}")
    heading = _WORD.findall(_IN_NAME.sub("", _text(metadata.get("heading")).lower()))
    why_old = outdated(metadata)
    return _Edition(
        names=frozenset(names) - {"path ", "title ", "file "},
        heading=" ".join([one for one in heading if one.isalpha() and one not in FUNCTION_WORDS]),
        known_as=(passage.document_id.lower(), title),
        successor=why_old.removeprefix(_REPLACED).lower() if why_old not in _STATUSES else "",
        is_old=bool(why_old),
        release=release,
        day=day,
        years=frozenset((int(year),) for year in years),
    )


def _is_newer(new: _Edition, old: _Edition, asked: Sequence[Numbers]) -> bool:
    if asked:
        wanted, other = (any(_has(one, number) for number in asked) for one in (new, old))
        return wanted and not other
    if new.is_old != old.is_old:
        return old.is_old
    if new.release and old.release:
        return new.release > old.release
    return bool(new.day and old.day) and new.day > old.day


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
    return asked in edition.years or asked in (
        edition.release[: len(asked)],
        edition.day[: len(asked)],
    )


def _first(metadata: Mapping[str, Any], keys: Sequence[str]) -> Numbers:
    for key in keys:
        if key in metadata and (numbers := _numbers(str(metadata[key]))):
            return numbers
    return ()


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _numbers(text: str) -> Numbers:
    return tuple(map(int, re.findall(r"\d+", text)[:4]))
