"""A validation as a whole: what ran, its report, its chart, and the suite that a collection suggests."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.support.expected import assert_expected

from whence.evaluation.charts import latency_svg
from whence.evaluation.run import RecordedSearch, Run
from whence.evaluation.searcher import Passage, SearchOutcome
from whence.evaluation.suite import Query
from whence.evaluation.validation import checks
from whence.evaluation.validation.latencies import report_sequence
from whence.evaluation.validation.report import build_report, load_documents
from whence.evaluation.validation.run import Limits, run_validation
from whence.evaluation.validation.source_texts import Page, SourceTexts
from whence.evaluation.validation.suite_file import (
    TestQuery,
    Thresholds,
    ValidationSuite,
    generate_suite,
)
from whence.evaluation.validation.target import PassageSource, TargetInfo
from whence.schema.errors import BadInput, DeadlineExceeded, ModelMismatch, Unavailable

WORDS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
]


def passage(number: int, **changes: Any) -> Passage:
    """Return a sound passage of a document of its own."""
    sound = Passage(
        id=f"c{number}",
        score=0.9 - number / 10,
        text=" ".join(WORDS[number:]),
        source_url=f"https://book.example/{number}",
        section_path=f"Book > Part {number}",
        heading=f"Part {number}",
        chunk_index=number,
        document_id=f"part-{number}",
    )
    return msgspec.structs.replace(sound, **changes)


def outcome(text: str, *found: Passage, **fields: Any) -> RecordedSearch:
    """Return the outcome of a query; fields of a query go to the query."""
    names = Query.__struct_fields__
    query = Query(
        text=text, **{"min_results": 1, **{k: v for k, v in fields.items() if k in names}}
    )
    rest = {key: value for key, value in fields.items() if key not in names}
    return RecordedSearch(query=query, passages=list(found), **rest)


def suite_of(run: Run) -> ValidationSuite:
    """Return the suite of a run."""
    asked = [one.query for one in run.first]
    return ValidationSuite(queries=msgspec.convert(asked, list[TestQuery], from_attributes=True))


def first() -> list[RecordedSearch]:
    """Return outcomes with each fault once."""
    times = {"latency_ms": 40.25, "embedding_ms": 10.5, "search_ms": 20.25}
    address = "https://book.example/1"
    return [
        outcome("sound", passage(0), passage(1), expected_topics=["three four"], **times),
        outcome("few", passage(2), min_results=2, **times),
        outcome("topics", passage(3), expected_topics=["five", "cook", "bake"], latency_ms=5000.0),
        outcome("slow", passage(3), latency_ms=5000.5, embedding_ms=4.0, search_ms=4.5),
        outcome("error", error="it is down", latency_ms=3.0, timed_out=True),
        outcome("notes", passage(0), degraded=("no vectors", "no words")),
        outcome("weak", passage(5), latency_ms=1.5),
        outcome("pattern", passage(0), source_url_pattern="^b", latency_ms=2.5),
        outcome("metadata", passage(0, heading=None), source_url_pattern="example", latency_ms=1),
        outcome("twice", passage(0), passage(0, id="c9"), latency_ms=1),
        outcome("heading", passage(4, heading="Elsewhere"), latency_ms=1),
        outcome("changed", passage(0, text="other words"), latency_ms=1),
        outcome("no source", passage(4), latency_ms=1),
        outcome("page", passage(1, source_url=address + "0"), latency_ms=1),
        outcome("gone", passage(1, source_url=address + "1"), latency_ms=1),
        outcome("overlap", passage(0), passage(1, document_id="part-0"), latency_ms=1),
        outcome("   ", refused=True, error="empty", min_results=0),
    ]


def sources(*, required: bool) -> SourceTexts:
    """Return texts of some documents, and three pages."""
    return SourceTexts(
        {f"part-{number}": " ".join(WORDS) for number in (0, 1, 2, 3, 5)},
        {
            "https://book.example/0": Page(f"menu {' '.join(WORDS)} footer", ""),
            "https://book.example/10": Page("something else", ""),
            "https://book.example/11": Page(None, "it answered 404"),
        },
        required,
    )


class Stored:
    """Documents of passages, each read once."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def document(self, one: Passage) -> PassageSource:
        self.read.append(one.id)
        sha = hashlib.sha256(passage(0).text.encode()).hexdigest()
        heading = f"Part {one.chunk_index}"
        return PassageSource(text=f"{heading}\n{one.text}", digest=sha if one.id == "c0" else "")


