"""Measure a hybrid search through `Engine` against its parts: both retrievers and the embedding of the query.

The three forms take turns in one process on one database: `engine` is `Engine.search`; `retrievers` are the two
searches of the store as deep as a hybrid search asks for them, side by side; `embedding` is the local model.
The aim: the engine takes at most twice the retrievers plus the embedding, in processor time with the server's
included. No query is asked twice. The reader sees everything and asks for 10 results.
Run `python -m benchmarks.bench_engine_search`; `--chunks 200000` for the larger size, `--home` to keep the
database, `--json` for one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.bench_lexical import postmaster_of
from benchmarks.corpus import DIMENSION, READERS, Texts, fill, settled, unit_vectors
from benchmarks.cpu import cpu_s
from benchmarks.kept import add_options, opened
from whence import Engine
from whence.schema.embedding import EmbeddingModel
from whence.store.postgres.store import PostgresStore
from whence.text.analysis import ANALYZER_VERSION

DEPTH, LIMIT, ROUNDS = 100, 10, 6
READER = READERS["all"]


class BenchEmbedder:
    """The local embedder under the name of the model that the corpus was made with."""

    model = EmbeddingModel(name="bench", dimension=DIMENSION)

    def __init__(self, local: Any) -> None:
        self._local = local
        self.max_tokens = local.max_tokens

    async def embed(self, texts: Any, purpose: Any = "query") -> Any:
        """Return the local model's vectors."""
        return await self._local.embed(texts, purpose)

    def count_tokens(self, texts: Any) -> list[int]:
        """Return the local model's counts."""
        counts: list[int] = self._local.count_tokens(texts)
        return counts

    async def aclose(self) -> None:
        """Close the local model."""
        await self._local.aclose()


async def _fill(store: PostgresStore, chunks: int) -> dict[str, Any]:
    source = Texts()
    await fill(store, "bench", source.texts(chunks), source.tags(chunks), unit_vectors(chunks, 2))
    await store.maintenance.check_vector_index("bench")
    await settled(store)
    return {}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fill the store, then let the forms take turns."""
    name = f"engine-{options.chunks}-words-{ANALYZER_VERSION}"
    async with opened(options.home, name, lambda store, _: _fill(store, options.chunks)) as (
        store,
        _,
        _,
    ):
        if options.fill:
            return {}
        source = Texts()
        queries = source.mixed(source.texts(options.chunks), options.searches * (ROUNDS + 1) * 3)
        forms = {}
        for clients in (1, 16):
            forms[clients] = await _compare(store, queries, clients, options.searches)
    return {"chunks": options.chunks, "results": LIMIT, "clients": forms}


async def _compare(
    store: PostgresStore, queries: list[str], clients: int, searches: int
) -> dict[str, Any]:
    from whence.models.local_embedder import LocalEmbedder

    embedder = BenchEmbedder(LocalEmbedder())
    vectors = unit_vectors(len(queries), 3)
    number = itertools.count()
    async with Engine(store=store, embedder=embedder) as engine:

        async def through_engine() -> None:
            n = next(number)
            await engine.search(
                queries[n], top_k=LIMIT, threshold=0.0, access=READER, collection="bench"
            )

        async def retrievers() -> None:
            n = next(number)
            await asyncio.gather(
                store.search_dense("bench", vectors[n], limit=DEPTH, access=READER),
                store.search_lexical("bench", queries[n], limit=DEPTH, access=READER),
            )

        async def embedding() -> None:
            await embedder.embed([queries[next(number)]])

        forms = {"engine": through_engine, "retrievers": retrievers, "embedding": embedding}
        result = await _turns(forms, await postmaster_of(store), clients, searches)
    aim = 2 * result["retrievers"]["cpu_ms"] + result["embedding"]["cpu_ms"]
    return result | {"ratio": result["engine"]["cpu_ms"] / aim}


async def _turns(
    forms: dict[str, Callable[[], Awaitable[None]]], postmaster: int, clients: int, searches: int
) -> dict[str, Any]:
    """Return processor milliseconds and searches a second of each form; the first turn only warms."""
    cpu: dict[str, list[float]] = {name: [] for name in forms}
    rates: dict[str, list[float]] = {name: [] for name in forms}
    for turn in range(ROUNDS + 1):
        for name, form in forms.items():
            began, started = cpu_s(postmaster), time.perf_counter()
            await _run(form, clients, searches)
            if turn:
                cpu[name].append((cpu_s(postmaster) - began) * 1e3 / searches)
                rates[name].append(searches / (time.perf_counter() - started))
    return {
        name: {"cpu_ms": statistics.median(cpu[name]), "per_s": statistics.median(rates[name])}
        for name in forms
    }


async def _run(form: Callable[[], Awaitable[None]], clients: int, searches: int) -> None:
    left = itertools.count()

    async def client() -> None:
        while next(left) < searches:
            await form()

    await asyncio.gather(*(client() for _ in range(clients)))


def report(result: dict[str, Any]) -> None:
    """Print the figures and the ratio to the aim."""
    print(f"{result['chunks']} chunks, {LIMIT} results, all visible")
    for clients, found in result["clients"].items():
        for name in ("engine", "retrievers", "embedding"):
            one = found[name]
            print(
                f"{clients:3} clients {name:12} {one['cpu_ms']:7.1f} ms of processor time,"
                f" {one['per_s']:6.1f} a second"
            )
        print(
            f"{clients:3} clients engine / (2 x retrievers + embedding): {found['ratio']:.2f} (aim 1)"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--searches", type=int, default=60, help="of each turn")
    parser.add_argument("--json", action="store_true")
    add_options(parser)
    options = parser.parse_args()
    result = asyncio.run(measure(options))
    if not result:
        return
    if options.json:
        print(json.dumps(result))
    else:
        report(result)


if __name__ == "__main__":
    main()
