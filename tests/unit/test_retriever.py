"""The retriever keeps its contract over stores in memory and over any objects."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from tests.support.memory_collection import MemoryCollection
from tests.support.retriever_contract import RetrieverSuite
from tests.support.store_adapters import StoredVectors, StoredWords

from whence import Access, Retriever
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import Unavailable
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.memory.store import MemoryStore
from whence.store.protocols import EmbeddedDocument
from whence.surfaces.python.protocols import FoundChunk
from whence.testing.retriever_suite import (
    CHUNKS,
    EmbedderSuite,
    SparseRetrieverSuite,
    VectorStoreSuite,
)
from whence.testing.stub_models import HashEmbedder

MODEL = EmbeddingModel(name="suite", revision="r1", precision="float32", dimension=3)


async def filled_store() -> MemoryStore:
    store = MemoryStore()
    await store.ensure_collection("c", MODEL)
    await store.replace_documents(
        "c",
        [
            EmbeddedDocument(
                draft=DocumentDraft(
                    document_id=name, chunks=(ChunkDraft(content=text),), tags=tags
                ),
                vectors=np.array([vector], dtype=np.float32),
            )
            for name, (text, vector, tags) in CHUNKS.items()
        ],
    )
    return store


class TestMemoryVectors(VectorStoreSuite):
    """A collection of the store in memory as a vector store."""

    @pytest.fixture
    async def vectors(self) -> StoredVectors:
        """Return the store of the suite."""
        return StoredVectors(await filled_store(), "c")


class TestMemoryWords(SparseRetrieverSuite):
    """A collection of the store in memory as a sparse retriever."""

    @pytest.fixture
    async def words(self) -> StoredWords:
        """Return the store of the suite."""
        return StoredWords(await filled_store(), "c")


class TestHashEmbedder(EmbedderSuite):
    """The stub embedder is an embedder."""

    @pytest.fixture
    def embedder(self) -> HashEmbedder:
        """Return the embedder."""
        return HashEmbedder()


class TestRetrieverInMemory(RetrieverSuite):
    """The contract over stores in memory."""

    @pytest.fixture
    def library(self) -> MemoryCollection:
        """Return an empty collection."""
        return MemoryCollection()


class PlainEmbedder:
    """A plain embedder that returns lists that are not normalized."""

    def embed(self, texts: Any) -> list[list[float]]:
        return [[3.0, 4.0] for _ in texts]


class PlainStore:
    """A store of fixed hits; remembers what it was asked."""

    def __init__(self, *hits: Any) -> None:
        self.hits = hits
        self.asked: list[Any] = []

    def search(self, query: Any, *, limit: int, access: Access) -> list[Any]:
        self.asked.append((query, limit, access))
        return list(self.hits)

    def scores(self, query: Any, chunk_ids: Any, *, access: Access) -> dict[str, float]:
        self.asked.append(tuple(chunk_ids))
        return dict.fromkeys(chunk_ids, 0.25)


def hit(name: str, score: float) -> dict[str, Any]:
    return {"id": name, "content": f"text of {name}", "score": score, "metadata": {"n": name}}


def test_any_objects_can_be_stores() -> None:
    """Plain methods, lists of numbers and mappings as hits are enough; rights reach the store."""
    store = PlainStore(hit("b", 0.9), FoundChunk(id="a", content="x", score=0.9), hit("c", 0.1))
    results = Retriever(PlainEmbedder(), store, access=Access({"hr"})).search("query", 5, 0.2)
    ((vector, limit, access),) = store.asked

    assert [(r.rank, r.chunk.id, r.similarity_score) for r in results] == [
        (1, "a", 0.9),
        (2, "b", 0.9),
    ]
    assert results[1].chunk.metadata == {"n": "b"}
    assert vector.tolist() == pytest.approx([0.6, 0.8])
    assert (limit, access) == (5, Access({"hr"}))


COSINES = {"c": 0.2, "f": -0.6, "a": 0.9, "e": -0.2, "b": 0.5, "d": 0.0}


@pytest.mark.parametrize(
    ("top_k", "threshold", "found"),
    [
        (10, 0.0, "abcdef"),
        (3, 0.0, "abc"),
        (1, 0.0, "a"),
        (10, 0.5, "ab"),
        (10, 0.5000001, "a"),
        (10, 0.9, "a"),
        (1, 0.2, "a"),
        (10, 1.0, ""),
    ],
)
def test_dense_retrieval_is_cut_sorted_and_clipped(
    top_k: int, threshold: float, found: str
) -> None:
    """Of a store that keeps no order and no limit the best `top_k` remain, the threshold itself included.

    A negative cosine scores 0 and ties with a cosine of 0 by id; the breakdown keeps the cosine.
    """
    store = PlainStore(*(hit(name, score) for name, score in COSINES.items()))
    results = Retriever(PlainEmbedder(), store).search("query", top_k, threshold)

    assert "".join(one.chunk.id for one in results) == found
    assert [one.rank for one in results] == list(range(1, len(found) + 1))
    assert [one.similarity_score for one in results] == [max(0.0, COSINES[one]) for one in found]
    assert [one.score_breakdown["dense_score"] for one in results] == [COSINES[n] for n in found]


def test_a_store_without_a_limit_gives_no_more_candidates() -> None:
    """In hybrid retrieval each store counts for its best 100 hits, or `top_k` when that is more."""
    many = PlainStore(*(hit(f"c{n:03}", 1 - n / 1000) for n in range(150)))
    sparse = PlainStore(hit("c149", 0.5))
    Retriever(PlainEmbedder(), many, sparse=sparse).search("query", 5, 0.0)
    scored = [one for one in sparse.asked if isinstance(one[0], str) and one[0] != "query"]

    assert scored == [tuple(f"c{n:03}" for n in range(100))]


def test_hybrid_scores_each_chunk_by_both_retrievers() -> None:
    """Every chunk that either retriever found has the true scores of both."""
    store, sparse = (
        PlainStore(hit("a", 0.8), hit("b", 0.4)),
        PlainStore(hit("b", 0.5), hit("c", 0.3)),
    )
    results = Retriever(PlainEmbedder(), store, sparse=sparse).search("query", 5, 0.0)
    scores = {
        r.chunk.id: (r.score_breakdown["dense_score"], r.score_breakdown["sparse_score"])
        for r in results
    }

    assert scores == {"a": (0.8, 0.25), "b": (0.4, 0.5), "c": (0.25, 0.3)}
    assert (store.asked[1], sparse.asked[1]) == (("c",), ("a",))


@pytest.mark.parametrize(
    ("retriever", "words"),
    [
        (Retriever(object(), object()), "vector store not initialized"),  # type: ignore[arg-type]
        (Retriever(None, PlainStore()), "embedder not available"),
        (Retriever(PlainEmbedder(), None), "vector store not initialized"),
        (Retriever(HashEmbedder(error=Unavailable("")), PlainStore()), "embedder not available"),
        (Retriever(PlainEmbedder(), PlainStore({"id": "a"})), "vector store not available"),
        (Retriever(PlainEmbedder(), PlainStore(hit("a", float("nan")))), "no score"),
        (Retriever(PlainEmbedder(), PlainStore(), sparse=object()), "sparse retriever"),  # type: ignore[arg-type]
        (Retriever(PlainEmbedder(), StoredVectors(MemoryStore(), "nowhere")), "nowhere"),
    ],
    ids=range(8),
)
def test_an_incomplete_retriever_fails_at_the_search(retriever: Retriever, words: str) -> None:
    """Nothing is checked before the first search; then a RuntimeError names the missing part."""
    with pytest.raises(RuntimeError, match=words):
        retriever.search("query")


async def test_asearch_has_the_errors_of_search() -> None:
    """`asearch` refuses what `search` refuses."""
    with pytest.raises(RuntimeError, match="not initialized"):
        await Retriever(None, None).asearch("query")
    with pytest.raises(ValueError, match="query_text cannot be empty"):
        await Retriever(None, None).asearch("")


def test_invalid_rights_are_refused() -> None:
    """Rights in a wrong form are an error."""
    with pytest.raises(ValueError, match="access"):
        Retriever(PlainEmbedder(), PlainStore(), access=None).search("query")  # type: ignore[arg-type]


def test_hidden_chunks_stay_hidden() -> None:
    """A retriever sees what its access allows, in both stores, and no more."""
    from whence.schema.access import DocumentTags

    collection = MemoryCollection()
    collection.ingest("open.md", "apples and pears for all")
    collection.ingest("closed.md", "apples and pears for the board", tags=DocumentTags(("board",)))

    def found(access: Access) -> set[str]:
        results = collection.retriever(access=access).search("apples and pears", 5, 0.0)
        return {one.document_id for one in results}

    assert found(Access.public()) == {"open.md"}
    assert found(Access({"board"})) == {"open.md", "closed.md"}


def _retriever_threads() -> int:
    return sum(thread.name == "whence-retriever" for thread in threading.enumerate())


def test_close_ends_the_thread_and_a_search_starts_it_again() -> None:
    """The thread of blocking searches ends with `close`, the `with` block, or the object."""
    before = _retriever_threads()
    with Retriever(PlainEmbedder(), PlainStore(hit("a", 0.9))) as retriever:
        assert len(retriever.search("query")) == 1
        assert _retriever_threads() == before + 1
    assert _retriever_threads() == before
    assert len(retriever.search("query")) == 1
    del retriever
    gc.collect()

    assert _retriever_threads() == before


def test_closing_ends_running_searches() -> None:
    """A running search ends with an error when the retriever is closed."""

    class SlowStore(PlainStore):
        async def search(self, query: Any, *, limit: int, access: Access) -> list[Any]:  # type: ignore[override]
            await asyncio.sleep(60)
            return []

    retriever = Retriever(PlainEmbedder(), SlowStore())  # type: ignore[arg-type]
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            retriever.search("query")
        except BaseException as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not _retriever_threads():
        time.sleep(0.01)
    time.sleep(0.05)
    retriever.close()
    waiting.join(10)

    assert [type(error) for error in errors] == [RuntimeError]


def test_a_nested_search_is_refused() -> None:
    """A store that searches with its own retriever gets an error instead of a deadlock."""

    class Inward(PlainStore):
        def search(self, query: Any, *, limit: int, access: Access) -> list[Any]:
            return retriever.search("again")

    retriever = Retriever(PlainEmbedder(), Inward())
    with pytest.raises(RuntimeError, match="by the search itself"):
        retriever.search("query")
