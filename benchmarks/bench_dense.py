"""Measure dense search against plain pgvector at every visibility: time, recall and size.

The plain ways are one statement over one table on the same server, through an asyncpg pool: `scan` reads
every row of a table with the visible chunks only; `hnsw` asks an index of full precision over all rows for
ten visible ones, with the security class as a condition on an indexed column, iterative scans, and the
lowest `ef_search` with a recall of .99 for 400 other queries (100 where the store scans); `bare` asks the
index without rights. All return ids of chunks and documents and scores; the plain ways check neither rights
nor tags.

The ratio compares with the plain way that the store uses. Recall is that of the exact top 10, over 400 more
queries. Each way answers all queries in a row, twice, after other queries that warm the caches. Run `python
-m benchmarks.bench_dense`; `--chunks 200000` is the larger size, `--home` keeps the database (nothing is
appended to it then), `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import msgspec
import numpy as np
from pgvector.asyncpg import register_vector

from benchmarks.bench_lexical import BATCH, documents, postmaster_of
from benchmarks.corpus import DIMENSION, READERS, TAGS, Texts, fill, settled, unit_vectors
from benchmarks.cpu import cpu_s
from benchmarks.kept import add_options, opened
from whence.store.postgres.dense import vector_index
from whence.store.postgres.dense.vector_sets import graph_name
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore

LIMIT, WARM_UP, MANY = 10, 5, 400
RECALL = 0.99
_CLASSES = {tag: number for number, tag in enumerate(TAGS)}
_COLUMNS = ("chunk_id", "document_id", "class_id", "e")
_GIVEN = "chunk_id, document_id, e <#> $1 AS distance"
_BARE = f"SELECT {_GIVEN} FROM everything ORDER BY e <#> $1 LIMIT {LIMIT}"
_VISIBLE = f"SELECT {_GIVEN} FROM everything WHERE class_id = ANY($2::int[]) ORDER BY e <#> $1 LIMIT {LIMIT}"
#: `hnsw.ef_search`, by its cost.
_EF = (40, 60, 80, 100, 150, 200, 300, 400)
_BARE_EF = 100

Way = Callable[[Any], Awaitable[Sequence[Any]]]


async def _timed(work: Awaitable[Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    given = await work
    return (time.perf_counter() - started) * 1e3, given


async def fill_both(store: PostgresStore, server: EmbeddedServer, chunks: int) -> dict[str, float]:
    """Fill the store and the plain tables; gives seconds and bytes of graphs."""
    source = Texts()
    tags, vectors = source.tags(chunks), unit_vectors(chunks, 2)
    await fill(store, "bench", [["q"]] * chunks, tags, vectors)
    started = time.perf_counter()
    await store.maintenance.check_vector_index("bench")
    await settled(store)
    found = {"graph_s": time.perf_counter() - started}
    plain = await asyncpg.connect(server.url())
    await register_vector(plain)
    await fill_plain(plain, vectors, tags)
    found["plain_graph_s"] = await _plain_graph(plain)
    number = await plain.fetchval("SELECT id FROM whence.collection")
    graph = f"whence.{graph_name(0, number)}"
    if await plain.fetchval("SELECT to_regclass($1) IS NOT NULL", graph):
        found["graph_bytes"] = await _size(plain, graph) / chunks
    found["plain_graph_bytes"] = await _size(plain, "everything_e_idx") / chunks
    found["vector_bytes"] = await _size(plain, "whence.chunk_vec") / chunks
    await plain.close()
    return found


async def fill_plain(plain: Any, vectors: Any, tags: list[str]) -> None:
    """Make the plain tables."""
    rows = [
        (f"urn:chunk:bench:d{n}:0", f"d{n}", _CLASSES[tag], vector)
        for n, (vector, tag) in enumerate(zip(vectors, tags, strict=True))
    ]
    tables = {"everything": rows}
    for reader, access in READERS.items():
        seen = [row for row, tag in zip(rows, tags, strict=True) if tag in access.acl_tags]
        tables[_table(reader)] = seen
    for table, some in tables.items():
        await plain.execute(
            f"CREATE TABLE {table} (chunk_id text PRIMARY KEY, document_id text NOT NULL,"
            f" class_id int NOT NULL, e vector({DIMENSION}) NOT NULL)"
        )
        await plain.execute(f"ALTER TABLE {table} ALTER e SET STORAGE PLAIN")
        await plain.copy_records_to_table(table, columns=_COLUMNS, records=some)
    await plain.execute("CREATE INDEX ON everything (class_id)")
    for table in tables:
        await plain.execute(f"VACUUM ANALYZE {table}")


async def _plain_graph(plain: Any) -> float:
    """Make the index over the plain table; gives the seconds."""
    await plain.execute("SET max_parallel_maintenance_workers = 0")
    started = time.perf_counter()
    await plain.execute("CREATE INDEX ON everything USING hnsw (e vector_ip_ops)")
    return time.perf_counter() - started


def _table(reader: str) -> str:
    return "visible_" + "".join(sign for sign in reader if sign.isalnum())


@contextlib.asynccontextmanager
async def _pool(server: EmbeddedServer, ef_search: int) -> AsyncIterator[Any]:
    """Open a pool as an application would."""

    async def prepare(connection: Any) -> None:
        await register_vector(connection)

    async with asyncpg.create_pool(
        server.url(),
        min_size=1,
        max_size=8,
        init=prepare,
        server_settings={
            "hnsw.ef_search": str(ef_search),
            "hnsw.iterative_scan": "relaxed_order",
            # Of half of the rows the planner would otherwise sort all.
            "enable_sort": "off",
            "jit": "off",
        },
    ) as pool:
        yield pool


def _recall(given: Sequence[Any], right: Sequence[Any]) -> float:
    """Return the share of the right ids that are given."""
    return len({_id(one) for one in given} & {_id(one) for one in right}) / LIMIT


def _id(one: Any) -> str:
    found: str = one["chunk_id"] if isinstance(one, asyncpg.Record) else one.chunk_id
    return found


async def _least(
    server: EmbeddedServer, reader: str, queries: Any, right: Sequence[set[str]]
) -> int:
    """Return the least `ef_search` that reaches the recall; the largest when none does."""
    classes = [_CLASSES[tag] for tag in READERS[reader].acl_tags]
    for ef_search in _EF:
        async with _pool(server, ef_search) as pool:
            found = [await pool.fetch(_VISIBLE, query, classes) for query in queries]
        hits = sum(
            len({row["document_id"] for row in rows} & nearest)
            for rows, nearest in zip(found, right, strict=True)
        )
        if hits >= RECALL * sum(map(len, right)):
            break
    return ef_search


def _nearest(reader: str, vectors: Any, tags: list[str], queries: Any) -> list[set[str]]:
    """Return the documents that are nearest to each query, of those that a reader sees."""
    seen = [n for n, tag in enumerate(tags) if tag in READERS[reader].acl_tags]
    visible = vectors[seen]
    found = (np.argsort(visible @ query)[-LIMIT:] for query in queries)
    return [{f"d{seen[n]}" for n in best} for best in found]


def _scan(reader: str) -> str:
    return f"SELECT {_GIVEN} FROM {_table(reader)} ORDER BY e <#> $1 LIMIT {LIMIT}"


async def _judged(
    store: PostgresStore, reader: str, queries: Any, right: Sequence[set[str]]
) -> dict[str, float]:
    """Return the recall of the store over many queries, since an index loses whole neighbourhoods."""
    full, recalls = 0, []
    for query, nearest in zip(queries, right, strict=True):
        given = await store.search_dense("bench", query, limit=LIMIT, access=READERS[reader])
        recalls.append(len({one.document_id for one in given} & nearest) / len(nearest))
        full += len(given) == len(nearest)
    return {"recall": statistics.mean(recalls), "full": full / len(queries)}


async def compare(
    store: PostgresStore, server: EmbeddedServer, chunks: int, asked: int
) -> dict[str, dict[str, float]]:
    """Ask all ways in turn, for each reader."""
    queries, tried, judged = (
        unit_vectors(n, seed) for n, seed in ((asked, 3), (MANY, 6), (MANY, 8))
    )
    vectors, tags = unit_vectors(chunks, 2), Texts().tags(chunks)
    found: dict[str, dict[str, float]] = {}
    for reader, access in READERS.items():
        seen = sum(tag in access.acl_tags for tag in tags)
        large = chunks >= vector_index._MIN_CHUNKS
        graph = large and vector_index.graph_search(LIMIT, seen, chunks) is not None
        ef_search = (
            await _least(server, reader, tried, _nearest(reader, vectors, tags, tried))
            if graph
            else _BARE_EF
        )
        classes = [_CLASSES[tag] for tag in access.acl_tags]
        async with _pool(server, ef_search) as pool, _pool(server, _BARE_EF) as bare:
            ways = _ways(store, pool, bare, reader, classes)
            found[reader] = await _rounds(
                ways, queries, {"whence", "hnsw", "bare"} if graph else {"whence", "scan"}
            )
        exact = [
            await _timed(store.search_dense("bench", one, limit=LIMIT, access=access, exact=True))
            for one in queries[: len(queries) // 2]
        ]
        found[reader] |= await _judged(
            store, reader, judged, _nearest(reader, vectors, tags, judged)
        )
        found[reader] |= {
            "exact": statistics.median(ms for ms, _ in exact),
            "ef_search": ef_search,
            "graph": graph,
        }
    return found


def _ways(
    store: PostgresStore, pool: Any, bare: Any, reader: str, classes: list[int]
) -> dict[str, Way]:
    access = READERS[reader]
    scan = _scan(reader)
    return {
        "whence": lambda query: store.search_dense("bench", query, limit=LIMIT, access=access),
        "scan": lambda query: pool.fetch(scan, query),
        "hnsw": lambda query: pool.fetch(_VISIBLE, query, classes),
        "bare": lambda query: bare.fetch(_BARE, query),
    }


async def _rounds(ways: dict[str, Way], queries: Any, compared: set[str]) -> dict[str, float]:
    """Return the median of each way in milliseconds, and the recall of the plain graph.

    Each way is asked all queries in a row, after others that fill the caches as its own work does; two indexes
    do not fit beside each other, and nobody has both.

    Args:
        ways: All of them.
        queries: Shape (n, dimension).
        compared: Ways that take so little time that they are asked many others first.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    given: dict[str, list[Any]] = {}
    for order in (list(ways), list(ways)[::-1]):
        for name in order:
            for query in unit_vectors(MANY if name in compared else WARM_UP, 7):
                await ways[name](query)
            answered = [await _timed(ways[name](query)) for query in queries]
            times[name] += [ms for ms, _ in answered]
            given[name] = [one for _, one in answered]
    recalls = map(_recall, given["hnsw"], given["scan"])
    return {name: statistics.median(some) for name, some in times.items()} | {
        "hnsw_recall": statistics.mean(recalls),
    }


