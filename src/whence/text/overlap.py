"""Lexical overlap of a question and a sentence: content words, their rarity, and the share in common.

`Words` reads both in the languages of documents and question; `content_terms` reads English and text without a
known language.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import regex

from whence.text.analysis import topic_pairs
from whence.text.languages import detect_language
from whence.text.normalization import (
    BASE_FORMS,
    FUNCTION_WORDS,
    clean,
    fold,
    function_words,
    snowball_stem,
)
from whence.text.question_words import language_of_question, without_asking
from whence.text.scripts import UNSPACED_RUN
from whence.text.values import find_values, value_terms, without_values

_WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*")
#: A word in any script with spaces.
_ANY_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}]*")
_POSSESSIVE = re.compile(r"'s?\Z")
_VERSION = re.compile(r"\Av(?=\d+\.)")
_JOINT = re.compile(r"[.-]")


def content_terms(text: str) -> list[str]:
    """Return the stems of the words that are no function words, in order, with repeats.

    Compound words also yield their parts, so that `e-mail` matches `mail`.

    >>> content_terms("How many opening hours does the café's e-mail desk have?")
    ['open', 'hour', 'cafe', 'e-mail', 'e', 'mail', 'desk']
    >>> content_terms("Fixes since v2.9.1") == content_terms("fixes since 2.9.1")
    True
    """
    return list(chain.from_iterable(map(_terms_of_word, _WORD.findall(fold(text)))))


class Words(NamedTuple):
    """Reads the content words of documents and of a question about them, each in its language.

    Dates, periods and numbers also count in their one form; in a question in place of their words.
    """

    language: str = "english"
    """Of the documents; their stems."""
    asked: str = "english"
    """Of the question; words of it that carry no topic are left out."""

    def of_text(self, text: str) -> list[str]:
        """Return the terms of a text of the documents, in order, with repeats."""
        return _terms(text, self.language, self.language) + value_terms(text, (self.language,))

    def of_question(self, question: str) -> list[str]:
        """Return the terms of the question, or of words of it.

        >>> Words("german", "german").of_question("Wie lange ist die Probezeit am 3. Mai 2026?")
        ['probezeit', '2026-05-03', '2026']
        """
        question = without_asking(question, self.asked)
        values = find_values(question, (self.asked, self.language))
        forms = [
            form for one in values for form in (*one.forms, *filter(str.isdecimal, one.around))
        ]
        return _terms(without_values(question, values), self.language, self.asked) + forms


def words_of(question: str, documents: Iterable[str]) -> Words:
    """Return the reader of a question and the documents that may answer it."""
    language = detect_language(" ".join(documents))
    return Words(language, language_of_question(question, [language]))


def _terms(text: str, language: str, untopical: str) -> list[str]:
    """Return the stems of words in a language, without the function words of another one."""
    runs = [] if text.isascii() else UNSPACED_RUN.findall(clean(text))
    if not runs and (language, untopical) == ("english", "english"):
        return content_terms(text)
    pairs = [pair for run in runs for pair in topic_pairs(run)]
    rest = UNSPACED_RUN.sub(" ", clean(text)) if runs else clean(text)
    stems = (_stem_of_word(one, language, untopical) for one in _ANY_WORD.findall(rest))
    return [*filter(None, stems), *pairs]


@lru_cache(maxsize=20_000)
def _stem_of_word(word: str, language: str, untopical: str) -> str:
    """Return the stem of a word; empty for a function word."""
    return "" if fold(word) in function_words(untopical) else snowball_stem(word, language)


@lru_cache(maxsize=20_000)
def _terms_of_word(word: str) -> tuple[str, ...]:
    """Return the stems of a folded word without possessive and the v of a version, and of its parts."""
    plain = _POSSESSIVE.sub("", word.replace("\u2019", "'")).replace("'", "")
    plain = _VERSION.sub("", plain)
    parts = _JOINT.split(plain)
    words = [plain, *parts] if len(parts) > 1 else [plain]
    named = [one for one in words if one and one not in FUNCTION_WORDS]
    return tuple(snowball_stem(BASE_FORMS.get(one, one), "english") for one in named)


def inverse_document_frequencies(texts: Iterable[Iterable[str]]) -> dict[str, float]:
    """Return the idf of each term over some texts, log(1 + (N - n + 1/2) / (n + 1/2)) as in BM25."""
    counts: Counter[str] = Counter()
    total = 0
    for terms in texts:
        total += 1
        counts.update(set(terms))
    return {term: math.log1p((total - n + 0.5) / (n + 0.5)) for term, n in counts.items()}


def overlap(
    wanted: Iterable[str], found: Iterable[str], weights: Mapping[str, float], default: float
) -> float:
    """Return the weighted share of the wanted terms that are found, 0 to 1; 0 when none is wanted.

    Args:
        wanted: Terms of the question.
        found: Terms of the sentence.
        weights: Weight of each term.
        default: Weight of a term without one.
    """
    wanted, found = set(wanted), set(found)
    total = sum(weights.get(term, default) for term in sorted(wanted))
    shared = sum(weights.get(term, default) for term in sorted(wanted & found))
    return shared / total if total else 0.0
