"""The replies to one question, in order: pieces and explain events as they come, the trace, then the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import msgspec

from whence.answering.pipeline import RagResult
from whence.answering.state import Question
from whence.retrieval.services import as_whence_error
from whence.schema.document_rag import Answer, AnswerPiece, ExplainEvent, TraceRecord
from whence.schema.errors import WhenceError
from whence.schema.message import Message
from whence.schema.search import Degradation


class Publisher(Protocol):
    """Publishes messages by port, for the time of one question: a `Context` of a processor."""

    def remaining_s(self) -> float | None:
        """Return the seconds until the caller gives up; None when there is no deadline."""
        ...

    def emit(self, port: str, message: Message, *, key: str | None = None) -> Awaitable[None]:
        """Publish a message; return when it is stored."""
        ...


def question_time_s(publisher: Publisher) -> float | None:
    """Return the seconds for a question; a fifth of the caller's time, at most 0.5 s, is kept for replying."""
    left = publisher.remaining_s()
    return None if left is None else left - min(0.5, left * 0.2)


class AnswerStream:
    """Runs one question as a task and yields its replies.

    Args:
        publisher: Publishes explain events to the port `explain` and the trace to the port `trace`.
        trace_timeout_s: Seconds for publishing the trace.
    """

    def __init__(self, publisher: Publisher, *, trace_timeout_s: float) -> None:
        self._publisher = publisher
        self._trace_timeout_s = trace_timeout_s
        self._replies: asyncio.Queue[Message | None] = asyncio.Queue()
        self._degraded: list[Degradation] = []
        self._explaining = True
        self._replied = False

    def event(self, event: ExplainEvent) -> None:
        """Add the event of a stage."""
        self._replies.put_nowait(event)

    async def piece(self, text: str, end_of_stream: bool) -> None:
        """Add a piece of the answer's text."""
        self._replies.put_nowait(AnswerPiece(text=text, end_of_stream=end_of_stream))

    async def run(
        self, question: Question, answering: Callable[[Question], Awaitable[RagResult]]
    ) -> AsyncGenerator[Message, None]:
        """Run the question and yield all replies; the trace is published before the answer, which is last.

        Leaving the stream early cancels the question.

        Raises:
            WhenceError: The question failed.
        """
        task = asyncio.ensure_future(answering(question))
        task.add_done_callback(lambda _: self._replies.put_nowait(None))
        try:
            while (reply := await self._replies.get()) is not None:
                if isinstance(reply, ExplainEvent):
                    await self._explain(question, reply)
                    if not question.message.explain:
                        continue
                self._replied = True
                yield reply
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        yield await self._answer(question, task)

    async def _answer(self, question: Question, task: asyncio.Future[RagResult]) -> Answer:
        """Publish the trace, then return the answer or raise the question's error.

        The trace of a failed question is published, unless the request was refused, or may be tried again: a
        trace is kept once per answer, and the answer may still come. After the first reply it is not tried
        again.
        """
        try:
            answer = task.result().answer
        except WhenceError as error:
            if question.trace.events and (self._replied or not error.retryable):
                await self._record(question, None)
            raise
        await self._record(question, self._with_degradations(answer))
        return self._with_degradations(answer)

    async def _explain(self, question: Question, event: ExplainEvent) -> None:
        """Publish an event; after a failure no more are published, which bounds the wait. The trace has all."""
        if self._explaining:
            timeout_s = question.options.explain_timeout_s
            self._explaining = await self._publish("explain", event, event.answer_id, timeout_s)

    async def _record(self, question: Question, answer: Answer | None) -> None:
        message = question.message
        if not message.record:
            return
        record = TraceRecord(
            answer_id=question.trace.answer_id,
            collection=str(question.settings.get("collection", "")),
            question=message.question,
            access=message.access,
            events=tuple(question.trace.events),
            answer=answer,
            settings=question.all_settings(),
            asked_at=question.asked_at,
        )
        await self._publish("trace", record, record.answer_id, self._trace_timeout_s)

    async def _publish(self, port: str, message: Message, key: str, timeout_s: float) -> bool:
        """Publish a message; a failure degrades the answer."""
        remaining_s = self._publisher.remaining_s()
        if remaining_s is not None:
            timeout_s = min(timeout_s, remaining_s / 2)
        try:
            async with asyncio.timeout(timeout_s):
                await self._publisher.emit(port, message, key=key)
        except Exception as error:  # noqa: BLE001 - the answer goes out in any case
            known = as_whence_error(error, f"publishing to {port}")
            code = "trace_not_stored" if port == "trace" else "explain_not_published"
            self._degraded.append(Degradation(stage="trace", code=code, reason=known.message))
            return False
        return True

    def _with_degradations(self, answer: Answer) -> Answer:
        if not self._degraded:
            return answer
        return msgspec.structs.replace(answer, degraded=(*answer.degraded, *self._degraded))
