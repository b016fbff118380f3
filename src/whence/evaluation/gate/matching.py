"""Which result is which target: whole, or by its last whole segments, and never by a part of a word.

`a.md` is no part of `src/data.md`; `data.md` is its last segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from whence.evaluation.searcher import Hit

__all__ = ("assign", "matches")

_PATH = ("/", "#")
_NAME = ("::", ".", "#")


def matches(hint: str, hit: Hit) -> bool:
    """Tell whether a hint names a hit; case does not matter, space around the hint neither.

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


def assign(hints: Sequence[str], hits: Sequence[Hit]) -> dict[int, int]:
    """Give each hint at most one document, and each document at most one hint, as many as possible.

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
