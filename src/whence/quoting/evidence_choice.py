"""Choose the spans of passages that answer a question, or tell how near the best one came.

In: the question, the passages with the headings above them, a reader or an embedder. Out: one to three spans,
each a whole unit as its author wrote it (`units`), best first, and the score of the best one.

Two numbers are made of a unit. Its score is the probability that it answers at all (`answerability`). Its order
among the others is a sum of what tells answers from their neighbours: nearness word by word of the unit and of
the best one of its passage (without a reader: meaning and words), words in common, rank of the passage and its
document, place in the passage, kind, what the unit is about, and what the question asks for (`asked`).
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from whence.models.protocols import Embedder, Reading, SpanReading, WriteRequest
from whence.models.token_codes import cosines
from whence.quoting.answer_kinds import NUMERIC, OF_ONE_THING, cannot_answer, holds_kind
from whence.quoting.answerability import (
    FLOOR,
    Basis,
    QuestionTerms,
    asked_values,
    basis_of,
    chances,
    features,
    values_of,
)
from whence.quoting.asked import Asked, is_news, read_question
from whence.quoting.evidence_spans import Key, Span, all_spans, asked_rows, sentences_of
from whence.quoting.identifiers import (
    defines_key,
    names_other_identifier,
    names_value,
    neighbours_in_path,
)
from whence.quoting.span_picking import Picked, contradicting_spans, pick_spans, quoted_spans
from whence.quoting.table_rules import RowRules
from whence.quoting.tables import AskedCells, row_in_words
from whence.quoting.units import UnitKind
from whence.schema.errors import ModelMissing, Unavailable
from whence.text.normalization import fold
from whence.text.overlap import (
    Words,
    content_terms,
    inverse_document_frequencies,
    overlap,
    words_of,
)
from whence.text.quantities import quantities
from whence.text.question_words import asked_kind
from whence.text.values import find_values

#: Most units that a question is compared with: those that share most words with it.
_MAX_COMPARED = 32
#: Units that are read of these: the first ones in the order, and by the score, that a glance at them gives.
#: For 115 questions of four documentation sets they held the first unit of the order always, that of the score
#: in 96 %, and 98 % of the units that were quoted. 11 of 31 units, with 42 % of the tokens, are read.
_FIRST, _SCORED = 10, 6
#: Line from the order of a glance to that of the units that were not read, fitted to the same questions; the
#: second number makes the sum of the odds of these units, which is convex, as large as it would be.
_SLOPE, _DOUBT = 0.8, 0.07
#: Longest text that is read, in characters.
_MAX_CHARACTERS = 500
_COSINE_WEIGHT = 0.6
#: Weight of runs of letters beside words where nothing else is known: that of the fit in `answerability.json`.
_LETTERS = 0.4
#: Weight of a word above a unit, relative to a word in it.
_CONTEXT_WEIGHT = 0.6
#: Weights of the order beside that of nearness, which is 1; none counts for the score. They were fitted to the
#: questions of 25 documentation sets (conditional logit: which of the units that are read holds the fact), and
#: order the units of sets that were left out as well. In turn: cosine, share of the question's words, nearness
#: of the passage's best unit.
_COSINE, _WORDS, _PASSAGE = 0.4, 0.23, 0.7
#: Weights of the same fit that are subtracted. In turn: the unit is a release note; the share of its words that
#: repeat the question; characters of the passage before it.
_NEWS, _ECHO, _DEPTH = 0.09, 0.47, 0.00018
#: Weight of the same fit: the unit defines a name of the question.
_DEFINED = 0.17
_KINDS: dict[UnitKind, float] = {"prose": -0.13, "row": 0.18, "item": -0.1}
#: Weight of the row of a table that is asked for by its name. Chosen by hand.
_ROW = 0.15
#: Weight of the kind of thing that is asked for, which decides between equals. Chosen by hand.
_HELD = 0.05
#: Part of the doubt that goes when a question names a cell by its row and its column. Chosen by hand.
_CELL = 0.35
#: A list item that begins with the name that it describes: `- timeout (optional) - ...`, `- fd: ...`.
_NAMED_ITEM = re.compile(
    r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+(\S+(?:\s\S+){0,3}?)(?:\s[-\u2013\u2014]\s|:(?=\s|\Z)|\s[(`]|\n)"
)
#: Factor for older editions than the question asks for.
_OUTDATED = 0.8
#: Factor for units that name the identifier asked for, in a section about another one.
_OTHER_SECTION = 0.7
#: Border of two questions in one: a question mark, or "and" before a question word.
_QUESTION_BORDER = re.compile(
    r"(?<=\?)\s+|,?(?<!\s)\s++and\s++(?=(?:who|whom|whose|what|when|where|which|why|how)\b)",
    re.IGNORECASE,
)


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
    words: Words
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
    request: WriteRequest, embedder: Embedder | None, reader: SpanReading | None = None
) -> Choice | None:
    """Return the spans that answer, or that none does; None without anything to read.

    Cost: the question is compared with at most 32 units, of which at most 16 are read; without a reader all
    are embedded.
    """
    asked = read_question(request.query, _texts_of(request))
    words = words_of(request.query, request.documents)
    found = all_spans(request, words)
    named_spans = [one for one in found if _names_what_is_asked(asked, one, request)]
    if not found:
        return None
    spans = _possible(request.query, words, named_spans)
    if named_spans and not spans:
        reason = "The best passages have only tables of other periods, or of numbers where none is asked for."
        return Choice((), named_spans[0].document, 0.0, FLOOR, reason)
    absent = _absent_symbols(asked, request)
    if absent or not spans:
        named = absent or [one.value for one in sorted(asked.identifiers)]
        what = " and ".join(f"`{one}`" for one in named)
        reason = f"None of the {len(request.documents)} best passages names {what}."
        return Choice((), 0, 0.0, FLOOR, reason)
    rows = asked_rows(split_questions(request.query), found, words)
    examined = await examine(request, spans, words, embedder, reader, rows)
    vectors = examined.reading.vectors if examined.reading else None
    best: list[tuple[float, int]] = []
    picked: list[list[Picked]] = []
    strength: defaultdict[Key, float] = defaultdict(float)
    for row, (scores, order) in enumerate(_weigh(examined, request, rows)):
        for span, value in zip(examined.spans, order, strict=True):
            strength[span.key] = max(value, strength[span.key])
        chosen = pick_spans(examined.spans, order, vectors, examined.unread(row, order))
        nearest = max(range(len(scores)), key=lambda i: (scores[i], -i))
        best.append((scores[nearest], examined.spans[nearest].document))
        if scores[nearest] >= FLOOR:
            picked.append(chosen)
    score, document = max(best, key=lambda pair: pair[0])
    reason = f"The best passage scores {score:.2f}; an answer needs {FLOOR:.2f}."
    table_rows = [one for one in spans if one.key in rows]
    asked_of = _asked_of(examined)
    chosen_spans = quoted_spans(picked, examined.spans, spans, table_rows, strength, asked_of)
    outdated = {marker - 1 for marker in request.outdated}
    other_values = contradicting_spans(chosen_spans, spans, words.language, outdated)
    return Choice((*chosen_spans, *other_values), document, score, FLOOR, reason)


def _asked_of(examined: Examined) -> dict[Key, frozenset[str]]:
    """Return the terms of the question whose kind of thing a span has, such as a date, for each such span."""
    return {
        span.key: terms.terms
        for _, terms in examined.parts
        for span in examined.spans
        if holds_kind(terms.kind, span.text, terms.text, terms.words.language)
        # The name of a unit alone, as in `seconds to wait`, is no number.
        and (terms.kind not in NUMERIC or quantities(span.text, (terms.words.language,)))
    }


#: Rows of tables that a question asks for, by passage, start and end.
Rows = Mapping[Key, AskedCells]


class Examined(NamedTuple):
    """Spans that may answer a question, and what was read of them."""

    parts: list[tuple[_Part, QuestionTerms]]
    """The questions in one."""
    spans: list[Span]
    """Those that were read."""
    reading: Reading | None
    basis: Basis
    guesses: list[tuple[list[float], list[float]]] = []
    """For each question the order that a glance gave the spans that were read, and that of the others; empty
    where all were read."""

    def unread(self, row: int, order: Sequence[float]) -> list[float]:
        """Return about what order the spans that were not read have for a question, from that of the others."""
        if not self.guesses:
            return []
        read, others = self.guesses[row]
        mean, guessed = statistics.fmean(order), statistics.fmean(read)
        return [mean + _SLOPE * (one - guessed) + _DOUBT for one in others]


async def examine(
    request: WriteRequest,
    everything: list[Span],
    words: Words,
    embedder: Embedder | None,
    reader: SpanReading | None,
    rows: Rows | None = None,
) -> Examined:
    """Read the spans that are most likely to be chosen for a question.

    Cost: at most 32 spans are embedded, or compared by a glance of the reader, and at most 16 of these read.

    Args:
        request: The question and its passages.
        everything: Their spans.
        words: Reads the terms of both.
        embedder: Compares question and spans.
        reader: Compares them word by word, in place of the embedder.
        rows: Rows of tables that the question asks for; without them the reader reads all 32.
    """
    spans = _considered(request.query, everything, words)
    # A reader that does not know the words finds all texts alike, and so does the embedder whose model it has.
    serving = reader and reader.serving(words.language, " ".join(one.text for one in spans))
    if serving is not None and serving.by_sentence:
        spans = sentences_of(spans, words)
    parts = split_questions(request.query)
    if serving is not None and serving.by_sentence:
        spans = _without_lists(spans, parts, words.asked)
    asked = []
    for part in parts:
        question = _part(part, spans, words)
        terms = QuestionTerms(
            text=part,
            terms=question.terms,
            weights=question.weights,
            default=question.default,
            kind=asked_kind(part, words.asked),
            words=words,
            news=question.asked.news,
        )
        asked.append((question, terms))
    if reader is not None and serving is None:
        return Examined(asked, spans, None, basis_of(None, words))
    values = asked_values(" ".join(parts), words.language)
    texts = [_text_to_embed(one, values, words.language) for one in spans]
    parts = [_with_plain_periods(one) for one in parts]
    reading: Reading | None = None
    guesses: list[tuple[list[float], list[float]]] = []
    try:
        may_skip = rows is not None and len(spans) > _FIRST + _SCORED
        guessed = await serving.glance(parts, texts) if serving and may_skip else None
        if guessed is not None and rows is not None:
            found = Examined(asked, spans, guessed, basis_of(guessed, words))
            weighed = _weigh(found, request, rows)
            kept = _likely(weighed)
            others = [i for i in range(len(spans)) if i not in kept]
            guesses = [([o[i] for i in kept], [o[i] for i in others]) for _, o in weighed]
            spans, texts = [spans[i] for i in kept], [texts[i] for i in kept]
        if serving is not None:
            reading = await serving.read(parts, texts)
        elif embedder is not None:
            vectors = await embedder.embed([*texts, *parts], "query")
            count = len(texts)
            alike = cosines(vectors[count:], vectors[:count]).tolist()
            reading = Reading(vectors[:count], alike)
    except (Unavailable, ModelMissing):
        pass
    return Examined(asked, spans, reading, basis_of(reading, words), guesses)


def _without_lists(spans: list[Span], parts: Sequence[str], language: str) -> list[Span]:
    """Return spans without whole lists, where one thing is asked for, which one item tells.

    Of a list one item has the words of the question, and another the number or place. A reader that does not
    read by sentence knows paragraphs from one another, and takes the list for one.
    """
    if not all(asked_kind(one, language) in OF_ONE_THING for one in parts):
        return spans
    return [one for one in spans if one.unit.kind != "list"] or spans


def _likely(weighed: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[int]:
    """Return the places of the best spans of each question by order and by score, ascending."""
    kept: set[int] = set()
    for scores, order in weighed:
        for values, most in ((order, _FIRST), (scores, _SCORED)):
            kept.update(sorted(range(len(values)), key=lambda i: (-values[i], i))[:most])
    return sorted(kept)


def _weigh(
    found: Examined, request: WriteRequest, rows: Rows
) -> list[tuple[list[float], list[float]]]:
    """Return score and order of each span, for each question in one; `rows` are the rows that it asks for."""
    weighed = []
    for row, (question, terms) in enumerate(found.parts):
        told = features(terms, found.spans, found.reading, row)
        scores = chances(found.basis, told)
        letters = [one.letters for one in told] if found.basis == "letters" else []
        nearness = _nearness(question, found.spans, found.reading, row, letters)
        alike = found.reading.cosines[row] if found.reading else [0.0] * len(found.spans)
        order = _order(question, found.spans, nearness, alike, request)
        last = min(order, default=0.0) - 1
        for place, span in enumerate(found.spans):
            cells = rows.get(span.key)
            # A cell that is named by its row and its column answers whatever it has: `by appointment`.
            is_named = cells is not None and cells.names_a_cell
            if not is_named and cannot_answer(
                terms.kind, span, terms.terms, terms.text, terms.words
            ):
                scores[place] = 0.0
                order[place] = last
            elif told[place].kind > 0:
                order[place] += _HELD
            if cells is not None:
                said = span.terms | span.above
                share = overlap(question.terms, said, question.weights, question.default)
                order[place] += _ROW * share
                # Row and column name what a cell is about, unless other words make it another thing. A code
                # has one meaning, whatever the words beside it.
                if cells.names_a_cell or cells.names_a_code:
                    doubt = _CELL * (1 - scores[place])
                    scores[place] += doubt if cells.names_a_code else doubt * share**2
                    scores[place] = round(scores[place], 6)
        weighed.append((scores, order))
    return weighed


class Support(NamedTuple):
    """How well one passage answers a question."""

    sentence: str
    """Its best span."""
    score: float
    """Score of that span, 0 to 1, on the scale of `Choice.score`."""
    floor: float
    """Least score of an answer."""


async def weigh_document(
    request: WriteRequest, document: int, embedder: Embedder | None, reader: SpanReading | None
) -> Support | None:
    """Return the score that `choose_evidence` gave the best span of one passage.

    A passage none of whose spans was among those that are read is scored by its own spans alone. One
    that is about another release or number than the question scores 0.

    Args:
        request: What the writer received.
        document: Place of the passage, from 0.
        embedder: Compares question and spans.
        reader: Compares them word by word, in place of the embedder.

    Returns:
        None when the passage has nothing that could answer.
    """
    asked = read_question(request.query, _texts_of(request))
    words = words_of(request.query, request.documents)
    spans = all_spans(request, words)
    rows = asked_rows(split_questions(request.query), spans, words)
    everything = [one for one in spans if _names_what_is_asked(asked, one, request)]
    everything = _possible(request.query, words, everything)
    left_out = all(one.document != document for one in everything)
    found = await examine(request, everything, words, embedder, reader, rows)
    if all(one.document != document for one in found.spans):
        readable = spans if left_out else everything
        own = [one for one in readable if one.document == document]
        found = await examine(request, own, words, embedder, reader, rows)
    places = [i for i, one in enumerate(found.spans) if one.document == document]
    if not places:
        return None
    best = []
    for scores, _ in _weigh(found, request, rows):
        first = max(places, key=lambda i: (scores[i], -i))
        best.append((scores[first], found.spans[first].text))
    score, sentence = max(best, key=lambda pair: pair[0])
    return Support(sentence, 0.0 if left_out else score, FLOOR)


def _texts_of(request: WriteRequest) -> list[str]:
    return [*request.documents, *request.sections, *request.sources]


def _absent_symbols(asked: Asked, request: WriteRequest) -> list[str]:
    """Return the names of code, settings and options that no passage and no heading has."""
    known = fold("\n".join((*request.documents, *request.sections, *request.sources)))
    passages = [*zip(request.documents, request.sections, strict=False)]
    return [
        one
        for one in asked.symbols
        if not all(part in known for part in neighbours_in_path(one) or [one])
        and not any(defines_key(one, *passage) for passage in passages)
    ]


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


def _possible(query: str, words: Words, spans: Sequence[Span]) -> list[Span]:
    """Return the spans that can answer one of the questions in a query."""
    rules = [RowRules(part, words) for part in split_questions(query)]
    return [one for one in spans if not all(each.rule_out(one) for each in rules)]


def _considered(query: str, spans: list[Span], words: Words) -> list[Span]:
    """Return the spans that are read: all, or those that share most words with the question."""
    if len(spans) <= _MAX_COMPARED:
        return spans
    question = _part(query, spans, words)
    shares = [_share(question, one) - 0.01 * one.document for one in spans]
    kept = sorted(range(len(spans)), key=lambda i: (-shares[i], i))[:_MAX_COMPARED]
    return [spans[i] for i in sorted(kept)]


def _with_plain_periods(question: str) -> str:
    """Return a question with years and quarters as texts write them: no model knows `FY2023` or `2Q23`."""
    for one in reversed(find_values(question)):
        if one.kind == "period":
            form = one.forms[0].replace("-", " ").upper()
            question = question[: one.start] + form + question[one.end :]
    return question


def _text_to_embed(span: Span, asked: frozenset[str], language: str) -> str:
    """Return a span with what stands above it; with its source where the question names a number of that."""
    lead = span.unit.context[-1] if span.unit.context else ""
    text = span.text
    if span.unit.kind == "row":
        lead, text = "", row_in_words(lead, text)
    source = "" if asked.isdisjoint(values_of(span.source, language)) else span.source
    above = [one.rstrip(":") for one in (source, span.section, lead) if one]
    return " ".join([*(f"{one}:" for one in above), text[:_MAX_CHARACTERS]])


def _part(query: str, spans: Sequence[Span], words: Words) -> _Part:
    weights = inverse_document_frequencies(one.terms | one.above for one in spans)
    return _Part(
        read_question(query),
        words,
        frozenset(words.of_question(query)),
        weights,
        max(weights.values(), default=1.0),
    )


def _share(question: _Part, span: Span) -> float:
    """Return the share of the question's words in a span and, with a lower weight, above it."""
    named = {term for one in question.asked.symbols for term in question.words.of_text(one)}
    said = span.terms | (span.above & named)
    own = overlap(question.terms, said, question.weights, question.default)
    both = overlap(question.terms, span.terms | span.above, question.weights, question.default)
    return own + _CONTEXT_WEIGHT * (both - own)


