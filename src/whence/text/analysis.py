r"""The analyzer: from text to index terms, the same for documents and queries.

Words are folded (compatibility forms, case, accents) and stemmed with Snowball in a language of the
collection. An identifier yields itself *and* its parts: `parseHTTPResponse` yields itself, `parse`, `http` and
`respons`; `net.core_v2` yields itself, `net`, `core`, `v` and `2`; `v2.9.1` also yields `2.9.1`. Scripts
without spaces yield overlapping pairs of characters, and the index also each character. A name with a dot in
front, such as `.NET`, also yields itself. Stop terms (stop words, single letters) are indexed, but count
neither for a document's length nor for a query that has other terms.

Text that is ASCII is first cut at characters that no token contains; that takes a tenth of the time of finding
tokens. Cost: linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat

import msgspec

from whence.text.normalization import QUESTION_WORDS, STOP_WORDS, fold, snowball_stem

#: Recorded with each collection: terms of another version cannot be matched.
ANALYZER_VERSION = "4"

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
# A sequence in a script without spaces; a language named C#, F# or C++; a name with a dot in front; or words
# joined into one identifier.
_TOKEN = re.compile(
    rf"(?P<cjk>[{_CJK}]+)"
    r"|(?P<sharp>\b[A-Za-z](?:\#|\+\+)(?!\w))"
    r"|(?P<dotted>(?<![\w.])\.(?=[A-Za-z]))?"
    rf"[^\W_{_CJK}]+(?:(?:::|[.:#]|_+)[^\W_{_CJK}]+)*"
)
_CJK_RUN = re.compile(rf"[{_CJK}]+")
# Keeps the characters of tokens and replaces all others by a space.
_TOKEN_CHARACTERS = "".join(
    char if char.isalnum() or char in "_.:#+" else " " for char in map(chr, range(128))
)
#: Entries of each cache, some 400 bytes each: most words of a text soon come again. Four times as many took 5 %
#: less time on English text.
_CACHE_ENTRIES = 1 << 10
# `HTTP` and `Response` in HTTPResponse; digits apart.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# `re` has no classes for the case of other alphabets; their words are divided at joints and digits only.
_PLAIN_PART = re.compile(r"[^\W\d_]+|\d+")
# A release is written 2.9.1, v2.9.1 and in names of files like 2.9.1.txt; its digits apart say little.
_NUMBER = re.compile(r"(?<!\d)\d++(?:\.\d++)+")


def document_terms(text: str, language: str = "english") -> list[str]:
    """Return all terms of a document's text, in order, with repeats.

    Args:
        text: Any text.
        language: Snowball's name of the language, one of `normalization.LANGUAGES`.
    """
    if not text.isascii():
        return list(_token_terms(text, language))
    terms: list[str] = []
    for word in text.translate(_TOKEN_CHARACTERS).split():
        terms += _word_terms(word, language) if word.isalnum() else _token_terms(word, language)
    return terms


def single_characters(text: str) -> list[str]:
    """Return the characters of sequences in scripts without spaces, which a query of one character matches."""
    if text.isascii():
        return []
    runs = _CJK_RUN.findall(unicodedata.normalize("NFKC", text))
    return [char for run in runs if len(run) > 1 for char in run]


# Identifiers are new, their parts recur.
_part_stem = lru_cache(maxsize=_CACHE_ENTRIES)(snowball_stem)


@lru_cache(maxsize=_CACHE_ENTRIES)
def _word_terms(token: str, language: str) -> tuple[str, ...]:
    """Return the stem of a word, or an identifier whole and in stemmed parts."""
    parts = (_PART if token.isascii() else _PLAIN_PART).findall(token)
    if len(parts) < 2:
        return (snowball_stem(token, language),)
    numbers = [number for number in _NUMBER.findall(token) if number != token]
    return (fold(token), *numbers, *[_part_stem(part, language) for part in parts])


def _token_terms(text: str, language: str) -> Iterator[str]:
    """Yield the terms of any text."""
    for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text)):
        token = match.group()
        if match.lastgroup == "cjk":
            yield from _character_pairs(token)
        elif match.lastgroup == "dotted":
            yield token.lower()
            yield from _word_terms(token[1:], language)
        elif match.lastgroup == "sharp":
            yield token.lower()
        else:
            yield from _word_terms(token, language)


def _character_pairs(characters: str) -> list[str]:
    """Return the overlapping pairs of some characters, or the only character."""
    return [characters[start : start + 2] for start in range(max(1, len(characters) - 1))]


def field_length(counts: Mapping[str, int]) -> int:
    """Return the number of occurrences of terms that are neither stop terms nor single characters."""
    return sum(n for term, n in counts.items() if len(term) > 1 and term not in STOP_WORDS)


def is_stop_term(term: str) -> bool:
    """Return whether a term carries no topic: a stop word, or a single letter or digit."""
    return term in STOP_WORDS or (len(term) == 1 and (term.isascii() or not _is_cjk(term)))


def _is_cjk(char: str) -> bool:
    return _TOKEN.match(char) is not None and ord(char) >= 0x3040 and not char.isdecimal()


class QueryWord(msgspec.Struct, frozen=True):
    """A word of a query, or a part of one of its identifiers."""

    terms: tuple[str, ...]
    """The term of the word in each language of a collection, in the order of the languages."""
    required: bool = True
    """False for an identifier as a whole: a chunk with all of its parts matches as well."""


def parse_query(text: str, languages: Sequence[str] = ("english",)) -> tuple[list[QueryWord], bool]:
    """Return the words of a query, in order, with repeats, and whether the query is a single word.

    Stop terms are left out, and so are the words that make an English question: `which` tells nothing of a
    passage, and is rare enough to count more than the topic. In capitals they are kept, for `WHERE` is a name.
    Where nothing else is left they stay: the list is empty only for a query without letters and digits.

    A single word may stand beside stop words and may have parts: `OrderService`, `the net.core_v2`. But
    `force-with-lease` is three words, and text in a script without spaces is never a single one.

    Args:
        text: The query.
        languages: Languages of the collection, at least one.
    """
    found: list[QueryWord] = []
    asking: list[QueryWord] = []
    strong, is_cjk = 0, False
    for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text)):
        token = match.group()
        kind, lowered = match.lastgroup, token.lower()
        if not is_stop_term(lowered):
            strong, is_cjk = strong + 1, kind == "cjk"
        if kind == "cjk":
            found += [QueryWord((pair,) * len(languages)) for pair in _character_pairs(token)]
        elif kind == "sharp":
            found.append(QueryWord((lowered,) * len(languages)))
        else:
            if kind == "dotted":
                found.append(QueryWord((lowered,) * len(languages), required=False))
                token = token[1:]
            asks = lowered in QUESTION_WORDS and not token.isupper() and "english" in languages
            # An identifier has the same parts in every language.
            terms = list(zip(*map(_word_terms, repeat(token), languages), strict=True))
            for place, some in enumerate(terms):
                word = QueryWord(some, required=place > 0 or len(terms) == 1)
                (asking if asks else found).append(word)
    words = [word for word in found if not is_stop_term(word.terms[0])]
    return words or asking or found, strong == 1 and not is_cjk
