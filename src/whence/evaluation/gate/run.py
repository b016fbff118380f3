"""Runs a suite against a collection and measures the results.

Every query is searched for once, which is its first latency, then three times, of which the shortest is its
warm latency: other work of the machine can only add to it. A result that is slow once and then cached shows in
the first latency alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from whence.evaluation import measures
from whence.evaluation.gate.floor import ReferenceWork, relative_latencies
from whence.evaluation.gate.schema import (
    INTENTS,
    Floor,
    Intent,
    IntentLatency,
    Metrics,
    NegativeTarget,
    RetrieverScores,
    Suite,
    SuiteQuery,
)
from whence.evaluation.searcher import Hit, Searcher, SearchOutcome
from whence.schema.errors import DeadlineExceeded, ModelMissing, Overloaded, Unavailable

#: Searches for each query after the first.
_REPEATS = 3
_PATH = ("/", "#")
_NAME = ("::", ".", "#")
_IN_PATH = re.compile(r"[/#]")
_IN_CODE = re.compile(r"::|[/#.]")


def names_hit(hint: str, hit: Hit) -> bool:
    """Return whether a hint names a hit, ignoring case and surrounding space.

    Segments of a path are separated by `/` or `#`, those of a qualified name by `::`, `.` or `#`, and those
    of the id of a piece of code by any of these.
    """
    wanted = hint.strip().casefold()
    in_id = (*_PATH, *_NAME) if "::" in hit.document_id else _PATH
    return bool(wanted) and (
        _ends(hit.document_id, wanted, in_id)
        or _ends(hit.path, wanted, _PATH)
        or hit.name.casefold() == wanted
        or _ends(hit.qualified_name, wanted, _NAME)
    )


def _ends(text: str, wanted: str, separators: Sequence[str]) -> bool:
    folded = text.casefold()
    return folded == wanted or any(folded.endswith(mark + wanted) for mark in separators)


def documents_named(hints: Iterable[str], document_ids: Iterable[str]) -> dict[str, int]:
    """Count the documents of a collection that each hint names by their id alone.

    A hint with several documents is ambiguous: any of them satisfies it. A hint with none is a name, or a
    missing document.
    Cost: linear in the segments of all ids, independent of the number of hints.
    """
    wanted = {hint: hint.strip().casefold() for hint in hints}
    counts = dict.fromkeys(wanted.values(), 0)
    for one in document_ids:
        for name in _suffixes(one) & counts.keys():
            counts[name] += 1
    return {hint: counts[name] for hint, name in wanted.items()}


def _suffixes(document_id: str) -> set[str]:
    """Return an id and all of its suffixes that begin with a whole segment."""
    folded = document_id.casefold()
    marks = _IN_CODE if "::" in document_id else _IN_PATH
    return {folded, *(folded[found.end() :] for found in marks.finditer(folded))}


def match_hints(hints: Sequence[str], hits: Sequence[Hit]) -> dict[int, int]:
    """Match hints with documents one to one, as many as possible.

    Bipartite matching by augmenting paths (Kuhn, 1955) in rank order: a document once matched stays
    matched, so the best ranks are used. Cost: hints x hits for the comparison, times the number of hints in
    the worst case.

    Returns:
        Index of the hint by index of the hit.
    """
    hint_of: dict[int, int] = {}
    hit_of: dict[int, int] = {}
    fitting: dict[int, list[int]] = {}
    seen: set[str] = set()
    for place, hit in enumerate(hits):
        if hit.document_id not in seen:
            seen.add(hit.document_id)
            fitting[place] = [n for n, hint in enumerate(hints) if names_hit(hint, hit)]

    def augment(place: int, tried: set[int]) -> bool:
        for number in fitting[place]:
            if number not in tried:
                tried.add(number)
                if number not in hit_of or augment(hit_of[number], tried):
                    hit_of[number], hint_of[place] = place, number
                    return True
        return False

    for place in fitting:
        augment(place, set())
    return hint_of


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
    progress: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> list[QueryReport]:
    """Search for every query four times, and do the fixed work after each search.

    One more search before them is not counted. The results are those of the first run.

    Raises:
        NotFound: The collection does not exist. A service that does not answer only degrades its query.
    """
    await _search(search, suite.queries[0], mode, k)
    if reference is not None:
        await reference()
    runs: list[list[SearchOutcome]] = []
    floors: list[list[float] | list[None]] = []
    total = (1 + _REPEATS) * len(suite.queries)
    for number in range(1 + _REPEATS):
        outcomes: list[SearchOutcome] = []
        works: list[float] = []
        for query in suite.queries:
            outcomes.append(await _search(search, query, mode, k))
            if reference is not None:
                works.append(await reference())
            progress(number * len(suite.queries) + len(outcomes), total)
        times = [outcome.latency_ms for outcome in outcomes]
        runs.append(outcomes)
        floors.append(
            [None] * len(times) if reference is None else relative_latencies(times, works)
        )
    return [
        _report(query, outcomes, units, k)
        for query, outcomes, units in zip(
            suite.queries, zip(*runs, strict=True), zip(*floors, strict=True), strict=True
        )
    ]


async def _search(search: Searcher, query: SuiteQuery, mode: str, k: int) -> SearchOutcome:
    started = time.perf_counter()
    try:
        return await search(query.query, mode=mode, limit=k)
    except (Unavailable, ModelMissing, DeadlineExceeded, Overloaded) as error:
        return SearchOutcome(
            hits=[],
            latency_ms=(time.perf_counter() - started) * 1e3,
            degraded=(error.message,),
            timed_out=isinstance(error, DeadlineExceeded),
        )


def _report(
    query: SuiteQuery, outcomes: Sequence[SearchOutcome], floors: Sequence[float | None], k: int
) -> QueryReport:
    first, *repeated = outcomes
    units = [floor for floor in floors[1:] if floor is not None]
    hits = first.hits[:k]
    hints = [target.hint for target in query.expected_targets]
    assigned, scores = score_hits(query, hits, k)
    found = set(assigned.values())
    degraded = {reason for outcome in outcomes for reason in outcome.degraded}
    return QueryReport(
        id=query.id,
        intent=query.intent,
        latency_ms=round(min(outcome.latency_ms for outcome in repeated), 3),
        first_latency_ms=round(first.latency_ms, 3),
        latency_floors=min(units, default=None),
        first_latency_floors=floors[0],
        reciprocal_rank=scores.mrr,
        recall_at_k=scores.recall_at_k,
        ndcg_at_k=scores.ndcg_at_k,
        hit_rank=min(assigned) + 1 if assigned else None,
        zero_results=not hits,
        cluster_ratio=measures.clustering_ratio([hit.path or hit.document_id for hit in hits]),
        semantic_degraded=bool(degraded),
        semantic_budget_exhausted=any(outcome.timed_out for outcome in outcomes),
        negative_hits=_count_negative(query, hits, lambda _target: k),
        negative_violations=_count_negative(query, hits, lambda target: target.within or k),
        found_hints=[hint for number, hint in enumerate(hints) if number in found],
        unmatched_hints=[hint for hint in hints if not any(names_hit(hint, hit) for hit in hits)],
        degraded_reasons=sorted(degraded),
        replayed_equal=bool(degraded)
        or all(_order(outcome.hits[:k]) == _order(hits) for outcome in repeated),
        top_results=[
            TopResult(doc_id=hit.document_id, rank=rank, score=hit.score)
            for rank, hit in enumerate(hits, 1)
        ],
    )


def score_hits(
    query: SuiteQuery, hits: Sequence[Hit], k: int
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
    query: SuiteQuery, hits: Sequence[Hit], depth: Callable[[NegativeTarget], int]
) -> int:
    return sum(
        any(rank <= depth(one) and names_hit(one.hint, hit) for one in query.negative_targets)
        for rank, hit in enumerate(hits, 1)
    )


def _order(hits: Sequence[Hit]) -> list[tuple[str, str]]:
    return [(hit.document_id, hit.content) for hit in hits]


def suite_metrics(queries: Sequence[QueryReport]) -> Metrics:
    """Return the means over queries; of the clustering ratio over those with two results or more."""
    latencies = [query.latency_ms for query in queries]
    first = [query.first_latency_ms for query in queries]
    return Metrics(
        recall_at_k=measures.mean(query.recall_at_k for query in queries),
        mrr=measures.mean(query.reciprocal_rank for query in queries),
        ndcg_at_k=measures.mean(query.ndcg_at_k for query in queries),
        zero_result_rate=measures.mean(query.zero_results for query in queries),
        clustering_ratio=measures.mean(
            query.cluster_ratio for query in queries if query.cluster_ratio is not None
        ),
        degraded_query_rate=measures.mean(query.semantic_degraded for query in queries),
        semantic_budget_exhaustion_rate=measures.mean(
            query.semantic_budget_exhausted for query in queries
        ),
        negative_hit_rate=measures.mean(query.negative_violations > 0 for query in queries),
        latency_p50_ms=measures.percentile(latencies, 50),
        latency_p95_ms=measures.percentile(latencies, 95),
        latency_mean_ms=round(measures.mean(latencies), 3),
        first_latency_p50_ms=measures.percentile(first, 50),
        first_latency_p95_ms=measures.percentile(first, 95),
    )


def group_by_intent(queries: Sequence[QueryReport]) -> dict[Intent, list[QueryReport]]:
    """Return the queries of each intent that occurs; the intents are in their fixed order."""
    groups = {intent: [one for one in queries if one.intent == intent] for intent in INTENTS}
    return {intent: some for intent, some in groups.items() if some}


def latency_by_intent(queries: Sequence[QueryReport]) -> dict[Intent, IntentLatency]:
    """Return the latency of each intent that occurs."""
    found: dict[Intent, IntentLatency] = {}
    for intent, some in group_by_intent(queries).items():
        latencies = [query.latency_ms for query in some]
        found[intent] = IntentLatency(
            sample_count=len(latencies),
            p50_ms=measures.percentile(latencies, 50),
            p95_ms=measures.percentile(latencies, 95),
            mean_ms=round(measures.mean(latencies), 3),
        )
    return found


def latencies_by_check(queries: Sequence[QueryReport]) -> dict[str, tuple[float, float | None]]:
    """Return each latency by the name of its check, in milliseconds and in units of the floor.

    The second is None when the floor was not measured.
    """
    groups = [("latency", "", queries), ("first_latency", "", queries)]
    groups += [("latency", f".{intent}", some) for intent, some in group_by_intent(queries).items()]
    found: dict[str, tuple[float, float | None]] = {}
    for kind, suffix, some in groups:
        times: list[float] = [getattr(one, f"{kind}_ms") for one in some]
        units: list[float | None] = [getattr(one, f"{kind}_floors") for one in some]
        known = [one for one in units if one is not None]
        for percent in (50, 95):
            found[f"{kind}_p{percent}_ms{suffix}"] = (
                measures.percentile(times, percent),
                measures.percentile(known, percent) if len(known) == len(units) else None,
            )
    return found


def floor_of(work: str, queries: Sequence[QueryReport]) -> Floor | None:
    """Return the milliseconds that are the unit of each latency; None when the floor was not measured."""
    times = {
        name: round(ms / units, 6)
        for name, (ms, units) in latencies_by_check(queries).items()
        if units
    }
    return Floor(work=work, times=times) if times else None
