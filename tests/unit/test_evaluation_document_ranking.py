"""Rankings of documents, and runs over a test collection."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from whence.evaluation.beir.collection import BeirDataset, LeftOut
from whence.evaluation.beir.scores import DocumentSearcher, run_collection, run_rows, scores_of
from whence.evaluation.run import RecordedSearch, Run
from whence.evaluation.searcher import Passage, SearchOutcome
from whence.evaluation.suite import Query
from whence.schema.errors import BadInput


class Listed:
    """Returns the first hits of a fixed list, and records the limits."""

    def __init__(self, *documents: str) -> None:
        self.passages = [
            Passage(document_id=name, score=1 - place / 100, text=f"text {name}")
            for place, name in enumerate(documents)
        ]
        self.limits: list[int] = []
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        self.asked.append((query, mode))
        if len(query) < 3:
            raise BadInput("too short")
        self.limits.append(limit)
        return SearchOutcome(passages=self.passages[:limit], latency_ms=len(self.asked) + 1.00049)


async def test_a_document_has_the_rank_of_its_best_passage() -> None:
    """Each document once, in the order of first appearance, with the first score."""
    search = DocumentSearcher(Listed("a", "a", "b", "a", "c"))
    found = (await search("query", mode="dense", limit=5)).passages

    assert [hit.document_id for hit in found] == ["a", "b", "c"]
    assert [hit.score for hit in found] == [1.0, 0.98, 0.96]


async def test_many_passages_of_one_document_do_not_shorten_the_ranking() -> None:
    """The number of passages grows until there are enough documents, and is kept for the next query."""
    search = Listed(*"aaaaaabbc", "d")
    rank = DocumentSearcher(search)
    found = await rank("query", mode="dense", limit=3)

    assert [hit.document_id for hit in found.passages] == ["a", "b", "c"]
    await rank("again", mode="dense", limit=3)
    assert search.limits == [3, 6, 12, 12]


@pytest.fixture
def dataset() -> BeirDataset:
    """Return two queries, the second too short to be searched for."""
    return BeirDataset(
        name="tiny",
        corpus=Path("corpus.jsonl"),
        documents=3,
        queries={"q1": "query", "q2": "xy"},
        qrels={"q1": {"b": 2, "a": 0}, "q2": {"a": 1}},
        left_out=LeftOut(),
    )


async def test_the_document_that_is_the_query_is_left_out(dataset: BeirDataset) -> None:
    """It is left out for that query only, and the ranking keeps its depth."""
    queries, qrels = {"q1": "query", "q2": "other"}, {"q1": {"b": 1}, "q2": {"a": 1}}
    own = {"query": "a"}
    data = msgspec.structs.replace(dataset, queries=queries, qrels=qrels, own_documents=own)
    search = Listed("a", "b", "c")
    run = await run_collection(search, data, mode="dense", depth=2)
    rows = [(row.query_id, row.document_id) for row in run_rows({"dense": run}, 2)]

    assert rows == [("q1", "b"), ("q1", "c"), ("q2", "a"), ("q2", "b")]
    assert search.limits == [3] * 3
    assert scores_of(run, 2).mrr_at_10 == 1.0


async def test_a_refused_query_counts_as_zero(dataset: BeirDataset) -> None:
    """It halves the means, is counted and has no latency."""
    run = await run_collection(Listed("a", "b"), dataset, mode="bm25", depth=10)
    scores = scores_of(run, 10)

    assert (scores.recall_at_100, scores.mrr_at_10, scores.queries_refused) == (0.5, 0.25, 1)
    assert scores.ndcg_at_10 == pytest.approx(0.315465, abs=1e-6)
    assert (scores.latency_ms.p50, run.first[0].latency_ms) == (3.0, 3.00049)


async def test_a_run_asks_every_query_once_after_one_that_is_not_timed(
    dataset: BeirDataset,
) -> None:
    """The mode is that of the ranker, progress counts the queries, and every refused one is counted."""
    search = Listed("a", "b")
    progress: list[tuple[int, int | None]] = []
    more = msgspec.structs.replace(
        dataset,
        queries=dataset.queries | {"q3": "other", "q4": "x"},
        qrels={f"q{number}": {"a": 1} for number in range(1, 5)},
    )
    run = await run_collection(
        search,
        more,
        mode="dense",
        depth=2,
        progress=lambda done, total: progress.append((done, total)),
    )

    texts = ["query", "query", "xy", "other", "x"]
    assert search.asked == [(text, "dense") for text in texts]
    assert search.limits == [2] * 3, "two documents are enough"
    assert progress == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [found.refused for found in run.first] == [False, True, False, True]


def test_the_scores_of_a_run() -> None:
    """Measures at their depths, by six digits; percentiles by nearest rank, to microseconds."""
    names = [f"d{number}" for number in range(1, 102)]
    hits = [Passage(document_id=name, score=1.0) for name in names]
    judged = {"d3": 1, "d7": 2, "d11": 1, "d100": 1, "d101": 1, "gone": 1, "d1": -1, "d2": 0}
    first = [
        RecordedSearch(
            query=Query(text="query", grades=(judged, {"d11": 1})[number % 2]),
            passages=hits,
            latency_ms=number + 0.0006,
        )
        for number in range(1, 101)
    ]
    scores = scores_of(Run(first=first), 101)

    assert (scores.recall_at_100, scores.mrr_at_10, scores.ndcg_at_10) == (
        round((4 / 6 + 1) / 2, 6),
        round(1 / 6, 6),
        round(
            (1 / math.log2(4) + 2 / math.log2(8))
            / (2 + sum(1 / math.log2(rank + 1) for rank in range(2, 7)))
            / 2,
            6,
        ),
    )
    assert (scores.latency_ms.p50, scores.latency_ms.p95) == (50.001, 95.001)


async def test_a_run_names_its_mode(dataset: BeirDataset) -> None:
    """One file holds several modes; the last column names the mode."""
    run = await run_collection(Listed("a", "b"), dataset, mode="bm25", depth=10)

    assert list(run_rows({"bm25": run}, 10)) == [
        ("q1", "a", 1, 1.0, "whence-bm25"),
        ("q1", "b", 2, 0.99, "whence-bm25"),
    ]
