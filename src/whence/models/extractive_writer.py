"""The writer without a language model: it answers with sentences of the documents, or says that it cannot.

Relevance of a sentence is a mean of two views: the cosine of question and sentence (read under its heading),
and the share of the question's words that it contains, rare words counting more. The answer starts with the
most relevant sentence; others join when they are relevant as well, and add something.
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

__all__ = ("NOTHING_FOUND", "ExtractiveWriter")

#: What is answered when no sentence is relevant enough; constant, so that programs can tell.
NOTHING_FOUND = "Nothing was found in the documents that answers this question."

_MOST_SENTENCES = 5
#: Sentences that are embedded for one question; those with fewest shared words are left out first.
_MOST_EMBEDDED = 160
_COSINE_SHARE = 0.6
#: Words in heading or lead count this much of words in the sentence itself.
_CONTEXT_WEIGHT = 0.6
#: Least relevance of the best sentence, with and without an embedder; below it nothing is answered. Set on the
#: questions in the test of this module, between the answerable and the others.
_LEAST_RELEVANCE = 0.43
_LEAST_OVERLAP = 0.37
#: A further sentence needs this share of the best one's relevance.
_FURTHER_SHARE = 0.75
#: What a sentence loses for being like one that is taken already.
_REDUNDANCY_WEIGHT = 0.45
#: Two sentences with a cosine, or a share of common words, above this say the same.
_SAME = 0.9
_FEWEST_LETTERS = 8
#: Between two questions in one: a question mark, or "and" before a word that questions begin with.
_QUESTION_BORDER = re.compile(
    r"(?<=\?)\s+|,?\s+and\s+(?=(?:who|whom|whose|what|when|where|which|why|how)\b)", re.IGNORECASE
)
#: A sentence of a document that says it is out of date stands behind a current one of nearly its relevance.
_OUTDATED_FACTOR = 0.8
#: Whoever names a year asks how things were then.
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
#: So does one that names the release, code or day asked for, and stands in a section about another one.
_IN_PASSING_FACTOR = 0.7
#: A table's row and a line of code say less by themselves than a sentence.
_KIND_FACTOR = {"prose": 1.0, "item": 1.0, "table": 0.95, "code": 0.9}


class _Candidate(NamedTuple):
    document: int
    """Index of its document."""
    part: Sentence
    text: str
    """Verbatim."""
    terms: frozenset[str]
    section: str
    """Where its document stands, as far as that is known."""
    context: frozenset[str]
    """Terms of section, heading and lead."""


class _Question(NamedTuple):
    terms: frozenset[str]
    exact: frozenset[str]
    """Of the terms those of a release, a code or a day: what stands under it is about it, as if it said so."""
    weights: dict[str, float]
    default: float
    """Weight of a term that no sentence has."""


class ExtractiveWriter:
    """Composes answers from verbatim sentences, each followed by its marker. Deterministic.

    Args:
        embedder: Compares question and sentences; None, or one that is not available, leaves the words only.
    """

    model = "extractive"
    is_language_model = False

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield the answer sentence by sentence, then the whole result.

        For `extract-concepts` the only concept is the question itself.

        Cost: one embedding for each of at most 160 sentences, and one for the question.
        """
        if request.template_id == "extract-concepts":
            yield WritePiece(text=request.query)
            yield WritePiece(result=self._result(request.query, ()))
            return
        chosen = await self._chosen(request)
        if not chosen:
            yield WritePiece(text=NOTHING_FOUND)
            yield WritePiece(result=self._result(NOTHING_FOUND, ()))
            return
        pieces: list[str] = []
        for candidate in chosen:
            shown = f"{_shown(candidate.text)} [{candidate.document + 1}]"
            pieces.append(shown if not pieces else f" {shown}")
            yield WritePiece(text=pieces[-1])
        quotes = tuple(Quote(candidate.document + 1, candidate.text) for candidate in chosen)
        yield WritePiece(result=self._result("".join(pieces), quotes))

    async def aclose(self) -> None:
        """Do nothing: the embedder belongs to whoever made it."""

    def _result(self, text: str, quotes: tuple[Quote, ...]) -> PromptResult:
        return PromptResult(text=text, model=self.model, quotes=quotes, language_model=False)

    async def _chosen(self, request: WriteRequest) -> list[_Candidate]:
        query = request.query
        candidates = _answering(request)
        if not candidates or not query.strip():
            return []
        queries = _questions_in(query)
        whole = _question(query, candidates)
        lexical = [_lexical(whole, candidate) for candidate in candidates]
        kept = sorted(range(len(candidates)), key=lambda i: (-lexical[i], i))[:_MOST_EMBEDDED]
        candidates = [candidates[i] for i in sorted(kept)]
        vectors = await self._vectors(queries, candidates)
        picked: set[int] = set()
        factors = _factors(candidates, request)
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
        """Pick the sentences that answer one question; `row` is the row of its vector.

        Whether anything answers it is judged before the factors: an old answer is better than none.
        """
        question = _question(query, candidates)
        lexical = [_lexical(question, candidate) for candidate in candidates]
        relevance = _relevance(candidates, lexical, vectors, row)
        least = _LEAST_OVERLAP if vectors is None else _LEAST_RELEVANCE
        if max(relevance) < least:
            return []
        ranked = [value * factor for value, factor in zip(relevance, factors, strict=True)]
        return _picked(candidates, ranked, question, vectors, least)

    async def _vectors(
        self, queries: Sequence[str], candidates: Sequence[_Candidate]
    ) -> NDArray[np.float32] | None:
        """Embed the sentences and, as the last rows, the questions; None without an embedder."""
        if self._embedder is None:
            return None
        texts = [_read_in_context(candidate) for candidate in candidates]
        try:
            return await self._embedder.embed([*texts, *queries], "query")
        except (Unavailable, ModelMissing):
            return None


