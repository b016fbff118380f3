"""Does this text answer the question? A small learned measure over features that can be read off both.

In: a question's terms and kind, a span with what stands above it, and how near a model finds them. Out: the
probability, 0 to 1, that the span answers. It is a logistic regression; its weights stand in
`answerability.json`, one row for what was read: by a reader of English (`reader`), by a reader in another
language than its own (`foreign`), by a reader of many languages (`multilingual`), by an embedder alone
(`embedder`), by words alone (`words`), in other languages than English also by runs of letters (`letters`).
`python -m benchmarks.answerability` fits and judges them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from math import exp
from typing import Final, Literal, NamedTuple

import regex

from whence.models.protocols import AskedWord, Reading
from whence.quoting.answer_kinds import NUMERIC, holds_kind
from whence.quoting.evidence_spans import Span
from whence.quoting.identifiers import in_range, ranges_of, without_zeros
from whence.text.letter_runs import shared_runs
from whence.text.normalization import clean
from whence.text.overlap import Words, overlap
from whence.text.question_words import AskedKind
from whence.text.values import find_values, without_values

Basis = Literal["reader", "foreign", "multilingual", "embedder", "words", "letters"]

_DIGITS: Final = regex.compile(r"\p{N}+")
#: What the absence or presence of the kind of thing that is asked for counts.
_KIND: Final[Mapping[bool | None, float]] = {True: 1.0, None: 0.0, False: -1.0}
#: Kinds that are told in other words than the question's.
_TOLD: Final = frozenset(("way", "reason"))
#: Least probability of an answer. A wrong answer counts as much as a needless refusal.
FLOOR: Final = 0.5


class QuestionTerms(NamedTuple):
    """What a question is made of."""

    text: str
    terms: frozenset[str]
    weights: Mapping[str, float]
    """Weight of each term by its rarity among the spans."""
    default: float
    """Weight of a term that no span has."""
    kind: AskedKind | None
    words: Words
    """Reads the terms."""
    news: bool = False
    """Whether it asks what is new, whose words an answer has not."""


class Features(NamedTuple):
    """What tells an answer from a text about the same subject; each about 0 to 1.

    Each is of one span alone, so that it means the same among three spans and among thirty.
    """

    own: float
    """Weighted share of the question's terms in the span."""
    both: float
    """The same in span or headings."""
    kind: float
    """1 if the span has the kind of thing that is asked for, -1 if it has not, 0 where that cannot be told."""
    numbers: float
    """Share of the question's numbers that neither span nor headings have."""
    missing: float = 0.0
    """1 if the span has not the kind of thing that is asked for."""
    lacks: bool = False
    """Whether a number is asked for and the span has none: then it does not answer."""
    cosine: float = 0.0
    """Of span and question, among the other spans: deviations above the mean, of four. For embedders whose
    cosines have a scale of their own."""
    near: float = 0.0
    """Cosine of the span, on the scale of `Reading.cosines`."""
    coverage: float = 0.0
    """Harmonic mean of the nearness of each word, see `Reading.coverage`."""
    nearness: float = 0.0
    """Mean of it."""
    beyond: float = 0.0
    """Mean nearness of the content words of the question that do not stand above the span: whatever a company
    did not report has a row or sentence near it, because all of them stand below the company's name."""
    letters: float = 0.0
    """Share of the question's runs of letters in the span: words of one root share them where stems differ."""


_READ: Final = ("own", "both", "numbers", "near", "coverage", "nearness")
#: Features that each basis has. Whether others help was tried: the length of the question, the share of it that
#: no span has and the lead over other spans gain nothing on pages left out; nor do, with a reader of English,
#: the kind of thing, and the harmonic mean or the least in place of the mean of words beyond the headings. A
#: reader of many languages reads sentences, which the kind of thing and the deviation of the cosine tell apart;
#: the share of words in the sentence alone and the worst word then gain nothing. Runs of letters help
#: words in other languages than English: the best of the spans has the answer in 71 % in place of 58. A model
#: that does not know the language has pieces of words, and they gain nothing there.
FIELDS: Final[Mapping[Basis, tuple[str, ...]]] = {
    "words": ("own", "both", "kind", "numbers"),
    "letters": ("own", "both", "kind", "numbers", "letters"),
    "embedder": ("own", "both", "kind", "numbers", "cosine"),
    "foreign": _READ,
    "multilingual": ("both", "numbers", "missing", "cosine", "near", "nearness"),
    "reader": (*_READ, "beyond"),
}


