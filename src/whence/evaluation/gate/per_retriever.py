"""Scores of each retriever alone, so that a report names the one that got worse.

`bm25` and `dense` are the two retrievers of a hybrid search, `hybrid` is their fusion, `expansion` adds the
links between passages, and `rerank` is the reranked head of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from whence.evaluation import measures
from whence.evaluation.gate.run import score_hits
from whence.evaluation.gate.schema import RetrieverScores, Suite, Tolerance
from whence.evaluation.searcher import Hit, Searcher
from whence.schema.errors import BadInput, DeadlineExceeded, ModelMissing, Overloaded, Unavailable

if TYPE_CHECKING:
    from whence.models.protocols import Reranker

#: Depth of the fused ranking: as deep as a hybrid search reads its two retrievers.
_DEPTH = 100
#: Candidates that are reranked: enough to notice a worse order, in half the time of twice as many.
_RERANKED = 10
_MEASURES = ("recall_at_k", "mrr", "ndcg_at_k")
_DOWN = (Unavailable, ModelMissing, DeadlineExceeded, Overloaded, BadInput)


class RetrieverReport(msgspec.Struct, frozen=True, kw_only=True):
    """Scores of one retriever, now and in the baseline."""

    current: RetrieverScores | None
    """None when it did not run."""
    baseline: RetrieverScores | None
    """None when the baseline does not have it."""
    worse: list[str]
    """Measures below the baseline by more than the tolerance; all of them when it did not run."""


async def measure_retrievers(
    search: Searcher,
    suite: Suite,
    *,
    k: int,
    reranker: Reranker | None,
    progress: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> dict[str, RetrieverScores]:
    """Measure each retriever over a suite; one that fails for some query is left out.

    Cost: three searches and one call of the reranker a query.
    """
    found: dict[str, list[RetrieverScores]] = {}
    for done, query in enumerate(suite.queries, 1):
        for name, hits in (await _rankings(search, query.query, k, reranker)).items():
            found.setdefault(name, []).append(score_hits(query, hits[:k], k)[1])
        progress(done, len(suite.queries))
    return {
        name: RetrieverScores(
            recall_at_k=measures.mean(row.recall_at_k for row in rows),
            mrr=measures.mean(row.mrr for row in rows),
            ndcg_at_k=measures.mean(row.ndcg_at_k for row in rows),
        )
        for name, rows in found.items()
        if len(rows) == len(suite.queries)
    }


async def _rankings(
    search: Searcher, text: str, k: int, reranker: Reranker | None
) -> dict[str, Sequence[Hit]]:
    rankings: dict[str, Sequence[Hit]] = {}
    for mode in ("bm25", "dense", "hybrid"):
        try:
            found = await search(text, mode=mode, limit=k if mode != "hybrid" else max(k, _DEPTH))
        except _DOWN:
            continue
        if not found.degraded:
            rankings[mode] = found.hits
    whole = rankings.get("hybrid")
    if whole is None:
        return rankings
    rankings["expansion"] = whole
    # Without the score of links; equal scores keep their order.
    rankings["hybrid"] = sorted(whole, key=lambda hit: hit.graph_score - hit.score)
    if reranker is not None:
        try:
            rankings["rerank"] = await _reranked(reranker, text, whole[:_RERANKED])
        except _DOWN:
            return rankings
    return rankings


async def _reranked(reranker: Reranker, text: str, hits: Sequence[Hit]) -> list[Hit]:
    scores = await reranker.score(text, [hit.content for hit in hits]) if hits else []
    order = sorted(range(len(hits)), key=lambda place: -scores[place])
    return [hits[place] for place in order]


def compare_retrievers(
    now: Mapping[str, RetrieverScores], before: Mapping[str, RetrieverScores], tolerance: Tolerance
) -> dict[str, RetrieverReport]:
    """Compare the retrievers of a run with those of a baseline; without a run the result is empty."""
    names = [*now, *(name for name in before if name not in now)] if now else []
    return {
        name: RetrieverReport(
            current=now.get(name),
            baseline=before.get(name),
            worse=_worse(now.get(name), before.get(name), tolerance),
        )
        for name in names
    }


def _worse(
    now: RetrieverScores | None, before: RetrieverScores | None, tolerance: Any
) -> list[str]:
    if before is None:
        return []
    if now is None:
        return list(_MEASURES)
    return [
        name
        for name in _MEASURES
        if getattr(now, name) < getattr(before, name) - getattr(tolerance, name) - 1e-9
    ]
