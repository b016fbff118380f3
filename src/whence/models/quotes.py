"""Quotes for the markers of a written answer: the sentences of the documents that support it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from whence.schema.prompt import Quote
from whence.text.overlap import content_terms, inverse_document_frequencies, overlap
from whence.text.sentences import split_sentences

#: `[3]` or `[1, 2]`.
_MARKERS = re.compile(r"\[\s*(\d{1,6}(?:\s*[,;]\s*\d{1,6})*)\s*\]")
#: A quote has at least this share of the words of the sentence with the marker.
_MIN_SHARE = 0.2


def find_quotes(answer: str, documents: Sequence[str]) -> tuple[Quote, ...]:
    """Return for each marker the sentence of its document that shares most words with the answer's sentence.

    There is no quote for a marker without a document, or without a similar sentence in it. A marker of several
    sentences has a quote for each, in order of first use, none twice.

    Cost: sentences of the cited documents times markers.
    """
    quotes: dict[tuple[int, str], None] = {}
    for claim, markers in _claims(answer):
        for marker in markers:
            if 1 <= marker <= len(documents):
                best = _best_sentence(claim, documents[marker - 1])
                if best:
                    quotes[(marker, best)] = None
    return tuple(Quote(marker, text) for marker, text in quotes)


def _claims(answer: str) -> list[tuple[list[str], list[int]]]:
    """Return the words of each sentence with its markers, those after its full stop included."""
    claims: list[tuple[list[str], list[int]]] = []
    for part in split_sentences(answer):
        sentence = answer[part.start : part.end]
        leading = re.match(rf"(?:\s*{_MARKERS.pattern})+", sentence)
        if leading and claims:
            claims[-1][1].extend(_numbers(leading[0]))
            sentence = sentence[leading.end() :]
        words = content_terms(_MARKERS.sub(" ", sentence))
        if words or _numbers(sentence):
            claims.append((words, _numbers(sentence)))
    return claims


def _numbers(text: str) -> list[int]:
    found = (re.split(r"\D+", group) for group in _MARKERS.findall(text))
    return [int(number) for group in found for number in group]


def _best_sentence(claim: Sequence[str], document: str) -> str:
    parts = [part for part in split_sentences(document) if part.kind != "heading"]
    words = [content_terms(document[part.start : part.end]) for part in parts]
    weights = inverse_document_frequencies(words)
    best, most = "", 0.0
    for part, terms in zip(parts, words, strict=True):
        share = overlap(claim, terms, weights, 1.0)
        if share > most:
            best, most = document[part.start : part.end], share
    return best if most >= _MIN_SHARE else ""
