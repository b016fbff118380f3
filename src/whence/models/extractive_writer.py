"""The writer without a language model: it answers with sentences of the documents, or that none was found.

The relevance of a sentence is a weighted mean of two scores: the cosine of question and sentence (with its
headings), and the share of the question's words in it, weighted by rarity. The answer has the most relevant
sentence, and others that are relevant as well and add something.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from whence.models.protocols import Embedder, WritePiece, WriteRequest
from whence.schema.errors import ModelMissing, Unavailable
from whence.schema.prompt import PromptResult, Quote
from whence.text.identifiers import names_other_identifier, question_identifiers
from whence.text.overlap import content_terms, inverse_document_frequencies, overlap
from whence.text.sentences import Sentence, split_sentences

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: The answer when no sentence is relevant enough; constant, so that programs can recognize it.
NOTHING_FOUND = "Nothing was found in the documents that answers this question."

_MAX_SENTENCES = 5
#: Most sentences that are embedded for a question: those that share most words with it.
_MAX_EMBEDDED = 160
_COSINE_WEIGHT = 0.6
#: Weight of a word in heading or lead, relative to a word in the sentence.
_CONTEXT_WEIGHT = 0.6
#: Least relevance of an answer, with and without an embedder. Chosen on the questions in the test of this
#: module, between those that can be answered and the others.
_MIN_RELEVANCE = 0.43
_MIN_OVERLAP = 0.37
#: Least relevance of a further sentence, relative to the best one.
_MIN_FURTHER = 0.75
#: Penalty for the similarity to a sentence that was picked already.
_REDUNDANCY_WEIGHT = 0.45
#: Sentences with a cosine, or a share of common words, from this on are duplicates.
_DUPLICATE = 0.9
_MIN_LETTERS = 8
#: Border of two questions in one: a question mark, or "and" before a question word.
_QUESTION_BORDER = re.compile(
    r"(?<=\?)\s+|,?\s+and\s+(?=(?:who|whom|whose|what|when|where|which|why|how)\b)", re.IGNORECASE
)
#: Factor for sentences of documents that declare themselves out of date.
_OUTDATED_FACTOR = 0.8
#: A question with a year asks about that time; outdated documents are not penalized.
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
#: Factor for sentences with the identifier asked for, in a section about another one.
_OTHER_SECTION_FACTOR = 0.7
#: Factors for kinds of text: a row of a table or a line of code says less without its context.
_KIND_FACTOR = {"prose": 1.0, "item": 1.0, "table": 0.95, "code": 0.9}


class _Candidate(NamedTuple):
    document: int
    part: Sentence
    text: str
    terms: frozenset[str]
    section: str
    """Titles and headings above its document; empty when unknown."""
    context: frozenset[str]
    """Terms of section, heading and lead."""


class _Question(NamedTuple):
    terms: frozenset[str]
    exact: frozenset[str]
    """Those of the terms that are an identifier; a heading with it counts as much as the sentence."""
    weights: dict[str, float]
    default: float
    """Weight of a term without one in `weights`."""


class ExtractiveWriter:
    """Composes answers from verbatim sentences, each followed by its marker. Deterministic.

    Args:
        embedder: Compares question and sentences; without one, or when it fails, only the words count.
    """

    model = "extractive"
    is_language_model = False

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield the answer sentence by sentence, then the whole result.

        For `extract-concepts` the only concept is the question itself. Cost: the embeddings of the question and
        of at most 160 sentences.
        """
        if request.template_id == "extract-concepts":
            pieces, quotes = [request.query], []
        else:
            chosen = await self._choose(request)
            quotes = [Quote(one.document + 1, one.text) for one in chosen]
            sentences = [f"{_shown(quote.text)} [{quote.marker}]" for quote in quotes]
            pieces = [*sentences[:1], *(f" {one}" for one in sentences[1:])] or [NOTHING_FOUND]
        for piece in pieces:
            yield WritePiece(text=piece)
        yield WritePiece(
            result=PromptResult(
                text="".join(pieces), model=self.model, quotes=tuple(quotes), language_model=False
            )
        )

    async def aclose(self) -> None:
        """Do nothing: the caller closes the embedder."""

    async def _choose(self, request: WriteRequest) -> list[_Candidate]:
        query = request.query
        candidates = _all_candidates(request)
        if not candidates or not query.strip():
            return []
        queries = _split_questions(query)
        if len(candidates) > _MAX_EMBEDDED:
            whole = _analyze_question(query, candidates)
            lexical = [_lexical_relevance(whole, candidate) for candidate in candidates]
            kept = sorted(range(len(candidates)), key=lambda i: (-lexical[i], i))[:_MAX_EMBEDDED]
            candidates = [candidates[i] for i in sorted(kept)]
        vectors = await self._vectors(queries, candidates)
        picked: set[int] = set()
        factors = _ranking_factors(candidates, request)
        for number, one in enumerate(queries):
            row = number - len(queries)
            picked |= set(self._answer_to(one, candidates, factors, vectors, row))
        return [candidates[i] for i in sorted(picked)]

    def _answer_to(
        self,
        query: str,
        candidates: Sequence[_Candidate],
        factors: Sequence[float],
        vectors: NDArray[np.float32] | None,
        row: int,
    ) -> list[int]:
        """Return the indices of the sentences that answer one question.

        The minimum applies to the relevance without the factors: an outdated answer is better than none.
        """
        question = _analyze_question(query, candidates)
        lexical = [_lexical_relevance(question, candidate) for candidate in candidates]
        relevance = _relevance(candidates, lexical, vectors, row)
        least = _MIN_OVERLAP if vectors is None else _MIN_RELEVANCE
        if max(relevance) < least:
            return []
        ranked = [value * factor for value, factor in zip(relevance, factors, strict=True)]
        return _pick(candidates, ranked, question, vectors, least)

    async def _vectors(
        self, queries: Sequence[str], candidates: Sequence[_Candidate]
    ) -> NDArray[np.float32] | None:
        """Embed the sentences and, as the last rows, the questions; return None without an embedder."""
        if self._embedder is None:
            return None
        texts = [_text_in_context(candidate) for candidate in candidates]
        try:
            return await self._embedder.embed([*texts, *queries], "query")
        except (Unavailable, ModelMissing):
            return None


