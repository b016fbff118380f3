"""The search service checks what it is asked, applies the reader's rights, and names a missing retriever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from whence.processors.search import SearchParameters, SearchProcessor
from whence.schema import Access, Candidate, EmbeddingModel, SearchQuery, SearchRequest
from whence.schema.errors import BadInput, ModelMismatch, NotFound, Unavailable
from whence.store.protocols import VectorShare
from whence.testing.stub_context import StubContext

MODEL = EmbeddingModel(name="m", revision="r1", dimension=2)
HIT = Candidate(chunk_id="urn:c", document_id="d", score=0.9, rank=1, dense_score=0.9)
WORD_HIT = Candidate(chunk_id="urn:w", document_id="e", score=0.4, rank=1, sparse_score=0.4069)
VECTOR = np.array([0.6, 0.8], "<f4").tobytes()


class FixedStore:
    """A store with one collection and one hit."""

    def __init__(
        self,
        model: EmbeddingModel = MODEL,
        fault: str = "",
        hits: Sequence[Candidate] = (HIT,),
        *,
        is_large: bool = False,
    ) -> None:
        self.model = model
        self.is_large = is_large
        self.hits = hits
        self.fault = fault.split()
        self.looked_up = 0
        self.searches: list[dict[str, Any]] = []
        self.matches: list[str] = []

    async def collection_model(self, name: str) -> EmbeddingModel | None:
        self.looked_up += 1
        return self.model if name == "books" else None

    async def search_dense(self, collection: str, vector: Any, **options: Any) -> list[Candidate]:
        self._fail("search_dense")
        self.searches.append({"collection": collection, "vector": vector.tolist(), **options})
        return [*self.hits, *self._others(len(self.hits), options["limit"])]

    async def search_lexical(self, collection: str, text: str, **options: Any) -> list[Candidate]:
        self._fail("search_lexical")
        self.matches.append(options["match"])
        return [WORD_HIT, *self._others(1, options["limit"])]

    def _others(self, count: int, limit: int) -> list[Candidate]:
        """Return what else a large store finds: with fewer hits than it wants, a search asks for no scores."""
        return [
            Candidate(chunk_id=f"urn:z{number}", document_id="z", score=0.0, rank=number + 1)
            for number in range(count, limit if self.is_large else 0)
        ]

    async def lexical_scores(self, *_: Any, match: str, **__: Any) -> dict[str, float]:
        self._fail("lexical_scores")
        self.matches.append(match)
        return {"urn:c": 0.1}

    async def dense_scores(self, *_: Any, **__: Any) -> dict[str, float]:
        self._fail("dense_scores")
        return {"urn:w": 0.5}

    async def find_symbols(self, *_: Any, **__: Any) -> list[Any]:
        return []

    async def vector_share(self, *_: Any) -> VectorShare:
        return VectorShare(pending=0, passages=0)

    async def vector_statistics(self, *_: Any) -> None:
        return None

    async def link_statistics(self, *_: Any) -> None:
        return None

    def _fail(self, name: str) -> None:
        if name in self.fault:
            raise Unavailable(f"{name} does not answer")


def request(**fields: Any) -> SearchRequest:
    default = {"access": Access({"hr"}), "collection": "books", "limit": 5, "vector": VECTOR}
    return SearchRequest(**{**default, **fields})


@pytest.mark.parametrize(("mode", "asked"), [("bm25", 1), ("hybrid", 2)])
async def test_the_match_reaches_the_store(mode: str, asked: int) -> None:
    """A search for all words uses the match in the ranking and in the scores by id."""
    store = FixedStore(is_large=True)
    search = SearchProcessor(store=store)
    await search.handle(request(mode=mode, query_text="red lake", match="all"), StubContext())

    assert store.matches == ["all"] * asked


@pytest.mark.parametrize(
    ("fault", "found", "code"),
    [
        ("search_lexical", "urn:c", "lexical_leg_missing"),
        ("search_dense", "urn:w", "dense_leg_missing"),
    ],
)
async def test_a_late_retriever_is_left_out(
    monkeypatch: pytest.MonkeyPatch, fault: str, found: str, code: str
) -> None:
    """A hanging retriever uses half of the caller's time; the other one answers, degraded."""
    store = FixedStore()

    async def hang(*_: Any, **__: Any) -> list[Candidate]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(store, fault, hang)
    search = SearchProcessor(store=store)
    asked = request(mode="hybrid", query_text="red lake")
    reply = await search.handle(asked, StubContext(remaining_s=0.2))

    assert [one.chunk_id for one in reply.candidates] == [found]
    assert [one.code for one in reply.degraded] == [code]
    assert "within 0.1 s" in reply.degraded[0].reason


