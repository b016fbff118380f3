"""The report of the gate, the baseline that it records, and the check that two runs are comparable."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from whence.evaluation import measures
from whence.evaluation.files import digest_of
from whence.evaluation.gate.gate_result import (
    changed_queries,
    check_run,
    loose_checks,
    machine_factors,
)
from whence.evaluation.gate.run import (
    SuiteRun,
    documents_named,
    floor_of,
    group_by_intent,
    latency_by_intent,
    score_hits,
    suite_metrics,
)
from whence.evaluation.gate.schema import (
    BASELINE_VERSION,
    Baseline,
    BaselineQuery,
    Metrics,
    Policy,
    RetrieverScores,
    Suite,
    Tolerance,
)
from whence.evaluation.measures import bootstrap_interval
from whence.evaluation.searcher import Hit, Searcher
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ModelMissing,
    NotFound,
    Overloaded,
    Unavailable,
)
from whence.store.protocols import Store

if TYPE_CHECKING:
    from whence.models.protocols import Reranker

#: Depth of the fused ranking: as deep as a hybrid search reads its two retrievers.
_DEPTH = 100
#: Candidates that are reranked: enough to notice a worse order, in half the time of twice as many.
_RERANKED = 10
#: Measures, and the field of a query that each is the mean of.
_MEASURES = {"recall_at_k": "recall_at_k", "mrr": "reciprocal_rank", "ndcg_at_k": "ndcg_at_k"}
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
            **{key: measures.mean(getattr(row, key) for row in rows) for key in _MEASURES}
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
    order = sorted(range(len(hits)), key=lambda place: -(scores[place] or 0.0))
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


REPORT_VERSION = "retrieval-eval-report-v1"
#: Documents read at a time.
_BATCH = 1000


def check_comparable(baseline: Baseline, suite: Suite, k: int) -> None:
    """Refuse a baseline of another suite or another number of results."""
    pairs = (
        ("suite_version", baseline.suite_version, suite.version),
        ("suite_digest", baseline.suite_digest, digest_of(suite)),
        ("k", baseline.k, k),
    )
    for name, before, now in pairs:
        if before != now:
            raise BadInput(
                f"the baseline's {name} is {before!r}, this run's is {now!r}",
                hint="record a new baseline with `whence eval baseline`",
            )


async def collection_digest(store: Store, collection: str) -> str:
    """Return a digest of the ids and contents of all documents of a collection.

    Cost: linear in the documents; their texts are not read.
    """
    if await store.collection(collection) is None:
        raise NotFound(
            f"there is no collection {collection!r}",
            hint="index something into it first; `whence collections` lists the existing ones",
        )
    ids = await store.document_ids(collection)
    digest = hashlib.sha256()
    for start in range(0, len(ids), _BATCH):
        states = await store.document_states(collection, ids[start : start + _BATCH])
        for name, state in sorted(states.items()):
            digest.update(msgspec.json.encode([name, state.digest]))
    return digest.hexdigest()


def make_baseline(
    run: SuiteRun,
    suite: Suite,
    *,
    k: int,
    mode: Any,
    version: str,
) -> Baseline:
    """Return a run as a baseline."""
    return Baseline(
        version=BASELINE_VERSION,
        suite_version=suite.version,
        suite_digest=digest_of(suite),
        k=k,
        mode=mode,
        collection=run.collection,
        collection_digest=run.digest,
        whence_version=version,
        metrics=suite_metrics(run.queries),
        latency_by_intent=latency_by_intent(run.queries),
        floor=floor_of(run.work, run.queries),
        per_query=msgspec.convert(run.queries, list[BaselineQuery], from_attributes=True),
        legs=dict(run.legs),
    )


class BaselineChange(msgspec.Struct, frozen=True, kw_only=True):
    """One value that differs between two baselines."""

    what: str
    before: Any
    after: Any


def baseline_changes(before: Baseline, after: Baseline) -> list[BaselineChange]:
    """Return the differences between two baselines, except latencies, which differ every time."""
    fields = ("suite_version", "suite_digest", "k", "mode", "collection_digest")
    rows = [(name, getattr(before, name), getattr(after, name)) for name in fields]
    rows += [
        (name, getattr(before.metrics, name), getattr(after.metrics, name))
        for name in Metrics.__struct_fields__
        if "latency_" not in name
    ]
    old = {query.id: query.hit_rank for query in before.per_query}
    new = {query.id: query.hit_rank for query in after.per_query}
    rows += [
        (f"first hit of {one}", old.get(one), new.get(one))
        for one in sorted(old.keys() | new.keys())
    ]
    return [
        BaselineChange(what=what, before=was, after=now) for what, was, now in rows if was != now
    ]


def gate_document(
    run: SuiteRun,
    suite: Suite,
    baseline: Baseline,
    policy: Policy,
    *,
    dry_run: bool,
    measurements: int = 1,
) -> dict[str, Any]:
    """Return the whole report with the result of the gate; `measurements` counts the runs until this one."""
    floor = floor_of(run.work, run.queries)
    gate = check_run(run.queries, baseline, policy, floor)
    report = {
        "version": REPORT_VERSION,
        "suite_version": suite.version,
        "suite_digest": digest_of(suite),
        "k": baseline.k,
        "mode": baseline.mode,
        "collection": run.collection,
        "collection_digest": run.digest,
        "collection_changed": baseline.collection_digest not in ("", run.digest),
        "dry_run": dry_run,
        "measurements": measurements,
        "total_queries": len(run.queries),
        "metrics": suite_metrics(run.queries),
        "intervals": {
            name: bootstrap_interval([getattr(query, field) for query in run.queries])._asdict()
            for name, field in _MEASURES.items()
        },
        "metrics_by_intent": {
            intent: suite_metrics(queries)
            for intent, queries in group_by_intent(run.queries).items()
        },
        "latency_by_intent": latency_by_intent(run.queries),
        "floor": floor,
        "machine_factors": machine_factors(floor, baseline.floor),
        "unmatched_hints": [
            {"id": query.id, "hint": hint}
            for query in run.queries
            for hint in query.unmatched_hints
        ],
        "ambiguous_hints": _ambiguous_hints(suite, run.document_ids),
        "legs": compare_retrievers(run.legs, baseline.legs, policy.tolerance),
        "loose_checks": loose_checks(gate),
        "movers": changed_queries(run.queries, baseline),
        "per_query": run.queries,
    }
    return {"report": report, "gate": gate}


def _ambiguous_hints(suite: Suite, document_ids: Sequence[str]) -> list[dict[str, Any]]:
    targets = (target for query in suite.queries for target in query.expected_targets)
    counts = documents_named(dict.fromkeys(target.hint for target in targets), document_ids)
    return [{"hint": hint, "documents": count} for hint, count in counts.items() if count > 1]
