"""Measure start and stop of the embedded server, and dense search with rights.

The server: first start of a home (creating the database included), later start, joining a running server,
stop. Search: top 10 of 384-dimensional vectors for readers of 100, 50, 5 and 0.5 % of the chunks, against
exact scans of two pgvector tables with the same rows: `plain` has vectors only and no rights, `usual` has
text, tags and vector and filters by `acl && $tags`. All are asked through asyncpg, the queries in turn;
recall is against `usual`. Run `python -m benchmarks.bench_store`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
from pgvector.asyncpg import register_vector

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument

DIMENSION, CLUSTERS, BATCH, LIMIT = 384, 1500, 1000, 10
MODEL = EmbeddingModel(name="bench", dimension=DIMENSION)
#: Each chunk has one tag, drawn with its share; a reader sees the tags named.
SHARES = {"little": 0.005, "some": 0.045, "half": 0.45, "rest": 0.5}
READERS = {
    "100 %": ["little", "some", "half", "rest"],
    "50 %": ["little", "some", "half"],
    "5 %": ["little", "some"],
    "0.5 %": ["little"],
}
TEXT = "word " * 100


class Corpus:
    """Reproducible vectors around cluster centres, with tags."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(1)
        centres = rng.normal(size=(CLUSTERS, DIMENSION))
        self.vectors = _units(
            centres[rng.integers(0, CLUSTERS, n)] + 0.7 * rng.normal(size=(n, DIMENSION))
        )
        self.tags: list[str] = rng.choice(list(SHARES), n, p=list(SHARES.values())).tolist()
        self.queries = _units(
            centres[rng.integers(0, CLUSTERS, 200)] + 0.7 * rng.normal(size=(200, DIMENSION))
        )

    def documents(self) -> list[EmbeddedDocument]:
        """Return a document for each vector."""
        return [
            EmbeddedDocument(
                draft=DocumentDraft(
                    document_id=f"d{n}",
                    chunks=(ChunkDraft(content=f"{n} {TEXT}"),),
                    tags=DocumentTags((tag,)),
                ),
                vectors=self.vectors[n : n + 1],
            )
            for n, tag in enumerate(self.tags)
        ]


def _units(vectors: Any) -> Any:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _ms(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "p50": round(statistics.median(ordered) * 1e3, 2),
        "p95": round(ordered[int(len(ordered) * 0.95)] * 1e3, 2),
    }


