"""Rankings of documents, and runs over a test collection."""

from __future__ import annotations

from pathlib import Path

import pytest

from whence.evaluation.beir import BeirDataset, LeftOut
from whence.evaluation.benchmark import DocumentRanker, run_queries, run_rows, scores_of
from whence.evaluation.searcher import Hit, SearchOutcome
from whence.schema.errors import BadInput


class Listed:
    """Returns the first hits of a fixed list, and records the limits."""

    def __init__(self, *documents: str) -> None:
        self.hits = [
            Hit(document_id=name, score=1 - place / 100, content=f"text {name}")
            for place, name in enumerate(documents)
        ]
        self.limits: list[int] = []

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        if len(query) < 3:
            raise BadInput("too short")
        self.limits.append(limit)
        return SearchOutcome(hits=self.hits[:limit], latency_ms=2.0)


async def test_a_document_has_the_rank_of_its_best_passage() -> None:
    """Each document once, in the order of first appearance, with the first score."""
    ranking = await DocumentRanker(Listed("a", "a", "b", "a", "c"), "dense", 5)("query")

    assert [hit.document_id for hit in ranking.documents] == ["a", "b", "c"]
    assert [hit.score for hit in ranking.documents] == [1.0, 0.98, 0.96]


async def test_many_passages_of_one_document_do_not_shorten_the_ranking() -> None:
    """The number of passages grows until there are enough documents, and is kept for the next query."""
    search = Listed(*"aaaaaabbc", "d")
    rank = DocumentRanker(search, "dense", 3)

    assert [hit.document_id for hit in (await rank("query")).documents] == ["a", "b", "c"]
    await rank("again")
    assert search.limits == [3, 6, 12, 12]


async def test_the_document_that_is_the_query_is_left_out() -> None:
    """It is left out for that query only, and the ranking keeps its depth."""
    rank = DocumentRanker(Listed("a", "b", "c"), "dense", 2, own_documents={"query": "a"})

    assert [hit.document_id for hit in (await rank("query")).documents] == ["b", "c"]
    assert [hit.document_id for hit in (await rank("other")).documents] == ["a", "b"]


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


async def test_a_refused_query_counts_as_zero(dataset: BeirDataset) -> None:
    """It halves the means, is counted and has no latency."""
    run = await run_queries(DocumentRanker(Listed("a", "b"), "bm25", 10), dataset.queries)
    scores = scores_of(run, dataset)

    assert (scores.recall_at_100, scores.mrr_at_10, scores.queries_refused) == (0.5, 0.25, 1)
    assert scores.ndcg_at_10 == pytest.approx(0.315465, abs=1e-6)
    assert (scores.latency_ms.p50, run.latencies_ms) == (2.0, [2.0])


async def test_a_run_names_its_mode(dataset: BeirDataset) -> None:
    """One file holds several modes; the last column names the mode."""
    run = await run_queries(DocumentRanker(Listed("a", "b"), "bm25", 10), dataset.queries)

    assert list(run_rows({"bm25": run})) == [
        ("q1", "a", 1, 1.0, "whence-bm25"),
        ("q1", "b", 2, 0.99, "whence-bm25"),
    ]