def again(text: str, ms: float, *found: int, **fields: Any) -> RecordedSearch:
    """Return the outcome of a repeated search."""
    return outcome(text, *(passage(number) for number in found), latency_ms=ms, **fields)


SLOW_AND_WRONG = [
    *(again("sound", ms, 0, 1) for ms in (41.0, 250.5, 42.0, 300.0, 320.0)),
    again("sound", 9.0, 1, 0),
    again("gone", 8.0, 1),
    again("slow", 8.0, error="down"),
    again("notes", 7.0, 0, degraded=("no words",)),
    again("notes", 7.0, 0),
    again("few", 4000.0, 2, min_results=2),
    again("   ", 0.0, refused=True, error="empty", min_results=0),
]
LOADED = [again("sound", 30.0, 0, 1), again("sound", 60.0, 0), again("weak", 1.0, 5, cut=True)]


@pytest.mark.parametrize(
    ("name", "limits", "required"),
    [
        ("strict", Thresholds(min_pass=0.5, max_p95_ms=200.0, max_mean_ms=100.0), True),
        (
            "lax",
            Thresholds(
                threshold=0.35,
                min_pass=0.25,
                max_p95_ms=9000.0,
                max_query_ms=6000.0,
                max_errors=0.2,
                max_changed=0.5,
                max_slowdown=9.0,
                unique_sections=True,
            ),
            False,
        ),
    ],
)
async def test_the_report_of_a_validation(name: str, limits: Thresholds, *, required: bool) -> None:
    """Every check of every query, every number of sequence and load, and each fault of the whole run."""
    run = Run(
        first=first(),
        sequence=SLOW_AND_WRONG,
        load=LOADED,
        clients=3,
        seconds=12.5,
        cut=name == "strict",
    )
    target = Stored()
    stored = await load_documents(target, run)  # type: ignore[arg-type]
    done = build_report(
        run,
        suite_of(run),
        origin="suite.yaml",
        about=TargetInfo(store="memory", collection="book", model="stub", dimension=3),
        thresholds=limits,
        stored=stored,
        sources=sources(required=required),
    )

    assert target.read == ["c0", "c1", "c2", "c3", "c5", "c9", "c4"]
    assert_expected(f"validation_{name}.json", done)


def test_a_sequence_is_slower_beyond_both_limits() -> None:
    """By more than the factor and by more than the milliseconds, in a quarter of the sequence or two."""

    def slowdown(first: float, *times: float) -> tuple[float, bool]:
        run = Run(
            first=[outcome("a", latency_ms=first), outcome("b", error="down")],
            sequence=[outcome("a", latency_ms=ms, error="" if ms else "down") for ms in times],
            load=[],
            clients=0,
            seconds=0.0,
            cut=False,
        )
        found = report_sequence(run, Thresholds())
        assert found is not None
        return found.slowdown, found.slower

    assert slowdown(100.0, 200.0, 200.0) == (2.0, False)
    assert slowdown(100.0, 200.5, 200.5) == (2.005, True)
    assert slowdown(90.0, 190.0, 190.0) == (2.111, False)
    assert slowdown(0.0, 2.0, 2.0) == (2000.0, False)
    assert slowdown(3.0, 1.0, 1.0) == (0.333, False)
    assert slowdown(100.0, 0.0, 0.0) == (1.0, False), "no search was answered"
    assert slowdown(100.0, 900.0) == (1.0, False), "one is too few"
    assert slowdown(100.0, *[100.0] * 7, 900.0, 100.0, 900.0, *[100.0] * 2) == (9.0, True)
    assert slowdown(100.0, *[100.0] * 7, 900.0, 100.0, 100.0, 900.0, 100.0) == (1.0, False)
    assert slowdown(100.0, *[100.0] * 6, *[900.0] * 2, *[100.0] * 2) == (9.0, True)


