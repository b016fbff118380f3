"""What a retriever and its three collaborators must do, as tests to inherit.

- `RetrieverSuite` needs a fixture `library` with `ingest(name, text)` and `retriever(hybrid=True)`.
- `VectorStoreSuite` needs a fixture `vectors`: a vector store with the contents of `CHUNKS`.
- `SparseRetrieverSuite` needs a fixture `words`: a sparse retriever with the same contents.
- `EmbedderSuite` needs a fixture `embedder`.

Needs pytest and pytest-asyncio in auto mode.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Any

import numpy as np
import pytest

from whence.engine.retriever import Retriever
from whence.retrieval.results import RetrievalResult
from whence.schema.access import Access, DocumentTags

#: Contents of the stores in the suites below, by id: text, vector, rights.
CHUNKS: dict[str, tuple[str, tuple[float, ...], DocumentTags]] = {
    "near": ("apples and pears", (1.0, 0.0, 0.0), DocumentTags()),
    "between": ("apples, apples, plums", (0.6, 0.8, 0.0), DocumentTags()),
    "across": ("bolts and nuts", (0.0, 0.0, 1.0), DocumentTags()),
    "against": ("screws", (-1.0, 0.0, 0.0), DocumentTags()),
    "hidden": ("apples for the board alone", (1.0, 0.0, 0.0), DocumentTags(("board",))),
}
PUBLIC = Access.public()
BOARD = Access({"board"})
_QUERY = np.array([1, 0, 0], dtype=np.float32)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class VectorStoreSuite:
    """Behaviours of a vector store; ids of chunks must end with the names of `CHUNKS`."""

    async def test_the_greatest_cosine_comes_first(self, vectors: Any) -> None:
        """Hits are sorted by exact cosine; text and metadata are whole, metadata is a copy."""
        hits = await _awaited(vectors.search(_QUERY, limit=10, access=PUBLIC))

        assert [_name(hit) for hit in hits] == ["near", "between", "across", "against"]
        assert [hit.score for hit in hits] == pytest.approx([1, 0.6, 0, -1], abs=1e-6)
        assert hits[0].content == "apples and pears"
        hits[0].metadata["seen"] = True
        again = await _awaited(vectors.search(_QUERY, limit=1, access=PUBLIC))
        assert "seen" not in again[0].metadata

    async def test_rights_come_before_the_limit(self, vectors: Any) -> None:
        """A hidden chunk uses no place; a reader with the right gets it."""
        public = await _awaited(vectors.search(_QUERY, limit=1, access=PUBLIC))
        board = await _awaited(vectors.search(_QUERY, limit=2, access=BOARD))

        assert [_name(hit) for hit in public] == ["near"]
        assert {_name(hit) for hit in board} == {"near", "hidden"}

    async def test_scores_by_id_are_those_of_the_search(self, vectors: Any) -> None:
        """Scores of single chunks are exact; a hidden or missing chunk has none."""
        hits = await _awaited(vectors.search(_QUERY, limit=10, access=BOARD))
        ids = [hit.id for hit in hits]
        scores = await _awaited(vectors.scores(_QUERY, [*ids, "no-such-chunk"], access=PUBLIC))
        expected = {hit.id: hit.score for hit in hits if _name(hit) != "hidden"}

        assert dict(scores) == pytest.approx(expected, abs=1e-6)


class SparseRetrieverSuite:
    """Behaviours of a sparse retriever; ids of chunks must end with the names of `CHUNKS`."""

    async def test_only_chunks_with_a_word_are_found(self, words: Any) -> None:
        """Hits share a word with the query; their share is above 0, at most 1, best first."""
        hits = await _awaited(words.search("apples", limit=10, access=PUBLIC))
        shares = [hit.score for hit in hits]

        assert {_name(hit) for hit in hits} == {"near", "between"}
        assert shares == sorted(shares, reverse=True)
        assert all(0 < share <= 1 for share in shares)
        assert await _awaited(words.search("xyzzy", limit=10, access=PUBLIC)) == []

    async def test_rights_come_before_the_limit(self, words: Any) -> None:
        """A hidden chunk uses no place; a reader with the right gets it."""
        public = await _awaited(words.search("board", limit=1, access=PUBLIC))
        board = await _awaited(words.search("board", limit=1, access=BOARD))

        assert [_name(hit) for hit in public] == []
        assert [_name(hit) for hit in board] == ["hidden"]

    async def test_scores_by_id_are_those_of_the_search(self, words: Any) -> None:
        """Shares of single chunks are those of the search, 0 without a word, none when hidden."""
        everything = await _awaited(words.search("apples", limit=10, access=BOARD))
        hits = await _awaited(words.search("apples", limit=10, access=PUBLIC))
        ids = [hit.id for hit in everything] + ["no-such-chunk"]
        scores = await _awaited(words.scores("apples", ids, access=PUBLIC))

        assert len(hits) < len(everything)
        assert dict(scores) == {hit.id: hit.score for hit in hits}


class EmbedderSuite:
    """Behaviours of an embedder."""

    async def test_every_text_has_one_vector(self, embedder: Any) -> None:
        """Vectors are finite, of one dimension, and not zero."""
        vectors = np.asarray(await _awaited(embedder.embed(["one text", "another", "one text"])))

        assert vectors.ndim == 2
        assert len(vectors) == 3
        assert np.isfinite(vectors).all()
        assert np.linalg.norm(vectors, axis=1).min() > 0

    async def test_a_vector_depends_on_its_text_alone(self, embedder: Any) -> None:
        """The same text has the same vector, alone or among others."""
        (alone,) = np.asarray(await _awaited(embedder.embed(["one text"])))
        first, _, third = np.asarray(
            await _awaited(embedder.embed(["one text", "some other words", "one text"]))
        )

        assert (alone == first).all()
        assert (alone == third).all()


def _name(hit: Any) -> str:
    found = [name for name in CHUNKS if name in hit.id]
    assert len(found) == 1, hit.id
    return found[0]


class RetrieverSuite:
    """The contract of `Retriever`."""

    # --- the ten of the contract -------------------------------------------------------------------

    def test_search_returns_relevant_results(self, library: Any) -> None:
        """A question finds the document that answers it, above the default threshold."""
        retriever = library.retriever()
        library.ingest("doc1.md", "# Python\nPython is a programming language.")

        results = retriever.search("What is Python?", top_k=5)

        assert len(results) > 0
        assert all(isinstance(r, RetrievalResult) for r in results)
        assert all(r.similarity_score >= 0.5 for r in results)
        assert results[0].chunk.content

    def test_search_results_sorted_by_score(self, library: Any) -> None:
        """Results come in falling order of score, with ranks from 1."""
        retriever = _filled(library, 10)

        results = retriever.search("a query about apples", top_k=5, similarity_threshold=0.0)
        scores = [r.similarity_score for r in results]

        assert len(scores) == 5
        assert scores == sorted(scores, reverse=True)
        assert [r.rank for r in results] == [1, 2, 3, 4, 5]

    def test_search_filters_by_threshold(self, library: Any) -> None:
        """No result is below the threshold, and the threshold alone decides."""
        retriever = _filled(library, 10)
        everything = retriever.search("apples in boxes", top_k=20, similarity_threshold=0.0)
        threshold = everything[3].similarity_score

        results = retriever.search("apples in boxes", top_k=20, similarity_threshold=threshold)

        assert all(r.similarity_score >= threshold for r in results)
        assert [r.chunk.id for r in results] == [
            r.chunk.id for r in everything if r.similarity_score >= threshold
        ]

    def test_search_respects_top_k_limit(self, library: Any) -> None:
        """Never more than `top_k` results, and the best of all."""
        retriever = _filled(library, 100)

        results = retriever.search("apples in boxes", top_k=5, similarity_threshold=0.0)
        more = retriever.search("apples in boxes", top_k=100, similarity_threshold=0.0)

        assert len(results) == 5
        assert [r.chunk.id for r in results] == [r.chunk.id for r in more[:5]]

    def test_search_returns_empty_when_no_matches(self, library: Any) -> None:
        """A question about something else finds nothing."""
        retriever = library.retriever()
        library.ingest("python_doc.md", "Python programming content")

        results = retriever.search("quantum physics equations", similarity_threshold=0.5)

        assert results == []

    def test_search_results_include_metadata(self, library: Any) -> None:
        """Results say where they come from."""
        retriever = library.retriever()
        library.ingest("doc.md", "# Section\nContent here")

        results = retriever.search("content", top_k=5)

        assert len(results) > 0
        result = results[0]
        assert result.chunk.metadata["source_file"] == "doc.md"
        assert result.chunk.metadata["header_path"]
        assert result.rank >= 1
        assert 0.0 <= result.similarity_score <= 1.0

    def test_search_rejects_empty_query(self, library: Any) -> None:
        """An empty query is a ValueError."""
        retriever = library.retriever()
        for query in ("", "   ", "\n\t"):
            with pytest.raises(ValueError, match="query_text cannot be empty"):
                retriever.search(query)

    def test_search_fails_when_not_initialized(self) -> None:
        """Without embedder and store a search raises RuntimeError; the constructor does not."""
        retriever = Retriever(embedder=None, vector_store=None)
        with pytest.raises(RuntimeError, match="not initialized"):
            retriever.search("query")

    def test_search_uses_hybrid_retrieval(self, library: Any) -> None:
        """Hybrid results break their score down."""
        retriever = library.retriever(hybrid=True)
        library.ingest("doc.md", "# FastAPI\nFastAPI is a web framework.")

        results = retriever.search("FastAPI", top_k=5)

        assert len(results) > 0
        breakdown = results[0].score_breakdown
        assert 0 < breakdown["dense_score"] <= 1
        assert 0 < breakdown["sparse_score"] <= 1
        assert breakdown["combined_score"] == results[0].similarity_score

    def test_search_meets_performance_requirement(self, library: Any) -> None:
        """A search over 1000 documents takes less than half a second."""
        retriever = _filled(library, 1000)
        times = []
        for _ in range(3):  # The machine may be busy with something else for a moment.
            start = time.perf_counter()
            results = retriever.search("test query", top_k=5)
            times.append(time.perf_counter() - start)

        assert min(times) < 0.5
        assert len(results) <= 5

    # --- ranges ------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            (("ab",), "query_text"),
            ((None,), "query_text"),
            ((b"bytes",), "query_text"),
            (("a\0bc",), "query_text"),
            (("\ud800 half",), "query_text"),
            (("query", 0), "top_k"),
            (("query", -1), "top_k"),
            (("query", 2.5), "top_k"),
            (("query", True), "top_k"),
            (("query", 5, -0.01), "threshold"),
            (("query", 5, 1.01), "threshold"),
            (("query", 5, float("nan")), "threshold"),
            (("query", 5, "high"), "threshold"),
        ],
        ids=str,
    )
    def test_an_argument_out_of_range_is_named(
        self, library: Any, arguments: tuple[Any, ...], named: str
    ) -> None:
        """An argument out of its range is a ValueError that names it."""
        with pytest.raises(ValueError, match=named):
            library.retriever().search(*arguments)

    # --- where it is called from -------------------------------------------------------------------

    async def test_blocking_search_answers_inside_a_running_loop(self, library: Any) -> None:
        """`search` works on the thread of a running event loop, with the results of `asearch`."""
        await asyncio.to_thread(library.ingest, "doc1.md", "# Python\nPython is a language.")
        retriever = library.retriever()
        blocking = retriever.search("What is Python?")
        native = await retriever.asearch("What is Python?")

        assert blocking == native
        assert blocking

    async def test_many_threads_may_search_at_once(self, library: Any) -> None:
        """Calls from several threads do not disturb one another."""
        await asyncio.to_thread(_filled, library, 10)
        retriever = library.retriever()
        queries = [f"apples in boxes number {n}" for n in range(8)]
        expected = [await retriever.asearch(one, similarity_threshold=0.0) for one in queries]
        got = await asyncio.gather(
            *(asyncio.to_thread(retriever.search, one, 5, 0.0) for one in queries)
        )

        assert got == expected


def _filled(library: Any, n: int) -> Any:
    if hasattr(library, "ingest_all"):
        library.ingest_all({f"d{i}.md": _about(i) for i in range(n)})
    else:
        for i in range(n):
            library.ingest(f"d{i}.md", _about(i))
    return library.retriever()


def _about(i: int) -> str:
    return (
        f"# Number {i}\nA query about " + "apples and boxes " * (i % 5) + f"and thing {i} of many."
    )
