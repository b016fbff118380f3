"""A flow over Pulsar as a fleet of real processes: same answers, and what it survives, counted."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.fleet import POISON, Fleet, FleetSpec
from tests.support.pulsar_broker import TestBroker, running_broker

from whence.broker.dead_letters import DeadLetters
from whence.broker.pulsar.transport import PulsarTransport
from whence.broker.transport import Headers, RetryPolicy
from whence.flow.client import FlowClient
from whence.flow.loader import load_flow
from whence.operations.ask import DocumentRagRequest
from whence.schema.access import Access
from whence.schema.codec import encode
from whence.schema.document_rag import Answer, AnswerPiece, ExplainEvent
from whence.schema.embedding import EmbeddingRequest
from whence.schema.errors import Unavailable, WhenceError
from whence.schema.ingest import ChunkDraft, DocumentDraft, IngestRequest
from whence.store.postgres.store import PostgresStore
from whence.testing.transport_factory import eventually, fresh_topic

pytestmark = [
    pytest.mark.pulsar,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

#: Questions of each fault; the full measure is a thousand.
QUESTIONS = int(os.environ.get("WHENCE_TEST_QUESTIONS", "80"))
DOCUMENT_COUNT = int(os.environ.get("WHENCE_TEST_DOCUMENTS", "200"))
#: Processes killed while documents are stored.
KILLS = int(os.environ.get("WHENCE_TEST_KILLS", "4"))
#: What a caller allows for one question, in seconds.
PATIENCE_S = 60.0
DOCUMENTS = {
    "archive.md": "The key of the archive is kept by the porter.",
    "kitchen.md": "The kitchen opens at noon and closes at nine.",
    "garden.md": "Roses grow along the southern wall of the garden.",
    "tower.md": "The tower clock is wound every Monday by the gardener.",
}
OF_QUESTIONS = (
    "embedding",
    "search",
    "text-fetcher",
    "reranker",
    "prompt",
    "recorder",
    "document-rag",
)


def draft(name: str, text: str) -> DocumentDraft:
    """Return a document of one chunk."""
    chunk = ChunkDraft(content=text, start=0, end=len(text))
    return DocumentDraft(document_id=name, chunks=(chunk,), source_file=name)


class House:
    """A namespace, a database, a fleet and a client of it.

    Args:
        broker: The broker.
        database_url: The database of the fleet.
        options: For the fleet's `FleetSpec`.
    """

    def __init__(self, broker: TestBroker, database_url: str, **options: Any) -> None:
        self.broker = broker
        self.namespace = broker.fresh_namespace()
        self.spec = FleetSpec(
            broker_url=broker.url,
            database_url=database_url,
            environment=broker.environment(self.namespace),
            **options,
        )
        self.fleet = Fleet(self.spec)
        self.definition = load_flow("all-in-one")
        self.transport: PulsarTransport = broker.connect(self.namespace)
        self.client = FlowClient(self.definition, self.transport)
        self.ends: Counter[str] = Counter()
        self.refusals: list[str] = []
        self.answers: dict[str, Answer] = {}

    async def start(self, *names: str, **options: Any) -> None:
        """Start processes without stopping the loop, which has a broker to listen to."""
        await asyncio.to_thread(self.fleet.start, *names, **options)

    async def kill(self, name: str) -> None:
        """End a process at once."""
        await asyncio.to_thread(self.fleet.kill, name)

    async def fill(self) -> None:
        """Store a few documents."""
        documents = tuple(draft(name, text) for name, text in DOCUMENTS.items())
        request = IngestRequest(collection="default", documents=documents)
        reply = await self.client.ingest(request, timeout_s=PATIENCE_S)
        assert {outcome.outcome for outcome in reply.outcomes} == {"added"}

    async def ask(self, number: int, timeout_s: float = PATIENCE_S) -> None:
        """Ask one question and note how it ended; replies must be whole and in order."""
        answer_id = f"question-{number}"
        request = DocumentRagRequest(
            access=Access.public(),
            question=f"Who keeps the key of the archive, asked for the {number}th time?",
            answer_id=answer_id,
            streaming=True,
        )
        events: list[ExplainEvent] = []
        answers: list[Answer] = []
        end = time.monotonic() + timeout_s
        try:
            async for part in self.client.ask(request, timeout_s=timeout_s):
                if isinstance(part, Answer):
                    answers.append(part)
                elif isinstance(part, ExplainEvent):
                    events.append(part)
                else:
                    assert isinstance(part, AnswerPiece)
        except WhenceError as error:
            self.ends[error.code] += 1
            self.refusals.append(f"{answer_id}: {error}")
        else:
            (answer,) = answers
            assert answer.answer_id == answer_id
            assert [event.sequence for event in events] == list(range(len(events)))
            self.answers[answer_id] = answer
            self.ends["answered"] += 1
        assert time.monotonic() < end + 2.0

    async def ask_many(self, count: int, at_once: int = 8, **options: Any) -> None:
        """Ask numbered questions, a few at a time."""
        numbers = iter(range(count))

        async def lane() -> None:
            for number in numbers:
                await self.ask(number, **options)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(lane())

    async def aclose(self) -> None:
        """Close the client and end the fleet."""
        await self.transport.aclose()
        await asyncio.to_thread(self.fleet.__exit__, None, None, None)


@asynccontextmanager
async def housed(broker: TestBroker, database_url: str, **options: Any) -> AsyncIterator[House]:
    """Run a fleet for the time of a block; it ends with the block in any case."""
    made = House(broker, database_url, **options)
    try:
        yield made
    finally:
        await made.aclose()


@pytest.fixture
async def house(pulsar_broker: TestBroker, database_url: str) -> AsyncIterator[House]:
    """Yield a fleet on the broker of the session."""
    async with housed(pulsar_broker, database_url) as made:
        yield made


async def recorded(store: PostgresStore, answer_ids: set[str]) -> Counter[str]:
    """Wait until the traces of these answers are stored; gives how often each is."""
    traces: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while not answer_ids <= set(traces):
            found = await store.recent_traces(2 * QUESTIONS + 10)
            traces = [trace.record.answer_id for trace in found]
            await asyncio.sleep(0.1)
    return Counter(traces)


async def test_each_processor_may_be_killed(
    house: House, database_url: str, record_property: Callable[[str, object], None]
) -> None:
    """Each type is killed during the questions: every question has one answer and one trace."""
    await house.start("ingest,embedding@0", *OF_QUESTIONS)
    await house.fill()
    await house.kill("ingest,embedding@0")
    asking = asyncio.create_task(house.ask_many(QUESTIONS))
    for place, name in enumerate(OF_QUESTIONS, start=1):
        while sum(house.ends.values()) < place * QUESTIONS // (len(OF_QUESTIONS) + 1):
            assert not asking.done()
            await asyncio.sleep(0.01)
        await house.kill(name)
        await house.start(name)
    await asking

    record_property("ends", dict(house.ends))
    assert sum(house.ends.values()) == QUESTIONS
    assert house.ends["answered"] == QUESTIONS, house.refusals
    assert all("porter" in answer.text for answer in house.answers.values())
    async with await PostgresStore.connect(database_url, pool_size=2) as store:
        traces = await recorded(store, set(house.answers))
    assert set(traces.values()) == {1}


async def test_clocks_an_hour_apart(house: House) -> None:
    """Processes with clocks an hour apart work together: deadlines use the broker's clock."""
    await house.start("ingest,embedding", skew_s=-3600.0)
    await house.start("search,text-fetcher,prompt", skew_s=3600.0)
    await house.start("document-rag", skew_s=3600.0)
    await house.start("reranker,recorder")
    await house.fill()

    await house.ask_many(20)

    assert house.ends == {"answered": 20}, house.refusals


