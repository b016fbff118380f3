"""Flows over Pulsar in this process: equal to flows without a broker, and what they bear."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
from tests.support.pulsar_broker import TestBroker, cut_connections

import whence.flow.client
from whence.broker.control import ping_workers
from whence.broker.dead_letters import DeadLetters
from whence.broker.delivery import IncomingMessage
from whence.broker.memory.transport import MemoryTransport
from whence.broker.transport import Headers, RetryPolicy, Transport
from whence.broker.worker import Worker
from whence.flow.client import FlowClient
from whence.flow.definition import FlowDefinition
from whence.flow.loader import load_flow
from whence.flow.resources import Resources
from whence.flow.runtime import run_flow
from whence.flow.settings import Settings
from whence.flow.status import flow_status
from whence.operations.ask import DocumentRagRequest
from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import Answer, AnswerPiece, ExplainEvent
from whence.schema.embedding import EmbeddingRequest, EmbeddingResponse
from whence.schema.errors import BadInput, CodecError, Unavailable, WhenceError
from whence.schema.ingest import ChunkDraft, DocumentDraft, IngestRequest
from whence.schema.message import Message
from whence.schema.search import SearchRequest
from whence.schema.topics import dead_letter_topic
from whence.store.memory.store import MemoryStore
from whence.testing.stub_models import EchoWriter, HashEmbedder, OverlapReranker
from whence.testing.transport_factory import QUICK, eventually, fresh_topic

pytestmark = [pytest.mark.pulsar, pytest.mark.slow]

DOCUMENTS: Mapping[str, tuple[str, ...]] = {
    "archive.md": ("The key of the archive is kept by the porter.", "The archive opens at ten."),
    "kitchen.md": ("The kitchen opens at noon and closes at nine.",),
    "garden.md": ("Roses grow along the southern wall of the garden.",),
    "secret.md": ("The porter hides the key of the archive under the blue stone.",),
}
QUESTIONS = (
    {"question": "Who keeps the key of the archive?"},
    {"question": "When does the kitchen open?", "mode": "bm25", "rerank": False},
    {"question": "Where do roses grow?", "mode": "dense", "doc_limit": 1},
    {"question": "Where is the key?", "access": Access(frozenset({"porters"})), "streaming": True},
    {"question": "zebra", "mode": "bm25"},
)
#: Predicates with times and durations.
TIMES = ("startedAt", "endedAt", "startedAtTime", "endedAtTime", "generatedAtTime", "durationMs")


def flow() -> FlowDefinition:
    """Return the flow with all processors."""
    return load_flow("all-in-one")


def models() -> dict[str, Any]:
    """Return fresh stub models and a fresh store."""
    return {
        "store": MemoryStore(),
        "embedder": HashEmbedder(),
        "reranker": OverlapReranker(),
        "writer": EchoWriter(is_language_model=True),
    }


def draft(name: str, *texts: str) -> DocumentDraft:
    """Return a document; the secret one is for porters."""
    tags = DocumentTags(acl=("porters",)) if name == "secret.md" else DocumentTags()
    chunks = tuple(ChunkDraft(content=text, start=0, end=len(text)) for text in texts)
    return DocumentDraft(document_id=name, chunks=chunks, source_file=name, tags=tags)


@asynccontextmanager
async def running(
    transport: Transport, only: tuple[str, ...] = (), objects: dict[str, Any] | None = None
) -> AsyncIterator[FlowClient]:
    """Run the flow on a transport; yield a client."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(transport.aclose)
        resources = await stack.enter_async_context(Resources(Settings({}), objects or models()))
        await stack.enter_async_context(run_flow(flow(), transport, resources, only=only))
        yield FlowClient(flow(), transport)


async def fill(client: FlowClient) -> None:
    """Store the documents."""
    documents = tuple(draft(name, *texts) for name, texts in DOCUMENTS.items())
    reply = await client.ingest(IngestRequest(collection="default", documents=documents))
    assert [outcome.outcome for outcome in reply.outcomes] == ["added"] * len(documents)