async def test_a_run_without_repeats_has_no_report_of_them() -> None:
    """Neither sequence nor load are checked when none ran, and a page stands in for a missing source."""
    run = Run(
        first=[outcome("sound", passage(0), latency_ms=4.0)],
        sequence=[],
        load=[],
        clients=0,
        seconds=1.0,
        cut=False,
    )
    done = build_report(
        run,
        suite_of(run),
        origin="generated",
        about=TargetInfo(store="memory", collection="book", model="stub", dimension=3),
        thresholds=Thresholds(),
        stored={},
        sources=sources(required=True)._replace(documents=None),
    )

    assert_expected("validation_small.json", done)


class Clocked:
    """A target whose searches take prepared seconds of its own clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[tuple[str, int]] = []

    def clock(self) -> float:
        return self.now

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        self.asked.append((query, limit))
        self.now += 0.25 + len(self.asked) / 64
        if len(self.asked) % 4 == 0 and query == "down":
            raise Unavailable("it is down", hint="start it")
        if query == "late":
            raise DeadlineExceeded("too late")
        if query == "stall":
            self.now += 90.0 if len(self.asked) > 20 else 0.0
            await asyncio.Event().wait()
        return SearchOutcome(
            passages=[passage(number) for number in range(min(limit, 3))],
            embedding_ms=1.00049,
            search_ms=2.00051,
            degraded=("no words",) if query == "partly" else (),
        )


async def test_what_a_validation_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Each search with its limit, outcome and times; the sequence, the readers, and what the limit cuts off."""
    texts = ["ab", " ", "down", "late", "partly", "a" * 4]
    suite = ValidationSuite(
        queries=[TestQuery(text=text, min_results=number) for number, text in enumerate(texts)]
    )
    target = Clocked()
    progress: list[tuple[int, int | None]] = []
    limits = Limits(top_k=4, clients=3, repeats=7, time_limit_s=9.5)
    run = await run_validation(
        target,  # type: ignore[arg-type]
        suite,
        limits,
        clock=target.clock,
        progress=lambda done, total: progress.append((done, total)),
    )
    plain = msgspec.to_builtins(run)
    for part in ("first", "sequence", "load"):
        plain[part] = [
            {
                "query": one.query.text,
                "passages": len(one.passages),
                **{
                    name: getattr(one, name) for name in ("latency_ms", "embedding_ms", "search_ms")
                },
                **{name: getattr(one, name) for name in ("error", "refused", "cut", "partial")},
                "notes": list(one.degraded),
            }
            for one in getattr(run, part)
        ]
    logged = [
        {name: record.__dict__[name] for name in ("action", "error", "hint", "characters")}
        for record in caplog.records
    ]

    assert progress == [(done, 34) for done in range(1, 33)]
    assert_expected("validation_run.json", [plain, target.asked, logged])


async def test_a_search_that_does_not_answer_is_cut_off() -> None:
    """It ends with its own limit, or with that of the run, which the outcome tells apart."""
    target = Clocked()
    queries = [TestQuery(text=text) for text in ("quick", "stall")]
    limits = Limits(clients=0, repeats=18, timeout_s=0.01, time_limit_s=80.0)
    run = await run_validation(
        target,  # type: ignore[arg-type]
        ValidationSuite(queries=queries),
        limits,
        clock=target.clock,
    )

    assert run.first[1].error == "no answer within 0.01 s"
    assert (run.first[1].partial, run.first[1].cut) == (True, False)
    last = run.sequence[-1]
    assert last.error == "not answered: the time limit of 80 s was reached"
    assert (last.cut, last.partial, last.latency_ms > 9e4, run.cut) == (True, True, True, True)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(BadInput("refused"), None), (ModelMismatch("other"), ModelMismatch), (None, Unavailable)],
)
async def test_the_first_search_may_end_a_validation(
    error: Exception | None, kind: type[Exception] | None
) -> None:
    """Another model does, and so does no answer in time; a refused query does not."""

    class Refusing(Clocked):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            self.asked.append((query, limit))
            if error is None:
                await asyncio.Event().wait()
            if len(self.asked) == 1:
                raise error or AssertionError
            return SearchOutcome(passages=[], embedding_ms=0, search_ms=0)

    target = Refusing()
    suite = ValidationSuite(queries=[TestQuery(text=one) for one in (" ab ", "abc")])
    limits = Limits(clients=0, repeats=0, time_limit_s=0.01 if error is None else 9.0)
    if kind is None:
        run = await run_validation(target, suite, limits)  # type: ignore[arg-type]
        assert [one.error != "" for one in run.first] == [True, False]
    else:
        with pytest.raises(kind):
            await run_validation(target, suite, limits)  # type: ignore[arg-type]
    assert target.asked[0] == ("abc", 5)


