"""Measure a hybrid search of `Engine` beside LanceDB's, and beside bm25s with a matrix of NumPy as the floor.

All sides have the same passages, vectors, tags and queries in one process, and take turns. The passages are the
documents of the public collections that `benchmarks.quality` reads, with the vectors of the local model, which
are kept; where more are wanted, halves of two documents each, with the mean of their vectors. One query in four
has a misspelt word.
LanceDB has the index of its default, IVF-PQ, from 20,000 passages on, one for full text and one for tags.

`encoder` is the embedding alone. `beyond` is processor time without that of `encoder`; `whence` has its server
included. `of the ten nearest` is the share that either index of vectors finds. The aims: at most 1.0 of
LanceDB's p50, 1.5 of its p95, at least 1.0 of its rate with 16 clients.
Run `python -m benchmarks.bench_search_peers [--passages N]`, N of 2000, 20000 or 200000; `--json` for one JSON
document. Needs the dependency group `peers`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_lexical import postmaster_of
from benchmarks.cpu import cpu_s
from benchmarks.kept import add_options, opened
from benchmarks.quality import ROOT, cache_folder, collections
from whence import Engine
from whence.models.local_embedder import LocalEmbedder
from whence.schema.access import Access, DocumentTags
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument

DIMENSION, LIMIT, BATCH, INDEXED_FROM = 384, 10, 1000, 20_000
#: Each passage has one tag, drawn with its share; a reader sees the tags named.
SHARES = {"few": 0.001, "some": 0.049, "rest": 0.95}
READERS = {"all": ("few", "some", "rest"), "5 %": ("few", "some"), "0.1 %": ("few",)}

Form = Callable[[str], Awaitable[Any]]


class Corpus:
    """Passages with vectors and tags, and queries; equal in every run."""

    def __init__(self, folder: Path, passages: int, queries: int) -> None:
        rng = np.random.default_rng(1)
        found = collections(folder, cache_folder())
        if not found:
            raise SystemExit(f"no collection in {folder}")
        records = [_records(one / "corpus.jsonl") for one in found]
        texts = [
            f"{one.get('title', '')} {one['text']}".strip() for one in itertools.chain(*records)
        ]
        own = [texts[n] for n in rng.permutation(len(texts))[:passages]]
        self._documents = len(own)
        self._pairs = rng.integers(0, len(own), (passages - len(own), 2)).tolist()
        for one, other in self._pairs:
            own.append(own[one][: len(own[one]) // 2] + " " + own[other][len(own[other]) // 2 :])
        self.texts = [one.replace("\0", " ")[:4000] or "-" for one in own]
        self.tags: list[str] = rng.choice(list(SHARES), passages, p=list(SHARES.values())).tolist()
        asked = [
            one["text"] for one in itertools.chain(*(_records(f / "queries.jsonl") for f in found))
        ]
        drawn = [asked[n][:300] for n in rng.integers(0, len(asked), queries)]
        self.queries = [self._misspelt(one) if n % 4 == 0 else one for n, one in enumerate(drawn)]

    def _misspelt(self, query: str) -> str:
        """Swap two letters of the longest word."""
        longest = max(query.split(), key=len)
        at = len(longest) // 2
        swapped = longest[: at - 1] + longest[at] + longest[at - 1] + longest[at + 1 :]
        return query.replace(longest, swapped, 1) if len(longest) > 5 else query

    async def embed(self) -> Any:
        """Return the unit vectors of all passages, shape (passages, dimension); those of documents are kept."""
        kept = cache_folder() / "peers.npy"
        own = np.load(kept) if kept.exists() else np.empty((0, DIMENSION), np.float32)
        embedder = LocalEmbedder()
        for start in range(len(own), self._documents, BATCH):
            texts = self.texts[start : min(start + BATCH, self._documents)]
            own = np.concatenate([own, await embedder.embed(texts, "document")])
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.save(kept, own)
        await embedder.aclose()
        pairs = np.array(self._pairs, dtype=int).reshape(-1, 2)
        mean = own[pairs].sum(axis=1)
        mean /= np.linalg.norm(mean, axis=1, keepdims=True)
        return np.concatenate([own[: self._documents], mean]).astype(np.float32)


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def fill(store: PostgresStore, corpus: Corpus, vectors: Any) -> dict[str, Any]:
    """Store the corpus; gives the seconds that it took."""
    started = time.perf_counter()
    await store.ensure_collection("bench", LocalEmbedder().model)
    rows = list(zip(corpus.texts, corpus.tags, strict=True))
    for start in range(0, len(rows), BATCH):
        documents = [
            EmbeddedDocument(
                draft=DocumentDraft(
                    document_id=f"d{start + n}.txt",
                    chunks=(ChunkDraft(content=text, end=len(text)),),
                    source_file=f"d{start + n}.txt",
                    title=text[:40],
                    tags=DocumentTags((tag,)),
                ),
                vectors=vectors[start + n][None],
            )
            for n, (text, tag) in enumerate(rows[start : start + BATCH])
        ]
        await store.replace_documents("bench", documents)
    await store.maintenance.check_vector_index("bench")
    await store.maintenance.wait()
    async with store.pool.connection() as connection:
        await connection.execute("VACUUM ANALYZE")
    return {"seconds": time.perf_counter() - started}


async def open_lance(folder: str, corpus: Corpus, vectors: Any) -> Any:
    """Return a table of LanceDB with the corpus and its indexes."""
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS, Bitmap, IvfPq

    kinds = {"id": pa.string(), "tag": pa.string(), "text": pa.string()}
    schema = pa.schema(kinds | {"vector": pa.list_(pa.float32(), DIMENSION)})
    database = await lancedb.connect_async(folder)
    table = await database.create_table("bench", schema=schema)
    rows = [
        {"id": f"d{n}", "tag": tag, "text": text, "vector": vectors[n]}
        for n, (text, tag) in enumerate(zip(corpus.texts, corpus.tags, strict=True))
    ]
    for start in range(0, len(rows), 20 * BATCH):
        await table.add(rows[start : start + 20 * BATCH])
    await table.create_index("text", config=FTS())
    await table.create_index("tag", config=Bitmap())
    if len(rows) >= INDEXED_FROM:
        await table.create_index("vector", config=IvfPq(distance_type="cosine"))
    return table


def floor(corpus: Corpus, matrix: Any, tags: Sequence[str]) -> Callable[[str, Any], list[str]]:
    """Return a search by bm25s and a matrix, ranks joined by their reciprocals."""
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize(corpus.texts, show_progress=False), show_progress=False)
    visible = np.isin(corpus.tags, tags)

    def search(query: str, vector: Any) -> list[str]:
        words = bm25s.tokenize(query, return_ids=False, show_progress=False)[0]
        ranks: dict[int, float] = {}
        for found in (index.get_scores(words), matrix @ vector):
            scores = np.where(visible, found, -np.inf)
            best = np.argpartition(-scores, 100)[:100]
            for rank, n in enumerate(best[np.argsort(-scores[best])].tolist()):
                ranks[n] = ranks.get(n, 0.0) + 1 / (60 + rank)
        return [corpus.texts[n] for n in sorted(ranks, key=lambda n: -ranks[n])[:LIMIT]]

    return search


def forms(
    engine: Engine,
    table: Any,
    corpus: Corpus,
    vectors: Any,
    reader: str,
    own: Sequence[LocalEmbedder],
) -> dict[str, Form]:
    """Return the searches of one reader; each side embeds with the encoder that is its own."""
    tags = READERS[reader]
    access = Access(frozenset(tags))
    where = None if reader == "all" else f"tag IN ({', '.join(map(repr, tags))})"
    search_matrix = floor(corpus, vectors, tags)
    lance, numpy, alone = own

    async def by_whence(query: str) -> Any:
        return await engine.search(query, top_k=LIMIT, access=access, collection="bench")

    async def by_lance(query: str) -> Any:
        vector = (await lance.embed([query], "query"))[0]
        search = table.query().nearest_to(vector).distance_type("cosine").nearest_to_text(query)
        search = search.where(where) if where else search
        return await search.rerank().limit(LIMIT).to_list()

    async def by_numpy(query: str) -> Any:
        return search_matrix(query, (await numpy.embed([query], "query"))[0])

    async def encode(query: str) -> Any:
        return await alone.embed([query], "query")

    return {"whence": by_whence, "lance": by_lance, "numpy": by_numpy, "encoder": encode}


async def found_nearest(
    store: PostgresStore, table: Any, corpus: Corpus, vectors: Any, embedder: LocalEmbedder
) -> dict[str, float]:
    """Return the share of the ten nearest passages that either index of vectors finds, without words."""
    asked = await embedder.embed(corpus.queries, "query")
    access = Access(frozenset(SHARES))
    found = {"whence": 0, "lance": 0}
    for vector in asked:
        nearest = {f"d{n}" for n in np.argsort(-(vectors @ vector), kind="stable")[:LIMIT]}
        ours = await store.search_dense("bench", vector, limit=LIMIT, access=access)
        search = table.query().nearest_to(vector).distance_type("cosine").limit(LIMIT)
        theirs = await search.to_list()
        found["whence"] += len(nearest & {one.document_id.removesuffix(".txt") for one in ours})
        found["lance"] += len(nearest & {one["id"] for one in theirs})
    return {name: n / (LIMIT * len(asked)) for name, n in found.items()}


class Timed:
    """Times and processor time of the searches of one side."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.process = self.server = self.seconds = 0.0

    async def run(self, form: Form, queries: Sequence[str], clients: int, server: int) -> None:
        """Ask all queries, so many at a time."""
        left = iter(queries)

        async def client() -> None:
            for query in left:
                asked = time.perf_counter()
                await form(query)
                self.times.append(time.perf_counter() - asked)

        own, both, started = time.process_time(), cpu_s(server), time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        self.seconds += time.perf_counter() - started
        used = time.process_time() - own
        self.process += used
        self.server += cpu_s(server) - both - used

    def result(self) -> dict[str, float]:
        """Return milliseconds a search, and searches a second."""
        n, ordered = len(self.times), sorted(self.times)
        return {
            "p50_ms": statistics.median(ordered) * 1e3,
            "p95_ms": ordered[int(0.95 * n)] * 1e3,
            "process_ms": self.process / n * 1e3,
            "server_ms": self.server / n * 1e3,
            "per_s": n / self.seconds,
        }


