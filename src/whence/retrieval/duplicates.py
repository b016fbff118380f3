"""Find the passages of a ranking that say what a better ranked passage says.

In: texts, best first. Out: for each the earlier one that says the same. The candidates of a query are few, so
the words in common are counted exactly; a sketch (MinHash, SimHash) estimates their share and knows no figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain
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
#: A space for each ASCII character that is not part of a word.
_GAPS: Final = {number: " " for number in range(128) if not _WORD.match(chr(number))}


class NearDuplicates:
    """Compares passages, in the order of a ranking, with the earlier ones that were kept.

    A passage is a near-duplicate of one that was kept when that one has nearly all its runs of three words.
    When each has a word with a digit that the other lacks it is none: another price, year or release is
    another statement. A passage that says more than the earlier one is none. Case, layout and marks do not
    count.

    Cost: linear in the words; for a passage without many words of its own also a comparison of words with each
    kept passage, and of runs with those that have nearly all the words.

    Args:
        lone: Words that no two of the passages have; may be empty.
    """

    def __init__(self, lone: AbstractSet[str] = frozenset()) -> None:
        self._lone = lone
        self._kept: list[_Words] = []

    def original(self, words: Sequence[str]) -> int | None:
        """Return the number of the kept passage that says the same, the one with most words in common.

        None keeps the passage under the next number, from 0. Ties go to the lower number.

        Args:
            words: Those of the passage, as `words_of` returns them.
        """
        own = _Words(words)
        best, most = None, 0
        for number, known in enumerate(() if own.is_alone(self._lone) else self._kept):
            if own.says_more_than(known):
                continue
            if not (own.figures <= known.figures or known.figures <= own.figures):
                continue
            fewer = own.figures <= known.figures
            share = _LEAST_SHARE if fewer else _LEAST_SHARE_WITH_FIGURES
            shared = len(own.runs & known.runs)
            if shared > most and shared >= share * len(own.runs):
                best, most = number, shared
        if best is None:
            self._kept.append(own)
        return best


def words_of(text: str) -> list[str]:
    """Return the words that passages are compared by, in order."""
    folded = text.casefold()
    # A table splits ASCII into the same words in half the time.
    return folded.translate(_GAPS).split() if folded.isascii() else _WORD.findall(folded)


class _Words:
    """The words of a passage."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._distinct = frozenset(words)
        # Each word but the first two ends a run where it stands first: who lacks the word lacks that run, too.
        self._least_shared = len(self._distinct) - (1 - _LEAST_SHARE) * len(words) - 2

    def says_more_than(self, known: _Words) -> bool:
        """Return whether another passage lacks too many of its words to have nearly all its runs."""
        return len(self._distinct & known._distinct) < self._least_shared

    def is_alone(self, lone: AbstractSet[str]) -> bool:
        """Return whether each other passage lacks too many of its words, for they are among the lone ones."""
        return len(self._distinct) - len(self._distinct & lone) < self._least_shared

    @cached_property
    def runs(self) -> frozenset[tuple[str, ...]]:
        """Its runs of three words; a shorter passage is one run."""
        words = self._words
        runs = frozenset[tuple[str, ...]](zip(words, words[1:], words[2:], strict=False))
        return runs or frozenset([tuple(words)])

    @cached_property
    def figures(self) -> frozenset[str]:
        """Its words with a digit."""
        return frozenset(filter(_DIGIT.search, self._distinct))


def without_duplicates(
    passages: Sequence[Passage], *, least_words: int = 0
) -> tuple[list[Passage], dict[str, str]]:
    """Return the passages that say something of their own, and of each other one the id of the one kept.

    Args:
        passages: Best first, each readable by the one reader that the search is for.
        least_words: A passage of fewer words is kept unless another file has the very same text: a short record
            may equal another.
    """
    words_of_each = [words_of(one.text) for one in passages]
    times = Counter(chain.from_iterable(map(frozenset, words_of_each)))
    near = NearDuplicates({word for word, n in times.items() if n == 1})
    short: dict[str, Passage] = {}
    compared: list[str] = []
    kept: list[Passage] = []
    originals: dict[str, str] = {}
    for passage, words in zip(passages, words_of_each, strict=True):
        if len(words) < least_words:
            first = short.setdefault(" ".join(passage.text.split()), passage)
            if first is not passage and _of_two_files(first, passage):
                originals[passage.chunk_id] = first.chunk_id
            else:
                kept.append(passage)
            continue
        number = near.original(words)
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
