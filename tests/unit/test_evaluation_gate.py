"""The gate: matching of targets, and one category for each kind of regression."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.gate_policy import POLICY

from whence.evaluation.gate.checks import Check, Gate, check_run, loose_checks
from whence.evaluation.gate.files import Baseline, Policy, SuiteFile
from whence.evaluation.gate.hints import match_hints, names_hit
from whence.evaluation.gate.query_reports import (
    SuiteRun,
    floor_of,
    latencies_by_check,
    latency_by_intent,
    run_suite,
    suite_metrics,
)
from whence.evaluation.gate.reference_work import ReferenceWork
from whence.evaluation.gate.report import check_comparable, gate_document, make_baseline
from whence.evaluation.searcher import Passage, SearchOutcome
from whence.schema.errors import BadInput, Unavailable

SUITE: dict[str, Any] = {
    "version": "retrieval-eval-suite-v1",
    "queries": [
        {
            "id": f"q{number}",
            "query": f"query {number}",
            "intent": intent,
            "expected_targets": [{"hint": f"doc{number}.md"}],
        }
        for number, intent in enumerate(("symbol", "path", "error", "natural_language"))
    ],
}
ANSWERS = {
    f"query {number}": [f"docs/doc{number}.md", f"docs/a{number}.md", "docs/b.md"]
    for number in range(4)
}


class Scripted:
    """Returns prepared answers; the query `down` is degraded."""

    def __init__(
        self, answers: dict[str, list[str]], *, latency_ms: float = 10.0, down: str = ""
    ) -> None:
        self.answers = answers
        self.latency_ms = latency_ms
        self.down = down
        self.calls = 0

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        self.calls += 1
        hits = [
            Passage(document_id=path, score=1 - rank / 10, source_file=path)
            for rank, path in enumerate(self.answers[query])
        ]
        reasons = ("words alone ranked",) if query == self.down else ()
        return SearchOutcome(passages=hits[:limit], latency_ms=self.latency_ms, degraded=reasons)


async def run(search: Any, machine: ReferenceWork | None = None) -> SuiteRun:
    """Run the suite."""
    suite = msgspec.convert(SUITE, SuiteFile).suite
    queries = await run_suite(search, suite, mode="hybrid", k=3, reference=machine)
    return SuiteRun(queries, "c", "d", work=machine.name if machine else "")


async def judged(
    search: Any, *, policy: dict[str, Any] = POLICY, per_query: bool = True
) -> tuple[Gate, dict[str, Any]]:
    """Compare a search with the baseline of the prepared answers."""
    suite = msgspec.convert(SUITE, SuiteFile).suite
    before = make_baseline(await run(Scripted(ANSWERS)), suite, k=3, mode="hybrid", version="1")
    if not per_query:
        before = msgspec.structs.replace(before, per_query=[])
    document = gate_document(
        await run(search), suite, before, msgspec.convert(policy, Policy), dry_run=False
    )
    return document["gate"], document["report"]


def changed(**answers: list[str]) -> dict[str, list[str]]:
    """Return the answers with some replaced, `q0=[...]` for query 0."""
    return ANSWERS | {f"query {name[1:]}": found for name, found in answers.items()}


async def test_an_equal_run_passes() -> None:
    """Equal answers pass every check; there are latency checks for every intent."""
    gate, report = await judged(Scripted(ANSWERS))
    names = {check.metric for check in gate.checks}

    assert (gate.verdict, gate.taxonomy, report["movers"]) == ("pass", [], [])
    assert all(check.passed for check in gate.checks)
    for intent in ("symbol", "path", "error", "natural_language"):
        assert {f"latency_p50_ms.{intent}", f"latency_p95_ms.{intent}"} <= names


@pytest.mark.parametrize("per_query", [True, False])
async def test_a_lost_target_is_a_recall_drop_alone(*, per_query: bool) -> None:
    """MRR and nDCG decrease, too, but the category is one."""
    # Without per-query records, clustering cannot be explained by a lost target.
    third = "docs/b.md" if per_query else "docs/c.md"
    search = Scripted(changed(q0=["docs/a0.md", "docs/b.md", third]))
    gate, report = await judged(search, per_query=per_query)
    recall = next(check for check in gate.checks if check.metric == "recall_at_k")

    assert (gate.verdict, gate.taxonomy) == ("fail", ["recall_drop"])
    assert (recall.passed, recall.baseline, recall.current, recall.delta) == (False, 1, 0.75, -0.25)
    assert not next(check for check in gate.checks if check.metric == "mrr").passed
    assert [mover.lost_hints for mover in report["movers"]] == [["doc0.md"]] * per_query
    assert report["unmatched_hints"] == [{"id": "q0", "hint": "doc0.md"}]


async def test_a_target_that_moves_down_is_a_ranking_shift() -> None:
    """The target is still found, at a lower rank."""
    gate, report = await judged(Scripted(changed(q1=["docs/a1.md", "docs/b.md", "docs/doc1.md"])))

    assert (gate.verdict, gate.taxonomy) == ("fail", ["ranking_shift"])
    assert (report["movers"][0].hit_rank_before, report["movers"][0].hit_rank) == (1, 3)


async def test_a_loss_does_not_hide_a_ranking_shift() -> None:
    """One query loses its target while another's moves down: both are named."""
    gate, _ = await judged(
        Scripted(changed(q0=["docs/a.md"], q1=["docs/a1.md", "docs/b.md", "docs/doc1.md"]))
    )

    assert gate.taxonomy == ["ranking_shift", "recall_drop"]


