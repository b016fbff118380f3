"""Leg by leg, unwanted targets, ambiguous hints, two runs side by side, and how much of it is chance."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.evaluation import measures
from whence.evaluation.gate.comparison import compare_runs, differences_svg, load_run
from whence.evaluation.gate.matching import documents_named, matches
from whence.evaluation.gate.per_retriever import compare_retrievers, measure_retrievers
from whence.evaluation.gate.report import baseline_changes, gate_document, record
from whence.evaluation.gate.run import run_suite
from whence.evaluation.gate.schema import (
    Baseline,
    Policy,
    RetrieverScores,
    Suite,
    Tolerance,
    load_baseline,
    load_policy,
    load_suite,
)
from whence.evaluation.searcher import Hit, SearchOutcome
from whence.evaluation.statistics import bootstrap_interval, paired_p_value
from whence.schema.errors import BadInput, ConfigError, ModelMissing, Unavailable

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
    Suite,
)
POLICY = msgspec.convert(
    {
        "version": "retrieval-gate-policy-v1",
        "quality": {
            "min_recall_at_k": 0.1,
            "min_mrr": 0.1,
            "min_ndcg_at_k": 0.1,
            "max_zero_result_rate": 0.9,
            "max_clustering_ratio": 1.0,
            "max_degraded_query_rate": 0.9,
        },
        "latency": {"max_p95_latency_ms": 1000.0},
        "tolerance": {
            "recall_at_k": 0.01,
            "mrr": 0.01,
            "ndcg_at_k": 0.01,
            "zero_result_rate": 0.05,
            "clustering_ratio": 0.05,
            "degraded_query_rate": 0.05,
            "p95_latency_ms": 40,
        },
    },
    Policy,
)


def hits(*names: str, graph: dict[str, float] | None = None) -> list[Hit]:
    """Return hits with falling scores."""
    return [
        Hit(
            document_id=name,
            score=0.9 - place / 10,
            graph_score=(graph or {}).get(name, 0.0),
            path=name,
            content=name,
        )
        for place, name in enumerate(names)
    ]


class Modes:
    """Gives prepared hits by mode; a mode without any is down."""

    def __init__(self, **modes: list[Hit]) -> None:
        self.modes = modes

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        if mode not in self.modes:
            raise Unavailable(f"{mode} is down")
        return SearchOutcome(hits=self.modes[mode][:limit], latency_ms=1.0)


class Backwards:
    """A reranker that likes the last candidate best."""

    model = "backwards"

    async def score(self, query: str, documents: Any) -> list[float]:
        return [place / 100 for place in range(len(documents))]

    async def aclose(self) -> None:
        """Hold nothing."""


ALL = {
    "bm25": hits("a.md", "b.md", "c.md"),
    "dense": hits("c.md", "d.md", "e.md"),
    "hybrid": hits("c.md", "b.md", "a.md", graph={"c.md": 0.5}),
}


async def test_every_leg_is_measured_alone() -> None:
    """Fusion without what links added, with it, and reranked; each ranks its own way."""
    legs = await measure_retrievers(Modes(**ALL), SUITE, k=3, reranker=Backwards())

    assert list(legs) == ["bm25", "dense", "hybrid", "expansion", "rerank"]
    assert legs["dense"].recall_at_k == 0.0
    assert legs["bm25"].mrr == pytest.approx((1 + 1 / 2) / 2)
    # Without its links c.md falls from 0.9 to 0.4: b.md is first, a.md second.
    assert legs["hybrid"].mrr == pytest.approx((1 / 2 + 1) / 2)
    assert legs["expansion"].mrr == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert legs["rerank"].mrr == pytest.approx((1 + 1 / 2) / 2)


async def test_a_leg_that_is_down_is_left_out() -> None:
    """Half a leg is none; the others are measured."""

    class Broken(Backwards):
        async def score(self, query: str, documents: Any) -> list[float]:
            raise ModelMissing("no weights")

    legs = await measure_retrievers(
        Modes(bm25=ALL["bm25"], hybrid=ALL["hybrid"]), SUITE, k=3, reranker=Broken()
    )

    assert list(legs) == ["bm25", "hybrid", "expansion"]


def test_the_report_says_which_leg_got_worse() -> None:
    """Beyond the tolerance, in the measure that fell; a leg that is gone is worse in all of them."""
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

    assert {name: leg.worse for name, leg in found.items()} == {
        "bm25": [],
        "dense": ["mrr"],
        "new": [],
        "x": ["recall_at_k", "mrr", "ndcg_at_k"],
    }
    assert compare_retrievers({}, before, POLICY.tolerance) == {}


async def gated(before: list[Hit], now: list[Hit], **options: Any) -> tuple[Any, dict[str, Any]]:
    """Gate one hybrid ranking against another."""

    async def run(found: list[Hit]) -> Any:
        search = Modes(hybrid=found)
        return await run_suite(search, SUITE, mode="hybrid", k=5, clock=lambda: 0.0)

    where = {"collection": "c", "digest": "d"}
    baseline = record(await run(before), SUITE, k=5, mode="hybrid", version="1", **where)
    document = gate_document(
        await run(now), SUITE, baseline, POLICY, dry_run=False, **where, **options
    )
    return document["gate"], document["report"]


GOOD = hits("a.md", "b.md", "c.md", "d.md", "old.md")


async def test_an_unwanted_target_is_a_ranking_shift() -> None:
    """Above its rank it fails the gate; below it is counted and allowed."""
    risen, report = await gated(GOOD, hits("a.md", "old.md", "b.md", "c.md", "d.md"))
    allowed, _ = await gated(GOOD, GOOD)
    first = report["per_query"][0]
    check = next(one for one in risen.checks if one.metric == "negative_hit_rate")

    assert (first.negative_hits, first.negative_violations) == (1, 1)
    assert (check.current, check.baseline, check.passed) == (0.5, 0.0, False)
    assert risen.taxonomy == ["ranking_shift"]
    assert allowed.verdict == "pass"


async def test_old_baselines_know_nothing_of_unwanted_targets() -> None:
    """Then only the policy's cap holds."""
    bad = hits("old.md", "a.md", "b.md")

    async def run() -> Any:
        return await run_suite(Modes(hybrid=bad), SUITE, mode="hybrid", k=5, clock=lambda: 0.0)

    where = {"collection": "c", "digest": "d"}
    baseline = record(await run(), SUITE, k=5, mode="hybrid", version="1", **where)
    metrics_ = msgspec.structs.replace(baseline.metrics, negative_hit_rate=None)
    old = msgspec.structs.replace(baseline, metrics=metrics_)
    document = gate_document(await run(), SUITE, old, POLICY, dry_run=False, **where)

    assert document["gate"].verdict == "pass"


