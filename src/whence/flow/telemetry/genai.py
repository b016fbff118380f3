"""Attributes of OpenTelemetry's conventions for generative AI, on spans of requests and of messages.

`gen_ai.*` names operation, models, tokens, answer and collection. Texts of questions, answers and queries are
recorded only with `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`: answers have words of documents.
The spans of the messages that a request causes are in its trace, which is the caller's (`traceparent`) if it
sent one. Its tokens are the sum of those of its messages to writers. Add up one kind, not both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from whence.flow.context import CURRENT_TRACE, TraceContext, within_trace
from whence.operations.ask import DocumentRagRequest
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import Answer
from whence.schema.embedding import EmbeddingModel, EmbeddingRequest, EmbeddingResponse
from whence.schema.message import Message
from whence.schema.prompt import PromptRequest, PromptResponse
from whence.schema.search import SearchRequest

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_PROVIDER: Final = {"gen_ai.provider.name": "whence"}


def captures_texts(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether spans have texts."""
    return environment.get(_CAPTURE, "").lower() == "true"


def error_type(error: Exception) -> str:
    """Return the name of an error's kind."""
    return str(getattr(error, "code", type(error).__name__))


class Operation:
    """One request or message; without a span its methods do nothing."""

    def __init__(self, span: Span | None, *, captures: bool) -> None:
        self._span = span
        self._captures = captures

    def asked(self, text: str) -> None:
        """Record a question, if texts are recorded."""
        self._message("gen_ai.input.messages", "user", text)

    def answered(
        self,
        text: str | None,
        model: str | None,
        read: int | None,
        written: int | None,
        answer_id: str = "",
    ) -> None:
        """Record an answer, its model and the tokens that it read and wrote."""
        self.note(
            **{
                "gen_ai.response.id": answer_id,
                "gen_ai.response.model": model,
                "gen_ai.response.finish_reasons": ("stop",),
                "gen_ai.usage.input_tokens": read,
                "gen_ai.usage.output_tokens": written,
            }
        )
        self._message("gen_ai.output.messages", "assistant", text or "")

    def queried(self, text: str) -> None:
        """Record the query of a search, if texts are recorded."""
        if self._captures:
            self.note(**{"gen_ai.retrieval.query.text": text})

    def handled(self, request: Message, reply: Message | None) -> None:
        """Record what a message asked for and what came of it; nothing of messages without such an operation.

        Args:
            request: The message.
            reply: Its last reply; None when there is none.
        """
        match request:
            case DocumentRagRequest() | CodeRagRequest():
                source = getattr(request, "collection", "") or getattr(request, "snapshot", "")
                self._begin("invoke_workflow", source)
                self.note(**{"gen_ai.workflow.name": request.TYPE.partition("-request")[0]})
                self.asked(request.question)
            case PromptRequest():
                self._begin("chat")
                self.asked(str(request.variables.get("query", "")))
            case SearchRequest():
                self._begin("retrieval", request.collection)
                self.queried(request.query_text)
            case EmbeddingRequest():
                self._begin("embeddings")
        match reply:
            case Answer():
                self.answered(reply.text, reply.model, None, None, reply.answer_id)
            case PromptResponse(result=result) if result is not None:
                self.answered(result.text, result.model, result.in_token, result.out_token)
            case EmbeddingResponse():
                self.embedded(reply.model)

    def embedded(self, model: EmbeddingModel) -> None:
        """Record the model of vectors."""
        self.note(
            **{
                "gen_ai.request.model": model.name,
                "gen_ai.embeddings.dimension.count": model.dimension,
            }
        )

    def note(self, **facts: Any) -> None:
        """Record facts that are known."""
        if self._span is not None:
            known = {name: value for name, value in facts.items() if value not in (None, "")}
            self._span.set_attributes(known)

    def _begin(self, name: str, source: str = "") -> None:
        self.note(**{"gen_ai.operation.name": name, "gen_ai.data_source.id": source, **_PROVIDER})

    def _message(self, name: str, role: str, text: str) -> None:
        if self._captures and text:
            parts = [{"type": "text", "content": text}]
            self.note(**{name: json.dumps([{"role": role, "parts": parts}], ensure_ascii=False)})


class Spans:
    """Makes the spans of requests to a gateway.

    Args:
        provider: Records them; None when none are recorded.
        environment: Whether texts are recorded.
    """

    def __init__(
        self, provider: TracerProvider | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._tracer = None if provider is None else provider.get_tracer("whence")
        self._captures = captures_texts(environment)

    @contextmanager
    def operation(self, name: str, subject: str, **facts: Any) -> Iterator[Operation]:
        """Record a request; the messages that it causes are in its trace.

        Args:
            name: Operation in the conventions: `chat`, `retrieval` or `embeddings`.
            subject: Collection or model.
            facts: Further attributes.
        """
        if self._tracer is None:
            yield Operation(None, captures=False)
            return
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        attributes = {"gen_ai.operation.name": name, **_PROVIDER, **facts}
        came = CURRENT_TRACE.get()
        parent = {} if came is None else came.headers_of("")
        span = self._tracer.start_span(
            f"{name} {subject}",
            context=TraceContextTextMapPropagator().extract(parent),
            kind=SpanKind.SERVER,
            attributes=attributes,
        )
        own = span.get_span_context()
        trace = TraceContext(
            f"{own.trace_id:032x}", f"{own.span_id:016x}", f"{own.trace_flags:02x}"
        )
        try:
            with within_trace(trace):
                yield Operation(span, captures=self._captures)
        except Exception as error:
            span.set_attribute("error.type", error_type(error))
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.end()
