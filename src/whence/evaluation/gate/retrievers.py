"""Scores of each retriever alone, now and in the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from whence.evaluation import measures
from whence.evaluation.gate.files import RetrieverScores, Tolerance
from whence.evaluation.gate.query_reports import score_hits
from whence.evaluation.run import SERVICE_ERRORS, Plan, Progress, ask_suite, no_progress
from whence.evaluation.searcher import Passage, Searcher
from whence.evaluation.suite import Suite
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from whence.models.protocols import Reranker

#: Depth of the fused ranking: as deep as a hybrid search reads its two retrievers.
_DEPTH = 100
#: Candidates that are reranked: enough to notice a worse order, in half the time of twice as many.
_RERANKED = 10
_MODES = ("bm25", "dense", "hybrid")
_MEASURES = RetrieverScores.__struct_fields__
_DOWN = (*SERVICE_ERRORS, BadInput)


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
    progress: Progress = no_progress,
) -> dict[str, RetrieverScores]:
    """Measure each retriever over a suite; one that fails for some query is left out.

    Cost: three searches and one call of the reranker a query.
    """
    count = len(suite.queries)
    rankings: dict[str, list[Sequence[Passage]]] = {}
    for number, mode in enumerate(_MODES):

        def moved(done: int, _total: int | None, before: int = number * count) -> None:
            progress(before + done, len(_MODES) * count)

        limit = k if mode != "hybrid" else max(k, _DEPTH)
        plan = Plan(mode=mode, limit=limit, warm_up=False, recorded=_DOWN)
        run = await ask_suite(search, suite, plan, progress=moved)
        if not any(one.error or one.degraded for one in run.first):
            rankings[mode] = [one.passages for one in run.first]
    if whole := rankings.get("hybrid"):
        rankings["expansion"] = whole
        # Without the score of links; equal scores keep their order.
        rankings["hybrid"] = [
            sorted(one, key=lambda hit: hit.graph_score - hit.score) for one in whole
        ]
        if reranker is not None and (reranked := await _reranked(reranker, suite, whole)):
            rankings["rerank"] = reranked
    return {name: _mean_scores(suite, found, k) for name, found in rankings.items()}


async def _reranked(
    reranker: Reranker, suite: Suite, rankings: Sequence[Sequence[Passage]]
) -> list[Sequence[Passage]]:
    """Return the first passages of each query in the order of the reranker; none when it fails."""
    found: list[Sequence[Passage]] = []
    try:
        for query, ranking in zip(suite.queries, rankings, strict=True):
            hits = ranking[:_RERANKED]
            scores = await reranker.score(query.text, [hit.text for hit in hits]) if hits else []
            order = sorted(range(len(hits)), key=lambda place: -(scores[place] or 0.0))
            found.append([hits[place] for place in order])
    except _DOWN:
        return []
    return found


def _mean_scores(suite: Suite, rankings: Sequence[Sequence[Passage]], k: int) -> RetrieverScores:
    rows = [
        score_hits(query, hits[:k], k)[1]
        for query, hits in zip(suite.queries, rankings, strict=True)
    ]
    return RetrieverScores(
        **{key: measures.mean(getattr(row, key) for row in rows) for key in _MEASURES}
    )


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
    now: RetrieverScores | None, before: RetrieverScores | None, tolerance: Tolerance
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
