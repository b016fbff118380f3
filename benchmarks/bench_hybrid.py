"""Measure hybrid search by 64 clients: the retrievers of the store against one plain SQL statement for each.

The statements are those of a plain setup: each takes the reader's tags and resolves rights; one walks an HNSW
index, the other sums BM25, on tables of their own on the same server through a pool of the same size. The
`ef_search` is the lowest with a recall of .99 for the ten nearest; both are printed. Both sides rank to the
same depth, run their two retrievers at the same time, and fuse the ranks here. Readers see half of the chunks,
and each query is used once per side. The sides take turns in short rounds. Processor time includes the server.
Run `python -m benchmarks.bench_hybrid`; `--chunks 200000` is the larger size, `--home` keeps the database,
`--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import itertools
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import asyncpg
from pgvector.asyncpg import register_vector

from benchmarks.bench_lexical import postmaster_of
from benchmarks.corpus import DIMENSION, READERS, Texts, fill, settled, unit_vectors
from benchmarks.cpu import cpu_s
from benchmarks.kept import add_options, opened
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore
from whence.text.analysis import ANALYZER_VERSION

CLIENTS, DEPTH, LIMIT, ROUNDS = 64, 50, 10, 4
QUESTIONS = 20_000
READER = "50 %"
_TABLES = f"""
CREATE TABLE one_vector (ord int PRIMARY KEY, class_id int NOT NULL, e vector({DIMENSION}) NOT NULL);
ALTER TABLE one_vector ALTER e SET STORAGE PLAIN;
INSERT INTO one_vector SELECT ord, class_id, e FROM whence.chunk_vec;
CREATE TABLE one_posting (term int, block int, ids int[] NOT NULL, impacts float4[] NOT NULL,
    classes int[] NOT NULL, PRIMARY KEY (term, block));
ALTER TABLE one_posting ALTER ids SET STORAGE EXTERNAL, ALTER impacts SET STORAGE EXTERNAL,
    ALTER classes SET STORAGE EXTERNAL;