def _split_questions(query: str) -> list[str]:
    """Split a question into its parts, which often have their answers in different places.

    >>> _split_questions("Who approves travel, and how much may a hotel cost?")
    ['Who approves travel', 'how much may a hotel cost?']
    >>> _split_questions("Who approves travel and hotels?")
    ['Who approves travel and hotels?']
    """
    parts = [part.strip() for part in _QUESTION_BORDER.split(query)]
    return [part for part in parts if content_terms(part)] or [query]


def _text_in_context(candidate: _Candidate) -> str:
    """Return a sentence with the headings above it; for an item of a list or table, with its lead."""
    part = candidate.part
    heading = "" if part.heading and candidate.section.endswith(part.heading) else part.heading
    above = [candidate.section, heading, part.lead if part.kind in ("item", "table") else ""]
    return " ".join([*(f"{text.rstrip(':')}:" for text in above if text), candidate.text])


def _all_candidates(request: WriteRequest) -> list[_Candidate]:
    """Return the sentences of all documents, without those about another identifier than the question."""
    sections = request.sections or ("",) * len(request.documents)
    candidates = [
        candidate
        for number, (text, section) in enumerate(zip(request.documents, sections, strict=True))
        for candidate in _candidates(number, text, section)
    ]
    asked = question_identifiers(request.query)
    return [
        one for one in candidates if not names_other_identifier(asked, (one.text, *_above(one)))
    ]


def _above(candidate: _Candidate) -> tuple[str, str, str]:
    return candidate.part.lead, candidate.part.heading, candidate.section


def _candidates(number: int, text: str, section: str) -> list[_Candidate]:
    """Return the sentences of a document that can be part of an answer."""
    candidates = []
    for part in split_sentences(text):
        content = text[part.start : part.end]
        header_row = part.kind == "table" and not part.lead
        announces = part.kind == "prose" and content.endswith(":")
        letters = sum(character.isalnum() for character in content)
        if part.kind == "heading" or header_row or announces or letters < _MIN_LETTERS:
            continue
        stripped = _without_emphasis(content)
        terms = frozenset(content_terms(content))
        context = frozenset(content_terms(f"{section} {part.heading} {part.lead}"))
        candidates.append(_Candidate(number, part, stripped, terms, section, context))
    return candidates


def _without_emphasis(text: str) -> str:
    match = re.fullmatch(r"(\*{1,3}|_{1,3})(?=\S)([^*_]+)(?<=\S)\1", text)
    return match[2] if match else text


def _shown(text: str) -> str:
    """Return a sentence as it is shown: on one line, and without numbers that look like markers."""
    line = re.sub(r"\s+", " ", text).strip()
    line = re.sub(r"\[(\s*\d[\d\s,;]*)\]", r"(\1)", line)
    return (
        line
        if re.search(r"[.!?\u2026\u3002\uff01\uff1f:;][\"'\u201d\u2019)*_`]*\Z", line)
        else f"{line}."
    )


