"""The way of a question to its answer; every stage records what it considered, kept and dropped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from whence.answering.evidence import ProcessedQuery, process_query, rerank, retrieve
from whence.answering.state import Question
from whence.answering.writing import write_answer
from whence.provenance.stages import question_triples
from whence.retrieval.services import Passage, as_whence_error
from whence.schema.document_rag import Answer


class Steps(NamedTuple):
    """What differs between questions about documents and about code."""

    retrieve: Callable[[Question, ProcessedQuery], Awaitable[Any]]
    """Finds evidence and reads it (stage `exploration`)."""
    select: Callable[[Question, Any], Awaitable[list[Passage]]]
    """Chooses what the writer reads, best first (stage `focus`)."""


DOCUMENT_STEPS = Steps(retrieve, rerank)


async def answer(question: Question, steps: Steps = DOCUMENT_STEPS) -> Answer:
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
        return await write_answer(question, passages)
    except Exception as error:
        known = as_whence_error(error, "the question")
        await trace.fail(known)
        if known is error:
            raise
        raise known from error
