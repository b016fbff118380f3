"""Validation: strict suites, honest checks, and a report that adds up."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.evaluation.charts import latency_svg
from whence.evaluation.searcher import Passage, SearchOutcome
from whence.evaluation.validation import checks
from whence.evaluation.validation.latencies import summarize_latencies
from whence.evaluation.validation.report import ValidationReport, build_report, load_documents
from whence.evaluation.validation.run import Limits, run_validation
from whence.evaluation.validation.source_texts import Page, SourceTexts, read_source_texts
from whence.evaluation.validation.suite_file import (
    TestQuery,
    Thresholds,
    ValidationSuite,
    generate_suite,
    load_suite,
    parse_suite,
    shipped_suite,
)
from whence.evaluation.validation.target import PassageSource, TargetInfo
from whence.schema.errors import BadInput, ConfigError, ModelMismatch, NotFound, Unavailable

TEXTS = [
    "Kinematics of a humanoid robot relate joint angles to the pose of its hands.",
    "Dynamics relate forces and torques to the motion of every link of the robot.",
    "A simulation on graphics processors runs thousands of robots side by side.",
]


def passage(number: int = 0, **changes: Any) -> Passage:
    """Return a sound passage."""
    sound = Passage(
        id=f"c{number}",
        score=0.9 - number / 10,
        text=TEXTS[number],
        source_url=f"https://book.example/chapter-{number}",
        section_path=f"Book > Chapter {number}",
        heading=f"Chapter {number}",
        chunk_index=number,
        document_id=f"chapter-{number}",
    )
    return msgspec.structs.replace(sound, **changes)


class Scripted:
    """A target with prepared passages."""

    def __init__(self, passages: Sequence[Passage], **options: Any) -> None:
        self.passages = list(passages)
        self.delay_s: float = options.get("delay_s", 0.0)
        self.errors: dict[int, Exception] = options.get("errors", {})
        self.degraded: tuple[str, ...] = options.get("degraded", ())
        self.digest: str = options.get("digest", "")
        self.asked: list[str] = []

    async def describe(self) -> TargetInfo:
        return TargetInfo(store="memory", collection="book", model="stub", dimension=3)

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        self.asked.append(query)
        if len(self.asked) in self.errors:
            raise self.errors[len(self.asked)]
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        return SearchOutcome(
            passages=self.passages[:limit], embedding_ms=2.0, search_ms=3.0, degraded=self.degraded
        )

    async def document(self, one: Passage) -> PassageSource:
        return PassageSource(text=f"# {one.heading}\n{one.text}", digest=self.digest)

    async def sections(self, limit: int) -> list[Passage]:
        return []

    async def folders(self) -> list[Path]:
        return []

    async def contains(self, document_ids: Sequence[str]) -> bool:
        return False


SOUND = [passage(0), passage(1), passage(2)]
QUICK = Limits(clients=0, repeats=0)
NOTHING = SourceTexts(None, {})


async def report(
    target: Any,
    *queries: dict[str, Any],
    limits: Limits = QUICK,
    sources: SourceTexts = NOTHING,
    clock: Callable[[], float] = time.perf_counter,
    **thresholds: Any,
) -> ValidationReport:
    """Validate a target with some queries."""
    asked = queries or ({"query_text": "robot kinematics"},)
    suite = msgspec.convert({"queries": list(asked)}, ValidationSuite)
    run = await run_validation(target, suite, limits, clock=clock)
    return build_report(
        run,
        suite,
        origin="test",
        about=await target.describe(),
        thresholds=Thresholds(**thresholds),
        stored=await load_documents(target, run),
        sources=sources,
    )


async def test_a_valid_collection_passes() -> None:
    """The report has every field, and its counts add up."""
    done = await report(
        Scripted(SOUND),
        {"query_text": "robot kinematics", "expected_topics": ["kinematics"], "min_results": 3},
        {"query_text": "robot dynamics", "source_url_pattern": r"chapter-\d$"},
    )
    plain = msgspec.to_builtins(done)

    assert done.passed
    assert (done.total_queries, done.passed_queries, done.failed_queries) == (2, 2, 0)
    assert done.avg_latency_ms == pytest.approx(
        sum(one.latency_ms for one in done.results) / 2, abs=0.001
    )
    assert {"p50_latency_ms", "p95_latency_ms", "p99_latency_ms"} <= plain.keys()
    assert {"id", "score", "text", "source_url", "section_path", "heading", "chunk_index"} <= (
        plain["results"][0]["results"][0].keys()
    )
    assert done.results[0].reason == ""
    assert (done.latency["embedding"].p50_ms, done.latency["search"].p50_ms) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("query", "changes", "check", "words"),
    [
        ({"expected_topics": ["robot", "cooking"]}, {}, "topics", "'cooking'"),
        ({"min_results": 4}, {}, "results", "3 results"),
        ({"source_url_pattern": "module-4"}, {}, "source_url", "module-4"),
        ({}, {"source_url": None}, "metadata", "source_url is missing"),
        ({}, {"section_path": " "}, "metadata", "section_path is missing"),
        ({}, {"heading": ""}, "metadata", "heading is missing"),
        ({}, {"chunk_index": None}, "metadata", "chunk_index is missing"),
        ({}, {"chunk_index": -1}, "metadata", "chunk_index is missing"),
        ({}, {"id": "c1"}, "unique", "twice"),
        (
            {},
            {name: getattr(passage(1), name) for name in ("source_url", "section_path")}
            | {"chunk_index": 1, "document_id": "chapter-1", "heading": "Chapter 1"},
            "unique",
            "the same place ('Book > Chapter 1')",
        ),
        ({}, {"text": TEXTS[1], "document_id": "chapter-1"}, "overlap", "overlap"),
    ],
)
async def test_one_fault_fails_one_check(
    query: dict[str, Any], changes: dict[str, Any], check: str, words: str
) -> None:
    """The tested check fails first, and its reason names the fault."""
    found = [passage(0, **changes), *SOUND[1:]]
    done = await report(Scripted(found), {"query_text": "robot kinematics"} | query)
    result = done.results[0]

    assert not result.passed
    assert next(name for name, fault in result.checks.items() if fault) == check
    assert words in result.reason
    assert not done.passed


async def test_a_heading_must_occur_in_its_document() -> None:
    """A heading that the document does not have is a fault; one shortened with an ellipsis is not."""

    class Other(Scripted):
        async def document(self, one: Passage) -> PassageSource:
            return PassageSource(text=one.text)

    shortened = [passage(0, heading="Kinematics of a humanoid…")]
    wrong, right = await report(Other(SOUND)), await report(Other(shortened))

    assert wrong.results[0].checks["heading"] == (
        "c0: the heading 'Chapter 0' does not occur in its document"
    )
    assert right.passed


async def test_a_changed_text_is_noticed() -> None:
    """A text must be the stored one and occur verbatim in its source."""
    stored = hashlib.sha256(TEXTS[0].encode()).hexdigest()
    sources = {"chapter-0": f"# Chapter 0\n\n{TEXTS[0]}\n"}
    edited = passage(0, text=TEXTS[0].replace("hands", "feet"))

    async def fault(one: Passage, digest: str, documents: dict[str, str] | None) -> str | None:
        target = Scripted([one], digest=digest)
        done = await report(target, sources=SourceTexts(documents, {}))
        return done.results[0].checks["verbatim"]

    assert await fault(passage(0), stored, sources) is None
    assert "not the one that was stored" in str(await fault(edited, stored, None))
    assert "does not occur in its source" in str(await fault(edited, "", sources))
    assert "not in the sources" in str(await fault(passage(0), "", {}))


async def test_pages_behind_addresses_are_compared() -> None:
    """A page may wrap words around a text; one that cannot be read is a fault of its own."""
    address = str(passage(0).source_url)
    around = Page(f"menu home {TEXTS[0]} footer", "")
    good = await report(Scripted([passage(0)]), sources=SourceTexts(None, {address: around}))
    gone = await report(
        Scripted([passage(0)]), sources=SourceTexts(None, {address: Page(None, "it answered 404")})
    )

    assert (good.passed, good.sources_compared) == (True, 1)
    assert gone.results[0].reason == f"{address}: it answered 404"


async def test_originals_come_from_what_was_indexed(tmp_path: Path) -> None:
    """Documents are found by their ids; sources that hold none of them are refused."""
    (tmp_path / "chapter-0.md").write_text(f"# Chapter 0\n\n{TEXTS[0]}\n")
    found = read_source_texts([passage(0, document_id="chapter-0.md")], [tmp_path], {})

    assert found.documents is not None
    assert TEXTS[0] in found.documents["chapter-0.md"]
    with pytest.raises(BadInput, match="none of the documents"):
        read_source_texts([passage(0)], [tmp_path], {})


async def test_files_that_are_known_are_compared(tmp_path: Path) -> None:
    """A file that is gone is no fault, one with another text is; nothing above the folder is read."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(f"# Chapter 0\n\n{TEXTS[0]}\n")
    (tmp_path / "secret.md").write_text(f"# Chapter 1\n\n{TEXTS[1]}\n")
    found = [
        passage(0, document_id="a.md", source_url="a.md"),
        passage(1, document_id="../secret.md", source_url="../secret.md"),
    ]
    texts = read_source_texts(found, [tmp_path / "docs"], {}, required=False)
    checked = read_source_texts(found, [tmp_path / "docs"], {}, required=False, check_files=True)
    done = await report(Scripted(found), sources=texts)
    edited = passage(0, document_id="a.md", text=TEXTS[2])
    stale = await report(Scripted([edited]), sources=texts)

    assert texts.documents is not None
    assert texts.documents.keys() == {"a.md"}
    assert (done.passed, done.sources_compared) == (True, 1)
    assert "does not occur in its source" in stale.results[0].reason
    assert checked.pages.keys() == {"../secret.md"}
    assert "no such document in" in checked.pages["../secret.md"].fault