async def test_intervals_and_loose_checks_are_told() -> None:
    """Each mean has an interval around it; a threshold far below what is measured is named."""
    _, report = await gated(hits("c.md", "b.md", "a.md"), GOOD)
    same, tight = await gated(GOOD, GOOD)

    assert report["loose_checks"] == ["mrr", "ndcg_at_k"]
    assert tight["loose_checks"] == []
    for name, interval in tight["intervals"].items():
        assert interval["low"] <= getattr(tight["metrics"], name) <= interval["high"]
    assert all(check.tolerance is not None for check in same.checks if check.unit == "share")


async def test_ambiguous_hints_are_told() -> None:
    """A hint that names several documents of the collection is told with their number, and refused never."""
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
    """The index of segments finds exactly what matching finds."""
    for hint, count in documents_named(hints, ids).items():
        assert count == sum(matches(hint, Hit(document_id=one, score=1.0)) for one in ids)


def test_a_new_baseline_tells_what_it_changes() -> None:
    """Measures and first hits, not latencies."""
    plain: dict[str, Any] = {
        "version": "retrieval-eval-baseline-v1",
        "suite_version": "v1",
        "suite_digest": "x",
        "k": 5,
        "metrics": {
            "recall_at_k": 1.0,
            "mrr": 1.0,
            "ndcg_at_k": 1.0,
            "zero_result_rate": 0.0,
            "clustering_ratio": 0.5,
            "degraded_query_rate": 0.0,
            "semantic_budget_exhaustion_rate": 0.0,
            "latency_p95_ms": 5.0,
            "latency_mean_ms": 5.0,
        },
        "per_query": [
            {
                "id": "a",
                "hit_rank": 1,
                "reciprocal_rank": 1.0,
                "recall_at_k": 1.0,
                "ndcg_at_k": 1.0,
                "cluster_ratio": None,
                "found_hints": ["a.md"],
            }
        ],
    }
    before = msgspec.convert(plain, Baseline)
    plain["metrics"] |= {"mrr": 0.5, "latency_p95_ms": 9.0}
    plain["per_query"][0]["hit_rank"] = 2
    changes = baseline_changes(before, msgspec.convert(plain, Baseline))

    assert [(one.what, one.before, one.after) for one in changes] == [
        ("mrr", 1.0, 0.5),
        ("first hit of a", 1, 2),
    ]


