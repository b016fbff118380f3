"""Measures of `benchmarks.quality`, through the processors that serve searches."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.rerank_shares import SHARES, Gain, judged
from whence.evaluation.beir.collection import BeirDataset, load_beir
from whence.evaluation.measures import mean, ndcg, recall, reciprocal_rank
from whence.processors.search import SearchParameters, SearchProcessor
from whence.retrieval.rerank import SEARCH_POOL, text_to_read
from whence.schema.access import Access
from whence.schema.search import Candidate, SearchRequest, SearchResponse
from whence.testing.stub_context import StubContext

__all__ = ("MODES", "PROMISES", "Measured", "broken", "measure_all")

#: Ways of searching, in the order of the table. `hybrid` is without the passage graph, `graph` with it where it
#: is on by default.
MODES = ("bm25", "dense", "hybrid", "graph")
#: What must hold; differences are of nDCG@10.
PROMISES: dict[str, float] = {
    "bm25_mean": 0.543,
    "hybrid_mean": 0.620,
    "hybrid_below_better_leg": 0.005,
    "graph_below_hybrid": 0.005,
    "rerank_gain": 0.005,
    "rerank_p": 0.05,
    "answerable_kept": 0.95,
    "unanswerable_emptied": 0.94,
    "all_gold_in_top_10_of_wikihop": 0.90,
    "scifact_published": 0.6451,
    "scifact_published_within": 0.003,
}
_DEPTH = 100
#: Queries of each collection that are asked of the others.
_ASKED = 60
#: Searches at a time: the store's processes work while ours waits.
_AT_ONCE = 4
_THRESHOLD = 0.5
_CONTEXT = StubContext()
_PUBLIC = Access.public()


class Measured(msgspec.Struct, kw_only=True):
    """All figures of a run."""

    collections: dict[str, dict[str, Any]] = {}
    """Of each collection its sizes, and of each mode its means."""
    kept: float = math.nan
    """Share of queries that keep a hit of their own collection at the default threshold."""
    emptied: float = math.nan
    """Share of queries without one in the other collections."""
    leave_one_out: dict[str, float] = {}
    """nDCG@10 of each collection with the weight of the dense leg that is best for the others."""
    rerank_shares: dict[str, Gain] = {}
    """Of each collection the gain by the share of the reranker that was chosen on the others."""
    rerank_in_use: dict[str, Gain] = {}
    """The same by the share that is in use."""
    published: float | None = None
    """nDCG@10 of SciFact by one vector a document, which is how published figures are made; float32."""


class _Set(msgspec.Struct, kw_only=True):
    """A collection that is indexed, with the vectors of its queries."""

    dataset: BeirDataset
    collection: str
    vectors: dict[str, bytes]
    model: Any
    fused: dict[str, list[Candidate]] = {}
    """Hybrid, without the passage graph."""
    walked: dict[str, list[Candidate]] = {}
    """Hybrid as it is by default."""
    by_share: list[list[float]] = []
    """nDCG@10 of each query by the share of the reranker's score."""


async def measure_all(
    folders: Sequence[Path],
    home: Path,
    *,
    sample: int | None,
    published: bool,
    tell: Callable[[str], None],
) -> Measured:
    """Index what is new and measure everything.

    Args:
        folders: Collections in BEIR's layout.
        home: Where the index is kept.
        sample: Queries of each collection that are reranked, evenly spread; None for all, 0 for none.
        published: Whether SciFact is also measured as published figures are.
        tell: Called with a line now and then.
    """
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings

    settings = Settings.load().replace(home=str(home))
    sets = [await _indexed(folder, settings, tell) for folder in folders]
    measured = Measured()
    async with Resources(settings) as resources:
        run = _Run(await resources.get("store"))
        embedder = await resources.get("embedder")
        for one in sets:
            one.model = embedder.model
            one.vectors = await _embedded(embedder, one.dataset.queries)
            figures = await run.all_modes(one)
            measured.collections[one.dataset.name] = figures
            tell(_line(one.dataset.name, figures))
        measured.leave_one_out = leave_one_out(sets)
        measured.kept = mean([float(run.keeps(one, q)) for one in sets for q in one.walked])
        measured.emptied = await run.emptied(sets)
        for one in sets if sample != 0 else ():
            reranker = await resources.get("reranker")
            figures = await run.reranked(one, reranker, sample)
            measured.collections[one.dataset.name]["rerank"] = figures
        if len(sets) > 1 and all(len(one.by_share) > 1 for one in sets):
            rows = {one.dataset.name: one.by_share for one in sets}
            measured.rerank_shares = judged(rows)
            measured.rerank_in_use = judged(rows, reranker.share)
    scifact = next((one for one in folders if one.name == "scifact"), None)
    if published and scifact is not None:
        measured.published = await _published(scifact, home, settings)
    return measured