def _nearness(
    question: _Part,
    spans: Sequence[Span],
    reading: Reading | None,
    row: int,
    letters: Sequence[float],
) -> list[float]:
    """Return how near spans are to the question of a row, for the order.

    `letters` has the runs of letters that each shares where they are read.
    """
    if reading is not None and reading.nearness:
        return reading.nearness[row]
    shares = [_share(question, one) for one in spans]
    if letters:
        pairs = zip(shares, letters, strict=True)
        return [_LETTERS * run + (1 - _LETTERS) * share for share, run in pairs]
    if reading is None:
        return shares
    return [
        _COSINE_WEIGHT * max(0.0, cosine) + (1 - _COSINE_WEIGHT) * share
        for cosine, share in zip(reading.cosines[row], shares, strict=True)
    ]


def _order(
    question: _Part,
    spans: Sequence[Span],
    nearness: Sequence[float],
    cosines: Sequence[float],
    request: WriteRequest,
) -> list[float]:
    """Return what orders the spans: how near they are, shifted by what tells answers from their neighbours."""
    nearest: dict[int, float] = {}
    for span, near in zip(spans, nearness, strict=True):
        nearest[span.document] = max(near, nearest.get(span.document, near))
    return [
        (near + _COSINE * cosine + _PASSAGE * nearest[span.document] + _shift(question, span))
        * (_OUTDATED if span.document + 1 in request.outdated else 1.0)
        * (
            _OTHER_SECTION
            if names_other_identifier(question.asked.identifiers, span.scopes[1:])
            else 1.0
        )
        for span, near, cosine in zip(spans, nearness, cosines, strict=True)
    ]


def _shift(question: _Part, span: Span) -> float:
    shift = _WORDS * overlap(question.terms, span.terms, question.weights, question.default)
    shift += _KINDS.get(span.unit.kind, 0.0) - _DEPTH * span.unit.start
    shift -= _ECHO * len(span.terms & question.terms) / max(1, len(span.terms))
    if not question.asked.news and is_news(span.section):
        shift -= _NEWS
    head = fold(_head(span))
    return shift + _DEFINED * any(_names(head, one) for one in question.asked.symbols)


def _head(span: Span) -> str:
    """Return what a span is about: its term, first cell or first name, else the term or heading above it."""
    if span.unit.kind == "definition":
        return span.text.partition("\n")[0]
    if span.unit.kind == "item" and (named := _NAMED_ITEM.match(span.text)):
        return named[1]
    if span.unit.kind == "row" or (span.unit.kind == "table" and "\n" not in span.text):
        return span.text.strip("| \t").partition("|")[0]
    return span.unit.context[-1] if span.unit.context else span.section.rsplit(" > ", 1)[-1]


def _names(head: str, symbol: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(symbol)}(?![\w-])", head) is not None