async def test_a_dense_search_for_all_words_is_refused() -> None:
    """A dense search that requires all words is refused, not ignored."""
    with pytest.raises(BadInput, match="mode dense"):
        await SearchProcessor(store=FixedStore()).handle(request(match="all"), StubContext())


async def test_rights_limit_and_threshold_reach_the_store() -> None:
    """The store gets the values of the request; the reply has the store's ranking."""
    store = FixedStore()
    reply = await SearchProcessor(store=store).handle(
        request(model=MODEL, threshold=0.25), StubContext()
    )

    assert (reply.candidates, reply.degraded) == ((HIT,), ())
    (search,) = store.searches
    assert search["vector"] == pytest.approx([0.6, 0.8])
    assert (search["collection"], search["limit"], search["access"], search["threshold"]) == (
        "books",
        5,
        Access({"hr"}),
        0.25,
    )


@pytest.mark.parametrize(
    ("limit", "threshold", "scores"),
    [
        (4, 0.0, [0.9, 0.5, 0.0, 0.0]),
        (2, 0.0, [0.9, 0.5]),
        (4, 0.5, [0.9, 0.5]),
        (4, 0.51, [0.9]),
        (4, 1.0, []),
    ],
)
async def test_a_dense_search_is_cut_whatever_the_store_returns(
    limit: int, threshold: float, scores: list[float]
) -> None:
    """At most `limit` hits, the threshold itself included; a negative cosine scores 0 and is kept as it is."""
    cosines = (0.9, 0.5, 0.0, -0.4, -0.7)
    hits = [
        Candidate(chunk_id=f"urn:{rank}", document_id="d", score=one, rank=rank, dense_score=one)
        for rank, one in enumerate(cosines, 1)
    ]
    search = SearchProcessor(store=FixedStore(hits=hits))
    reply = await search.handle(request(limit=limit, threshold=threshold), StubContext())

    assert [one.score for one in reply.candidates] == scores
    assert [one.dense_score for one in reply.candidates] == list(cosines[: len(scores)])


async def test_words_alone_rank_on_the_same_scale() -> None:
    """`bm25` needs no vector; the score is the curve over the lexical share, the threshold applies."""
    processor = SearchProcessor(store=FixedStore())
    reply = await processor.handle(request(mode="bm25", vector=None, query_text="x"), StubContext())
    none = await processor.handle(
        request(mode="bm25", vector=None, query_text="x", threshold=0.9), StubContext()
    )

    assert [(c.chunk_id, round(c.score, 3), c.sparse_score) for c in reply.candidates] == [
        ("urn:w", 0.667, 0.4069)
    ]
    assert none.candidates == ()


async def test_a_hybrid_search_gives_every_chunk_both_true_scores() -> None:
    """Each retriever scores what the other found; the order is that of the fused score."""
    reply = await SearchProcessor(store=FixedStore(is_large=True)).handle(
        request(mode="hybrid", query_text="x", limit=2), StubContext()
    )

    assert [(c.chunk_id, c.dense_score, c.sparse_score) for c in reply.candidates] == [
        ("urn:w", 0.5, 0.4069),
        ("urn:c", 0.9, 0.1),
    ]
    assert reply.degraded == ()


@pytest.mark.parametrize(
    ("fault", "vector", "left", "code"),
    [
        ("search_lexical", VECTOR, "urn:c", "lexical_leg_missing"),
        ("search_dense", VECTOR, "urn:w", "dense_leg_missing"),
        ("", None, "urn:w", "dense_leg_missing"),
        ("lexical_scores", VECTOR, "urn:c", "lexical_leg_missing"),
        ("dense_scores", VECTOR, "urn:w", "dense_leg_missing"),
    ],
)
async def test_a_failing_retriever_degrades(
    fault: str, vector: bytes | None, left: str, code: str
) -> None:
    """The other retriever ranks alone, with true scores, and the reply says so; also after a late failure."""
    store = FixedStore(fault=fault, is_large=True)
    reply = await SearchProcessor(store=store).handle(
        request(mode="hybrid", query_text="x", vector=vector, limit=1), StubContext()
    )

    assert [one.chunk_id for one in reply.candidates] == [left]
    assert [one.code for one in reply.degraded] == [code]


async def test_a_hybrid_search_without_any_retriever_fails() -> None:
    """The search raises an error instead of returning an empty ranking."""
    store = FixedStore(fault="search_dense search_lexical")
    with pytest.raises(Unavailable):
        await SearchProcessor(store=store).handle(
            request(mode="hybrid", query_text="x"), StubContext()
        )