@pytest.mark.parametrize(
    ("topic", "occurs"),
    [
        ("kinematics", True),
        ("KINEMATICS", True),
        ("joint angles", True),
        ("joint angle", True),
        ("hand", True),
        ("human", False),
        ("kine", False),
        ("Chapter 0", True),
    ],
)
def test_topics_match_whole_words(topic: str, *, occurs: bool) -> None:
    """Case and inflection are ignored, headings count, parts of words do not."""
    assert (checks.found_topics([topic], [passage(0)]) == [topic]) is occurs


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from("abcdefgh"), max_size=30), st.lists(st.sampled_from("abcdefgh")))
def test_overlap_is_a_share_and_symmetric(one: list[str], other: list[str]) -> None:
    """0 to 1, the same both ways, and 1 of a text with itself."""
    first, second = " ".join(one), " ".join(other)

    assert 0.0 <= checks.overlap(first, second) <= 1.0
    assert checks.overlap(first, second) == checks.overlap(second, first)
    assert checks.overlap(first, first) == 1.0


async def test_a_too_high_threshold_is_explained() -> None:
    """The fault has the best score and a remedy."""
    done = await report(Scripted(SOUND), threshold=0.95)

    assert "no results found above the threshold 0.95: the best score is 0.900" in (
        done.results[0].reason
    )
    assert not any(row.above_threshold for row in done.results[0].results)


