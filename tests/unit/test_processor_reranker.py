"""The rerank service: best score per document, sorted, ties by order, cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.processors.reranker import RerankerParameters, RerankerProcessor
from whence.retrieval.rerank import order_scores
from whence.schema import RerankerResult, RerankItem, RerankRequest
from whence.schema.errors import BadInput, InternalError
from whence.schema.passages import Passage
from whence.testing.stub_context import StubContext


class TableReranker:
    """Scores by a table of query to scores."""

    model = "table"

    def __init__(self, table: dict[str, list[float]], share: float = 1.0) -> None:
        self.table = table
        self.share = share
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
    assert sorted(int(r.document_id) for r in (*reply.results, *reply.others)) == list(range(5))


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


def with_retrieval(*scores: float | None) -> RerankRequest:
    documents = tuple(
        RerankItem(id=str(n), text="text", retrieval_score=score) for n, score in enumerate(scores)
    )
    return RerankRequest(queries=(RerankItem(id="q", text="a"),), documents=documents)


async def test_a_model_with_a_share_leaves_the_rest_to_retrieval() -> None:
    """The final score orders the documents; the model's own score is stated beside it."""
    processor = RerankerProcessor(reranker=TableReranker({"a": [0.1, 0.2, 0.9]}, share=0.05))
    reply = await processor.handle(with_retrieval(0.9, 0.5, 0.49), StubContext())

    assert [(r.document_id, r.score) for r in reply.results] == [("0", 0.1), ("2", 0.9), ("1", 0.2)]
    assert [r.final_score for r in reply.results] == pytest.approx([0.86, 0.5105, 0.485])


async def test_a_model_without_a_share_decides_alone() -> None:
    """Scores of retrieval change neither the order nor the score of a cross-encoder."""
    processor = RerankerProcessor(reranker=TableReranker({"a": [0.1, 0.2]}))
    reply = await processor.handle(with_retrieval(0.9, 0.1), StubContext())

    assert reply.results == (RerankerResult("1", "q", 0.2), RerankerResult("0", "q", 0.1))


async def test_a_missing_retrieval_score_leaves_all_to_the_model() -> None:
    """Final scores of both kinds are not comparable, so that the model's own score orders all."""
    processor = RerankerProcessor(reranker=TableReranker({"a": [0.1, 0.2]}, share=0.05))
    reply = await processor.handle(with_retrieval(0.9, None), StubContext())

    assert [(r.document_id, r.score) for r in reply.results] == [("1", 0.2), ("0", 0.1)]


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=6))
def test_a_ranking_keeps_its_order_without_the_model(scores: list[float | None]) -> None:
    """The scores that stand for retrieval fall along the ranking, and are those that were found."""
    found = [Passage(chunk_id=str(place), score=one) for place, one in enumerate(scores)]
    ordered = order_scores(found)

    if None in scores:
        assert ordered == []
    else:
        assert ordered == sorted(ordered, reverse=True)
        assert sorted(ordered) == sorted(one for one in scores if one is not None)
