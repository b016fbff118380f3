"""Scores of each retriever, negative targets, ambiguous hints, and changes of a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.gate_policy import POLICY as POLICY_FILE

from whence.evaluation.gate.files import Baseline, Policy, RetrieverScores, SuiteFile
from whence.evaluation.gate.hints import documents_named, names_hit
from whence.evaluation.gate.query_reports import SuiteRun, run_suite
from whence.evaluation.gate.report import baseline_changes, gate_document, make_baseline
from whence.evaluation.gate.retrievers import compare_retrievers, measure_retrievers
from whence.evaluation.searcher import Passage, SearchOutcome
from whence.schema.errors import ModelMissing, Unavailable

SUITE = msgspec.convert(
    {
        "version": "v1",
        "queries": [
            {
                "id": "a",
                "query": "first query",
                "intent": "symbol",
                "expected_targets": [{"hint": "a.md"}],
                "negative_targets": [{"hint": "old.md", "within": 2}],
            },
            {
                "id": "b",
                "query": "second query",
                "intent": "path",
                "expected_targets": [{"hint": "b.md"}],
            },
        ],
    },
    SuiteFile,
).suite
POLICY = msgspec.convert(POLICY_FILE, Policy)


def hits(*names: str, graph: dict[str, float] | None = None) -> list[Passage]:
    """Return hits with falling scores."""
    return [
        Passage(
            document_id=name,
            score=0.9 - place / 10,
            graph_score=(graph or {}).get(name, 0.0),
            source_file=name,
            text=name,
        )
        for place, name in enumerate(names)
    ]


class Modes:
    """Returns prepared hits by mode; other modes are unavailable."""

    def __init__(self, **modes: list[Passage]) -> None:
        self.modes = modes

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        if mode not in self.modes:
            raise Unavailable(f"{mode} is down")
        return SearchOutcome(passages=self.modes[mode][:limit], latency_ms=1.0)


class Backwards:
    """A reranker that prefers the last candidate."""

    model = "backwards"

    async def score(self, query: str, documents: Any) -> list[float]:
        return [place / 100 for place in range(len(documents))]

    async def aclose(self) -> None:
        """Do nothing."""


ALL = {
    "bm25": hits("a.md", "b.md", "c.md"),
    "dense": hits("c.md", "d.md", "e.md"),
    "hybrid": hits("c.md", "b.md", "a.md", graph={"c.md": 0.5}),
}


async def test_every_retriever_is_measured_alone() -> None:
    """Each retriever, the fusion without and with links, and the reranked list have scores of their own."""
    found = await measure_retrievers(Modes(**ALL), SUITE, k=3, reranker=Backwards())

    assert list(found) == ["bm25", "dense", "hybrid", "expansion", "rerank"]
    assert found["dense"].recall_at_k == 0.0
    assert found["bm25"].mrr == pytest.approx((1 + 1 / 2) / 2)
    # Without its links c.md falls from 0.9 to 0.4: b.md is first, a.md second.
    assert found["hybrid"].mrr == pytest.approx((1 / 2 + 1) / 2)
    assert found["expansion"].mrr == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert found["rerank"].mrr == pytest.approx((1 + 1 / 2) / 2)


async def test_an_unavailable_retriever_is_left_out() -> None:
    """The other retrievers are measured."""

    class Broken(Backwards):
        async def score(self, query: str, documents: Any) -> list[float]:
            raise ModelMissing("no weights")

    found = await measure_retrievers(
        Modes(bm25=ALL["bm25"], hybrid=ALL["hybrid"]), SUITE, k=3, reranker=Broken()
    )

    assert list(found) == ["bm25", "hybrid", "expansion"]


def test_the_report_names_the_retriever_that_got_worse() -> None:
    """Measures below the tolerance are named; a missing retriever is worse in all of them."""
    before = {
        name: RetrieverScores(recall_at_k=1.0, mrr=0.8, ndcg_at_k=0.8)
        for name in ("bm25", "dense", "x")
    }
    now = {
        "bm25": RetrieverScores(recall_at_k=1.0, mrr=0.795, ndcg_at_k=0.8),
        "dense": RetrieverScores(recall_at_k=1.0, mrr=0.7, ndcg_at_k=0.85),
        "new": RetrieverScores(recall_at_k=0.0, mrr=0.0, ndcg_at_k=0.0),
    }
    found = compare_retrievers(now, before, POLICY.tolerance)

    assert {name: one.worse for name, one in found.items()} == {
        "bm25": [],
        "dense": ["mrr"],
        "new": [],
        "x": ["recall_at_k", "mrr", "ndcg_at_k"],
    }
    assert compare_retrievers({}, before, POLICY.tolerance) == {}


async def run(found: list[Passage]) -> SuiteRun:
    """Run the suite over one hybrid ranking."""
    search = Modes(hybrid=found)
    queries = await run_suite(search, SUITE, mode="hybrid", k=5)
    return SuiteRun(queries, "c", "d")


async def recorded(found: list[Passage]) -> Baseline:
    """Record one hybrid ranking as a baseline."""
    return make_baseline(await run(found), SUITE, k=5, mode="hybrid", version="1")


async def gated(
    before: list[Passage], now: list[Passage], document_ids: Sequence[str] = ()
) -> tuple[Any, dict[str, Any]]:
    """Gate one hybrid ranking against another."""
    done = (await run(now))._replace(document_ids=document_ids)
    document = gate_document(done, SUITE, await recorded(before), POLICY, dry_run=False)
    return document["gate"], document["report"]


GOOD = hits("a.md", "b.md", "c.md", "d.md", "old.md")


async def test_a_negative_target_is_a_ranking_shift() -> None:
    """Within its rank it fails the gate; below it is only counted."""
    risen, report = await gated(GOOD, hits("a.md", "old.md", "b.md", "c.md", "d.md"))
    allowed, _ = await gated(GOOD, GOOD)
    first = report["per_query"][0]
    check = next(one for one in risen.checks if one.metric == "negative_hit_rate")

    assert (first.negative_hits, first.negative_violations) == (1, 1)
    assert (check.current, check.baseline, check.passed) == (0.5, 0.0, False)
    assert risen.taxonomy == ["ranking_shift"]
    assert allowed.verdict == "pass"


async def test_a_baseline_without_negative_hit_rate() -> None:
    """Only the policy's limit applies."""
    bad = hits("old.md", "a.md", "b.md")
    baseline = await recorded(bad)
    metrics = msgspec.structs.replace(baseline.metrics, negative_hit_rate=None)
    old = msgspec.structs.replace(baseline, metrics=metrics)
    document = gate_document(await run(bad), SUITE, old, POLICY, dry_run=False)

    assert document["gate"].verdict == "pass"


