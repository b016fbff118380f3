"""Measure lexical ranking in PostgreSQL with rights against bm25s in memory without rights.

`mixed` queries are 2 to 6 words of a random chunk, `heavy` ones 2 to 6 frequent words. Readers see all, 50
%, 5 % or 0.5 % of the chunks. The store is filled by COPY, then takes five appends of 1000 chunks without a
vector index, so that queries read small segments beside large ones. Also printed: index bytes per chunk.
Times are the p50 of the clock and the mean processor time, the server included. Run `python -m
benchmarks.bench_lexical`; `--chunks 200000` is the larger size, `--home` keeps the database, `--json`
prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.corpus import READERS, Texts, fill, settled
from benchmarks.cpu import cpu_s, parent
from benchmarks.kept import add_options, opened
from whence.schema.access import DocumentTags
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.dense import vector_index
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument
from whence.text.analysis import ANALYZER_VERSION

try:
    import bm25s
except ImportError:
    bm25s = None

BATCH, LIMIT, APPENDS, ROUNDS = 1000, 10, 5, 2
Ask = Callable[[str], Awaitable[object]]


def documents(texts: list[list[str]], tags: list[str], start: int) -> Iterator[EmbeddedDocument]:
    """Yield a document for each chunk."""
    vector = np.ones((1, 1), np.float32)
    for n, (words, tag) in enumerate(zip(texts, tags, strict=True), start):
        draft = DocumentDraft(
            document_id=f"d{n}",
            chunks=(ChunkDraft(content=" ".join(words)),),
            tags=DocumentTags((tag,)),
        )
        yield EmbeddedDocument(draft=draft, vectors=vector)


async def compare(
    queries: Sequence[str], ways: dict[str, Ask], postmaster: int
) -> dict[str, dict[str, float]]:
    """Ask all queries in each way, in rounds; gives `p50` and `cpu` of a query in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    cpu = dict.fromkeys(ways, 0.0)
    for ask in ways.values():
        for query in queries[:5]:
            await ask(query)
    for _ in range(ROUNDS):
        for name, ask in ways.items():
            began = cpu_s(postmaster)
            for query in queries:
                start = time.perf_counter()
                await ask(query)
                times[name].append((time.perf_counter() - start) * 1e3)
            cpu[name] += cpu_s(postmaster) - began
    asked = ROUNDS * len(queries)
    return {
        name: {"p50": statistics.median(times[name]), "cpu": cpu[name] * 1e3 / asked}
        for name in ways
    }


def in_memory(texts: list[list[str]]) -> Ask:
    """Index the same words with bm25s, without rights."""
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    retriever = bm25s.BM25(k1=1.2, b=0.75)
    retriever.index(texts, show_progress=False)

    async def ask(query: str) -> None:
        retriever.retrieve([query.split()], k=LIMIT, show_progress=False, n_threads=0)

    return ask


async def sizes(connection: Any) -> dict[str, float]:
    """Return bytes per chunk of each table of the index, with its own indexes, and the number of segments."""
    chunks = await connection.fetchval("SELECT sum(chunks) FROM lexicon")
    found = {
        table: await connection.fetchval(f"SELECT pg_total_relation_size('{table}')")
        / float(chunks)
        for table in ("posting", "segment", "chunk_terms", "term")
    }
    return found | {"segments": await connection.fetchval("SELECT count(*) FROM segment")}


async def appends(
    store: PostgresStore, source: Texts, chunks: int, postmaster: int
) -> dict[str, float]:
    """Append batches; gives the times in milliseconds."""
    times, cpu = [], []
    for turn in range(APPENDS):
        texts, tags = source.texts(BATCH), source.tags(BATCH)
        batch = list(documents(texts, tags, chunks + turn * BATCH))
        began, spent = time.perf_counter(), cpu_s(postmaster)
        await store.replace_documents("bench", batch)
        times.append((time.perf_counter() - began) * 1e3)
        cpu.append((cpu_s(postmaster) - spent) * 1e3)
    return {
        "median": statistics.median(times),
        "worst": max(times),
        "cpu": statistics.median(cpu),
    }


async def fill_words(
    store: PostgresStore, texts: list[list[str]], tags: list[str], source: Texts
) -> dict[str, Any]:
    """Fill a store; gives how long it took, the size of the index, and what appends take."""
    chunks = len(texts)
    began = time.perf_counter()
    await fill(store, "bench", texts, tags, np.ones((chunks, 1), np.float32))
    found: dict[str, Any] = {"fill_s": time.perf_counter() - began}
    async with store.pool.connection() as connection:
        found["bytes_per_chunk"] = await sizes(connection)
    found["append_ms"] = await appends(store, source, chunks, await postmaster_of(store))
    await settled(store)
    return found


async def postmaster_of(store: PostgresStore) -> int:
    """Return the process that all processes of a store's server are children of."""
    async with store.pool.connection() as connection:
        return parent(await connection.fetchval("SELECT pg_backend_pid()"))


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fill a store, and measure appending, size and reading."""
    chunks, asked = options.chunks, options.queries
    source = Texts()
    texts = source.texts(chunks)
    tags = source.tags(chunks)
    queries = {"mixed": source.mixed(texts, asked), "heavy": source.heavy(asked)}
    # All vectors are equal: a graph over them would be built, and cost each append, for nothing.
    vector_index._MIN_CHUNKS = 100 * chunks
    async with opened(
        options.home,
        f"lexical-{chunks}-words-{ANALYZER_VERSION}",
        lambda store, _: fill_words(store, texts, tags, source),
    ) as (store, _, filled):
        result: dict[str, Any] = {"chunks": chunks, "ms": {}, **filled}
        if options.fill:
            return result
        postmaster = await postmaster_of(store)
        ways: dict[str, Ask] = {} if bm25s is None else {"bm25s": in_memory(texts)}
        for reader, access in READERS.items():
            ways[reader] = lambda query, access=access: store.search_lexical(  # type: ignore[misc]
                "bench", query, limit=LIMIT, access=access
            )
        for kind, some in queries.items():
            result["ms"][kind] = await compare(some, ways, postmaster)
    return result


def report(result: dict[str, Any]) -> None:
    """Print for people."""
    print(f"{result['chunks']} chunks, filled in {result['fill_s']:.0f} s")
    if bm25s is None:
        print("bm25s: skipped, not installed (pip install bm25s)")
    for kind, ways in result["ms"].items():
        for name, ms in ways.items():
            beside = ways.get("bm25s")
            ratio = (
                f"   x bm25s: {ms['p50'] / beside['p50']:5.2f} {ms['cpu'] / beside['cpu']:5.2f}"
                if beside and ms is not beside
                else ""
            )
            print(
                f"  {kind} {name:6} p50 {ms['p50']:7.2f} ms, processors {ms['cpu']:6.2f} ms{ratio}"
            )
    print(
        "bytes per chunk:", ", ".join(f"{k} {v:.0f}" for k, v in result["bytes_per_chunk"].items())
    )
    append = result["append_ms"]
    print(
        f"append of {BATCH}: median {append['median']:.0f} ms, worst {append['worst']:.0f} ms,"
        f" processors {append['cpu']:.0f} ms"
    )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    add_options(parser)
    options = parser.parse_args()
    result = asyncio.run(measure(options))
    if options.json:
        print(json.dumps(result))
    else:
        report(result)


if __name__ == "__main__":
    main()