async def test_an_empty_collection_is_a_fault() -> None:
    """An empty collection has the fault `no results found`; a query that expects no results passes."""
    done = await report(
        Scripted([]), {"query_text": "robots"}, {"query_text": "cooking", "min_results": 0}
    )

    assert [one.reason for one in done.results] == ["no results found", ""]


@pytest.mark.parametrize("blank", ["", "   ", "\n\t"])
async def test_a_blank_query_has_an_empty_result(blank: str) -> None:
    """The fault has a message, and no search is made."""
    target = Scripted(SOUND)
    done = await report(target, {"query_text": blank})

    assert done.results[0].reason == "the query is empty: give a word or a question"
    assert (done.results[0].results, target.asked) == ([], [])


@pytest.mark.parametrize("text", ["word " * 400, "C++ & <tags> 'quotes' \"x\" %s {} \\ 日本語 🤖"])
async def test_long_and_special_queries_are_unchanged(text: str) -> None:
    """The query reaches the search unchanged."""
    target = Scripted(SOUND)
    await report(target, {"query_text": text})

    assert set(target.asked) == {text}


async def test_an_unavailable_service_ends_the_validation() -> None:
    """An unavailable service, a missing collection and another model are errors at the start."""
    for error in (Unavailable("down"), NotFound("no collection"), ModelMismatch("other model")):
        with pytest.raises(type(error)):
            await report(Scripted(SOUND, errors={1: error}))