def asked_values(question: str, language: str) -> frozenset[str]:
    """Return the numbers of a question; dates, periods and long numbers in their one form."""
    values = find_values(question, (language,))
    forms = [form for one in values for form in one.forms[:1]]
    digits = _DIGITS.findall(clean(without_values(question, values)))
    return frozenset((*forms, *map(without_zeros, digits)))


def values_of(text: str, language: str) -> frozenset[str]:
    """Return the numbers of a text, dates and periods with their months and years, in every form they have."""
    forms = (form for one in find_values(text, (language,)) for form in (*one.forms, *one.around))
    return frozenset((*forms, *map(without_zeros, _DIGITS.findall(clean(text)))))


def features(
    question: QuestionTerms, spans: Sequence[Span], reading: Reading | None, row: int
) -> list[Features]:
    """Return the features of each span for a question, that of a row of the reading."""
    asked_numbers = asked_values(question.text, question.words.language)
    cosines = reading.cosines[row] if reading else []
    mean = statistics.fmean(cosines) if cosines else 0.0
    deviation = statistics.pstdev(cosines) if cosines else 0.0
    read = reading.words[row] if reading and reading.words else []
    topical = _topical(question, read)
    # Only words alone are read with them.
    letters = [] if reading else shared_runs(question.text, [one.text for one in spans])
    found = []
    for place, span in enumerate(spans):
        missing = asked_numbers
        for scope in (*span.scopes, span.source) if missing else ():
            ranges = ranges_of(scope)
            known = values_of(scope, question.words.language)
            missing = frozenset(one for one in missing - known if not in_range(one, ranges))
        kind = holds_kind(question.kind, span.text, question.text, question.words.language)
        said = span.terms | span.above
        one = Features(
            own=overlap(question.terms, span.terms, question.weights, question.default),
            both=overlap(question.terms, said, question.weights, question.default),
            kind=_KIND[kind],
            missing=float(kind is False),
            numbers=len(missing) / max(1, len(asked_numbers)),
            lacks=kind is False and question.kind in NUMERIC,
            letters=letters[place] if letters else 0.0,
        )
        if cosines:
            above = (cosines[place] - mean) / (4 * deviation) if deviation else 0.0
            one = one._replace(cosine=above, near=cosines[place])
        if reading and reading.coverage:
            nearness = reading.nearness[row][place]
            one = one._replace(
                coverage=reading.coverage[row][place],
                nearness=nearness,
                beyond=_beyond(topical, span.above, place, nearness),
            )
        found.append(one)
    return found


def _topical(
    question: QuestionTerms, read: Sequence[AskedWord]
) -> list[tuple[AskedWord, frozenset[str]]]:
    """Return the content words of a question without its numbers, which are compared by themselves.

    There are none where a way, a reason or news is asked for: a text tells these in words of its own.
    """
    found = []
    tells = question.news or question.kind in _TOLD
    for one in () if tells else read:
        terms = frozenset(question.words.of_question(one.text))
        if terms and terms <= question.terms and not _DIGITS.search(one.text):
            found.append((one, terms))
    return found


def _beyond(
    topical: Sequence[tuple[AskedWord, frozenset[str]]],
    above: frozenset[str],
    place: int,
    nearness: float,
) -> float:
    """Return the mean nearness of words that are not above a text, else of all, else `nearness`."""
    words = [one for one, terms in topical if not terms <= above] or [one for one, _ in topical]
    total = sum(one.rarity for one in words)
    return sum(one.rarity * one.near[place] for one in words) / total if total else nearness


def basis_of(reading: Reading | None, words: Words) -> Basis:
    """Return what the probability rests on; the weights of English need question and documents in English."""
    in_english = words.language == words.asked == "english"
    if reading is None:
        return "words" if in_english else "letters"
    if not reading.coverage:
        return "embedder"
    if reading.multilingual:
        return "multilingual"
    return "reader" if in_english else "foreign"


def chances(basis: Basis, found: Sequence[Features]) -> list[float]:
    """Return the probability that each span answers, 0 to 1, rounded so that every processor has the same."""
    weights = _weights()[basis]
    return [
        0.0
        if one.lacks
        else round(
            _logistic(
                weights["bias"] + sum(weights[name] * getattr(one, name) for name in FIELDS[basis])
            ),
            6,
        )
        for one in found
    ]


def _logistic(value: float) -> float:
    return 1 / (1 + exp(-value)) if value >= 0 else exp(value) / (1 + exp(value))


@cache
def _weights() -> dict[str, dict[str, float]]:
    text = resources.files(__package__).joinpath("answerability.json").read_text("utf-8")
    weights: dict[str, dict[str, float]] = json.loads(text)
    return weights