async def test_a_processor_hangs(house: House) -> None:
    """Questions sent to a hanging writer are refused in time; all others are answered."""
    await house.start(
        "ingest,embedding,search,text-fetcher,reranker,recorder,document-rag", "prompt@1"
    )
    await house.start("prompt@2", hang=True)
    await house.fill()

    await house.ask_many(8, timeout_s=5.0)
    first = Counter(house.ends)
    await house.kill("prompt@2")
    await house.ask_many(8)

    assert sum(first.values()) == 8
    assert first["answered"]
    assert first["deadline_exceeded"]
    assert set(first) == {"answered", "deadline_exceeded"}
    assert house.ends["answered"] == first["answered"] + 8, house.refusals


async def test_poison_messages_end_with_the_deadline(house: House) -> None:
    """A document that kills its embedder is refused by its deadline; others are stored, once."""
    await house.start("ingest", "embedding")
    texts = {f"{n}.md": f"text number {n}" for n in range(6)}
    stop = asyncio.Event()
    deaths = 0

    async def restart() -> None:
        nonlocal deaths
        while not stop.is_set():
            if not house.fleet.is_alive("embedding"):
                deaths += 1
                house.fleet.forget("embedding")
                # It may meet the poison before it can say that it is ready.
                with suppress(RuntimeError):
                    await house.start("embedding")
            await asyncio.sleep(0.05)

    async def ingest(name: str, text: str, timeout_s: float) -> str:
        request = IngestRequest(collection="c", documents=(draft(name, text),))
        try:
            reply = await house.client.ingest(request, timeout_s=timeout_s)
        except WhenceError as error:
            return error.code
        return reply.outcomes[0].outcome

    restarting = asyncio.create_task(restart())
    poison = asyncio.create_task(ingest("poison.md", f"say {POISON}", 5.0))
    others = [ingest(name, text, PATIENCE_S) for name, text in texts.items()]
    outcomes = Counter(await asyncio.gather(*others))
    refused = await poison
    again = await ingest("late.md", "later", PATIENCE_S)
    stop.set()
    await restarting

    assert deaths
    assert refused == "deadline_exceeded"
    assert (outcomes, again) == ({"added": 6}, "added")
    async with await PostgresStore.connect(house.spec.database_url, pool_size=1) as store:
        assert await store.document_ids("c") == sorted([*texts, "late.md"])


