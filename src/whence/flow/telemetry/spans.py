"""OpenTelemetry spans: one trace over all hops of a request and all processes.

Messages always carry W3C trace headers. This module makes spans of them and sends them to the collector that
OpenTelemetry's own variables name, such as `OTEL_EXPORTER_OTLP_ENDPOINT`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from whence.flow.context import TraceContext
from whence.schema.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class FlowSpans:
    """Records a span for every message."""

    def __init__(self, flow: str, provider: TracerProvider) -> None:
        self._flow = flow
        self._tracer = provider.get_tracer("whence")

    @contextmanager
    def handling(self, processor: str, message: str, trace: TraceContext) -> Iterator[TraceContext]:
        """Record a span as a child of the message's trace context and as the parent of all work on it."""
        from opentelemetry.trace import (
            NonRecordingSpan,
            SpanContext,
            SpanKind,
            StatusCode,
            TraceFlags,
            set_span_in_context,
        )

        parent = SpanContext(
            int(trace.trace_id, 16),
            int(trace.span_id, 16),
            is_remote=True,
            trace_flags=TraceFlags(int(trace.flags, 16)),
        )
        # Names of the semantic conventions for messaging.
        facts = {
            "messaging.system": "whence",
            "messaging.operation.type": "process",
            "messaging.consumer.group.name": processor,
            "messaging.message.type": message,
            "whence.flow": self._flow,
        }
        # Not the current span: a streaming handler continues in other contexts than it started in.
        span = self._tracer.start_span(
            f"process {processor}",
            context=set_span_in_context(NonRecordingSpan(parent)),
            kind=SpanKind.CONSUMER,
            attributes=facts,
        )
        own = span.get_span_context()
        try:
            yield msgspec.structs.replace(
                trace, span_id=f"{own.span_id:016x}", flags=f"{own.trace_flags:02x}"
            )
        except Exception as error:
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            span.end()


def provider_from_environment(environment: Mapping[str, str] = os.environ) -> TracerProvider | None:
    """Return a provider configured by OpenTelemetry's variables; None when no endpoint is set."""
    if not any(environment.get(name) for name in _ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            "an endpoint for traces is set, and OpenTelemetry is not installed",
            hint="pip install 'whence[otel]', or unset OTEL_EXPORTER_OTLP_ENDPOINT",
        ) from error
    name = environment.get("OTEL_SERVICE_NAME", "whence")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
