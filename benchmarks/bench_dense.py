"""Measure search by vectors against plain pgvector, at every visibility: time, recall and size.

Beside the store stand two plain ways on the same server: `visible` is a table that holds nothing but the
vectors which the reader sees, scanned exactly; `hnsw` is one table of all vectors with an index of full
precision and no rights at all. The ratio is to the one of them that goes the way the store goes. Recall is the
share of the exact top 10; a ranking is full when it has ten places. Queries take turns. Run
`python -m benchmarks.bench_dense`; `--chunks 200000` for the larger size, `--json` for one JSON document.
Ratios inside one run say more than its absolute times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import numpy as np
from pgvector.asyncpg import register_vector

from benchmarks.bench_lexical import BATCH, documents
from benchmarks.corpus import DIMENSION, READERS, Texts, fill, settled, unit_vectors
from benchmarks.cpu import cpu_s, parent
from whence.store import vector_index
from whence.store.postgres import PostgresStore
from whence.store.server import EmbeddedServer

LIMIT = 10


async def _timed(work: Awaitable[Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    given = await work
    return (time.perf_counter() - started) * 1e3, given


async def fill_plain(plain: Any, vectors: Any, tags: list[str]) -> float:
    """Make the plain tables; gives the seconds that the index took."""
    rows = list(enumerate(vectors))
    tables = {"everything": rows}
    for reader, access in READERS.items():
        seen = [row for row, tag in zip(rows, tags, strict=True) if tag in access.acl_tags]
        tables[_table(reader)] = seen
    for table, some in tables.items():
        await plain.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, e vector({DIMENSION}))")
        await plain.execute(f"ALTER TABLE {table} ALTER e SET STORAGE PLAIN")
        await plain.copy_records_to_table(table, columns=("id", "e"), records=some)
        await plain.execute(f"VACUUM ANALYZE {table}")
    await plain.execute("SET max_parallel_maintenance_workers = 0")
    started = time.perf_counter()
    await plain.execute("CREATE INDEX ON everything USING hnsw (e vector_ip_ops)")
    return time.perf_counter() - started


def _table(reader: str) -> str:
    return "visible_" + "".join(sign for sign in reader if sign.isalnum())


async def compare(store: PostgresStore, plain: Any, queries: Any) -> dict[str, dict[str, float]]:
    """Ask all ways in turn, for each reader."""
    found = {}
    await plain.execute("SET hnsw.ef_search = 100")
    for reader, access in READERS.items():
        times: dict[str, list[float]] = {"whence": [], "exact": [], "visible": [], "hnsw": []}
        recalls, full = [], 0
        nearest = f"SELECT id FROM {_table(reader)} ORDER BY e <#> $1 LIMIT {LIMIT}"
        for n, query in enumerate(queries):
            ways = {
                "whence": store.search_dense("bench", query, limit=LIMIT, access=access),
                "exact": store.search_dense("bench", query, limit=LIMIT, access=access, exact=True),
                "visible": plain.fetch(nearest, query),
                "hnsw": plain.fetch(
                    f"SELECT id FROM everything ORDER BY e <#> $1 LIMIT {LIMIT}", query
                ),
            }
            given = {}
            for way, work in ways.items():
                ms, given[way] = await _timed(work)
                if n >= 3:
                    times[way].append(ms)
            right = {f"d{row['id']}" for row in given["visible"]}
            recalls.append(len(right & {one.document_id for one in given["whence"]}) / LIMIT)
            full += len(given["whence"]) == LIMIT
        found[reader] = {way: statistics.median(some) for way, some in times.items()} | {
            "recall": float(np.mean(recalls)),
            "full": full / len(queries),
            "graph": float(await _asks_graph(plain, reader)),
        }
    return found


async def _asks_graph(plain: Any, reader: str) -> bool:
    """Tell which way the store goes for a reader."""
    chunks = await plain.fetchval("SELECT count(*) FROM everything")
    visible = await plain.fetchval(f"SELECT count(*) FROM {_table(reader)}")
    large = chunks >= vector_index._INDEX_FROM
    return large and vector_index.neighbourhood(LIMIT, visible, chunks) is not None


async def _size(connection: Any, relation: str) -> float:
    return float(await connection.fetchval("SELECT pg_relation_size($1::text::regclass)", relation))


async def measure(chunks: int, asked: int) -> dict[str, Any]:
    """Fill both sides, and compare."""
    source = Texts()
    tags = source.tags(chunks)
    vectors = unit_vectors(chunks, 2)
    result: dict[str, Any] = {"chunks": chunks}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            EmbeddedServer(Path(folder) / "home") as server,
            PostgresStore.open(server) as store,
        ):
            await fill(store, "bench", [["q"]] * chunks, tags, vectors)
            started = time.perf_counter()
            async with store._connection() as connection:
                await store._keep_indexed(connection, "bench")
            await settled(store)
            result["graph_s"] = time.perf_counter() - started
            plain = await asyncpg.connect(server.url())
            await register_vector(plain)
            result["plain_graph_s"] = await fill_plain(plain, vectors, tags)
            postmaster = parent(await plain.fetchval("SELECT pg_backend_pid()"))
            number = await plain.fetchval("SELECT id FROM whence.collection")
            graph = f"whence.{vector_index.index_name(number)}"
            if await plain.fetchval("SELECT to_regclass($1) IS NOT NULL", graph):
                result["graph_bytes"] = await _size(plain, graph) / chunks
            result["plain_graph_bytes"] = await _size(plain, "everything_e_idx") / chunks
            result["vector_bytes"] = await _size(plain, "whence.chunk_vec") / chunks
            result["ms"] = await compare(store, plain, unit_vectors(asked + 3, 3))
            await plain.close()
            result["append"] = await append(store, source, chunks, postmaster)
    return result


async def append(
    store: PostgresStore, source: Texts, chunks: int, postmaster: int
) -> dict[str, float]:
    """Append chunks as any writer does, twice; gives time and processors' time of the second in seconds."""
    found = {}
    for turn in range(2):
        first = chunks + turn * BATCH
        vectors = unit_vectors(BATCH, 4 + turn)
        batch = [
            msgspec.structs.replace(one, vectors=vectors[n : n + 1])
            for n, one in enumerate(documents(source.texts(BATCH), source.tags(BATCH), first))
        ]
        began, spent = time.perf_counter(), cpu_s(postmaster)
        await store.replace_documents("bench", batch)
        found = {"s": time.perf_counter() - began, "cpu_s": cpu_s(postmaster) - spent}
    return found


