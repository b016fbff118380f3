"""Two runs of one suite side by side: what differs, for which queries, and whether it is more than chance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from whence.evaluation import measures
from whence.evaluation.files import read_text
from whence.evaluation.statistics import Interval, bootstrap_interval, paired_p_value
from whence.ingest.strict_json import parse_json
from whence.schema.errors import BadInput, ConfigError

__all__ = (
    "MEASURES",
    "Comparison",
    "MeasureComparison",
    "QueryDifference",
    "RecordedRun",
    "compare_runs",
    "differences_svg",
    "load_run",
)

#: Measures by the field of a query that holds them.
MEASURES: Mapping[str, str] = {
    "ndcg_at_k": "ndcg_at_k",
    "mrr": "reciprocal_rank",
    "recall_at_k": "recall_at_k",
}
#: Smallest difference that is one.
_EPSILON = 1e-9
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 760, 220, 40, 88, 18


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a query; reports hold more."""

    id: str
    ndcg_at_k: float
    reciprocal_rank: float
    recall_at_k: float
    hit_rank: int | None = None


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a baseline or a report of the gate holds it."""

    name: str = ""
    suite_digest: str
    k: int
    per_query: list[_Query]


class MeasureComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of both runs."""

    a: float
    b: float
    delta: float
    """`b` less `a`."""
    interval: Interval
    """Where the mean difference lies, with 95 % confidence."""
    p_value: float
    """Chance of such a difference without a direction."""
    significant: bool
    """True when that chance is below 5 %."""
    better: int
    """Queries for which `b` is higher."""
    worse: int
    equal: int


class QueryDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One query that gave something else."""

    id: str
    a: float
    b: float
    delta: float
    hit_rank_a: int | None
    hit_rank_b: int | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs."""

    a: str
    b: str
    k: int
    queries: int
    measure: str
    """The measure that `differences` are of."""
    measures: dict[str, MeasureComparison]
    differences: list[QueryDifference]
    """Queries that differ, the greatest fall first, ties by id."""


def load_run(path: Path) -> RecordedRun:
    """Read a baseline, or a report of the gate.

    Raises:
        ConfigError: The file is neither, or has no queries.
        BadInput: The file cannot be read.
    """
    try:
        plain: Any = parse_json(read_text(path))
        if isinstance(plain, dict) and isinstance(plain.get("report"), dict):
            plain = plain["report"]
        run = msgspec.convert(plain, RecordedRun)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}", hint=_HINT) from error
    except BadInput as error:
        words = error.message if str(path) in error.message else f"{path}: {error.message}"
        raise ConfigError(words, hint=_HINT) from error
    if not run.per_query:
        raise ConfigError(f"{path}: per_query is empty", hint=_HINT)
    if len({query.id for query in run.per_query}) < len(run.per_query):
        raise ConfigError(f"{path}: per_query has an id twice", hint=_HINT)
    return msgspec.structs.replace(run, name=str(path))


_HINT = "give a report of `whence eval gate` or a baseline of `whence eval baseline`"


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
        ("queries", _ids(a), _ids(b)),
    ):
        if one != other:
            raise BadInput(
                f"{what} differs: the runs cannot be compared", hint="run one suite twice"
            )
    before = {query.id: query for query in a.per_query}
    after = {query.id: query for query in b.per_query}
    field = MEASURES[measure]
    found = [
        QueryDifference(
            id=one,
            a=getattr(before[one], field),
            b=getattr(after[one], field),
            delta=getattr(after[one], field) - getattr(before[one], field),
            hit_rank_a=before[one].hit_rank,
            hit_rank_b=after[one].hit_rank,
        )
        for one in sorted(before)
    ]
    return Comparison(
        a=a.name,
        b=b.name,
        k=a.k,
        queries=len(before),
        measure=measure,
        measures={
            name: _compared(
                [getattr(before[one], key) for one in sorted(before)],
                [getattr(after[one], key) for one in sorted(before)],
            )
            for name, key in MEASURES.items()
        },
        differences=sorted(
            (one for one in found if abs(one.delta) > _EPSILON),
            key=lambda one: (one.delta, one.id),
        ),
    )


def _ids(run: RecordedRun) -> list[str]:
    return sorted(query.id for query in run.per_query)


def _compared(a: list[float], b: list[float]) -> MeasureComparison:
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
    """Draw a bar for each query that differs, falls to the left and rises to the right.

    Args:
        comparison: Two runs.
        most: Most bars, those with the greatest differences; how many are left out is said.
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
    """Return a text, its beginning cut: names differ at their ends."""
    return text if len(text) <= length else f"…{text[1 - length :]}"
