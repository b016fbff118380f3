"""Find the passages of a ranking that say what a better ranked passage says.

In: passages, best first. Out: for each the earlier one that says the same. The words in common are counted
exactly where the signatures of two passages do not tell them apart; a sketch (MinHash, SimHash) estimates their
share and knows no figures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from whence.text.signatures import Signature, compared_words, signature_of

if TYPE_CHECKING:
    from whence.schema.passages import Passage

#: Least share of the runs of three words of a passage that an earlier one has. Chosen on pages that packages
#: ship in two or three formats.
_LEAST_SHARE: Final = 0.85
#: The same where the passage has figures that the earlier one lacks, as numbers of pages and sections are.
_LEAST_SHARE_WITH_FIGURES: Final = 0.9
_DIGIT = re.compile(r"\d")


class NearDuplicates:
    """Compares passages, in the order of a ranking, with the earlier ones that were kept.

    A passage is a near-duplicate of one that was kept when that one has nearly all its runs of three words.
    When each has a word with a digit that the other lacks it is none: another price, year or release is
    another statement. A passage that says more than the earlier one is none. Case, layout and marks do not
    count.

    Cost: a comparison of signatures with each kept passage; one of words where they do not tell two passages
    apart, and of runs where one has nearly all words of the other.
    """

    def __init__(self) -> None:
        self._kept: list[_Words] = []

    def original(self, text: str, signature: Signature | None = None) -> int | None:
        """Return the number of the kept passage that says the same, the one with most words in common.

        None keeps the passage under the next number, from 0. Ties go to the lower number.

        Args:
            text: That of the passage.
            signature: That of its words; None when it is not known.
        """
        own = _Words(text, signature or signature_of(text))
        best, most = None, 0
        for number, known in enumerate(self._kept):
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


class _Words:
    """The words of a passage, which are read where its signature does not tell enough."""

    def __init__(self, text: str, signature: Signature) -> None:
        self._text = text
        self._signature = signature
        # Each word but the first two ends a run where it stands first: who lacks the word lacks that run, too.
        self._most_lacking = (1 - _LEAST_SHARE) * signature.words + 2

    def says_more_than(self, known: _Words) -> bool:
        """Return whether another passage lacks too many of its words to have nearly all its runs."""
        if self._signature.lacking(known._signature) > self._most_lacking:
            return True
        return len(self._distinct - known._distinct) > self._most_lacking

    @cached_property
    def _words(self) -> list[str]:
        return compared_words(self._text)

    @cached_property
    def _distinct(self) -> frozenset[str]:
        return frozenset(self._words)

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
    near = NearDuplicates()
    short: dict[str, Passage] = {}
    compared: list[str] = []
    kept: list[Passage] = []
    originals: dict[str, str] = {}
    for passage in passages:
        signature = signature_of(passage.text, passage.word_signature)
        if signature.words < least_words:
            first = short.setdefault(" ".join(passage.text.split()), passage)
            if first is not passage and _of_two_files(first, passage):
                originals[passage.chunk_id] = first.chunk_id
            else:
                kept.append(passage)
            continue
        number = near.original(passage.text, signature)
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
