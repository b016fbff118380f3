"""The document RAG service: a question in; pieces of the answer, explain events and the answer out.

Nothing of an answer is lost silently: what was done without is in its `degraded`. A question that fails
leaves a trace that ends in a failure node; one that is cancelled leaves none but the events that went out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import msgspec

from whence.processors.base import Context, StreamingProcessor
from whence.processors.clients import (
    DocEmbeddingsClient,
    EmbeddingsClient,
    PromptClient,
    RerankerClient,
    TextsClient,
)
from whence.processors.question.deadline import as_whence_error
from whence.processors.question.rag import (
    DocumentRag,
    ExplainCallback,
    RagResult,
    new_answer_id,
)
from whence.processors.question.state import OVERFETCH_FACTOR, RagOptions
from whence.processors.question.synthesis import NOTHING_FOUND, NOTHING_READABLE
from whence.processors.question.trail import iso_utc, utc_now
from whence.processors.services import DOCUMENT_RAG, EMBEDDING, PROMPT, RERANK, SEARCH, TEXTS
from whence.processors.streams import closing
from whence.provenance.terms import Scalar
from whence.provenance.uris import validate_answer_id
from whence.schema.document_rag import (
    Answer,
    AnswerPiece,
    DocumentRagRequest,
    ExplainEvent,
    TraceRecord,
)
from whence.schema.errors import BadInput, WhenceError
from whence.schema.message import Message
from whence.schema.search import Degradation, SearchMode

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

    async def handle_stream(
        self, message: DocumentRagRequest, context: Context
    ) -> AsyncIterator[Message]:
        """Answer one question.

        Raises:
            BadInput: As for `DocumentRag.query`; or a limit is larger than allowed.
            WhenceError: As for `DocumentRag.query`.
        """
        self._check(message)
        job = _Job(self, message, context)
        async with closing(job.replies()) as replies:
            async for reply in replies:
                yield reply
        yield await job.answer()

    def _check(self, message: DocumentRagRequest) -> None:
        for name, value, most in (
            ("doc_limit", message.doc_limit, self.parameters.max_doc_limit),
            ("fetch_limit", message.fetch_limit, self.parameters.max_fetch_limit),
        ):
            if value > most:
                raise BadInput(f"{name} must be at most {most}, not {value}")

    def rag(self, message: DocumentRagRequest, context: Context) -> DocumentRag:
        """Give the RAG of one request: its clients carry the rights of the reader."""
        reader: dict[str, Any] = {"collection": message.collection, "access": message.access}
        mode = message.mode or self.parameters.mode
        texts = TextsClient(context, **reader)
        return DocumentRag(
            PromptClient(context),
            EmbeddingsClient(context),
            DocEmbeddingsClient(context, mode=mode, **reader),
            texts.fetch_chunk,
            RerankerClient(context) if context.is_bound("reranker") else None,
            fetch_chunks=texts.fetch_chunks,
            options=self.parameters,
            settings={"collection": message.collection, "mode": mode},
            new_id=self._new_id,
            clock=self._clock,
            monotonic=self._monotonic,
        )

    def new_id(self) -> str:
        """Make the id of an answer."""
        return self._new_id()

    def now(self) -> str:
        """Give the time, ISO 8601 in UTC."""
        return iso_utc(self._clock())


class _Job:
    """One request on its way: the question runs as a task, its events and pieces leave in order."""

    def __init__(
        self, processor: DocumentRagProcessor, message: DocumentRagRequest, context: Context
    ) -> None:
        self._processor = processor
        self._parameters = processor.parameters
        self._message = message
        self._context = context
        self._answer_id = validate_answer_id(message.answer_id or processor.new_id())
        self._asked_at = processor.now()
        self._outbox: asyncio.Queue[Message | None] = asyncio.Queue()
        self._events: list[ExplainEvent] = []
        self._degraded: list[Degradation] = []
        self._explaining = True
        self._replied = False
        self._task: asyncio.Task[RagResult] | None = None

    async def replies(self) -> AsyncIterator[Message]:
        """Run the question and give what comes before the answer, as it comes."""
        self._task = asyncio.create_task(self._query())
        self._task.add_done_callback(lambda _: self._outbox.put_nowait(None))
        try:
            while (reply := await self._outbox.get()) is not None:
                if isinstance(reply, ExplainEvent):
                    await self._explain(reply)
                if self._message.explain or not isinstance(reply, ExplainEvent):
                    self._replied = True
                    yield reply
        finally:
            await self._stop()

    async def answer(self) -> Answer:
        """Publish the trace, then give the answer or raise the question's error."""
        assert self._task is not None
        try:
            result = self._task.result()
        except WhenceError as error:
            await self._record_failure(error)
            raise
        answer = self._with_degradations(result.answer)
        if self._message.record:
            record = self._record(answer, result.settings)
            await self._publish("trace", record, self._parameters.trace_timeout_s)
        return self._with_degradations(result.answer)

    async def _explain(self, event: ExplainEvent) -> None:
        """Publish an event; after a failure no more are tried, which bounds the wait. The trace has all."""
        if self._explaining:
            timeout_s = self._parameters.explain_timeout_s
            self._explaining = await self._publish("explain", event, timeout_s)

    async def _record_failure(self, error: WhenceError) -> None:
        """Publish the trace of a question that failed.

        Not of one that was refused, and not of one that the worker may try again: a trace is kept once per
        answer, and the answer may still come. Nothing is tried again after the first reply.
        """
        wanted = self._message.record and bool(self._events)
        if wanted and (self._replied or not error.retryable):
            await self._publish("trace", self._record(None), self._parameters.trace_timeout_s)

    async def _query(self) -> RagResult:
        message = self._message
        rag = self._processor.rag(message, self._context)
        return await rag.query(
            message.question,
            doc_limit=message.doc_limit,
            fetch_limit=message.fetch_limit or self._parameters.fetch_limit,
            streaming=message.streaming,
            chunk_callback=self._piece,
            rerank=message.rerank,
            answer_id=self._answer_id,
            deadline_s=_leaving_time_to_reply(self._context.remaining_s()),
            event_callback=self._event,
            asked_at=self._asked_at,
        )

    async def _event(self, event: ExplainEvent) -> None:
        self._events.append(event)
        self._outbox.put_nowait(event)

    async def _piece(self, text: str, end_of_stream: bool) -> None:
        self._outbox.put_nowait(AnswerPiece(text=text, end_of_stream=end_of_stream))

    async def _publish(self, port: str, message: Message, timeout_s: float) -> bool:
        """Publish for whoever listens; a failure degrades the answer and never costs it."""
        remaining_s = self._context.remaining_s()
        if remaining_s is not None:
            timeout_s = min(timeout_s, remaining_s / 2)
        try:
            async with asyncio.timeout(timeout_s):
                await self._context.emit(port, message, key=self._answer_id)
        except Exception as error:  # noqa: BLE001 - whatever it is, the answer goes out
            known = as_whence_error(error, f"publishing to {port}")
            code = "trace_not_stored" if port == "trace" else "explain_not_published"
            self._degraded.append(Degradation(stage="trace", code=code, reason=known.message))
            return False
        return True

    def _with_degradations(self, answer: Answer) -> Answer:
        if not self._degraded:
            return answer
        return msgspec.structs.replace(answer, degraded=(*answer.degraded, *self._degraded))

    def _record(
        self, answer: Answer | None, settings: Mapping[str, Scalar] | None = None
    ) -> TraceRecord:
        message = self._message
        return TraceRecord(
            answer_id=self._answer_id,
            collection=message.collection,
            question=message.question,
            access=message.access,
            events=tuple(self._events),
            answer=answer,
            settings=dict(settings or {"doc_limit": message.doc_limit, "rerank": message.rerank}),
            asked_at=self._asked_at,
        )

    async def _stop(self) -> None:
        """End the question when its replies are no longer wanted."""
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _leaving_time_to_reply(remaining_s: float | None) -> float | None:
    """Keep a fifth of the caller's patience, at most 0.5 s, for publishing the trace and the answer."""
    return None if remaining_s is None else remaining_s - min(0.5, remaining_s * 0.2)
