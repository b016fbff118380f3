"""Probes, metrics, origins and spans of the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from prometheus_client import CollectorRegistry
from tests.support.gateway import SECRET, StubEngine, client_of

from whence.flow.context import CURRENT_TRACE
from whence.flow.runtime import FlowHealth
from whence.flow.telemetry.genai import Spans
from whence.flow.telemetry.metrics import FlowMetrics
from whence.operations.operation_metrics import OperationMetrics
from whence.operations.search import Search
from whence.schema.errors import ConfigError, Unavailable
from whence.surfaces.http.server import read_origin

HEAD = {"Authorization": f"Bearer {SECRET}"}
ORIGIN = "https://chat.example"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of a gateway whose flow runs elsewhere."""
    async with client_of(StubEngine(), origins=[ORIGIN]) as client:
        yield client


async def test_probes_follow_the_flow() -> None:
    """`/ready` and `/health` are 503 until the flow in this process takes messages; `/live` is not."""
    flow = FlowMetrics("all-in-one")
    async with client_of(StubEngine(), metrics=flow) as http:
        for ready, status in ((None, 503), (False, 503), (True, 200)):
            if ready is not None:
                flow.update(FlowHealth(flow="all-in-one", ready=ready, processors=()))
            found = [(await http.get(path)).status_code for path in ("/live", "/ready", "/health")]
            assert found == [200, status, status]
        assert "version" in (await http.get("/health")).json()
        shown = (await http.get("/metrics")).text
        assert 'whence_ready{flow="all-in-one"} 1.0' in shown


async def test_metrics_name_nothing(http: httpx.AsyncClient) -> None:
    """Requests are counted by handler; questions, ids, collections and tokens are in no metric."""
    await http.post("/v1/ask", json={"question": "Zebra?", "collection": "zebras"}, headers=HEAD)
    await http.get("/v1/answers/zebra-1")
    await http.get("/v1/collections/zebras/documents/zebra.md")
    await http.get("/zebra")
    found = await http.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain")
    assert 'whence_http_requests_total{handler="ask",method="POST",status="200"} 1.0' in found.text
    assert 'handler="show",method="GET",status="404"' in found.text
    assert 'whence_http_request_seconds_count{handler="ask"} 1.0' in found.text
    assert "zebra" not in found.text.lower()
    assert "desk" not in found.text


@pytest.mark.parametrize(
    ("head", "address", "status"),
    [
        ({}, "127.0.0.1", 200),
        ({}, "10.0.0.7", 401),
        ({"Host": "10.0.0.1"}, "127.0.0.1", 401),
        ({"X-Forwarded-For": "10.0.0.7"}, "127.0.0.1", 401),
        ({"Forwarded": "for=10.0.0.7"}, "127.0.0.1", 401),
        (HEAD, "10.0.0.7", 200),
        ({"Authorization": "Bearer wrong"}, "127.0.0.1", 401),
    ],
)
async def test_who_reads_metrics(head: dict[str, str], address: str, status: int) -> None:
    """This machine without a proxy, and callers with a token."""
    async with client_of(StubEngine(), peer=address) as http:
        assert (await http.get("/metrics", headers=head)).status_code == status


async def test_pages_of_allowed_origins(http: httpx.AsyncClient) -> None:
    """Exactly an allowed origin may ask and read, without credentials of the browser."""
    ask = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    ask["Access-Control-Request-Headers"] = "authorization,content-type"
    before = await http.options("/v1/chat/completions", headers=ask)
    assert before.status_code == 200
    assert before.headers["access-control-allow-origin"] == ORIGIN
    told = await http.post("/v1/ask", json={"question": "Why?"}, headers={"Origin": ORIGIN})
    assert told.headers["access-control-allow-origin"] == ORIGIN
    assert "Origin" in told.headers["vary"]
    assert "access-control-allow-credentials" not in told.headers
    for foreign in (f"{ORIGIN}.evil", "http://chat.example", "https://chat.example:444", "null"):
        for method, head in (("POST", {}), ("OPTIONS", ask)):
            refused = await http.request(method, "/v1/ask", headers={**head, "Origin": foreign})
            assert refused.status_code == 403
            assert "access-control-allow-origin" not in refused.headers
    wrong = await http.get("/v1/models", headers={"Origin": ORIGIN, "Host": "evil.example"})
    assert wrong.status_code == 421


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://chat.example", ORIGIN),
        ("https://CHAT.example:443/", ORIGIN),
        ("http://localhost:3080", "http://localhost:3080"),
        ("http://[::1]:3080", "http://[::1]:3080"),
    ],
)
def test_origins_are_as_browsers_send_them(text: str, origin: str) -> None:
    """Case, slash and the scheme's own port do not matter."""
    assert read_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    ["*", "https://*.example", "null", "chat.example", "https://a/b", "https://u@a", "ftp://a"],
)
def test_origins_that_are_not_exact(text: str) -> None:
    """A pattern, a path or another scheme is refused at start."""
    with pytest.raises(ConfigError):
        read_origin(text)