def report(result: dict[str, Any]) -> None:
    """Print for people."""
    print(
        f"{result['chunks']} chunks; graph built in {result['graph_s']:.0f} s (half precision,"
        f" concurrently), plain {result['plain_graph_s']:.0f} s"
    )
    sizes = ("vector_bytes", "graph_bytes", "plain_graph_bytes")
    print("bytes a chunk:", ", ".join(f"{one} {result.get(one, 0):.0f}" for one in sizes))
    print(
        f"append of {BATCH} with the graph: {result['append']['s']:.1f} s,"
        f" processors {result['append']['cpu_s']:.1f} s"
    )
    print("p50 ms    whence   exact  plain scan of the visible  plain hnsw  ratio  recall   full")
    for reader, ms in result["ms"].items():
        bar = ms["hnsw"] if ms["graph"] else ms["visible"]
        print(
            f"{reader:8} {ms['whence']:7.2f} {ms['exact']:7.2f} {ms['visible']:25.2f}"
            f" {ms['hnsw']:11.2f} {ms['whence'] / bar:6.2f} {ms['recall']:7.3f} {ms['full']:6.2f}"
            f"  {'graph' if ms['graph'] else 'scan'}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(measure(options.chunks, options.queries))
    if options.json:
        print(json.dumps(result))
    else:
        report(result)


if __name__ == "__main__":
    main()
