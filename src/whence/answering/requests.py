"""From a question on the bus to the replies to it: checks, settings and the pipeline that answers it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from whence.answering.pipeline import Retrieve, answer
from whence.answering.prompts import QuestionContext, WriterClient
from whence.answering.state import Question, RagOptions, new_question
from whence.answering.trace_recorder import Sources
from whence.operations.ask import DocumentRagRequest, check_question
from whence.provenance.stage_records import Scalar
from whence.retrieval.diversity import DEFAULT_LAMBDA, check_diversity
from whence.retrieval.many_collections import retrieval_clients
from whence.retrieval.pipeline import check_text, search_mode
from whence.retrieval.services import Timeouts, as_whence_error
from whence.schema.code_rag import CodeRagRequest
from whence.schema.codec import to_builtins
from whence.schema.document_rag import Answer, AnswerPiece, Diversity, ExplainEvent, TraceRecord
from whence.schema.errors import BadInput, WhenceError
from whence.schema.message import Message
from whence.schema.search import Degradation, SearchMode

#: Fields of a request that a record has of its own, or that do not concern the answer.
_BESIDE = frozenset(
    {"access", "question", "answer_id", "streaming", "explain", "record", "previous_answer"}
)


@dataclass(frozen=True, slots=True)
class AnswerStream:
    """Runs one question as a task and yields its replies."""

    message: DocumentRagRequest | CodeRagRequest
    context: QuestionContext
    trace_timeout_s: float
    oldest: Callable[[], dict[str, int]]
    """Returns the oldest version of each collection that searches saw."""
    replies: asyncio.Queue[Message | asyncio.Future[Answer]] = field(default_factory=asyncio.Queue)
    """Explain events and pieces as they come; the finished task is the last."""
    degraded: list[Degradation] = field(default_factory=list)
    """What could not be published."""

    async def piece(self, text: str, end_of_stream: bool) -> None:
        """Add a piece of the answer's text."""
        self.replies.put_nowait(AnswerPiece(text=text, end_of_stream=end_of_stream))

    async def run(self, question: Question, own: Retrieve | None) -> AsyncGenerator[Message, None]:
        """Run the question and yield all replies; the trace is published before the answer, which is last.

        Leaving the stream early cancels the question.
        """
        task = asyncio.ensure_future(answer(question, own))
        task.add_done_callback(self.replies.put_nowait)
        explaining, replied = True, False
        try:
            while not isinstance(reply := await self.replies.get(), asyncio.Future):
                if isinstance(reply, ExplainEvent):
                    if explaining:
                        # After a failure no more are published, which bounds the wait. The trace has all.
                        timeout_s = question.options.explain_timeout_s
                        explaining = await self._publish(
                            "explain", reply, reply.answer_id, timeout_s
                        )
                    if not self.message.explain:
                        continue
                replied = True
                yield reply
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        try:
            found = task.result()
        except WhenceError as error:
            # No trace of a question that was refused, or that may be asked again: a trace is kept once per
            # answer, and the answer may still come. After the first reply it is not tried again.
            if question.trace.events and (replied or not error.retryable):
                await self._record(question, None)
            raise
        degraded = found.degraded
        found = replace(found, degraded=(*degraded, *self.degraded))
        await self._record(question, found)
        # Publishing the trace may have failed.
        yield replace(found, degraded=(*degraded, *self.degraded))

    async def _record(self, question: Question, answer: Answer | None) -> None:
        if not self.message.record:
            return
        oldest = self.oldest()
        record = TraceRecord(
            answer_id=question.trace.answer_id,
            collection=str(question.settings.get("collection", "")),
            question=question.asked or question.text,
            access=self.message.access,
            events=tuple(question.trace.events),
            answer=answer,
            settings=question.all_settings() | {"operation": recorded(question.request)},
            asked_at=question.asked_at,
            collection_version=next(iter(oldest.values())) if len(oldest) == 1 else 0,
            collection_versions=oldest if len(oldest) > 1 else {},
        )
        await self._publish("trace", record, record.answer_id, self.trace_timeout_s)

    async def _publish(self, port: str, message: Message, key: str, timeout_s: float) -> bool:
        """Publish a message; a failure degrades the answer."""
        remaining_s = self.context.remaining_s()
        if remaining_s is not None:
            timeout_s = min(timeout_s, remaining_s / 2)
        try:
            async with asyncio.timeout(timeout_s):
                await self.context.emit(port, message, key=key)
        except Exception as error:  # noqa: BLE001 - the answer goes out in any case
            known = as_whence_error(error, f"publishing to {port}")
            code = "trace_not_stored" if port == "trace" else "explain_not_published"
            self.degraded.append(Degradation(stage="trace", code=code, reason=known.message))
            return False
        return True


def recorded(request: DocumentRagRequest | CodeRagRequest) -> str:
    """Return the JSON that repeats a question, without what stands beside it in the record."""
    fields = to_builtins(request)
    return json.dumps({name: fields[name] for name in fields.keys() - _BESIDE}, sort_keys=True)


