"""How much of a question's spelling texts share: runs of three letters.

In: a question and texts in any script. Out: a number for each text, 0 to 1. Words of one root share runs where
their stems differ, as `geöffnet` and `Öffnungszeiten`, and where words are not parted by blanks.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex

from whence.text.normalization import fold
from whence.text.overlap import inverse_document_frequencies, overlap

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
#: On everyday questions in 13 languages, runs of three tell answers as well as those of two or four.
_LENGTH = 3


def letter_runs(text: str) -> frozenset[str]:
    """Return the runs of three letters of the words of a text; a blank marks the beginning of a word.

    >>> sorted(letter_runs("Öffnet um 9"))
    [' 9', ' of', ' um', 'ffn', 'fne', 'net', 'off']
    """
    words = (f" {word}" for word in _WORD.findall(fold(text)))
    return frozenset(
        word[at : at + _LENGTH] for word in words for at in range(max(1, len(word) - _LENGTH + 1))
    )


def shared_runs(question: str, texts: Sequence[str]) -> list[float]:
    """Return the share of the question's runs that each text has, weighted by their rarity among the texts."""
    found = [letter_runs(one) for one in texts]
    weights = inverse_document_frequencies(found)
    wanted, default = letter_runs(question), max(weights.values(), default=1.0)
    return [overlap(wanted, one, weights, default) for one in found]
