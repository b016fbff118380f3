"""Telemetry of a running flow: metrics, probes and spans."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from whence.flow.context import TraceContext
from whence.flow.runtime import FlowHealth, ProcessorHealth
from whence.flow.supervisor import State
from whence.flow.telemetry.metrics import METRICS, FlowMetrics, MetricsServer, read_address
from whence.flow.telemetry.monitor import FlowSpans, observe_with, provider_from_environment
from whence.schema.errors import ConfigError, Unavailable
from whence.schema.prompt import PromptRequest, PromptResponse, PromptResult

PLACE = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")


def health(**fields: Any) -> FlowHealth:
    """Return the health of a flow of one processor."""
    processor = ProcessorHealth(
        **{
            "name": "search",
            "type": "search",
            "state": State.RUNNING,
            "replicas": 2,
            "running": 2,
            "restarts": 1,
            "in_flight": 3,
            "handled": 41,
            "failed": 4,
            "backlog": 7,
            "received": 48,
            **fields,
        }
    )
    return FlowHealth(flow="qa", ready=True, processors=(processor,))


def get(port: int, path: str, **headers: str) -> tuple[int, str]:
    """Request a path of the endpoint; return status and body."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Read Prometheus' text form: value by name and label values."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_report_health() -> None:
    """Counters and gauges have the numbers of health, labelled by flow and processor."""
    metrics = FlowMetrics("qa")
    metrics.update(health())
    with MetricsServer(metrics, "127.0.0.1", 0) as endpoint:
        status, text = get(endpoint.port, "/metrics")
    found = samples(text)

    assert status == 200
    assert found["whence_messages_handled_total", "qa", "search"] == 41
    assert found["whence_messages_in_flight", "qa", "search"] == 3
    assert found["whence_backlog_messages", "qa", "search"] == 7
    assert found["whence_processor_state", "qa", "search", "running"] == 1
    assert found["whence_processor_state", "qa", "search", "unhealthy"] == 0
    assert found["whence_ready", "qa"] == 1


def test_tokens_and_their_cost_are_counted() -> None:
    """By model; a result without numbers counts nothing, and one without a price costs nothing."""
    metrics = FlowMetrics("qa")
    known = PromptResult(text="x", model="m", in_token=30, out_token=4, cost=0.5, currency="EUR")
    for result in (known, known, PromptResult(text="x", model="n", in_token=7), PromptResult()):
        asked = PromptRequest(template_id="document-prompt")
        with metrics.handling("prompt", "id", PLACE, [asked, PromptResponse(result=result)]):
            pass
    with MetricsServer(metrics, "127.0.0.1", 0) as endpoint:
        found = samples(get(endpoint.port, "/metrics")[1])

    tokens = {
        key[1:]: value for key, value in found.items() if key[0] == "whence_writer_tokens_total"
    }
    assert sorted(tokens.values()) == [7, 8, 60]
    costs = [value for key, value in found.items() if key[0] == "whence_writer_cost_total"]
    assert costs == [1.0]


def test_a_local_endpoint_answers_local_requests_only() -> None:
    """A page whose name points to this machine reads nothing."""
    with MetricsServer(FlowMetrics("qa"), "127.0.0.1", 0) as endpoint:
        statuses = {
            host: get(endpoint.port, "/metrics", Host=host)[0]
            for host in (
                "localhost:1",
                "127.0.0.1",
                "[::1]:9",
                "evil.example",
                "127.0.0.1.evil",
                "[::",
            )
        }
    with MetricsServer(FlowMetrics("qa"), "0.0.0.0", 0) as endpoint:
        assert get(endpoint.port, "/metrics", Host="whence.internal")[0] == 200

    assert list(statuses.values()) == [200, 200, 200, 421, 421, 421]


def test_every_metric_is_described() -> None:
    """The exported metrics are exactly the documented ones."""
    ticks = iter((0.0, 0.02))
    metrics = FlowMetrics("qa", monotonic=lambda: next(ticks))
    metrics.update(health())
    paid = PromptResponse(result=PromptResult(model="m", in_token=1, out_token=1, cost=1.0))
    exchange = [PromptRequest(template_id="document-prompt"), paid]
    with metrics.handling("prompt", "prompt-request.v1", PLACE, exchange):
        pass
    families = {
        sample.name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
        for family in metrics.registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }

    assert families == set(METRICS)
    assert all(METRICS.values())


def test_an_unknown_backlog_is_not_zero() -> None:
    """A number that the broker does not report is left out."""
    metrics = FlowMetrics("qa")
    metrics.update(health(backlog=-1, oldest_age_s=-1.0))
    names = {s.name for family in metrics.registry.collect() for s in family.samples}

    assert "whence_backlog_messages" not in names
    assert "whence_oldest_message_age_seconds" not in names


