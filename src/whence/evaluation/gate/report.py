"""What the gate prints, the baseline it records, and what may be compared with what."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from whence.evaluation.gate.files import (
    BASELINE_VERSION,
    Baseline,
    BaselineQuery,
    Policy,
    Suite,
    suite_digest,
)
from whence.evaluation.gate.running import (
    QueryReport,
    SuiteRun,
    intents_of,
    latency_by_intent,
    measure,
)
from whence.evaluation.gate.verdict import judge, movers
from whence.schema.errors import BadInput, NotFound
from whence.store.base import ChunkStore

__all__ = ("check_comparable", "collection_digest", "gate_document", "record")

REPORT_VERSION = "retrieval-eval-report-v1"
_STATES_AT_ONCE = 1000


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


async def collection_digest(store: ChunkStore, collection: str) -> str:
    """Give a digest of the ids and contents of all documents of a collection.

    Cost: linear in the documents; their texts are not read.

    Raises:
        NotFound: There is no such collection.
    """
    if await store.collection(collection) is None:
        raise NotFound(
            f"there is no collection {collection!r}", hint="index something into it first"
        )
    ids = await store.document_ids(collection)
    digest = hashlib.sha256()
    for start in range(0, len(ids), _STATES_AT_ONCE):
        states = await store.document_states(collection, ids[start : start + _STATES_AT_ONCE])
        for name, state in sorted(states.items()):
            digest.update(msgspec.json.encode([name, state.digest]))
    return digest.hexdigest()


def record(
    run: SuiteRun, suite: Suite, *, k: int, mode: Any, collection: str, digest: str, version: str
) -> Baseline:
    """Give the baseline that a run makes."""
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
    )


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
) -> dict[str, Any]:
    """Give the whole report with its verdict."""
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
        "metrics_by_intent": _by_intent(run.queries),
        "latency_by_intent": latency_by_intent(run.queries),
        "unmatched_hints": [
            {"id": query.id, "hint": hint}
            for query in run.queries
            for hint in query.unmatched_hints
        ],
        "movers": movers(run.queries, baseline),
        "per_query": run.queries,
    }
    return {"report": report, "gate": judge(run, baseline, policy)}


def _by_intent(queries: Sequence[QueryReport]) -> dict[str, Any]:
    return {
        intent: measure([query for query in queries if query.intent == intent])
        for intent in intents_of(queries)
    }
