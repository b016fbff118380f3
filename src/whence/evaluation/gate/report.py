"""The report of the gate, the baseline that it records, and the check that two runs are comparable."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from whence.evaluation.gate.checks import changed_queries, check_run, loose_checks, machine_factors
from whence.evaluation.gate.files import (
    BASELINE_VERSION,
    Baseline,
    BaselineQuery,
    Metrics,
    Policy,
    RetrieverScores,
)
from whence.evaluation.gate.hints import documents_named
from whence.evaluation.gate.query_reports import (
    MEASURES,
    SuiteRun,
    floor_of,
    group_by_intent,
    latency_by_intent,
    suite_metrics,
)
from whence.evaluation.gate.retrievers import compare_retrievers
from whence.evaluation.measures import bootstrap_interval
from whence.evaluation.suite import Suite
from whence.schema.errors import BadInput, NotFound
from whence.store.protocols import Store

REPORT_VERSION = "retrieval-eval-report-v1"
#: Documents read at a time.
_BATCH = 1000


def check_comparable(baseline: Baseline, suite: Suite, k: int) -> None:
    """Refuse a baseline of another suite or another number of results."""
    pairs = (
        ("suite_version", baseline.suite_version, suite.version),
        ("suite_digest", baseline.suite_digest, suite.digest),
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


def make_baseline(run: SuiteRun, suite: Suite, *, k: int, mode: Any, version: str) -> Baseline:
    """Return a run as a baseline."""
    return Baseline(
        version=BASELINE_VERSION,
        suite_version=suite.version,
        suite_digest=suite.digest,
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
        "suite_digest": suite.digest,
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
            name: bootstrap_interval(
                [getattr(query, MEASURES[name]) for query in run.queries]
            )._asdict()
            for name in RetrieverScores.__struct_fields__
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
