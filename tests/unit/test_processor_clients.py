"""The clients speak for one message: they send what was meant and check what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.processors.clients import (
    DocEmbeddingsClient,
    EmbeddingsClient,
    PromptClient,
    QueryVector,
    RerankerClient,
    TextsClient,
)
from whence.schema import (
    Access,
    Answer,
    Candidate,
    ChunkText,
    Degradation,
    EmbeddingModel,
    EmbeddingRequest,
    EmbeddingResponse,
    PromptResponse,
    PromptResult,
    RerankerResult,
    RerankItem,
    RerankRequest,
    RerankResponse,
    SearchQuery,
    SearchRequest,
    SearchResponse,
    SearchResult,
    TextRequest,
    TextResponse,
)
from whence.schema.errors import DeadlineExceeded, InternalError, NotFound
from whence.testing.stub_context import StubContext

MODEL = EmbeddingModel(name="m", dimension=2)
ACCESS = Access({"hr"})


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=8))
def test_a_vector_keeps_its_numbers(numbers: list[float]) -> None:
    """float32 in, the same float32 out."""
    assert QueryVector.of(numbers).to_list() == numbers


async def test_each_text_gets_its_vector_with_the_model() -> None:
    """The reply is cut row by row; model and text go along to the search."""
    flat = QueryVector.of([1.0, 0.0, 0.6, 0.8]).data
    context = StubContext({"embedding": lambda _: EmbeddingResponse(vectors=flat, model=MODEL)})
    first, second = await EmbeddingsClient(context).embed(["a", "b"])

    assert (first.to_list(), first.text, first.model) == ([1.0, 0.0], "a", MODEL)
    assert second.to_list() == pytest.approx([0.6, 0.8])
    assert context.sent == [("embedding", EmbeddingRequest(texts=("a", "b")))]


@pytest.mark.parametrize("size", [0, 7, 8, 12, 24])
async def test_vectors_of_a_wrong_size_are_refused(size: int) -> None:
    """Two texts of dimension 2 are 16 bytes, nothing else."""
    reply = EmbeddingResponse(vectors=b"\0" * size, model=MODEL)
    context = StubContext({"embedding": lambda _: reply})

    with pytest.raises(InternalError, match="expected 16"):
        await EmbeddingsClient(context).embed(["a", "b"])


async def test_a_search_carries_everything_the_service_needs() -> None:
    """Rights, collection, mode, vector, model and words; what was left out comes back with it."""
    hit = Candidate(chunk_id="c", document_id="d", score=0.5, rank=1)
    note = Degradation(stage="search", reason="r")
    context = StubContext({"search": lambda _: SearchResponse(candidates=(hit,), degraded=(note,))})
    client = DocEmbeddingsClient(context, collection="books", access=ACCESS, mode="hybrid")
    matches = await client.query(QueryVector(b"1234", MODEL, "words"), limit=3)

    assert (matches, matches.degraded) == ([hit], (note,))
    assert context.sent[0][1] == SearchRequest(
        access=ACCESS,
        collection="books",
        limit=3,
        vector=b"1234",
        model=MODEL,
        query_text="words",
        mode="hybrid",
    )


def hit(chunk_id: str) -> Candidate:
    return Candidate(chunk_id=chunk_id, document_id="d", score=0.5, rank=1)


async def test_several_queries_travel_in_one_request() -> None:
    """Each has its vector, words and limit; what was not answered with the others is None."""
    note = Degradation(stage="search", reason="r")
    found = SearchResult(candidates=(hit("c"),), degraded=(note,))
    context = StubContext(
        {"search": lambda _: SearchResponse(candidates=(), results=(found, None))}
    )
    client = DocEmbeddingsClient(context, collection="books", access=ACCESS, mode="hybrid")
    first, second = await client.query_all(
        [(QueryVector(b"1234", MODEL, "words"), 3), (QueryVector(b"5678", MODEL, "more"), 2)]
    )

    assert first is not None
    assert (first, first.degraded, second) == ([hit("c")], (note,), None)
    assert context.sent[0][1] == SearchRequest(
        access=ACCESS,
        collection="books",
        limit=3,
        vector=b"1234",
        model=MODEL,
        query_text="words",
        mode="hybrid",
        more=(SearchQuery(limit=2, vector=b"5678", query_text="more"),),
    )


async def test_a_service_that_knows_one_query_answers_the_first() -> None:
    """The others are to be asked alone."""
    context = StubContext({"search": lambda _: SearchResponse(candidates=(hit("c"),))})
    client = DocEmbeddingsClient(context, collection="books", access=ACCESS)

    assert await client.query_all([(QueryVector(b"1234"), 3)] * 3) == [[hit("c")], None, None]


async def test_a_search_takes_plain_numbers_too() -> None:
    """A list of floats is packed as float32."""
    context = StubContext({"search": lambda _: SearchResponse(candidates=())})
    await DocEmbeddingsClient(context, collection="c", access=ACCESS).query([1.0, 0.5], limit=1)
    (_, sent), *_ = context.sent

    assert isinstance(sent, SearchRequest)
    assert sent.vector == QueryVector.of([1.0, 0.5]).data


def text(chunk_id: str) -> ChunkText:
    return ChunkText(chunk_id=chunk_id, document_id="d", content=f"text {chunk_id}")


async def test_texts_come_by_id_in_one_request() -> None:
    """What is missing is not in the reply."""

    def answer(request: TextRequest) -> TextResponse:
        assert (request.access, request.collection) == (ACCESS, "books")
        return TextResponse(texts=(text("b"),), missing=("a",))

    context = StubContext({"texts": answer})
    texts = await TextsClient(context, collection="books", access=ACCESS).fetch_chunks(["a", "b"])

    assert texts == {"b": text("b")}
    assert len(context.sent) == 1


async def test_a_single_text_is_there_or_not_found() -> None:
    """A hidden chunk and one that does not exist give the same error."""
    context = StubContext({"texts": lambda _: TextResponse(texts=(text("a"),))})
    client = TextsClient(context, collection="books", access=ACCESS)

    assert await client.fetch_chunk("a") == "text a"
    with pytest.raises(NotFound, match="no chunk b"):
        await client.fetch_chunk("b")


async def test_a_reranker_is_asked_for_all_scores_and_cut_here() -> None:
    """The best `limit` are the result; the rest is told for the trace."""
    found = tuple(RerankerResult(str(n), "0", 0.9 - n / 10) for n in range(3))
    context = StubContext({"reranker": lambda _: RerankResponse(results=found, model="cross")})
    documents = [{"id": str(n), "text": f"t{n}"} for n in range(3)]
    scored = await RerankerClient(context).rerank(
        queries=[{"id": "0", "text": "why"}], documents=documents, limit=2
    )

    assert (scored, scored.rest, scored.model) == (list(found[:2]), found[2:], "cross")
    assert context.sent[0][1] == RerankRequest(
        queries=(RerankItem(id="0", text="why"),),
        documents=tuple(RerankItem(id=str(n), text=f"t{n}") for n in range(3)),
        limit=3,
    )


async def test_a_reranker_is_not_waited_for_longer_than_asked() -> None:
    """The timeout has words."""

    async def never(_: RerankRequest) -> Any:
        await asyncio.Event().wait()

    client = RerankerClient(StubContext({"reranker": never}))
    with pytest.raises(DeadlineExceeded, match=r"no reply within 0\.01 s"):
        await client.rerank(queries=[], documents=[], timeout=0.01)


RESULT = PromptResult(text="ab")


async def test_pieces_are_passed_on_and_the_end_is_told_once() -> None:
    """The result is the last reply's; the callback hears pieces, then the end."""
    heard: list[tuple[str, bool]] = []

    async def hear(piece: str, end: bool) -> None:
        heard.append((piece, end))

    replies = [PromptResponse(piece="a"), PromptResponse(piece="b"), PromptResponse(result=RESULT)]
    client = PromptClient(StubContext({"prompt": lambda _: replies}))
    result = await client.document_prompt("q", ["d"], streaming=True, chunk_callback=hear)

    assert result == RESULT
    assert heard == [("a", False), ("b", False), ("", True)]


