"""Misspelt words of a query: which words can be corrected, and to which word of the documents.

A word is corrected only when no visible document has it: to the nearest word of these by the distance of
Damerau and Levenshtein, one edit for words of up to five letters and two for longer ones. Doubled letters count
as one, so that `midlewear` leads to `middleware`. The first letter stays, or is swapped with the second. Words
with digits, words of fewer than four letters, quoted words, contractions and words of a dictionary are kept:
that `remove` is in no document does not make it a misspelt `remote`. A rare word of a dictionary may be a name,
which has one edit at most. Only their British or American spelling is tried: `licence`
leads to `license`. In a name or an abbreviation, a word of up to five letters with a capital, letters
may only be swapped or doubled. An identifier is corrected by its parts.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from itertools import groupby
from typing import Final

import msgspec
from rapidfuzz.distance import DamerauLevenshtein

from whence.schema.search import Correction

#: Shortest and longest word that is corrected, in letters.
_MIN_LETTERS: Final = 4
_MAX_LETTERS: Final = 40
#: Longest word for which one edit counts; longer ones may have two.
_MAX_SHORT: Final = 5
#: Shortest word in which two edits may change two letters.
_MIN_VERY_LONG: Final = 8
#: Uses of a word in the dictionary's sample up to which it may be an error itself.
_RARE_USES: Final = 50
#: Share of the words of a dictionary that are rarer than its usual ones; names of persons are below.
_OFTEN: Final = 0.95
#: Codes of the dictionaries, by Snowball's names of the languages.
_DICTIONARIES: Final = {
    "arabic": "ar",
    "basque": "eu",
    "dutch": "nl",
    "english": "en",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
}

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_LETTERS = re.compile(rf"[^\W\d_{_UNSPACED}]+")
#: Replaces ASCII that is no letter by a space; cutting there takes a third of the time of `_LETTERS`.
_ASCII_LETTERS = "".join(char if char.isalpha() else " " for char in map(chr, range(128)))
#: A capital that is not the first letter, in a word that has small ones: only such words have several parts.
_MIXED = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_CAMEL_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Words joined into one by the marks of identifiers and of options of commands.
_TOKEN = re.compile(r"(?:--)?\w+(?:(?:::|[.:#'\u2019-])\w+)*")
_APOSTROPHE = re.compile(r"['\u2019]")
_QUOTED = re.compile(
    r"\"[^\"]*\"|\u201c[^\u201d]*\u201d|\u00ab[^\u00bb]*\u00bb|`[^`]*`|(?<!\w)'[^']*'(?!\w)"
)


#: Endings that British and American English spell apart, with what may follow them in an inflected word.
_REGIONAL: Final = (
    ("isation", "ization"),
    ("ence", "ense"),
    ("ogue", "og"),
    ("our", "or"),
    ("ise", "ize"),
    ("ising", "izing"),
    ("yse", "yze"),
    ("ysing", "yzing"),
    ("tre", "ter"),
    ("ll", "l"),
)
_INFLECTIONS: Final = "|ed|d|s|r|rs|ing|al|able|ful|less|er|ers|ation|ations"
#: Shortest word with another spelling: `four` is no `for`.
_MIN_REGIONAL: Final = 6


class QueryToken(msgspec.Struct, frozen=True):
    """A word or an identifier of a query."""

    text: str
    start: int
    """Offset in the query."""
    parts: tuple[tuple[int, str], ...]
    """Words of letters in it, with their offsets in `text`."""
    quoted: bool = False

    @property
    def is_word(self) -> bool:
        """Whether it is a single word."""
        return len(self.parts) == 1 and self.parts[0][1] == self.text


def surface_words(text: str) -> frozenset[str]:
    """Return the words of letters in a text as they are written, in lower case, each once.

    Words of identifiers count: `maxUploadSize` also has `max`, `upload` and `size`. Those of fewer than three
    letters, and those of scripts without spaces, are left out. Cost: linear in the length of the text.
    """
    plain = text.isascii()
    runs = set(text.translate(_ASCII_LETTERS).split() if plain else _LETTERS.findall(text))
    found = set(map(str.lower if plain else str.casefold, runs))
    for run in filter(_MIXED.search, runs) if _MIXED.search(text) else ():
        if run.isascii():
            found.update(map(str.lower, _CAMEL_PART.findall(run)))
    return frozenset([word for word in found if _MIN_LETTERS - 1 <= len(word) <= _MAX_LETTERS])


def max_edits(word: str) -> int:
    """Return the most edits between a misspelt word and the right one; 0 for words that are kept."""
    if not _MIN_LETTERS <= len(word) <= _MAX_LETTERS:
        return 0
    return 1 if len(word) <= _MAX_SHORT else 2


def query_tokens(text: str) -> list[QueryToken]:
    """Return the words and identifiers of a query, in order."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    tokens = []
    for match in _TOKEN.finditer(text):
        token, at = match.group(), match.start()
        # Most words of a query need not be taken apart.
        if token.isascii() and token.isalpha() and token.islower():
            parts = [(0, token)]
        else:
            parts = [
                (run.start() + one.start(), one.group())
                for run in _LETTERS.finditer(token)
                for one in (_CAMEL_PART if run.group().isascii() else _LETTERS).finditer(
                    run.group()
                )
            ]
        is_quoted = any(start <= at < end for start, end in quoted)
        tokens.append(QueryToken(token, at, tuple(parts), is_quoted))
    return tokens


