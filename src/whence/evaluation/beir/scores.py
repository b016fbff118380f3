"""Runs a test collection in a ranking mode, by documents, and measures the run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from whence.evaluation import measures
from whence.evaluation.beir.collection import BeirDataset
from whence.evaluation.beir.trec import RunRow
from whence.evaluation.run import Plan, Progress, RecordedSearch, Run, ask_suite, no_progress
from whence.evaluation.searcher import Passage, Searcher, SearchOutcome
from whence.schema.errors import BadInput

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


class DocumentSearcher:
    """Searches for more passages until there are enough different documents.

    The number of passages is kept for later queries, so that a collection of long documents needs a second
    search only once. Only the last search is timed.
    """

    def __init__(self, search: Searcher) -> None:
        self._search = search
        self._passages = 0

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        """Return the best passage of each document, best first."""
        self._passages = max(self._passages, limit)
        while True:
            started = time.perf_counter()
            found = await self._search(query, mode=mode, limit=self._passages)
            latency_ms = found.latency_ms or (time.perf_counter() - started) * 1e3
            best: dict[str, Passage] = {}
            for passage in found.passages:
                best.setdefault(passage.document_id, passage)
            if len(best) >= limit or len(found.passages) < self._passages:
                documents = list(best.values())[:limit]
                return msgspec.structs.replace(found, passages=documents, latency_ms=latency_ms)
            self._passages *= 2


async def run_collection(
    search: Searcher,
    dataset: BeirDataset,
    *,
    mode: str,
    depth: int,
    progress: Progress = no_progress,
) -> Run:
    """Rank documents for every query, one after the other; a query that is refused has none."""
    # One more, in place of the document that is the query itself.
    plan = Plan(mode=mode, limit=depth + bool(dataset.own_documents), recorded=(BadInput,))
    return await ask_suite(DocumentSearcher(search), dataset.suite, plan, progress=progress)


def ranking_of(found: RecordedSearch, depth: int) -> Sequence[Passage]:
    """Return the documents of a search, without the one that is the query."""
    own = found.query.own_document
    return [one for one in found.passages if one.document_id != own][:depth]


def scores_of(run: Run, depth: int) -> ModeScores:
    """Measure a run. Cost: linear in the run and the judgements."""
    ndcg, recall, mrr = [], [], []
    for found in run.first:
        judged = found.query.grades
        gains = [judged.get(one.document_id, 0) for one in ranking_of(found, depth)]
        relevant = sum(grade > 0 for grade in judged.values())
        ndcg.append(measures.ndcg(gains, judged.values(), 10))
        recall.append(measures.recall(gains, relevant, 100))
        mrr.append(measures.reciprocal_rank(gains, 10))
    latencies = [found.latency_ms for found in run.first if not found.refused]
    return ModeScores(
        ndcg_at_10=round(measures.mean(ndcg), 6),
        recall_at_100=round(measures.mean(recall), 6),
        mrr_at_10=round(measures.mean(mrr), 6),
        latency_ms=LatencyPercentiles(
            p50=round(measures.percentile(latencies, 50), 3),
            p95=round(measures.percentile(latencies, 95), 3),
        ),
        queries_refused=sum(found.refused for found in run.first),
    )


def run_rows(runs: Mapping[str, Run], depth: int) -> Iterator[RunRow]:
    """Yield the lines of runs in TREC's format, tagged with the mode (`whence-bm25`)."""
    for mode, run in runs.items():
        for found in run.first:
            for rank, one in enumerate(ranking_of(found, depth), 1):
                yield RunRow(found.query.id, one.document_id, rank, one.score, f"whence-{mode}")