async def ask_all(client: FlowClient) -> list[dict[str, Any]]:
    """Ask every question; return the parts that do not depend on time."""
    await fill(client)
    found = []
    for number, options in enumerate(QUESTIONS):
        given: dict[str, Any] = {"access": Access.public(), **options}
        request = DocumentRagRequest(answer_id=f"parity-{number}", **given)
        parts = [part async for part in client.ask(request)]
        answer = parts[-1]
        assert isinstance(answer, Answer)
        events = [part for part in parts if isinstance(part, ExplainEvent)]
        stages = [msgspec.structs.replace(stage, duration_ms=0.0) for stage in answer.stages]
        found.append(
            {
                "answer": msgspec.structs.replace(answer, stages=tuple(stages), latency_ms=0.0),
                "text": "".join(part.text for part in parts if isinstance(part, AnswerPiece)),
                "stages": [(event.stage, event.sequence, event.explain_id) for event in events],
                "triples": [
                    triple
                    for event in events
                    for triple in event.triples
                    if not triple.p.iri.endswith(TIMES)
                ],
            }
        )
    return found


async def test_a_fleet_answers_as_one_process_does(pulsar_broker: TestBroker) -> None:
    """Equal questions have equal answers, citations, stages and triples, except times."""
    async with running(MemoryTransport()) as client:
        here = await ask_all(client)
    namespace = pulsar_broker.fresh_namespace()
    async with running(pulsar_broker.connect(namespace)) as client:
        there = await ask_all(client)

    for one, other in zip(there, here, strict=True):
        for part in one:
            assert one[part] == other[part], part
    assert sum(len(one["triples"]) for one in here) > 100
    assert [bool(one["answer"].citations) for one in here] == [True, True, True, True, False]
    assert "blue stone" in here[3]["text"]


async def test_status_and_pings(pulsar_broker: TestBroker) -> None:
    """Status reports backlog, dead letters and live workers; a worker that ended is not listed."""
    namespace = pulsar_broker.fresh_namespace()
    outside = pulsar_broker.connect(namespace)
    async with (
        running(pulsar_broker.connect(namespace), ("embedding", "search")) as client,
        running(pulsar_broker.connect(namespace), ("embedding",)),
    ):
        await client.call("embedding", EmbeddingRequest(texts=("a",)), EmbeddingResponse)
        status = await flow_status(flow(), outside, wait_s=2.0)
        embedding = flow().interface("embedding").request
        await outside.publish(embedding, b"not a message")
        async with asyncio.timeout(30):
            while not (await outside.stats(dead_letter_topic(embedding), "dead-letters")).backlog:
                await asyncio.sleep(0.05)
    request = EmbeddingRequest(texts=("b",))
    payload = msgspec.json.encode(request)
    await outside.publish(embedding, payload, headers={Headers.TYPE: request.TYPE})
    after = await flow_status(flow(), outside, wait_s=0.5)
    silence = await ping_workers(outside, [embedding], wait_s=0.5)
    await outside.aclose()

    workers = {one.group: one.workers for one in status.topics if one.workers}
    assert workers == {"embedding": 2, "search": 1}
    assert sum(one.handled for one in status.processors) == 1
    by_group = {one.group: one for one in after.topics}
    assert (by_group["embedding"].backlog, by_group["embedding"].dead_letters) == (1, 1)
    assert (by_group["embedding"].oldest_age_s or 0) > 0
    assert silence == []