@pytest.mark.parametrize(
    "fields",
    [
        {"limit": 0},
        {"limit": 11},
        {"threshold": -0.1},
        {"threshold": 1.5},
        {"threshold": float("nan")},
        {"vector": None},
        {"vector": b""},
        {"vector": VECTOR[:-1]},
        {"vector": np.array([np.nan, 0], "<f4").tobytes()},
        {"filters": {"lang": {"near": "en"}}},
    ],
)
async def test_an_invalid_request_is_refused(fields: dict[str, Any]) -> None:
    """Bad limits, thresholds, vectors and unknown filters never reach the store."""
    store = FixedStore()
    processor = SearchProcessor(SearchParameters(max_limit=10), store=store)

    with pytest.raises(BadInput):
        await processor.handle(request(**fields), StubContext())

    assert store.searches == []


@pytest.mark.parametrize(
    "other",
    [
        EmbeddingModel(name="other", revision="r1", dimension=2),
        EmbeddingModel(name="m", revision="r2", dimension=2),
        EmbeddingModel(name="m", revision="r1", precision="w8", dimension=2),
        EmbeddingModel(name="m", revision="r1", dimension=3),
    ],
)
async def test_a_vector_of_another_model_is_refused(other: EmbeddingModel) -> None:
    """Name, revision, precision and dimension must be those of the collection where vectors alone rank."""
    store = FixedStore()

    with pytest.raises(ModelMismatch, match="books") as caught:
        await SearchProcessor(store=store).handle(request(model=other), StubContext())

    assert "reembed" in caught.value.hint
    assert store.searches == []


async def test_words_rank_where_the_vectors_are_of_another_model() -> None:
    """A hybrid search answers by words, and says what makes vectors of an encoder that is there."""
    store = FixedStore()
    other = EmbeddingModel(name="other", dimension=2)

    asked = request(mode="hybrid", query_text="words", model=other)
    found = await SearchProcessor(store=store).handle(asked, StubContext())

    assert [one.code for one in found.degraded] == ["encoder_differs"]
    assert "reembed" in found.degraded[0].reason
    assert found.candidates
    assert all(one.dense_score is None for one in found.candidates)


async def test_a_collection_that_does_not_exist_is_not_found() -> None:
    """A missing collection is an error, an empty one is not."""
    with pytest.raises(NotFound, match="nowhere"):
        await SearchProcessor(store=FixedStore()).handle(
            request(collection="nowhere", model=MODEL), StubContext()
        )


async def test_the_model_of_a_collection_is_cached() -> None:
    """Consecutive searches read it once; a change is noticed after the configured time."""
    now = [0.0]
    store = FixedStore()
    processor = SearchProcessor(
        SearchParameters(model_memory_s=2.0), store=store, monotonic=lambda: now[0]
    )

    for moment in (0.0, 1.0, 1.9):
        now[0] = moment
        await processor.handle(request(model=MODEL), StubContext())
    assert store.looked_up == 1

    store.model = EmbeddingModel(name="new", dimension=2)
    now[0] = 2.0
    with pytest.raises(ModelMismatch):
        await processor.handle(request(model=MODEL), StubContext())


async def test_several_queries_are_answered_together() -> None:
    """Each query has its own vector and limit; results have the order of the queries."""
    store = FixedStore()
    other = np.array([0.8, 0.6], "<f4").tobytes()
    reply = await SearchProcessor(store=store).handle(
        request(model=MODEL, threshold=0.25, more=(SearchQuery(limit=2, vector=other),)),
        StubContext(),
    )
    alone = await SearchProcessor(store=FixedStore()).handle(request(), StubContext())

    assert reply.candidates == ()
    assert [one and one.candidates for one in reply.results] == [alone.candidates] * 2
    assert [(one["limit"], one["threshold"], one["access"]) for one in store.searches] == [
        (5, 0.25, Access({"hr"})),
        (2, 0.25, Access({"hr"})),
    ]
    assert store.searches[1]["vector"] == pytest.approx([0.8, 0.6])


async def test_a_failing_query_does_not_affect_others() -> None:
    """Its result is empty; when all fail the first error is raised, so that the worker retries."""
    processor = SearchProcessor(store=FixedStore())
    reply = await processor.handle(request(more=(SearchQuery(limit=0),)), StubContext())
    assert [one is None for one in reply.results] == [False, True]

    broken = SearchProcessor(store=FixedStore(fault="search_dense"))
    with pytest.raises(Unavailable, match="search_dense"):
        await broken.handle(request(more=(SearchQuery(limit=0),)), StubContext())


async def test_too_many_queries_are_refused() -> None:
    """The work of one message is bounded."""
    with pytest.raises(BadInput, match="101 queries"):
        await SearchProcessor(store=FixedStore()).handle(
            request(more=(SearchQuery(limit=1),) * 100), StubContext()
        )
