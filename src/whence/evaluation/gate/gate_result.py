"""Whether a run is good enough, and what kind of worse it is when not.

A floor is the higher of the policy's minimum and the baseline less the tolerance; a cap the lower of the
policy's maximum and the baseline plus the tolerance.

One fault should carry one name. A query that lost a target it used to find drags down the mean ranking and may
change the spread of its results; where a failed check would pass had the queries with lost targets kept what
the baseline recorded of them, the loss explains it and the category is `recall_drop` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from whence.evaluation.gate.run import (
    QueryReport,
    SuiteRun,
    intents_of,
    latency_by_intent,
    measure,
)
from whence.evaluation.gate.schema import Baseline, IntentLatency, LatencyLimits, Metrics, Policy

__all__ = ("Category", "Check", "Gate", "Mover", "judge", "loose_checks", "movers")

Category = Literal[
    "recall_drop",
    "ranking_shift",
    "latency_regression",
    "diversity_collapse",
    "semantic_degraded_spike",
]

#: Rounding in means must not decide a verdict.
_EPSILON = 1e-9


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One number against its threshold."""

    metric: str
    current: float
    baseline: float | None
    """None where the baseline has no such number."""
    threshold: float
    delta: float | None
    """`current` less `baseline`."""
    tolerance: float | None
    """How much worse than the baseline is noise; None where the policy has no such number."""
    direction: Literal["min", "max"]
    """`min`: at least the threshold; `max`: at most."""
    unit: Literal["share", "ms", "queries"]
    passed: bool


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict and its reasons."""

    verdict: Literal["pass", "fail"]
    checks: list[Check]
    taxonomy: list[Category]
    """Sorted; empty exactly when the verdict is `pass`."""
    observed: list[str]
    """Metrics beyond their cap that the policy only watches."""


class Mover(msgspec.Struct, frozen=True, kw_only=True):
    """A query that gave something else than when the baseline was recorded."""

    id: str
    hit_rank_before: int | None
    hit_rank: int | None
    recall_before: float
    recall: float
    lost_hints: list[str]
    gained_hints: list[str]


def loose_checks(gate: Gate) -> list[str]:
    """Name the quality checks that could hardly fail: more than three tolerances between number and threshold.

    A baseline far below what is measured lets real regressions pass.
    """
    return [
        check.metric
        for check in gate.checks
        if check.direction == "min"
        and check.tolerance
        and check.current - check.threshold > 3 * check.tolerance + _EPSILON
    ]


def judge(run: SuiteRun, baseline: Baseline, policy: Policy) -> Gate:
    """Compare a run with a baseline under a policy. Cost: linear in the queries."""
    now = measure(run.queries)
    quality = _quality_checks(now, baseline.metrics, policy)
    others = [*_latency_checks(run.queries, now, baseline, policy), _replay_check(run.queries)]
    checks = [*quality, _degraded_check(now, baseline.metrics, policy), *others]
    failed = [check for check in checks if not check.passed]
    kept = measure(_with_losses_undone(run.queries, baseline))
    explained = {
        check.metric
        for check in _quality_checks(kept, baseline.metrics, policy)
        if check.passed and _lost_ids(run.queries, baseline)
    }
    if not _lost_ids(run.queries, baseline):
        explained = _explained_by_recall(quality)
    cap = min(
        policy.quality.max_degraded_query_rate,
        baseline.metrics.degraded_query_rate + policy.tolerance.degraded_query_rate,
    )
    watched = now.degraded_query_rate > cap + _EPSILON
    return Gate(
        verdict="fail" if failed else "pass",
        checks=checks,
        taxonomy=sorted({_category(check.metric, explained) for check in failed}),
        observed=["degraded_query_rate"]
        if watched and not policy.quality.enforce_degraded_query_rate
        else [],
    )


def movers(queries: Sequence[QueryReport], baseline: Baseline) -> list[Mover]:
    """Return the queries whose first hit or found targets changed, in order of their ids."""
    before = {query.id: query for query in baseline.per_query}
    found: list[Mover] = []
    for query in queries:
        old = before.get(query.id)
        if old is None:
            continue
        if (old.hit_rank, set(old.found_hints)) != (query.hit_rank, set(query.found_hints)):
            found.append(
                Mover(
                    id=query.id,
                    hit_rank_before=old.hit_rank,
                    hit_rank=query.hit_rank,
                    recall_before=old.recall_at_k,
                    recall=query.recall_at_k,
                    lost_hints=sorted(set(old.found_hints) - set(query.found_hints)),
                    gained_hints=sorted(set(query.found_hints) - set(old.found_hints)),
                )
            )
    return found


def _quality_checks(now: Metrics, before: Metrics, policy: Policy) -> list[Check]:
    limits, slack = policy.quality, policy.tolerance
    floors = (
        ("recall_at_k", limits.min_recall_at_k),
        ("mrr", limits.min_mrr),
        ("ndcg_at_k", limits.min_ndcg_at_k),
    )
    caps = (
        ("zero_result_rate", limits.max_zero_result_rate),
        ("clustering_ratio", limits.max_clustering_ratio),
    )
    return [
        _negative_check(now, before, policy),
        *(
            _check(
                name,
                getattr(now, name),
                getattr(before, name),
                max(limit, getattr(before, name) - getattr(slack, name)),
                direction="min",
                tolerance=getattr(slack, name),
            )
            for name, limit in floors
        ),
        *(
            _check(
                name,
                getattr(now, name),
                getattr(before, name),
                min(limit, getattr(before, name) + getattr(slack, name)),
                tolerance=getattr(slack, name),
            )
            for name, limit in caps
        ),
    ]


def _negative_check(now: Metrics, before: Metrics, policy: Policy) -> Check:
    cap, old = policy.quality.max_negative_hit_rate, before.negative_hit_rate
    slack = policy.tolerance.negative_hit_rate
    if old is not None:
        cap = min(cap, old + slack)
    return _check("negative_hit_rate", now.negative_hit_rate or 0.0, old, cap, tolerance=slack)


def _degraded_check(now: Metrics, before: Metrics, policy: Policy) -> Check:
    limits = policy.quality
    cap = min(
        limits.max_degraded_query_rate,
        before.degraded_query_rate + policy.tolerance.degraded_query_rate,
    )
    enforced = limits.enforce_degraded_query_rate
    return _check(
        "degraded_query_rate",
        now.degraded_query_rate,
        before.degraded_query_rate,
        cap if enforced else 1.0,
        tolerance=policy.tolerance.degraded_query_rate,
    )


def _latency_checks(
    queries: Sequence[QueryReport], now: Metrics, baseline: Baseline, policy: Policy
) -> list[Check]:
    before = baseline.metrics
    overall = LatencyLimits(
        max_p50_latency_ms=policy.latency.max_p50_latency_ms,
        max_p95_latency_ms=policy.latency.max_p95_latency_ms,
    )
    all_now = (now.latency_p50_ms, now.latency_p95_ms)
    all_before = (before.latency_p50_ms, before.latency_p95_ms)
    checks = _latency_pair("", all_now, all_before, overall, policy)
    by_intent = latency_by_intent(queries)
    for intent in intents_of(queries):
        checks += _latency_pair(
            f".{intent}",
            _pair(by_intent[intent]),
            _pair(baseline.latency_by_intent.get(intent)),
            policy.latency.by_intent.get(intent, overall),
            policy,
        )
    return checks


def _pair(latency: IntentLatency | None) -> tuple[float, float]:
    return (latency.p50_ms, latency.p95_ms) if latency else (0.0, 0.0)


def _latency_pair(
    suffix: str,
    now: tuple[float, float],
    before: tuple[float, float],
    limits: LatencyLimits,
    policy: Policy,
) -> list[Check]:
    """Check median and tail; a baseline of 0 is none."""
    slack = policy.tolerance
    rows = (
        ("latency_p50_ms", now[0], before[0], limits.max_p50_latency_ms, slack.p50_latency_ms),
        ("latency_p95_ms", now[1], before[1], limits.max_p95_latency_ms, slack.p95_latency_ms),
    )
    return [
        _check(
            name + suffix,
            current,
            old or None,
            min(limit, old + tolerance) if old else limit,
            unit="ms",
            tolerance=tolerance,
        )
        for name, current, old, limit, tolerance in rows
    ]


def _replay_check(queries: Sequence[QueryReport]) -> Check:
    """Two runs of one suite over one collection must give one order."""
    unequal = sum(not query.replayed_equal for query in queries)
    return _check("replay_differences", float(unequal), 0.0, 0.0, unit="queries")


def _check(
    metric: str,
    current: float,
    baseline: float | None,
    threshold: float,
    *,
    direction: Literal["min", "max"] = "max",
    unit: Literal["share", "ms", "queries"] = "share",
    tolerance: float | None = None,
) -> Check:
    beyond = threshold - current if direction == "min" else current - threshold
    return Check(
        metric=metric,
        current=current,
        baseline=baseline,
        threshold=threshold,
        delta=None if baseline is None else round(current - baseline, 9),
        tolerance=tolerance,
        direction=direction,
        unit=unit,
        passed=beyond <= _EPSILON,
    )


def _lost_ids(queries: Sequence[QueryReport], baseline: Baseline) -> set[str]:
    return {mover.id for mover in movers(queries, baseline) if mover.lost_hints}


def _with_losses_undone(queries: Sequence[QueryReport], baseline: Baseline) -> list[QueryReport]:
    """Return the queries, those that lost a target with the quality that the baseline recorded."""
    lost = _lost_ids(queries, baseline)
    before = {query.id: query for query in baseline.per_query}
    return [
        msgspec.structs.replace(
            query,
            reciprocal_rank=before[query.id].reciprocal_rank,
            recall_at_k=before[query.id].recall_at_k,
            ndcg_at_k=before[query.id].ndcg_at_k,
            cluster_ratio=before[query.id].cluster_ratio,
            # What comes in where a target went out is part of the loss.
            negative_violations=0,
        )
        if query.id in lost
        else query
        for query in queries
    ]


def _explained_by_recall(quality: Sequence[Check]) -> set[str]:
    """Without a record of each query: a ranking that fell no further than recall did fell because of it."""
    checks = {check.metric: check for check in quality}
    recall = checks["recall_at_k"]
    if recall.passed or recall.baseline is None:
        return set()
    fall = recall.baseline - recall.current
    return {
        name
        for name in ("mrr", "ndcg_at_k")
        if checks[name].current + fall >= checks[name].threshold - _EPSILON
    }


def _category(metric: str, explained: set[str]) -> Category:
    if metric in ("recall_at_k", "zero_result_rate") or metric in explained:
        return "recall_drop"
    if metric.startswith("latency_"):
        return "latency_regression"
    if metric == "clustering_ratio":
        return "diversity_collapse"
    if metric == "degraded_query_rate":
        return "semantic_degraded_spike"
    return "ranking_shift"
