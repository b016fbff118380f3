"""One search from query to report, over plain services: threshold, degradations, times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from whence.answering.plain_services import read_match
from whence.operations.search import Search
from whence.retrieval import pipeline
from whence.retrieval.fusion import FUSIONS, rank_candidates
from whence.retrieval.hybrid import HybridSearch, QueryRetriever
from whence.retrieval.pipeline import find_candidates, search
from whence.retrieval.pooling import pool_candidates
from whence.retrieval.results import SearchReport
from whence.retrieval.services import (
    Deadline,
    Embedded,
    PlannedQuery,
    RetrievalServices,
    as_whence_error,
)
from whence.schema.errors import (
    DeadlineExceeded,
    InternalError,
    ModelMissing,
    Unavailable,
    WhenceError,
)
from whence.schema.passages import Passage
from whence.schema.rerank import RerankerResult, RerankResponse
from whence.schema.search import Candidate, Degradation, GraphUse, SearchResponse
from whence.schema.texts import ChunkText

GRAPH = GraphUse(passages=3, links=2, named=1, linked_share=0.5)
SLOW = Degradation(stage="search", code="lexical_leg_missing", reason="the words were late")
SCORES = {"a": 0.9, "b": 0.5, "c": 0.2}


class Services:
    """Three passages of fixed scores; a reranker that turns their order round."""

    fuses_scores = False

    def __init__(self, mode: str = "hybrid", fault: WhenceError | None = None) -> None:
        self.mode = mode
        self.fault = fault
        self.embedded: list[tuple[list[str], str]] = []
        self.queries: list[PlannedQuery] = []

    async def embed(self, texts: Sequence[str], what: str) -> Embedded:
        self.embedded.append((list(texts), what))
        if self.fault is not None:
            raise self.fault
        return Embedded(["vector"])

    async def search(self, queries: Sequence[PlannedQuery]) -> list[SearchResponse | WhenceError]:
        self.queries += queries
        found = [
            Candidate(chunk_id=key, document_id=f"d-{key}", score=score, rank=rank)
            for rank, (key, score) in enumerate(SCORES.items(), 1)
        ]
        return [
            SearchResponse(candidates=tuple(found[: one.limit]), degraded=(SLOW,), graph=GRAPH)
            for one in queries
        ]

    async def fetch(self, chunk_ids: Sequence[str]) -> dict[str, ChunkText]:
        return {
            one: ChunkText(chunk_id=one, document_id=f"d-{one}", content=f"about {one} alone")
            for one in chunk_ids
        }

    async def rerank(
        self, query: str, passages: Sequence[Passage], scores: Any, limit: int
    ) -> RerankResponse:
        final = {"a": 0.3, "b": 0.6, "c": 3.0}
        results = [
            RerankerResult(str(n), "0", final[one.chunk_id], final[one.chunk_id])
            for n, one in enumerate(passages)
        ]
        return RerankResponse(results=tuple(results), model="turner")


async def asked(services: Services, **options: Any) -> SearchReport:
    fields: dict[str, Any] = {"top_k": 5, "distinct": False} | options
    absent = fields.pop("no_reranker", "")
    asked = Search("a query", **fields)
    return await search(cast("RetrievalServices", services), asked, no_reranker=absent)


def found(report: SearchReport) -> list[tuple[str, float]]:
    return [(one.chunk.id, one.similarity_score) for one in report.results]


async def test_a_search_reports_what_took_part() -> None:
    """Results, the passage graph, degradations of the services and the best score are in the report."""
    services = Services()
    report = await asked(services)

    assert found(report) == list(SCORES.items())
    assert [one.document_id for one in report.results] == ["d-a", "d-b", "d-c"]
    assert (report.graph, report.degraded, report.best_score) == (GRAPH, (SLOW,), 0.9)
    assert services.embedded == [(["a query"], "the query")]
    assert [(one.text, one.vector, one.limit) for one in services.queries] == [
        ("a query", "vector", 5)
    ]


@pytest.mark.parametrize(
    ("threshold", "ids"), [(0.0, "abc"), (0.5, "ab"), (0.51, "a"), (0.9, "a"), (0.91, "")]
)
async def test_the_threshold_itself_is_enough(threshold: float, ids: str) -> None:
    """Hits below the threshold are left out; the best score is reported all the same."""
    report = await asked(Services(), threshold=threshold)

    assert "".join(one.chunk.id for one in report.results) == ids
    assert report.best_score == 0.9


@pytest.mark.parametrize(("threshold", "ids"), [(0.0, "cba"), (0.6, "cb"), (0.61, "c")])
async def test_a_reranked_search_is_cut_by_reranked_scores(threshold: float, ids: str) -> None:
    """The search itself has no threshold then; final scores stay within 0 to 1, and the best is reported."""
    report = await asked(Services(), threshold=threshold, rerank=True)

    assert "".join(one.chunk.id for one in report.results) == ids
    assert [one.similarity_score for one in report.results] == [1.0, 0.6, 0.3][: len(ids)]
    assert (report.best_score, report.reranker) == (1.0, "turner")
    assert found(await asked(Services(), top_k=1, rerank=True)) == [("c", 1.0)]


async def test_a_missing_reranker_and_a_missing_vector_are_both_reported() -> None:
    """The order of retrieval stays, words alone rank, and each reason is told once."""
    services = Services(fault=Unavailable("no service"))
    report = await asked(services, rerank=True, no_reranker="WHENCE_RERANKER=none")

    assert found(report) == list(SCORES.items())
    assert services.queries[0].vector is None
    assert [(one.stage, one.code, one.reason) for one in report.degraded] == [
        (
            "embedding",
            "query_not_embedded",
            "words alone ranked, the query could not be embedded: no service",
        ),
        (
            "rerank",
            "no_reranker",
            "the order of retrieval was kept: there is no reranker (WHENCE_RERANKER=none)",
        ),
    ]


@pytest.mark.parametrize("fault", [Unavailable("x"), ModelMissing("x"), DeadlineExceeded("x")])
async def test_only_a_dense_search_needs_a_vector(fault: WhenceError) -> None:
    """A hybrid search goes on without one, a search by words asks for none, a dense one fails."""
    assert (await asked(Services(fault=fault))).results
    by_words = Services("bm25", fault)
    assert (await asked(by_words)).results
    assert by_words.embedded == []
    with pytest.raises(type(fault)):
        await asked(Services("dense", fault))


@pytest.mark.parametrize("rerank", [False, True])
async def test_times_are_those_of_the_parts(monkeypatch: pytest.MonkeyPatch, rerank: bool) -> None:
    """Each part has its own time in milliseconds, to three places, and the total is their sum."""
    marks = iter((10.0, 10.001, 10.003, 10.0074, 10.0154321))
    monkeypatch.setattr(pipeline, "time", SimpleNamespace(perf_counter=lambda: next(marks)))
    report = await asked(Services(), rerank=rerank)
    parts = {"embedding": 1.0, "search": 2.0, "texts": 4.4}
    whole = {"rerank": 8.032, "total": 15.432} if rerank else {"total": 7.4}

    assert report.latency_ms == parts | whole


async def test_a_query_that_fails_is_left_out_and_counted() -> None:
    """Of several queries those that fail are told; when all fail the first error is raised."""

    class Failing(Services):
        async def search(
            self, queries: Sequence[PlannedQuery]
        ) -> list[SearchResponse | WhenceError]:
            answers: list[SearchResponse | WhenceError] = [*await super().search(queries)]
            return [Unavailable("gone"), *answers[1:]]

    services = cast("RetrievalServices", Failing())
    both = await find_candidates(
        services, [PlannedQuery("x", None, 1), PlannedQuery("y", None, 1)], limit=9
    )
    told = [one.reason for one in both.degraded if one.code == "search_failed"]

    assert [one.chunk_id for one in both.candidates] == ["a"]
    assert both.candidates[0].concepts == ("y",)
    assert told == ["1 of 2 searches failed: gone"]
    with pytest.raises(Unavailable, match="gone"):
        await find_candidates(services, [PlannedQuery("x", None, 1)], limit=9)


def test_both_retrievers_count_in_every_fusion() -> None:
    """Of two chunks with the same cosine the one with words ranks higher; a share of 0 is not found."""
    chunks = {
        "words": Candidate(
            chunk_id="words", document_id="d", score=0.0, rank=0, dense_score=0.5, sparse_score=0.4
        ),
        "none": Candidate(
            chunk_id="none", document_id="d", score=0.0, rank=0, dense_score=0.5, sparse_score=0.0
        ),
    }
    for name, fuse in FUSIONS.items():
        fused = fuse(chunks)
        assert fused["words"] > fused["none"], name
    ranks = FUSIONS["rrf"](chunks)
    assert ranks == {"none": pytest.approx(0.5), "words": pytest.approx(0.5 * 61 / 62 + 0.5)}


def test_a_chunk_without_links_gains_nothing() -> None:
    """Where the passage graph took part every candidate has its gain, 0 when it had none."""
    chunks = {
        "a": Candidate(chunk_id="a", document_id="d", score=0.0, rank=0, dense_score=0.5),
        "b": Candidate(chunk_id="b", document_id="d", score=0.0, rank=0, dense_score=0.4),
    }
    ranked = rank_candidates(
        chunks, {"a": 0.5, "b": 0.4}, limit=2, threshold=0.4, gains={"a": 0.125}
    )

    assert [(one.graph_score, one.sparse_score) for one in ranked] == [(0.125, None), (0.0, None)]


def test_a_timeout_is_named_with_its_reason() -> None:
    """What timed out is in the message; the reason follows when there is one."""
    assert as_whence_error(TimeoutError(), "searching").message == "searching timed out"
    assert as_whence_error(TimeoutError("late"), "searching").message == "searching timed out: late"


async def test_a_call_without_a_limit_of_its_own_has_that_of_the_whole() -> None:
    """The whole time, its share and the call's own limit bound a call, whichever is the shortest."""

    async def work() -> str:
        return "done"

    now = [0.0]
    deadline = Deadline(10.0, monotonic=lambda: now[0])
    assert await deadline.limit("working", work) == "done"
    assert await deadline.limit("working", work, 5.0) == "done"
    assert await Deadline().limit("working", work) == "done"
    now[0] = 10.0
    with pytest.raises(DeadlineExceeded, match="was over before working"):
        await deadline.limit("working", work, 5.0)
    with pytest.raises(InternalError, match="working failed: KeyError: 'x'"):
        await Deadline().limit("working", partial(dict[str, Any]().__getitem__, "x"))


def test_a_match_of_a_client_keeps_its_document() -> None:
    """Any object with the names of a candidate is one; what has no id is left out."""
    match = SimpleNamespace(chunk_id="x", document_id="book", score=0.25, dense_score=float("nan"))
    nameless = SimpleNamespace(document_id="book", score=0.5)
    found = SearchResponse(candidates=(read_match(nameless), read_match(match)))
    (one,) = pool_candidates([("q", found)], limit=5)

    assert (one.chunk_id, one.document_id, one.score) == ("x", "book", 0.25)
    assert (one.rank, one.dense_score) == (1, None)


async def test_words_alone_say_that_there_is_no_vector() -> None:
    """A hybrid search without a query vector names the reason."""

    async def none(*_: Any, **__: Any) -> list[Candidate]:
        return []

    async def no_scores(_: Sequence[str]) -> dict[str, float]:
        return {}

    words = HybridSearch(query_text="query", lexical=QueryRetriever(none, no_scores), limit=3)
    (told,) = (await words.search()).degraded

    assert told.reason == "the dense retriever did not rank: the query could not be embedded"
    assert told.code == "dense_leg_missing"
