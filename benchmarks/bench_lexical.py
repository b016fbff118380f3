"""Measure ranking by words: PostgreSQL with rights applied, against bm25s in memory without any.

Synthetic chunks of 80 words, Zipf with topics; "mixed" queries are 2 to 6 words of a random chunk, "heavy"
ones 2 to 6 frequent words. Readers see all, 50 %, 5 % or 0.5 % of the chunks. Also: bytes of index per chunk,
and what an append of 1000 chunks costs. Run `python -m benchmarks.bench_lexical`; `--chunks 200000` for the
larger size, `--json` for one JSON document. Ratios inside one run say more than its absolute times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.base import EmbeddedDocument
from whence.store.postgres import PostgresStore
from whence.store.server import EmbeddedServer

try:
    import bm25s
except ImportError:
    bm25s = None

MODEL = EmbeddingModel(name="bench", dimension=1)
VOCABULARY, TOPICS, WORDS_PER_TOPIC, LENGTH, BATCH = 60_000, 400, 120, 80, 1000
LIMIT = 10
#: Who sees what: each chunk has one of these tags, drawn with its share.
SHARES = {"half": 0.5, "twentieth": 0.05, "little": 0.005, "nobody": 0.445}
READERS = {
    "all": Access(frozenset(SHARES)),
    "50 %": Access(frozenset({"half"})),
    "5 %": Access(frozenset({"twentieth"})),
    "0.5 %": Access(frozenset({"little"})),
}


class Texts:
    """A reproducible source of texts and queries."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(1)
        # Consonants and vowels in turn, a digit base for each: no two words share a stem by chance.
        self._words = np.array([f"q{_letters(n)}k" for n in range(VOCABULARY)])
        weights = 1.0 / (np.arange(VOCABULARY) + 2.7)
        self._share = weights / weights.sum()
        self._topics = self._rng.integers(100, VOCABULARY, (TOPICS, WORDS_PER_TOPIC))

    def texts(self, n: int) -> list[list[str]]:
        """Give the words of n chunks: two thirds from the language, one third from a topic."""
        common = self._rng.choice(VOCABULARY, (n, LENGTH * 2 // 3), p=self._share)
        topic = self._topics[self._rng.integers(0, TOPICS, n)]
        own = np.take_along_axis(
            topic, self._rng.integers(0, WORDS_PER_TOPIC, (n, LENGTH - common.shape[1])), axis=1
        )
        return [row.tolist() for row in self._words[np.hstack([common, own])]]

    def tags(self, n: int) -> list[str]:
        """Draw the tag of n chunks."""
        drawn: list[str] = self._rng.choice(list(SHARES), n, p=list(SHARES.values())).tolist()
        return drawn

    def mixed(self, texts: list[list[str]], n: int) -> list[str]:
        """Give queries of 2 to 6 words of a random chunk."""
        return [
            " ".join(self._rng.choice(texts[self._rng.integers(len(texts))], size))
            for size in self._rng.integers(2, 7, n)
        ]

    def heavy(self, n: int) -> list[str]:
        """Give queries of 2 to 6 of the 100 most frequent words."""
        return [
            " ".join(self._rng.choice(self._words[:100], size))
            for size in self._rng.integers(2, 7, n)
        ]


def _letters(n: int) -> str:
    digits = []
    for base in ("aeiou", "bdgmnrtvz") * 4:
        n, place = divmod(n, len(base))
        digits.append(base[place])
    return "".join(digits)


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


async def p50_ms(queries: list[str], ask: Callable[[str], Awaitable[object]]) -> float:
    """Give the median time of a query, in milliseconds; the first five only warm up."""
    times = []
    for query in [*queries[:5], *queries]:
        start = time.perf_counter()
        await ask(query)
        times.append(time.perf_counter() - start)
    return statistics.median(times[5:]) * 1e3


async def store_times(store: PostgresStore, queries: dict[str, list[str]]) -> dict[str, Any]:
    """Measure each kind of query for each reader."""
    found: dict[str, Any] = {}
    for kind, texts in queries.items():
        for reader, access in READERS.items():
            found[f"{kind}, {reader}"] = await p50_ms(
                texts,
                lambda q, a=access: store.search_lexical("bench", q, limit=LIMIT, access=a),
            )
    return found


async def memory_times(texts: list[list[str]], queries: dict[str, list[str]]) -> dict[str, float]:
    """Measure bm25s over the same words, without rights."""
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    retriever = bm25s.BM25(k1=1.2, b=0.75)
    retriever.index(texts, show_progress=False)

    async def ask(query: str) -> None:
        retriever.retrieve([query.split()], k=LIMIT, show_progress=False, n_threads=0)

    return {kind: await p50_ms(asked, ask) for kind, asked in queries.items()}


async def sizes(store: PostgresStore) -> dict[str, float]:
    """Give bytes per chunk of each table of the index, with its own indexes."""
    tables = ("posting", "chunk_terms", "term")
    async with store._connection() as connection:
        chunks = await connection.fetchval("SELECT sum(chunks) FROM lexicon")
        segments = await connection.fetchval("SELECT count(*) FROM segment")
        found = {
            table: await connection.fetchval(f"SELECT pg_total_relation_size('{table}')")
            for table in tables
        }
    return {name: size / float(chunks) for name, size in found.items()} | {"segments": segments}


async def measure(chunks: int, asked: int) -> dict[str, Any]:
    """Fill a store, and measure reading, size and one more append."""
    source = Texts()
    texts = source.texts(chunks)
    tags = source.tags(chunks)
    queries = {"mixed": source.mixed(texts, asked), "heavy": source.heavy(asked)}
    result: dict[str, Any] = {"chunks": chunks}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            EmbeddedServer(Path(folder) / "home") as server,
            PostgresStore.open(server) as store,
        ):
            await store.ensure_collection("bench", MODEL)
            began = time.perf_counter()
            for at in range(0, chunks, BATCH):
                part = slice(at, at + BATCH)
                batch = list(documents(texts[part], tags[part], at))
                await store.replace_documents("bench", batch)
            result["fill_s"] = time.perf_counter() - began
            while store._maintenance:
                await asyncio.gather(*store._maintenance.values())
            async with store._connection() as connection:
                await connection.execute("VACUUM ANALYZE")
            result["bytes_per_chunk"] = await sizes(store)
            result["p50_ms"] = await store_times(store, queries)
            appends = []
            for turn in range(5):
                batch = list(
                    documents(source.texts(BATCH), source.tags(BATCH), chunks + turn * BATCH)
                )
                began = time.perf_counter()
                await store.replace_documents("bench", batch)
                appends.append((time.perf_counter() - began) * 1e3)
            result["append_ms"] = {"median": statistics.median(appends), "worst": max(appends)}
    if bm25s is not None:
        result["bm25s_p50_ms"] = await memory_times(texts, queries)
    return result


def report(result: dict[str, Any]) -> None:
    """Print for people."""
    print(f"{result['chunks']} chunks, filled by {BATCH} in {result['fill_s']:.1f} s")
    memory = result.get("bm25s_p50_ms")
    if memory is None:
        print("bm25s: skipped, not installed (pip install bm25s)")
    else:
        print(", ".join(f"bm25s {kind}: p50 {ms:.2f} ms" for kind, ms in memory.items()))
    for name, ms in result["p50_ms"].items():
        ratio = f"  {ms / memory[name.partition(',')[0]]:6.1f} x bm25s" if memory else ""
        print(f"  {name:14} p50 {ms:8.2f} ms{ratio}")
    sizes_ = ", ".join(f"{k} {v:.0f}" for k, v in result["bytes_per_chunk"].items())
    print(f"bytes per chunk: {sizes_}")
    append = result["append_ms"]
    print(f"append of {BATCH}: median {append['median']:.0f} ms, worst {append['worst']:.0f} ms")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(measure(options.chunks, options.queries))
    if options.json:
        print(json.dumps(result))
    else:
        report(result)


if __name__ == "__main__":
    main()