async def test_slow_answers_are_a_latency_regression() -> None:
    """Beyond the tolerance it fails for every intent, within it passes."""
    slow, _ = await judged(Scripted(ANSWERS, latency_ms=60))
    noisy, _ = await judged(Scripted(ANSWERS, latency_ms=30))

    assert (slow.verdict, slow.taxonomy) == ("fail", ["latency_regression"])
    assert "latency_p95_ms.path" in {check.metric for check in slow.checks if not check.passed}
    assert noisy.verdict == "pass"


def failed(gate: Gate) -> set[str]:
    """Return the names of the failed checks."""
    return {check.metric for check in gate.checks if not check.passed}


async def test_a_slow_first_search_is_a_latency_regression() -> None:
    """A search that is slow once and then answered from a cache fails the checks of first latencies alone."""

    class Cached(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            found = await super().__call__(query, mode=mode, limit=limit)
            # The search that is not counted, and the first of each query.
            return msgspec.structs.replace(found, latency_ms=810.0 if self.calls <= 5 else 10.0)

    gate, report = await judged(Cached(ANSWERS))

    assert gate.taxonomy == ["latency_regression"]
    assert failed(gate) == {"first_latency_p50_ms", "first_latency_p95_ms"}
    assert report["metrics"].latency_p95_ms == 10.0
    assert report["metrics"].first_latency_p50_ms == 810.0


async def test_the_shortest_of_the_repeated_searches_counts() -> None:
    """A search that something else delayed once does not change the warm latency."""

    class Hiccup(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            found = await super().__call__(query, mode=mode, limit=limit)
            return msgspec.structs.replace(found, latency_ms=90.0 if self.calls == 6 else 10.0)

    done = await run(Hiccup(ANSWERS), Machine(5.0))

    assert (done.queries[0].latency_ms, done.queries[0].latency_floors) == (10.0, 2.0)


class Machine(ReferenceWork):
    """A machine on which the fixed work takes prepared milliseconds, the last of them from then on."""

    def __init__(self, *work_ms: float, name: str = "test") -> None:
        self.name = name
        self.work_ms = list(work_ms)

    async def __call__(self) -> float:
        return self.work_ms.pop(0) if len(self.work_ms) > 1 else self.work_ms[0]


async def on_machines(
    latency_ms: float, before: Machine | None, now: Machine | None, **tolerance: float
) -> Gate:
    """Compare latencies on one machine with those of 10 ms on another."""
    suite = msgspec.convert(SUITE, SuiteFile).suite
    policy = copy.deepcopy(POLICY)
    policy["tolerance"] |= {"p50_latency_ms": 0.0, "p95_latency_ms": 0.0} | tolerance
    old = make_baseline(
        await run(Scripted(ANSWERS), before), suite, k=3, mode="hybrid", version="1"
    )
    done = await run(Scripted(ANSWERS, latency_ms=latency_ms), now)
    return check_run(
        done.queries, old, msgspec.convert(policy, Policy), floor_of(done.work, done.queries)
    )


@pytest.mark.parametrize(
    ("latency_ms", "work_ms", "passed"),
    [
        (10.0, 5.0, True),
        (13.0, 5.0, True),
        (15.9, 5.0, True),
        (16.1, 5.0, False),
        (20.0, 5.0, False),
        (40.0, 20.0, True),
        (52.0, 20.0, True),
        (80.0, 20.0, False),
        (2.0, 1.0, True),
        (2.6, 1.0, True),
        (4.0, 1.0, False),
    ],
)
async def test_latencies_are_compared_in_units_of_the_floor(
    latency_ms: float, work_ms: float, *, passed: bool
) -> None:
    """Twice as slow fails on a machine of any speed, noise of 30 % does not."""
    gate = await on_machines(latency_ms, Machine(5.0), Machine(work_ms))
    check = next(one for one in gate.checks if one.metric == "latency_p95_ms.path")

    assert (gate.verdict == "pass") is passed
    assert (check.current, check.baseline) == (latency_ms, 10.0)
    assert check.delta == pytest.approx(latency_ms - 10.0)
    assert check.expected == pytest.approx(2.0 * work_ms)
    assert check.threshold == pytest.approx(3.2 * work_ms)
    assert passed or len(failed(gate)) == 12


async def test_the_fixed_work_asks_the_database() -> None:
    """Two statements each time; without a database the work has another name."""
    asked: list[int] = []

    async def statement() -> None:
        asked.append(1)

    work, other = ReferenceWork(statement), ReferenceWork(None)

    assert 0.0 < await work() < 60_000.0
    assert 0.0 < await other() < 60_000.0
    assert (len(asked), other.name) == (2, f"{work.name} without database")


async def test_a_busy_moment_is_no_regression() -> None:
    """The unit of a search is the work beside it: a machine that is busy for a while slows both."""
    slow = [10.0] * 2 + [30.0] * 2

    class Busy(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            found = await super().__call__(query, mode=mode, limit=limit)
            return msgspec.structs.replace(found, latency_ms=slow[(self.calls - 2) % 4])

    done = await run(Busy(ANSWERS), Machine(5.0, *[5.0, 5.0, 15.0, 15.0] * 4, 5.0))
    units = [one.first_latency_floors for one in done.queries]

    assert units == [2.0, pytest.approx(1.2), pytest.approx(90 / 35), 2.0]


async def test_a_baseline_without_this_floor_is_compared_as_it_is() -> None:
    """Milliseconds are compared when the baseline has no floor, or that of another work."""
    for before in (None, Machine(5.0, name="other")):
        same = await on_machines(15.0, before, Machine(20.0))
        slow = await on_machines(20.0, before, Machine(20.0))

        assert (same.verdict, slow.verdict) == ("pass", "fail")


async def test_the_tolerance_is_the_larger_of_ratio_and_milliseconds() -> None:
    """A policy may allow a difference in milliseconds, and another ratio."""
    machines = (Machine(5.0), Machine(5.0))

    assert (await on_machines(35.0, *machines, p50_latency_ms=25.0)).verdict == "fail"
    both = {"p50_latency_ms": 25.0, "p95_latency_ms": 25.0}
    assert (await on_machines(35.0, *machines, **both)).verdict == "pass"
    ratios = {"p50_latency_ratio": 1.2, "p95_latency_ratio": 3.0}
    assert failed(await on_machines(13.0, *machines, **ratios)) == {
        "first_latency_p50_ms",
        *(f"latency_p50_ms{one}" for one in ("", ".symbol", ".path", ".error")),
        "latency_p50_ms.natural_language",
    }


async def test_percentiles_are_those_of_their_names() -> None:
    """p50 and p95 of a hundred queries of 1 to 100 ms are 50 and 95 ms, first and warm."""
    queries = [
        SUITE["queries"][0] | {"id": f"q{number:03}", "query": f"query {number}"}
        for number in range(100)
    ]
    suite = msgspec.convert(SUITE | {"queries": queries}, SuiteFile).suite

    async def search(query: str, *, mode: str, limit: int) -> SearchOutcome:
        return SearchOutcome(passages=[], latency_ms=1.0 + int(query.split()[1]))

    done = await run_suite(search, suite, mode="hybrid", k=3, reference=Machine(2.0))
    metrics, by_intent = suite_metrics(done), latency_by_intent(done)["symbol"]

    assert (metrics.latency_p50_ms, metrics.latency_p95_ms) == (50.0, 95.0)
    assert (metrics.first_latency_p50_ms, metrics.first_latency_p95_ms) == (50.0, 95.0)
    assert (by_intent.p50_ms, by_intent.p95_ms) == (50.0, 95.0)
    assert latencies_by_check(done)["latency_p95_ms.symbol"] == (95.0, 47.5)


async def test_the_policy_holds_for_any_baseline() -> None:
    """A recorded quality below the policy's minimum fails, though nothing changed."""
    suite = msgspec.convert(SUITE, SuiteFile).suite
    done = await run(Scripted(changed(q0=["docs/a.md", "docs/b.md", "docs/c.md"])))
    before = make_baseline(done, suite, k=3, mode="hybrid", version="1")
    policy = copy.deepcopy(POLICY)
    policy["quality"] |= {"min_recall_at_k": 0.8}
    gate = check_run(done.queries, before, msgspec.convert(policy, Policy))
    recall = next(check for check in gate.checks if check.metric == "recall_at_k")

    assert failed(gate) == {"recall_at_k"}
    assert (recall.baseline, recall.current, recall.threshold) == (0.75, 0.75, 0.8)


async def test_an_intent_has_its_own_limits() -> None:
    """Limits of an intent replace the common ones for its checks alone, stricter or not."""
    policy = copy.deepcopy(POLICY)
    strict = {"max_p50_latency_ms": 5.0, "max_p95_latency_ms": 8.0}
    policy["latency"]["by_intent"] = {"path": strict}
    gate, _ = await judged(Scripted(ANSWERS), policy=policy)
    limits = {check.metric: check.threshold for check in gate.checks}

    assert failed(gate) == {"latency_p50_ms.path", "latency_p95_ms.path"}
    assert (limits["latency_p50_ms.path"], limits["latency_p95_ms.path"]) == (5.0, 8.0)
    policy["latency"] = {"max_p50_latency_ms": 5.0, "max_p95_latency_ms": 5.0}
    policy["latency"]["by_intent"] = {"path": dict.fromkeys(strict, 500.0)}
    gate, _ = await judged(Scripted(ANSWERS), policy=policy)
    assert "latency_p95_ms.error" in failed(gate)
    assert not {"latency_p50_ms.path", "latency_p95_ms.path"} & failed(gate)


async def test_a_query_without_results_is_counted() -> None:
    """A query that finds nothing at all fails `zero_result_rate`, though its target was missing before."""
    suite = msgspec.convert(SUITE, SuiteFile).suite
    wrong = changed(q0=["docs/a.md", "docs/b.md", "docs/c.md"])
    before = make_baseline(await run(Scripted(wrong)), suite, k=3, mode="hybrid", version="1")
    done = await run(Scripted(changed(q0=[])))
    gate = check_run(done.queries, before, msgspec.convert(POLICY, Policy))
    rate = next(check for check in gate.checks if check.metric == "zero_result_rate")

    assert (failed(gate), gate.taxonomy) == ({"zero_result_rate"}, ["recall_drop"])
    assert (rate.current, rate.baseline, rate.delta) == (0.25, 0.0, 0.25)


@pytest.mark.parametrize("repeat", [1, 2, 3])
async def test_a_later_search_that_is_degraded_counts(repeat: int) -> None:
    """Each of the four searches for a query counts, whichever is degraded or runs out of time."""

    class Later(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            found = await super().__call__(query, mode=mode, limit=limit)
            if self.calls != 2 + 4 * repeat:
                return found
            return msgspec.structs.replace(found, degraded=("no vectors",), timed_out=True)

    gate, report = await judged(Later(ANSWERS))

    assert (failed(gate), gate.taxonomy) == ({"degraded_query_rate"}, ["semantic_degraded_spike"])
    assert report["metrics"].semantic_budget_exhaustion_rate == 0.25
    assert report["per_query"][0].degraded_reasons == ["no vectors"]


async def test_results_from_one_file_are_a_diversity_collapse() -> None:
    """All results come from the target's file."""
    crowded = {query: [found[0]] * 3 for query, found in ANSWERS.items()}
    gate, _ = await judged(Scripted(crowded))

    assert (gate.verdict, gate.taxonomy) == ("fail", ["diversity_collapse"])


async def test_a_degraded_query_is_a_spike() -> None:
    """The other queries run; a policy that does not enforce the rate passes and reports it."""
    gate, report = await judged(Scripted(ANSWERS, down="query 2"))
    watching = copy.deepcopy(POLICY)
    watching["quality"]["enforce_degraded_query_rate"] = False
    watched, _ = await judged(Scripted(ANSWERS, down="query 2"), policy=watching)

    assert (gate.verdict, gate.taxonomy) == ("fail", ["semantic_degraded_spike"])
    assert report["metrics"].degraded_query_rate == 0.25
    assert (watched.verdict, watched.taxonomy) == ("pass", [])
    assert watched.observed == ["degraded_query_rate"]


async def test_a_service_that_is_down_degrades_its_query() -> None:
    """An error of a service degrades one query only."""

    class Down(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            if query == "query 3":
                raise Unavailable("the model does not answer")
            return await super().__call__(query, mode=mode, limit=limit)

    done = await run(Down(ANSWERS))

    assert [query.semantic_degraded for query in done.queries] == [False, False, False, True]
    assert done.queries[3].degraded_reasons == ["the model does not answer"]


async def test_an_order_that_changes_between_runs_fails() -> None:
    """Different orders of two runs fail the gate."""

    class Wavering(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            found = await super().__call__(query, mode=mode, limit=limit)
            hits = (
                found.passages if self.calls <= 5 else [found.passages[0], *found.passages[:0:-1]]
            )
            return msgspec.structs.replace(found, passages=hits)

    gate, _ = await judged(Wavering(ANSWERS))

    assert [check.metric for check in gate.checks if not check.passed] == ["replay_differences"]
    assert gate.taxonomy == ["ranking_shift"]


@pytest.mark.parametrize(
    ("hint", "path", "expected"),
    [
        ("a.rs", "src/data.rs", False),
        ("data.rs", "src/data.rs", True),
        ("SRC/Data.rs", "src/data.rs", True),
        ("rs", "src/data.rs", False),
        ("src/data.rs", "src/data.rs", True),
        (" data.rs ", "src/data.rs", True),
    ],
)
def test_a_path_matches_by_whole_segments(hint: str, path: str, *, expected: bool) -> None:
    """Parts of words do not match; case is ignored."""
    assert names_hit(hint, Passage(document_id="x", score=1, source_file=path)) is expected


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("Total", True),
        ("Orders.Total", True),
        ("rders.Total", False),
        ("Shop::Orders", False),
        ("cs::Shop.Orders.Total", True),
    ],
)
def test_code_matches_by_id_and_qualified_name(hint: str, *, expected: bool) -> None:
    """Segments of a name are separated by `::`, `.` and `#`."""
    hit = Passage(
        document_id="Shop::s1::cs::Shop.Orders.Total",
        score=1,
        name="Total",
        qualified_name="Shop.Orders.Total",
    )

    assert names_hit(hint, hit) is expected


def test_one_document_satisfies_one_target() -> None:
    """Several passages of a file do not count twice, and the assignment is the largest possible."""
    hits = [
        Passage(document_id=path, score=1, source_file=path)
        for path in ("x/a.md", "x/a.md", "y/a.md")
    ]

    assert match_hints(["a.md", "x/a.md"], hits[:2]) == {0: 0}
    assert match_hints(["a.md", "x/a.md"], hits) == {0: 1, 2: 0}


@given(st.lists(st.sampled_from(["a", "b", "x/a", "x/b"]), unique=True), st.data())
def test_an_assignment_is_one_to_one(hints: list[str], data: st.DataObject) -> None:
    """No target and no document is used twice, and all pairs fit."""
    paths = data.draw(st.lists(st.sampled_from(["a", "b", "x/a", "x/b", "y/a"]), max_size=8))
    hits = [Passage(document_id=path, score=1, source_file=path) for path in paths]
    found = match_hints(hints, hits)

    assert len(set(found.values())) == len(found)
    assert len({paths[place] for place in found}) == len(found)
    assert all(names_hit(hints[number], hits[place]) for place, number in found.items())


def test_a_baseline_far_below_the_quality_is_named() -> None:
    """More than three tolerances between number and threshold, for the qualities that should be high."""

    def check(metric: str, current: float, **fields: Any) -> Check:
        sound = {"baseline": 0.5, "expected": 0.5, "threshold": 0.5, "delta": 0.0}
        rest = {"tolerance": 0.125, "direction": "min", "unit": "share", "passed": True}
        return Check(metric=metric, current=current, **(sound | rest | fields))

    checks = [
        check("equal", 0.875),
        check("above", 0.9),
        check("high", 0.9, direction="max"),
        check("no tolerance", 0.9, tolerance=None),
        check("below", 0.1),
    ]

    assert loose_checks(Gate(verdict="pass", checks=checks, taxonomy=[], observed=[])) == ["above"]


async def test_a_baseline_belongs_to_its_suite() -> None:
    """Another k, suite version or suite content is refused, however small the change."""
    suite = msgspec.convert(SUITE, SuiteFile).suite
    before: Baseline = make_baseline(
        await run(Scripted(ANSWERS)),
        suite,
        k=3,
        mode="hybrid",
        version="1",
    )
    check_comparable(before, suite, 3)

    with pytest.raises(BadInput, match="baseline's k is 3"):
        check_comparable(before, suite, 10)
    with pytest.raises(BadInput, match="baseline's suite_version is"):
        check_comparable(before, msgspec.structs.replace(suite, version="v2"), 3)
    fewer = msgspec.convert(SUITE | {"queries": SUITE["queries"][1:]}, SuiteFile).suite
    with pytest.raises(BadInput, match="baseline's suite_digest is"):
        check_comparable(before, fewer, 3)