INSERT INTO one_posting
SELECT term, n / 8192, array_agg(ord ORDER BY n), array_agg(impact ORDER BY n), array_agg(class_id ORDER BY n)
FROM (
    SELECT w.term, t.ord, c.class_id, row_number() OVER (PARTITION BY w.term ORDER BY t.ord) - 1 AS n,
        w.tf / (w.tf + 1.2 * (0.25 + 0.75 * t.length / 80.0)) AS impact
    FROM whence.chunk_terms t JOIN whence.chunk c ON c.ord = t.ord, LATERAL (
        SELECT ('x' || encode(reverse(substr(t.terms, 4 * k + 1, 4)), 'hex'))::bit(32)::int AS term,
            ('x' || encode(reverse(substr(t.counts, 4 * k + 1, 4)), 'hex'))::bit(32)::int AS tf
        FROM generate_series(0, length(t.terms) / 4 - 1) k) w
) p GROUP BY 1, 2;
CREATE TABLE one_chunk AS SELECT ord, class_id, chunk_key, document FROM whence.chunk;
ALTER TABLE one_chunk ADD PRIMARY KEY (ord);
SET max_parallel_maintenance_workers = 0;
CREATE INDEX ON one_vector USING hnsw (e vector_ip_ops);
"""
#: `hnsw.ef_search`, by its cost: the first with that recall is taken. To ask for more rows than the depth finds
#: no more of the ten nearest.
_EF = (60, 80, 100, 150, 200, 300, 400)
_RECALL = 0.99
_SEEN = (
    "class_id = ANY((SELECT array_agg(id) FROM whence.sec_class WHERE acl && $2::text[])::int[])"
)
_NEAR = f"""
SELECT ord FROM (SELECT ord, e <#> $1 AS distance FROM one_vector WHERE {_SEEN}
    ORDER BY e <#> $1 LIMIT {DEPTH}) n ORDER BY distance LIMIT {LIMIT}
"""
_DENSE = f"""
SELECT c.chunk_key FROM (SELECT ord, e <#> $1 AS distance FROM one_vector WHERE {_SEEN}
    ORDER BY e <#> $1 LIMIT {DEPTH}) n JOIN one_chunk c USING (ord) ORDER BY n.distance, c.chunk_key
"""
_WORDS = f"""
WITH q AS MATERIALIZED (
    SELECT t.id AS term, ln(1 + (l.chunks - t.df + 0.5)::float8 / (t.df + 0.5)::float8) AS idf
    FROM whence.lexicon l JOIN whence.term t ON t.collection_id = l.collection_id
    WHERE t.term = ANY($1::text[])),
words AS (
    SELECT u.ord, sum(q.idf * u.impact) AS score FROM q JOIN one_posting p ON p.term = q.term,
        LATERAL unnest(p.ids, p.impacts, p.classes) u(ord, impact, class_id)
    WHERE u.{_SEEN} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {DEPTH})
SELECT c.chunk_key FROM words w JOIN one_chunk c USING (ord) ORDER BY w.score DESC, w.ord
"""


async def _load(
    ask: Callable[[int], Awaitable[Any]], questions: Iterator[int], seconds: float
) -> tuple[float, list[float]]:
    """Let all clients ask for a while; return questions a second and the times in milliseconds."""
    times: list[float] = []
    started = time.perf_counter()

    async def client() -> None:
        while time.perf_counter() - started < seconds:
            began = time.perf_counter()
            await ask(next(questions))
            times.append((time.perf_counter() - began) * 1e3)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return len(times) / (time.perf_counter() - started), times


def _joined(*rankings: Iterable[str]) -> list[tuple[float, str]]:
    """Join rankings of chunk ids by reciprocal ranks."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for place, chunk_id in enumerate(ranking, 1):
            scores[chunk_id] = scores.get(chunk_id, 0.0) + 1.0 / (60 + place)
    return heapq.nsmallest(LIMIT, ((-score, key) for key, score in scores.items()))


async def _right(store: PostgresStore, vectors: Any) -> list[list[str]]:
    """Return the nearest of each vector, by an exact scan."""
    found = [
        await store.search_dense("bench", one, limit=LIMIT, access=READERS[READER], exact=True)
        for one in vectors
    ]
    return [[one.chunk_id for one in nearest] for nearest in found]


def _recall(found: list[list[str]], right: list[list[str]]) -> float:
    """Return the share of the nearest that is found."""
    pairs = zip(found, right, strict=True)
    return sum(len({*one} & {*nearest}) for one, nearest in pairs) / LIMIT / len(right)


async def _recall_of_store(store: PostgresStore, vectors: Any, right: list[list[str]]) -> float:
    found = [
        await store.search_dense("bench", one, limit=DEPTH, access=READERS[READER])
        for one in vectors
    ]
    return _recall([[one.chunk_id for one in nearest[:LIMIT]] for nearest in found], right)


async def _statement_pool(
    server: EmbeddedServer, size: int, vectors: Any, right: list[list[str]]
) -> tuple[Any, int, float]:
    """Open a pool for the statements; return the `ef_search` that it needs, and its recall."""
    tags = sorted(READERS[READER].acl_tags)
    for ef_search in _EF:
        pool = await asyncpg.create_pool(
            server.url(),
            min_size=1,
            max_size=size,
            init=_vectors_known,
            server_settings={
                "plan_cache_mode": "force_custom_plan",
                "hnsw.ef_search": str(ef_search),
                "hnsw.iterative_scan": "relaxed_order",
                "jit": "off",
            },
        )
        near = f"SELECT chunk_key FROM one_chunk WHERE ord IN ({_NEAR})"
        rows = [await pool.fetch(near, one, tags) for one in vectors]
        recall = _recall([[row["chunk_key"] for row in some] for some in rows], right)
        if recall >= _RECALL or ef_search == _EF[-1]:
            break
        await pool.close()
    return pool, ef_search, recall


async def _vectors_known(connection: Any) -> None:
    await register_vector(connection)


async def fill_both(
    store: PostgresStore, texts: list[list[str]], tags: list[str]
) -> dict[str, Any]:
    """Fill the store and the plain tables."""
    await fill(store, "bench", texts, tags, unit_vectors(len(texts), 2))
    await store.maintenance.check_vector_index("bench")
    await settled(store)
    await _plain_tables(store)
    return {}


async def _plain_tables(store: PostgresStore) -> None:
    async with store.pool.connection() as connection:
        await connection.execute(f"SET statement_timeout = 0; SET search_path = public; {_TABLES}")
        await connection.execute("VACUUM ANALYZE")


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fill both sides, and let them take turns."""
    source, chunks = Texts(), options.chunks
    texts = source.texts(chunks)
    queries, vectors = source.mixed(texts, QUESTIONS), unit_vectors(QUESTIONS, 3)
    tags = source.tags(chunks)
    # The plain tables hold numbers of terms, which another analyzer gives anew.
    name = f"hybrid-{chunks}-words-{ANALYZER_VERSION}"
    async with opened(options.home, name, lambda store, _: fill_both(store, texts, tags)) as (
        store,
        server,
        _,
    ):
        result = {"chunks": chunks, "clients": CLIENTS}
        if options.fill:
            return result
        return result | await _compare(store, server, queries, vectors, options.seconds)


async def _compare(
    store: PostgresStore, server: EmbeddedServer, queries: list[str], vectors: Any, seconds: float
) -> dict[str, Any]:
    """Let both forms take turns under load."""
    postmaster = await postmaster_of(store)
    access = READERS[READER]
    tags = sorted(access.acl_tags)
    words = [list(dict.fromkeys(query.split())) for query in queries]
    right = await _right(store, vectors[:40])
    pool, ef_search, recall = await _statement_pool(server, store.pool.size, vectors[:40], right)
    own = await _recall_of_store(store, vectors[:40], right)

    async def from_store(n: int) -> None:
        found = await asyncio.gather(
            store.search_dense("bench", vectors[n], limit=DEPTH, access=access),
            store.search_lexical("bench", queries[n], limit=DEPTH, access=access),
        )
        _joined(*((one.chunk_id for one in ranking) for ranking in found))

    async def from_statements(n: int) -> None:
        found = await asyncio.gather(
            pool.fetch(_DENSE, vectors[n], tags), pool.fetch(_WORDS, words[n], tags)
        )
        _joined(*((row["chunk_key"] for row in rows) for rows in found))

    found = await _turns({"store": from_store, "statements": from_statements}, seconds, postmaster)
    await pool.close()
    return {
        "ef_search": ef_search,
        "recall": {"store": own, "statements": recall},
        **found,
        "ratio": found["store"]["per_s"] / found["statements"]["per_s"],
        "cpu_ratio": found["statements"]["cpu_ms"] / found["store"]["cpu_ms"],
    }


async def _turns(
    forms: dict[str, Callable[[int], Awaitable[None]]], seconds: float, postmaster: int
) -> dict[str, dict[str, float]]:
    """Let forms take turns; the first of each only warms it."""
    questions = {name: itertools.cycle(range(QUESTIONS)) for name in forms}
    rates: dict[str, list[float]] = {name: [] for name in forms}
    times: dict[str, list[float]] = {name: [] for name in forms}
    cpu: dict[str, list[float]] = {name: [] for name in forms}
    for turn in range(ROUNDS + 1):
        for name, ask in forms.items():
            began = cpu_s(postmaster)
            rate, some = await _load(ask, questions[name], seconds)
            spent = (cpu_s(postmaster) - began) * 1e3 / len(some)
            if turn:
                rates[name].append(rate)
                times[name] += some
                cpu[name].append(spent)
    return {
        name: {
            "per_s": statistics.median(rates[name]),
            "p50_ms": statistics.median(times[name]),
            "cpu_ms": statistics.median(cpu[name]),
        }
        for name in forms
    }


def report(result: dict[str, Any]) -> None:
    """Print for people."""
    print(f"{result['chunks']} chunks, {result['clients']} clients, reader sees {READER}")
    for name, words in (("store", "two retrievers"), ("statements", "two plain statements")):
        found = result[name]
        print(
            f"{words:24} {found['per_s']:7.0f} a second, p50 {found['p50_ms']:7.1f} ms, processors"
            f" {found['cpu_ms']:6.1f} ms, recall@{LIMIT} dense {result['recall'][name]:.3f}"
        )
    print(f"ef_search of the statements: {result['ef_search']}")
    print(f"ratio {result['ratio']:.2f}, by the processors' time {result['cpu_ratio']:.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn")
    parser.add_argument("--json", action="store_true")
    add_options(parser)
    options = parser.parse_args()
    result = asyncio.run(measure(options))
    if options.fill:
        return
    if options.json:
        print(json.dumps(result))
    else:
        report(result)


if __name__ == "__main__":
    main()