def _questions_in(query: str) -> list[str]:
    """Return the questions that one question is made of.

    "Who approves it, and how much may it cost?" asks for two things, which often stand in two places.

    >>> _questions_in("Who approves travel, and how much may a hotel cost?")
    ['Who approves travel', 'how much may a hotel cost?']
    >>> _questions_in("Who approves travel and hotels?")
    ['Who approves travel and hotels?']
    """
    parts = [part.strip() for part in _QUESTION_BORDER.split(query)]
    return [part for part in parts if content_terms(part)] or [query]


def _read_in_context(candidate: _Candidate) -> str:
    """Return a sentence with what it stands under; an item of a list says little without its lead."""
    part = candidate.part
    heading = "" if part.heading and candidate.section.endswith(part.heading) else part.heading
    above = [candidate.section, heading, part.lead if part.kind in ("item", "table") else ""]
    return " ".join([*(f"{text.rstrip(':')}:" for text in above if text), candidate.text])


def _answering(request: WriteRequest) -> list[_Candidate]:
    """Return the sentences that can stand in an answer, without those about another release, code or day."""
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
    """Return what a sentence stands under, the nearest first."""
    return candidate.part.lead, candidate.part.heading, candidate.section


def _candidates(number: int, text: str, section: str) -> list[_Candidate]:
    """Return the sentences of a document that are any."""
    candidates = []
    for part in split_sentences(text):
        content = text[part.start : part.end]
        header_row = part.kind == "table" and not part.lead
        announces = part.kind == "prose" and content.endswith(":")
        letters = sum(character.isalnum() for character in content)
        if part.kind == "heading" or header_row or announces or letters < _FEWEST_LETTERS:
            continue
        stripped = _without_emphasis(content)
        terms = frozenset(content_terms(content))
        context = frozenset(content_terms(f"{section} {part.heading} {part.lead}"))
        candidates.append(_Candidate(number, part, stripped, terms, section, context))
    return candidates


def _without_emphasis(text: str) -> str:
    """Drop marks of emphasis around a whole sentence; what is left is still verbatim."""
    match = re.fullmatch(r"(\*{1,3}|_{1,3})(?=\S)([^*_]+)(?<=\S)\1", text)
    return match[2] if match else text


def _shown(text: str) -> str:
    """Return a sentence as it is shown: on one line, and without numbers that look like our markers."""
    line = re.sub(r"\s+", " ", text).strip()
    line = re.sub(r"\[(\s*\d[\d\s,;]*)\]", r"(\1)", line)
    return (
        line
        if re.search(r"[.!?\u2026\u3002\uff01\uff1f:;][\"'\u201d\u2019)*_`]*\Z", line)
        else f"{line}."
    )


