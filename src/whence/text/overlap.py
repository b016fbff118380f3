"""Lexical overlap of a question and a sentence: content words, their rarity, and the share in common."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain

from whence.text.normalization import BASE_FORMS, FUNCTION_WORDS, fold, snowball_stem

_WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*")
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
