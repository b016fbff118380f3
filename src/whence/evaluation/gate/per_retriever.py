"""Every way of ranking alone, so that a report says which one got worse.

`bm25` and `dense` are the two sides of a hybrid search, `hybrid` is what joins them, `expansion` what links
between passages make of that, `rerank` what a reranker makes of its best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from whence.evaluation import measures
from whence.evaluation.gate.matching import assign
from whence.evaluation.gate.schema import RetrieverScores, Suite, SuiteQuery, Tolerance
from whence.evaluation.searcher import Hit, Searcher
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ModelMissing,
    Overloaded,
    Unavailable,
)

if TYPE_CHECKING:
    from whence.models.protocols import Reranker

__all__ = ("RetrieverReport", "compare_retrievers", "measure_retrievers")

#: Candidates that the last legs order: as deep as a hybrid search looks into its own two sides.
_DEPTH = 100
#: Candidates that are reranked: enough to see their order get worse, at half the time of twice as many.
_RERANKED = 10
_MEASURES = ("recall_at_k", "mrr", "ndcg_at_k")
_DOWN = (Unavailable, ModelMissing, DeadlineExceeded, Overloaded, BadInput)


class RetrieverReport(msgspec.Struct, frozen=True, kw_only=True):
    """One way of ranking, now and when the baseline was recorded."""

    current: RetrieverScores | None
    """None when it did not run now."""
    baseline: RetrieverScores | None
    """None when the baseline has it not."""
    worse: list[str]
    """Measures that fell below the baseline by more than the tolerance; all when it does not run any more."""


async def measure_retrievers(
    search: Searcher,
    suite: Suite,
    *,
    k: int,
    reranker: Reranker | None,
    progress: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> dict[str, RetrieverScores]:
    """Measure each way of ranking over a suite.

    Three searches a query, and one call of the reranker. A leg that cannot run for some query is left out.

    Args:
        search: What is measured.
        suite: Its queries.
        k: Results of each query, 1 or more.
        reranker: Scores texts; None leaves `rerank` out.
        progress: Called with the number of queries done and their number.
    """
    found: dict[str, list[Mapping[str, float]]] = {}
    for done, query in enumerate(suite.queries, 1):
        for leg, hits in (await _rankings(search, query.query, k, reranker)).items():
            found.setdefault(leg, []).append(_measured(query, hits[:k], k))
        progress(done, len(suite.queries))
    return {
        leg: msgspec.convert(
            {name: measures.mean(row[name] for row in rows) for name in _MEASURES}, RetrieverScores
        )
        for leg, rows in found.items()
        if len(rows) == len(suite.queries)
    }


async def _rankings(
    search: Searcher, text: str, k: int, reranker: Reranker | None
) -> dict[str, Sequence[Hit]]:
    """Return the hits of one query by leg, best first."""
    legs: dict[str, Sequence[Hit]] = {}
    for mode in ("bm25", "dense", "hybrid"):
        try:
            found = await search(text, mode=mode, limit=k if mode != "hybrid" else max(k, _DEPTH))
        except _DOWN:
            continue
        if not found.degraded:
            legs[mode] = found.hits
    whole = legs.get("hybrid")
    if whole is None:
        return legs
    legs["expansion"] = whole
    # Without what links added; equal scores keep their order.
    legs["hybrid"] = sorted(whole, key=lambda hit: hit.graph_score - hit.score)
    if reranker is not None:
        try:
            legs["rerank"] = await _reranked(reranker, text, whole[:_RERANKED])
        except _DOWN:
            return legs
    return legs


async def _reranked(reranker: Reranker, text: str, hits: Sequence[Hit]) -> list[Hit]:
    scores = await reranker.score(text, [hit.content for hit in hits]) if hits else []
    order = sorted(range(len(hits)), key=lambda place: -scores[place])
    return [hits[place] for place in order]


def _measured(query: SuiteQuery, hits: Sequence[Hit], k: int) -> Mapping[str, float]:
    hints = [target.hint for target in query.expected_targets]
    assigned = assign(hints, hits)
    gains = [float(place in assigned) for place in range(len(hits))]
    return {
        "recall_at_k": measures.recall(gains, len(hints), k),
        "mrr": measures.reciprocal_rank(gains, k),
        "ndcg_at_k": measures.ndcg(gains, [1.0] * len(hints), k),
    }


def compare_retrievers(
    now: Mapping[str, RetrieverScores], before: Mapping[str, RetrieverScores], tolerance: Tolerance
) -> dict[str, RetrieverReport]:
    """Put the legs of a run beside those of a baseline; without either there is nothing to compare."""
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
