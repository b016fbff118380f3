"""Choose the spans of passages that answer a question, or tell how near the best one came.

In: the question, the passages with the headings above them, an embedder, a reranker. Out: one to three spans,
each a whole unit as its author wrote it (`text.units`), best first, and the score of the best one.

A unit is compared with the question by meaning (cosine of both, the headings before the unit) and by words
(share of the question's words, weighted by rarity, words above the unit counted less). The reranker reads the
best ones together with the question. What the question asks for (`text.asked`) and the order of the passages
shift the order a little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from whence.models.protocols import Embedder, Reranker, WriteRequest
from whence.schema.errors import ModelMissing, Unavailable
from whence.text.asked import Asked, has_value, is_news, read_question
from whence.text.identifiers import Identifier, names_other_identifier, names_value
from whence.text.normalization import fold
from whence.text.overlap import content_terms, inverse_document_frequencies, overlap
from whence.text.sentences import split_sentences
from whence.text.units import MAX_WORDS, Unit, split_units

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_SPANS = 3
#: Most units that are embedded for a question: those that share most words with it.
_MAX_EMBEDDED = 24
#: Units that the reranker reads: the best by the other scores.
_MAX_READ = 8
#: Share of the reranker in the score of a unit that it read.
_READ_SHARE = 0.6
#: Longest text that is embedded, in characters.
_MAX_CHARACTERS = 500
_COSINE_WEIGHT = 0.6
#: Weight of a word above a unit, relative to a word in it.
_CONTEXT_WEIGHT = 0.6
#: Least score of an answer: with both models, without a reranker, and by words alone. The first was chosen on
#: 100 questions with and 28 without an answer, in the middle of the range, .40 to .48, that refuses 89 % of the
#: latter and 2 % of the others (`python -m benchmarks.answers --split choose --calibrate`).
FLOOR = 0.45
FLOOR_WITHOUT_RERANKER = 0.43
FLOOR_OF_WORDS = 0.37
#: Shifts of the order; none counts for the floor.
_PRIOR, _VALUE, _STEPS, _MEANING, _DEFINED, _ABSENT = 0.04, 0.04, 0.03, 0.06, 0.12, 0.12
#: The same for notes of a release, for a text that only points elsewhere or lists contents, and for the release
#: asked for.
_NEWS, _POINTER, _RELEASE = 0.1, 0.15, 0.1
_POINTS = re.compile(r"[-*\s]*(?:see|refer to|for (?:more|details|further))\b", re.IGNORECASE)
_POINTER_WORDS = 14
#: Cost of each word beyond those of a short paragraph.
_LENGTH_COST, _SHORT = 0.0006, 40
#: Words of a window that a long paragraph is narrowed to.
_WINDOW = 60
#: Most words of a unit that is quoted in place of a part of it.
_WHOLE = 90
#: Words of all spans together, from which on no further one is added.
_ENOUGH = 90
#: Least score of a further span, relative to the best one: where it has words of the question that the others
#: lack, where it stands in another passage, and where it only says more in the same one.
_MIN_FURTHER, _MIN_ELSEWHERE, _MIN_EQUAL = 0.75, 0.88, 0.92
_DUPLICATE = 0.9
_MIN_LETTERS = 8
#: A text of no more words that its headings have, too, says nothing.
_TITLE_WORDS = 12
#: Taken from the score when no passage has any word of the question; for some of the words, as large a part.
_UNSEEN = 0.05
#: The same for each word with a capital.
_UNSEEN_NAME = 0.15
#: Factor for older editions than the question asks for.
_OUTDATED = 0.8
#: Factor for units that name the identifier asked for, in a section about another one.
_OTHER_SECTION = 0.7
#: Border of two questions in one: a question mark, or "and" before a question word.
_QUESTION_BORDER = re.compile(
    r"(?<=\?)\s+|,?\s+and\s+(?=(?:who|whom|whose|what|when|where|which|why|how)\b)", re.IGNORECASE
)


class Span(NamedTuple):
    """One unit of a passage that may answer."""

    document: int
    """Place of its passage, from 0."""
    unit: Unit
    text: str
    """Verbatim from the passage."""
    section: str
    """Titles and headings above its passage."""
    terms: frozenset[str]
    above: frozenset[str]
    """Terms of section and context."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The text, then what stands above it, the nearest first."""
        return (self.text, *reversed(self.unit.context), self.section)


