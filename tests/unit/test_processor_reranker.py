"""The rerank service: best score per document, sorted, ties by order, cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.processors.reranker import RerankerParameters, RerankerProcessor
from whence.schema import RerankerResult, RerankItem, RerankRequest
from whence.schema.errors import BadInput, InternalError
from whence.testing.stub_context import StubContext


class TableReranker:
    """Scores by a table of query to scores."""

    model = "table"

    def __init__(self, table: dict[str, list[float]]) -> None:
        self.table = table
        self.calls = 0

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        self.calls += 1
        return self.table[query]


def request(queries: Sequence[str], documents: int, limit: int = 10) -> RerankRequest:
    return RerankRequest(
        queries=tuple(RerankItem(id=f"q{n}", text=text) for n, text in enumerate(queries)),
        documents=tuple(RerankItem(id=str(n), text=f"document {n}") for n in range(documents)),
        limit=limit,
    )


async def rerank(table: dict[str, list[float]], documents: int, limit: int = 10) -> Any:
    processor = RerankerProcessor(reranker=TableReranker(table))
    return await processor.handle(request(list(table), documents, limit), StubContext())


async def test_documents_are_sorted_by_score() -> None:
    """Equal scores keep the order of the request; the limit truncates."""
    reply = await rerank({"a": [0.5, 0.9, 0.5, 0.1]}, 4, limit=3)

    assert [r.document_id for r in reply.results] == ["1", "0", "2"]
    assert reply.model == "table"


async def test_a_document_has_its_best_query() -> None:
    """With several queries each document occurs once, with the query that scored it best."""
    reply = await rerank({"a": [0.2, 0.9], "b": [0.8, 0.9]}, 2)

    assert reply.results == (RerankerResult("1", "q0", 0.9), RerankerResult("0", "q1", 0.8))


@settings(deadline=None)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=5), min_size=1, max_size=3),
    st.integers(1, 7),
)
async def test_the_reply_has_the_best_documents(rows: list[list[float]], limit: int) -> None:
    """The best `limit` documents by the highest score over the queries, each once."""
    reply = await rerank({f"q{n}": row for n, row in enumerate(rows)}, 5, limit)
    best = [max(column) for column in zip(*rows, strict=True)]
    expected = sorted(range(5), key=lambda n: (-best[n], n))[:limit]

    assert [int(r.document_id) for r in reply.results] == expected
    assert [r.score for r in reply.results] == [best[n] for n in expected]


async def test_no_documents_need_no_model() -> None:
    """An empty request has an empty reply."""
    reranker = TableReranker({})
    reply = await RerankerProcessor(reranker=reranker).handle(request(["a"], 0), StubContext())

    assert (reply.results, reranker.calls) == ((), 0)


@pytest.mark.parametrize(
    "scores", [[0.1], [0.1, 0.2, 0.3], [0.1, float("nan")], [0.1, float("inf")]]
)
async def test_wrong_scores_are_refused(scores: list[float]) -> None:
    """Too few, too many or infinite scores are an error that names the model."""
    with pytest.raises(InternalError, match="model table"):
        await rerank({"a": scores}, 2)


@pytest.mark.parametrize(
    "bad",
    [
        request([], 1),
        request(["a"], 1, limit=0),
        request(["a"], 6),
        RerankRequest(
            queries=(RerankItem(id="q", text="a"),),
            documents=(RerankItem(id="0", text="x"), RerankItem(id="0", text="y")),
        ),
        RerankRequest(
            queries=(RerankItem(id="q", text="a"),),
            documents=(RerankItem(id="0", text="\u00e9" * 600),),
        ),
    ],
    ids=["no query", "limit", "pairs", "id twice", "bytes"],
)
async def test_an_invalid_request_is_refused(bad: RerankRequest) -> None:
    """An invalid or too large request does not reach the model."""
    reranker = TableReranker({"a": [0.0] * 6})
    processor = RerankerProcessor(
        RerankerParameters(max_pairs=5, max_bytes=1000), reranker=reranker
    )

    with pytest.raises(BadInput):
        await processor.handle(bad, StubContext())

    assert reranker.calls == 0


async def test_scores_of_retrieval_are_joined_with_those_of_the_model() -> None:
    """The order is that of both scores: a small model alone would spoil a good ranking."""
    documents = tuple(
        RerankItem(id=str(n), text="text", retrieval_score=score)
        for n, score in enumerate([0.9, 0.5, 0.49])
    )
    asked = RerankRequest(queries=(RerankItem(id="q", text="a"),), documents=documents)
    processor = RerankerProcessor(reranker=TableReranker({"a": [0.1, 0.2, 0.9]}))
    reply = await processor.handle(asked, StubContext())

    assert [r.document_id for r in reply.results] == ["0", "2", "1"]
    assert [r.score for r in reply.results] == pytest.approx([0.86, 0.5105, 0.485])


async def test_a_missing_retrieval_score_leaves_all_to_the_model() -> None:
    """Joined and unjoined scores are not comparable, so that none is joined."""
    documents = (
        RerankItem(id="0", text="text", retrieval_score=0.9),
        RerankItem(id="1", text="text"),
    )
    asked = RerankRequest(queries=(RerankItem(id="q", text="a"),), documents=documents)
    reply = await RerankerProcessor(reranker=TableReranker({"a": [0.1, 0.2]})).handle(
        asked, StubContext()
    )

    assert [(r.document_id, r.score) for r in reply.results] == [("1", 0.2), ("0", 0.1)]
