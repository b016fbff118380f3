"""Which result is which target: whole, or by its last whole segments, and never by a part of a word.

`a.md` is no part of `src/data.md`; `data.md` is its last segment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from whence.evaluation.searcher import Hit

__all__ = ("assign", "documents_named", "matches")

_PATH = ("/", "#")
_NAME = ("::", ".", "#")
_IN_PATH = re.compile(r"[/#]")
_IN_CODE = re.compile(r"::|[/#.]")


def matches(hint: str, hit: Hit) -> bool:
    """Return whether a hint names a hit; case does not matter, space around the hint neither.

    A path ends with segments parted by `/` or `#`, a qualified name with ones parted by `::`, `.` or `#`,
    and the id of a piece of code with either.
    """
    wanted = hint.strip().casefold()
    in_id = (*_PATH, *_NAME) if "::" in hit.document_id else _PATH
    return bool(wanted) and (
        _ends(hit.document_id, wanted, in_id)
        or _ends(hit.path, wanted, _PATH)
        or hit.name.casefold() == wanted
        or _ends(hit.qualified_name, wanted, _NAME)
    )


def _ends(text: str, wanted: str, separators: Sequence[str]) -> bool:
    folded = text.casefold()
    return folded == wanted or any(folded.endswith(mark + wanted) for mark in separators)


def documents_named(hints: Iterable[str], document_ids: Iterable[str]) -> dict[str, int]:
    """Count the documents of a collection that each hint names by their id alone.

    More than one is ambiguous: any of them satisfies the hint. None is a name or a document that is not there.
    Cost: linear in the segments of all ids, whatever the number of hints.
    """
    wanted = {hint: hint.strip().casefold() for hint in hints}
    counts = dict.fromkeys(wanted.values(), 0)
    for one in document_ids:
        for name in _suffixes(one) & counts.keys():
            counts[name] += 1
    return {hint: counts[name] for hint, name in wanted.items()}


def _suffixes(document_id: str) -> set[str]:
    """Return an id and all its ends that begin with a whole segment."""
    folded = document_id.casefold()
    marks = _IN_CODE if "::" in document_id else _IN_PATH
    return {folded, *(folded[found.end() :] for found in marks.finditer(folded))}


def assign(hints: Sequence[str], hits: Sequence[Hit]) -> dict[int, int]:
    """Return each hint at most one document, and each document at most one hint, as many as possible.

    Documents are taken in rank order, so the best ranks are used: bipartite matching by augmenting paths
    (Kuhn, 1955), in which a document once matched stays matched. Cost: hints x hits for the comparison,
    times the number of hints in the worst case.

    Returns:
        Place of the hint (from 0) by place of the hit (from 0).
    """
    hint_of: dict[int, int] = {}
    hit_of: dict[int, int] = {}
    fitting: dict[int, list[int]] = {}
    seen: set[str] = set()
    for place, hit in enumerate(hits):
        if hit.document_id not in seen:
            seen.add(hit.document_id)
            fitting[place] = [n for n, hint in enumerate(hints) if matches(hint, hit)]

    def augment(place: int, tried: set[int]) -> bool:
        for number in fitting[place]:
            if number not in tried:
                tried.add(number)
                if number not in hit_of or augment(hit_of[number], tried):
                    hit_of[number], hint_of[place] = place, number
                    return True
        return False

    for place in fitting:
        augment(place, set())
    return hint_of
