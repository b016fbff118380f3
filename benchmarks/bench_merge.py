"""Measure how long writes and searches wait while segments are merged in the background.

The store is filled by COPY with small segments. While they are merged, one task appends documents of five
chunks and another one searches, each without a pause. Printed are the time of the merge, and median and
maximum of appends and searches during and after it. Run `python -m benchmarks.bench_merge`; `--chunks
200000` is the larger size.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from benchmarks.corpus import READERS, Texts, fill, settled
from whence.schema.access import DocumentTags
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.dense import vector_index
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument

CHUNKS_OF_ONE, AFTER = 5, 20
#: Takes its turn, from 0.
Act = Callable[[int], Awaitable[object]]


def document(source: Texts, document_id: str) -> EmbeddedDocument:
    """Make a document of some chunks."""
    chunks = tuple(ChunkDraft(content=" ".join(text)) for text in source.texts(CHUNKS_OF_ONE))
    tags = DocumentTags((source.tags(1)[0],))
    draft = DocumentDraft(document_id=document_id, chunks=chunks, tags=tags)
    return EmbeddedDocument(draft=draft, vectors=np.ones((len(chunks), 1), np.float32))


async def timed(act: Act, ended: Callable[[int], bool]) -> list[float]:
    """Act again and again until it has ended; gives the times in milliseconds."""
    times: list[float] = []
    for turn in itertools.count():
        if ended(turn):
            break
        began = time.perf_counter()
        await act(turn)
        times.append((time.perf_counter() - began) * 1e3)
    return times


async def fill_small(store: PostgresStore, source: Texts, chunks: int) -> None:
    """Fill a store with small segments, as writes leave them."""
    texts, tags = source.texts(chunks), source.tags(chunks)
    await fill(store, "bench", texts, tags, np.ones((chunks, 1), np.float32), merged=False)


async def measure(store: PostgresStore, source: Texts) -> None:
    """Merge, append and search at once, then only append and search; prints the times."""
    queries = source.mixed(source.texts(1000), 100)
    new = (document(source, f"new{number}") for number in itertools.count())

    async def append(_: int) -> None:
        await store.replace_documents("bench", [next(new)])

    async def search(turn: int) -> None:
        query = queries[turn % len(queries)]
        await store.search_lexical("bench", query, limit=10, access=READERS["50 %"])

    acts = {"append": append, "search": search}
    began = time.perf_counter()
    merge = store.maintenance.start("bench")
    times = await asyncio.gather(*(timed(act, lambda _: merge.done()) for act in acts.values()))
    print(f"merged in {time.perf_counter() - began:.1f} s")
    for name, some in zip(acts, times, strict=True):
        report(f"{name} meanwhile", some)
    await settled(store)
    for name, act in acts.items():
        report(f"{name} after", await timed(act, lambda turn: turn == AFTER))


def report(name: str, times: list[float]) -> None:
    """Print for people."""
    print(
        f"  {name}: {len(times)}, median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms"
    )


async def run(chunks: int, home: Path) -> None:
    """Fill a store and measure."""
    vector_index._MIN_CHUNKS = 100 * chunks
    source = Texts()
    async with EmbeddedServer(home) as server, await PostgresStore.connect(server) as store:
        await fill_small(store, source, chunks)
        await measure(store, source)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=50_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(options.chunks, Path(folder) / "home"))


if __name__ == "__main__":
    main()
