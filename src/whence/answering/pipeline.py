"""The way of a question to its answer; every stage records what it considered, kept and dropped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from whence.answering.evidence import ProcessedQuery, process_query, rerank, retrieve
from whence.answering.state import Question
from whence.answering.writing import write_answer
from whence.provenance.stage_records import Scalar
from whence.provenance.stages import question_triples
from whence.retrieval.services import Passage, as_whence_error
from whence.schema.document_rag import Answer, Citation
from whence.schema.search import Degradation


class Steps(NamedTuple):
    """What differs between questions about documents and about code."""

    retrieve: Callable[[Question, ProcessedQuery], Awaitable[Any]]
    """Finds evidence and reads it (stage `exploration`)."""
    select: Callable[[Question, Any], Awaitable[list[Passage]]]
    """Chooses what the writer reads, best first (stage `focus`)."""


DOCUMENT_STEPS = Steps(retrieve, rerank)


class RagResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a question led to."""

    answer: Answer
    asked_at: str
    """Start, ISO 8601 in UTC."""
    settings: dict[str, Scalar] = {}

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.answer.text

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The passages that the markers of the text cite."""
        return self.answer.citations

    @property
    def degraded(self) -> tuple[Degradation, ...]:
        """What was left out, and why."""
        return self.answer.degraded


async def answer(question: Question, steps: Steps = DOCUMENT_STEPS) -> RagResult:
    """Answer one question; when a stage fails, the trace ends in a failure.

    Raises:
        WhenceError: A stage failed that the answer depends on.
    """
    trace = question.trace
    try:
        trace.begin("question")
        await trace.end(
            partial(question_triples, query=question.text, timestamp=question.asked_at),
            settings=question.all_settings(),
        )
        processed = await process_query(question)
        evidence = await steps.retrieve(question, processed)
        passages = await steps.select(question, evidence)
        written = await write_answer(question, passages)
    except Exception as error:
        known = as_whence_error(error, "the question")
        await trace.fail(known)
        if known is error:
            raise
        raise known from error
    result = written.result
    return RagResult(
        answer=Answer(
            answer_id=trace.answer_id,
            question=question.text,
            text=written.text,
            found=written.found,
            citations=written.citations,
            model=result.model or "",
            in_token=result.in_token,
            out_token=result.out_token,
            degraded=tuple(trace.degraded),
            stages=tuple(trace.reports),
            latency_ms=trace.elapsed_ms(),
        ),
        asked_at=question.asked_at,
        settings=question.all_settings(),
    )
