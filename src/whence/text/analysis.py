r"""The analyzer: from text to index terms, the same for documents and queries.

Words are folded (compatibility forms, case, accents, invisible characters) and stemmed with Snowball in a
language of the collection. An identifier yields itself *and* its parts: `parseHTTPResponse` yields itself,
`parse`, `http` and `respons`; `net.core_v2` yields itself, `net`, `core`, `v` and `2`; `v2.9.1` also yields
`2.9.1`. Scripts without spaces yield overlapping pairs of characters, and the index also each character. A name
with a dot in front, such as `.NET`, also yields itself. Dates, periods and numbers also yield their one form
(`values`). Stop terms (stop words, single letters) are indexed, but count neither for a document's length nor
for a query that has other terms.

Text is first cut at white space, and what is ASCII at characters that no token contains; that takes a tenth of
the time of finding tokens. Cost: linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, repeat

import msgspec
import regex

from whence.text.normalization import (
    QUESTION_WORDS,
    STOP_WORDS,
    clean,
    fold,
    function_words,
    snowball_stem,
)
from whence.text.question_words import language_of_question, question_words
from whence.text.scripts import UNSPACED, UNSPACED_CLASS, UNSPACED_RUN, clusters, language_of_run
from whence.text.values import find_values, value_terms, without_values

#: Recorded with each collection: terms of another version cannot be matched.
ANALYZER_VERSION = "5"

_UNSPACED = rf"[{UNSPACED_CLASS}--\p{{Nd}}--\p{{P}}]"
_CHARACTER = rf"[\p{{L}}\p{{M}}\p{{N}}--{_UNSPACED}]"
#: No mark stands alone.
_WORD = rf"[\p{{L}}\p{{N}}--{_UNSPACED}]{_CHARACTER}*"
# A sequence in a script without spaces; a language named C#, F# or C++; a name with a dot in front; or words
# joined into one identifier.
_TOKEN = regex.compile(
    rf"(?P<unspaced>{_UNSPACED}+)"
    r"|(?P<sharp>\b[A-Za-z](?:\#|\+\+)(?!\w))"
    r"|(?P<dotted>(?<![\w.])\.(?=[A-Za-z]))?"
    rf"{_WORD}(?:(?:::|[.:\#]|_+){_WORD})*",
    regex.V1,
)
#: Characters of which one is a word.
_IDEOGRAPH = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
# Keeps the characters of tokens and replaces all others by a space.
_TOKEN_CHARACTERS = "".join(
    char if char.isalnum() or char in "_.:#+" else " " for char in map(chr, range(128))
)
#: Entries of each cache, some 400 bytes each: most words of a text soon come again. With an eighth of them,
#: abstracts of medicine took a fifth more time.
_CACHE_ENTRIES = 1 << 13
#: Longest sequence of other characters than ASCII that is cached: a sentence in a script without spaces is one.
_MAX_CACHED_RUN = 32
# `HTTP` and `Response` in HTTPResponse; digits apart.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Words of other alphabets are divided at joints and digits only.
_PLAIN_PART = regex.compile(r"[\p{L}\p{M}]+|\p{N}+")
# A release is written 2.9.1, v2.9.1 and in names of files like 2.9.1.txt; its digits apart say little.
_NUMBER = re.compile(r"(?<!\d)\d++(?:\.\d++)+")


def document_terms(text: str, language: str = "english") -> list[str]:
    """Return all terms of a document's text, in order, with repeats.

    Args:
        text: Any text.
        language: Name of the language, one of `normalization.LANGUAGES`.
    """
    if text.isascii():
        # These functions of the interpreter take half the time of a loop.
        runs = text.translate(_TOKEN_CHARACTERS).split()
        return list(chain.from_iterable(map(_run_terms, runs, repeat(language))))
    terms: list[str] = []
    for run in clean(text).split():
        if run.isascii() or len(run) <= _MAX_CACHED_RUN:
            terms += _run_terms(run, language)
        else:
            terms += _token_terms(run, language)
    return terms


def added_terms(text: str, language: str = "english") -> list[str]:
    """Return what the index has of a text beside `document_terms`: single characters, and values.

    A query of one character of a script without spaces matches the first; the others are `values.value_terms`.
    """
    values = value_terms(text, (language,))
    if text.isascii():
        return values
    runs = UNSPACED_RUN.findall(clean(text))
    return [one for run in runs if len(run) > 1 for one in run if _IDEOGRAPH.match(one)] + values


# Identifiers are new, their parts recur.
_part_stem = lru_cache(maxsize=_CACHE_ENTRIES)(snowball_stem)


@lru_cache(maxsize=_CACHE_ENTRIES)
def _run_terms(run: str, language: str) -> tuple[str, ...]:
    """Return the terms of a text that was cleaned and has no white space."""
    if run.isalnum() and run.isascii():
        return _word_terms(run, language)
    if not run.isascii():
        return tuple(_token_terms(run, language))
    words = run.translate(_TOKEN_CHARACTERS).split()
    return tuple(term for word in words for term in _token_terms(word, language))


@lru_cache(maxsize=_CACHE_ENTRIES)
def _word_terms(token: str, language: str) -> tuple[str, ...]:
    """Return the stem of a word, or an identifier whole and in stemmed parts."""
    parts = (_PART if token.isascii() else _PLAIN_PART).findall(token)
    if len(parts) < 2:
        return (snowball_stem(token, language),)
    numbers = [number for number in _NUMBER.findall(token) if number != token]
    return (fold(token), *numbers, *[_part_stem(part, language) for part in parts])


def _token_terms(text: str, language: str) -> Iterator[str]:
    """Yield the terms of a text that was cleaned."""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if match.lastgroup == "unspaced":
            yield from _character_pairs(token)
        elif match.lastgroup == "dotted":
            yield token.lower()
            yield from _word_terms(token[1:], language)
        elif match.lastgroup == "sharp":
            yield token.lower()
        else:
            yield from _word_terms(token, language)


def _character_pairs(run: str) -> list[str]:
    """Return the overlapping pairs of the characters of a sequence, or the only character."""
    characters = clusters(run)
    return [
        fold("".join(characters[start : start + 2])) for start in range(max(1, len(characters) - 1))
    ]


def field_length(counts: Mapping[str, int]) -> int:
    """Return the number of occurrences of terms that are neither stop terms nor single characters."""
    return sum([n for term, n in counts.items() if len(term) > 1 and term not in STOP_WORDS])


def is_stop_term(term: str) -> bool:
    """Return whether a term carries no topic: a stop word, or a single letter or digit."""
    return term in STOP_WORDS or (len(term) == 1 and (term.isascii() or not UNSPACED.match(term)))


class QueryWord(msgspec.Struct, frozen=True):
    """A word of a query, or a part of one of its identifiers."""

    terms: tuple[str, ...]
    """The term of the word in each language of a collection, in the order of the languages."""
    required: bool = True
    """False for an identifier as a whole: a chunk with all of its parts matches as well."""


def parse_query(text: str, languages: Sequence[str] = ("english",)) -> tuple[list[QueryWord], bool]:
    """Return the words of a query, in order, with repeats, and whether the query is a single word.

    Stop terms are left out, and so are the words that make a question, and in other languages than English all
    function words: `which` tells nothing of a passage, and is rare enough to count more than the topic. In
    capitals they are kept, for `WHERE` is a name. Where nothing else is left they stay: the list is empty only
    for a query without letters and digits. A date, a period or a number stands in its one form.

    A single word may stand beside stop words and may have parts: `OrderService`, `the net.core_v2`. But
    `force-with-lease` is three words, and text in a script without spaces is never a single one.

    Args:
        text: The query.
        languages: Languages of the collection, at least one.
    """
    found: list[QueryWord] = []
    asking: list[QueryWord] = []
    strong, is_unspaced = 0, False
    values, rest = _values(text, languages)
    text = clean(rest)
    asks = _asking_words(text, languages)
    for match in _TOKEN.finditer(text):
        token = match.group()
        kind, lowered = match.lastgroup, token.lower()
        if not is_stop_term(lowered):
            strong, is_unspaced = strong + 1, kind == "unspaced"
        if kind == "unspaced":
            topics = topic_pairs(token)
            pairs = topics or _character_pairs(token)
            (found if topics else asking).extend(
                QueryWord((pair,) * len(languages)) for pair in pairs
            )
        elif kind == "sharp":
            found.append(QueryWord((lowered,) * len(languages)))
        else:
            if kind == "dotted":
                found.append(QueryWord((lowered,) * len(languages), required=False))
                token = token[1:]
            only_asks = fold(token) in asks and not token.isupper()
            # An identifier has the same parts in every language.
            terms = list(zip(*map(_word_terms, repeat(token), languages), strict=True))
            for place, some in enumerate(terms):
                word = QueryWord(some, required=place > 0 or len(terms) == 1)
                (asking if only_asks else found).append(word)
    words = [word for word in (*found, *values) if not is_stop_term(word.terms[0])]
    is_one = strong + len(values) == 1 and not is_unspaced
    return words or asking or found, is_one


def _values(text: str, languages: Sequence[str]) -> tuple[list[QueryWord], str]:
    """Return the words of the values of a query, and the query without these."""
    words: list[QueryWord] = []
    values = find_values(text, languages)
    for one in values:
        terms = [(form, len(one.forms) == 1) for form in one.forms]
        terms += [(around, around.isdecimal()) for around in one.around]
        words += [QueryWord((term,) * len(languages), required=needed) for term, needed in terms]
    return words, without_values(text, values)


def _asking_words(text: str, languages: Sequence[str]) -> frozenset[str]:
    """Return the folded words that carry no topic in the language of a query, one of some languages."""
    language = language_of_question(text, languages)
    asking = QUESTION_WORDS if "english" in languages else frozenset()
    return asking if language == "english" else asking | function_words(language)


def topic_pairs(run: str) -> list[str]:
    """Return the pairs of characters of a sequence in a script without spaces, without its function words."""
    parts = _untopical(language_of_run(run)).split(run)
    return [pair for one in parts if one for pair in _character_pairs(one)]


@cache
def _untopical(language: str) -> regex.Pattern[str]:
    """Return the pattern of what carries no topic in a script without spaces.

    A function word of one character may be part of any word: it counts where it asks. In Japanese function
    words of Hiragana count where nothing else stands beside them in Hiragana.
    """
    asking = question_words(language)
    known = [one for one in function_words(language) if UNSPACED.match(one)]
    words = [one for one in known if len(one) > 1 or one in asking]
    if language != "japanese":
        return regex.compile(_any_of(words))
    kana = [one for one in known if regex.fullmatch(r"\p{Hiragana}+", one)]
    others = [one for one in words if one not in kana]
    return regex.compile(
        rf"(?<!\p{{Hiragana}})(?:{_any_of(kana)})+(?!\p{{Hiragana}})|{_any_of(others)}"
    )


def _any_of(words: Sequence[str]) -> str:
    return "|".join(map(regex.escape, sorted(words, key=lambda one: (-len(one), one))))
