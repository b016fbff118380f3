"""Runs a suite for the gate, and measures each query and all of them together.

Every query is searched for once, which is its first latency, then three times, of which the shortest is its
warm latency: other work of the machine can only add to it. A result that is slow once and then cached shows in
the first latency alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from whence.evaluation import measures
from whence.evaluation.gate.files import Floor, IntentLatency, Metrics, RetrieverScores
from whence.evaluation.gate.hints import match_hints, names_hit
from whence.evaluation.gate.reference_work import ReferenceWork, relative_latencies
from whence.evaluation.run import Plan, Progress, RecordedSearch, Run, ask_suite, no_progress
from whence.evaluation.searcher import Passage, Searcher
from whence.evaluation.suite import INTENTS, Intent, NegativeTarget, Query, Suite

#: Searches for each query after the first.
_REPEATS = 3
#: Measures, and the field of a query that each is the mean of.
MEASURES = {"ndcg_at_k": "ndcg_at_k", "mrr": "reciprocal_rank", "recall_at_k": "recall_at_k"}
_RATES = {
    "zero_result_rate": "zero_results",
    "degraded_query_rate": "semantic_degraded",
    "semantic_budget_exhaustion_rate": "semantic_budget_exhausted",
}


class TopResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a query."""

    doc_id: str
    rank: int
    score: float


class QueryReport(msgspec.Struct, frozen=True, kw_only=True):
    """Results and measures of one query."""

    id: str
    intent: Intent
    latency_ms: float
    """The shortest of the repeated searches."""
    first_latency_ms: float
    latency_floors: float | None
    """In units of the floor: the smallest of the repeated searches; None when it was not measured."""
    first_latency_floors: float | None
    reciprocal_rank: float
    recall_at_k: float
    ndcg_at_k: float
    hit_rank: int | None
    zero_results: bool
    cluster_ratio: float | None
    """None for fewer than two results."""
    semantic_degraded: bool
    semantic_budget_exhausted: bool
    negative_hits: int
    """Results within k that match a negative target."""
    negative_violations: int
    """Those of them within the rank that their target sets."""
    found_hints: list[str]
    unmatched_hints: list[str]
    """Expected targets that no result of this query matched."""
    degraded_reasons: list[str]
    replayed_equal: bool
    """False when runs, none of them degraded, gave different orders."""
    top_results: list[TopResult]


class SuiteRun(NamedTuple):
    """A run of a suite, and the state of the collection it ran on."""

    queries: list[QueryReport]
    """Results, sorted by the queries' ids."""
    collection: str
    digest: str
    """Digest of the collection."""
    document_ids: Sequence[str] = ()
    """Documents of the collection."""
    legs: Mapping[str, RetrieverScores] = MappingProxyType({})
    """Scores of each retriever by name; empty when none was measured."""
    work: str = ""
    """Name of the fixed work that is the unit of latencies; empty when it was not done."""


async def run_suite(
    search: Searcher,
    suite: Suite,
    *,
    mode: str,
    k: int,
    reference: ReferenceWork | None = None,
    progress: Progress = no_progress,
) -> list[QueryReport]:
    """Search for every query four times, and do the fixed work after each search.

    Raises:
        NotFound: The collection does not exist. A service that does not answer only degrades its query.
    """
    plan = Plan(mode=mode, limit=k, repeats=_REPEATS * len(suite.queries), work=reference)
    run = await ask_suite(search, suite, plan, progress=progress)
    return query_reports(run, k)


def query_reports(run: Run, k: int) -> list[QueryReport]:
    """Measure the queries of a run; the results are those of their first searches."""
    found = [*run.first, *run.sequence]
    count = len(run.first)
    rounds = [found[at : at + count] for at in range(0, len(found), count)]
    floors = [_floors(one) for one in rounds]
    return [
        _report([one[at] for one in rounds], [one[at] for one in floors], k) for at in range(count)
    ]


def _floors(searches: Sequence[RecordedSearch]) -> Sequence[float | None]:
    works = [one.work_ms for one in searches if one.work_ms is not None]
    if len(works) < len(searches):
        return [None] * len(searches)
    return relative_latencies([one.latency_ms for one in searches], works)


