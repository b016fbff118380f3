"""Spans of the requests to the gateway, with the names of OpenTelemetry's conventions for generative AI.

`gen_ai.*` names operation, models, tokens, answer and collection. Texts of questions, answers and queries are
recorded only with `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`: answers have words of documents.
The spans of the messages that a request causes are in its trace, which is the caller's (`traceparent`) if it
sent one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from whence.flow.context import CURRENT_TRACE, TraceContext, within_trace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Operation:
    """One request; without a span its methods do nothing."""

    def __init__(self, span: Span | None, *, captures: bool) -> None:
        self._span = span
        self._captures = captures

    def asked(self, text: str) -> None:
        """Record a question, if texts are recorded."""
        self._message("gen_ai.input.messages", "user", text)

    def answered(self, answer: Mapping[str, Any]) -> None:
        """Record the document of an answer."""
        if self._span is None:
            return
        facts = {
            "gen_ai.response.id": answer["answer_id"],
            "gen_ai.response.model": answer["model"],
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": answer["in_token"],
            "gen_ai.usage.output_tokens": answer["out_token"],
        }
        self.note(**facts)
        self._message("gen_ai.output.messages", "assistant", answer["answer"])

    def queried(self, text: str) -> None:
        """Record the query of a search, if texts are recorded."""
        if self._captures:
            self.note(**{"gen_ai.retrieval.query.text": text})

    def note(self, **facts: Any) -> None:
        """Record facts that are known."""
        if self._span is not None:
            known = {name: value for name, value in facts.items() if value not in (None, "")}
            self._span.set_attributes(known)

    def _message(self, name: str, role: str, text: str) -> None:
        if self._captures:
            parts = [{"type": "text", "content": text}]
            self.note(**{name: json.dumps([{"role": role, "parts": parts}], ensure_ascii=False)})


class Spans:
    """Makes the spans.

    Args:
        provider: Records them; None when none are recorded.
        environment: Whether texts are recorded.
    """

    def __init__(
        self, provider: TracerProvider | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._tracer = None if provider is None else provider.get_tracer("whence")
        self._captures = environment.get(_CAPTURE, "").lower() == "true"

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

        attributes = {"gen_ai.operation.name": name, "gen_ai.provider.name": "whence", **facts}
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
            span.set_attribute("error.type", getattr(error, "code", type(error).__name__))
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.end()