async def test_a_failing_embedder_ends_the_validation() -> None:
    """A search by words alone would not measure the requested mode."""

    class Wordy(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            found = await super().__call__(query, mode=mode, limit=limit)
            return msgspec.structs.replace(found, embedded=False, degraded=("no vectors",))

    with pytest.raises(Unavailable, match="no vectors"):
        await report(Wordy(SOUND))


async def test_a_service_lost_later_fails_its_queries(caplog: pytest.LogCaptureFixture) -> None:
    """The other queries run; the error is logged with context, without words of the query."""
    target = Scripted(SOUND, errors={3: Unavailable("the store is gone", hint="look after it")})
    queries = [{"query_text": f"robots number {number}"} for number in range(5)]
    with caplog.at_level("ERROR"):
        done = await report(target, *queries)
    record = caplog.records[0]

    assert [one.passed for one in done.results] == [True, False, True, True, True]
    assert done.results[1].reason == "the store is gone"
    assert done.passed, "four of five suffice"
    assert (record.__dict__["action"], record.__dict__["hint"]) == ("validate", "look after it")
    assert "robots" not in caplog.text


async def test_a_refused_query_fails_alone() -> None:
    """A query of two characters fails with a reason."""
    target = Scripted(SOUND, errors={1: BadInput("too short"), 2: BadInput("too short")})
    done = await report(target, {"query_text": "abc"}, {"query_text": "robots"})

    assert [one.passed for one in done.results] == [False, True]


async def test_a_degraded_search_is_partial() -> None:
    """A retriever that did not rank makes a result partial, and the query fails."""
    done = await report(Scripted(SOUND, degraded=("the dense retriever did not rank",)))

    assert (done.partial, done.results[0].partial) == (True, True)
    assert done.results[0].reason == "the dense retriever did not rank"


async def test_a_slow_query_is_partial() -> None:
    """A query without an answer in time is partial and fails; the validation ends in time."""

    class Stalling(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            if query == "stalls":
                await asyncio.Event().wait()
            return await super().__call__(query, mode=mode, limit=limit)

    limits = Limits(clients=0, repeats=0, timeout_s=0.05)
    target = Stalling(SOUND)
    done = await report(target, {"query_text": "robots"}, {"query_text": "stalls"}, limits=limits)

    assert [one.partial for one in done.results] == [False, True]
    assert "no answer within 0.05 s" in done.results[1].reason


async def test_the_time_limit_fails_remaining_queries() -> None:
    """Queries beyond the time limit fail with the reason, and the report is partial."""
    now = [0.0]

    class Slow(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            now[0] += 4.0
            return await super().__call__(query, mode=mode, limit=limit)

    suite = ValidationSuite(queries=[TestQuery(text=f"robot {n}") for n in range(4)])
    limits = Limits(time_limit_s=10.0, timeout_s=5.0, clients=2)
    run = await run_validation(Slow(SOUND), suite, limits, clock=lambda: now[0])

    assert [bool(asked.error) for asked in run.first] == [False, False, True, True]
    assert run.cut
    assert (run.sequence, run.load) == ([], [])


async def test_a_validation_that_is_cut_off_says_so() -> None:
    """What the time limit cuts off is a warning, and no error of a service; what ran is judged."""
    target = Timed(1.0)
    limits = Limits(clients=2, repeats=10, time_limit_s=5.0)
    done = await report(target, limits=limits, clock=target.clock)

    assert done.warnings == [
        "the time limit cut the validation off; what was not asked is marked so"
    ]
    assert done.sequence is not None
    assert (done.sequence.searches, done.sequence.errors, done.load) == (3, 0, None)
    assert (done.partial, done.passed) == (True, True)


async def test_a_sequence_and_a_load_are_measured() -> None:
    """At least ten queries in sequence, then every reader all queries, with equal results."""
    done = await report(
        Scripted(SOUND),
        {"query_text": "one robot"},
        {"query_text": "two robots"},
        limits=Limits(clients=3, repeats=1),
    )

    assert done.sequence is not None
    assert done.load is not None
    assert (done.sequence.latency.samples, done.load.latency.samples) == (10, 6)
    assert (done.sequence.consistent, done.load.consistent) == (True, True)
    assert done.warnings == []


def faults(done: ValidationReport) -> set[str]:
    """Return the checks of the whole run that failed."""
    return {name for name, fault in done.checks.items() if fault}


async def test_results_that_change_fail_the_validation() -> None:
    """The same query must give the same results in the same order, in a sequence and under load."""

    class Wavering(Scripted):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            self.passages.reverse()
            return await super().__call__(query, mode=mode, limit=limit)

    class ChangedUnderLoad(Busy):
        async def during(self, query: str, busy: int) -> None:
            if busy > 1 and self.passages[0].id == "c0":
                self.passages.reverse()

    target = Wavering(SOUND)
    done = await report(target, limits=Limits(clients=0))
    loaded = await report(ChangedUnderLoad(SOUND), limits=Limits(repeats=0))
    allowed = await report(Wavering(SOUND), limits=Limits(clients=0), max_changed=0.5)

    assert done.sequence is not None
    assert (done.sequence.consistent, done.sequence.changed) == (False, 10)
    assert (done.passed, faults(done)) == (False, {"sequence_changed"})
    assert (loaded.passed, faults(loaded)) == (False, {"load_changed"})
    assert allowed.passed


class Busy(Scripted):
    """A target that knows how many searches run at once."""

    busy = most = 0

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await asyncio.sleep(0.001)
            await self.during(query, self.busy)
            return await super().__call__(query, mode=mode, limit=limit)
        finally:
            self.busy -= 1

    async def during(self, query: str, busy: int) -> None:
        """Do what the test is about, while so many searches run."""


async def test_readers_search_at_once() -> None:
    """As many searches run at once as there are readers."""
    target = Busy(SOUND)
    await report(target, limits=Limits(clients=3, repeats=0))

    assert target.most == 3


async def test_errors_under_load_fail_the_validation() -> None:
    """One failure in the load is too many, unless the suite allows it; the number is reported."""
    queries = [{"query_text": f"robot {number}"} for number in range(5)]

    async def loaded(failures: int, **thresholds: Any) -> ValidationReport:
        # The search that is not timed and five single ones come first.
        errors = {7 + number: Unavailable("overloaded") for number in range(failures)}
        limits = Limits(clients=4, repeats=0)
        return await report(Scripted(SOUND, errors=errors), *queries, limits=limits, **thresholds)

    done, one = await loaded(19), await loaded(1)

    assert done.passed_queries == 5
    assert done.load is not None
    assert (done.load.searches, done.load.errors) == (20, 19)
    assert (done.passed, faults(done)) == (False, {"load_errors"})
    assert done.checks["load_errors"] == (
        "19 of 20 searches under load failed or were incomplete, 0% are allowed"
    )
    assert not one.passed
    assert (await loaded(19, max_errors=0.95)).passed
    assert not (await loaded(19, max_errors=0.94)).passed


async def test_an_incomplete_search_under_load_is_an_error() -> None:
    """A search without one of its retrievers is counted as one that failed."""

    class Degraded(Busy):
        async def during(self, query: str, busy: int) -> None:
            self.degraded = ("words alone ranked",) if busy > 1 else ()

    done = await report(Degraded(SOUND), limits=Limits(clients=4, repeats=0))

    assert done.passed_queries == 1
    assert faults(done) == {"load_errors"}


async def test_queries_that_are_refused_are_no_errors_of_a_service() -> None:
    """A blank query fails alone; neither the sequence nor the load counts it."""
    good = [{"query_text": f"robot {number}"} for number in range(4)]
    done = await report(
        Scripted(SOUND), *good, {"query_text": " "}, limits=Limits(clients=2, repeats=10)
    )

    later = await report(
        Scripted(SOUND, errors={3: BadInput("refused")}), limits=Limits(clients=0, repeats=10)
    )

    assert done.sequence is not None
    assert (done.passed_queries, done.sequence.searches, done.sequence.errors) == (4, 8, 0)
    assert done.passed
    assert faults(later) == {"sequence_errors"}, "it was not refused the first time"


class Timed(Scripted):
    """A target whose searches take prepared seconds of its own clock; the last of them is repeated."""

    def __init__(self, *seconds: float) -> None:
        super().__init__(SOUND)
        self.seconds = list(seconds)
        self.now = 0.0

    def clock(self) -> float:
        """Return the time in seconds."""
        return self.now

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        number = min(len(self.asked), len(self.seconds) - 1)
        self.now += self.seconds[number]
        return await super().__call__(query, mode=mode, limit=limit)


@pytest.mark.parametrize(
    ("seconds", "slower"),
    [
        # The first two: the search that is not timed, and the query once.
        ([0.00003] * 10 + [3.2, 3.2], True),
        ([0.00003] * 2 + [0.00003 * 3.6**number for number in range(10)], True),
        ([0.00003] * 5 + [3.2] * 4 + [0.00003], True),
        ([0.00003] * 6 + [2.9] + [0.00003], False),
        ([0.01] * 2 + [0.013] * 10, False),
        ([0.01] * 2 + [0.1] * 10, False),
        ([1.0] * 2 + [1.9] * 10, False),
        ([0.5] * 2 + [1.2] * 10, True),
        ([1.9] * 2 + [0.01] * 10, False),
    ],
)
async def test_a_slow_down_within_a_sequence_fails(seconds: list[float], *, slower: bool) -> None:
    """Searches in a row that take twice as long and 0.1 s more; one delayed search is none, nor is noise."""
    target = Timed(*seconds)
    limits = Limits(clients=0, repeats=10)
    done = await report(target, limits=limits, clock=target.clock, max_p95_ms=9e6)

    assert done.sequence is not None
    assert done.sequence.slower is slower
    assert done.passed is not slower
    assert faults(done) == ({"sequence_slower"} if slower else set())


@pytest.mark.parametrize(
    ("seconds", "failed"),
    [
        ([0.0, 3.0, 0.1], {"p95", "mean"}),
        ([0.0, 2.0, 0.1], {"mean"}),
        ([0.0, 1.999], set()),
        ([0.0, 0.1, 3.0, 0.1], {"sequence_p95"}),
        ([0.0, 0.1] + [0.1] * 10 + [3.0], {"load_p95"}),
        ([0.0, 5.1, 0.1], {"queries", "p95", "mean"}),
    ],
)
async def test_latency_limits_fail_the_validation(seconds: list[float], failed: set[str]) -> None:
    """p95 of 3 s, of the queries, the sequence and the load; a mean of 2 s; a query of more than 5 s."""
    target = Timed(*seconds)
    limits = Limits(clients=1, repeats=10, time_limit_s=600)
    done = await report(target, limits=limits, clock=target.clock, slowdown_ms=9e6)

    assert faults(done) == failed
    assert done.passed is not failed


async def test_percentiles_of_few_samples_are_named_maximum() -> None:
    """p95 of fewer than 20 and p99 of fewer than 100 latencies are the maximum, and are called so."""
    done = await report(Scripted(SOUND), limits=Limits(clients=0, repeats=20))
    many = await report(Scripted(SOUND), limits=Limits(clients=0, repeats=100))

    assert done.percentiles == dict.fromkeys(("p50", "p95", "p99"), "max of 1")
    assert done.sequence is not None
    assert many.sequence is not None
    assert done.sequence.latency.percentiles == {"p99": "max of 20"}
    assert many.sequence.latency.percentiles == {}


def test_percentiles_are_those_of_their_names() -> None:
    """Of 1 to 100 ms, p50, p95 and p99 are 50, 95 and 99 ms."""
    times = summarize_latencies([float(number) for number in range(1, 101)])

    assert (times.p50_ms, times.p95_ms, times.p99_ms, times.max_ms) == (50.0, 95.0, 99.0, 100.0)


async def test_section_paths_may_be_required_to_be_unique() -> None:
    """By default a section may have several chunks; the report says which rule held."""
    found = [passage(0), passage(1, section_path=passage(0).section_path, heading="Chapter 0")]
    lax = await report(Scripted(found))
    strict = await report(Scripted(found), unique_sections=True)

    assert lax.passed
    assert "several chunks of one section may occur" in lax.rules["unique"]
    assert not strict.passed
    assert strict.rules["unique"] == "no section_path occurs twice"
    assert "is returned twice" in strict.results[0].reason
    assert lax.rules.keys() == lax.results[0].checks.keys()


async def test_three_results_are_asked_for_at_least() -> None:
    """A search returns the top three or more, however small `top_k` is."""
    done = await report(Scripted(SOUND), limits=Limits(top_k=1, clients=0, repeats=0))

    assert len(done.results[0].results) == 3


async def test_the_verdict_depends_on_passes_and_p95() -> None:
    """Four of five pass, three of five fail; a slow 95th percentile always fails."""
    good = {"query_text": "robots"}
    bad = {"query_text": "robots", "min_results": 9}

    assert (await report(Scripted(SOUND), *[good] * 4, bad)).passed
    assert not (await report(Scripted(SOUND), *[good] * 3, bad, bad)).passed
    assert not (await report(Scripted(SOUND), good, max_p95_ms=0.0)).passed


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=50))
def test_a_chart_is_well_formed(times: list[float]) -> None:
    """Any latencies make a valid SVG; names are escaped."""
    root = ET.fromstring(latency_svg("<&>", [("a & b", times), ("none", [])]))

    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_the_shipped_suite_is_valid() -> None:
    """At least five queries, every one with topics, three results and an address."""
    queries = shipped_suite().queries

    assert len(queries) >= 5
    assert all(one.expected_topics and one.source_url_pattern for one in queries)
    assert all(one.min_results >= 3 for one in queries)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "object"),
        ("{}", "queries"),
        ('{"queries": []}', "queries"),
        ('{"queries": [{}]}', "query_text"),
        ('{"queries": [{"query_text": "abc", "extra": 1}]}', "extra"),
        ('{"queries": [{"query_text": "abc"}], "more": 1}', "more"),
        ('{"queries": [{"query_text": "abc"}], "limits": {"more": 1}}', "more"),
        ('{"queries": [{"query_text": "abc"}], "limits": {"max_p95_ms": -1}}', "max_p95_ms"),
        ('{"queries": [{"query_text": "abc"}], "limits": {"max_p95_ms": NaN}}', "max_p95_ms"),
        ('{"queries": [{"query_text": "abc"}], "limits": {"min_pass": 1.1}}', "min_pass"),
        ('{"queries": [{"query_text": "abc"}], "limits": {"max_slowdown": 0.5}}', "max_slowdown"),
        ('{"queries": [{"query_text": 5}]}', "query_text"),
        ('{"queries": [{"query_text": "abc", "min_results": -1}]}', "min_results"),
        ('{"queries": [{"query_text": "abc", "min_results": 1.5}]}', "min_results"),
        ('{"queries": [{"query_text": "abc", "min_results": NaN}]}', "min_results"),
        ('{"queries": [{"query_text": "abc", "min_results": 1e999}]}', "min_results"),
        ('{"queries": [{"query_text": "abc", "min_results": true}]}', "min_results"),
        ('{"queries": [{"query_text": "abc", "expected_topics": []}]}', "expected_topics"),
        ('{"queries": [{"query_text": "abc", "expected_topics": [" "]}]}', "expected_topics"),
        ('{"queries": [{"query_text": "abc", "expected_topics": "x"}]}', "expected_topics"),
        ('{"queries": [{"query_text": "abc", "source_url_pattern": "("}]}', "source_url_pattern"),
        ('{"queries": [{"query_text": "a", "query_text": "b"}]}', "query_text"),
        ("{", "JSON"),
        ("", "JSON"),
    ],
)
def test_a_suite_is_strict(text: str, words: str) -> None:
    """A missing, unknown, empty, duplicate or wrong value is refused with its key, in both formats."""
    with pytest.raises(ConfigError, match=words):
        parse_suite(text, "suite.json")
    if words != "JSON":
        with pytest.raises(ConfigError):
            parse_suite(text.replace("NaN", ".nan"), "suite.yaml")


