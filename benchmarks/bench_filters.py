"""Measure filters on metadata against plain ways to filter `jsonb`.

Each filter is timed in both retrievers (top 10, 384 dimensions), and alone: the time in which the store
finds the matching chunks, against a GIN index on the documents' metadata (`@>` for values, `jsonpath` for
ranges, a condition on the text for prefixes). Index sizes are per document. Run `python -m
benchmarks.bench_filters`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np

from benchmarks.bench_store import DIMENSION, MODEL, Corpus
from whence.schema.access import Access
from whence.schema.filters import parse_filters
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.collection_version import ReaderView, read_view
from whence.store.postgres.metadata_index import filtered_chunks
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument

LIMIT, ROUNDS, BATCH = 10, 15, 1000
WORDS = "ledger invoice supplier payment"
ACCESS = Access.public()

#: Name to the filter of ours and the condition of the plain way.
FILTERS: dict[str, tuple[dict[str, Any], str]] = {
    "range, 90 %": (
        {"year": {"lt": 2040}},
        "metadata @@ '$.year < 2040'",
    ),
    "value, 50 %": ({"half": "yes"}, """metadata @> '{"half": "yes"}'"""),
    "value, 1 %": ({"team": "t7"}, """metadata @> '{"team": "t7"}'"""),
    "any of, 5 %": (
        {"team": ["t1", "t2", "t3", "t4", "t5"]},
        " OR ".join(f"""metadata @> '{{"team": "t{n}"}}'""" for n in range(1, 6)),
    ),
    "range, 10 %": (
        {"year": {"gte": 2000, "lt": 2010}},
        "metadata @@ '$.year >= 2000 && $.year < 2010'",
    ),
    "prefix, 1 %": ({"path": {"prefix": "p7/"}}, "starts_with(metadata->>'path', 'p7/')"),
}


def documents(n: int) -> list[EmbeddedDocument]:
    """Return documents with one chunk each and metadata of known shares."""
    vectors = Corpus(n).vectors
    return [
        EmbeddedDocument(
            draft=DocumentDraft(
                document_id=f"p{i % 100}/d{i}",
                chunks=(ChunkDraft(content=f"{WORDS} number {i} of group {i % 997}"),),
                metadata={
                    "half": "yes" if i % 2 else "no",
                    "team": f"t{i % 100}",
                    "year": 1950 + i % 100,
                    "path": f"p{i % 100}/d{i}",
                    "day": f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}",
                },
            ),
            vectors=vectors[i : i + 1],
        )
        for i in range(n)
    ]


async def median_ms(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """Return the median time of some calls in milliseconds, and the last result."""
    times: list[float] = []
    given = None
    for _ in range(ROUNDS):
        started = time.perf_counter()
        given = await work()
        times.append(time.perf_counter() - started)
    return round(sorted(times)[ROUNDS // 2] * 1e3, 2), given


async def measure(store: PostgresStore, url: str) -> dict[str, Any]:
    """Time every filter; the collection `bench` is filled."""
    connection = await asyncpg.connect(url)
    await connection.execute("SET search_path TO whence, public")
    await connection.execute("SET plan_cache_mode TO force_custom_plan")
    await connection.execute(
        "CREATE INDEX bench_gin ON document USING gin (metadata jsonb_path_ops)"
    )
    await connection.execute("VACUUM ANALYZE")
    view = await read_view(connection, "bench", ACCESS, ByteCache(0))
    query = np.zeros(DIMENSION, np.float32)
    query[0] = 1.0
    rows: dict[str, Any] = {}
    for name, (given, plain) in {"none": ({}, ""), **FILTERS}.items():
        filters = parse_filters(given)

        async def dense(filters: Any = filters) -> Any:
            return await store.search_dense(
                "bench", query, limit=LIMIT, access=ACCESS, filters=filters
            )

        async def lexical(filters: Any = filters) -> Any:
            return await store.search_lexical(
                "bench", WORDS, limit=LIMIT, access=ACCESS, filters=filters
            )

        row = {"dense": (await median_ms(dense))[0], "bm25": (await median_ms(lexical))[0]}
        if filters:
            row |= await _resolved(connection, view, filters, plain)
        rows[name] = row
    sizes = {
        name: await connection.fetchval(f"SELECT {size} / (SELECT count(*) FROM document)")
        for name, size in {
            "facts, bytes a document": "pg_total_relation_size('document_fact')",
            "gin, bytes a document": "pg_relation_size('bench_gin')",
        }.items()
    }
    await connection.close()
    return {"milliseconds": rows, "sizes": sizes}


async def _resolved(
    connection: Any, view: ReaderView, filters: Any, plain: str
) -> dict[str, float]:
    """Time finding the chunks that a filter keeps, both ways, which must agree."""
    statement = (
        "SELECT c.ord FROM document d JOIN chunk c ON c.document = d.id"
        f" WHERE d.collection_id = $1 AND d.class_id = ANY($2::int[]) AND ({plain})"
    )
    ours, found = await median_ms(lambda: filtered_chunks(connection, view, filters))
    theirs, others = await median_ms(
        lambda: connection.fetch(statement, view.version.id, view.classes)
    )
    if sorted(found.ords.tolist()) != sorted(row["ord"] for row in others):
        raise AssertionError("the two ways keep different chunks")
    return {"kept": len(found.ords), "resolve": ours, "resolve by jsonb": theirs}


async def run(n: int) -> dict[str, Any]:
    """Fill a new database and measure."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            EmbeddedServer(Path(folder) / "home") as server,
            await PostgresStore.connect(server) as store,
        ):
            await store.ensure_collection("bench", MODEL)
            every = documents(n)
            for start in range(0, n, BATCH):
                await store.replace_documents("bench", every[start : start + BATCH])
            return {"documents": n, **await measure(store, server.url())}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(run(options.documents))
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{result['documents']} documents, median of {ROUNDS}, milliseconds")
    for name, row in result["milliseconds"].items():
        print(f"  {name:14s}", ", ".join(f"{key} {value}" for key, value in row.items()))
    for name, size in result["sizes"].items():
        print(f"  {name}: {size}")


if __name__ == "__main__":
    main()
