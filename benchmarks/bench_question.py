"""Measure what a question costs besides the models: work, triples, messages.

60 candidates are retrieved and 20 kept, by models and a store that answer at once. The same question goes three
ways within one run:

- `work`: the flow's processors with the same models and store, called directly, object by object, without a bus
  and without triples. What is left is what they do: pooling, reading replies, checks, prompts, citations.
- `flow`: the whole flow over the memory transport, with explain events to the caller and the trace to the
  recorder, in the shared vocabulary or with the full account of every candidate. Explain events off is printed
  beside it.
- `steps`: `DocumentRag` alone over stub clients, silent, with the shared triples and with the full account; the
  difference is what building the triples costs.

Bus and provenance is `flow` less `work`, which take turns, one question each: what meets its own code and
data in the processor's caches, having just done the same, is quicker than the same work within a flow can be.
Each flow is the only one of its process, as flows are. What is left of a question once its answer is there
belongs to it: each has some turns of the event loop to be put away in. Both many in a row are printed beside
it. The store's share is what its methods take within `work`; with a real store it is that of `bench_store`.
All are medians, by the clock and by the processor's time of this process, which other programs on the machine
disturb less. A bare hand-off of one object between two tasks, many in a row, tells how fast the machine is.
Run `python -m benchmarks.bench_question`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import numpy as np

from whence.broker.memory.transport import MemoryTransport
from whence.flow.builtin_flows import find_flow
from whence.flow.client import FlowClient
from whence.flow.definition import FlowDefinition
from whence.flow.loader import load_flow
from whence.flow.resources import Resources
from whence.flow.runtime import run_flow
from whence.flow.settings import Settings
from whence.models.protocols import WritePiece, WriteRequest
from whence.processors.base import StreamingProcessor
from whence.processors.document_rag import DocumentRag, RagOptions
from whence.schema import (
    Access,
    Answer,
    Candidate,
    ChunkText,
    DocumentRagRequest,
    EmbeddingModel,
    Message,
    PromptResult,
)
from whence.store.protocols import CollectionInfo
from whence.testing.stub_clients import (
    StubEmbeddings,
    StubPrompt,
    StubReranker,
    StubSearch,
    StubTexts,
    candidate,
)

QUESTION = "What is the return policy?"
CANDIDATES = 60
KEPT = 20
IDS = [f"urn:chunk:policy-doc-{n // 3}:chunk-{n % 3}" for n in range(CANDIDATES)]
WORDS = "The return window is thirty days from the day the parcel reached its reader. "
#: 400 characters each: a paragraph.
TEXTS = {chunk_id: f"{n} {WORDS * 6}"[:400] for n, chunk_id in enumerate(IDS)}
#: As the stores give it.
METADATA = {"source_file": "docs/policy.md", "heading": "Returns"}
#: Turns of the event loop in which a question is put away: its tasks end, its trace is settled. They are part
#: of what it takes, and what is measured next must not pay for them.
TURNS = 4
#: A hand-over on the machine on which the aims were set.
AIMED_AT_MS = 0.0039
MODEL = EmbeddingModel(name="stub", dimension=384)


class Store:
    """Answers at once."""

    def __init__(self) -> None:
        self.traces = 0
        self._ranking = [
            Candidate(
                chunk_id=chunk_id,
                document_id=f"docs/policy-{n // 3}.md",
                score=0.91 - n * 0.01234,
                rank=n + 1,
                dense_score=0.91 - n * 0.01234,
            )
            for n, chunk_id in enumerate(IDS)
        ]

    async def collection(self, name: str) -> CollectionInfo:
        """Give the one model."""
        return CollectionInfo(name=name, model=MODEL)

    async def search_dense(
        self, collection: str, vector: Any, *, limit: int, **_: Any
    ) -> list[Candidate]:
        """Give the ranking."""
        return self._ranking[:limit]

    async def chunk_texts(self, collection: str, ids: Sequence[str], _: Access) -> list[ChunkText]:
        """Give the texts."""
        return [
            ChunkText(
                chunk_id=chunk_id,
                document_id="docs/policy.md",
                content=TEXTS[chunk_id],
                metadata=METADATA,
                digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            )
            for chunk_id in ids
        ]

    async def record_trace(self, _: Any) -> bool:
        """Count the trace."""
        self.traces += 1
        return True


class Embedder:
    """Answers at once."""

    model = MODEL
    max_tokens = 256

    async def embed(self, texts: Sequence[str], _: str = "query") -> Any:
        """Give unit vectors."""
        vectors = np.zeros((len(texts), MODEL.dimension), np.float32)
        vectors[:, 0] = 1.0
        return vectors


class Reranker:
    """Answers at once."""

    model = "stub-reranker"

    async def score(self, _: str, documents: Sequence[str]) -> list[float]:
        """Keep the order."""
        return [1.0 - n / 100 for n in range(len(documents))]


class Writer:
    """Answers at once."""

    model = "stub-writer"
    is_language_model = True

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Give two concepts, or an answer with three markers."""
        concepts = request.template_id == "extract-concepts"
        text = "return policy\nrefund" if concepts else "Within thirty days [1]. By parcel [2][3]."
        yield WritePiece(result=PromptResult(text=text, in_token=9, out_token=9))


