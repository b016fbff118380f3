"""The reports of the gate, of a comparison and of a validation as a whole, to the last number."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.support.expected import assert_expected
from tests.support.gate_policy import POLICY

from whence.evaluation.charts import differences_svg
from whence.evaluation.gate.comparison import RecordedRun, compare_runs
from whence.evaluation.gate.files import Policy, RetrieverScores, SuiteFile
from whence.evaluation.gate.query_reports import SuiteRun, run_suite
from whence.evaluation.gate.reference_work import ReferenceWork
from whence.evaluation.gate.report import (
    baseline_changes,
    collection_digest,
    gate_document,
    make_baseline,
)
from whence.evaluation.gate.retrievers import measure_retrievers
from whence.evaluation.searcher import Passage, SearchOutcome
from whence.evaluation.suite import Suite
from whence.schema.errors import NotFound, Unavailable
from whence.store.memory.store import MemoryStore

K = 4


def suite() -> Suite:
    """Return eight queries of all intents; some have several targets, or unwanted ones."""
    intents = ("symbol", "path", "error", "natural_language")
    queries = [
        {
            "id": f"q{number}",
            "query": f"query {number}",
            "intent": intents[number % 4],
            "expected_targets": [{"hint": f"doc{number}.md"}, {"hint": f"more{number}.md"}][
                : 1 + number % 2
            ],
            "negative_targets": [{"hint": f"old{number}.md", "within": 2}, {"hint": "bad.md"}],
        }
        for number in range(8)
    ]
    return msgspec.convert({"version": "suite-1", "queries": queries}, SuiteFile).suite


#: Documents of each query, by one letter: target, more, old, bad, and others.
BEFORE = ["tab", "tmab", "atb", "amtb", "tabo", "tm", "t", "mabt"]
NOW = ["atbo", "tabm", "oatb", "ab", "", "mt!t", "tt", "xbamt"]
_NAMES = {"t": "docs/doc{}.md", "m": "docs/more{}.md", "o": "old{}.md", "!": "bad.md"}


class Prepared:
    """Finds prepared documents, each search with a latency of its own."""

    def __init__(self, letters: Sequence[str], *, ms: float, faults: bool = False) -> None:
        self.letters = letters
        self.ms = ms
        self.faults = faults
        self.calls: list[tuple[str, str, int]] = []

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        self.calls.append((query, mode, limit))
        number, turn = int(query.split()[1]), len(self.calls)
        names = [_NAMES.get(one, f"other/{one}.md").format(number) for one in self.letters[number]]
        if self.faults and number == 6 and turn > 20:
            names.reverse()
            names.append("docs/late.md")
        hits = [
            Passage(document_id=name, score=0.9 - rank / 8, source_file=name)
            for rank, name in enumerate(names)
        ]
        return SearchOutcome(
            passages=hits[:limit],
            latency_ms=self.ms + number * 1.0625 + turn % 5 / 3,
            degraded=("words alone ranked",) if self.faults and number == 2 else (),
            timed_out=self.faults and number == 2 and turn > 20,
        )


class Machine(ReferenceWork):
    """A machine whose fixed work takes longer from turn to turn."""

    def __init__(self, ms: float) -> None:
        self.name = "test"
        self.ms = ms

    async def __call__(self) -> float:
        self.ms *= 1.01
        return self.ms


def _scores(**rows: tuple[float, float, float]) -> dict[str, RetrieverScores]:
    return {
        name: RetrieverScores(recall_at_k=recall, mrr=mrr, ndcg_at_k=ndcg)
        for name, (recall, mrr, ndcg) in rows.items()
    }


async def _run(search: Prepared, machine: Machine | None, digest: str) -> SuiteRun:
    progress: list[tuple[int, int | None]] = []
    queries = await run_suite(
        search,
        suite(),
        mode="dense",
        k=K,
        reference=machine,
        progress=lambda done, total: progress.append((done, total)),
    )
    assert progress == [(number, 32) for number in range(1, 33)]
    assert search.calls[0] == search.calls[1] == ("query 0", "dense", K)
    assert len(search.calls) == 33
    names = ["docs/doc1.md", "a/doc1.md", "docs/doc2.md", "old3.md"]
    return SuiteRun(queries, "manual", digest, names, work=machine.name if machine else "")


def _policy(**changes: Any) -> Policy:
    return msgspec.convert({**POLICY, **changes}, Policy)


async def test_the_report_of_the_gate() -> None:
    """Every number of a run that got worse in all ways, of the baseline, and of what differs between both."""
    before = await _run(Prepared(BEFORE, ms=10.0), Machine(4.0), "one")
    after = await _run(Prepared(NOW, ms=21.0, faults=True), Machine(5.0), "two")
    # A difference of the tolerance, .01, is none.
    before = before._replace(
        legs=_scores(bm25=(0.5, 0.5, 0.5), dense=(0.75, 0.5, 0.25), rerank=(1, 1, 1))
    )
    after = after._replace(
        legs=_scores(bm25=(0.49, 0.51, 0.4), dense=(0.7, 0.48, 0.25), expansion=(0, 0, 0))
    )
    baseline = make_baseline(before, suite(), k=K, mode="dense", version="1.2.3")
    limits = {"path": {"max_p50_latency_ms": 20.0, "max_p95_latency_ms": 30.0}}
    policy = _policy(latency={"max_p95_latency_ms": 1000.0, "by_intent": limits})
    document = gate_document(after, suite(), baseline, policy, dry_run=True, measurements=2)
    again = make_baseline(after, suite(), k=K, mode="dense", version="1.2.4")

    assert_expected("gate_report.json", document)
    assert_expected("gate_baseline.json", baseline)
    assert_expected("gate_changes.json", baseline_changes(baseline, again))
    fewer = msgspec.structs.replace(baseline, per_query=baseline.per_query[1:])
    found = baseline_changes(baseline, fewer)
    assert [msgspec.structs.astuple(one) for one in found] == [("first hit of q0", 1, None)]


@pytest.mark.parametrize("letters", [BEFORE, ["atb", *BEFORE[1:]], ["ab", *BEFORE[1:]]])
async def test_a_baseline_without_queries_or_floor(letters: Sequence[str]) -> None:
    """The gate explains a fall of rankings by recall alone, and compares milliseconds as they are."""
    before = await _run(Prepared(BEFORE, ms=10.0), None, "one")
    after = await _run(Prepared(letters, ms=11.0), None, "one")
    baseline = msgspec.structs.replace(
        make_baseline(before, suite(), k=K, mode="dense", version="1"),
        per_query=[],
        collection_digest="",
    )
    document = gate_document(after, suite(), baseline, _policy(), dry_run=False)

    assert_expected(f"gate_plain_{letters[0]}.json", document)


async def test_the_retrievers_of_a_suite() -> None:
    """Each retriever is asked with its depth, and measured alone; one that fails for a query is left out."""

    class Linked(Prepared):
        async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
            found = await super().__call__(query, mode=mode, limit=limit)
            if mode == "dense" and query == "query 7":
                raise Unavailable("no vectors")
            hits = [
                msgspec.structs.replace(
                    hit, graph_score=(0, 0.2, 0, 0.3, 0)[rank % 5], text=hit.source_file
                )
                for rank, hit in enumerate(found.passages)
            ]
            return msgspec.structs.replace(found, passages=hits)

    class ByLength:
        read: list[tuple[str, list[str]]] = []

        async def score(self, query: str, texts: Sequence[str]) -> list[float]:
            self.read.append((query, list(texts)))
            return [float(len(text)) for text in texts]

    search, reranker = Linked(NOW, ms=1.0), ByLength()
    progress: list[tuple[int, int | None]] = []
    found = await measure_retrievers(
        search,
        suite(),
        k=K,
        reranker=reranker,  # type: ignore[arg-type]
        progress=lambda done, total: progress.append((done, total)),
    )
    text = "query 0"

    assert progress == [(number, 24) for number in range(1, 25)]
    assert search.calls[::8] == [(text, "bm25", K), (text, "dense", K), (text, "hybrid", 100)]
    assert reranker.read[0][0] == text
    assert len(reranker.read) == 7, "a query without results is not reranked"
    assert_expected("gate_retrievers.json", found)


async def test_a_digest_of_a_collection() -> None:
    """It is that of the ids and digests of all documents, read in batches; a missing collection is named."""

    class Listed(MemoryStore):
        names = [f"d{number:04}" for number in range(1001)]
        read: list[list[str]] = []

        async def document_ids(self, collection: str, *_: Any, **__: Any) -> list[str]:
            assert collection == "c"
            return self.names

        async def collection(self, collection: str) -> Any:
            return True if collection == "c" else None

        async def document_states(self, collection: str, ids: Sequence[str]) -> Any:
            assert collection == "c"
            self.read.append(list(ids))
            states = {name: msgspec.defstruct("State", ["digest"])(f"x{name}") for name in ids}
            return dict(reversed(states.items()))

    store = Listed()
    rows = b"".join(msgspec.json.encode([name, f"x{name}"]) for name in Listed.names)

    assert await collection_digest(store, "c") == hashlib.sha256(rows).hexdigest()
    assert [len(batch) for batch in store.read] == [1000, 1]
    with pytest.raises(NotFound, match="'none'"):
        await collection_digest(store, "none")


def _recorded(name: str, ranks: Sequence[int | None]) -> RecordedRun:
    queries = [
        {
            "id": f"a rather long name of a query, number {number:03}"[number % 17 :],
            "hit_rank": rank,
            "reciprocal_rank": 1 / rank if rank else 0.0,
            "recall_at_k": float(rank is not None),
            "ndcg_at_k": 1 / (rank + 1) if rank else 0.0,
        }
        for number, rank in enumerate(ranks)
    ]
    return msgspec.convert(
        {"name": name, "suite_digest": "s", "k": 7, "per_query": queries[::-1]}, RecordedRun
    )


@pytest.mark.parametrize(
    ("name", "before", "after", "most"),
    [
        ("mixed", [1, 2, None, 3, 1, 5, None, 2], [1, 1, 3, None, 9, 4, None, 3], 5),
        ("equal", [1, None], [1, None], 5),
        ("many", [1] * 62, [2] * 61 + [3], None),
    ],
)
def test_the_report_and_the_chart_of_a_comparison(
    name: str, before: list[int | None], after: list[int | None], most: int | None
) -> None:
    """Every number, bar and label; 60 bars unless said otherwise, and long names keep their ends."""
    a, b = _recorded("a <report>", before), _recorded("reports/" + "long " * 20 + "name", after)
    found = compare_runs(a, b, "mrr")

    assert_expected(f"comparison_{name}.json", found)
    assert_expected(
        f"comparison_{name}.svg",
        differences_svg(found) if most is None else differences_svg(found, most),
    )