def _analyze_question(query: str, candidates: Sequence[_Candidate]) -> _Question:
    weights = inverse_document_frequencies(
        candidate.terms | candidate.context for candidate in candidates
    )
    terms = frozenset(content_terms(query))
    values = " ".join(f"{one.name} {one.value}" for one in question_identifiers(query))
    exact = terms & frozenset(content_terms(values))
    return _Question(terms, exact, weights, max(weights.values(), default=1.0))


def _lexical_relevance(question: _Question, candidate: _Candidate) -> float:
    """Return the share of the question's words in a sentence and, with a lower weight, in its context."""
    said = candidate.terms | (candidate.context & question.exact)
    own = overlap(question.terms, said, question.weights, question.default)
    both = overlap(
        question.terms, candidate.terms | candidate.context, question.weights, question.default
    )
    return own + _CONTEXT_WEIGHT * (both - own)


def _relevance(
    candidates: Sequence[_Candidate],
    lexical: Sequence[float],
    vectors: NDArray[np.float32] | None,
    row: int,
) -> list[float]:
    factors = [_KIND_FACTOR[candidate.part.kind] for candidate in candidates]
    if vectors is None:
        return [factor * share for factor, share in zip(factors, lexical, strict=True)]
    cosines = (vectors[: len(candidates)] @ vectors[row]).tolist()
    return [
        factor * (_COSINE_WEIGHT * max(0.0, cosine) + (1 - _COSINE_WEIGHT) * share)
        for factor, cosine, share in zip(factors, cosines, lexical, strict=True)
    ]


def _ranking_factors(candidates: Sequence[_Candidate], request: WriteRequest) -> list[float]:
    """Return the factor of each candidate for an outdated document and for a section about something else."""
    old = frozenset[int]() if _YEAR.search(request.query) else request.outdated
    asked = question_identifiers(request.query)
    return [
        (_OUTDATED_FACTOR if one.document + 1 in old else 1.0)
        * (_OTHER_SECTION_FACTOR if names_other_identifier(asked, _above(one)) else 1.0)
        for one in candidates
    ]


def _pick(
    candidates: Sequence[_Candidate],
    relevance: Sequence[float],
    question: _Question,
    vectors: NDArray[np.float32] | None,
    least: float,
) -> list[int]:
    """Pick sentences by maximal marginal relevance; each further one must add something, see `_adds`.

    Ties go to the earlier document, then to the earlier sentence.
    """
    floor = max(least, *relevance) * _MIN_FURTHER
    remaining = [i for i, value in enumerate(relevance) if value >= floor]
    picked: list[int] = []
    while remaining and len(picked) < _MAX_SENTENCES:
        similarity = {
            i: max((_similarity(candidates, vectors, i, j) for j in picked), default=0.0)
            for i in remaining
        }
        remaining = [i for i in remaining if similarity[i] < _DUPLICATE]
        if not remaining:
            break
        best = max(
            remaining, key=lambda i: (relevance[i] - _REDUNDANCY_WEIGHT * similarity[i] ** 2, -i)
        )
        remaining.remove(best)
        if not picked or _adds(candidates, relevance, question, picked, best):
            picked.append(best)
    return picked


def _adds(
    candidates: Sequence[_Candidate],
    relevance: Sequence[float],
    question: _Question,
    picked: Sequence[int],
    index: int,
) -> bool:
    """Return whether a sentence has further words of the question, continues a list, or is as relevant."""
    if any(_same_list(candidates[i], candidates[index]) for i in picked):
        return True
    covered = {term for i in picked for term in candidates[i].terms}
    fresh = (question.terms & candidates[index].terms) - covered
    return bool(fresh) or relevance[index] >= 0.9 * max(relevance[i] for i in picked)


def _same_list(a: _Candidate, b: _Candidate) -> bool:
    same = a.document == b.document and a.part.lead == b.part.lead
    return same and a.part.kind == b.part.kind == "item" and a.part.lead.endswith(":")


def _similarity(
    candidates: Sequence[_Candidate], vectors: NDArray[np.float32] | None, i: int, j: int
) -> float:
    """Return the similarity of two sentences, 0 to 1: the greater of common words and cosine."""
    a, b = candidates[i].terms, candidates[j].terms
    common = len(a & b) / len(a | b) if a | b else 1.0
    if vectors is None:
        return common
    return max(common, float(vectors[i] @ vectors[j]))
