"""Compares a run with its baseline under a policy: the checks, the result and the categories of what got worse.

One fault should have one name. A query that lost a target it used to find lowers the mean ranking and may
change the spread of its results. A failed check that would pass if those queries had kept their recorded
quality is explained by the loss, and its category is `recall_drop` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from whence.evaluation.gate.files import Baseline, Floor, Metrics, Policy
from whence.evaluation.gate.query_reports import QueryReport, latencies_by_check, suite_metrics
from whence.evaluation.suite import Intent

Category = Literal[
    "recall_drop",
    "ranking_shift",
    "latency_regression",
    "diversity_collapse",
    "semantic_degraded_spike",
]
Direction = Literal["min", "max"]
Unit = Literal["share", "ms", "queries"]

#: Rounding in means must not decide a result.
_EPSILON = 1e-9
#: Quality metrics, the field of the policy with their limit, and the side on which they must stay.
_QUALITY: tuple[tuple[str, str, Direction], ...] = (
    ("negative_hit_rate", "max_negative_hit_rate", "max"),
    ("recall_at_k", "min_recall_at_k", "min"),
    ("mrr", "min_mrr", "min"),
    ("ndcg_at_k", "min_ndcg_at_k", "min"),
    ("zero_result_rate", "max_zero_result_rate", "max"),
    ("clustering_ratio", "max_clustering_ratio", "max"),
    ("degraded_query_rate", "max_degraded_query_rate", "max"),
)
#: Fields of a query that follow from its results.
_RANKING = ("reciprocal_rank", "recall_at_k", "ndcg_at_k", "cluster_ratio")


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One number against its threshold."""

    metric: str
    current: float
    baseline: float | None
    """None when the baseline has no such number."""
    expected: float | None
    """The baseline on this machine: a latency is multiplied by the factor of the machine's floor."""
    threshold: float
    delta: float | None
    """Difference from the baseline."""
    tolerance: float | None
    """Difference from the expected number that counts as noise; None when the policy has no such number."""
    direction: Direction
    """`min`: at least the threshold; `max`: at most."""
    unit: Unit
    passed: bool


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the gate and its reasons."""

    verdict: Literal["pass", "fail"]
    checks: list[Check]
    taxonomy: list[Category]
    """Sorted; empty exactly when the verdict is `pass`."""
    observed: list[str]
    """Metrics above their cap that the policy does not enforce."""


class ChangedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query whose result differs from the recorded one."""

    id: str
    hit_rank_before: int | None
    hit_rank: int | None
    recall_before: float
    recall: float
    lost_hints: list[str]
    gained_hints: list[str]


def loose_checks(gate: Gate) -> list[str]:
    """Return the quality checks with more than three tolerances between number and threshold.

    A baseline far below the measured quality lets real regressions pass.
    """
    return [
        check.metric
        for check in gate.checks
        if check.direction == "min"
        and check.tolerance
        and check.current - check.threshold > 3 * check.tolerance + _EPSILON
    ]


def check_run(
    queries: Sequence[QueryReport], baseline: Baseline, policy: Policy, floor: Floor | None = None
) -> Gate:
    """Compare a run with a baseline under a policy. Cost: linear in the queries.

    Args:
        queries: Results of the run.
        baseline: The recorded run.
        policy: Limits and tolerances.
        floor: Floor of the run; None when it was not measured.
    """
    quality = _quality_checks(suite_metrics(queries), baseline.metrics, policy)
    observed = []
    if not policy.quality.enforce_degraded_query_rate:
        degraded = quality.pop()
        observed = [] if degraded.passed else [degraded.metric]
        quality.append(msgspec.structs.replace(degraded, threshold=1.0, passed=True))
    unequal = sum(not query.replayed_equal for query in queries)
    checks = [
        *quality,
        *_latency_checks(queries, baseline, policy, machine_factors(floor, baseline.floor)),
        # Two runs of one suite over one collection must give one order.
        _check("replay_differences", float(unequal), 0.0, 0.0, None, unit="queries"),
    ]
    failed = [check for check in checks if not check.passed]
    explained = _explained(queries, baseline, policy, quality)
    return Gate(
        verdict="fail" if failed else "pass",
        checks=checks,
        taxonomy=sorted({_category(check.metric, explained) for check in failed}),
        observed=observed,
    )


