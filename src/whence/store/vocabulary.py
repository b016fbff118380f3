"""The words of the chunks that a reader may see, to find misspelt words of queries by."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from whence.text.analysis import parse_query


class AbsentWords(msgspec.Struct, frozen=True):
    """Words that no visible chunk has."""

    words: frozenset[str]
    languages: tuple[str, ...]
    """Languages of the visible chunks, by name."""


@lru_cache(maxsize=4096)
def whole_terms(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the index terms of a word, or of an identifier as a whole, one for each language, if any."""
    words, _ = parse_query(word, languages)
    return words[0].terms if words else ()