def _question(query: str, candidates: Sequence[_Candidate]) -> _Question:
    weights = inverse_document_frequencies(
        candidate.terms | candidate.context for candidate in candidates
    )
    terms = frozenset(content_terms(query))
    values = " ".join(f"{one.name} {one.value}" for one in question_identifiers(query))
    exact = terms & frozenset(content_terms(values))
    return _Question(terms, exact, weights, max(weights.values(), default=1.0))


def _lexical(question: _Question, candidate: _Candidate) -> float:
    """Return the share of the question's words in a sentence and, at a lower weight, in its context."""
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
    """Return relevance, 0 to 1, per candidate."""
    factors = [_KIND_FACTOR[candidate.part.kind] for candidate in candidates]
    if vectors is None:
        return [factor * share for factor, share in zip(factors, lexical, strict=True)]
    cosines = (vectors[: len(candidates)] @ vectors[row]).tolist()
    return [
        factor * (_COSINE_SHARE * max(0.0, cosine) + (1 - _COSINE_SHARE) * share)
        for factor, cosine, share in zip(factors, cosines, lexical, strict=True)
    ]


def _factors(candidates: Sequence[_Candidate], request: WriteRequest) -> list[float]:
    """Return the weight of each candidate by the currency of its document, and by what it stands under."""
    old = frozenset[int]() if _YEAR.search(request.query) else request.outdated
    asked = question_identifiers(request.query)
    return [
        (_OUTDATED_FACTOR if one.document + 1 in old else 1.0)
        * (_IN_PASSING_FACTOR if names_other_identifier(asked, _above(one)) else 1.0)
        for one in candidates
    ]


def _picked(
    candidates: Sequence[_Candidate],
    relevance: Sequence[float],
    question: _Question,
    vectors: NDArray[np.float32] | None,
    least: float,
) -> list[int]:
    """Pick sentences by maximal marginal relevance; a further one must bring words or strength.

    Ties go to the earlier document, then to the earlier sentence.
    """
    floor = max(least, *relevance) * _FURTHER_SHARE
    open_ones = [i for i, value in enumerate(relevance) if value >= floor]
    picked: list[int] = []
    while open_ones and len(picked) < _MOST_SENTENCES:
        likeness = {
            i: max((_alike(candidates, vectors, i, j) for j in picked), default=0.0)
            for i in open_ones
        }
        open_ones = [i for i in open_ones if likeness[i] < _SAME]
        if not open_ones:
            break
        following = max(
            open_ones, key=lambda i: (relevance[i] - _REDUNDANCY_WEIGHT * likeness[i] ** 2, -i)
        )
        open_ones.remove(following)
        if not picked or _adds(candidates, relevance, question, picked, following):
            picked.append(following)
    return picked


def _adds(
    candidates: Sequence[_Candidate],
    relevance: Sequence[float],
    question: _Question,
    picked: Sequence[int],
    index: int,
) -> bool:
    """Return whether a sentence brings words that are missing, or goes on with a list, or is as relevant."""
    if any(_one_list(candidates[i], candidates[index]) for i in picked):
        return True
    covered = {term for i in picked for term in candidates[i].terms}
    fresh = (question.terms & candidates[index].terms) - covered
    return bool(fresh) or relevance[index] >= 0.9 * max(relevance[i] for i in picked)


def _one_list(a: _Candidate, b: _Candidate) -> bool:
    """Return whether two candidates are items that one line announces."""
    same = a.document == b.document and a.part.lead == b.part.lead
    return same and a.part.kind == b.part.kind == "item" and a.part.lead.endswith(":")


def _alike(
    candidates: Sequence[_Candidate], vectors: NDArray[np.float32] | None, i: int, j: int
) -> float:
    """Return how far two sentences say the same, 0 to 1."""
    a, b = candidates[i].terms, candidates[j].terms
    common = len(a & b) / len(a | b) if a | b else 1.0
    if vectors is None:
        return common
    return max(common, float(vectors[i] @ vectors[j]))
