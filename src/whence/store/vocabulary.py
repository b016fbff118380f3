"""The words of the chunks that a reader may see, to find misspelt words of queries by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol, runtime_checkable

import msgspec

from whence.schema.access import Access
from whence.text.analysis import parse_query


class AbsentWords(msgspec.Struct, frozen=True):
    """Words that no visible chunk has."""

    words: frozenset[str]
    languages: tuple[str, ...]
    """Languages of the visible chunks, by name."""


@runtime_checkable
class SupportsVocabulary(Protocol):
    """Optional protocol of a store that knows the words of chunks as they are written."""

    async def absent_words(
        self, collection: str, words: Sequence[str], access: Access
    ) -> AbsentWords:
        """Return those of these words and identifiers that no visible chunk has, in any inflection.

        An identifier counts as a whole. May answer from what a search just before it read. Cost: that of the
        postings of words that were not searched for before.

        Raises:
            NotFound: The collection does not exist.
        """

    async def similar_words(self, collection: str, word: str, access: Access) -> Mapping[str, int]:
        """Return words of visible chunks in lower case that may be what a misspelt word means.

        Among them are all that `spelling.nearest_word` accepts; the values are numbers of visible chunks. A
        hidden chunk neither adds a word nor changes a number. Cost: linear in the words of the visible chunks,
        0.1 to 0.2 microseconds each.
        """


@lru_cache(maxsize=4096)
def whole_terms(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the index terms of a word, or of an identifier as a whole, one for each language, if any."""
    words, _ = parse_query(word, languages)
    return words[0].terms if words else ()
