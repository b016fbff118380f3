"""Details of retrieval that few searches have: what is passed on, cut, and said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from whence.retrieval.hybrid import SearchParameters, SearchService
from whence.retrieval.links import Neighbourhood, walk_scores
from whence.retrieval.pipeline import find_candidates, read_passages
from whence.retrieval.pooling import pool_candidates
from whence.retrieval.rerank import score_documents
from whence.retrieval.services import (
    Deadline,
    PlannedQuery,
    RetrievalClients,
    Timeouts,
    Vector,
    blend_query_vectors,
)
from whence.schema.access import Access
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import DeadlineExceeded, ModelMismatch, Unavailable
from whence.schema.passages import Passage
from whence.schema.rerank import RerankItem, RerankRequest
from whence.schema.search import Candidate, Degradation, GraphUse, SearchRequest, SearchResponse
from whence.schema.texts import ChunkText, TextRequest, TextResponse
from whence.testing.stub_context import StubContext


def _hits(names: str) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(chunk_id=name, document_id=f"d{name}", score=1 - place / 10, rank=place + 1)
        for place, name in enumerate(names)
    )


class Found:
    """Searches with prepared replies, and texts by id."""

    mode = "hybrid"

    def __init__(self, *replies: Any, texts: dict[str, Any] | None = None) -> None:
        self.replies, self.texts = replies, texts or {}

    async def search(self, queries: Sequence[PlannedQuery]) -> list[Any]:
        return list(self.replies)

    async def fetch(self, chunk_ids: Sequence[str]) -> dict[str, Any]:
        return {one: self.texts[one] for one in chunk_ids if one in self.texts}


def _ranking(names: str, *degraded: Degradation, **fields: Any) -> SearchResponse:
    return SearchResponse(candidates=tuple(_hits(names)), degraded=degraded, **fields)


def _codes(candidates: Sequence[Passage]) -> dict[str, str]:
    return {one.chunk_id: one.reason_code for one in candidates}


@pytest.mark.parametrize("weights", [None, (1.0, 2.0)])
async def test_candidates_after_the_limit_have_the_reason_of_the_caller(
    weights: tuple[float, float] | None,
) -> None:
    """Of one ranking and of joined ones; what was found by each query is kept."""
    late = Degradation(stage="search", code="late", reason="late")
    use = GraphUse(passages=1, links=1, named=0, linked_share=0.5)
    queries = [
        PlannedQuery("one", Vector(b""), 5),
        PlannedQuery("two", None, 5),
        PlannedQuery("three", None, 5),
    ]
    rankings = [_ranking("abc", late, graph=use), _ranking("bad", late)]
    services: Any = Found(*rankings, Unavailable("away"))
    found = await find_candidates(
        services, queries, limit=2, cut_code="over_fetch_limit", weights=weights
    )
    plain = await find_candidates(services, queries, limit=2, weights=weights)

    kept = ["b", "a"] if weights else ["a", "b"]
    assert _codes(found.candidates) == {
        **dict.fromkeys(kept, ""),
        "c": "over_fetch_limit",
        "d": "over_fetch_limit",
    }
    assert [one.chunk_id for one in found.kept] == kept
    assert {*_codes(plain.candidates).values()} == {"", "over_limit"}
    assert found.rankings == tuple(zip(queries[:2], rankings, strict=True))
    assert found.graphs == (use,)
    assert [one.code for one in found.degraded] == ["late", "search_failed"]
    assert found.degraded[1].reason == "1 of 3 searches failed: away"


async def test_the_threshold_counts_for_joined_rankings_too() -> None:
    """A candidate below it is dropped before the limit is."""
    services: Any = Found(_ranking("ab"), _ranking("ac"))
    queries = [PlannedQuery("one", Vector(b""), 5), PlannedQuery("two", None, 5)]
    found = await find_candidates(services, queries, limit=1, threshold=0.6, weights=(1.0, 1.0))

    assert _codes(found.candidates) == {"a": "", "b": "below_threshold", "c": "below_threshold"}


async def test_passages_have_all_that_is_known_of_their_texts() -> None:
    """Under the id of the candidate; others have their reason."""
    text = ChunkText(
        chunk_id="other",
        document_id="d",
        content="t",
        metadata={"title": "T"},
        digest="ab",
        token_codes=b"12",
    )
    services: Any = Found(texts={"a": text, "b": "unknown", "c": Unavailable("away")})
    reasons: dict[str, Any] = {}
    rows = [Passage(chunk_id=name, rank=rank) for rank, name in enumerate("abcd", 1)]
    found = await read_passages(services, rows, reasons)

    whole = Passage(
        chunk_id="a",
        rank=1,
        text="t",
        document_id="d",
        metadata={"title": "T"},
        digest="ab",
        token_codes=b"12",
    )
    assert found == [whole]
    assert reasons == {"b": "text_missing", "c": "fetch_failed", "d": "text_missing"}


async def test_a_model_of_token_codes_gets_texts_and_codes() -> None:
    """Of all documents, in order, for each query."""
    asked: list[Any] = []

    class Model:
        model = "m"
        revision = "r"

        async def score_coded(self, *given: Any) -> list[float]:
            asked.append(given)
            return [0.25, 0.5]

    request = RerankRequest(
        queries=(RerankItem(id="0", text="q"),),
        documents=(RerankItem(id="0", text="a"), RerankItem(id="1", text="b", token_codes=b"1")),
        limit=5,
    )
    reply = await score_documents(Model(), request)  # type: ignore[arg-type]

    assert asked == [("q", ["a", "b"], [b"", b"1"])]
    assert [(one.document_id, one.score, one.final_score) for one in reply.results] == [
        *[("1", 0.5, None), ("0", 0.25, None)]
    ]
    assert (reply.revision, reply.unscored) == ("r", ())


async def test_passages_without_a_valid_score_come_last() -> None:
    """In the order they were sent, with the score 0, and are named; a negative score is valid."""

    class Model:
        model = "m"

        async def score(self, query: str, texts: Sequence[str]) -> list[float | None]:
            return [-0.5, None, 0.25, None]

    documents = tuple(RerankItem(id=str(place), text="t") for place in range(4))
    request = RerankRequest(queries=(RerankItem(id="0", text="q"),), documents=documents, limit=3)
    reply = await score_documents(Model(), request)  # type: ignore[arg-type]

    found = [(one.document_id, one.score) for one in (*reply.results, *reply.others)]
    assert found == [("2", 0.25), ("0", -0.5), ("1", 0.0), ("3", 0.0)]
    assert (len(reply.results), reply.unscored) == (3, ("1", "3"))


def test_of_equal_ranks_and_scores_the_earlier_ranking_wins() -> None:
    """The one that ranked a candidate best counts, not the one that found it first."""

    def ranking(names: str) -> SearchResponse:
        found = [Candidate(chunk_id=n, document_id="d", score=0.5, rank=1) for n in names]
        return SearchResponse(candidates=tuple(found))

    rankings = [("one", ranking("xya")), ("two", ranking("b")), ("three", ranking("a"))]
    pooled = pool_candidates(rankings, limit=9)

    assert "".join(one.chunk_id for one in pooled) == "xbay"
    assert pooled[2].concepts == ("one", "three")


def _clients(context: StubContext, **options: Any) -> RetrievalClients:
    return RetrievalClients(context, collection="c", access=Access.public(), **options)


async def test_a_term_is_looked_for_in_chunks_with_all_of_its_words() -> None:
    """By words alone and without the filters of the search, however that one matches."""
    sent: list[SearchRequest] = []

    def answer(request: SearchRequest) -> SearchResponse:
        sent.append(request)
        return SearchResponse(candidates=_hits("a"), collection_version=7)

    def text(request: TextRequest) -> TextResponse:
        found = ChunkText(chunk_id="a", document_id="d", content="A red lake.")
        return TextResponse(texts=(found,))

    clients = _clients(
        StubContext({"search": answer, "texts": text}), mode="hybrid", filters={"year": 2022}
    )
    assert (await clients.occurs("Red Lake"), await clients.occurs("lake red")) == (True, False)
    await clients.check_spelling("a lak")

    assert [(one.mode, one.match, one.filters, one.spelling, one.limit) for one in sent] == [
        *[("bm25", "all", {}, False, 100)] * 2,
        ("bm25", "any", {}, True, 1),
    ]
    assert clients.versions == {7}


async def test_reranking_has_a_share_of_the_time_that_is_left() -> None:
    """The rest is for what comes after it."""

    async def never(_: Any) -> Any:
        await asyncio.Event().wait()

    clients = _clients(
        StubContext({"reranker": never}),
        deadline=Deadline(0.05),
        timeouts=Timeouts(rerank_share=0.1),
    )
    with pytest.raises(DeadlineExceeded, match=r"reranking was not done within 0\.00\d+ s"):
        await clients.rerank("why", [Passage(chunk_id="a", text="t")], (), 1)


async def test_two_models_are_told_apart_by_all_that_is_known_of_them() -> None:
    """Name, the beginning of the revision, precision and dimension."""
    stored = EmbeddingModel(name="a", revision="0123456789abcdef", precision="w8", dimension=2)

    class Store:
        async def collection_model(self, _: str) -> EmbeddingModel:
            return stored

    request = SearchRequest(
        access=Access.public(), collection="c", limit=1, model=EmbeddingModel(name="b", dimension=3)
    )
    with pytest.raises(ModelMismatch) as caught:
        await SearchService(Store(), SearchParameters()).search(request)  # type: ignore[arg-type]
    assert "made with a, 0123456789ab, w8, dimension 2" in caught.value.message
    assert "the query with b, float32, dimension 3" in caught.value.message


def test_a_walk_without_evidence_leads_nowhere() -> None:
    """A passage that the query names starts from the best, which is nothing then."""
    around = Neighbourhood(
        documents={"a": "A", "b": "B"}, links=(("a", "b"),), named=frozenset("a")
    )

    assert walk_scores({}, around) == {"a": 0.0, "b": 0.0}
    assert walk_scores({"b": 0.5}, around)["a"] > 0.5
    assert walk_scores({"b": 0.5}, around, {"b"})["b"] > 0.5
    assert walk_scores({"b": 0.5}, Neighbourhood(documents={}, links=(), named=frozenset())) == {}


def test_a_corrected_query_has_the_blend_of_both_vectors() -> None:
    """A unit vector of two parts as written and one as corrected.

    A query without corrections keeps its vector; that of another model or none at all adds nothing.
    """
    model = EmbeddingModel(name="m", dimension=2)

    def vector(*values: float, of: EmbeddingModel = model) -> Vector:
        return Vector(np.array(values, dtype="<f4").tobytes(), of)

    written, corrected = vector(1.0, 0.0), vector(0.0, 1.0)
    both = blend_query_vectors(written, corrected)
    length = 5.0**0.5
    assert (both.data, both.model) == (vector(2 / length, 1 / length).data, model)
    assert blend_query_vectors(None, corrected) is corrected
    assert blend_query_vectors(written, None) is None
    other = EmbeddingModel(name="n", dimension=2)
    assert blend_query_vectors(vector(1.0, 0.0, of=other), corrected) is corrected
    assert blend_query_vectors(vector(1.0, 0.0, 0.0), corrected) is corrected
    assert blend_query_vectors(vector(0.0, -0.5), corrected) is corrected
