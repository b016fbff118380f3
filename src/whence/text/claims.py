"""Markers in an answer, and the sentences that carry them.

A marker is a number in square brackets that cites a document, from 1: `[3]`, `[1, 2]` or `[1][2]`. In code,
between backticks, brackets are code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import NamedTuple

import regex

from whence.text.normalization import fold
from whence.text.overlap import content_terms
from whence.text.scripts import UNSPACED
from whence.text.sentences import split_sentences

#: At most six digits: no prompt has a million documents.
MARKERS = re.compile(r"\[\s*(\d{1,6}(?:\s*[,;]\s*\d{1,6})*)\s*\]")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`?", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*")
#: A shorter claim (`Yes.`) cannot be compared.
_MIN_TERMS = 3


class Claim(NamedTuple):
    """A sentence of an answer."""

    start: int
    end: int
    """Offsets in the answer, those of its markers included."""
    text: str
    """Without markers."""
    markers: tuple[int, ...]
    terms: frozenset[str]
    """Its content words."""

    @property
    def is_short(self) -> bool:
        """Whether it has too few words, and no number, to compare it with a document."""
        return len(self.terms) < _MIN_TERMS and not _NUMBER.search(self.text)


def marker_groups(text: str) -> Iterator[re.Match[str]]:
    """Yield the groups of markers outside of code."""
    code = code_spans(text)
    for match in MARKERS.finditer(text):
        if not any(start <= match.start() < end for start, end in code):
            yield match


def code_spans(text: str) -> list[tuple[int, int]]:
    """Return the places of code in a text, between backticks."""
    return [match.span() for match in _CODE.finditer(text)] if "`" in text else []


def markers_of(text: str) -> tuple[int, ...]:
    """Return the numbers in square brackets outside of code, each once, in order of first use.

    >>> markers_of("Open at nine [2]. Closed on Sunday [1, 2][7]. See `a[3]`.")
    (2, 1, 7)
    """
    return tuple(dict.fromkeys(one for match in marker_groups(text) for one in _numbers(match[1])))


def read_claims(answer: str) -> list[Claim]:
    """Return the sentences of an answer with their markers.

    Those after a full stop belong to the sentence before it, but in an answer that begins with one.

    >>> [one.markers for one in read_claims("Open at nine. [2] Closed on Sunday. [1]")]
    [(2,), (1,)]
    >>> [one.markers for one in read_claims("[2] Open at nine. [1] Closed on Sunday.")]
    [(2,), (1,)]
    """
    claims: list[Claim] = []
    markers_lead = MARKERS.match(answer.lstrip()) is not None
    for part in split_sentences(answer):
        if part.kind in ("heading", "code"):
            continue
        start, sentence = part.start, answer[part.start : part.end]
        leading = re.match(rf"(?:\s*{MARKERS.pattern})+", sentence)
        if leading and claims and not markers_lead:
            last = claims[-1]
            more = tuple(dict.fromkeys((*last.markers, *markers_of(leading[0]))))
            claims[-1] = last._replace(end=start + len(leading[0].rstrip()), markers=more)
            start += leading.end()
            sentence = sentence[leading.end() :]
        text = re.sub(r"(?<!\s)\s++(?=[.!?,;:]|\Z)", "", MARKERS.sub("", sentence)).strip()
        terms, markers = frozenset(content_terms(text)), markers_of(sentence)
        # Markers alone say nothing.
        if terms or (markers and any(map(str.isalnum, text))):
            claims.append(Claim(start, part.end, text, markers, terms))
    return claims


def says_nothing(text: str) -> bool:
    """Return whether a sentence only says that the documents do not answer.

    >>> says_nothing("The documents do not say when it opens."), says_nothing("It opens at nine.")
    (True, False)
    >>> says_nothing("Die Unterlagen beantworten diese Frage nicht.")
    True
    """
    folded = fold(text.replace("\u2019", "'")).replace("n't", " not")
    return any(all(one.search(folded) for one in kinds) for kinds in _nothing())


@cache
def reply_words() -> dict[str, dict[str, str]]:
    """Return words of replies by kind and language, those of a row parted by blanks or bars."""
    words: dict[str, dict[str, str]] = json.loads(
        (resources.files(__package__) / "reply_words.json").read_text("utf-8")
    )
    return words


@cache
def _nothing() -> list[tuple[regex.Pattern[str], ...]]:
    """Return for each language its words for documents, for saying, and of negation."""
    words = reply_words()
    denies = {**words["negation"], **words["denies"]}
    return [
        (_any_of(documents), _any_of(words["says"][language]), _any_of(denies[language]))
        for language, documents in words["documents"].items()
    ]


def _any_of(words: str) -> regex.Pattern[str]:
    """Return a pattern of words; `word*` begins one, and scripts without spaces have no borders."""
    # `cannot` is one word, `no one` two of which the first denies.
    patterns = [
        regex.escape(fold(one.rstrip("*")))
        if UNSPACED.search(one) and not one.endswith("*")
        else rf"(?<![\p{{L}}\p{{M}}\p{{N}}]){regex.escape(fold(one.rstrip('*')))}"
        + ("" if one.endswith("*") else r"(?![\p{L}\p{M}\p{N}])")
        for one in words.replace("|", " ").split()
    ]
    return regex.compile("|".join(patterns))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