def test_durations_are_counted_by_outcome() -> None:
    """A message that fails is timed under the class of its error, and the error is raised."""
    ticks = iter((0.0, 0.02, 1.0, 4.0))
    metrics = FlowMetrics("qa", monotonic=lambda: next(ticks))
    with metrics.handling("search", "m", PLACE) as place:
        assert place == PLACE
    with pytest.raises(Unavailable), metrics.handling("search", "m", PLACE):
        raise Unavailable("no")
    found = {
        (s.name, *s.labels.values()): s.value
        for family in metrics.registry.collect()
        for s in family.samples
    }

    assert found["whence_handle_seconds_sum", "qa", "search", "done"] == pytest.approx(0.02)
    assert found["whence_handle_seconds_sum", "qa", "search", "Unavailable"] == pytest.approx(3.0)


def test_probes() -> None:
    """Ready once health says so; live while the event loop turns; other paths are not found."""
    seconds = [0.0]
    metrics = FlowMetrics("qa")
    with MetricsServer(metrics, "127.0.0.1", 0, monotonic=lambda: seconds[0]) as endpoint:
        before = get(endpoint.port, "/ready")[0]
        metrics.update(health())
        after = get(endpoint.port, "/ready")[0]
        live = get(endpoint.port, "/live")[0]
        seconds[0] = 31.0
        hung = get(endpoint.port, "/live")[0]
        endpoint.heartbeat()
        again = get(endpoint.port, "/live")[0]
        nothing = get(endpoint.port, "/secrets")[0]

    assert (before, after, live, hung, again, nothing) == (503, 200, 200, 503, 200, 404)


def test_a_taken_port_is_an_error() -> None:
    """A port in use is an error with the address and a remedy."""
    metrics = FlowMetrics("qa")
    with (
        MetricsServer(metrics, "127.0.0.1", 0) as first,
        pytest.raises(Unavailable, match=str(first.port)) as caught,
    ):
        MetricsServer(FlowMetrics("other"), "127.0.0.1", first.port)

    assert "--metrics" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:80", ("::1", 80)),
        ("nine", None),
        ("host:", None),
        ("host:70000", None),
        ("", None),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    """A port, or a host and a port; anything else is refused."""
    if address is not None:
        assert read_address(text) == address
        return
    with pytest.raises(ConfigError):
        read_address(text)


def test_spans_make_one_trace_over_hops() -> None:
    """The span of each hop has the caller's span as parent."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = FlowSpans("qa", provider)
    with spans.handling("document-rag", "q.v1", PLACE) as outer:
        with spans.handling("search", "s.v1", outer) as inner:
            assert inner.trace_id == outer.trace_id == PLACE.trace_id
        with pytest.raises(Unavailable), spans.handling("prompt", "p.v1", outer):
            raise Unavailable("no")
    search, prompt, rag = exporter.get_finished_spans()

    assert [s.name for s in (rag, search, prompt)] == [
        "process document-rag",
        "process search",
        "process prompt",
    ]
    assert f"{rag.parent.span_id:016x}" == PLACE.span_id
    assert search.parent.span_id == prompt.parent.span_id == rag.context.span_id
    assert {f"{s.context.trace_id:032x}" for s in (rag, search, prompt)} == {PLACE.trace_id}
    assert (prompt.status.is_ok, prompt.status.description) == (False, "Unavailable")
    assert rag.status.is_ok


def test_observers_nest_their_spans() -> None:
    """With several observers of one message, the work belongs to the innermost span."""
    provider = TracerProvider()
    both = observe_with([FlowSpans("qa", provider).handling, FlowMetrics("qa").handling])
    assert both is not None
    with both("search", "s.v1", PLACE, []) as place:
        assert place.trace_id == PLACE.trace_id
        assert place.span_id != PLACE.span_id
    assert observe_with([]) is None


def test_spans_are_sent_only_when_configured() -> None:
    """Without an endpoint in the environment nothing is loaded and nothing is sent."""
    assert provider_from_environment({}) is None
    provider = provider_from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert provider is not None
    provider.shutdown()


def test_the_dashboard_shows_metrics_that_exist() -> None:
    """The shipped dashboard and alerts use only existing metrics."""
    root = Path(__file__).resolve().parents[2] / "deploy"
    text = "".join(
        path.read_text()
        for path in sorted((root / "dashboards").rglob("*.json"))
        + sorted(root.rglob("*alerts.yaml"))
    )
    import re

    asked = set(re.findall(r"\bwhence_[a-z_]+", text))
    told = set(METRICS) | {f"whence_handle_seconds_{part}" for part in ("bucket", "count", "sum")}

    assert asked
    assert asked <= told