def can_be_misspelt(word: str, languages: Sequence[str]) -> bool:
    """Return whether a word that no document has may be a misspelt one: no dictionary has it."""
    folded = word.casefold()
    return max_edits(folded) > 0 and not any(
        _is_known(folded, one) or _is_contraction(folded, one)
        for one in dict.fromkeys(("english", *languages))
    )


def _is_contraction(word: str, language: str) -> bool:
    """Return whether a word is a known one without its apostrophe: `havent`."""
    return any(_is_known(f"{word[:-n]}'{word[-n:]}", language) for n in (1, 2))


def is_contraction(word: str) -> bool:
    """Return whether a word is an English one with an apostrophe: `didn't`."""
    return _APOSTROPHE.search(word) is not None and _is_known(
        _APOSTROPHE.sub("'", word.casefold()), "english"
    )


def is_rare(word: str, languages: Sequence[str]) -> bool:
    """Return whether a dictionary has a word among its rarest, as it has names: `Stevenson`."""
    return any(
        word.casefold() in _rare_words(_DICTIONARIES[one])
        for one in dict.fromkeys(("english", *languages))
        if one in _DICTIONARIES
    )


def _is_known(word: str, language: str) -> bool:
    return language in _DICTIONARIES and word in _dictionary(_DICTIONARIES[language])


def usualness(word: str, language: str) -> int | None:
    """Return 2 for a usual word of a language, 1 for another one of its dictionary, 0 for none.

    None for a language without a dictionary.
    """
    code = _DICTIONARIES.get(language)
    if code is None:
        return None
    return 2 if word in _often(code) else int(word in _dictionary(code))


def is_listed(word: str, language: str) -> bool:
    """Return whether the dictionary of a language has a word, however rare; false without a dictionary."""
    code = _DICTIONARIES.get(language)
    return code is not None and (word in _dictionary(code) or word in _rare_words(code))


@lru_cache(maxsize=len(_DICTIONARIES))
def _often(code: str) -> frozenset[str]:
    """Return the words above `_OFTEN` by their uses."""
    uses = _uses(code)
    limit = sorted(uses.values())[int(len(uses) * _OFTEN)]
    return frozenset(word for word, n in uses.items() if n > limit)


@lru_cache(maxsize=len(_DICTIONARIES))
def _dictionary(code: str) -> frozenset[str]:
    """Return the usual words of pyspellchecker's dictionary; 0.1 s and 10 MB when they are needed first."""
    return frozenset(word for word, n in _uses(code).items() if n > _RARE_USES)


@lru_cache(maxsize=len(_DICTIONARIES))
def _rare_words(code: str) -> frozenset[str]:
    return frozenset(word for word, n in _uses(code).items() if n <= _RARE_USES)


def _uses(code: str) -> dict[str, int]:
    file = resources.files("spellchecker") / "resources" / f"{code}.json.gz"
    return msgspec.json.decode(gzip.decompress(file.read_bytes()), type=dict[str, int])


def other_spelling(word: str) -> str | None:
    """Return the British or American spelling of an English word that the dictionary has; None without one.

    >>> [other_spelling(one) for one in ("licence", "behavior", "serialised", "promise")]
    ['license', 'behaviour', 'serialized', None]
    """
    folded = word.casefold()
    if len(folded) < _MIN_REGIONAL:
        return None
    for pair in _REGIONAL:
        for ending, other in (pair, pair[::-1]):
            match = re.fullmatch(rf"(\w+){ending}({_INFLECTIONS})", folded)
            if match and _is_known(found := match[1] + other + match[2], "english"):
                return found
    return None