async def test_intervals_and_loose_checks_are_reported() -> None:
    """Each mean has an interval; a threshold far below the measured value is reported."""
    _, report = await gated(hits("c.md", "b.md", "a.md"), GOOD)
    same, tight = await gated(GOOD, GOOD)

    assert report["loose_checks"] == ["mrr", "ndcg_at_k"]
    assert tight["loose_checks"] == []
    for name, interval in tight["intervals"].items():
        assert interval["low"] <= getattr(tight["metrics"], name) <= interval["high"]
    assert all(check.tolerance is not None for check in same.checks if check.unit == "share")


async def test_ambiguous_hints_are_reported() -> None:
    """A hint that names several documents is reported with their number and never refused."""
    ids = ["x/a.md", "y/a.md", "b.md"]
    gate, report = await gated(GOOD, GOOD, document_ids=ids)

    assert report["ambiguous_hints"] == [{"hint": "a.md", "documents": 2}]
    assert gate.verdict == "pass"


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from(["a", "a.rs", "src/a.rs", "Repo::s::cs::N.A", "N.A", "::A", "rs"])),
    st.lists(st.sampled_from(["a.rs", "src/a.rs", "src/data.rs", "Repo::s::cs::N.A", "x#a"])),
)
def test_hints_are_counted_as_they_are_matched(hints: list[str], ids: list[str]) -> None:
    """Counting by segments agrees with matching."""
    for hint, count in documents_named(hints, ids).items():
        assert count == sum(names_hit(hint, Passage(document_id=one, score=1.0)) for one in ids)


async def test_changes_of_a_baseline() -> None:
    """Changed measures and first hits are reported; latencies are not."""
    before, after = [
        await recorded(found) for found in (GOOD, hits("c.md", "a.md", "b.md", "d.md", "old.md"))
    ]
    slower = msgspec.structs.replace(after.metrics, latency_p95_ms=9.0)
    changes = baseline_changes(before, msgspec.structs.replace(after, metrics=slower))

    assert [(one.what, one.before, one.after) for one in changes if "first" in one.what] == [
        ("first hit of a", 1, 2),
        ("first hit of b", 2, 3),
    ]
    assert [one.what for one in changes if "first" not in one.what] == ["mrr", "ndcg_at_k"]
