"""The document RAG service: a question in; pieces of the answer, explain events and the answer out."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec

from whence.answering.arguments import ExplainCallback
from whence.answering.document_rag import DocumentRag
from whence.answering.pipeline import RagResult, answer
from whence.answering.prompts import bus_services
from whence.answering.state import (
    OVERFETCH_FACTOR,
    Question,
    RagOptions,
    Sources,
    new_answer_id,
    new_question,
)
from whence.answering.streaming import AnswerStream, question_time_s
from whence.answering.trace_recorder import utc_now
from whence.answering.writing import NOTHING_FOUND, NOTHING_READABLE
from whence.processors.base import Context, StreamingProcessor
from whence.processors.services import DOCUMENT_RAG, EMBEDDING, PROMPT, RERANK, SEARCH, TEXTS
from whence.schema.document_rag import DocumentRagRequest, ExplainEvent, TraceRecord
from whence.schema.errors import BadInput
from whence.schema.message import Message
from whence.schema.search import SearchMode

__all__ = (
    "NOTHING_FOUND",
    "NOTHING_READABLE",
    "OVERFETCH_FACTOR",
    "DocumentRag",
    "DocumentRagParameters",
    "DocumentRagProcessor",
    "ExplainCallback",
    "RagOptions",
    "RagResult",
)


class DocumentRagParameters(RagOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the document RAG processor."""

    drop_duplicates: bool = True
    """Whether of passages with equal texts only the best ranked is kept."""
    mode: SearchMode = "dense"
    """How candidates are found when the request does not say."""
    fetch_limit: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Candidates retrieved when the request does not say; 0 for three times its `doc_limit`."""
    max_doc_limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 500
    """Largest `doc_limit` of a request; a larger one is refused."""
    max_fetch_limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1500
    """Largest `fetch_limit` of a request; a larger one is refused."""
    trace_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0
    """Seconds for publishing the trace."""


class DocumentRagProcessor(StreamingProcessor):
    """Answers questions from documents.

    Explain events go to the port `explain` and to the caller. The trace goes to the port `trace` before the
    answer goes out; one that cannot be published shows in the answer as `trace_not_stored`.

    Args:
        parameters: Settings.
        new_id: Makes ids of answers for requests without one.
        clock: Time of day in UTC.
        monotonic: Clock in seconds that never goes back.
    """

    type_name = "document-rag"
    summary = "a question to an answer with citations and its trace"
    serves = DOCUMENT_RAG
    calls = {
        "embedding": EMBEDDING,
        "search": SEARCH,
        "texts": TEXTS,
        "reranker": RERANK,
        "prompt": PROMPT,
    }
    optional_calls = frozenset({"reranker"})
    emits = {"explain": ExplainEvent, "trace": TraceRecord}
    Parameters = DocumentRagParameters

    parameters: DocumentRagParameters

    def __init__(
        self,
        parameters: DocumentRagParameters | None = None,
        *,
        new_id: Callable[[], str] = new_answer_id,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parameters)
        self._sources = Sources(new_id, clock, monotonic)

    def handle_stream(
        self, message: DocumentRagRequest, context: Context
    ) -> AsyncIterator[Message]:
        """Answer one question.

        Raises:
            BadInput: As for `DocumentRag.query`; or a filter is invalid, or a limit is larger than allowed.
            WhenceError: As for `DocumentRag.query`.
        """
        stream = AnswerStream(context, trace_timeout_s=self.parameters.trace_timeout_s)
        question = self._question(message, context, stream)
        return stream.run(question, answer)

    def _question(
        self, message: DocumentRagRequest, context: Context, stream: AnswerStream
    ) -> Question:
        own = self.parameters
        for name, value, most in (
            ("doc_limit", message.doc_limit, own.max_doc_limit),
            ("fetch_limit", message.fetch_limit, own.max_fetch_limit),
        ):
            if value > most:
                raise BadInput(f"{name} must be at most {most}, not {value}")
        mode = message.mode or own.mode
        settings: dict[str, Any] = {"collection": message.collection, "mode": mode}
        if message.filters:
            wire = msgspec.json.encode(message.filters, order="deterministic")
            settings["filters"] = wire.decode()
        if own.fetch_limit and not message.fetch_limit:
            message = msgspec.structs.replace(message, fetch_limit=own.fetch_limit)
        question = new_question(
            message,
            own,
            bus_services(
                context,
                own,
                collection=message.collection,
                access=message.access,
                mode=mode,
                filters=message.filters,
            ),
            self._sources,
            has_reranker=context.is_bound("reranker"),
            settings=settings,
            listeners=(stream.event,),
            deadline_s=question_time_s(context),
        )
        question.on_piece = stream.piece if message.streaming else None
        return question
