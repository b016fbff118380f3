"""From text to terms: the one analyzer that documents and queries share.

Words are folded (compatibility forms, case, accents) and stemmed with Snowball in a language of the
collection. An identifier is kept whole *and* split: `parseHTTPResponse` gives itself, `parse`, `http` and
`respons`; `net.core_v2` gives itself, `net`, `core`, `v` and `2`; `v2.9.1` also gives `2.9.1`. Scripts
without spaces give overlapping pairs of characters. Weak terms (stop words, single letters) are indexed, but
count neither for a document's length nor for a query that has anything else.

Cost: linear in the length of the text; a word is folded and stemmed once while it stays in the cache.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec
import Stemmer

__all__ = (
    "ANALYZER_VERSION",
    "LANGUAGES",
    "QueryWord",
    "analyze_pretoken",
    "ascii_pretokens",
    "document_terms",
    "field_length",
    "is_single_word",
    "is_stop_term",
    "parse_query",
    "pretoken_terms",
    "query_terms",
    "query_words",
    "term_counts",
)

#: Recorded with each collection: terms of another version cannot be matched.
ANALYZER_VERSION = "3"

#: Languages that Snowball can stem.
LANGUAGES = frozenset(Stemmer.algorithms())

#: The 33 English words of Lucene's default list; they carry no topic.
_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ]
)

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
# A run of a script without spaces; a language named C#, F# or C++; or words joined into one identifier.
_TOKEN = re.compile(
    rf"(?P<cjk>[{_CJK}]+)"
    r"|(?P<sharp>\b[A-Za-z](?:\#|\+\+)(?!\w))"
    rf"|[^\W_{_CJK}]+(?:(?:::|[.:#]|_+)[^\W_{_CJK}]+)*"
)
# The same for text that is ASCII, in four fifths less time: no alternatives are tried where a word begins.
# `#` or `++` at the end belongs to a token of one letter, and is cut off any other.
_ASCII_TOKEN = re.compile(
    r"[A-Za-z0-9]++(?:(?:::|[.:#]|_+)[A-Za-z0-9]++)*(?:(?<=\b[A-Za-z])(?:\#|\+\+)(?!\w))?"
)
# Leaves the characters that tokens are made of; all others end one.
_ASCII_RUNS = "".join(
    char if char.isalnum() or char in "_.:#+\0" else " " for char in map(chr, range(128))
)
#: Words whose terms are remembered, some 400 bytes each: most of a text is words that come again soon. With
#: four times as many, and stems and runs beside them, English text took 5 % less time.
_REMEMBERED = 1 << 10
# `HTTP` and `Response` in HTTPResponse; digits apart.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Other alphabets have no classes for case in `re`; their words part only at joints and digits.
_PLAIN_PART = re.compile(r"[^\W\d_]+|\d+")
# A release is written 2.9.1, v2.9.1 and in names of files like 2.9.1.txt; its digits apart say little.
_NUMBER = re.compile(r"\d+(?:\.\d+)+")


def document_terms(text: str, language: str = "english") -> list[str]:
    """Return all terms of a document's text, in order, with repeats.

    Args:
        text: Any text.
        language: Snowball's name of the language, one of `LANGUAGES`.
    """
    if not text.isascii():
        return list(_terms(text, language))
    return [term for run in ascii_pretokens(text) for term in pretoken_terms(run, language)]


def term_counts(text: str, language: str = "english") -> dict[str, int]:
    """Count the terms of a document's text: what `document_terms` gives, each with its repeats.

    A token that occurs again is taken apart once.
    """
    counts: dict[str, int] = {}
    if not text.isascii():
        return dict(Counter(_terms(text, language)))
    for run, n in Counter(ascii_pretokens(text)).items():
        for term in pretoken_terms(run, language):
            counts[term] = counts.get(term, 0) + n
    return counts


def ascii_pretokens(text: str) -> list[str]:
    r"""Return the parts of a text that is ASCII, in order, between characters that are in no token.

    The terms of the text are those of its runs, and to cut them takes a tenth of the time of finding tokens.
    The character NUL is a run of its own where space is on both sides of it, and has no terms: texts joined by
    it are cut in one go.
    """
    return text.translate(_ASCII_RUNS).split()


@lru_cache(maxsize=_REMEMBERED)
def pretoken_terms(run: str, language: str) -> tuple[str, ...]:
    """Return the terms of one of the `ascii_pretokens`, in order; those of the last few are remembered."""
    return analyze_pretoken(run, language)


def analyze_pretoken(run: str, language: str) -> tuple[str, ...]:
    """Return the terms of one of the `ascii_pretokens`, for a caller that remembers them itself."""
    if run.isalnum():
        return _ascii_word_terms(run, language)
    tokens = _ASCII_TOKEN.findall(run)
    if len(tokens) == 1:
        return _ascii_terms(tokens[0], language)
    return tuple([term for token in tokens for term in _ascii_terms(token, language)])


def _ascii_terms(token: str, language: str) -> tuple[str, ...]:
    """Return the terms of a match of `_ASCII_TOKEN`."""
    if token[-1] not in "#+":
        return _ascii_word_terms(token, language)
    word = token.rstrip("#+")
    return (token.lower(),) if len(word) == 1 else _ascii_word_terms(word, language)


def _ascii_word_terms(token: str, language: str) -> tuple[str, ...]:
    """Return what `_word_terms` gives for a word that is ASCII."""
    # Digits have no stem, and there are more of them than can be remembered.
    if token.isdigit():
        return (token,)
    parts = _PART.findall(token)
    if len(parts) < 2:
        return (_stem(token, language),)
    stems = [part if part.isdigit() else _part_stem(part, language) for part in parts]
    return (token.lower(), *_numbers(token), *stems)


def field_length(counts: Mapping[str, int]) -> int:
    """Return how many occurrences of terms that are not weak are counted."""
    return sum(
        n
        for term, n in counts.items()
        if (len(term) > 1 and term not in _STOP_WORDS) or not is_stop_term(term)
    )


class QueryWord(msgspec.Struct, frozen=True):
    """A word of a query, or a part of one of its identifiers."""

    terms: tuple[str, ...]
    """The term that each language of a collection makes of it, in the order of the languages."""
    required: bool = True
    """False of an identifier as a whole: what has all of its parts says it too."""


def query_words(text: str, languages: Sequence[str] = ("english",)) -> list[QueryWord]:
    """Return the words of a query in every language of a collection, in order, with repeats.

    Weak words are left out unless there is nothing else: a query is only empty when it holds no letter and no
    digit.
    """
    return parse_query(text, languages)[0]


def parse_query(text: str, languages: Sequence[str] = ("english",)) -> tuple[list[QueryWord], bool]:
    """Return the `query_words`, and whether they are one word as written: see `is_single_word`."""
    found: list[QueryWord] = []
    strong, is_cjk = 0, False
    for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text)):
        token = match.group()
        if not is_stop_term(token.lower()):
            strong, is_cjk = strong + 1, match.lastgroup == "cjk"
        if match.lastgroup == "cjk":
            found += [QueryWord((pair,) * len(languages)) for pair in _pairs(token)]
        elif match.lastgroup == "sharp":
            found.append(QueryWord((token.lower(),) * len(languages)))
        else:
            # Where an identifier parts does not depend on the language.
            terms = list(zip(*(_word_terms(token, one) for one in languages), strict=True))
            found += [
                QueryWord(some, required=place > 0 or len(terms) == 1)
                for place, some in enumerate(terms)
            ]
    words = [word for word in found if not is_stop_term(word.terms[0])] or found
    return words, strong == 1 and not is_cjk


def query_terms(text: str, languages: Sequence[str] = ("english",)) -> list[str]:
    """Return the terms of the words of a query, in order, with repeats; arguments as for `query_words`."""
    return [term for word in query_words(text, languages) for term in dict.fromkeys(word.terms)]


def is_single_word(text: str) -> bool:
    """Return whether a query is one word beside stop words, be it with parts: `OrderService`, `the net.core_v2`.

    `force-with-lease` is three, nowhere kept whole; a run of a script without spaces is any number.
    """
    return parse_query(text)[1]


def is_stop_term(term: str) -> bool:
    """Return whether a term says nothing of a topic: a stop word, or a single letter or digit."""
    return term in _STOP_WORDS or (len(term) == 1 and (term.isascii() or not _is_cjk(term)))


def _terms(text: str, language: str) -> Iterator[str]:
    for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text)):
        token = match.group()
        if match.lastgroup == "cjk":
            yield from _pairs(token)
        elif match.lastgroup == "sharp":
            yield token.lower()
        else:
            yield from _word_terms(token, language)


def _pairs(run: str) -> Iterator[str]:
    """Return the overlapping pairs of characters of a run, or its only character."""
    if len(run) == 1:
        yield run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


@lru_cache(maxsize=_REMEMBERED)
def _word_terms(token: str, language: str) -> tuple[str, ...]:
    """Return a word's stem, or an identifier whole and in stemmed parts."""
    if token.isascii():
        return _ascii_word_terms(token, language)
    parts = _PLAIN_PART.findall(token)
    if len(parts) < 2:
        return (_stem(token, language),)
    return (_fold(token), *_numbers(token), *(_stem(part, language) for part in parts))