def nearest_word(
    word: str, candidates: Mapping[str, int], *, is_part: bool = False, limit: int | None = None
) -> str | None:
    """Return the candidate that a misspelt word most probably stands for; None when none is near enough.

    A word that is a candidate itself, as a part of an identifier may be, is not misspelt.

    Args:
        word: The word as the query has it.
        candidates: Number of visible chunks with each. Of equally near ones that with most of the same letters
            wins, then that in most chunks, then the first of the alphabet.
        is_part: Whether it is a part of an identifier. Any other short word with a capital is a name or an
            abbreviation, and its letters may only be swapped or doubled: `RLIN` is no `rain`.
        limit: Most edits; by default those of `max_edits`.
    """
    folded, limit = word.casefold(), max_edits(word) if limit is None else limit
    if folded in candidates:
        return None
    is_short_name = word[:1].isupper() and len(word) <= _MAX_SHORT and not is_part
    single = _without_doubles(folded)
    # In a longer word a letter may be doubled beside.
    most = limit + 1 if len(folded) > _MAX_SHORT else limit
    best: list[tuple[int, int, int, int, str]] = []
    for one, chunks in candidates.items():
        # Most candidates are too far, which the library tells in a tenth of the time of the rest.
        exact = DamerauLevenshtein.distance(folded, one, score_cutoff=most)
        if exact > most or not _has_same_start(folded, one):
            continue
        edits = DamerauLevenshtein.distance(single, _without_doubles(one), score_cutoff=limit)
        if edits > limit:
            continue
        letters = _other_letters(single, _without_doubles(one))
        # `hyperactive` is no misspelt `hypoactive`: two edits change few letters, of a shorter word one.
        if letters > 2 or (letters > 1 and edits > 1 and len(folded) < _MIN_VERY_LONG):
            continue
        if is_short_name and letters:
            continue
        best.append((edits, exact, letters, -chunks, one))
    return min(best)[4] if best else None


def _has_same_start(word: str, other: str) -> bool:
    """Return whether two words have one first letter, or their first two swapped.

    Few people miss the first letter, and a word with another one is mostly another word: `acyclic`, `bigint`.
    So is a word with two letters before it, also where it begins with the same one: `reregister`.
    """
    return (word[:1] == other[:1] and word[2:] != other) or word[:2] == other[1::-1]


def _other_letters(word: str, other: str) -> int:
    """Return how many letters one of two words has and the other has not: 0 if letters were only swapped."""
    one, two = Counter(word), Counter(other)
    return ((one - two) + (two - one)).total()


def _without_doubles(word: str) -> str:
    return "".join(letter for letter, _ in groupby(word))


def in_case_of(word: str, source: str) -> str:
    """Return a word in the case of another one: capitals, capitalised, or as it is.

    >>> [in_case_of("size", one) for one in ("SZIE", "Szie", "szie")]
    ['SIZE', 'Size', 'size']
    """
    if source.isupper():
        return word.upper()
    return word.capitalize() if source[:1].isupper() else word


def replace_parts(token: QueryToken, words: Mapping[str, str]) -> str:
    """Return a token with other words in place of some of its parts, in their case."""
    text = token.text
    for start, part in reversed(token.parts):
        if part in words:
            text = text[:start] + in_case_of(words[part], part) + text[start + len(part) :]
    return text


def correct_text(text: str, corrections: Iterable[Correction]) -> str:
    """Return a query with its corrections."""
    targets = {one.source: one.target for one in corrections}
    for token in reversed(query_tokens(text)):
        if token.text in targets and not token.quoted:
            end = token.start + len(token.text)
            text = text[: token.start] + targets[token.text] + text[end:]
    return text


def as_written(asked: str, used: str, corrections: Sequence[Correction]) -> str:
    """Return what a corrected question was before its words were corrected.

    A follow-up question is completed first; then the misspelt words take the places of their corrections.

    Args:
        asked: The question as asked.
        used: The question that was searched for.
        corrections: Those of `used`, one or more.
    """
    if correct_text(asked, corrections) == used:
        return asked
    undone = [Correction(source=one.target, target=one.source) for one in corrections]
    return correct_text(used, undone)
