"""The contract of `Retriever`, as tests to inherit.

`RetrieverSuite` needs a fixture `library` with `ingest(name, text)`, `ingest_all({name: text})` and
`retriever(hybrid=True)`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from whence.retrieval.results import RetrievalResult
from whence.surfaces.python.retriever import Retriever


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
        """A search over 1000 documents takes less than half a second, once the store is loaded."""
        retriever = _filled(library, 1000)
        retriever.search("what loads the store")

        start = time.perf_counter()
        results = retriever.search("test query", top_k=5)
        elapsed = time.perf_counter() - start

        assert elapsed < 0.5
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
    library.ingest_all({f"d{i}.md": _about(i) for i in range(n)})
    return library.retriever()


def _about(i: int) -> str:
    return (
        f"# Number {i}\nA query about " + "apples and boxes " * (i % 5) + f"and thing {i} of many."
    )
