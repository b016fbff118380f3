"""The way of a question to its answer; every stage records what it considered, kept and dropped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from whence.answering.evidence import ProcessedQuery, process_query, rerank, retrieve
from whence.answering.missing_terms import find_missing_term
from whence.answering.state import Question
from whence.answering.steps import require_model, search_further
from whence.answering.writing import write_answer
from whence.provenance.stages import question_triples
from whence.retrieval.services import as_whence_error
from whence.schema.document_rag import Answer
from whence.schema.passages import Passage
from whence.schema.version import VERSION

Retrieve = Callable[[Question, ProcessedQuery], Awaitable[list[Passage]]]
"""Retrieval and reranking in one: queries in, passages out."""


async def answer(question: Question, own: Retrieve | None = None) -> Answer:
    """Answer one question, by its `own` retrieval if given; when a stage fails, the trace ends in a failure.

    Raises:
        WhenceError: A stage failed that the answer depends on.
    """
    trace = question.trace
    try:
        trace.begin("question", question.asked_at)
        await trace.end(
            partial(
                question_triples,
                query=question.text,
                timestamp=question.asked_at,
                version=VERSION,
            ),
            settings=question.all_settings(),
        )
        processed = await process_query(question)
        if question.most_steps:
            require_model(question)
        if own is None:
            passages = await retrieve(question, processed)
            question.refusal = await find_missing_term(question, passages)
            if question.refusal is None:
                passages = await rerank(question, passages)
        else:
            passages = await own(question, processed)
        if question.most_steps and question.refusal is None:
            passages = await search_further(question, passages)
        return await write_answer(question, passages)
    except Exception as error:
        known = as_whence_error(error, "the question")
        await trace.fail(known)
        if known is error:
            raise
        raise known from error