def _run(path: Path, ranks: list[int | None], **changes: Any) -> Path:
    """Write a run of as many queries as there are ranks."""
    queries = [
        {
            "id": f"q{number:03}",
            "hit_rank": rank,
            "reciprocal_rank": 1 / rank if rank else 0.0,
            "recall_at_k": float(rank is not None),
            "ndcg_at_k": 1 / rank if rank else 0.0,
            "and": "more",
        }
        for number, rank in enumerate(ranks)
    ]
    path.write_text(json.dumps({"suite_digest": "s", "k": 10, "per_query": queries} | changes))
    return path


def test_two_runs_side_by_side(tmp_path: Path) -> None:
    """Means, differences, who rose and who fell; the greatest fall first; B less A."""
    a = load_run(_run(tmp_path / "a", [1, 2, 1, None]))
    b = load_run(_run(tmp_path / "b", [1, 1, 4, None]))
    found = compare_runs(a, b, "mrr")
    sums = found.measures["mrr"]

    assert (sums.a, sums.b) == (0.625, 0.5625)
    assert (sums.better, sums.worse, sums.equal) == (1, 1, 2)
    assert [(one.id, one.delta, one.hit_rank_b) for one in found.differences] == [
        ("q002", -0.75, 4),
        ("q001", 0.5, 1),
    ]
    assert not sums.significant
    assert ET.fromstring(differences_svg(found)).tag.endswith("svg")


def test_a_difference_beyond_chance_is_significant(tmp_path: Path) -> None:
    """Thirty queries that all fall are no chance; a run beside itself has no difference."""
    a = load_run(_run(tmp_path / "a", [1] * 30))
    b = load_run(_run(tmp_path / "b", [2] * 30))

    assert compare_runs(a, b).measures["mrr"].significant
    assert compare_runs(a, a).measures["mrr"].p_value == 1.0
    assert compare_runs(a, a).differences == []


def test_a_report_of_the_gate_is_a_run(tmp_path: Path) -> None:
    """What `eval gate` writes can be compared as it is."""
    plain = json.loads(_run(tmp_path / "a", [1, 2]).read_text())
    (tmp_path / "report").write_text(json.dumps({"gate": {}, "report": plain}))

    assert load_run(tmp_path / "report").per_query == load_run(tmp_path / "a").per_query


