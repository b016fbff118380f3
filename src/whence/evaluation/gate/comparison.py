"""Compares two runs of one suite: differences by query, and whether they are more than chance."""

from __future__ import annotations

from pathlib import Path

import msgspec

from whence.evaluation import measures
from whence.evaluation.files import parse_data, read_text, to_struct
from whence.evaluation.gate.query_reports import MEASURES
from whence.evaluation.measures import Interval, bootstrap_interval, paired_p_value
from whence.schema.errors import BadInput, ConfigError

_HINT = "give a report of `whence eval gate` or a baseline of `whence eval baseline`"
#: Differences up to this are rounding.
_EPSILON = 1e-9


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a query that are compared; reports have more."""

    id: str
    ndcg_at_k: float
    reciprocal_rank: float
    recall_at_k: float
    hit_rank: int | None = None


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run from a baseline or a report of the gate."""

    name: str = ""
    suite_digest: str
    k: int
    per_query: list[_Query]


class MeasureComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of both runs."""

    a: float
    b: float
    delta: float
    interval: Interval
    """95 % confidence interval of the mean difference."""
    p_value: float
    significant: bool
    """True when the p-value is below 0.05."""
    better: int
    """Queries for which `b` is higher."""
    worse: int
    equal: int


class QueryDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One query whose measure differs."""

    id: str
    a: float
    b: float
    delta: float
    hit_rank_a: int | None
    hit_rank_b: int | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of two runs."""

    a: str
    b: str
    k: int
    queries: int
    measure: str
    measures: dict[str, MeasureComparison]
    differences: list[QueryDifference]
    """Queries that differ, the largest decrease first, ties by id."""


def load_run(path: Path) -> RecordedRun:
    """Read a baseline, or a report of the gate."""
    data = parse_data(read_text(path), str(path), hint=_HINT)
    if isinstance(data, dict) and isinstance(data.get("report"), dict):
        data = data["report"]
    run = to_struct(data, RecordedRun, str(path), hint=_HINT)
    if not run.per_query:
        raise ConfigError(f"{path}: per_query is empty", hint=_HINT)
    if len({query.id for query in run.per_query}) < len(run.per_query):
        raise ConfigError(f"{path}: per_query has an id twice", hint=_HINT)
    return msgspec.structs.replace(run, name=str(path))


def compare_runs(a: RecordedRun, b: RecordedRun, measure: str = "ndcg_at_k") -> Comparison:
    """Compare two runs of the same suite.

    Raises:
        BadInput: Suite or k differ, the runs have other queries, or there is no such measure.
    """
    if measure not in MEASURES:
        raise BadInput(f"unknown measure {measure!r}", hint=f"use one of {', '.join(MEASURES)}")
    for what, one, other in (
        ("suite_digest", a.suite_digest, b.suite_digest),
        ("k", a.k, b.k),
        ("queries", {query.id for query in a.per_query}, {query.id for query in b.per_query}),
    ):
        if one != other:
            raise BadInput(
                f"{what} differs: the runs cannot be compared", hint="run one suite twice"
            )
    old, new = (sorted(run.per_query, key=lambda query: query.id) for run in (a, b))
    field = MEASURES[measure]
    found = [
        QueryDifference(
            id=before.id,
            a=getattr(before, field),
            b=getattr(after, field),
            delta=getattr(after, field) - getattr(before, field),
            hit_rank_a=before.hit_rank,
            hit_rank_b=after.hit_rank,
        )
        for before, after in zip(old, new, strict=True)
    ]
    return Comparison(
        a=a.name,
        b=b.name,
        k=a.k,
        queries=len(old),
        measure=measure,
        measures={
            name: _compare([getattr(one, key) for one in old], [getattr(one, key) for one in new])
            for name, key in MEASURES.items()
        },
        differences=sorted(
            (one for one in found if abs(one.delta) > _EPSILON), key=lambda one: (one.delta, one.id)
        ),
    )


def _compare(a: list[float], b: list[float]) -> MeasureComparison:
    deltas = [after - before for before, after in zip(a, b, strict=True)]
    better = sum(delta > _EPSILON for delta in deltas)
    worse = sum(delta < -_EPSILON for delta in deltas)
    p_value = paired_p_value(deltas)
    return MeasureComparison(
        a=measures.mean(a),
        b=measures.mean(b),
        delta=measures.mean(deltas),
        interval=bootstrap_interval(deltas),
        p_value=p_value,
        significant=p_value < 0.05,
        better=better,
        worse=worse,
        equal=len(deltas) - better - worse,
    )
