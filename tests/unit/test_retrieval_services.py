"""The clients of the services on the bus send what was meant and check what comes back."""

from __future__ import annotations

import array
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from whence.answering.prompts import DOCUMENT_PROMPT, WriterClient, section_of
from whence.retrieval.services import (
    PlannedQuery,
    RetrievalClients,
    Timeouts,
    Vector,
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
    PromptRequest,
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
from whence.schema.errors import BadInput, DeadlineExceeded, InternalError, Unavailable, WhenceError
from whence.schema.passages import Passage
from whence.testing.stub_context import StubContext

MODEL = EmbeddingModel(name="m", dimension=2)
ACCESS = Access({"hr"})
QUERIES = [
    PlannedQuery("words", Vector(b"1234", MODEL), 3),
    PlannedQuery("more", Vector(b"5678", MODEL), 2),
]


def clients(context: StubContext, **options: Any) -> RetrievalClients:
    """Return clients of a collection `books`."""
    return RetrievalClients(context, collection="books", access=ACCESS, **options)


def hit(chunk_id: str) -> Candidate:
    return Candidate(chunk_id=chunk_id, document_id="d", score=0.5, rank=1)


async def test_each_text_gets_its_vector() -> None:
    """The reply is divided into one vector per text, with the model."""
    flat = array.array("f", [1.0, 0.0, 0.6, 0.8]).tobytes()
    context = StubContext({"embedding": lambda _: EmbeddingResponse(vectors=flat, model=MODEL)})
    embedded = await clients(context).embed(["a", "b"], "texts")

    assert embedded.model == MODEL
    assert embedded.vectors == [Vector(flat[:8], MODEL), Vector(flat[8:], MODEL)]
    assert context.sent == [("embedding", EmbeddingRequest(texts=("a", "b"), collection="books"))]


@pytest.mark.parametrize("size", [0, 7, 8, 12, 24])
async def test_vectors_of_a_wrong_size_are_refused(size: int) -> None:
    """Two texts of dimension 2 are 16 bytes, nothing else."""
    reply = EmbeddingResponse(vectors=b"\0" * size, model=MODEL)
    context = StubContext({"embedding": lambda _: reply})

    with pytest.raises(InternalError, match="expected 16"):
        await clients(context).embed(["a", "b"], "texts")


async def test_a_search_request_is_complete() -> None:
    """Rights, collection, mode, filters, vector, model and words are sent; degradations are returned."""
    note = Degradation(stage="search", reason="r")
    response = SearchResponse(candidates=(hit("c"),), degraded=(note,))
    context = StubContext({"search": lambda _: response})
    filters = {"lang": ["en", "de"], "year": {"gte": 2020}}
    found = await clients(context, mode="hybrid", filters=filters).search(QUERIES[:1])

    assert found == [response]
    assert context.sent[0][1] == SearchRequest(
        access=ACCESS,
        collection="books",
        limit=3,
        vector=b"1234",
        model=MODEL,
        query_text="words",
        with_version=True,
        mode="hybrid",
        filters=filters,
    )


def test_an_invalid_filter_is_refused_before_sending() -> None:
    """An invalid filter causes no search and no model call."""
    with pytest.raises(BadInput, match="near"):
        clients(StubContext({}), filters={"year": {"near": 2020}})


async def test_several_queries_are_sent_in_one_request() -> None:
    """Each has its vector, words and limit; one without a result is sent alone."""
    found = SearchResult(candidates=(hit("c"),))

    def answer(request: SearchRequest) -> SearchResponse:
        if request.more:
            return SearchResponse(candidates=(), results=(found, None))
        raise Unavailable("not this one")

    context = StubContext({"search": answer})
    first, second = await clients(context, mode="hybrid").search(QUERIES)

    assert first == SearchResponse(candidates=(hit("c"),))
    assert isinstance(second, Unavailable)
    together, alone = (message for _, message in context.sent)
    assert isinstance(together, SearchRequest)
    assert isinstance(alone, SearchRequest)
    assert together.more == (SearchQuery(limit=2, vector=b"5678", query_text="more"),)
    assert (alone.query_text, alone.limit, alone.vector) == ("more", 2, b"5678")


async def test_a_service_for_single_queries_answers_the_first() -> None:
    """The other queries are sent alone."""
    context = StubContext({"search": lambda _: SearchResponse(candidates=(hit("c"),))})
    found = await clients(context).search(QUERIES)

    assert found == [SearchResponse(candidates=(hit("c"),))] * 2
    assert len(context.sent) == 2


async def test_a_request_that_fails_fails_all_its_queries() -> None:
    """None of the queries is sent again."""

    def fail(_: SearchRequest) -> SearchResponse:
        raise Unavailable("down")

    context = StubContext({"search": fail})
    found = await clients(context).search(QUERIES)

    assert [type(one) for one in found] == [Unavailable] * 2
    assert len(context.sent) == 1


def text(chunk_id: str) -> ChunkText:
    return ChunkText(chunk_id=chunk_id, document_id="d", content=f"text {chunk_id}")


async def test_texts_are_read_in_requests_of_500() -> None:
    """Results are by id; a missing text is left out."""

    def answer(request: TextRequest) -> TextResponse:
        assert (request.access, request.collection) == (ACCESS, "books")
        return TextResponse(texts=tuple(text(one) for one in request.chunk_ids if one != "0"))

    context = StubContext({"texts": answer})
    texts = await clients(context).fetch([str(n) for n in range(501)])

    assert texts == {str(n): text(str(n)) for n in range(1, 501)}
    assert len(context.sent) == 2


async def test_the_reranker_scores_all_passages() -> None:
    """Scores beyond the limit are requested for the trace; titles precede the texts."""
    found = tuple(RerankerResult(str(n), "0", 0.9 - n / 10) for n in range(2))
    others = (RerankerResult("2", "0", 0.1),)
    response = RerankResponse(results=found, others=others, model="cross")
    context = StubContext({"reranker": lambda _: response})
    passages = [
        Passage(chunk_id="a", text="t0"),
        Passage(chunk_id="b", text="t1", metadata={"title": "T"}),
    ]
    reply = await clients(context).rerank("why", passages, [0.5, 0.25], 1)
    await clients(context).rerank("why", passages, (), 1)

    assert (reply.results, reply.others, reply.model) == (found, others, "cross")
    with_scores, without = (message for _, message in context.sent)
    assert with_scores == RerankRequest(
        queries=(RerankItem(id="0", text="why"),),
        documents=(
            RerankItem(id="0", text="t0", retrieval_score=0.5),
            RerankItem(id="1", text="T\nt1", retrieval_score=0.25),
        ),
        limit=1,
    )
    assert isinstance(without, RerankRequest)
    assert [one.retrieval_score for one in without.documents] == [None, None]


@pytest.mark.parametrize("late", ["embedding", "search", "texts", "reranker"])
async def test_a_service_has_a_time_limit(late: str) -> None:
    """Each call has a time limit of its own, and its error says what was not done."""

    async def never(_: Any) -> Any:
        await asyncio.Event().wait()

    name = "rerank_s" if late == "reranker" else f"{late}_s"
    limits = {"embedding_s": 9.0, "search_s": 9.0, "texts_s": 9.0, "rerank_s": 9.0, name: 0.01}
    client = clients(StubContext({late: never}), timeouts=Timeouts(**limits))

    async def failed() -> WhenceError | SearchResponse:
        if late == "search":
            (found,) = await client.search(QUERIES[:1])
            return found
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "embedding": lambda: client.embed(["why"], "the question"),
            "texts": lambda: client.fetch(["a"]),
            "reranker": lambda: client.rerank("why", [Passage(chunk_id="a", text="t")], (), 1),
        }
        with pytest.raises(DeadlineExceeded) as caught:
            await calls[late]()
        return caught.value

    what = {"embedding": "embedding the question", "texts": "reading the texts"}
    what |= {"search": "searching", "reranker": "reranking"}
    assert str(await failed()) == f"{what[late]} was not done within 0.01 s"


