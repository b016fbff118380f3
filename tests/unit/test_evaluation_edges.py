"""Edges of the gate and of the validation: what is just allowed, what is cut, what nothing was measured of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.gate_policy import POLICY

from whence.evaluation.gate.checks import check_run
from whence.evaluation.gate.comparison import load_run
from whence.evaluation.gate.files import Policy, SuiteFile
from whence.evaluation.gate.query_reports import SuiteRun, run_suite, score_hits
from whence.evaluation.gate.report import make_baseline
from whence.evaluation.run import RecordedSearch, Run
from whence.evaluation.searcher import Passage, SearchOutcome
from whence.evaluation.suite import Query
from whence.evaluation.validation.checks import found_topics
from whence.evaluation.validation.latencies import report_sequence, summarize_latencies
from whence.evaluation.validation.run import Limits, run_validation
from whence.evaluation.validation.suite_file import TestQuery as Asked
from whence.evaluation.validation.suite_file import Thresholds, ValidationSuite
from whence.schema.errors import BadInput

SUITE = msgspec.convert(
    {
        "version": "v",
        "queries": [
            {
                "id": "q",
                "query": "what",
                "intent": "path",
                "expected_targets": [{"hint": "a.md"}, {"hint": "b.md"}],
            }
        ],
    },
    SuiteFile,
).suite


@pytest.mark.parametrize(
    ("k", "recall", "mrr", "ndcg"), [(1, 0.0, 0.0, 0.0), (2, 0.5, 0.5, 0.387), (3, 1.0, 0.5, 0.693)]
)
def test_measures_count_the_first_k(k: int, recall: float, mrr: float, ndcg: float) -> None:
    """Of hits at the second and the third place."""
    hits = [Passage(document_id=one, score=1.0) for one in ("x.md", "a.md", "b.md")]
    assigned, scores = score_hits(SUITE.queries[0], hits, k)

    assert assigned == {1: 0, 2: 1}
    assert (scores.recall_at_k, scores.mrr) == (recall, mrr)
    assert scores.ndcg_at_k == pytest.approx(ndcg, abs=5e-4)


async def test_degraded_queries_that_are_not_enforced_are_observed() -> None:
    """Their check has the greatest share as its limit, and passes."""

    async def search(query: str, *, mode: str, limit: int) -> SearchOutcome:
        hits = [Passage(document_id=one, score=1.0) for one in ("a.md", "b.md")]
        return SearchOutcome(passages=hits, latency_ms=1.0, degraded=("late",))

    quality: dict[str, Any] = {**POLICY["quality"], "enforce_degraded_query_rate": False}
    queries = await run_suite(search, SUITE, mode="hybrid", k=3)
    baseline = make_baseline(
        SuiteRun(queries, "c", "d", work=""), SUITE, k=3, mode="hybrid", version="1"
    )
    metrics = msgspec.structs.replace(baseline.metrics, degraded_query_rate=0.0)
    baseline = msgspec.structs.replace(baseline, metrics=metrics)
    gate = check_run(queries, baseline, msgspec.convert({**POLICY, "quality": quality}, Policy))
    (check,) = [one for one in gate.checks if one.metric == "degraded_query_rate"]

    assert (check.passed, check.threshold, check.current) == (True, 1.0, 1.0)
    assert gate.observed == ["degraded_query_rate"]


def test_a_run_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """By its path."""
    path = tmp_path / "run.json"
    path.write_text("{")
    with pytest.raises(BadInput, match=r"run\.json"):
        load_run(path)


def test_nothing_takes_no_time() -> None:
    """Of no samples every summary is 0."""
    found = summarize_latencies([])

    assert (found.samples, found.avg_ms, found.p50_ms, found.p95_ms) == (0, 0.0, 0.0, 0.0)
    assert (found.p99_ms, found.max_ms) == (0.0, 0.0)


def test_a_section_that_is_not_known_has_no_topic() -> None:
    """Neither has a heading; those that are known have theirs."""
    blank = Passage(id="i", document_id="d", score=1.0, text="t")
    named = msgspec.structs.replace(blank, section_path="Path", heading="Head")

    assert found_topics(["xxxx", "path", "head", "t"], [blank]) == ["t"]
    assert found_topics(["xxxx", "path", "head", "t"], [named]) == ["path", "head", "t"]


@pytest.mark.parametrize(
    ("again_ms", "slower"), [(20.0, False), (20.1, True), (15.0, False), (19.9, False)]
)
def test_a_sequence_may_be_slower_by_its_limit(again_ms: float, *, slower: bool) -> None:
    """Exactly so many times as long is allowed, and so many milliseconds longer."""
    query = Query(text="what is it", min_results=1)

    def took(latency_ms: float) -> RecordedSearch:
        return RecordedSearch(query=query, latency_ms=latency_ms)

    run = Run(
        first=[took(10.0)],
        sequence=[took(again_ms)] * 12,
        load=[],
        clients=0,
        seconds=1.0,
        cut=False,
    )
    for limits, found in (
        (Thresholds(max_slowdown=2.0, slowdown_ms=1.0), slower),
        (Thresholds(max_slowdown=1.1, slowdown_ms=10.0), slower),
    ):
        report = report_sequence(run, limits)
        assert report is not None
        assert report.slower is found
        assert report.slowdown == pytest.approx(again_ms / 10)


async def test_queries_after_the_time_limit_are_not_asked() -> None:
    """Each has its own words and says why it has no answer."""
    now = [0.0]

    class Slow:
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            now[0] += 4.0
            return SearchOutcome(passages=[], embedding_ms=0.0, search_ms=0.0)

    asked = [Asked(text=f"query {n}", expected_topics=[], min_results=0) for n in range(3)]
    run = await run_validation(
        Slow(),  # type: ignore[arg-type]
        ValidationSuite(queries=asked),
        Limits(time_limit_s=8.0, repeats=0, clients=0),
        clock=lambda: now[0],
    )
    why = "not asked: the time limit of 8 s was reached"

    assert [one.query.text for one in run.first] == ["query 0", "query 1", "query 2"]
    assert [one.error for one in run.first] == ["", why, why]
    assert [one.cut for one in run.first] == [False, True, True]
    assert run.cut