def _numbers(token: str) -> list[str]:
    """Return the numbers with points in them that are part of an identifier."""
    if "." not in token:
        return []
    return [number for number in _NUMBER.findall(token) if number != token]


def _stem(word: str, language: str) -> str:
    # Stop words are compared as they are written; stemming first would turn "this" into "thi".
    lowered = word.casefold()
    if lowered in _STOP_WORDS:
        return lowered
    # Porter's first stemmer leaves nothing of "s".
    return _fold(_stemmer(language).stemWord(lowered) or lowered)


@lru_cache(maxsize=_REMEMBERED)
def _part_stem(part: str, language: str) -> str:
    """Return the stem of a part of an identifier: identifiers are new, their parts the same again and again."""
    return _stem(part, language)


def _fold(word: str) -> str:
    """Lower the case and take the accents off."""
    lowered = word.casefold()
    if lowered.isascii():
        return lowered
    decomposed = unicodedata.normalize("NFKD", lowered)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


@lru_cache(maxsize=64)
def _stemmer(language: str) -> Stemmer.Stemmer:
    # Without the memory of its own: ten thousand words, which are remembered here as far as it pays.
    return Stemmer.Stemmer(language, 0)


def _is_cjk(char: str) -> bool:
    return _TOKEN.match(char) is not None and ord(char) >= 0x3040 and not char.isdecimal()