@pytest.mark.parametrize(
    "changes", [{"suite_digest": "t"}, {"k": 5}, {"per_query": []}, {"per_query": None}]
)
def test_runs_of_different_suites_are_not_compared(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Suite, k and queries must be the same, and there must be some."""
    a = _run(tmp_path / "a", [1, 2])
    b = _run(tmp_path / "b", [1, 2], **changes)

    with pytest.raises(BadInput):
        compare_runs(load_run(a), load_run(b))
    with pytest.raises(BadInput, match="unknown measure"):
        compare_runs(load_run(a), load_run(a), "f1")


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_an_interval_holds_the_mean_of_what_it_resamples(values: list[float]) -> None:
    """Between the least and the greatest value, in order, and the same every time."""
    interval = bootstrap_interval(values)

    assert min(values) - 1e-6 <= interval.low <= interval.high <= max(values) + 1e-6
    assert interval == bootstrap_interval(values)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1, 1), max_size=10))
def test_chance_has_no_direction(differences: list[float]) -> None:
    """Between 0 and 1, and the same for both directions."""
    chance = paired_p_value(differences)

    assert 0.0 < chance <= 1.0
    assert chance == paired_p_value([-one for one in differences])


def test_chance_by_hand() -> None:
    """All of n differences one way: 2 of 2^n signs; beyond 14 pairs it is close to that."""
    assert paired_p_value([0.1, 0.2, 0.3]) == 2 / 8
    assert paired_p_value([1.0] * 14) == 2 / 2**14
    assert paired_p_value([1.0] * 20) < 0.001
    assert paired_p_value([1.0, -1.0] * 20) > 0.9
    assert measures.mean([1.0, -1.0]) == 0.0


SUITE_TEXT = msgspec.json.encode(SUITE).decode()
POLICY_TEXT = msgspec.json.encode(POLICY).decode()
LOADERS: dict[str, Any] = {"suite": load_suite, "policy": load_policy, "baseline": load_baseline}


@pytest.mark.parametrize(
    ("kind", "old", "new", "words"),
    [
        ("suite", '"version":"v1"', '"version":" "', "blank"),
        ("suite", '"version":"v1"', '"version":1', "version"),
        ("suite", '"id":"a"', '"id":" "', "blank"),
        ("suite", '"id":"a"', '"id":null', "id"),
        ("suite", '"id":"a"', '"id":"b"', "occurs twice"),
        ("suite", '"id":"a"', '"id":"a","id":"c"', "twice"),
        ("suite", '"query":"first query"', '"query":"ab"', "fewer than 3"),
        ("suite", '"query":"first query"', '"query":["ab"]', "query"),
        ("suite", '"intent":"symbol"', '"intent":"Symbol"', "intent|Symbol"),
        ("suite", '[{"hint":"a.md"}]', '["a.md"]', "expected_targets"),
        ("suite", '[{"hint":"a.md"}]', '[{"hint":"a.md"},{"hint":" A.md"}]', "occurs twice"),
        ("suite", '[{"hint":"a.md"}]', '[{"hint":""}]', "hint"),
        ("suite", '[{"hint":"a.md"}]', '[{"hint":"a.md","within":3}]', "within"),
        ("suite", '"within":2', '"within":0', "within"),
        ("suite", '"within":2', '"within":NaN', "NaN"),
        ("suite", '"within":2', '"within":1.5', "within"),
        ("suite", '"hint":"old.md"', '"hint":"a.md"', "occurs twice"),
        ("suite", '{"version"', '[{"version"', "JSON"),
        ("policy", "retrieval-gate-policy-v1", "retrieval-gate-policy-v2", "version"),
        ("policy", '"max_p95_latency_ms":1000.0', '"max_p95_latency_ms":-1', "max_p95"),
        ("policy", '"max_p95_latency_ms":1000.0', '"max_p95_latency_ms":1e999', "max_p95|JSON"),
        ("policy", '"max_p95_latency_ms":1000.0', '"max_p95_latency_ms":NaN', "NaN"),
        ("policy", '"by_intent":{}', '"by_intent":{"guess":{}}', "by_intent|guess"),
        ("policy", '"by_intent":{}', '"by_intent":{"path":{}}', "max_p50"),
        ("policy", '"by_intent":{}', '"by_intents":{}', "by_intents"),
        ("policy", '"max_negative_hit_rate":1.0', '"max_negative_hit_rate":2', "negative"),
        ("policy", '"tolerance"', '"tolerances"', "tolerance"),
        ("baseline", "{", "[", "JSON"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, kind: str, old: str, new: str, words: str) -> None:
    """A file with one thing wrong is refused, with the file and the thing named, always in the same words."""
    good = {"suite": SUITE_TEXT, "policy": POLICY_TEXT, "baseline": "{}"}[kind]
    assert old in good
    path = tmp_path / f"{kind}.json"
    path.write_text(good.replace(old, new, 1))

    with pytest.raises(ConfigError, match=words) as first:
        LOADERS[kind](path)
    with pytest.raises(ConfigError) as again:
        LOADERS[kind](path)
    assert str(path) in first.value.message
    assert first.value.message == again.value.message


@pytest.mark.parametrize("kind", ["suite", "policy", "baseline"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"null", b"[]", b"{}", b"[" * 100_000])
def test_no_bytes_break_a_loader(tmp_path: Path, kind: str, data: bytes) -> None:
    """Whatever is in the file, it is a clear error."""
    path = tmp_path / "file.json"
    path.write_bytes(data)

    with pytest.raises(BadInput) as caught:
        LOADERS[kind](path)
    assert str(path) in caught.value.message


def test_a_tolerance_may_leave_new_keys_out() -> None:
    """Policies written before unwanted targets had a rate are still policies."""
    assert msgspec.convert(
        {
            "recall_at_k": 0.0,
            "mrr": 0.0,
            "ndcg_at_k": 0.0,
            "zero_result_rate": 0.0,
            "clustering_ratio": 0.0,
            "degraded_query_rate": 0.0,
            "p95_latency_ms": 0.0,
        },
        Tolerance,
    ) == Tolerance(
        recall_at_k=0.0,
        mrr=0.0,
        ndcg_at_k=0.0,
        zero_result_rate=0.0,
        clustering_ratio=0.0,
        degraded_query_rate=0.0,
        p95_latency_ms=0.0,
    )