async def test_poison_without_a_deadline(house: House) -> None:
    """A message without a deadline that kills its workers becomes a dead letter.

    The processor has no ledger and no second copy, so nothing but the message can count. What waits beside
    the poison is handled, and none of it is given up.
    """
    topic = house.definition.interface("embedding").request
    await house.start("embedding")
    texts = [f"text {number}" for number in range(12)]
    texts.insert(3, f"say {POISON}")
    for text in texts:
        request = EmbeddingRequest(texts=(text,))
        headers = {Headers.TYPE: request.TYPE}
        await house.transport.publish(topic, encode(request), headers=headers)
    letters = DeadLetters(house.transport)
    deaths = 0
    async with asyncio.timeout(4 * PATIENCE_S):
        while not await letters.count(topic):
            if not house.fleet.is_alive("embedding"):
                deaths += 1
                house.fleet.forget("embedding")
                with suppress(RuntimeError):
                    await house.start("embedding")
            await asyncio.sleep(0.05)
        while (await house.transport.stats(topic, "embedding")).backlog:
            await asyncio.sleep(0.1)
    (letter,) = await letters.list(topic)

    assert POISON.encode() in letter.payload
    assert f"{RetryPolicy().max_attempts} workers died" in letter.reason
    # One that was not suspected yet may be among them.
    assert RetryPolicy().max_attempts <= deaths <= 3 * RetryPolicy().max_attempts
    assert house.fleet.is_alive("embedding")


