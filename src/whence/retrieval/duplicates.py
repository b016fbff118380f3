"""Find the passages of a ranking that say what a better ranked passage says.

In: texts, best first. Out: for each the earlier one that says the same. The candidates of a query are few, so
the words in common are counted exactly; a sketch (MinHash, SimHash) estimates their share and knows no figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from whence.retrieval.services import Passage

#: Least share of the runs of three words of a passage that an earlier one has. Chosen on pages that packages
#: ship in two or three formats.
_LEAST_SHARE: Final = 0.85
#: The same where the passage has figures that the earlier one lacks, as numbers of pages and sections are.
_LEAST_SHARE_WITH_FIGURES: Final = 0.9
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")


class NearDuplicates:
    """Compares passages, in the order of a ranking, with the earlier ones that were kept.

    A passage is a near-duplicate of one that was kept when that one has nearly all its runs of three words.
    When each has a word with a digit that the other lacks it is none: another price, year or release is
    another statement. A passage that says more than the earlier one is none. Case, layout and marks do not
    count.

    Cost: linear in the words, plus one step for each run of words that a kept passage has, too.
    """

    def __init__(self) -> None:
        self._with_run: dict[tuple[str, ...], list[int]] = {}
        self._figures: list[frozenset[str]] = []

    def original(self, text: str) -> int | None:
        """Return the number of the kept passage that says the same, the one with most words in common.

        None keeps the passage under the next number, from 0. Ties go to the lower number.
        """
        words = _WORD.findall(text.casefold())
        runs = set(zip(words, words[1:], words[2:], strict=False)) or {tuple(words)}
        figures = frozenset(filter(_DIGIT.search, words))
        least = _LEAST_SHARE * len(runs)
        shared = Counter(chain.from_iterable(filter(None, map(self._with_run.get, runs))))
        same = [
            (-count, number)
            for number, count in shared.items()
            if count >= least and self._agree(number, figures, count / len(runs))
        ]
        if same:
            return min(same)[1]
        number = len(self._figures)
        self._figures.append(figures)
        for run in runs:
            self._with_run.setdefault(run, []).append(number)
        return None

    def _agree(self, number: int, figures: frozenset[str], share: float) -> bool:
        known = self._figures[number]
        return figures <= known or (known <= figures and share >= _LEAST_SHARE_WITH_FIGURES)


def without_duplicates(
    passages: Sequence[Passage], *, least_words: int = 0
) -> tuple[list[Passage], dict[str, str]]:
    """Return the passages that say something of their own, and of each other one the id of the one kept.

    Args:
        passages: Best first, each readable by the one reader that the search is for.
        least_words: A passage of fewer words is always kept, as a short record may equal another.
    """
    near = NearDuplicates()
    compared: list[str] = []
    kept: list[Passage] = []
    originals: dict[str, str] = {}
    for passage in passages:
        if len(_WORD.findall(passage.text)) < least_words:
            kept.append(passage)
            continue
        number = near.original(passage.text)
        if number is None:
            kept.append(passage)
            compared.append(passage.chunk_id)
        else:
            originals[passage.chunk_id] = compared[number]
    return kept, originals