async def _indexed(folder: Path, settings: Any, tell: Callable[[str], None]) -> _Set:
    """Index a collection, as `whence eval beir` does; unchanged documents cost nothing."""
    from whence.evaluation.commands.beir import collection_name
    from whence.surfaces.python.engine import Engine

    dataset = load_beir(folder)
    name = collection_name(dataset, settings)
    started = time.perf_counter()
    async with Engine(settings=settings) as engine:
        report = await engine.index([dataset.corpus], collection=name, prune=True)
    tell(f"{name}: {report.embedded} embedded in {time.perf_counter() - started:.0f} s")
    return _Set(dataset=dataset, collection=name, vectors={}, model=None)


async def _embedded(embedder: Any, queries: dict[str, str]) -> dict[str, bytes]:
    vectors = await embedder.embed(list(queries.values()))
    return {query: vector.tobytes() for query, vector in zip(queries, vectors, strict=True)}


class _Run:
    """Searches the collections of a store."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._plain = SearchProcessor(SearchParameters(passage_graph="off"), store=store)
        self._walking = SearchProcessor(SearchParameters(), store=store)

    async def all_modes(self, one: _Set) -> dict[str, Any]:
        """Measure every way of searching on one collection."""
        dataset = one.dataset
        legs = {mode: await self._searched(self._plain, one, mode) for mode in ("bm25", "dense")}
        one.fused = await self._searched(self._plain, one, "hybrid")
        # Where the graph takes no part both searches are the same.
        walks = await self._walks(one)
        one.walked = await self._searched(self._walking, one, "hybrid") if walks else one.fused
        runs = {**legs, "hybrid": one.fused, "graph": one.walked}
        modes = {name: _means(dataset, some) for name, some in runs.items()}
        return {"documents": dataset.documents, "queries": len(dataset.queries), "modes": modes}

    def keeps(self, one: _Set, query: str) -> bool:
        """Return whether a query has a hit at the default threshold."""
        return any(candidate.score >= _THRESHOLD for candidate in one.walked[query][:1])

    async def _walks(self, one: _Set) -> bool:
        """Return whether the passage graph takes part in the default search of a collection."""
        query = next(iter(one.dataset.queries))
        request = _request(one, query, "hybrid", one, _DEPTH)
        return (await self._walking.handle(request, _CONTEXT)).graph is not None

    async def _searched(
        self, processor: SearchProcessor, one: _Set, mode: str
    ) -> dict[str, list[Candidate]]:
        queries = list(one.dataset.queries)
        found = await _few_at_once(
            self._search(processor, one, query, mode, one) for query in queries
        )
        return dict(zip(queries, found, strict=True))

    async def _search(
        self,
        processor: SearchProcessor,
        asker: _Set,
        query: str,
        mode: Any,
        one: _Set,
        limit: int = _DEPTH,
        **fields: Any,
    ) -> list[Candidate]:
        """Search one collection with a query of another, or of its own."""
        while True:
            request = _request(asker, query, mode, one, limit, **fields)
            response: SearchResponse = await processor.handle(request, _CONTEXT)
            found = list(response.candidates)
            # Judgements are about documents: as many different ones as are wanted, where there are.
            documents = len({candidate.document_id for candidate in found})
            if limit < _DEPTH or documents >= _DEPTH or len(found) < limit:
                return found
            limit *= 2

    async def reranked(self, one: _Set, reranker: Any, sample: int | None) -> dict[str, Any]:
        """Return the means of queries before and after their candidates are reranked, as for a question."""
        before, after = {}, {}
        for query in _sampled(one, sample):
            candidates = one.walked[query]
            head = candidates[:SEARCH_POOL]
            scores = await self._read(one, reranker, query, head)
            before[query] = candidates
            after[query] = [*_blended(head, scores, reranker.share), *candidates]
            judged_by = one.dataset.qrels[query]
            rankings = (
                _documents([*_blended(head, scores, share), *candidates]) for share in SHARES
            )
            one.by_share.append([_measures(judged_by, some)["ndcg@10"] for some in rankings])
        means = {"before": _means(one.dataset, before), "after": _means(one.dataset, after)}
        return {"queries": len(before), **means}

    async def _read(
        self, one: _Set, reranker: Any, query: str, head: Sequence[Candidate]
    ) -> list[float]:
        """Return the reranker's scores of candidates, which it reads by their token codes."""
        ids = [candidate.chunk_id for candidate in head]
        texts = await self._store.chunk_texts(one.collection, ids, _PUBLIC)
        content = {text.chunk_id: text_to_read(text.content, text.metadata) for text in texts}
        codes = await self._store.token_codes(one.collection, ids, _PUBLIC)
        scores: list[float] = await reranker.score_coded(
            one.dataset.queries[query],
            [content[chunk_id] for chunk_id in ids],
            [codes.get(chunk_id, b"") for chunk_id in ids],
        )
        return scores

    async def emptied(self, sets: Sequence[_Set]) -> float:
        """Return the share of queries that find nothing in another collection than their own."""
        found = await _few_at_once(
            self._search(self._walking, asker, query, "hybrid", one, 1, threshold=_THRESHOLD)
            for one in sets
            for asker in sets
            for query in (_sampled(asker, _ASKED) if asker is not one else ())
        )
        return mean([float(not some) for some in found]) if found else math.nan