def _report(
    searches: Sequence[RecordedSearch], floors: Sequence[float | None], k: int
) -> QueryReport:
    first, *repeated = searches
    query, hits = first.query, first.passages[:k]
    units = [floor for floor in floors[1:] if floor is not None]
    hints = [target.hint for target in query.expected_targets]
    assigned, scores = score_hits(query, hits, k)
    found = set(assigned.values())
    degraded = {reason for one in searches for reason in (*one.degraded, one.error) if reason}
    return QueryReport(
        id=query.id,
        intent=query.intent,
        latency_ms=round(min(one.latency_ms for one in repeated), 3),
        first_latency_ms=round(first.latency_ms, 3),
        latency_floors=min(units, default=None),
        first_latency_floors=floors[0],
        reciprocal_rank=scores.mrr,
        recall_at_k=scores.recall_at_k,
        ndcg_at_k=scores.ndcg_at_k,
        hit_rank=min(assigned) + 1 if assigned else None,
        zero_results=not hits,
        cluster_ratio=measures.clustering_ratio(
            [hit.source_file or hit.document_id for hit in hits]
        ),
        semantic_degraded=bool(degraded),
        semantic_budget_exhausted=any(one.timed_out for one in searches),
        negative_hits=_count_negative(query, hits, lambda _target: k),
        negative_violations=_count_negative(query, hits, lambda target: target.within or k),
        found_hints=[hint for number, hint in enumerate(hints) if number in found],
        unmatched_hints=[hint for hint in hints if not any(names_hit(hint, hit) for hit in hits)],
        degraded_reasons=sorted(degraded),
        replayed_equal=bool(degraded)
        or all(_order(one.passages[:k]) == _order(hits) for one in repeated),
        top_results=[
            TopResult(doc_id=hit.document_id, rank=rank, score=hit.score)
            for rank, hit in enumerate(hits, 1)
        ],
    )


def score_hits(
    query: Query, hits: Sequence[Passage], k: int
) -> tuple[dict[int, int], RetrieverScores]:
    """Return the expected target of each hit, by places from 0, and the measures of the first k hits."""
    hints = [target.hint for target in query.expected_targets]
    assigned = match_hints(hints, hits)
    gains = [float(place in assigned) for place in range(len(hits))]
    return assigned, RetrieverScores(
        recall_at_k=measures.recall(gains, len(hints), k),
        mrr=measures.reciprocal_rank(gains, k),
        ndcg_at_k=measures.ndcg(gains, [1.0] * len(hints), k),
    )


def _count_negative(
    query: Query, hits: Sequence[Passage], depth: Callable[[NegativeTarget], int]
) -> int:
    return sum(
        any(rank <= depth(one) and names_hit(one.hint, hit) for one in query.negative_targets)
        for rank, hit in enumerate(hits, 1)
    )


def _order(hits: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(hit.document_id, hit.text) for hit in hits]


def suite_metrics(queries: Sequence[QueryReport]) -> Metrics:
    """Return the means over queries; of the clustering ratio over those with two results or more."""
    ratios = [query.cluster_ratio for query in queries if query.cluster_ratio is not None]
    latencies = _percentiles("latency", queries) | _percentiles("first_latency", queries)
    return Metrics(
        **{
            name: measures.mean(getattr(query, field) for query in queries)
            for name, field in (MEASURES | _RATES).items()
        },
        clustering_ratio=measures.mean(ratios),
        negative_hit_rate=measures.mean(query.negative_violations > 0 for query in queries),
        latency_mean_ms=_mean_latency(queries),
        **{name: ms for name, (ms, _) in latencies.items()},
    )


def _mean_latency(queries: Sequence[QueryReport]) -> float:
    return round(measures.mean(query.latency_ms for query in queries), 3)


def group_by_intent(queries: Sequence[QueryReport]) -> dict[Intent, list[QueryReport]]:
    """Return the queries of each intent that occurs; the intents are in their fixed order."""
    groups = {intent: [one for one in queries if one.intent == intent] for intent in INTENTS}
    return {intent: some for intent, some in groups.items() if some}


def latency_by_intent(queries: Sequence[QueryReport]) -> dict[Intent, IntentLatency]:
    """Return the latency of each intent that occurs."""
    return {
        intent: IntentLatency(
            sample_count=len(some),
            p50_ms=measures.percentile([one.latency_ms for one in some], 50),
            p95_ms=measures.percentile([one.latency_ms for one in some], 95),
            mean_ms=_mean_latency(some),
        )
        for intent, some in group_by_intent(queries).items()
    }


def latencies_by_check(queries: Sequence[QueryReport]) -> dict[str, tuple[float, float | None]]:
    """Return each latency by the name of its check, in milliseconds and in units of the floor.

    The second is None when the floor was not measured.
    """
    found = _percentiles("latency", queries) | _percentiles("first_latency", queries)
    for intent, some in group_by_intent(queries).items():
        found |= _percentiles("latency", some, f".{intent}")
    return found


def _percentiles(
    kind: str, queries: Sequence[QueryReport], suffix: str = ""
) -> dict[str, tuple[float, float | None]]:
    times = [getattr(one, f"{kind}_ms") for one in queries]
    units = [getattr(one, f"{kind}_floors") for one in queries]
    return {
        f"{kind}_p{percent}_ms{suffix}": (
            measures.percentile(times, percent),
            None if None in units else measures.percentile(units, percent),
        )
        for percent in (50, 95)
    }


def floor_of(work: str, queries: Sequence[QueryReport]) -> Floor | None:
    """Return the milliseconds that are the unit of each latency; None when the floor was not measured."""
    times = {
        name: round(ms / units, 6)
        for name, (ms, units) in latencies_by_check(queries).items()
        if units
    }
    return Floor(work=work, times=times) if times else None
