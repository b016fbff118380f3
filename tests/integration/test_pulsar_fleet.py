"""A flow over Pulsar as a fleet of real processes: same answers, and what it survives, counted."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from whence.broker.pulsar import PulsarTransport
from whence.flow.builtin import find_flow
from whence.flow.client import FlowClient
from whence.flow.loader import load_flow
from whence.schema.access import Access
from whence.schema.document_rag import Answer, AnswerPiece, DocumentRagRequest, ExplainEvent
from whence.schema.errors import WhenceError
from whence.schema.ingest import ChunkDraft, DocumentDraft, IngestRequest
from whence.store.postgres import PostgresStore
from whence.testing.fleet import Fleet, FleetSpec
from whence.testing.pulsar_broker import TestBroker

pytestmark = [
    pytest.mark.pulsar,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

#: Questions of each fault; the full measure is a thousand.
QUESTIONS = int(os.environ.get("WHENCE_TEST_QUESTIONS", "150"))
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
    """Give a document of one chunk."""
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
        self.definition = load_flow(find_flow("all-in-one"))
        self.transport: PulsarTransport = broker.connect(self.namespace)
        self.client = FlowClient(self.definition, self.transport)
        self.ends: Counter[str] = Counter()
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
            assert error.message
            self.ends[error.code] += 1
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


@pytest.fixture
async def house(pulsar_broker: TestBroker, database_url: str) -> AsyncIterator[House]:
    """Give a house on the broker of the session."""
    made = House(pulsar_broker, database_url)
    yield made
    await made.aclose()


async def recorded(store: PostgresStore, answer_ids: set[str]) -> Counter[str]:
    """Wait until the traces of these answers are stored; gives how often each is."""
    traces: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while not answer_ids <= set(traces):
            found = await store.recent_traces(2 * QUESTIONS + 10)
            traces = [trace.record.answer_id for trace in found]
            await asyncio.sleep(0.1)
    return Counter(traces)


async def test_each_processor_may_be_killed(house: House, database_url: str) -> None:
    """Each type is killed during the questions: every question is answered once, and traced once."""
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

    assert sum(house.ends.values()) == QUESTIONS
    assert house.ends["answered"] == QUESTIONS, house.ends
    assert all("porter" in answer.text for answer in house.answers.values())
    async with PostgresStore.open(database_url, pool_size=2) as store:
        traces = await recorded(store, set(house.answers))
    assert set(traces.values()) == {1}