class Cost(NamedTuple):
    """What one way of doing something takes, medians in milliseconds."""

    clock: float
    cpu: float

    def less(self, other: Cost) -> Cost:
        """Give the difference."""
        return Cost(self.clock - other.clock, self.cpu - other.cpu)


Work = Callable[[], Awaitable[object]]


async def costs(ways: dict[str, Work], rounds: int, *, turns: int = TURNS) -> dict[str, Cost]:
    """Give the median costs of several ways, each once in every round, after a tenth of them to warm up."""
    times: dict[str, list[Cost]] = {name: [] for name in ways}
    for number in range(-(rounds // 10), rounds):
        for name, work in ways.items():
            clock, cpu = time.perf_counter(), time.process_time()
            await work()
            for _ in range(turns):
                await asyncio.sleep(0)
            spent = Cost(time.perf_counter() - clock, time.process_time() - cpu)
            if number >= 0:
                times[name].append(spent)
    return {
        name: Cost(*(statistics.median(column) * 1e3 for column in zip(*found, strict=True)))
        for name, found in times.items()
    }


@asynccontextmanager
async def hand_off() -> AsyncIterator[Work]:
    """Give one object to another task and take it back."""
    there: asyncio.Queue[int] = asyncio.Queue()
    back: asyncio.Queue[int] = asyncio.Queue()

    async def echo() -> None:
        while True:
            await back.put(await there.get())

    async def once() -> None:
        await there.put(1)
        await back.get()

    task = asyncio.create_task(echo())
    try:
        yield once
    finally:
        task.cancel()


def steps(*, full_account: bool, told: bool) -> Work:
    """Give the steps alone, over clients that answer at once."""
    texts = StubTexts(TEXTS)
    found = [
        candidate(chunk_id, 0.91 - n * 0.01234, n + 1, "docs/policy.md")
        for n, chunk_id in enumerate(IDS)
    ]
    rag = DocumentRag(
        StubPrompt("Within thirty days [1]. By parcel [2][3].", concepts=["returns", "refund"]),
        StubEmbeddings(),
        StubSearch(found),
        texts.fetch_chunk,
        StubReranker(),
        fetch_chunks=texts.fetch_chunks,
        options=RagOptions(full_account=full_account),
    )

    async def listen(_triples: object, _uri: str) -> None:
        pass

    return lambda: rag.query(QUESTION, explain_callback=listen if told else None)


def with_account(definition: FlowDefinition, *, full: bool) -> FlowDefinition:
    """Set how much the traces of a flow tell."""
    processors = tuple(
        msgspec.structs.replace(
            p, parameters=msgspec.structs.replace(p.parameters, full_account=full)
        )
        if p.type == "document-rag"
        else p
        for p in definition.processors
    )
    return msgspec.structs.replace(definition, processors=processors)


def objects() -> dict[str, Any]:
    """Give the models and the store."""
    return {"store": Store(), "embedder": Embedder(), "reranker": Reranker(), "writer": Writer()}


def request(*, explain: bool) -> DocumentRagRequest:
    """Give the question as it is sent."""
    return DocumentRagRequest(
        access=Access.public(), question=QUESTION, explain=explain, mode="dense"
    )


def check(answer: object) -> None:
    """Make sure that nothing was left out."""
    assert isinstance(answer, Answer)
    assert len(answer.citations) == 3
    assert not answer.degraded


@asynccontextmanager
async def flow(*, full: bool, explain: bool) -> AsyncIterator[Work]:
    """Give the question through the whole flow over the memory transport."""
    definition = with_account(load_flow(find_flow("document-rag")), full=full)
    transport = MemoryTransport()
    with tempfile.TemporaryDirectory() as home:
        resources = Resources(Settings({"home": home}), objects())
        async with resources, run_flow(definition, transport, resources):
            client = FlowClient(definition, transport)
            asked = request(explain=explain)

            async def once() -> None:
                async for part in client.ask(asked):
                    last = part
                check(last)

            yield once
    await transport.aclose()


class Direct:
    """A context whose calls are calls: no bytes, no topics, no tasks."""

    message_id = "direct"
    attempt = 1

    def __init__(self, definition: FlowDefinition, made: dict[str, Any]) -> None:
        self._by_topic = {
            p.inbound: p.cls(p.parameters, **{name: made[name] for name in p.cls.needs})
            for p in definition.processors
        }
        asker = next(p for p in definition.processors if p.type == "document-rag")
        self.asker: Any = self._by_topic[asker.inbound]
        self._topics = asker.topics

    def remaining_s(self) -> float | None:
        """Give no limit."""
        return None

    def is_bound(self, port: str) -> bool:
        """Tell whether a port leads anywhere."""
        return port in self._topics

    async def call(self, port: str, message: Message, _reply: type[Message]) -> Any:
        """Call whoever serves the port, for one reply."""
        processor = self._by_topic[self._topics[port]]
        if isinstance(processor, StreamingProcessor):
            async with aclosing(processor.handle_stream(message, self)) as replies:
                return await anext(replies)
        return await processor.handle(message, self)

    def stream(self, port: str, message: Message) -> AsyncIterator[Message]:
        """Call whoever serves the port."""
        stream: AsyncIterator[Message] = self._by_topic[self._topics[port]].handle_stream(
            message, self
        )
        return stream

    async def emit(self, _port: str, _message: Message, *, key: str | None = None) -> None:
        """Tell nobody."""


def work(spent: list[float]) -> Work:
    """Give the question to the same processors without a bus and without triples.

    Args:
        spent: Takes the seconds that the store needed, one number for each question.
    """
    made = objects() | {"store": Timed(Store(), spent)}
    context = Direct(load_flow(find_flow("document-rag")), made)
    asked = request(explain=False)

    async def once() -> None:
        spent.append(0.0)
        rag = context.asker.rag(asked, context)
        check((await rag.query(asked.question, doc_limit=asked.doc_limit)).answer)

    return once


class Timed:
    """The store, with a clock on what is asked of it."""

    def __init__(self, store: Store, spent: list[float]) -> None:
        self._store = store
        self._spent = spent

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def timed(*args: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return await method(*args, **options)
            finally:
                self._spent[-1] += time.process_time() - start

        return timed


async def measure(rounds: int) -> dict[str, Any]:
    """Measure everything."""
    spent: list[float] = []
    found: dict[str, Cost] = {}
    async with hand_off() as bare:
        found |= await costs({"hand_off": bare}, rounds, turns=0)
        alone = {
            "work_in_a_row": work([]),
            "steps_silent": steps(full_account=False, told=False),
            "steps_shared": steps(full_account=False, told=True),
            "steps_full": steps(full_account=True, told=True),
        }
        for name, way in alone.items():
            found |= await costs({name: way}, rounds)
    for account in ("shared", "full"):
        full = account == "full"
        async with flow(full=full, explain=False) as quiet:
            found |= await costs({f"flow_{account}_no_events": quiet}, rounds)
        async with flow(full=full, explain=True) as told:
            name = f"flow_{account}"
            found |= await costs({f"{name}_in_a_row": told}, rounds)
            found |= await costs({"work": work(spent), name: told}, rounds)
        found[f"bus_and_provenance_{account}"] = found[name].less(found["work"])
        row = found[f"{name}_in_a_row"].less(found["work_in_a_row"])
        found[f"bus_and_provenance_{account}_in_a_row"] = row
    found["building_shared"] = found["steps_shared"].less(found["steps_silent"])
    found["building_full"] = found["steps_full"].less(found["steps_silent"])
    return {
        "candidates": CANDIDATES,
        "kept": KEPT,
        "rounds": rounds,
        "store_ms": statistics.median(spent) * 1e3,
        "ms": {name: cost._asdict() for name, cost in found.items()},
    }


#: What is printed, in order: the name of a figure and its words.
LINES = {
    "hand_off": "bare hand-off there and back",
    "work": "work of the processors, called directly",
    "work_in_a_row": "  the same, many in a row",
    "flow_shared": "flow, shared triples",
    "flow_shared_in_a_row": "  the same, many in a row",
    "flow_shared_no_events": "  many in a row, no events to the caller",
    "flow_full": "flow, full account",
    "flow_full_in_a_row": "  the same, many in a row",
    "flow_full_no_events": "  many in a row, no events to the caller",
    "building_shared": "building the shared triples",
    "building_full": "building the full account",
    "bus_and_provenance_shared": "bus and provenance, shared (aim 1)",
    "bus_and_provenance_full": "bus and provenance, full (aim 2)",
    "bus_and_provenance_shared_in_a_row": "  shared, both many in a row",
    "bus_and_provenance_full_in_a_row": "  full, both many in a row",
}


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="questions of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = asyncio.run(measure(options.rounds))
    if options.json:
        print(json.dumps(report))
        return
    print(f"one question, {CANDIDATES} candidates, {KEPT} kept; medians in ms   clock     cpu")
    for name, words in LINES.items():
        cost = report["ms"][name]
        print(f"  {words:50} {cost['clock']:9.3f} {cost['cpu']:7.3f}")
    hand_over = report["ms"]["hand_off"]["cpu"] / 2
    for name, aim in (("shared", 1.0), ("full", 2.0)):
        ratio = report["ms"][f"bus_and_provenance_{name}"]["cpu"] / hand_over
        print(f"  {name + ', in hand-overs':50} {'':9} {ratio:7.0f} (aim {aim / AIMED_AT_MS:.0f})")
    print(f"  {'the store, within work':50} {'':9} {report['store_ms']:7.3f}")


if __name__ == "__main__":
    main()
