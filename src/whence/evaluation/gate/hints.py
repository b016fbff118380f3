"""Matches the hints of a suite with documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from whence.evaluation.searcher import Passage

#: Places in a text where a segment begins.
_IN_PATH = re.compile(r"(?<=[/#])")
_IN_NAME = re.compile(r"(?<=::)|(?<=[.#])")
_IN_CODE = re.compile(r"(?<=::)|(?<=[/#.])")


def names_hit(hint: str, hit: Passage) -> bool:
    """Return whether a hint names a hit, ignoring case and surrounding space.

    Segments of a path are separated by `/` or `#`, those of a qualified name by `::`, `.` or `#`, and those
    of the id of a piece of code by any of these.
    """
    wanted = hint.strip().casefold()
    return bool(wanted) and (
        wanted in _names_of_id(hit.document_id)
        or wanted in _suffixes(hit.source_file, _IN_PATH)
        or wanted == hit.name.casefold()
        or wanted in _suffixes(hit.qualified_name, _IN_NAME)
    )


def documents_named(hints: Iterable[str], document_ids: Iterable[str]) -> dict[str, int]:
    """Count the documents of a collection that each hint names by their id alone.

    A hint with several documents is ambiguous: any of them satisfies it. A hint with none is a name, or a
    missing document.
    Cost: linear in the segments of all ids, independent of the number of hints.
    """
    wanted = {hint: hint.strip().casefold() for hint in hints}
    counts = dict.fromkeys(wanted.values(), 0)
    for one in document_ids:
        for name in _names_of_id(one) & counts.keys():
            counts[name] += 1
    return {hint: counts[name] for hint, name in wanted.items()}


def _names_of_id(document_id: str) -> set[str]:
    return _suffixes(document_id, _IN_CODE if "::" in document_id else _IN_PATH)


def _suffixes(text: str, starts: re.Pattern[str]) -> set[str]:
    """Return a text and all of its suffixes that begin with a whole segment."""
    folded = text.casefold()
    return {folded, *(folded[found.start() :] for found in starts.finditer(folded))}


def match_hints(hints: Sequence[str], hits: Sequence[Passage]) -> dict[int, int]:
    """Match hints with documents one to one, as many as possible.

    Bipartite matching by augmenting paths (Kuhn, 1955) in rank order: a document once matched stays
    matched, so the best ranks are used. Cost: hints x hits for the comparison, times the number of hints in
    the worst case.

    Returns:
        Index of the hint by index of the hit.
    """
    hint_of: dict[int, int] = {}
    hit_of: dict[int, int] = {}
    fitting: dict[int, list[int]] = {}
    seen: set[str] = set()
    for place, hit in enumerate(hits):
        if hit.document_id not in seen:
            seen.add(hit.document_id)
            fitting[place] = [n for n, hint in enumerate(hints) if names_hit(hint, hit)]

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