async def _timed(work: Awaitable[Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    given = await work
    return time.perf_counter() - started, given


async def life(rounds: int) -> dict[str, dict[str, float]]:
    """Time the server's life on new homes, all times in milliseconds."""
    times: dict[str, list[float]] = {
        name: [] for name in ("cold", "attach", "stop", "warm", "open")
    }
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            first, second = (
                EmbeddedServer(Path(folder) / "home"),
                EmbeddedServer(Path(folder) / "home"),
            )
            times["cold"].append((await _timed(first.start()))[0])
            await (await PostgresStore.connect(first)).aclose()
            times["attach"].append((await _timed(second.start()))[0])
            opening, store = await _timed(PostgresStore.connect(second))
            times["open"].append(opening)
            await store.aclose()
            await second.aclose()
            times["stop"].append((await _timed(first.aclose()))[0])
            times["warm"].append((await _timed(first.start()))[0])
            await first.aclose()
    return {name: _ms(some) for name, some in times.items()}


async def fill(store: PostgresStore, plain: Any, corpus: Corpus) -> float:
    """Store the corpus in all three ways; gives the rows a second that the store took."""
    await store.ensure_collection("bench", MODEL)
    documents = corpus.documents()
    started = time.perf_counter()
    for start in range(0, len(documents), BATCH):
        await store.replace_documents("bench", documents[start : start + BATCH])
    seconds = time.perf_counter() - started
    rows = list(enumerate(corpus.vectors))
    await plain.execute(
        f"CREATE TABLE plain (id int PRIMARY KEY, e vector({DIMENSION}));"
        f" CREATE TABLE usual (id int PRIMARY KEY, acl text[], content text, e vector({DIMENSION}));"
        " CREATE INDEX ON usual USING gin (acl)"
    )
    await plain.copy_records_to_table("plain", columns=("id", "e"), records=rows)
    await plain.copy_records_to_table(
        "usual",
        columns=("id", "acl", "content", "e"),
        records=[(n, [corpus.tags[n]], f"{n} {TEXT}", vector) for n, vector in rows],
    )
    for table in ("plain", "usual", "whence.chunk", "whence.chunk_vec", "whence.document"):
        await plain.execute(f"VACUUM ANALYZE {table}")
    return len(rows) / seconds


async def scan(store: PostgresStore, plain: Any, corpus: Corpus, queries: int) -> dict[str, Any]:
    """Time the three scans for each reader, one query after the other in each."""
    found = {}
    for reader, tags in READERS.items():
        ways: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "whence": lambda query, tags=tags: store.search_dense(
                "bench", query, limit=LIMIT, access=Access(frozenset(tags))
            ),
            "plain": lambda query: plain.fetch(
                "SELECT id FROM plain ORDER BY e <#> $1 LIMIT 10", query
            ),
            "usual": lambda query, tags=tags: plain.fetch(
                "SELECT id FROM usual WHERE acl && $2 ORDER BY e <#> $1 LIMIT 10", query, tags
            ),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        same = expected = 0
        for query in corpus.queries[:queries]:
            given = {}
            for name, ask in ways.items():
                seconds, given[name] = await _timed(ask(query))
                times[name].append(seconds)
            ours = {hit.document_id for hit in given["whence"]}
            assert len(ours) == len(given["usual"])
            expected += len(ours)
            same += len(ours & {f"d{row['id']}" for row in given["usual"]})
        figures: dict[str, Any] = {name: _ms(some) for name, some in times.items()}
        # A large collection is searched through a graph, where that is quicker than to look at all.
        figures["recall"] = round(same / expected, 4)
        assert figures["recall"] >= 0.99
        for name in ("plain", "usual"):
            figures[f"ratio_{name}"] = round(figures["whence"]["p50"] / figures[name]["p50"], 2)
        found[reader] = figures
    return found


async def measure(sizes: list[int], queries: int, rounds: int) -> dict[str, Any]:
    """Measure everything on homes of its own."""
    figures: dict[str, Any] = {"life_ms": await life(rounds), "scan_ms": {}, "rows_per_s": {}}
    for n in sizes:
        corpus = Corpus(n)
        with tempfile.TemporaryDirectory() as folder:
            async with (
                EmbeddedServer(Path(folder) / "home") as server,
                await PostgresStore.connect(server) as store,
            ):
                plain = await asyncpg.connect(
                    server.url(), server_settings={"plan_cache_mode": "force_custom_plan"}
                )
                await register_vector(plain)
                figures["rows_per_s"][n] = round(await fill(store, plain, corpus))
                figures["scan_ms"][n] = await scan(store, plain, corpus, queries)
                await plain.close()
    return figures


def show(figures: dict[str, Any]) -> None:
    """Print the figures as tables."""
    print("server, ms (p50/p95)")
    for name, times in figures["life_ms"].items():
        print(f"  {name:8}{times['p50']:9.1f} /{times['p95']:9.1f}")
    for n, readers in figures["scan_ms"].items():
        print(
            f"\ndense search, {n} rows, stored at {figures['rows_per_s'][n]} rows/s; ms (p50/p95)"
        )
        print(
            f"  {'visible':9}{'whence':>16}{'plain':>16}{'usual':>16}   to plain  to usual  recall"
        )
        for reader, row in readers.items():
            cells = "".join(
                f"{row[way]['p50']:8.2f}/{row[way]['p95']:7.2f}"
                for way in ("whence", "plain", "usual")
            )
            print(
                f"  {reader:9}{cells}{row['ratio_plain']:11.2f}{row['ratio_usual']:10.2f}{row['recall']:8.3f}"
            )


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000, 20_000])
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = asyncio.run(measure(given.rows, given.queries, given.rounds))
    if given.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures)


if __name__ == "__main__":
    main()
