"""Who is there, by which clock, with which types: what a fleet's members find out about each other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from email.utils import formatdate
from functools import partial
from typing import Any

import httpx
import msgspec
import pytest
from tests.support.clock import ManualClock

import whence.flow.client
from whence.broker.clock import ShiftedClock, clock_of
from whence.broker.control import ping_workers
from whence.broker.memory.transport import MemoryBroker, MemoryTransport
from whence.broker.pulsar import admin as pulsar_admin
from whence.broker.pulsar.options import PulsarOptions
from whence.broker.transport import Headers, Transport
from whence.flow.client import FlowClient
from whence.flow.definition import register_types, topic_types
from whence.flow.loader import load_flow, shipped_flows
from whence.flow.resources import Resources
from whence.flow.runtime import run_flow
from whence.flow.settings import Settings
from whence.flow.status import flow_status, topics_of
from whence.operations.ask import DocumentRagRequest
from whence.schema.access import Access
from whence.schema.document_rag import Answer, ExplainEvent, TraceRecord
from whence.schema.embedding import EmbeddingRequest, EmbeddingResponse
from whence.schema.errors import Unavailable, WhenceError
from whence.schema.ingest import ChunkDraft, DocumentDraft, IngestRequest
from whence.schema.liveness import PING
from whence.schema.message import Message
from whence.schema.texts import TextRequest
from whence.schema.topics import cancel_topic
from whence.store.memory.store import MemoryStore
from whence.surfaces.cli.main import run_command
from whence.testing.stub_models import EchoWriter, HashEmbedder, OverlapReranker

FLOW = load_flow("all-in-one")
EMBEDDING = FLOW.interface("embedding").request


@asynccontextmanager
async def members(*parts: tuple[str, ...], delay_s: float = 0.0) -> AsyncIterator[MemoryTransport]:
    """Run parts of the flow with a transport each; yield one more transport."""
    broker = MemoryBroker()
    objects = {
        "store": MemoryStore(),
        "embedder": HashEmbedder(delay_s=delay_s),
        "reranker": OverlapReranker(),
        "writer": EchoWriter(),
    }
    async with AsyncExitStack() as stack:
        resources = await stack.enter_async_context(Resources(Settings({}), objects))
        for only in parts:
            transport = MemoryTransport(broker=broker)
            stack.push_async_callback(transport.aclose)
            await stack.enter_async_context(run_flow(FLOW, transport, resources, only=only))
        mine = MemoryTransport(broker=broker)
        stack.push_async_callback(mine.aclose)
        yield mine


async def test_each_worker_reports_itself() -> None:
    """Each worker reports its name, topic, process and counts; a topic without workers does not answer."""
    async with members(("embedding", "search"), ("embedding",)) as transport:
        client = FlowClient(FLOW, transport)
        await client.call("embedding", EmbeddingRequest(texts=("a",)), EmbeddingResponse)
        reports = await ping_workers(transport, [EMBEDDING], enough=2)
        absent = await ping_workers(transport, [FLOW.interface("ingest").request], wait_s=0.05)

    assert [(one.name, one.topic, one.group) for one in reports] == [
        ("embedding", EMBEDDING, "embedding")
    ] * 2
    assert len({one.instance for one in reports}) == 2
    assert sorted(one.handled for one in reports) == [0, 1]
    assert all(one.pid and one.host and one.version and one.concurrency == 2 for one in reports)
    assert absent == []


async def test_a_ping_cancels_nothing() -> None:
    """A ping, even one without a reply topic, does not affect the workers."""
    async with members(("embedding",), delay_s=0.05) as transport:
        client = FlowClient(FLOW, transport)
        asking = asyncio.create_task(
            client.call("embedding", EmbeddingRequest(texts=("a",)), EmbeddingResponse)
        )
        await asyncio.sleep(0.01)
        await transport.publish(cancel_topic(EMBEDDING), b"", headers={Headers.TYPE: PING})
        reports = await ping_workers(transport, [EMBEDDING], enough=1)

        assert (await asking).model.name == "stub-hash"
    assert reports[0].in_flight == 1


async def test_status_of_a_flow() -> None:
    """Status names every processor in order, with its workers, backlog and dead letters."""
    async with members(("search",)) as transport:
        waiting = await transport.subscribe(EMBEDDING, "embedding")
        await waiting.aclose()
        await transport.publish(EMBEDDING, b"{}")
        status = await flow_status(FLOW, transport, wait_s=0.2)
    by_group = {one.group: one for one in status.topics}

    assert list(by_group) == [processor.name for processor in FLOW.processors]
    assert (by_group["embedding"].backlog, by_group["embedding"].workers) == (1, 0)
    assert (by_group["search"].backlog, by_group["search"].workers) == (0, 1)
    assert all(one.dead_letters == 0 for one in status.topics)
    assert status.notes == ()


async def test_an_absent_worker_is_an_error_and_a_slow_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client waits for a slow processor, and fails early when no worker is alive."""
    monkeypatch.setattr(whence.flow.client, "_PINGS", 1)
    request = EmbeddingRequest(texts=("a",))
    async with members(("embedding",), delay_s=0.3) as transport:
        client = FlowClient(FLOW, transport, absent_after_s=0.02)
        reply = await client.call("embedding", request, EmbeddingResponse)
    async with members() as transport:
        client = FlowClient(FLOW, transport, absent_after_s=0.02)
        with pytest.raises(Unavailable, match=r"no worker serves embedding\.request"):
            await client.call("embedding", request, EmbeddingResponse, timeout_s=600)

    assert reply.model.name == "stub-hash"


