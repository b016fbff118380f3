"""Queries that name a symbol, and the boost of the chunks that define it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whence import Access, Retriever
from whence.processors.search import SearchProcessor
from whence.retrieval.fusion import (
    FUSIONS,
    MIN_BOOSTED_SCORE,
    Fusion,
    boost_symbols,
    rank_candidates,
)
from whence.retrieval.hybrid import parse_symbol_query
from whence.schema import SearchRequest
from whence.schema.errors import Unavailable
from whence.schema.search import Candidate
from whence.store.memory.store import MemoryStore
from whence.store.symbol_names import LONGEST_NAME, symbol_fit
from whence.surfaces.python.protocols import FoundChunk
from whence.testing.index_samples import MODEL
from whence.testing.stub_context import StubContext
from whence.testing.symbols_suite import defining

VECTOR = np.array([1, 0], "<f4").tobytes()


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("OrderService", "OrderService"),
        ("  total ", "total"),
        ("`Cart.total()`", "Cart.total"),
        ("the net.core_v2", "net.core_v2"),
        ("__init__", "__init__"),
        ("_private", "_private"),
        ("std::vector", "std::vector"),
        ("Cart#total", "Cart#total"),
        ("$scope", "$scope"),
        ("dbo.proc_Pay;", "dbo.proc_Pay"),
        ("größe", "größe"),
        ("is it total?", "total"),
        pytest.param("x" * LONGEST_NAME, "x" * LONGEST_NAME, id="longest"),
        pytest.param("ä" * LONGEST_NAME, None, id="too long in bytes"),
        ("total of a cart", None),
        ("force-with-lease", None),
        ("a/b", None),
        ("C#", None),
        ("the", None),
        ("...", None),
        ("", None),
        ("total\0", None),
        ("\ud800", None),
        ("word " * 9, None),
    ],
)
def test_a_symbol_query_is_recognised(query: str, name: str | None) -> None:
    """A symbol query is one word beside stop words and punctuation, no phrase and no path."""
    assert parse_symbol_query(query) == name


@given(st.text(max_size=30))
def test_any_query_is_parsed(text: str) -> None:
    """A query has no symbol, or one that matches itself."""
    name = parse_symbol_query(text)
    assert name is None or symbol_fit(name, name) == 2


_score = st.floats(0, 1)


@given(st.dictionaries(st.integers(), st.tuples(_score, st.sampled_from([None, 0, 1, 2]))))
def test_definitions_rank_above_all_others(some: dict[int, Any]) -> None:
    """Definitions are ordered by match, then score; the others keep order and scores below."""
    scores = {str(key): score for key, (score, _) in some.items()}
    fits = {str(key): fit for key, (_, fit) in some.items() if fit is not None}
    assume(fits)
    found = boost_symbols(scores, fits)

    for one, score in found.items():
        assert (
            (MIN_BOOSTED_SCORE <= score <= 1) if one in fits else score == min(scores[one], score)
        )
        assert one in fits or score < MIN_BOOSTED_SCORE
        for other in found:
            if (fits.get(one, -1), scores[one]) > (fits.get(other, -1), scores[other]):
                assert score >= found[other]


@pytest.mark.parametrize("method", list(FUSIONS))
def test_every_fusion_method_ranks_definitions_first(method: Fusion) -> None:
    """The boost follows the fusion, for every method."""
    chunks = {
        "def": Candidate(
            chunk_id="def", document_id="d", score=0.0, rank=0, dense_score=0.1, sparse_score=0.2
        ),
        "mention": Candidate(
            chunk_id="mention",
            document_id="d",
            score=0.0,
            rank=0,
            dense_score=0.9,
            sparse_score=0.8,
        ),
    }
    fused = FUSIONS[method](chunks)
    ranking = rank_candidates(chunks, fused, limit=9, threshold=0.0, fits={"def": 1})

    assert [one.chunk_id for one in ranking] == ["def", "mention"]
    assert ranking[0].name_score == pytest.approx(ranking[0].score - fused["def"])
    assert ranking[1].name_score is None


class _Stores:
    """Both stores of a retriever; one of their chunks defines the symbol."""

    chunks = (
        ("mention", 0.9, {"heading": "Cart.count", "title": "cart.py"}),
        ("def", 0.4, {"heading": "Cart.total", "title": "cart.py"}),
        ("prose", 0.8, {"heading": "total", "title": "Prices"}),
        ("odd", 0.7, {"heading": 7, "title": None}),
    )

    def search(self, asked: Any, *, limit: int, access: Access) -> list[FoundChunk]:
        return [
            FoundChunk(
                id=one, content="text", score=score, metadata=metadata, document_id="cart.py"
            )
            for one, score, metadata in self.chunks
        ]

    def scores(self, asked: Any, chunk_ids: Any, *, access: Access) -> dict[str, float]:
        return {}

    def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0, 0.0]]


def test_a_plain_retriever_boosts_symbols() -> None:
    """Found chunks headed by the symbol are first, except in dense mode."""
    stores = _Stores()
    with Retriever(stores, stores, sparse=stores) as hybrid, Retriever(stores, stores) as dense:
        both = hybrid.search("total", 5, 0.0)
        words = hybrid.search("total sum", 5, 0.0)
        vectors = dense.search("total", 5, 0.0)

    assert [one.chunk.id for one in both] == ["def", "mention", "prose", "odd"]
    assert "name_score" in both[0].score_breakdown
    assert [one.chunk.id for one in words] == [one.chunk.id for one in vectors]
    assert all("name_score" not in one.score_breakdown for one in (*words, *vectors, *both[1:]))


def _failing(methods: str) -> MemoryStore:
    """Return a store of which some methods do not answer."""

    async def fail(*args: Any, **options: Any) -> Any:
        raise Unavailable("the store does not answer")

    store = MemoryStore()
    for name in methods.split():
        setattr(store, name, fail)
    return store


@pytest.mark.parametrize(
    ("fault", "mode", "first", "codes"),
    [
        ("find_symbols", "bm25", "m0", ["names_missing"]),
        ("find_symbols", "hybrid", "m0", ["names_missing"]),
        ("lexical_scores", "bm25", "m0", ["names_missing"]),
        ("search_dense", "hybrid", "def", ["dense_leg_missing"]),
        ("lexical_scores", "hybrid", "m0", ["names_missing"]),
        ("search_dense lexical_scores", "hybrid", "m0", ["dense_leg_missing", "names_missing"]),
        ("", "hybrid", "def", []),
    ],
)
async def test_a_failing_symbol_lookup_degrades(
    fault: str, mode: Any, first: str, codes: list[str]
) -> None:
    """A failing symbol lookup removes the boost only; with one retriever the boost still applies."""
    store = _failing(fault)
    await store.ensure_collection("c", MODEL)
    long = " ".join(f"word{n}" for n in range(300))
    mentions = [defining(f"m{n}", ("", "total total"), near=0.9) for n in range(120)]
    documents = [*mentions, defining("def", ("total", long), near=0.1)]
    await store.replace_documents("c", documents)
    request = SearchRequest(
        access=Access.public(),
        collection="c",
        limit=3,
        vector=VECTOR,
        query_text="total",
        mode=mode,
    )
    found = await SearchProcessor(store=store).handle(request, StubContext())

    assert found.candidates[0].document_id == first
    assert [one.code for one in found.degraded] == codes
    assert len(found.candidates) == 3
