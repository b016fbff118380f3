"""Markers in an answer, the sentences that carry them, and whether a document supports a sentence.

A marker is a number in square brackets that cites a document, from 1: `[3]`, `[1, 2]` or `[1][2]`. In code,
between backticks, brackets are code. A document supports a sentence when it has enough of its words and every
number in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from whence.text.overlap import content_terms, inverse_document_frequencies, overlap
from whence.text.sentences import split_sentences

#: At most six digits: no prompt has a million documents.
MARKERS = re.compile(r"\[\s*(\d{1,6}(?:\s*[,;]\s*\d{1,6})*)\s*\]")
#: What may become a marker when more text comes, with the space before it.
_BEGUN = re.compile(r"(?<![ \t])[ \t]*+(?:\[[\d\s,;]{0,60})?\Z")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`?", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*")
#: A claim has at least this share of its words in a document that supports it.
MIN_SUPPORT = 0.34
#: A shorter claim (`Yes.`) cannot be compared.
_MIN_TERMS = 3
#: Statements that the documents lack an answer, as models make them; they need no marker.
_NOTHING = re.compile(
    r"\b(?:documents?|passages?|sources?|context|texts?|information)\b[^.]{0,60}"
    r"\b(?:do(?:es)?\s+not|don't|doesn't|did\s+not|cannot|can't|no|nothing|not)\b"
    r"|\b(?:no|not\s+any)\s+(?:information|mention|answer|details?|documents?|passages?)\b"
    r"|\b(?:cannot|can't|unable\s+to)\s+(?:find|answer|determine)\b",
    re.IGNORECASE,
)


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


class Source:
    """A document that claims are compared with; its words are read once for all of them.

    Args:
        text: The document.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def terms(self) -> frozenset[str]:
        """Its content words."""
        return frozenset(content_terms(self._text))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers in it, as they are written."""
        return frozenset(_NUMBER.findall(self._text))

    @cached_property
    def _sentences(self) -> tuple[list[tuple[int, int, list[str]]], dict[str, float]]:
        """Offsets and content words of its sentences, and the weight of each word."""
        sentences = [
            (part.start, part.end, content_terms(self._text[part.start : part.end]))
            for part in split_sentences(self._text)
            if part.kind != "heading"
        ]
        return sentences, inverse_document_frequencies(terms for _, _, terms in sentences)

    def nearest_sentence(self, claim: Claim, least: float) -> str | None:
        """Return the sentence that shares most words with a claim; None below a share of `least`."""
        sentences, weights = self._sentences
        best, most = None, 0.0
        for start, end, terms in sentences:
            share = overlap(claim.terms, terms, weights, 1.0)
            if share > most:
                best, most = self._text[start:end], share
        return best if most >= least else None


def marker_groups(text: str) -> Iterator[re.Match[str]]:
    """Yield the groups of markers outside of code."""
    code = [match.span() for match in _CODE.finditer(text)] if "`" in text else []
    for match in MARKERS.finditer(text):
        if not code or not any(start <= match.start() < end for start, end in code):
            yield match


def markers_of(text: str) -> tuple[int, ...]:
    """Return the numbers in square brackets outside of code, each once, in order of first use.

    >>> markers_of("Open at nine [2]. Closed on Sunday [1, 2][7]. See `a[3]`.")
    (2, 1, 7)
    """
    return tuple(dict.fromkeys(one for match in marker_groups(text) for one in _numbers(match[1])))


class MarkerFilter:
    """Passes text on, piece by piece, without markers that name no document.

    Args:
        documents: How many documents can be cited.
    """

    def __init__(self, documents: int) -> None:
        self._documents = documents
        self._text = ""
        self._sent = 0
        self.removed: dict[int, None] = {}
        """Numbers of the markers that were left out, in order."""

    def add(self, piece: str, *, end: bool = False) -> str:
        """Return the text that can be shown now; what may be the beginning of a marker waits."""
        self._text += piece
        begun = None if end else _BEGUN.search(self._text, self._sent)
        upto = begun.start() if begun else len(self._text)
        shown = self._without_unknown(self._sent, max(upto, self._sent))
        self._sent = max(upto, self._sent)
        return shown

    def _without_unknown(self, start: int, end: int) -> str:
        parts = []
        for match in marker_groups(self._text[:end]):
            if match.start() < start:
                continue
            numbers = _numbers(match[1])
            known = [one for one in numbers if 1 <= one <= self._documents]
            if known == numbers:
                continue
            self.removed |= dict.fromkeys(one for one in numbers if one not in known)
            before = self._text[start : match.start()]
            parts.append(before if known else before.rstrip(" \t"))
            parts.append(f"[{', '.join(map(str, known))}]" if known else "")
            start = match.end()
        return "".join((*parts, self._text[start:end]))


def read_claims(answer: str) -> list[Claim]:
    """Return the sentences of an answer with their markers, those after the full stop included."""
    claims: list[Claim] = []
    for part in split_sentences(answer):
        if part.kind in ("heading", "code"):
            continue
        start, sentence = part.start, answer[part.start : part.end]
        leading = re.match(rf"(?:\s*{MARKERS.pattern})+", sentence)
        if leading and claims:
            last = claims[-1]
            more = tuple(dict.fromkeys((*last.markers, *markers_of(leading[0]))))
            claims[-1] = last._replace(end=start + len(leading[0].rstrip()), markers=more)
            start += leading.end()
            sentence = sentence[leading.end() :]
        text = MARKERS.sub(" ", sentence).strip()
        terms, markers = frozenset(content_terms(text)), markers_of(sentence)
        if terms or markers:
            claims.append(Claim(start, part.end, text, markers, terms))
    return claims


def says_nothing(text: str) -> bool:
    """Return whether a sentence only says that the documents do not answer.

    >>> says_nothing("The documents do not say when it opens."), says_nothing("It opens at nine.")
    (True, False)
    """
    return _NOTHING.search(text) is not None


def supports(claim: Claim, documents: Sequence[Source]) -> bool:
    """Return whether documents together have the numbers and enough of the words of a claim.

    A short claim is taken for supported.
    """
    if set(_NUMBER.findall(claim.text)).difference(*[one.numbers for one in documents]):
        return False
    if claim.is_short:
        return True
    missing = claim.terms.difference(*[one.terms for one in documents])
    return len(claim.terms) - len(missing) >= MIN_SUPPORT * len(claim.terms)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
