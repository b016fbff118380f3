"""Measures a ranking mode on a test collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from whence.evaluation import measures
from whence.evaluation.beir import BeirDataset, RunRow
from whence.evaluation.searcher import Hit, Searcher
from whence.schema.errors import BadInput


class DocumentRanking(NamedTuple):
    """Documents of one query, each once."""

    documents: list[Hit]
    """The best passage of each document, best first."""
    latency_ms: float


class DocumentRanker:
    """Searches for more passages until there are enough different documents.

    The number of passages is kept for later queries, so that a collection of long documents needs a second
    search only once. Only the last search is timed. `own_documents` is the document that is the query
    itself, by query text; it is left out.
    """

    def __init__(
        self,
        search: Searcher,
        mode: str,
        depth: int,
        *,
        own_documents: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._search = search
        self._mode = mode
        self._depth = depth
        self._own_documents = own_documents
        self._passages = self._wanted = depth + bool(own_documents)

    async def __call__(self, query: str) -> DocumentRanking:
        """Return the best documents of a query."""
        ranking = await self._best_passages(query)
        own = self._own_documents.get(query)
        documents = [hit for hit in ranking.documents if hit.document_id != own][: self._depth]
        return DocumentRanking(documents, ranking.latency_ms)

    async def _best_passages(self, query: str) -> DocumentRanking:
        while True:
            found = await self._search(query, mode=self._mode, limit=self._passages)
            best: dict[str, Hit] = {}
            for hit in found.hits:
                best.setdefault(hit.document_id, hit)
            if len(best) >= self._wanted or len(found.hits) < self._passages:
                return DocumentRanking(list(best.values())[: self._wanted], found.latency_ms)
            self._passages *= 2


#: Modes in the order in which they are measured.
MODES = ("bm25", "dense", "hybrid", "rerank")


class LatencyPercentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds a query, by nearest rank."""

    p50: float
    p95: float


class ModeScores(msgspec.Struct, frozen=True, kw_only=True):
    """Means over all judged queries; a query without results counts as 0."""

    ndcg_at_10: float = msgspec.field(name="ndcg@10")
    recall_at_100: float = msgspec.field(name="recall@100")
    mrr_at_10: float = msgspec.field(name="mrr@10")
    latency_ms: LatencyPercentiles
    queries_refused: int = 0
    """Queries that cannot be searched for, such as blank ones."""


class Run(msgspec.Struct, kw_only=True):
    """Rankings of one mode."""

    rankings: dict[str, list[Hit]]
    """Documents of each query, best first; empty for a query that was refused."""
    latencies_ms: list[float]
    refused: int = 0


async def run_queries(
    rank: DocumentRanker,
    queries: Mapping[str, str],
    progress: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> Run:
    """Rank documents for every query, one after the other.

    The first query runs once before, untimed, to load what is loaded on first use.
    """
    run = Run(rankings={}, latencies_ms=[])
    for text in list(queries.values())[:1]:
        await _ranking(rank, text)
    for done, (query, text) in enumerate(queries.items(), 1):
        ranking = await _ranking(rank, text)
        run.rankings[query] = ranking.documents if ranking else []
        if ranking is None:
            run.refused += 1
        else:
            run.latencies_ms.append(ranking.latency_ms)
        progress(done, len(queries))
    return run


async def _ranking(rank: DocumentRanker, text: str) -> DocumentRanking | None:
    try:
        return await rank(text)
    except BadInput:
        return None


def scores_of(run: Run, dataset: BeirDataset) -> ModeScores:
    """Measure a run. Cost: linear in the run and the judgements."""
    ndcg, recall, mrr = [], [], []
    for query, documents in run.rankings.items():
        judged = dataset.qrels[query]
        gains = [judged.get(hit.document_id, 0) for hit in documents]
        relevant = sum(grade > 0 for grade in judged.values())
        ndcg.append(measures.ndcg(gains, judged.values(), 10))
        recall.append(measures.recall(gains, relevant, 100))
        mrr.append(measures.reciprocal_rank(gains, 10))
    return ModeScores(
        ndcg_at_10=round(measures.mean(ndcg), 6),
        recall_at_100=round(measures.mean(recall), 6),
        mrr_at_10=round(measures.mean(mrr), 6),
        latency_ms=LatencyPercentiles(
            p50=round(measures.percentile(run.latencies_ms, 50), 3),
            p95=round(measures.percentile(run.latencies_ms, 95), 3),
        ),
        queries_refused=run.refused,
    )


def run_rows(runs: Mapping[str, Run]) -> Iterator[RunRow]:
    """Yield the lines of runs in TREC's format, tagged with the mode (`whence-bm25`)."""
    for mode, run in runs.items():
        for query, documents in run.rankings.items():
            for rank, hit in enumerate(documents, 1):
                yield RunRow(query, hit.document_id, rank, hit.score, f"whence-{mode}")
