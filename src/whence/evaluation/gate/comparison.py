"""Compares two runs of one suite: differences by query, and whether they are more than chance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import msgspec

from whence.evaluation import measures
from whence.evaluation.files import parse_data, read_text, to_struct
from whence.evaluation.measures import Interval, bootstrap_interval, paired_p_value
from whence.schema.errors import BadInput, ConfigError

#: Measures by the field of a query that holds them.
MEASURES: Mapping[str, str] = {
    "ndcg_at_k": "ndcg_at_k",
    "mrr": "reciprocal_rank",
    "recall_at_k": "recall_at_k",
}
_HINT = "give a report of `whence eval gate` or a baseline of `whence eval baseline`"
#: Differences up to this are rounding.
_EPSILON = 1e-9
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 760, 220, 40, 88, 18


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


_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.t{font-size:15px;font-weight:600}.m{fill:#666}"
    ".u{fill:#2f7d4f}.d{fill:#b3433b}.a{stroke:#999}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.m{fill:#aaa}.b{fill:#1c1c1c}}"
    "@media not (prefers-color-scheme:dark){.b{fill:#fff}}"
)


def differences_svg(comparison: Comparison, most: int = 60) -> str:
    """Draw a bar for each query that differs: decreases to the left, increases to the right.

    Args:
        comparison: Two runs.
        most: Number of bars, those with the largest differences; the chart states how many are left out.
    """
    kept = sorted(comparison.differences, key=lambda one: (-abs(one.delta), one.id))[:most]
    kept.sort(key=lambda one: (one.delta, one.id))
    left_out = len(comparison.differences) - len(kept)
    sums = comparison.measures[comparison.measure]
    height = _TOP + len(kept) * _ROW + 40
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    words = (
        f"{sums.better} better, {sums.worse} worse, {sums.equal} equal; mean {sums.delta:+.4f},"
        f" 95 % {sums.interval.low:+.4f} to {sums.interval.high:+.4f}, p = {sums.p_value:.4f}"
    )
    title = f"{comparison.measure} by query: {comparison.b} less {comparison.a}"
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="b" width="{_WIDTH}" height="{height}"/>',
        f'<text class="t" x="16" y="28">{escape(_end_of(title, 95))}</text>',
        f'<text class="m" x="16" y="50">{escape(words)}</text>',
    ]
    for number, one in enumerate(kept):
        body += _bar(one, middle, _TOP + number * _ROW)
    foot = height - 16
    line = f'x1="{middle}" x2="{middle}" y1="{_TOP - 8}" y2="{foot - 14}"'
    body.append(f'<line class="a" {line}/>')
    if not kept:
        body.append(f'<text x="16" y="{foot}">no query differs</text>')
    if left_out:
        body.append(
            f'<text class="m" x="16" y="{foot}">{left_out} smaller differences left out</text>'
        )
    return "\n".join([*body, "</svg>", ""])


def _bar(one: QueryDifference, middle: float, y: float) -> list[str]:
    room = _WIDTH - _RIGHT - middle - 60
    wide = room * min(1.0, abs(one.delta))
    up = one.delta > 0
    x, label = (middle, middle + wide + 6) if up else (middle - wide, middle - wide - 6)
    side, anchor = ("u", "start") if up else ("d", "end")
    ranks = f"first hit {one.hit_rank_a or '-'} to {one.hit_rank_b or '-'}"
    place = f'x="{x:.1f}" y="{y + 2}" width="{wide:.1f}" height="{_ROW - 5}"'
    at = f'x="{label:.1f}" y="{y + 12}" text-anchor="{anchor}"'
    return [
        f'<text x="16" y="{y + 12}">{escape(_end_of(one.id, 28))}</text>',
        f'<rect class="{side}" {place}><title>{escape(ranks)}</title></rect>',
        f'<text class="m" {at}>{one.delta:+.3f}</text>',
    ]


def _end_of(text: str, length: int) -> str:
    """Return the end of a text: names differ at their ends."""
    return text if len(text) <= length else f"…{text[1 - length :]}"
