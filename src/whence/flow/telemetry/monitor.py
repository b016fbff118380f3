"""Metrics, probes and spans of a running flow, opened and closed together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from whence.flow.context import Observer, TraceContext
from whence.flow.telemetry.genai import Operation, captures_texts, error_type
from whence.schema.errors import missing_extra
from whence.schema.message import Message

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from whence.flow.runtime import FlowRuntime
    from whence.flow.telemetry.metrics import FlowMetrics, MetricsServer

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class FlowSpans:
    """Records a span for every message.

    Args:
        flow: Name of the flow.
        provider: Records them.
        captures: Whether texts are recorded.
    """

    def __init__(self, flow: str, provider: TracerProvider, *, captures: bool = False) -> None:
        self._flow = flow
        self._tracer = provider.get_tracer("whence")
        self._captures = captures

    @contextmanager
    def handling(
        self, processor: str, message: str, trace: TraceContext, exchange: Sequence[Message] = ()
    ) -> Iterator[TraceContext]:
        """Record a span as a child of the message's trace context and as the parent of all work on it."""
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = f"00-{trace.trace_id}-{trace.span_id}-{trace.flags}"
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
            context=TraceContextTextMapPropagator().extract({"traceparent": parent}),
            kind=SpanKind.CONSUMER,
            attributes=facts,
        )
        own = span.get_span_context()
        try:
            yield msgspec.structs.replace(
                trace, span_id=f"{own.span_id:016x}", flags=f"{own.trace_flags:02x}"
            )
        except Exception as error:
            span.set_attribute("error.type", error_type(error))
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            if exchange and span.is_recording():
                operation = Operation(span, captures=self._captures)
                operation.handled(exchange[0], exchange[1] if len(exchange) > 1 else None)
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
        raise missing_extra("otel", "sending spans to OTEL_EXPORTER_OTLP_ENDPOINT") from error
    name = environment.get("OTEL_SERVICE_NAME", "whence")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def observe_with(observers: Sequence[Observer]) -> Observer | None:
    """Return several observers as one, the outermost first; None when there are none."""

    @contextmanager
    def observe(
        processor: str, message: str, trace: TraceContext, exchange: list[Message]
    ) -> Iterator[TraceContext]:
        with ExitStack() as stack:
            for observer in observers:
                trace = stack.enter_context(observer(processor, message, trace, exchange))
            yield trace

    return observe if observers else None


#: Seconds between two health checks. Prometheus scrapes every 15 to 60 s.
_INTERVAL_S = 5.0


@dataclass
class FlowMonitor:
    """The telemetry of one flow."""

    observer: Observer | None
    """Observes the messages; None when no telemetry is requested."""
    metrics: FlowMetrics | None = None
    endpoint: MetricsServer | None = None
    provider: TracerProvider | None = None
    """Records spans; None when no endpoint for them is set."""

    @asynccontextmanager
    async def watch(self, runtime: FlowRuntime) -> AsyncIterator[None]:
        """Check the health of a flow periodically within the block."""
        if self.metrics is None:
            yield
            return
        self.metrics.update(await runtime.health())
        checks = _check_periodically(runtime, self.metrics, self.endpoint)
        task = asyncio.create_task(checks, name="whence-health")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _check_periodically(
    runtime: FlowRuntime, metrics: FlowMetrics, endpoint: MetricsServer | None
) -> None:
    pause_s = 0.1
    while True:
        if endpoint is not None:
            endpoint.heartbeat()
        metrics.update(await runtime.health())
        await asyncio.sleep(pause_s)
        # Frequent at first, so that a probe sees soon that the flow is ready.
        pause_s = min(pause_s * 1.5, _INTERVAL_S)


@contextmanager
def start_telemetry(
    flow: str, metrics_address: str = "", *, counts: bool = False
) -> Iterator[FlowMonitor]:
    """Open the telemetry that the settings request, for the block.

    Args:
        flow: Name of the flow.
        metrics_address: Where its metrics are served; nowhere when empty.
        counts: Whether there are metrics without an address.
    """
    provider = provider_from_environment()
    observers: list[Observer] = []
    with ExitStack() as stack:
        if provider is not None:
            stack.callback(provider.shutdown)
            observers.append(FlowSpans(flow, provider, captures=captures_texts()).handling)
        if not metrics_address and not counts:
            yield FlowMonitor(observe_with(observers), provider=provider)
            return
        from whence.flow.telemetry.metrics import FlowMetrics, MetricsServer, read_address

        metrics = FlowMetrics(flow)
        observers.append(metrics.handling)
        endpoint: MetricsServer | None = None
        if metrics_address:
            endpoint = stack.enter_context(MetricsServer(metrics, *read_address(metrics_address)))
        yield FlowMonitor(observe_with(observers), metrics, endpoint, provider)
