"""Measure what a question costs besides the models: steps, triples, messages.

60 candidates are retrieved and 20 kept, by models and a store that answer at once. First `DocumentRag` alone,
over stub clients: silent, with the triples of the shared vocabulary, and with the full account. Then the same
question through the whole flow over the memory transport, explain events and trace included, beside a bare
hand-off of one object between two tasks in the same run.
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
from typing import Any

import msgspec
import numpy as np

from whence.broker.memory import MemoryTransport
from whence.flow.builtin import find_flow
from whence.flow.client import FlowClient
from whence.flow.definition import FlowDefinition
from whence.flow.loader import load_flow
from whence.flow.resources import Resources
from whence.flow.runtime import run_flow
from whence.flow.settings import Settings
from whence.models.base import WritePiece, WriteRequest
from whence.processors.document_rag import DocumentRag, RagOptions
from whence.schema import (
    Access,
    Answer,
    Candidate,
    ChunkText,
    DocumentRagRequest,
    EmbeddingModel,
    PromptResult,
)
from whence.store.base import CollectionInfo
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
                metadata={"source_file": "docs/policy.md", "heading": "Returns"},
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


async def median_ms(work: Callable[[], Awaitable[object]], runs: int) -> float:
    """Give the median time of some runs, in milliseconds, after a tenth of them to warm up."""
    times = []
    for number in range(runs + runs // 10):
        start = time.perf_counter()
        await work()
        if number >= runs // 10:
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


async def hand_off_ms(runs: int) -> float:
    """Give the time in which one object goes from one task to another and back."""
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
        return await median_ms(once, runs * 10)
    finally:
        task.cancel()


def stubbed(*, full_account: bool) -> DocumentRag:
    """Give the steps alone, over clients that answer at once."""
    texts = StubTexts(TEXTS)
    found = [
        candidate(chunk_id, 0.91 - n * 0.01234, n + 1, "docs/policy.md")
        for n, chunk_id in enumerate(IDS)
    ]
    return DocumentRag(
        StubPrompt("Within thirty days [1]. By parcel [2][3].", concepts=["returns", "refund"]),
        StubEmbeddings(),
        StubSearch(found),
        texts.fetch_chunk,
        StubReranker(),
        fetch_chunks=texts.fetch_chunks,
        options=RagOptions(full_account=full_account),
    )


async def measure_steps(runs: int) -> dict[str, float]:
    """Measure `DocumentRag` alone."""

    async def listen(_triples: object, _uri: str) -> None:
        pass

    shared, full = stubbed(full_account=False), stubbed(full_account=True)
    return {
        "silent_ms": await median_ms(lambda: shared.query(QUESTION), runs),
        "shared_ms": await median_ms(lambda: shared.query(QUESTION, explain_callback=listen), runs),
        "full_ms": await median_ms(lambda: full.query(QUESTION, explain_callback=listen), runs),
    }


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


async def measure_flow(runs: int, *, full: bool, explain: bool) -> float:
    """Measure the whole flow over the memory transport."""
    definition = with_account(load_flow(find_flow("document-rag")), full=full)
    store = Store()
    objects = {
        "store": store,
        "embedder": Embedder(),
        "reranker": Reranker(),
        "writer": Writer(),
    }
    request = DocumentRagRequest(
        access=Access.public(), question=QUESTION, explain=explain, mode="dense"
    )
    transport = MemoryTransport()
    with tempfile.TemporaryDirectory() as home:
        resources = Resources(Settings({"home": home}), objects)
        async with resources, run_flow(definition, transport, resources):
            client = FlowClient(definition, transport)

            async def once() -> None:
                async for part in client.ask(request):
                    last = part
                assert isinstance(last, Answer)
                assert len(last.citations) == 3
                assert not last.degraded

            result = await median_ms(once, runs)
    await transport.aclose()
    return result


async def measure(runs: int) -> dict[str, Any]:
    """Measure everything."""
    return {
        "candidates": CANDIDATES,
        "kept": KEPT,
        "hand_off_ms": await hand_off_ms(runs),
        "steps": await measure_steps(runs),
        "flow": {
            "shared_ms": await measure_flow(runs, full=False, explain=False),
            "shared_with_events_ms": await measure_flow(runs, full=False, explain=True),
            "full_ms": await measure_flow(runs, full=True, explain=False),
            "full_with_events_ms": await measure_flow(runs, full=True, explain=True),
        },
    }


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = asyncio.run(measure(options.runs))
    if options.json:
        print(json.dumps(report))
        return
    print(f"one question, {CANDIDATES} candidates, {KEPT} kept; medians in ms")
    print(f"  bare hand-off there and back     {report['hand_off_ms']:8.4f}")
    for group, names in (("steps", report["steps"]), ("flow", report["flow"])):
        for name, value in names.items():
            print(f"  {group}: {name.removesuffix('_ms'):26} {value:8.3f}")


if __name__ == "__main__":
    main()