def test_the_chart_of_latencies() -> None:
    """Bars, axis, percentiles and labels of several series; series without values are left out."""
    hundred = [float(number) for number in range(1, 101)]
    charts = [
        latency_svg("Latency <ms>", [("all & more", hundred), ("none", []), ("few", [3.0, 3.0])]),
        latency_svg("One", [("one", [0.5])]),
        latency_svg("Zero", [("zero", [0.0])]),
        latency_svg("None", []),
        latency_svg("Steps", [("a", [504.0]), ("b", [1.5])]),
        *(latency_svg("Edge", [("a", [edge])]) for edge in (0.15, 0.9, 9.9, 10.0, 100.0)),
        latency_svg("Three", [("a", [8.0, 2.0]), ("b", [4.0]), ("c", [8.0])]),
    ]

    assert_expected("validation_latency.svg", "\n".join(charts))


def _sections() -> list[Passage]:
    long = " ".join(f"word{number}" for number in range(30))
    return [
        Passage(
            heading="Start here",
            section_path="Book > Start here",
            text=f"Start here\n{long}",
            source_url="https://a.example/?q=1",
        ),
        Passage(heading="", section_path="Book > Second", text=f"body {long}", source_url=""),
        Passage(heading="It", section_path="It", text="It", source_url=""),
        Passage(heading="Third", section_path="", text="just a few words", source_url="x"),
        Passage(
            heading=" ".join(WORDS),
            section_path=" ".join([*WORDS, "one"]),
            text=long,
            source_url="y",
        ),
        Passage(heading="BOOK", section_path="book > second", text=f"body {long}", source_url="z"),
        Passage(heading="abc", section_path="abc", text="", source_url=""),
    ]


@pytest.mark.parametrize(("count", "sections"), [(10, 7), (6, 7), (4, 7), (10, 3), (5, 1)])
def test_the_suite_that_a_collection_suggests(count: int, sections: int) -> None:
    """Queries of headings first, then of texts, each once, repeated when there are too few."""
    suite = generate_suite(_sections()[-sections:] if sections < 7 else _sections(), count)

    assert_expected(f"suite_{count}_{sections}.json", suite.queries)


@pytest.mark.parametrize(
    ("topic", "text", "occurs"),
    [
        ("++", "C++", True),
        (" ++ ", "C++", True),
        ("--", "C++", False),
        ("the", "a theory", False),
        ("joint angle", "angles of a joint", True),
        ("joint angle", "angles", False),
        ("_", "a theory", False),
        ("Part", "", True),
        ("Book", "", True),
    ],
)
def test_topics_occur_as_words_or_signs(topic: str, text: str, *, occurs: bool) -> None:
    """A topic of signs occurs as it is; words in any form and order; headings and paths count."""
    found = checks.found_topics(["nothing", topic], [passage(0, text=text)])

    assert found == ([topic] if occurs else [])


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ("a b c d e", "A B C D E", 1.0),
        ("a b c d", "a b c d e", 0.0),
        ("", "", 1.0),
        ("a b c d e f g h i", "a b c d e f x", 2 / 3),
        ("a b c d e f", "a b c d e x a b c d e f", 1.0),
    ],
)
def test_overlap_is_that_of_runs_of_five_words(one: str, other: str, share: float) -> None:
    """Of the shorter text; a text of fewer words is one run."""
    assert checks.overlap(one, other) == pytest.approx(share)
    assert checks.overlap(other, one) == pytest.approx(share)


