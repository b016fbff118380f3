"""Measure what a warm question costs besides models and database.

The `document-rag` flow runs over the memory transport with a memory store and stub models that answer at once.
60 candidates are retrieved, 20 are kept, explain events and the trace are published. The time is that of bus,
processors and provenance; it must stay under 5 % of a warm question of 300 ms. The functions of `src/whence`
that one question enters, the calls it makes and its deepest stack are counted too.
Run `python -m benchmarks.bench_question`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import whence
from whence.broker.memory.transport import MemoryTransport
from whence.flow.client import FlowClient
from whence.flow.loader import load_flow
from whence.flow.resources import Resources
from whence.flow.runtime import run_flow
from whence.flow.settings import Settings
from whence.operations.ask import DocumentRagRequest
from whence.schema import Access, Answer
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.memory.store import MemoryStore
from whence.store.protocols import EmbeddedDocument
from whence.testing.stub_models import EchoWriter, HashEmbedder, OverlapReranker

QUESTION = "What is the return policy?"
CANDIDATES = 60
#: A warm question with real models and a database, in milliseconds, and the share that is neither.
WARM_MS = 300.0
AIM = 0.05
#: Aims for one question.
AIMS = {"functions": 250, "calls": 2_500, "depth": 22}
SOURCE = str(Path(whence.__file__).parent)
#: Not counted: the database and the models.
STUBS = (f"{SOURCE}/store/", f"{SOURCE}/testing/")

Ask = Callable[[], Awaitable[None]]


async def filled_store(embedder: HashEmbedder) -> MemoryStore:
    """Return a store with 60 chunks of 400 characters."""
    words = "The return policy: the window is thirty days from the day the parcel arrived. "
    texts = [f"{n} {words * 6}"[:400] for n in range(CANDIDATES)]
    store = MemoryStore()
    await store.ensure_collection("default", embedder.model)
    documents = [
        EmbeddedDocument(
            draft=DocumentDraft(document_id=f"docs/{n}.md", chunks=(ChunkDraft(content=text),)),
            vectors=await embedder.embed([text], "document"),
        )
        for n, text in enumerate(texts)
    ]
    await store.replace_documents("default", documents)
    return store


@asynccontextmanager
async def flow() -> AsyncIterator[Ask]:
    """Yield a function that asks one question through the whole flow."""
    definition = load_flow("document-rag")
    transport = MemoryTransport()
    embedder = HashEmbedder()
    objects: dict[str, Any] = {
        "store": await filled_store(embedder),
        "embedder": embedder,
        "reranker": OverlapReranker(),
        "writer": EchoWriter(is_language_model=True),
    }
    request = DocumentRagRequest(access=Access.public(), question=QUESTION, mode="dense")
    with tempfile.TemporaryDirectory() as home:
        resources = Resources(Settings({"home": home}), objects)
        async with resources, run_flow(definition, transport, resources):
            client = FlowClient(definition, transport)

            async def ask() -> None:
                async for part in client.ask(request):
                    last = part
                assert isinstance(last, Answer)
                assert last.citations
                # The writer of the benchmark cites nothing, which the check of its sentences says.
                faults = [one for one in last.degraded if one.stage != "prompt"]
                assert not faults, faults

            yield ask
    await transport.aclose()


async def times(ask: Ask, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of a question, by the clock and by the processor's time."""
    clock, cpu = [], []
    for number in range(-(rounds // 10), rounds):
        started, worked = time.perf_counter(), time.process_time()
        await ask()
        if number >= 0:
            clock.append(time.perf_counter() - started)
            cpu.append(time.process_time() - worked)
    return {"clock": statistics.median(clock) * 1e3, "cpu": statistics.median(cpu) * 1e3}


async def counts(ask: Ask) -> dict[str, int]:
    """Return how many of our files and functions one question enters, its calls and its deepest stack."""
    calls: Counter[tuple[str, str]] = Counter()
    deepest = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(SOURCE) or file.startswith(STUBS):
            return
        calls[file, frame.f_code.co_qualname] += 1
        depth, outer = 0, frame
        while outer is not None:
            depth += outer.f_code.co_filename.startswith(SOURCE)
            outer = outer.f_back  # type: ignore[assignment]
        deepest = max(deepest, depth)

    sys.setprofile(count)
    try:
        await ask()
    finally:
        sys.setprofile(None)
    files = {file for file, _ in calls}
    return {
        "files": len(files),
        "functions": len(calls),
        "calls": calls.total(),
        "depth": deepest,
    }


async def measure(rounds: int) -> dict[str, Any]:
    """Measure everything."""
    async with flow() as ask:
        spent = await times(ask, rounds)
        return {"rounds": rounds, "ms": spent, "share": spent["clock"] / WARM_MS} | {
            "counts": await counts(ask)
        }


def main() -> None:
    """Print the medians and counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="questions")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = asyncio.run(measure(options.rounds))
    if options.json:
        print(json.dumps(report))
        return
    print(f"one question besides models and database: {report['ms']['clock']:.1f} ms by the clock,")
    print(f"  {report['ms']['cpu']:.1f} ms of processor time")
    print(f"  {report['share']:.1%} of a warm question of {WARM_MS:.0f} ms (aim under {AIM:.0%})")
    for name, number in report["counts"].items():
        aim = f" (aim {AIMS[name]})" if name in AIMS else ""
        print(f"  {name:10} {number:5}{aim}")


if __name__ == "__main__":
    main()
