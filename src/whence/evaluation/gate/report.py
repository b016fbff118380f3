"""What the gate prints, the baseline it records, and what may be compared with what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from whence.evaluation.gate.gate_result import judge, loose_checks, movers
from whence.evaluation.gate.matching import documents_named
from whence.evaluation.gate.per_retriever import compare_retrievers
from whence.evaluation.gate.run import (
    QueryReport,
    SuiteRun,
    intents_of,
    latency_by_intent,
    measure,
)
from whence.evaluation.gate.schema import (
    BASELINE_VERSION,
    Baseline,
    BaselineQuery,
    Metrics,
    Policy,
    RetrieverScores,
    Suite,
    suite_digest,
)
from whence.evaluation.statistics import bootstrap_interval
from whence.schema.errors import BadInput, NotFound
from whence.store.protocols import Store

__all__ = (
    "Change",
    "baseline_changes",
    "check_comparable",
    "collection_digest",
    "gate_document",
    "record",
)

REPORT_VERSION = "retrieval-eval-report-v1"
_STATES_AT_ONCE = 1000
#: Means of a report and the field of a query that they are of.
_PER_QUERY = (
    ("recall_at_k", "recall_at_k"),
    ("mrr", "reciprocal_rank"),
    ("ndcg_at_k", "ndcg_at_k"),
)


def check_comparable(baseline: Baseline, suite: Suite, k: int) -> None:
    """Refuse a baseline of another suite or another number of results.

    Raises:
        BadInput: Suite version, suite digest or k differ.
    """
    pairs = (
        ("suite_version", baseline.suite_version, suite.version),
        ("suite_digest", baseline.suite_digest, suite_digest(suite)),
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

    Raises:
        NotFound: There is no such collection.
    """
    if await store.collection(collection) is None:
        raise NotFound(
            f"there is no collection {collection!r}",
            hint="index something into it first; `whence collections` lists what there is",
        )
    ids = await store.document_ids(collection)
    digest = hashlib.sha256()
    for start in range(0, len(ids), _STATES_AT_ONCE):
        states = await store.document_states(collection, ids[start : start + _STATES_AT_ONCE])
        for name, state in sorted(states.items()):
            digest.update(msgspec.json.encode([name, state.digest]))
    return digest.hexdigest()


def record(
    run: SuiteRun,
    suite: Suite,
    *,
    k: int,
    mode: Any,
    collection: str,
    digest: str,
    version: str,
    legs: Mapping[str, RetrieverScores] = MappingProxyType({}),
) -> Baseline:
    """Return the baseline that a run makes."""
    return Baseline(
        version=BASELINE_VERSION,
        suite_version=suite.version,
        suite_digest=suite_digest(suite),
        k=k,
        mode=mode,
        collection=collection,
        collection_digest=digest,
        whence_version=version,
        metrics=measure(run.queries),
        latency_by_intent=latency_by_intent(run.queries),
        per_query=[_recorded(query) for query in run.queries],
        legs=dict(legs),
    )


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a new baseline says otherwise."""

    what: str
    before: Any
    after: Any


def baseline_changes(before: Baseline, after: Baseline) -> list[Change]:
    """Tell what a new baseline changes, latencies left out: they differ every time."""
    changes = [
        _change(name, getattr(before, name), getattr(after, name))
        for name in ("suite_version", "suite_digest", "k", "mode", "collection_digest")
    ]
    changes += [
        _change(name, getattr(before.metrics, name), getattr(after.metrics, name))
        for name in Metrics.__struct_fields__
        if not name.startswith("latency_")
    ]
    old = {query.id: query for query in before.per_query}
    new = {query.id: query for query in after.per_query}
    for one in sorted(old.keys() | new.keys()):
        ranks = [None if one not in side else side[one].hit_rank for side in (old, new)]
        changes.append(_change(f"first hit of {one}", *ranks))
    return [change for change in changes if change.before != change.after]


def _change(what: str, before: Any, after: Any) -> Change:
    return Change(what=what, before=before, after=after)


def _recorded(query: QueryReport) -> BaselineQuery:
    return BaselineQuery(
        id=query.id,
        hit_rank=query.hit_rank,
        reciprocal_rank=query.reciprocal_rank,
        recall_at_k=query.recall_at_k,
        ndcg_at_k=query.ndcg_at_k,
        cluster_ratio=query.cluster_ratio,
        found_hints=query.found_hints,
    )


def gate_document(
    run: SuiteRun,
    suite: Suite,
    baseline: Baseline,
    policy: Policy,
    *,
    collection: str,
    digest: str,
    dry_run: bool,
    document_ids: Sequence[str] = (),
    legs: Mapping[str, RetrieverScores] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the whole report with its verdict.

    Args:
        run: What the suite gave.
        suite: The suite.
        baseline: What it gave before.
        policy: What it must reach.
        collection: Name of the collection.
        digest: Digest of its documents.
        dry_run: Whether the verdict has no consequence.
        document_ids: All documents of the collection, to tell which hints name several or none.
        legs: Every way of ranking alone; empty when they were not measured.
    """
    gate = judge(run, baseline, policy)
    named = documents_named(_hints(suite), document_ids)
    changed = bool(baseline.collection_digest) and baseline.collection_digest != digest
    report = {
        "version": REPORT_VERSION,
        "suite_version": suite.version,
        "suite_digest": suite_digest(suite),
        "k": baseline.k,
        "mode": baseline.mode,
        "collection": collection,
        "collection_digest": digest,
        "collection_changed": changed,
        "dry_run": dry_run,
        "total_queries": len(run.queries),
        "metrics": measure(run.queries),
        "intervals": {
            name: _interval([getattr(query, field) for query in run.queries])
            for name, field in _PER_QUERY
        },
        "metrics_by_intent": _by_intent(run.queries),
        "latency_by_intent": latency_by_intent(run.queries),
        "unmatched_hints": [
            {"id": query.id, "hint": hint}
            for query in run.queries
            for hint in query.unmatched_hints
        ],
        "ambiguous_hints": [
            {"hint": hint, "documents": count} for hint, count in named.items() if count > 1
        ],
        "legs": compare_retrievers(legs, baseline.legs, policy.tolerance),
        "loose_checks": loose_checks(gate),
        "movers": movers(run.queries, baseline),
        "per_query": run.queries,
    }
    return {"report": report, "gate": gate}


def _hints(suite: Suite) -> list[str]:
    """Return all hints of a suite, each once, in order."""
    targets = (target for query in suite.queries for target in query.expected_targets)
    return list(dict.fromkeys(target.hint for target in targets))


def _interval(values: Sequence[float]) -> dict[str, float]:
    """Return the 95 % interval of a mean over the queries."""
    return bootstrap_interval(values)._asdict()


def _by_intent(queries: Sequence[QueryReport]) -> dict[str, Any]:
    return {
        intent: measure([query for query in queries if query.intent == intent])
        for intent in intents_of(queries)
    }