@pytest.mark.parametrize(
    "replies", [[], [PromptResponse(piece="a")], [Answer(answer_id="a", question="", text="")]]
)
async def test_a_prompt_without_a_result_is_an_error(replies: list[Any]) -> None:
    """A stream that ends early, or holds something else, gives no answer."""
    client = PromptClient(StubContext({"prompt": lambda _: replies}))

    with pytest.raises(InternalError):
        await client.prompt("document-prompt", {"query": "q"})


async def test_a_callback_that_fails_closes_the_stream() -> None:
    """The other side stops writing for somebody who does not listen."""
    closed = asyncio.Event()

    async def endless(_: Any) -> AsyncIterator[PromptResponse]:
        try:
            while True:
                yield PromptResponse(piece="a")
        finally:
            closed.set()

    async def hang_up(_piece: str, _end: bool) -> None:
        raise ConnectionError("gone")

    client = PromptClient(StubContext({"prompt": endless}))
    with pytest.raises(ConnectionError):
        await client.prompt("x", streaming=True, chunk_callback=hang_up)

    assert closed.is_set()


async def test_scores_of_retrieval_travel_with_the_documents_they_belong_to() -> None:
    """The rerank service gets each document's score; without any it gets none."""
    sent: list[RerankRequest] = []

    def answer(request: RerankRequest) -> RerankResponse:
        sent.append(request)
        return RerankResponse(results=())

    client = RerankerClient(StubContext({"reranker": answer}))
    documents = [{"id": "0", "text": "a"}, {"id": "1", "text": "b"}]
    await client.rerank([{"id": "q", "text": "x"}], documents, retrieval_scores=[0.5, 0.25])
    await client.rerank([{"id": "q", "text": "x"}], documents)

    assert [[one.retrieval_score for one in request.documents] for request in sent] == [
        [0.5, 0.25],
        [None, None],
    ]