async def _size(connection: Any, relation: str) -> float:
    return float(await connection.fetchval("SELECT pg_relation_size($1::text::regclass)", relation))


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fill both sides, and compare."""
    chunks = options.chunks
    async with opened(
        options.home,
        f"dense-{chunks}",
        lambda store, server: fill_both(store, server, chunks),
    ) as (store, server, filled):
        result = {"chunks": chunks, **filled}
        if options.fill:
            return result
        # A graph of a former version is measured at the first search.
        await store.search_dense("bench", unit_vectors(1, 9)[0], limit=LIMIT, access=READERS["all"])
        await settled(store)
        result["ms"] = await compare(store, server, chunks, options.queries)
        if not options.home:
            result["append"] = await append(store, chunks, await postmaster_of(store))
    return result


async def append(store: PostgresStore, chunks: int, postmaster: int) -> dict[str, float]:
    """Append chunks as any writer does, twice; gives time and processors' time of the second in seconds."""
    source = Texts()
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
        async with store.pool.connection() as connection:
            # The statistics still say that there is one term, as `fill_both` wrote it.
            await connection.execute("ANALYZE term")
    return found


def report(result: dict[str, Any]) -> None:
    """Print for people."""
    print(
        f"{result['chunks']} chunks; graph built in {result['graph_s']:.0f} s (half precision,"
        f" concurrently), plain {result['plain_graph_s']:.0f} s"
    )
    sizes = ("vector_bytes", "graph_bytes", "plain_graph_bytes")
    print("bytes a chunk:", ", ".join(f"{one} {result.get(one, 0):.0f}" for one in sizes))
    if "append" in result:
        print(
            f"append of {BATCH} with the graph: {result['append']['s']:.1f} s,"
            f" processors {result['append']['cpu_s']:.1f} s"
        )
    if "ms" not in result:
        return
    print(
        "p50 ms    whence   exact    scan    hnsw (recall, ef_search)    bare   ratio  recall"
        "   full"
    )
    for reader, ms in result["ms"].items():
        bar = ms["hnsw"] if ms["graph"] else ms["scan"]
        print(
            f"{reader:8} {ms['whence']:7.2f} {ms['exact']:7.2f} {ms['scan']:7.2f} {ms['hnsw']:7.2f}"
            f"   ({ms['hnsw_recall']:.3f}, {ms['ef_search']:3})     {ms['bare']:11.2f}"
            f" {ms['whence'] / bar:7.2f} {ms['recall']:7.3f} {ms['full']:6.2f}"
            f"  {'graph' if ms['graph'] else 'scan'}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=40)
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
