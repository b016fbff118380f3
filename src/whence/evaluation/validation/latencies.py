"""Repeated searches, in a sequence and by several readers: latencies, failures and changed results."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from whence.evaluation import measures
from whence.evaluation.run import RecordedSearch, Run
from whence.evaluation.validation.suite_file import Thresholds

_PERCENTILES = (50, 95, 99)
#: Searches in a row that are compared: a quarter of the sequence, but at least these.
_LEAST_IN_A_ROW = 2


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of latencies in milliseconds; percentiles by nearest rank."""

    samples: int
    avg_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    percentiles: dict[str, str]
    """Percentiles that are the maximum, because there are too few samples: `{"p95": "max of 8"}`."""


class SequenceReport(msgspec.Struct, frozen=True, kw_only=True):
    """Queries one after the other."""

    latency: Latencies
    slowdown: float
    """Largest factor by which searches in a row took longer than the same queries before."""
    slower: bool
    """True when it passes both limits, as a factor and in milliseconds."""
    searches: int
    errors: int
    changed: int
    consistent: bool
    """True when every query gave the same results in the same order as before."""


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """Several readers at once."""

    clients: int
    latency: Latencies
    searches: int
    """Without queries that cannot be searched for, and without those that the time limit cut off."""
    errors: int
    """Searches that failed or were incomplete."""
    changed: int
    """Searches with other results than before."""
    consistent: bool


def summarize_latencies(times: Sequence[float]) -> Latencies:
    """Summarise latencies in milliseconds."""
    return Latencies(
        samples=len(times),
        avg_ms=round(measures.mean(times), 3),
        p50_ms=measures.percentile(times, 50),
        p95_ms=measures.percentile(times, 95),
        p99_ms=measures.percentile(times, 99),
        max_ms=max(times, default=0.0),
        percentiles={
            f"p{percent}": f"max of {len(times)}"
            for percent in _PERCENTILES
            if measures.is_maximum(percent, len(times))
        },
    )


def report_sequence(run: Run, limits: Thresholds) -> SequenceReport | None:
    """Report the sequence; None when none ran."""
    if not run.sequence:
        return None
    slowdown, slower = _slowdown(run, limits)
    return SequenceReport(slowdown=slowdown, slower=slower, **_repeated(run, run.sequence))


def report_load(run: Run) -> LoadReport | None:
    """Report the searches of several readers; None when none ran."""
    if not run.load:
        return None
    return LoadReport(clients=run.clients, **_repeated(run, run.load))


def _repeated(run: Run, searches: Sequence[RecordedSearch]) -> dict[str, Any]:
    refused = {_key(one) for one in run.first if one.refused}
    counted = [one for one in searches if not one.cut and _key(one) not in refused]
    known: dict[tuple[str, int], list[str]] = {}
    for one in (*run.first, *run.sequence, *run.load):
        if not one.error and not one.partial:
            known.setdefault(_key(one), _ids(one))
    changed = sum(
        known[_key(one)] != _ids(one) for one in counted if not one.error and not one.partial
    )
    return {
        "latency": summarize_latencies([one.latency_ms for one in searches if not one.error]),
        "searches": len(counted),
        "errors": sum(bool(one.error) or one.partial for one in counted),
        "changed": changed,
        "consistent": not changed,
    }


def _key(search: RecordedSearch) -> tuple[str, int]:
    return search.query.text, search.query.min_results


def _ids(search: RecordedSearch) -> list[str]:
    return [passage.id for passage in search.passages]


def _slowdown(run: Run, limits: Thresholds) -> tuple[float, bool]:
    """Compare each search of the sequence with the first one for the same query.

    The lower median of some searches in a row counts, so that one that other work of the machine delayed is
    no slow-down.
    """
    first: dict[tuple[str, int], float] = {}
    ratios: list[float] = []
    excess: list[float] = []
    for number, search in enumerate((*run.first, *run.sequence)):
        if search.error:
            continue
        # The clock may have seen no time pass.
        before = first.setdefault(_key(search), max(search.latency_ms, 0.001))
        if number >= len(run.first):
            ratios.append(search.latency_ms / before)
            excess.append(search.latency_ms - before)
    row = max(_LEAST_IN_A_ROW, len(ratios) // 4)
    windows = [
        (statistics.median_low(ratios[at : at + row]), statistics.median_low(excess[at : at + row]))
        for at in range(len(ratios) - row + 1)
    ]
    slower = any(
        ratio > limits.max_slowdown and more > limits.slowdown_ms for ratio, more in windows
    )
    return round(max((ratio for ratio, _ in windows), default=1.0), 3), slower