def spans_of(**environment: str) -> tuple[Spans, InMemorySpanExporter]:
    """Return spans and where they are kept."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return Spans(provider, environment), kept


@pytest.mark.parametrize("captures", [False, True])
async def test_spans_have_the_names_of_the_conventions(captures: bool) -> None:
    """Attributes are those of OpenTelemetry; texts are recorded on request only."""
    flag = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"} if captures else {}
    spans, kept = spans_of(**flag)
    trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    seen: list[Any] = []
    engine = StubEngine()
    answer = engine._ask

    async def ask(asked: Any) -> Any:
        seen.append(CURRENT_TRACE.get())
        return await answer(asked)

    engine._ask = ask  # type: ignore[method-assign]
    async with client_of(engine, spans=spans) as http:
        await http.post("/v1/ask", json={"question": "Secret?"}, headers=trace)
        await http.post("/v1/search", json={"query": "Secret"})
        await http.post("/v1/embeddings", json={"model": "tiny", "input": "Secret"})
        engine.failure = Unavailable("gone")
        await http.post("/v1/ask", json={"question": "Secret?"})
    chat, search, vectors, failed = kept.get_finished_spans()
    assert [one.name for one in (chat, search, vectors)] == [
        "chat wiki", "retrieval wiki", "embeddings tiny",
    ]  # fmt: skip
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    for one in kept.get_finished_spans():
        assert one.attributes is not None
        assert {name for name in one.attributes if name.startswith("gen_ai.")} <= known
        assert ("Secret" in str(dict(one.attributes))) is (captures and one is not vectors)
    assert chat.attributes is not None
    assert chat.attributes["gen_ai.response.id"] == "a1"
    assert chat.attributes["gen_ai.data_source.id"] == "wiki"
    assert ("Thirty days." in str(dict(chat.attributes))) is captures
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "unavailable"
    assert f"{chat.context.trace_id:032x}" == "a" * 32
    assert chat.parent is not None
    assert f"{chat.parent.span_id:016x}" == "b" * 16
    assert (seen[0].trace_id, seen[0].span_id) == ("a" * 32, f"{chat.context.span_id:016x}")


async def test_requests_without_spans_keep_the_trace_of_the_caller() -> None:
    """Without a collector the messages of a request are in the caller's trace all the same."""
    seen: list[Any] = []
    engine = StubEngine()

    async def ask(asked: Any) -> Any:
        seen.append(CURRENT_TRACE.get())
        return await StubEngine._ask(engine, asked)

    engine._ask = ask  # type: ignore[method-assign]
    async with client_of(engine) as http:
        head = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
        await http.post("/v1/ask", json={"question": "Why?"}, headers=head)
        await http.post("/v1/ask", json={"question": "Why?"})
    assert seen[0].trace_id == "a" * 32
    assert seen[1] is None


async def test_operations_are_timed_with_their_outcome() -> None:
    """The metrics have each operation by name, also one that fails, by the class of its error."""
    registry = CollectorRegistry()
    metrics = OperationMetrics(registry)

    async def succeed(_: Any) -> int:
        return 1

    async def fail(_: Any) -> int:
        raise Unavailable("the database does not answer")

    session: Any = None
    asked: Any = Search("zebra")
    assert await metrics.around(asked, succeed)(session) == 1
    with pytest.raises(Unavailable):
        await metrics.around(asked, fail)(session)

    for outcome in ("done", "Unavailable"):
        labels = {"operation": "search", "outcome": outcome}
        assert registry.get_sample_value("whence_operation_seconds_count", labels) == 1
