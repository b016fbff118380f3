"""One request on its way through a processor: events and pieces leave in order, the trace, then the answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from whence.answering.deadline import as_whence_error
from whence.answering.pipeline import RagResult
from whence.processors.base import Context
from whence.provenance.terms import Scalar
from whence.provenance.uris import validate_answer_id
from whence.schema.access import Access
from whence.schema.document_rag import Answer, AnswerPiece, ExplainEvent, TraceRecord
from whence.schema.errors import WhenceError
from whence.schema.message import Message
from whence.schema.search import Degradation

__all__ = ("Asked", "QuestionJob")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What of a request its trace and its replies depend on."""

    answer_id: str
    """Id of the answer."""
    question: str
    """As asked."""
    collection: str
    """Collection that is asked."""
    access: Access
    """Rights of the reader."""
    asked_at: str
    """ISO 8601 in UTC."""
    explain: bool = True
    """False leaves explain events out of the replies."""
    record: bool = True
    """False keeps no trace."""
    settings: Mapping[str, Scalar] = {}
    """What the trace of a question that failed tells of its settings."""


class QuestionJob:
    """One request: the question runs as a task, its events and pieces leave in order.

    Args:
        asked: The request.
        context: Where events and the trace go.
        run: Works on the question; gives its events to `event` and pieces of text to `piece`.
        explain_timeout_s: Seconds for publishing one explain event.
        trace_timeout_s: Seconds for publishing the trace.

    Raises:
        BadInput: The id of the answer is not fit for an IRI.
    """

    def __init__(
        self,
        asked: Asked,
        context: Context,
        run: Callable[[QuestionJob], Coroutine[Any, Any, RagResult]],
        *,
        explain_timeout_s: float,
        trace_timeout_s: float,
    ) -> None:
        validate_answer_id(asked.answer_id)
        self.asked = asked
        self._context = context
        self._run = run
        self._explain_timeout_s = explain_timeout_s
        self._trace_timeout_s = trace_timeout_s
        self._outbox: deque[Message] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._events: list[ExplainEvent] = []
        self._degraded: list[Degradation] = []
        self._explaining = True
        self._replied = False
        self._task: asyncio.Task[RagResult] | None = None

    @property
    def deadline_s(self) -> float | None:
        """Seconds for the question; a fifth of the caller's patience, at most 0.5 s, is kept for replying."""
        left = self._context.remaining_s()
        return None if left is None else left - min(0.5, left * 0.2)

    def event(self, event: ExplainEvent) -> None:
        """Take the account of a stage."""
        self._events.append(event)
        self._put(event)

    async def piece(self, text: str, end_of_stream: bool) -> None:
        """Take a piece of the answer's text."""
        self._put(AnswerPiece(text=text, end_of_stream=end_of_stream))

    def _put(self, reply: Message) -> None:
        self._outbox.append(reply)
        self._wake()

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _take(self) -> Message | None:
        """Give the next reply; None when the question is done and there are no more."""
        assert self._task is not None
        while not self._outbox:
            if self._task.done():
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._outbox.popleft()

    async def replies(self) -> AsyncIterator[Message]:
        """Run the question and give all replies as they come, the answer last.

        The trace is published before the answer.

        Raises:
            WhenceError: The question failed.
        """
        self._task = asyncio.create_task(self._run(self))
        self._task.add_done_callback(self._wake)
        try:
            while (reply := await self._take()) is not None:
                if isinstance(reply, ExplainEvent):
                    await self._explain(reply)
                if self.asked.explain or not isinstance(reply, ExplainEvent):
                    self._replied = True
                    yield reply
        finally:
            await self._stop()
        yield await self._answer()

    async def _answer(self) -> Answer:
        """Publish the trace, then give the answer or raise the question's error."""
        assert self._task is not None
        try:
            result = self._task.result()
        except WhenceError as error:
            await self._record_failure(error)
            raise
        answer = self._with_degradations(result.answer)
        if self.asked.record:
            record = self._record(answer, result.settings)
            await self._publish("trace", record, self._trace_timeout_s)
        return self._with_degradations(result.answer)

    async def _explain(self, event: ExplainEvent) -> None:
        """Publish an event; after a failure no more are tried, which bounds the wait. The trace has all."""
        if self._explaining:
            self._explaining = await self._publish("explain", event, self._explain_timeout_s)

    async def _record_failure(self, error: WhenceError) -> None:
        """Publish the trace of a question that failed.

        Not of one that was refused, and not of one that the worker may try again: a trace is kept once per
        answer, and the answer may still come. Nothing is tried again after the first reply.
        """
        wanted = self.asked.record and bool(self._events)
        if wanted and (self._replied or not error.retryable):
            await self._publish("trace", self._record(None), self._trace_timeout_s)

    async def _publish(self, port: str, message: Message, timeout_s: float) -> bool:
        """Publish for whoever listens; a failure degrades the answer and never costs it."""
        remaining_s = self._context.remaining_s()
        if remaining_s is not None:
            timeout_s = min(timeout_s, remaining_s / 2)
        try:
            async with asyncio.timeout(timeout_s):
                await self._context.emit(port, message, key=self.asked.answer_id)
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
        asked = self.asked
        return TraceRecord(
            answer_id=asked.answer_id,
            collection=asked.collection,
            question=asked.question,
            access=asked.access,
            events=tuple(self._events),
            answer=answer,
            settings=dict(settings or asked.settings),
            asked_at=asked.asked_at,
        )

    async def _stop(self) -> None:
        """End the question when its replies are no longer wanted."""
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