def test_yaml_and_json_are_equivalent(tmp_path: Path) -> None:
    """One suite in both formats is equal; a missing file is named."""
    plain = {"queries": [{"query_text": "who?", "expected_topics": ["me"], "min_results": 2}]}
    (tmp_path / "s.json").write_text(json.dumps(plain))
    (tmp_path / "s.yml").write_text(
        "queries:\n  - query_text: who?\n    expected_topics: [me]\n    min_results: 2\n"
    )

    assert load_suite(tmp_path / "s.json") == load_suite(tmp_path / "s.yml")
    with pytest.raises(BadInput, match=r"none\.json"):
        load_suite(tmp_path / "none.json")


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.builds(
            Passage,
            heading=st.text(max_size=30),
            section_path=st.text(max_size=40),
            text=st.text(max_size=200),
            source_url=st.text(max_size=20),
        ),
        max_size=12,
    )
)
def test_a_suggested_suite_is_valid(sections: list[Passage]) -> None:
    """For any collection: at least five queries that can be searched, or a clear refusal."""
    try:
        suite = generate_suite(sections)
    except NotFound:
        return
    again = parse_suite(msgspec.json.encode(suite).decode(), "suggested.json")

    assert again == suite
    assert 5 <= len(suite.queries) <= 10
    assert all(len(one.text.strip()) >= 3 for one in suite.queries)