RESULT = PromptResult(text="ab")
PASSAGE = Passage(chunk_id="c", text="d")


def writer(answer: Any) -> tuple[WriterClient, StubContext]:
    """Return a client of a prompt service, and its context."""
    context = StubContext({"prompt": answer})
    return WriterClient(context), context


async def test_pieces_are_passed_on() -> None:
    """The result is that of the last reply; the callback gets the pieces, then the end."""
    pieces: list[tuple[str, bool]] = []

    async def on_piece(piece: str, end: bool) -> None:
        pieces.append((piece, end))

    replies = [PromptResponse(piece="a"), PromptResponse(piece="b"), PromptResponse(result=RESULT)]
    client, context = writer(lambda _: replies)
    result = await client.write_answer("q", [PASSAGE], on_piece)

    assert result == RESULT
    assert pieces == [("a", False), ("b", False), ("", True)]
    assert context.sent[0][1] == PromptRequest(
        template_id=DOCUMENT_PROMPT,
        variables={"query": "q", "documents": ["d"]},
        streaming=True,
    )


async def test_sections_and_outdated_documents_are_named() -> None:
    """The writer gets the titles above each passage."""
    metadata = {"title": "Guide", "section_path": "Costs > Old", "status": "superseded"}
    client, context = writer(lambda _: PromptResponse(result=RESULT))
    passages = [PASSAGE, Passage(chunk_id="c", text="d", metadata=metadata)]
    await client.write_answer("q", passages, None)
    (_, request) = context.sent[0]

    assert isinstance(request, PromptRequest)
    assert request.variables["sections"] == ["", "Guide > Costs > Old"]