class Choice(NamedTuple):
    """The outcome for one question; without spans, `reason` says why."""

    spans: tuple[Span, ...]
    """Best first; empty when none reaches the floor."""
    document: int
    """Place of the passage with the best span."""
    score: float
    """Score of that span, 0 to 1."""
    floor: float
    reason: str = ""


class _Part(NamedTuple):
    """One question of those that a question has, with the scores of all spans for it."""

    asked: Asked
    terms: frozenset[str]
    weights: dict[str, float]
    default: float


def split_questions(query: str) -> list[str]:
    """Split a question into its parts, which often have their answers in different places.

    >>> split_questions("Who approves travel, and how much may a hotel cost?")
    ['Who approves travel', 'how much may a hotel cost?']
    >>> split_questions("Who approves travel and hotels?")
    ['Who approves travel and hotels?']
    """
    parts = [part.strip() for part in _QUESTION_BORDER.split(query)]
    return [part for part in parts if content_terms(part)] or [query]


async def choose_evidence(
    request: WriteRequest, embedder: Embedder | None, reranker: Reranker | None = None
) -> Choice | None:
    """Return the spans that answer, or that none does; None without anything to read.

    Cost: the embeddings of the question and of at most 24 units, and 8 pairs for the reranker.
    """
    parts = split_questions(request.query)
    asked = read_question(request.query)
    found = all_spans(request)
    spans = [one for one in found if _names_what_is_asked(asked, one, request)]
    if not found:
        return None
    absent = _absent_symbols(asked, request)
    if absent or not spans:
        named = absent or [one.value for one in sorted(asked.identifiers)]
        what = " and ".join(f"`{one}`" for one in named)
        reason = f"None of the {len(request.documents)} best passages names {what}."
        return Choice((), 0, 0.0, FLOOR, reason)
    everything, spans = spans, _considered(request.query, spans)
    weighed = await _weigh(parts, spans, request, embedder, reranker)
    floor, unseen = weighed.floor, _unseen(request, everything)
    best: list[tuple[float, int]] = []
    picked: list[list[Span]] = []
    for question, scores, order in weighed.parts:
        first = max(range(len(spans)), key=lambda i: (order[i], -i))
        score = max(0.0, scores[first] - unseen)
        best.append((score, spans[first].document))
        if score >= floor:
            found = _pick(question, spans, order, weighed.vectors)
            picked.append([_whole(everything, one) for one in found])
    score, document = max(best, key=lambda pair: pair[0])
    reason = f"The best passage scores {score:.2f}; an answer needs {floor:.2f}."
    return Choice(_within_words(picked), document, score, floor, reason)


class _Weighed(NamedTuple):
    """Spans with their scores for each part of a question."""

    parts: list[tuple[_Part, list[float], list[float]]]
    """The part, and score and order of each span."""
    vectors: NDArray[np.float32] | None
    floor: float