async def turns(
    sides: dict[str, Form], queries: Sequence[str], clients: int, rounds: int, server: int
) -> dict[str, Any]:
    """Let the sides take turns over the same queries; the first turn only warms."""
    size = len(queries) // (rounds + 1)
    timed = {name: Timed() for name in sides}
    for turn in range(rounds + 1):
        for name, form in sides.items():
            one = timed[name] if turn else Timed()
            await one.run(form, queries[turn * size : (turn + 1) * size], clients, server)
    found: dict[str, Any] = {name: one.result() for name, one in timed.items()}
    encoder = found["encoder"]["process_ms"]
    for one in found.values():
        one["beyond_ms"] = one["process_ms"] + one["server_ms"] - encoder
    for measure in _RATIOS:
        found[f"ratio_{measure}"] = found["whence"][measure] / found["lance"][measure]
    return found


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fill the stores, then compare for each reader, each number of clients, and both kinds of encoders."""
    corpus = Corpus(options.folder, options.passages, options.searches * (options.rounds + 1))
    vectors = await corpus.embed()
    name = f"peers-model-{options.passages}"
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with opened(options.home, name, lambda store, _: fill(store, corpus, vectors)) as (
            store,
            _,
            _,
        ):
            if options.fill:
                return {}
            table = await open_lance(folder, corpus, vectors)
            server = await postmaster_of(store)
            encoders = [LocalEmbedder() for _ in range(4)]
            async with Engine(store=store, embedder=encoders[0]) as engine:
                for reader, clients, shared in _cases():
                    own = encoders[:1] * 3 if shared else encoders[1:]
                    sides = forms(engine, table, corpus, vectors, reader, own)
                    case = f"{reader}, {clients} clients, {'one encoder' if shared else 'one each'}"
                    found[case] = await turns(
                        sides, corpus.queries, clients, options.rounds, server
                    )
                    if not options.json:
                        report(case, found[case])
            shares = await found_nearest(store, table, corpus, vectors, encoders[0])
    if not options.json:
        print("of the ten nearest:", ", ".join(f"{name} {n:.3f}" for name, n in shares.items()))
    return {"passages": options.passages, "cases": found, "of_ten_nearest": shares}


def _cases() -> list[tuple[str, int, bool]]:
    """Return the readers, numbers of clients, and whether one encoder serves all sides."""
    alone = [(reader, clients, True) for clients in (1, 16, 64) for reader in READERS]
    return [*alone, ("all", 1, False), ("all", 16, False)]


def report(case: str, found: dict[str, Any]) -> None:
    """Print the figures of one case, and the ratios to LanceDB."""
    print(f"-- {case}")
    for name in ("whence", "lance", "numpy", "encoder"):
        one = found[name]
        print(
            f"{name:8} p50 {one['p50_ms']:7.1f} ms  p95 {one['p95_ms']:7.1f}  process {one['process_ms']:6.1f}"
            f"  server {one['server_ms']:6.1f}  beyond {one['beyond_ms']:6.1f}  {one['per_s']:6.1f} a second"
        )
    parts = (f"{measure} {found[f'ratio_{measure}']:.2f}" for measure in _RATIOS)
    print("whence / lance:", ", ".join(parts), flush=True)


_RATIOS = ("p50_ms", "p95_ms", "beyond_ms", "per_s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--passages", type=int, default=2000)
    parser.add_argument("--searches", type=int, default=32, help="of each turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--json", action="store_true")
    add_options(parser)
    options = parser.parse_args()
    if not (find_spec("lancedb") and find_spec("bm25s")):
        print("skipped, the peers are not installed (pip install --group peers)")
        return
    result = asyncio.run(measure(options))
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