async def _few_at_once(searches: Iterable[Awaitable[list[Candidate]]]) -> list[list[Candidate]]:
    """Return what searches find, in order."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(search: Awaitable[list[Candidate]]) -> list[Candidate]:
        async with free:
            return await search

    return await asyncio.gather(*(one(search) for search in searches))


def _sampled(one: _Set, count: int | None) -> list[str]:
    """Return so many queries of a collection, evenly spread; all where there are fewer, or without a count."""
    queries = list(one.dataset.queries)
    return queries if count is None else queries[:: max(1, len(queries) // count)][:count]


def _request(
    asker: _Set, query: str, mode: Any, one: _Set, limit: int, **fields: Any
) -> SearchRequest:
    return SearchRequest(
        access=_PUBLIC,
        collection=one.collection,
        limit=limit,
        vector=asker.vectors[query],
        model=one.model,
        query_text=asker.dataset.queries[query],
        mode=mode,
        **fields,
    )


def _blended(head: Sequence[Candidate], scores: Sequence[float], share: float) -> list[Candidate]:
    """Order candidates as the reranker's processor does, with any share of the reranker's score."""
    pairs = zip(head, scores, strict=True)
    scored = [((share - 1.0) * one.score - share * score, one) for one, score in pairs]
    # Python's sort is stable: ties keep the order of the candidates.
    return [one for _, one in sorted(scored, key=lambda pair: pair[0])]


def _documents(candidates: Sequence[Candidate]) -> list[str]:
    """Return the documents of a ranking, each at the place of its best passage."""
    return list(dict.fromkeys(candidate.document_id for candidate in candidates))


def _means(dataset: BeirDataset, runs: dict[str, list[Candidate]]) -> dict[str, float]:
    rows = [_measures(dataset.qrels[query], _documents(runs[query])) for query in runs]
    return {name: mean([row[name] for row in rows]) for name in rows[0]}


def _measures(judged: dict[str, int], documents: list[str]) -> dict[str, float]:
    gains = [judged.get(document, 0) for document in documents]
    relevant = {document for document, grade in judged.items() if grade > 0}
    return {
        "ndcg@10": ndcg(gains, judged.values(), 10),
        "recall@100": recall(gains, len(relevant), 100),
        "mrr@10": reciprocal_rank(gains, 10),
        "all_gold@10": float(relevant <= set(documents[:10])),
    }


def leave_one_out(sets: Sequence[_Set]) -> dict[str, float]:
    """Return what each collection would score with the weight that is best for the mean of the others.

    Over the hundred best candidates of the hybrid search, whose two scores are known. How far it is from what
    the weight in use scores tells how much of the figures is owed to tuning on these collections.
    """
    grid = [weight / 100 for weight in range(20, 61, 5)]
    table = {one.dataset.name: [_weighted(one, weight) for weight in grid] for one in sets}
    chosen = {}
    for name in table:
        others = [scores for other, scores in table.items() if other != name]
        totals = [sum(column) for column in zip(*others, strict=True)] or [0.0]
        chosen[name] = table[name][totals.index(max(totals))]
    return chosen


def _weighted(one: _Set, weight: float) -> float:
    def total(candidate: Candidate) -> float:
        cosine = max(0.0, candidate.dense_score or 0.0)
        return weight * cosine + (1 - weight) * (candidate.sparse_score or 0.0)

    values = []
    for query, candidates in one.fused.items():
        ordered = sorted(candidates, key=lambda c: (-total(c), c.chunk_id))
        values.append(_measures(one.dataset.qrels[query], _documents(ordered))["ndcg@10"])
    return mean(values)


async def _published(folder: Path, home: Path, settings: Any) -> float:
    """Measure MiniLM as published figures are: float32, one vector of the first 256 tokens for each document.

    The vectors are kept beside the index.
    """
    import numpy as np

    from whence.flow.resources import Resources

    dataset = load_beir(folder)
    records = [json.loads(line) for line in dataset.corpus.read_text("utf-8").splitlines()]
    cache = home / f"{dataset.name}-float32.npy"
    async with Resources(settings.replace(embedder="local:float32")) as resources:
        embedder = await resources.get("embedder")
        if not cache.is_file():
            texts = [f"{one.get('title', '')} {one['text']}".strip() for one in records]
            np.save(cache, await embedder.embed(texts, "document"))
        vectors = np.load(cache)
        queries = await embedder.embed(list(dataset.queries.values()))
    values = []
    for query, vector in zip(dataset.queries, queries, strict=True):
        best = np.argsort(-(vectors @ vector), kind="stable")[:_DEPTH]
        documents = [str(records[place]["_id"]) for place in best]
        values.append(_measures(dataset.qrels[query], documents)["ndcg@10"])
    return mean(values)


def broken(measured: Measured) -> list[str]:
    """Name the promises that the figures break."""
    return [text for text, kept in _checks(measured) if not kept]


def _checks(measured: Measured) -> Iterator[tuple[str, bool]]:
    def score(name: str, mode: str) -> float:
        value: float = measured.collections[name]["modes"][mode]["ndcg@10"]
        return value

    names = list(measured.collections)
    for mode in ("bm25", "hybrid") if len(names) == 8 else ():
        value, least = mean([score(name, mode) for name in names]), PROMISES[f"{mode}_mean"]
        yield f"mean nDCG@10 of {mode} is {value:.4f}, below {least}", value >= least
    for name in names:
        leg = max(score(name, "bm25"), score(name, "dense"))
        yield from _not_below(name, "hybrid", score(name, "hybrid"), leg, "hybrid_below_better_leg")
        walked = score(name, "graph")
        yield from _not_below(name, "graph", walked, score(name, "hybrid"), "graph_below_hybrid")
        if gain := measured.rerank_in_use.get(name):
            harms = gain.gain < 0 and gain.p < PROMISES["rerank_p"]
            yield f"reranking harms {name}: {gain.gain:+.4f}, p {gain.p:.4f}", not harms
    for found in (measured.rerank_in_use, measured.rerank_shares) if len(names) == 8 else ():
        if gain := found.get("all"):
            least = PROMISES["rerank_gain"] if found is measured.rerank_in_use else 0.0
            kept = gain.gain >= least and gain.p < PROMISES["rerank_p"]
            yield f"reranking gains {gain.gain:.4f}, p {gain.p:.4f}: below {least} or chance", kept
    thresholds = {"answerable_kept": measured.kept, "unanswerable_emptied": measured.emptied}
    for what, value in thresholds.items() if len(names) == 8 else ():
        yield f"{what} is {value:.4f}, below {PROMISES[what]}", value >= PROMISES[what]
    if "wikihop" in names:
        value = measured.collections["wikihop"]["modes"]["graph"]["all_gold@10"]
        least = PROMISES["all_gold_in_top_10_of_wikihop"]
        yield f"all gold in the top 10 of wikihop is {value:.4f}, below {least}", value >= least
    if measured.published is not None:
        off = abs(measured.published - PROMISES["scifact_published"])
        within = PROMISES["scifact_published_within"]
        yield f"dense SciFact is {measured.published:.4f}, off the published", off <= within


def _not_below(
    name: str, mode: str, value: float, than: float, promise: str
) -> Iterator[tuple[str, bool]]:
    kept = value >= than - PROMISES[promise]
    yield f"{mode} on {name} is {value:.4f}, more than {PROMISES[promise]} below {than:.4f}", kept


def _line(name: str, figures: dict[str, Any]) -> str:
    values = (f"{mode} {scores['ndcg@10']:.4f}" for mode, scores in figures["modes"].items())
    return f"{name:10} " + "  ".join(values)