async def test_a_flow_without_workers_is_an_error(
    pulsar_broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of a flow without workers fails long before its deadline, with a hint."""
    monkeypatch.setattr(whence.flow.client, "_PINGS", 1)
    transport = pulsar_broker.connect(pulsar_broker.fresh_namespace())
    client = FlowClient(flow(), transport, absent_after_s=0.1)
    request = DocumentRagRequest(access=Access.public(), question="Is anybody there?")

    with pytest.raises(Unavailable, match="no worker serves") as caught:
        await asyncio.wait_for(anext(client.ask(request, timeout_s=600)), 60)
    await transport.aclose()

    assert "whence run" in caught.value.hint


class WrongSearch(Message, frozen=True, kw_only=True):
    """A search request with other fields."""

    collection: str
    limit: str
    shoe_size: int


async def test_an_incompatible_producer_is_refused(pulsar_broker: TestBroker) -> None:
    """A producer of an incompatible type is refused; the error names the field."""
    namespace = pulsar_broker.fresh_namespace()
    stranger = pulsar_broker.connect(namespace)
    WrongSearch.__name__ = SearchRequest.__name__
    async with running(pulsar_broker.connect(namespace), ("search",)):
        topic = flow().interface("search").request
        stranger.register_topic(topic, WrongSearch)
        with pytest.raises(BadInput, match=r"limit|shoe_size"):
            await stranger.publish(topic, b"{}")
    await stranger.aclose()


async def test_a_topic_in_use_without_a_type(pulsar_broker: TestBroker) -> None:
    """A message older than the schema of its topic does not prevent the start of the flow."""
    namespace = pulsar_broker.fresh_namespace()
    early = pulsar_broker.connect(namespace)
    topic = flow().interface("embedding").request
    request = EmbeddingRequest(texts=("early",))
    waiting = await early.subscribe(topic, "embedding")
    await waiting.aclose()
    await early.publish(topic, msgspec.json.encode(request))
    async with running(pulsar_broker.connect(namespace), ("embedding",)) as client:
        reply = await client.call("embedding", request, EmbeddingResponse)
    await early.aclose()

    assert reply.model.name == "stub-hash"


async def test_an_invalid_reply(pulsar_broker: TestBroker) -> None:
    """An invalid reply fails its question; the client continues."""
    namespace = pulsar_broker.fresh_namespace()
    transport, liar = pulsar_broker.connect(namespace), pulsar_broker.connect(namespace)
    client = FlowClient(flow(), transport)
    topic = flow().interface("embedding").request
    requests = await liar.subscribe(topic, "embedding")
    asking = asyncio.create_task(
        client.call("embedding", EmbeddingRequest(texts=("a",)), EmbeddingResponse)
    )
    delivery = await requests.receive()
    reply_to, correlation = (
        delivery.headers[Headers.REPLY_TO],
        delivery.headers[Headers.CORRELATION_ID],
    )
    odd = {Headers.CORRELATION_ID: correlation, Headers.SEQUENCE: "minus one"}
    await liar.publish(reply_to, b"\xff\xfe", headers=odd)
    headers = {Headers.CORRELATION_ID: correlation, Headers.TYPE: EmbeddingResponse.TYPE}
    await liar.publish(reply_to, b"\xff\xfe", headers=headers)
    with pytest.raises(CodecError, match=r"reply of embedding\.request"):
        await asking
    await requests.ack(delivery)
    await requests.aclose()
    await liar.aclose()

    async with running(pulsar_broker.connect(namespace), ("embedding",)):
        reply = await client.call("embedding", EmbeddingRequest(texts=("b",)), EmbeddingResponse)
    await transport.aclose()

    assert reply.model.name == "stub-hash"


async def test_a_full_dead_letter_topic(pulsar_broker: TestBroker) -> None:
    """A message that cannot become a dead letter stays with its worker; others continue, none is lost."""
    import httpx

    namespace = pulsar_broker.fresh_namespace()
    quota = f"{pulsar_broker.admin_url}/admin/v2/namespaces/{namespace}/backlogQuota"
    transport, topic = pulsar_broker.connect(namespace), fresh_topic()
    letters = DeadLetters(transport)
    (await transport.subscribe(dead_letter_topic(topic), "dead-letters"))
    await transport.aclose()
    transport = pulsar_broker.connect(namespace)
    letters = DeadLetters(transport)
    await transport.publish(dead_letter_topic(topic), b"x" * 4096)
    limit = {"limitSize": 1024, "limit": 1024, "policy": "producer_exception"}
    async with httpx.AsyncClient() as admin:
        (await admin.post(quota, json=limit)).raise_for_status()
    done: set[bytes] = set()

    async def handle(work: IncomingMessage) -> AsyncIterator[Any]:
        if work.delivery.payload == b"bad":
            raise BadInput("never")
        done.add(work.delivery.payload)
        return
        yield

    mine = pulsar_broker.connect(namespace)
    worker = Worker(mine, topic=topic, group="g", handler=handle, concurrency=2, retry=QUICK)
    await worker.start()
    await mine.publish(topic, b"bad")
    for number in range(20):
        await mine.publish(topic, str(number).encode())
    await eventually(lambda: len(done) == 20)
    stats = await mine.stats(topic, "g")
    async with httpx.AsyncClient() as admin:
        (await admin.delete(quota)).raise_for_status()
    async with asyncio.timeout(60):
        while b"bad" not in (listed := [one.payload for one in await letters.list(topic)]):
            await asyncio.sleep(0.1)
    await worker.aclose()
    await mine.aclose()
    await transport.aclose()

    assert stats.in_flight == 1
    # The first one may have been sent again under load.
    assert sorted(set(listed)) == [b"bad", b"x" * 4096]
    assert listed.count(b"bad") == 1


class Note(Message, frozen=True, kw_only=True):
    """A message as it began."""

    text: str


class NoteWithColour(Message, frozen=True, kw_only=True):
    """The same in the next version, with a field that has a default."""

    text: str
    colour: str = "none"


async def test_two_versions_side_by_side(pulsar_broker: TestBroker) -> None:
    """During a rolling update both versions publish and handle on one topic; each message counts once."""
    namespace, topic = pulsar_broker.fresh_namespace(), fresh_topic()
    NoteWithColour.__name__ = Note.__name__
    seen: Counter[str] = Counter()
    handled: Counter[type[Any]] = Counter()
    async with AsyncExitStack() as stack:
        publishers = []
        for version in (Note, NoteWithColour):
            transport = pulsar_broker.connect(namespace)
            stack.push_async_callback(transport.aclose)
            transport.register_topic(topic, version)

            async def handle(
                work: IncomingMessage, version: type[Any] = version
            ) -> AsyncIterator[Any]:
                note = msgspec.json.decode(work.delivery.payload, type=version)
                seen[note.text] += 1
                handled[version] += 1
                return
                yield

            worker = Worker(transport, topic=topic, group="g", handler=handle, retry=RetryPolicy())
            await worker.start()
            stack.push_async_callback(worker.aclose)
            publishers.append((transport, version))
        for number in range(40):
            for transport, version in publishers:
                note = version(text=f"{version is Note} {number}")
                await transport.publish(topic, msgspec.json.encode(note))
        await eventually(lambda: len(seen) == 80)

    assert set(seen.values()) == {1}
    assert set(handled) == {Note, NoteWithColour}


@pytest.mark.timeout(180)
async def test_questions_survive_cut_connections(pulsar_broker: TestBroker) -> None:
    """While all connections are cut repeatedly, questions end in time; afterwards all are answered."""
    namespace = pulsar_broker.fresh_namespace()
    ends: Counter[str] = Counter()
    async with running(pulsar_broker.connect(namespace)) as client:
        await fill(client)

        async def ask(timeout_s: float) -> None:
            request = DocumentRagRequest(
                access=Access.public(), question="Who keeps the key of the archive?"
            )
            try:
                async for _ in client.ask(request, timeout_s=timeout_s):
                    pass
            except WhenceError as error:
                ends[error.code] += 1
            else:
                ends["answered"] += 1

        asking = [asyncio.create_task(ask(20.0)) for _ in range(10)]
        end = asyncio.get_running_loop().time() + 2.0
        cuts = 0
        while asyncio.get_running_loop().time() < end:
            with suppress(OSError):
                cuts += cut_connections(pulsar_broker.url)
            await asyncio.sleep(0.1)
        await asyncio.gather(*asking)
        during = Counter(ends)
        await asyncio.gather(*(ask(60.0) for _ in range(10)))

    assert cuts > 5
    assert sum(during.values()) == 10
    assert ends["answered"] == during["answered"] + 10