def _fault_of(found: Sequence[Passage]) -> list[str | None]:
    return [
        checks.metadata_fault(found),
        checks.uniqueness_fault(found),
        checks.uniqueness_fault(found, sections=True),
        checks.overlap_fault(found),
        *(checks.heading_fault(one, f"Page {one.heading and one.text}") for one in found),
        *(checks.verbatim_fault(one, "", "one two") for one in found),
        *(checks.verbatim_fault(one, "", " ".join(WORDS[:-1]), excerpt=True) for one in found),
    ]


def test_the_faults_of_results() -> None:
    """Each check names the passage and what is wrong with it; the limits themselves are allowed."""
    ten = " ".join(f"w{number}" for number in range(14))
    cases: dict[str, list[Passage]] = {
        "sound": [passage(0), passage(1)],
        "none": [],
        "no section": [passage(0, section_path=None)],
        "blank section": [passage(0, section_path="  ")],
        "no url": [passage(0, source_url="")],
        "no index": [passage(0, chunk_index=None)],
        "minus": [passage(0, chunk_index=-1)],
        "no text": [passage(0, text=" ")],
        "an id twice": [passage(0), passage(1, id="c0")],
        "a place twice": [passage(0), passage(0, id="c1", text="x")],
        "another index": [passage(0), passage(0, id="c1", chunk_index=1, text="x")],
        "another url": [passage(0), passage(0, id="c1", source_url="u", text="x")],
        "half": [
            passage(0, text="a b c d e f"),
            passage(1, document_id="part-0", text="b c d e f g"),
        ],
        "more than half": [
            passage(0, text="a b c d e f g"),
            passage(1, document_id="part-0", text="b c d e f g h"),
        ],
        "other documents": [passage(0, text=ten), passage(1, text=ten)],
        "no heading": [passage(0, heading=None)],
        "heading of signs": [passage(0, heading="->", text="a -> b")],
        "heading of other signs": [passage(0, heading="=>", text="a -> b")],
        "heading of the file": [passage(0, heading="intro", document_id="a/intro.md")],
        "heading of the title": [passage(0, heading="the Title", title="All of The title here")],
        "heading in a word": [passage(0, heading="art", text="cart")],
        "spaces": [passage(0, text="one \n two")],
        "half a surrogate": [passage(0, text="one \ud800")],
    }

    assert_expected("validation_faults.json", {name: _fault_of(row) for name, row in cases.items()})


def test_an_excerpt_may_be_interrupted() -> None:
    """Nine of ten runs of five words suffice, in a page; a digest is that of the text."""
    page = " ".join(f"w{number}" for number in range(20))
    tail = " ".join(f"w{number}" for number in range(13))

    def fault(text: str, digest: str = "") -> str | None:
        return checks.verbatim_fault(passage(0, text=text), digest, page, excerpt=True)

    assert fault(f"{tail} x") is None
    assert fault(" ".join(tail.split()[1:]) + " x") == "c0: the text does not occur in its source"
    assert fault(tail, hashlib.sha256(tail.encode()).hexdigest()) is None
    assert fault(tail, "0") == "c0: the text is not the one that was stored"


def test_results_and_thresholds() -> None:
    """A query that requires nothing has neither fault; the threshold itself is enough."""

    def faults(least: int, *found: Passage, topics: list[str] | None = None) -> list[str | None]:
        query = Query(text="q", min_results=least, expected_topics=topics)
        return [checks.results_fault(query, found), checks.threshold_fault(query, found, 0.5)]

    assert_expected(
        "validation_results.json",
        [
            faults(0),
            faults(1),
            faults(1, passage(4)),
            faults(1, passage(5)),
            faults(0, passage(5)),
            faults(0, passage(5), topics=["x"]),
            faults(2, passage(6), passage(5)),
            faults(3, passage(0), passage(1)),
        ],
    )
