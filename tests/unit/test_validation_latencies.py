"""Latencies of a validation: each percentile is that of its name."""

from __future__ import annotations

from whence.evaluation.validation.latencies import summarize_latencies


def test_percentiles_are_those_of_their_names() -> None:
    """By the nearest rank: of 1 to 200 ms half are at most 100, 95 % at most 190, 99 % at most 198."""
    found = summarize_latencies([float(n) for n in range(200, 0, -1)])

    assert (found.p50_ms, found.p95_ms, found.p99_ms, found.max_ms) == (100.0, 190.0, 198.0, 200.0)
    assert (found.samples, found.avg_ms, found.percentiles) == (200, 100.5, {})
    assert summarize_latencies([1.0] * 99).percentiles == {"p99": "max of 99"}