def changed_queries(queries: Sequence[QueryReport], baseline: Baseline) -> list[ChangedQuery]:
    """Return the queries whose first hit or found targets changed, sorted by id."""
    before = {query.id: query for query in baseline.per_query}
    pairs = [(before[query.id], query) for query in queries if query.id in before]
    return [
        ChangedQuery(
            id=query.id,
            hit_rank_before=old.hit_rank,
            hit_rank=query.hit_rank,
            recall_before=old.recall_at_k,
            recall=query.recall_at_k,
            lost_hints=sorted(set(old.found_hints) - set(query.found_hints)),
            gained_hints=sorted(set(query.found_hints) - set(old.found_hints)),
        )
        for old, query in pairs
        if (old.hit_rank, set(old.found_hints)) != (query.hit_rank, set(query.found_hints))
    ]


def _quality_checks(now: Metrics, before: Metrics, policy: Policy) -> list[Check]:
    return [
        _check(
            name,
            getattr(now, name) or 0.0,
            getattr(before, name),
            getattr(policy.quality, limit),
            getattr(policy.tolerance, name),
            direction=direction,
        )
        for name, limit, direction in _QUALITY
    ]


def machine_factors(now: Floor | None, before: Floor | None) -> dict[str, float]:
    """Return by the name of a latency how many times as long as before its unit takes; empty if unknown."""
    if now is None or before is None or now.work != before.work:
        return {}
    return {
        name: unit / before.times[name] for name, unit in now.times.items() if name in before.times
    }


def _latency_checks(
    queries: Sequence[QueryReport], baseline: Baseline, policy: Policy, factors: Mapping[str, float]
) -> list[Check]:
    recorded_ms: dict[str, float] = msgspec.structs.asdict(baseline.metrics)
    for intent, one in baseline.latency_by_intent.items():
        recorded_ms[f"latency_p50_ms.{intent}"] = one.p50_ms
        recorded_ms[f"latency_p95_ms.{intent}"] = one.p95_ms
    checks = []
    for name, (current, _) in latencies_by_check(queries).items():
        percentile = "p50" if "_p50_" in name else "p95"
        # A recorded latency of 0 means that there is none.
        recorded = recorded_ms.get(name) or None
        expected = None if recorded is None else recorded * factors.get(name, 1.0)
        own_limits = policy.latency.by_intent.get(cast("Intent", name.partition(".")[2]))
        most = own_limits or policy.latency
        slack = getattr(policy.tolerance, f"{percentile}_latency_ms")
        ratio = getattr(policy.tolerance, f"{percentile}_latency_ratio")
        checks.append(
            _check(
                name,
                current,
                recorded,
                getattr(most, f"max_{percentile}_latency_ms"),
                max(slack, (expected or 0.0) * (ratio - 1)),
                expected=expected,
                unit="ms",
            )
        )
    return checks


def _check(
    metric: str,
    current: float,
    baseline: float | None,
    limit: float,
    tolerance: float | None,
    *,
    expected: float | None = None,
    direction: Direction = "max",
    unit: Unit = "share",
) -> Check:
    """Check a number against the stricter of the policy's limit and the expected number with its tolerance."""
    threshold = limit
    expected = baseline if expected is None else expected
    if expected is not None and tolerance is not None:
        if direction == "min":
            threshold = max(limit, expected - tolerance)
        else:
            threshold = min(limit, expected + tolerance)
    excess = threshold - current if direction == "min" else current - threshold
    return Check(
        metric=metric,
        current=current,
        baseline=baseline,
        expected=expected,
        threshold=threshold,
        delta=None if baseline is None else round(current - baseline, 9),
        tolerance=tolerance,
        direction=direction,
        unit=unit,
        passed=excess <= _EPSILON,
    )


def _explained(
    queries: Sequence[QueryReport], baseline: Baseline, policy: Policy, quality: Sequence[Check]
) -> set[str]:
    lost = {one.id for one in changed_queries(queries, baseline) if one.lost_hints}
    if not lost:
        return _explained_by_recall(quality)
    restored = {query.id: query for query in queries}
    for old in baseline.per_query:
        if old.id in lost:
            fields: dict[str, Any] = {name: getattr(old, name) for name in _RANKING}
            # A negative target in the place of a lost one is part of the loss.
            now = msgspec.structs.replace(restored[old.id], negative_violations=0, **fields)
            restored[old.id] = now
    checks = _quality_checks(suite_metrics(list(restored.values())), baseline.metrics, policy)
    return {check.metric for check in checks if check.passed}


def _explained_by_recall(quality: Sequence[Check]) -> set[str]:
    """Return the ranking metrics that fell no further than recall, for a baseline without its queries."""
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
    if "latency_" in metric:
        return "latency_regression"
    if metric == "clustering_ratio":
        return "diversity_collapse"
    if metric == "degraded_query_rate":
        return "semantic_degraded_spike"
    return "ranking_shift"
