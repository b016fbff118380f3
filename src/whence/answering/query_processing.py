"""Query processing (stage `grounding`): a question in, what to search for out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence

import msgspec

from whence.answering.state import Question
from whence.provenance.stage_records import ModelUse
from whence.provenance.stages import grounding_triples
from whence.retrieval.services import Embedded, Query
from whence.schema.errors import WhenceError
from whence.schema.prompt import PromptResult

#: List marks that models write although the prompt forbids them.
_BULLET = re.compile(r"^(?:[-*\u2022]|\d{1,2}[.)])\s+")
#: Longest concept in characters; a longer line is prose, not a search phrase.
_MAX_CONCEPT_CHARS = 500


class ProcessedQuery(msgspec.Struct, frozen=True):
    """What to search for."""

    concepts: tuple[str, ...]
    """Search phrases that a language model made of the question, or the question itself."""
    embedded: Embedded | WhenceError
    """The question's vector, or the error of embedding it."""


async def process_query(question: Question) -> ProcessedQuery:
    """Extract concepts and embed the question at the same time.

    A failure to extract concepts degrades: the question alone is searched. Without a language model the
    question is the only concept.
    """
    trace = question.trace
    trace.begin("grounding")
    result, embedded = await asyncio.gather(
        _extract_concepts(question), _embed(question, [question.text], "the question")
    )
    by_model = result.language_model is not False
    extracted = read_concepts(result.text or "", limit=question.options.max_concepts)
    concepts = (extracted if by_model else ()) or (question.text,)
    await trace.end(
        lambda run: grounding_triples(
            trace.answer_id,
            concepts,
            in_token=result.in_token,
            out_token=result.out_token,
            model=(result.model or None) if by_model else None,
            run=run,
        ),
        candidates_in=1,
        candidates_out=len(concepts),
        settings={"prompt_template": result.template} if result.template else None,
    )
    return ProcessedQuery(concepts, embedded)


async def _extract_concepts(question: Question) -> PromptResult:
    try:
        return await question.services.writer.extract_concepts(question.text)
    except WhenceError as error:
        question.trace.degrade(
            "prompt",
            "concepts_failed",
            f"no concepts were named, the question alone is searched: {error.message}",
        )
        return PromptResult(text="")


async def _embed(question: Question, texts: Sequence[str], what: str) -> Embedded | WhenceError:
    """Return one vector per text, or the error: whether it matters depends on the caller."""
    try:
        embedded = await question.services.retrieval.embed(texts, what)
    except WhenceError as error:
        return error
    model = embedded.model
    if model is not None:
        question.models["embedding"] = ModelUse(
            role="embedding",
            name=model.name,
            revision=model.revision,
            precision=model.precision,
            dimension=model.dimension,
        )
    return embedded


async def plan_queries(question: Question, processed: ProcessedQuery) -> list[Query]:
    """Return the queries to search for: the question's own first, then one per concept.

    The question itself is always searched, to the whole depth of the pool: concepts may miss its point, or find
    the same chunks. The concepts share the pool equally.

    Raises:
        WhenceError: Nothing could be embedded, and words alone cannot rank.
    """
    text, pool = question.text, question.pool_limit
    trace, own = question.trace, processed.embedded
    concepts = [concept for concept in processed.concepts if concept != text]
    embedded: Embedded | WhenceError = Embedded(())
    if concepts:
        embedded = await _embed(question, concepts, "concepts")
    if not isinstance(own, WhenceError):
        queries = [Query(text, own.vectors[0], pool)]
    elif question.services.retrieval.mode != "dense":
        reason = f"words alone find candidates, the question could not be embedded: {own.message}"
        trace.degrade("embedding", "question_not_embedded", reason)
        queries = [Query(text, None, pool)]
    elif isinstance(embedded, WhenceError) or not concepts:
        raise own
    else:
        reason = f"only concepts are searched, not the question itself: {own.message}"
        trace.degrade("embedding", "question_not_embedded", reason)
        queries = []
    if isinstance(embedded, WhenceError):
        reason = f"only the question itself is searched: {embedded.message}"
        trace.degrade("embedding", "concepts_not_embedded", reason)
        return queries
    share = max(1, pool // max(1, len(concepts)))
    return queries + [
        Query(concept, vector, share)
        for concept, vector in zip(concepts, embedded.vectors, strict=True)
    ]


def read_concepts(text: str, *, limit: int) -> tuple[str, ...]:
    r"""Return the concepts of a reply: one a line, bullets and blanks stripped, each once, in order.

    >>> read_concepts("- return policy\n\n2. refund\nRefund", limit=5)
    ('return policy', 'refund')
    """
    concepts: dict[str, str] = {}
    for concept in _lines(text):
        if len(concepts) == limit:
            break
        concepts.setdefault(concept.casefold(), concept)
    return tuple(concepts.values())


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        concept = _BULLET.sub("", line.strip()).replace("\0", "").strip()
        if concept:
            yield concept[:_MAX_CONCEPT_CHARS].strip()