async def test_a_watched_client_returns_replies_unchanged() -> None:
    """Replies, errors and streams of a watched flow are unchanged; ids are made by the client."""
    everything = tuple(processor.name for processor in FLOW.processors)
    document = DocumentDraft(document_id="d", chunks=(ChunkDraft(content="Who keeps the key?"),))
    request = DocumentRagRequest(access=Access.public(), question="Who keeps the key?")
    async with members(everything) as transport:
        client = FlowClient(FLOW, transport, absent_after_s=30.0, new_id=lambda: "mine")
        wrong = TextRequest(access=Access.public(), collection="", chunk_ids=("a", "a"))
        with pytest.raises(WhenceError):
            await client.call("text-fetcher", wrong, EmbeddingResponse)
        await client.ingest(IngestRequest(collection="default", documents=(document,)))
        parts = [part async for part in client.ask(request)]
        given = msgspec.structs.replace(request, answer_id="given")
        others = [part async for part in client.ask(given)]

    assert isinstance(parts[-1], Answer)
    assert parts[-1].answer_id == "mine"
    events = [part for part in parts if isinstance(part, ExplainEvent)]
    assert [event.sequence for event in events] == list(range(len(events)))
    assert {event.answer_id for event in events} == {"mine"}
    assert {getattr(part, "answer_id", "given") for part in others} == {"given"}


class Typed(MemoryTransport):
    """Records the registered types."""

    def __init__(self) -> None:
        super().__init__()
        self.types: dict[str, type[Message]] = {}

    def register_topic(self, topic: str, message_type: type[Message]) -> None:
        self.types[topic] = message_type


@pytest.mark.parametrize("name", shipped_flows())
def test_every_topic_of_a_flow_has_a_type(name: str) -> None:
    """The topics of the shipped flows are registered with a broker that keeps schemas, except reply topics."""
    definition = load_flow(name)
    transport = Typed()
    register_types(definition, transport)
    topics = {topic for one in definition.processors for topic in one.topics.values()}

    assert transport.types == topic_types(definition)
    assert transport.types.keys() == topics
    assert all(message_type.TYPE for message_type in transport.types.values())


def test_the_trace_topic_carries_traces() -> None:
    """Producers and consumers of a topic agree on its type."""
    trace = next(one for one in FLOW.processors if one.name == "recorder").inbound

    assert topic_types(FLOW)[trace] is TraceRecord
    assert trace in topics_of()


def test_a_shifted_clock_changes_times_not_durations() -> None:
    """The offset applies to absolute times, never to durations."""
    machine = ManualClock()
    clock = ShiftedClock(machine)
    clock.offset_s = 3600.0

    class Thing:
        def __init__(self) -> None:
            self.clock = clock

    assert clock.time() == machine.time() + 3600.0
    assert clock.monotonic() == machine.monotonic()
    assert clock_of(Thing()) is clock
    assert clock_of(object()).time() > 0


@pytest.mark.parametrize(
    ("behind_s", "expected"), [(3600.0, 3600.0), (-3600.0, -3600.0), (0.4, 0.0)]
)
async def test_the_offset_to_the_brokers_clock(
    monkeypatch: pytest.MonkeyPatch, behind_s: float, expected: float
) -> None:
    """A difference of an hour is measured to the second; one below the resolution of a date is zero."""
    now = 1_700_000_000.0

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, json=[], headers={"Date": formatdate(now + behind_s, usegmt=True)}
        )

    transport = httpx.MockTransport(answer)
    client = partial(httpx.AsyncClient, transport=transport)
    monkeypatch.setattr(httpx, "AsyncClient", client)
    options = PulsarOptions(admin_url="http://broker:8080")

    offset = await pulsar_admin.clock_offset(options, lambda: now)

    assert offset == pytest.approx(expected, abs=1.0)


async def test_a_broker_without_a_date_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer without a date is an error."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=[]))
    client = partial(httpx.AsyncClient, transport=transport)
    monkeypatch.setattr(httpx, "AsyncClient", client)
    with pytest.raises(Unavailable, match="no time"):
        await pulsar_admin.clock_offset(PulsarOptions(admin_url="http://b"), lambda: 0.0)


@pytest.mark.parametrize("url", ["pulsar+ssl://localhost:6651", "pulsar://127.0.0.1:1"])
async def test_an_admin_interface_is_not_assumed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none answers, or TLS is required, no admin interface is used."""
    monkeypatch.setattr(pulsar_admin, "_DEFAULT_PORT", 1)

    assert await pulsar_admin.find_admin(url, PulsarOptions()) == ""


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("list",), "messages"),
        (("show", "embedding.request"), "messages"),
        (("replay",), "replayed"),
    ],
)
def test_without_a_broker_there_are_no_dead_letters(
    words: tuple[str, ...], key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command for dead letters prints one JSON document, an empty one without a broker."""
    code = run_command(["dlq", *words, "--broker", "memory://", "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)

    assert code == 0
    assert all(key in topic for topic in document["topics"])
    assert sum(len(topic.get("messages", ())) for topic in document["topics"]) == 0


def test_an_unknown_dead_letter(capsys: pytest.CaptureFixture[str]) -> None:
    """Showing an unknown id exits with not found."""
    code = run_command(["dlq", "show", "trace", "--id", "x", "--broker", "memory://", "--json"])

    assert code == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not_found"


def test_a_memory_transport_keeps_no_schemas() -> None:
    """Nothing is registered with a transport that keeps no schemas."""
    transport: Transport = MemoryTransport()

    register_types(FLOW, transport)