async def test_documents_are_stored_once_while_processors_die(
    pulsar_broker: TestBroker,
    database_url: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """With processors killed at random every document is stored once; only unfinished work is repeated."""
    count, batch, at_once = DOCUMENT_COUNT, 10, 4
    log = tmp_path / "embedded.txt"
    names = ("ingest@1", "ingest@2", "embedding@1", "embedding@2")
    batches = iter(range(0, count, batch))
    outcomes: Counter[str] = Counter()
    embedded = kills = 0
    chance = random.Random(7)

    async def send(client: FlowClient) -> None:
        nonlocal embedded
        for start in batches:
            documents = tuple(
                draft(f"{n:05}.md", f"document {n} of many") for n in range(start, start + batch)
            )
            request = IngestRequest(collection="many", documents=documents)
            reply = await client.ingest(request, timeout_s=2 * PATIENCE_S)
            outcomes.update(outcome.outcome for outcome in reply.outcomes)
            embedded += sum(outcome.embedded for outcome in reply.outcomes)

    options: dict[str, Any] = {"embedding_log": str(log), "embedding_s": 0.02}
    async with housed(pulsar_broker, database_url, **options) as house:
        await house.start(*names)
        sending = asyncio.gather(*(send(house.client) for _ in range(at_once)))
        while not sending.done() and kills < KILLS:
            await asyncio.sleep(chance.uniform(0.0, 0.8))
            name = chance.choice(names)
            await house.kill(name)
            kills += 1
            await house.start(name)
        await sending

    async with await PostgresStore.connect(database_url, pool_size=1) as store:
        ids = await store.document_ids("many")
        info = await store.collection("many")
    texts = Counter(log.read_text("utf-8").splitlines())
    assert kills
    record_property("documents", count)
    record_property("kills", kills)
    record_property("embedded_again", sum(texts.values()) - count)
    assert outcomes == {"added": count}
    assert embedded == count
    assert len(ids) == len(set(ids)) == count
    assert info is not None
    assert (info.documents, info.chunks) == (count, count)
    assert len(texts) == count
    # What dies with its process is all that is done anew: never more than was on its way.
    assert sum(texts.values()) - count <= kills * at_once * batch


@pytest.fixture
def broker_to_kill(pulsar_broker: TestBroker) -> Iterator[TestBroker]:
    """Yield the broker of the session, or one of this test alone where that is not ours."""
    if pulsar_broker.is_ours:
        yield pulsar_broker
        return
    with running_broker(own=True) as broker:
        yield broker


@asynccontextmanager
async def streaming(broker: TestBroker) -> AsyncIterator[set[bytes]]:
    """Publish numbers and read them all the time; yield those that the broker confirmed.

    At the end each of them has been read.
    """
    topic = fresh_topic()
    publisher, reader = broker.connect(), broker.connect()
    subscription = await reader.subscribe(topic, "g", prefetch=16)
    confirmed: set[bytes] = set()
    seen: set[bytes] = set()
    stop = asyncio.Event()

    async def produce() -> None:
        number = 0
        while not stop.is_set():
            body = f"{number:06d}".encode()
            with suppress(Unavailable):
                await publisher.publish(topic, body)
                confirmed.add(body)
            number += 1
            await asyncio.sleep(0.01)

    async def consume() -> None:
        while True:
            delivery = await subscription.receive()
            seen.add(delivery.payload)
            await subscription.ack(delivery)

    producing, consuming = asyncio.create_task(produce()), asyncio.create_task(consume())
    try:
        yield confirmed
        stop.set()
        await producing
        await eventually(lambda: confirmed <= seen)
    finally:
        consuming.cancel()
        await asyncio.gather(consuming, return_exceptions=True)
        await publisher.aclose()
        await reader.aclose()


@pytest.mark.last  # after a kill it may be slow until its next clean start
@pytest.mark.timeout(600)
async def test_the_broker_is_killed(broker_to_kill: TestBroker, database_url: str) -> None:
    """After a kill -9 of the broker every question ends, with an answer if the broker is back in time.

    Messages that it confirmed before, during and after the kill are delivered.
    """
    async with (
        streaming(broker_to_kill) as confirmed,
        housed(broker_to_kill, database_url) as house,
    ):
        await house.start(
            "ingest,embedding,search,text-fetcher", "reranker,prompt,recorder,document-rag"
        )
        await house.fill()
        asking = asyncio.create_task(house.ask_many(QUESTIONS // 3, at_once=4))
        while sum(house.ends.values()) < QUESTIONS // 10 or len(confirmed) < 200:
            await asyncio.sleep(0.01)
        killed_at = time.monotonic()
        await asyncio.to_thread(broker_to_kill.kill)
        before = len(confirmed)
        await asyncio.to_thread(broker_to_kill.start_again)
        away_s = time.monotonic() - killed_at
        await asking
        during = Counter(house.ends)
        await house.ask_many(10)
        await eventually(lambda: len(confirmed) >= before + 200)

    assert sum(during.values()) == QUESTIONS // 3
    assert set(during) <= {"answered", "deadline_exceeded", "unavailable"}
    # A stage waits 30 s, and clients look for their broker at growing distances.
    assert away_s > 20.0 or during["answered"] == QUESTIONS // 3, house.refusals
    assert house.ends["answered"] == during["answered"] + 10, house.refusals
