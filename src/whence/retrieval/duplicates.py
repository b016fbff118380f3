"""Find the passages of a ranking that say what a better ranked passage says.

In: texts, best first. Out: for each the earlier one that says the same. The candidates of a query are few, so
the words in common are counted exactly; a sketch (MinHash, SimHash) estimates their share and knows no figures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from whence.schema.passages import Passage

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

    Cost: linear in the words, plus one comparison with each kept passage that has one of the first runs.
    """

    def __init__(self) -> None:
        self._with_run: dict[tuple[str, ...], list[int]] = {}
        self._kept: list[tuple[set[tuple[str, ...]], frozenset[str]]] = []

    def original(self, text: str) -> int | None:
        """Return the number of the kept passage that says the same, the one with most words in common.

        None keeps the passage under the next number, from 0. Ties go to the lower number.
        """
        words = _WORD.findall(text.casefold())
        runs: set[tuple[str, ...]] = {*zip(words, words[1:], words[2:], strict=False)}
        runs = runs or {tuple(words)}
        figures = frozenset(filter(_DIGIT.search, words))
        # A passage that has enough of the runs has one of any that are more than it may lack.
        first = islice(runs, int(len(runs) - _LEAST_SHARE * len(runs)) + 1)
        best, most = None, 0
        for number in sorted({one for run in first for one in self._with_run.get(run, ())}):
            known, known_figures = self._kept[number]
            if not (figures <= known_figures or known_figures <= figures):
                continue
            share = _LEAST_SHARE if figures <= known_figures else _LEAST_SHARE_WITH_FIGURES
            shared = len(runs & known)
            if shared > most and shared >= share * len(runs):
                best, most = number, shared
        if best is None:
            for run in runs:
                self._with_run.setdefault(run, []).append(len(self._kept))
            self._kept.append((runs, figures))
        return best


def without_duplicates(
    passages: Sequence[Passage], *, least_words: int = 0
) -> tuple[list[Passage], dict[str, str]]:
    """Return the passages that say something of their own, and of each other one the id of the one kept.

    Args:
        passages: Best first, each readable by the one reader that the search is for.
        least_words: A passage of fewer words is kept unless another file has the very same text: a short record
            may equal another.
    """
    near = NearDuplicates()
    short: dict[str, Passage] = {}
    compared: list[str] = []
    kept: list[Passage] = []
    originals: dict[str, str] = {}
    for passage in passages:
        if len(_WORD.findall(passage.text)) < least_words:
            first = short.setdefault(" ".join(passage.text.split()), passage)
            if first is not passage and _of_two_files(first, passage):
                originals[passage.chunk_id] = first.chunk_id
            else:
                kept.append(passage)
            continue
        number = near.original(passage.text)
        if number is None:
            kept.append(passage)
            compared.append(passage.chunk_id)
        else:
            originals[passage.chunk_id] = compared[number]
    return kept, originals


def _of_two_files(one: Passage, other: Passage) -> bool:
    """Return whether two passages come from different files, which are known."""
    files = [(each.metadata.get("root"), each.metadata.get("source_file")) for each in (one, other)]
    return all(file[1] for file in files) and files[0] != files[1]