async def _weigh(
    parts: Sequence[str],
    spans: Sequence[Span],
    request: WriteRequest,
    embedder: Embedder | None,
    reranker: Reranker | None,
) -> _Weighed:
    """Score some spans for each part of a question; the best ones are read by the reranker."""
    vectors = await _vectors(parts, spans, embedder)
    floor = FLOOR_OF_WORDS if vectors is None else FLOOR_WITHOUT_RERANKER
    weighed = []
    for row, part in enumerate(parts):
        question = _part(part, spans)
        scores = _scores(question, spans, vectors, row - len(parts))
        order = _order(question, spans, scores, request)
        read = await _read(part, spans, order, reranker, _MAX_READ // len(parts))
        if read:
            floor = FLOOR
            scores = [
                (1 - _READ_SHARE) * score + _READ_SHARE * read.get(i, 0.0)
                for i, score in enumerate(scores)
            ]
            order = _order(question, spans, scores, request)
        weighed.append((question, scores, order))
    return _Weighed(weighed, vectors, floor)


def _considered(query: str, spans: list[Span]) -> list[Span]:
    """Return the spans that are embedded: all, or those that share most words with the question."""
    return _most_alike(query, spans) if len(spans) > _MAX_EMBEDDED else spans


class Support(NamedTuple):
    """How well one passage answers a question."""

    sentence: str
    """Its best span."""
    score: float
    """Score of that span, 0 to 1, on the scale of `Choice.score`."""
    floor: float
    """Least score of an answer."""


async def weigh_document(
    request: WriteRequest, document: int, embedder: Embedder | None, reranker: Reranker | None
) -> Support | None:
    """Return the score that `choose_evidence` gave the best span of one passage.

    A passage none of whose spans was among those that are embedded is scored by its own spans alone.

    Args:
        request: What the writer received.
        document: Place of the passage, from 0.
        embedder: Compares question and spans.
        reranker: Reads the best spans.

    Returns:
        None when the passage has nothing that could answer.
    """
    parts, asked = split_questions(request.query), read_question(request.query)
    everything = [one for one in all_spans(request) if _names_what_is_asked(asked, one, request)]
    spans = _considered(request.query, everything)
    if all(one.document != document for one in spans):
        own = [one for one in everything if one.document == document]
        spans = _considered(request.query, own)
    if not spans:
        return None
    weighed = await _weigh(parts, spans, request, embedder, reranker)
    unseen = _unseen(request, everything)
    places = [i for i, one in enumerate(spans) if one.document == document]
    best = []
    for _, scores, order in weighed.parts:
        first = max(places, key=lambda i: (order[i], -i))
        best.append((max(0.0, scores[first] - unseen), spans[first].text))
    score, sentence = max(best, key=lambda pair: pair[0])
    return Support(sentence, score, weighed.floor)


def _unseen(request: WriteRequest, spans: Sequence[Span]) -> float:
    """Return what is taken from a score for words of the question that no passage has."""
    terms = set(content_terms(request.query))
    known = {term for one in spans for term in one.terms | one.above}
    names = {term for one in read_question(request.query).names for term in content_terms(one)}
    return _UNSEEN * len(terms - known) / max(1, len(terms)) + _UNSEEN_NAME * len(names - known)


def _within_words(parts: Sequence[Sequence[Span]]) -> tuple[Span, ...]:
    """Return the best span of each part of the question, then others while a reader wants to read them."""
    kept: list[Span] = []
    words = 0
    for place, spans in enumerate(zip_longest(*parts)):
        for one in filter(None, spans):
            count = len(one.text.split())
            further = place > 0 and words + count > _ENOUGH
            if further or len(kept) == MAX_SPANS or any(_overlap(one, other) for other in kept):
                continue
            kept.append(one)
            words += count
    return tuple(kept)


def _absent_symbols(asked: Asked, request: WriteRequest) -> list[str]:
    """Return the names of code, settings and options that no passage and no heading has."""
    known = fold("\n".join((*request.documents, *request.sections, *request.sources)))
    return [one for one in asked.symbols if one not in known]


def _names_what_is_asked(asked: Asked, span: Span, request: WriteRequest) -> bool:
    """Return whether a span is about the releases and codes of the question, and not about other ones."""
    if names_other_identifier(asked.identifiers, span.scopes):
        return False
    sources = request.sources[span.document : span.document + 1]
    return all(
        names_value(one, (*span.scopes, *sources))
        for one in asked.identifiers
        if one.name != "date"
    )


def all_spans(request: WriteRequest) -> list[Span]:
    """Return the units of all passages that can be an answer; long paragraphs as windows of their sentences."""
    sections = request.sections or ("",) * len(request.documents)
    spans = []
    for number, (text, section) in enumerate(zip(request.documents, sections, strict=True)):
        headings = tuple(filter(None, section.split(" > ")))
        titles = frozenset(content_terms(section))
        # A passage without a title is its own heading, and still says something.
        is_own_title = frozenset(content_terms(text)) <= titles
        # A text that is its own title is no heading.
        for unit in split_units(text, headings) or split_units(text):
            for one in _narrowed(text, unit):
                content = text[one.start : one.end]
                terms = frozenset(content_terms(content))
                repeats = len(content.split()) <= _TITLE_WORDS and terms <= titles
                if (repeats and not is_own_title) or sum(map(str.isalnum, content)) < _MIN_LETTERS:
                    continue
                above = titles.union(content_terms(" ".join(one.context)))
                spans.append(Span(number, one, content, section, terms, above))
    return spans


def _narrowed(text: str, unit: Unit) -> Iterator[Unit]:
    """Yield a unit, or of a long one each stretch of whole sentences that is short."""
    content = text[unit.start : unit.end]
    if unit.kind in ("code", "table", "list") or len(content.split()) <= MAX_WORDS:
        yield unit
        return
    sentences = split_sentences(content)
    reached = 0
    for place, first in enumerate(sentences):
        end, words = first.end, 0
        for sentence in sentences[place:]:
            words += len(content[sentence.start : sentence.end].split())
            if words > _WINDOW and sentence is not first:
                break
            end = sentence.end
        if end > reached:
            reached = end
            yield unit._replace(start=unit.start + first.start, end=unit.start + end)


def _most_alike(query: str, spans: Sequence[Span]) -> list[Span]:
    question = _part(query, spans)
    shares = [_share(question, one) - 0.01 * one.document for one in spans]
    kept = sorted(range(len(spans)), key=lambda i: (-shares[i], i))[:_MAX_EMBEDDED]
    return [spans[i] for i in sorted(kept)]


async def _vectors(
    parts: Sequence[str], spans: Sequence[Span], embedder: Embedder | None
) -> NDArray[np.float32] | None:
    """Embed the spans and, as the last rows, the questions; return None without an embedder."""
    if embedder is None:
        return None
    try:
        return await embedder.embed([*map(_text_to_embed, spans), *parts], "query")
    except (Unavailable, ModelMissing):
        return None


async def _read(
    part: str, spans: Sequence[Span], order: Sequence[float], reranker: Reranker | None, most: int
) -> dict[int, float]:
    """Return the reranker's scores of the best spans; none without a reranker."""
    if reranker is None:
        return {}
    best = sorted(range(len(spans)), key=lambda i: (-order[i], i))[:most]
    try:
        scores = await reranker.score(part, [_text_to_embed(spans[i]) for i in best])
    except (Unavailable, ModelMissing):
        return {}
    return dict(zip(best, scores, strict=True))


def _text_to_embed(span: Span) -> str:
    lead = span.unit.context[-1] if span.unit.context else ""
    above = [text.rstrip(":") for text in (span.section, lead) if text]
    return " ".join([*(f"{text}:" for text in above), span.text[:_MAX_CHARACTERS]])


def _part(query: str, spans: Sequence[Span]) -> _Part:
    weights = inverse_document_frequencies(one.terms | one.above for one in spans)
    return _Part(
        read_question(query),
        frozenset(content_terms(query)),
        weights,
        max(weights.values(), default=1.0),
    )


def _share(question: _Part, span: Span) -> float:
    """Return the share of the question's words in a span and, with a lower weight, above it."""
    named = {term for one in question.asked.symbols for term in content_terms(one)}
    said = span.terms | (span.above & named)
    own = overlap(question.terms, said, question.weights, question.default)
    both = overlap(question.terms, span.terms | span.above, question.weights, question.default)
    return own + _CONTEXT_WEIGHT * (both - own)


def _scores(
    question: _Part, spans: Sequence[Span], vectors: NDArray[np.float32] | None, row: int
) -> list[float]:
    shares = [_share(question, one) for one in spans]
    if vectors is None:
        return shares
    cosines = (vectors[: len(spans)] @ vectors[row]).tolist()
    return [
        _COSINE_WEIGHT * max(0.0, cosine) + (1 - _COSINE_WEIGHT) * share
        for cosine, share in zip(cosines, shares, strict=True)
    ]


def _order(
    question: _Part, spans: Sequence[Span], scores: Sequence[float], request: WriteRequest
) -> list[float]:
    """Return what orders the spans: their scores, shifted by what the question asks for."""
    count = len(request.documents)
    return [
        (score + _shift(question, span) + _PRIOR * (1 - span.document / count))
        * (_OUTDATED if span.document + 1 in request.outdated else 1.0)
        * (
            _OTHER_SECTION
            if names_other_identifier(question.asked.identifiers, span.scopes[1:])
            else 1.0
        )
        for span, score in zip(spans, scores, strict=True)
    ]


def _shift(question: _Part, span: Span) -> float:
    asked = question.asked
    words = len(span.text.split())
    shift = -_LENGTH_COST * max(0, words - _SHORT)
    if asked.value:
        shift += _VALUE if has_value(span.text) else 0.0
    if asked.steps and span.unit.kind in ("code", "list"):
        shift += _STEPS
    head = fold(_head(span))
    if asked.meaning and span.unit.kind == "definition" and question.terms:
        known = frozenset(content_terms(head))
        shift += _MEANING * overlap(question.terms, known, question.weights, question.default)
    if not asked.news and is_news(span.section):
        shift -= _NEWS
    if (words <= _POINTER_WORDS and _POINTS.match(span.text)) or _is_contents(span):
        shift -= _POINTER
    if asked.releases and any(
        names_value(Identifier("", one), span.scopes) for one in asked.releases
    ):
        shift += _RELEASE
    for symbol in asked.symbols:
        if _names(head, symbol):
            shift += _DEFINED
        elif not any(symbol in fold(one) for one in span.scopes):
            shift -= _ABSENT
    return shift


def _is_contents(span: Span) -> bool:
    """Return whether a list only names things, as a table of contents does."""
    lines = [line.lstrip("-*+ \t") for line in span.text.splitlines() if line.strip()]
    names = all(len(line.split()) == 1 for line in lines)
    return span.unit.kind in ("list", "item") and names


def _head(span: Span) -> str:
    """Return what a span is about: its term, the first cell of a row, the term above it, or the heading."""
    if span.unit.kind == "definition":
        return span.text.partition("\n")[0]
    if span.unit.kind == "row":
        return span.text.strip("| \t").partition("|")[0]
    return span.unit.context[-1] if span.unit.context else span.section.rsplit(" > ", 1)[-1]


def _names(head: str, symbol: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(symbol)}(?![\w-])", head) is not None


def _pick(
    question: _Part,
    spans: Sequence[Span],
    order: Sequence[float],
    vectors: NDArray[np.float32] | None,
) -> list[Span]:
    """Return the best span, and others that add something; ties go to the earlier one."""
    ranked = sorted(range(len(spans)), key=lambda i: (-order[i], i))
    best = order[ranked[0]]
    picked = ranked[:1]
    for i in ranked[1:]:
        if len(picked) == MAX_SPANS or order[i] < _MIN_FURTHER * best:
            break
        if any(_repeats(spans, vectors, i, j) for j in picked):
            continue
        covered = {term for j in picked for term in spans[j].terms | spans[j].above}
        fresh = (question.terms & spans[i].terms) - covered
        elsewhere = all(spans[i].document != spans[j].document for j in picked)
        if fresh or order[i] >= (_MIN_ELSEWHERE if elsewhere else _MIN_EQUAL) * best:
            picked.append(i)
    return [spans[i] for i in picked]


def _repeats(spans: Sequence[Span], vectors: NDArray[np.float32] | None, i: int, j: int) -> bool:
    """Return whether a span overlaps another one or says the same."""
    a, b = spans[i], spans[j]
    if _overlap(a, b):
        return True
    common = len(a.terms & b.terms) / max(1, min(len(a.terms), len(b.terms)))
    alike = 0.0 if vectors is None else float(vectors[i] @ vectors[j])
    return max(common, alike) >= _DUPLICATE


def _overlap(a: Span, b: Span) -> bool:
    return a.document == b.document and a.unit.start < b.unit.end and b.unit.start < a.unit.end


def _whole(spans: Sequence[Span], one: Span) -> Span:
    """Return the longest short unit that contains a span: what its author wrote together is read together."""
    around = [
        other
        for other in spans
        if other.document == one.document
        and other.unit.start <= one.unit.start
        and one.unit.end <= other.unit.end
        and len(other.text.split()) <= _WHOLE
    ]
    return max(around, key=lambda other: len(other.text), default=one)