@pytest.mark.parametrize(
    ("title", "path", "section"),
    [
        ("9. Users - Manual v4", "9. Users > Classes", "9. Users > Classes"),
        ("Guide", "Guide > Costs", "Guide > Costs"),
        ("Manual v4: Users", "Users > Classes", "Users > Classes"),
        ("Costing", "Cost > Old", "Costing > Cost > Old"),
        ("Guide", "", "Guide"),
    ],
)
def test_a_title_that_repeats_the_first_heading_is_left_out(
    title: str, path: str, section: str
) -> None:
    """Generators of pages add the name of the whole to the first heading; it is said once."""
    metadata = {"title": title, "section_path": path}
    assert section_of(Passage(chunk_id="c", text="d", metadata=metadata)) == section


@pytest.mark.parametrize(
    "replies", [[], [PromptResponse(piece="a")], [Answer(answer_id="a", question="", text="")]]
)
async def test_a_prompt_without_a_result_is_an_error(replies: list[Any]) -> None:
    """A stream that ends early, or contains another message, is an error."""

    async def on_piece(piece: str, end: bool) -> None:
        pass

    client, _ = writer(lambda _: replies)
    with pytest.raises(InternalError):
        await client.extract_concepts("q")
    with pytest.raises(InternalError):
        await client.write_answer("q", [PASSAGE], on_piece)


async def test_a_callback_that_fails_closes_the_stream() -> None:
    """The service stops writing after the callback failed."""
    closed = asyncio.Event()

    async def endless(_: Any) -> AsyncIterator[PromptResponse]:
        try:
            while True:
                yield PromptResponse(piece="a")
        finally:
            closed.set()

    async def hang_up(_piece: str, _end: bool) -> None:
        raise ConnectionError("gone")

    client, _ = writer(endless)
    with pytest.raises(ConnectionError, match="gone"):
        await client.write_answer("q", [PASSAGE], hang_up)

    assert closed.is_set()
