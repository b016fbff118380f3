"""The document RAG service: a question in; pieces of the answer, explain events and the answer out.

Nothing of an answer is lost silently: what was done without is in its `degraded`. A question that fails
leaves a trace that ends in a failure node; one that is cancelled leaves none but the events that went out.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec

from whence.answering.document_rag import (
    DocumentRag,
    ExplainCallback,
    RagResult,
    new_answer_id,
)
from whence.answering.state import OVERFETCH_FACTOR, RagOptions
from whence.answering.streaming import Asked, QuestionJob
from whence.answering.trace_recorder import iso_utc, utc_now
from whence.answering.writing import NOTHING_FOUND, NOTHING_READABLE
from whence.processors.base import Context, StreamingProcessor
from whence.processors.clients import (
    DocEmbeddingsClient,
    EmbeddingsClient,
    PromptClient,
    RerankerClient,
    TextsClient,
)
from whence.processors.services import DOCUMENT_RAG, EMBEDDING, PROMPT, RERANK, SEARCH, TEXTS
from whence.schema.document_rag import DocumentRagRequest, ExplainEvent, TraceRecord
from whence.schema.errors import BadInput
from whence.schema.filters import parse_filters
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
    """Puts `DocumentRag` on the bus.

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
        self._new_id = new_id
        self._clock = clock
        self._monotonic = monotonic

    def handle_stream(
        self, message: DocumentRagRequest, context: Context
    ) -> AsyncIterator[Message]:
        """Answer one question.

        Raises:
            BadInput: As for `DocumentRag.query`; or a limit is larger than allowed.
            WhenceError: As for `DocumentRag.query`.
        """
        self._check(message)
        rag = self.rag(message, context)
        asked = Asked(
            answer_id=message.answer_id or self._new_id(),
            question=message.question,
            collection=message.collection,
            access=message.access,
            asked_at=iso_utc(self._clock()),
            explain=message.explain,
            record=message.record,
            settings={"doc_limit": message.doc_limit, "rerank": message.rerank},
        )

        async def run(job: QuestionJob) -> RagResult:
            return await rag.query(
                message.question,
                doc_limit=message.doc_limit,
                fetch_limit=message.fetch_limit or self.parameters.fetch_limit,
                streaming=message.streaming,
                chunk_callback=job.piece,
                rerank=message.rerank,
                answer_id=asked.answer_id,
                deadline_s=job.deadline_s,
                event_callback=job.event,
                asked_at=asked.asked_at,
            )

        job = QuestionJob(
            asked,
            context,
            run,
            explain_timeout_s=self.parameters.explain_timeout_s,
            trace_timeout_s=self.parameters.trace_timeout_s,
        )
        return job.replies()

    def _check(self, message: DocumentRagRequest) -> None:
        for name, value, most in (
            ("doc_limit", message.doc_limit, self.parameters.max_doc_limit),
            ("fetch_limit", message.fetch_limit, self.parameters.max_fetch_limit),
        ):
            if value > most:
                raise BadInput(f"{name} must be at most {most}, not {value}")
        parse_filters(message.filters)

    def rag(self, message: DocumentRagRequest, context: Context) -> DocumentRag:
        """Give the RAG of one request: its clients carry the rights of the reader."""
        reader: dict[str, Any] = {"collection": message.collection, "access": message.access}
        mode = message.mode or self.parameters.mode
        texts = TextsClient(context, **reader)
        return DocumentRag(
            PromptClient(context),
            EmbeddingsClient(context),
            DocEmbeddingsClient(context, mode=mode, filters=message.filters, **reader),
            texts.fetch_chunk,
            RerankerClient(context) if context.is_bound("reranker") else None,
            fetch_chunks=texts.fetch_chunks,
            options=self.parameters,
            settings=_settings(message, mode),
            new_id=self._new_id,
            clock=self._clock,
            monotonic=self._monotonic,
        )


def _settings(message: DocumentRagRequest, mode: SearchMode) -> dict[str, Any]:
    """Give what the trace keeps of a request, enough to ask it again."""
    settings: dict[str, Any] = {"collection": message.collection, "mode": mode}
    if message.filters:
        wire = msgspec.json.encode(message.filters, order="deterministic")
        settings["filters"] = wire.decode()
    return settings