class DocumentRagParameters(RagOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the document RAG processor."""

    drop_duplicates: bool = True
    """Whether of passages that say the same only the best ranked is kept."""
    mode: SearchMode = "dense"
    """How candidates are found when the request does not say."""
    fetch_limit: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Candidates retrieved when the request does not say; 0 for three times its `doc_limit`."""
    rerank_limit: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    """Candidates that the reranker reads when the request does not say; 0 for all that were retrieved."""
    rerank_diversity: Diversity = "none"
    """`mmr` chooses passages that say different things, by maximal marginal relevance."""
    rerank_diversity_lambda: Annotated[float, msgspec.Meta(ge=0, le=1)] = DEFAULT_LAMBDA
    """Weight of relevance against diversity; with 1 the order of relevance stays."""
    max_doc_limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 500
    """Largest `doc_limit` of a request; a larger one is refused."""
    max_fetch_limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1500
    """Largest `fetch_limit` of a request; a larger one is refused."""
    trace_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0
    """Seconds for publishing the trace."""


def answer_document_request(
    message: DocumentRagRequest,
    parameters: DocumentRagParameters,
    context: QuestionContext,
    sources: Sources,
    *,
    as_of: str = "",
) -> AsyncGenerator[Message, None]:
    """Answer a question from documents; `as_of` is the moment of a former version, empty for the present.

    Raises:
        BadInput: The question or a filter is invalid, a limit is out of range, or the answer id cannot be part
            of an IRI.
    """
    for name, value, most in (
        ("doc_limit", message.doc_limit, parameters.max_doc_limit),
        ("fetch_limit", message.fetch_limit, parameters.max_fetch_limit),
    ):
        if value > most:
            raise BadInput(f"{name} must be at most {most}, not {value}")
    check_question(
        message.question,
        message.doc_limit,
        message.fetch_limit,
        message.rerank_limit,
        max_bytes=parameters.max_question_bytes,
    )
    for earlier in message.history:
        check_text("an earlier question", earlier)
    check_text("the earlier answer", message.previous_answer)
    weight = message.diversity_lambda
    if weight is not None or message.diversity is not None:
        check_diversity(message.diversity, weight)
    mode = search_mode(message.mode or parameters.mode)
    message = replace(
        message,
        mode=mode,
        diversity=message.diversity or parameters.rerank_diversity,
        diversity_lambda=parameters.rerank_diversity_lambda if weight is None else weight,
        fetch_limit=message.fetch_limit or parameters.fetch_limit,
        rerank_limit=message.rerank_limit or parameters.rerank_limit,
    )
    settings: dict[str, Scalar] = {"collection": message.collection, "mode": mode}
    if message.filters:
        wire = msgspec.json.encode(message.filters, order="deterministic")
        settings["filters"] = wire.decode()
    if message.history:
        settings["history"] = msgspec.json.encode(message.history).decode()
    if as_of:
        settings["as_of"] = as_of
    timeout_s = parameters.trace_timeout_s
    return answer_request(
        message, parameters, context, sources, settings, timeout_s, filters=message.filters
    )


def answer_request(
    message: DocumentRagRequest | CodeRagRequest,
    parameters: RagOptions,
    context: QuestionContext,
    sources: Sources,
    settings: Mapping[str, Any],
    trace_timeout_s: float,
    *,
    filters: Mapping[str, Any] | None = None,
    own: Retrieve | None = None,
) -> AsyncGenerator[Message, None]:
    """Answer a question over the bus; `settings` names the collection and the search mode."""
    left = context.remaining_s()
    # A fifth of the caller's time, at most half a second, is kept for replying.
    seconds = None if left is None else left - min(0.5, left * 0.2)
    deadline = parameters.deadline(seconds, sources.monotonic)
    retrieval = retrieval_clients(
        context,
        collection=settings["collection"],
        access=message.access,
        mode=settings["mode"],
        filters=filters,
        deadline=deadline,
        timeouts=Timeouts(
            embedding_s=parameters.embedding_timeout_s,
            search_s=parameters.search_timeout_s,
            texts_s=parameters.texts_timeout_s,
            rerank_s=parameters.rerank_timeout_s,
            # Reranking is optional and leaves time for the answer.
            rerank_share=0.5,
        ),
        token_codes=isinstance(message, DocumentRagRequest) and message.rerank,
    )
    stream = AnswerStream(message, context, trace_timeout_s, retrieval.oldest_versions)
    question = new_question(
        message,
        parameters,
        sources,
        retrieval=retrieval,
        writer=WriterClient(context),
        deadline=deadline,
        has_reranker=context.is_bound("reranker"),
        settings=settings,
        listener=stream.replies.put_nowait,
    )
    question.on_piece = stream.piece if message.streaming else None
    return stream.run(question, own)
