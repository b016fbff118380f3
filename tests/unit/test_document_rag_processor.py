"""The document RAG service on the bus: what goes out, in which order, and what happens when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from whence.answering.trace_recorder import Sources
from whence.operations.ask import DocumentRagRequest
from whence.processors.document_rag import (
    NOTHING_FOUND,
    DocumentRagParameters,
    DocumentRagProcessor,
)
from whence.provenance import namespaces as ns
from whence.provenance.redaction import chunk_ids
from whence.provenance.render.json import to_json
from whence.provenance.trace import Trace, read_trace
from whence.provenance.why_not import why_not
from whence.schema import (
    Access,
    Answer,
    AnswerPiece,
    Candidate,
    ChunkText,
    EmbeddingModel,
    EmbeddingRequest,
    EmbeddingResponse,
    ExplainEvent,
    Message,
    PromptRequest,
    PromptResponse,
    PromptResult,
    Quote,
    RerankerResult,
    RerankRequest,
    RerankResponse,
    SearchRequest,
    SearchResponse,
    SearchResult,
    TextRequest,
    TextResponse,
    TraceRecord,
    decode_as,
    encode,
)
from whence.schema.errors import BadInput, DeadlineExceeded, NotFound, Unavailable
from whence.testing.stub_context import StubContext

MODEL = EmbeddingModel(name="m", dimension=2)
ACCESS = Access({"finance"})
TEXTS = {f"urn:chunk:{n}": f"Text {n}." for n in range(5)}


def embedding(request: EmbeddingRequest) -> EmbeddingResponse:
    return EmbeddingResponse(vectors=b"\0\0\x80?\0\0\0\0" * len(request.texts), model=MODEL)


def search(request: SearchRequest) -> SearchResponse:
    return SearchResponse(
        candidates=tuple(
            Candidate(chunk_id=c, document_id="doc", score=0.9 - n / 10, rank=n + 1)
            for n, c in enumerate(list(TEXTS)[: request.limit])
        )
    )


def texts(request: TextRequest) -> TextResponse:
    return TextResponse(
        texts=tuple(
            ChunkText(
                chunk_id=chunk_id,
                document_id="doc",
                content=TEXTS[chunk_id],
                metadata={"source_file": "doc.md", "heading": "H"},
            )
            for chunk_id in request.chunk_ids
        )
    )


def reranker(request: RerankRequest) -> RerankResponse:
    found = [RerankerResult(d.id, "0", (n + 1) / 10) for n, d in enumerate(request.documents)]
    return RerankResponse(results=tuple(found[::-1][: request.limit]), model="cross")


def prompt(request: PromptRequest) -> list[PromptResponse]:
    if request.template_id == "extract-concepts":
        text = "one\ntwo"
        return [PromptResponse(result=PromptResult(text=text, model="llm", in_token=9))]
    result = PromptResult(
        text="So [1].",
        model="llm",
        quotes=(Quote(1, "Text"),),
        template="document-prompt@1",
        in_token=5,
        out_token=2,
    )
    pieces = [PromptResponse(piece=p) for p in ("So", " [1].")] if request.streaming else []
    return [*pieces, PromptResponse(result=result)]


SERVICES: dict[str, Callable[[Any], Any]] = {
    "embedding": embedding,
    "search": search,
    "texts": texts,
    "reranker": reranker,
    "prompt": prompt,
}


def processor(**parameters: Any) -> DocumentRagProcessor:
    return DocumentRagProcessor(
        DocumentRagParameters(**parameters),
        sources=Sources(lambda: "made-id", lambda: datetime(2025, 1, 2, tzinfo=UTC), lambda: 1.0),
    )


def request(**fields: Any) -> DocumentRagRequest:
    return DocumentRagRequest(**{"access": ACCESS, "question": "Why?", "answer_id": "a1", **fields})


async def ask(
    context: StubContext, message: DocumentRagRequest, **parameters: Any
) -> list[Message]:
    """Return all replies; each must survive encoding."""
    replies = []
    async for reply in processor(**parameters).handle_stream(message, context):
        assert decode_as(bytes(encode(reply)), type(reply)) == reply
        replies.append(reply)
    return replies


def answer_of(replies: list[Message]) -> Answer:
    answer = replies[-1]
    assert isinstance(answer, Answer)
    return answer


async def test_an_answer_comes_last_with_its_citations() -> None:
    """The last reply is the answer; it cites the chunk that the reranker ranked first."""
    replies = await ask(StubContext(SERVICES), request(doc_limit=2))
    answer = answer_of(replies)
    is_last = DocumentRagProcessor.serves.is_last

    assert [is_last(reply) for reply in replies] == [False] * 5 + [True]
    assert (answer.answer_id, answer.question, answer.text) == ("a1", "Why?", "So [1].")
    assert (answer.model, answer.in_token, answer.out_token) == ("llm", 14, 2)
    assert [(c.chunk_id, c.source_file, c.heading, c.quote) for c in answer.citations] == [
        ("urn:chunk:4", "doc.md", "H", "Text")
    ]
    assert answer.degraded == ()


async def test_each_stage_goes_to_the_caller_and_to_the_explain_topic() -> None:
    """Explain events go out in order, with the answer's id as key."""
    context = StubContext(SERVICES)
    replies = await ask(context, request())
    events = [reply for reply in replies if isinstance(reply, ExplainEvent)]

    assert context.emitted["explain"] == events
    assert [e.stage for e in events] == [
        "question",
        "grounding",
        "exploration",
        "focus",
        "synthesis",
    ]
    assert [e.sequence for e in events] == [0, 1, 2, 3, 4]
    assert set(context.keys["explain"]) == {"a1"}


async def test_explain_events_can_be_left_out() -> None:
    """With `explain` off, events go to the topic and the trace, not to the caller."""
    context = StubContext(SERVICES)
    replies = await ask(context, request(explain=False))

    assert [type(reply) for reply in replies] == [Answer]
    assert len(context.emitted["explain"]) == 5


async def test_the_trace_is_published_before_the_answer() -> None:
    """When the answer is sent, its complete trace has been published."""
    context = StubContext(SERVICES)
    stream = processor().handle_stream(request(), context)
    published_before: list[int] = []
    async for reply in stream:
        if isinstance(reply, Answer):
            published_before.append(len(context.emitted["trace"]))
            answer = reply
    (record,) = context.emitted["trace"]

    assert published_before == [1]
    assert isinstance(record, TraceRecord)
    assert (record.answer_id, record.question, record.collection, record.access) == (
        "a1",
        "Why?",
        "default",
        ACCESS,
    )
    assert record.answer == answer
    assert list(record.events) == context.emitted["explain"]
    assert record.asked_at == "2025-01-02T00:00:00Z"
    assert record.settings["mode"] == "dense"
    assert record.settings["embedding_model"] == "m"
    assert record.settings["reranker_model"] == "cross"


async def test_an_unpublished_trace_degrades_the_answer() -> None:
    """The answer is returned and states that its trace is not stored."""
    context = StubContext(SERVICES, emit_errors={"trace": Unavailable("broker gone")})
    answer = answer_of(await ask(context, request()))

    assert [(d.stage, d.code, d.reason) for d in answer.degraded] == [
        ("trace", "trace_not_stored", "broker gone")
    ]


async def test_a_retryable_failure_is_not_recorded() -> None:
    """A trace is stored once per answer, so a failed attempt must not store one."""
    tries = iter(range(4))

    def flaky(message: SearchRequest) -> SearchResponse:
        # The words of the question are looked up before the search.
        if next(tries) < 2:
            raise Unavailable("not yet")
        return search(message)

    no_concepts = PromptResult(text="", language_model=False)

    def quiet(message: PromptRequest) -> list[PromptResponse]:
        if message.template_id == "extract-concepts":
            return [PromptResponse(result=no_concepts)]
        return prompt(message)

    context = StubContext({**SERVICES, "prompt": quiet, "search": flaky})
    with pytest.raises(Unavailable):
        await ask(context, request(explain=False))
    assert context.emitted["trace"] == []

    replies = await ask(context, request(explain=False))
    assert [record.answer for record in context.emitted["trace"]] == replies


async def test_unpublished_events_degrade_once() -> None:
    """The caller gets the events, and the answer and the trace have one degradation."""
    context = StubContext(SERVICES, emit_errors={"explain": TimeoutError()})
    replies = await ask(context, request())

    assert len(replies) == 6
    assert [d.code for d in answer_of(replies).degraded] == ["explain_not_published"]
    assert context.emitted["trace"][0].answer == replies[-1]


async def test_a_failed_question_has_a_trace() -> None:
    """The error reaches the caller; the completed stages and the failure are recorded."""

    def broken(_: SearchRequest) -> SearchResponse:
        raise NotFound("there is no collection 'x'")

    context = StubContext({**SERVICES, "search": broken})
    with pytest.raises(NotFound, match="no collection"):
        await ask(context, request())
    (record,) = context.emitted["trace"]

    assert record.answer is None
    trace = read_trace([t for event in record.events for t in event.triples])
    assert (trace.failure.stage, trace.failure.code) == ("exploration", "not_found")


async def test_the_error_is_raised_even_when_its_trace_is_lost() -> None:
    """A broker that fails as well does not replace the error of the question."""
    services = {**SERVICES, "texts": lambda _: (_ for _ in ()).throw(Unavailable("store down"))}
    context = StubContext(services, emit_errors={"trace": RuntimeError("gone")})

    with pytest.raises(Unavailable, match="store down"):
        await ask(context, request())


async def test_pieces_are_sent_as_they_are_written() -> None:
    """With streaming the pieces are sent before the answer, the last one marked."""
    replies = await ask(StubContext(SERVICES), request(streaming=True, explain=False))

    assert replies[:-1] == [
        AnswerPiece(text="So [1]."),
        AnswerPiece(text="", end_of_stream=True),
    ]


async def test_every_read_has_the_rights_of_the_reader() -> None:
    """Search and text requests have the access of the question."""
    context = StubContext(SERVICES)
    await ask(context, request(collection="books", mode="hybrid"))
    reads = [m for _, m in context.sent if isinstance(m, SearchRequest | TextRequest)]

    assert {m.access for m in reads} == {ACCESS}
    assert {m.collection for m in reads} == {"books"}
    searches = [m for m in reads if isinstance(m, SearchRequest) and not m.spelling]
    assert {(m.mode, m.query_text, m.model) for m in searches} == {
        ("hybrid", text, MODEL) for text in ("Why?", "one", "two")
    }


def together(message: SearchRequest, *, failing: str = "") -> SearchResponse:
    """Answer several queries at once, as the search service does; one of them may fail."""
    if not message.more:
        return search(message)
    queries = [(message.query_text, message.limit)]
    queries += [(one.query_text, one.limit) for one in message.more]
    found = [search(msgspec.structs.replace(message, limit=limit)) for _, limit in queries]
    results = tuple(
        None if text == failing else SearchResult(candidates=one.candidates)
        for (text, _), one in zip(queries, found, strict=True)
    )
    return SearchResponse(candidates=(), results=results)


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        (together, [3]),
        (lambda message: together(message, failing="one"), [3, 1]),
        (search, [3, 1, 1]),
    ],
)
async def test_searches_are_sent_in_one_request(
    answer: Callable[[SearchRequest], SearchResponse], asked: list[int]
) -> None:
    """All queries are one request; one that it leaves open is sent alone; the trace does not change."""
    context, alone = StubContext({**SERVICES, "search": answer}), StubContext(SERVICES)
    await ask(context, request())
    await ask(alone, request())
    searches = [m for _, m in context.sent if isinstance(m, SearchRequest) and not m.spelling]

    assert [1 + len(m.more) for m in searches] == asked
    assert encode(context.emitted["trace"][0]) == encode(alone.emitted["trace"][0])


async def test_a_search_request_that_fails_fails_the_question() -> None:
    """When the request fails, all its queries failed, and none is repeated alone."""

    def fail(_: SearchRequest) -> SearchResponse:
        raise Unavailable("the store is gone")

    context = StubContext({**SERVICES, "search": fail})
    with pytest.raises(Unavailable, match="the store is gone"):
        await ask(context, request())

    searches = [m for _, m in context.sent if isinstance(m, SearchRequest)]
    assert [m.spelling for m in searches] == [True, False]


async def test_texts_are_read_in_one_request() -> None:
    """One request reads all texts, however many candidates there are; another the places of those cited."""
    context = StubContext(SERVICES)
    answer = answer_of(await ask(context, request()))
    requests = [message for port, message in context.sent if port == "texts"]

    assert [one.with_places for one in requests] == [False, True]
    assert set(requests[1].chunk_ids) == {one.chunk_id for one in answer.citations}


async def test_a_flow_without_a_reranker_works() -> None:
    """An unbound reranker means no reranking and no degradation."""
    services = {port: answer for port, answer in SERVICES.items() if port != "reranker"}
    context = StubContext(services)
    answer = answer_of(await ask(context, request(doc_limit=2)))

    assert DocumentRagProcessor.optional_calls == {"reranker"}
    assert answer.citations[0].chunk_id == "urn:chunk:0"
    assert answer.degraded == ()
    assert [s.stage for s in answer.stages] == [
        "question",
        "grounding",
        "exploration",
        "synthesis",
    ]


async def test_a_request_can_skip_the_reranker() -> None:
    """With `rerank` off the reranker is not called."""
    context = StubContext(SERVICES)
    await ask(context, request(rerank=False))

    assert "reranker" not in [port for port, _ in context.sent]


async def test_the_flow_has_the_default_fetch_limit() -> None:
    """The parameter of the flow applies to requests without a fetch limit."""
    for asked, expected in ((0, 7), (9, 9)):
        context = StubContext(SERVICES)
        await ask(context, request(doc_limit=2, fetch_limit=asked), fetch_limit=7)
        limits = [m.limit for _, m in context.sent if isinstance(m, SearchRequest)]

        assert max(limits) == expected


async def test_a_degraded_search_is_reported_once() -> None:
    """The same degradation of several searches is reported once."""
    from whence.schema import Degradation

    note = Degradation(stage="search", reason="no lexical retriever", code="lexical_leg_missing")
    services = {
        **SERVICES,
        "search": lambda m: msgspec.structs.replace(search(m), degraded=(note,)),
    }
    answer = answer_of(await ask(StubContext(services), request(mode="hybrid")))

    assert answer.degraded == (note,)


async def test_nothing_found_is_an_answer() -> None:
    """Without passages no writer is called; the answer is recorded like any other."""
    context = StubContext({**SERVICES, "search": lambda _: SearchResponse(candidates=())})
    answer = answer_of(await ask(context, request()))

    assert (answer.found, answer.text) == (False, NOTHING_FOUND)
    assert context.emitted["trace"][0].answer == answer


async def test_a_redelivered_request_has_the_same_ids() -> None:
    """An answer id in the request is kept, so that its trace is recorded once."""
    first, second = [await ask(StubContext(SERVICES), request()) for _ in range(2)]

    assert first == second


async def test_an_answer_id_is_made_when_none_is_given() -> None:
    """Answer, events and trace have the same new id."""
    context = StubContext(SERVICES)
    replies = await ask(context, request(answer_id=""))

    assert answer_of(replies).answer_id == "made-id"
    assert context.emitted["trace"][0].answer_id == "made-id"
    assert {event.answer_id for event in context.emitted["explain"]} == {"made-id"}


@pytest.mark.parametrize(
    "fields",
    [
        {"question": " "},
        {"question": "a\0b"},
        {"question": "a\ud800"},
        {"doc_limit": 0},
        {"doc_limit": 501},
        {"fetch_limit": 1501},
        {"fetch_limit": -1},
        {"rerank_limit": -1},
        {"answer_id": "../x"},
    ],
)
async def test_a_bad_request_calls_no_service(fields: dict[str, Any]) -> None:
    """Bad input calls no service and records nothing."""
    context = StubContext(SERVICES)

    with pytest.raises(BadInput):
        await ask(context, request(**fields))

    assert (context.sent, dict(context.emitted)) == ([], {})


async def test_the_caller_s_deadline_bounds_the_question() -> None:
    """The question fails before its caller's deadline when a service never answers."""

    async def never(_: PromptRequest) -> None:
        await asyncio.Event().wait()

    context = StubContext({**SERVICES, "prompt": never}, remaining_s=0.5)
    fast = DocumentRagProcessor(sources=Sources(new_id=lambda: "made-id"))

    with pytest.raises(DeadlineExceeded, match="what the writer may read"):
        async for _ in fast.handle_stream(request(), context):
            pass

    assert context.emitted["trace"][0].answer is None


async def test_a_hanging_broker_does_not_block_the_answer() -> None:
    """Publishing uses part of the remaining time, and the answer names what is missing."""

    class Stuck(StubContext):
        async def emit(self, port: str, message: Message, *, key: str | None = None) -> None:
            await asyncio.Event().wait()

    context = Stuck(SERVICES, remaining_s=0.5)
    async with asyncio.timeout(5):
        answer = answer_of(await ask(context, request()))

    assert [d.code for d in answer.degraded] == ["explain_not_published", "trace_not_stored"]


async def test_closing_the_stream_cancels_the_work() -> None:
    """When the caller closes the stream, open calls are cancelled."""
    stopped = asyncio.Event()

    async def slow(message: PromptRequest) -> AsyncIterator[PromptResponse] | list[PromptResponse]:
        if message.template_id == "extract-concepts":
            return prompt(message)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return []

    stream = processor().handle_stream(request(), StubContext({**SERVICES, "prompt": slow}))
    async for reply in stream:
        if isinstance(reply, ExplainEvent) and reply.stage == "focus":
            break
    await asyncio.sleep(0)
    await stream.aclose()

    assert stopped.is_set()


@pytest.mark.parametrize(
    "bad", [{"threshold": 2}, {"mode": "psychic"}, {"answer_timeout_s": 0}, {"colour": 1}]
)
def test_parameters_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    """Parameters of a flow file are checked against types and ranges."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, DocumentRagParameters)


def _long_pool(count: int, reads: list[int]) -> dict[str, Callable[[Any], Any]]:
    """Return services that find `count` candidates for the question, and count the reranked ones."""
    ids = [f"urn:chunk:{n}" for n in range(count)]

    def found(request: SearchRequest) -> SearchResponse:
        candidates = (
            Candidate(chunk_id=c, document_id="doc", score=0.9 - n / 1000, rank=n + 1)
            for n, c in enumerate(ids[: request.limit])
        )
        return SearchResponse(candidates=tuple(candidates))

    def fetched(request: TextRequest) -> TextResponse:
        parts = (ChunkText(chunk_id=c, document_id="doc", content=c) for c in request.chunk_ids)
        return TextResponse(texts=tuple(parts))

    def reread(request: RerankRequest) -> RerankResponse:
        reads.append(len(request.documents))
        return reranker(request)

    def written(request: PromptRequest) -> list[PromptResponse]:
        if request.template_id == "extract-concepts":
            return [PromptResponse(result=PromptResult(text="Why?", language_model=False))]
        return prompt(request)

    mine = {"search": found, "texts": fetched, "reranker": reread, "prompt": written}
    return {**SERVICES, **mine}


@pytest.mark.parametrize(
    ("limits", "fetched", "read"),
    [
        ({}, 60, 60),
        ({"doc_limit": 5}, 15, 15),
        ({"doc_limit": 6, "fetch_limit": 60}, 60, 60),
        ({"fetch_limit": 120}, 120, 120),
        ({"doc_limit": 5, "fetch_limit": 9}, 9, 9),
        ({"rerank_limit": 25}, 60, 25),
        ({"rerank_limit": 3}, 60, 3),
        ({"rerank_limit": 500}, 60, 60),
    ],
)
async def test_the_reranker_reads_all_that_was_fetched(
    limits: dict[str, int], fetched: int, read: int
) -> None:
    """It reads every passage, or the first `rerank_limit`; unread ones are dropped with that reason."""
    reads: list[int] = []
    context = StubContext(_long_pool(150, reads))
    await ask(context, request(**limits))

    assert reads == [read]
    trace = _recorded_trace(context)
    codes = [candidate.reason_code for candidate in trace.candidates]
    assert (len(codes), codes.count("over_rerank_limit")) == (fetched, fetched - read)
    assert len(trace.used) == min(limits.get("doc_limit", 20), read)


async def test_the_flow_has_the_default_rerank_limit() -> None:
    """The parameter of the flow applies to requests without a rerank limit."""
    reads: list[int] = []
    for asked in (0, 9):
        context = StubContext(_long_pool(150, reads))
        await ask(context, request(rerank_limit=asked), rerank_limit=30)

    assert reads == [30, 9]


async def test_every_selection_has_the_model_s_score_and_the_final_one() -> None:
    """Triples, trace and JSON state both; candidates that the limit cut have both, too."""

    def scored(request: RerankRequest) -> RerankResponse:
        found = [
            RerankerResult(one.id, "0", 0.25, 0.9 - n / 1000)
            for n, one in enumerate(request.documents)
        ]
        results, others = tuple(found[: request.limit]), tuple(found[request.limit :])
        return RerankResponse(results=results, others=others, model="cross")

    context = StubContext({**_long_pool(150, []), "reranker": scored})
    await ask(context, request(doc_limit=2))
    trace = _recorded_trace(context)

    assert [(one.raw_score, one.final_score) for one in trace.selections] == [
        (0.25, 0.9),
        (0.25, 0.899),
    ]
    stated = {t.o.value for t in trace.triples if t.p.iri == ns.TG_SCORE}
    assert stated == {"0.25"}
    third = trace.candidates[2]
    assert (third.raw_score, third.final_score, third.reason_code) == (0.25, 0.898, "reranked_out")
    focus = next(one for one in to_json(trace)["stages"] if one["stage"] == "focus")
    assert focus["selected"][0]["final_score"] == 0.9
    numbers = why_not(trace, third.chunk_id, visible=chunk_ids(trace)).numbers
    assert (numbers["raw_score"], numbers["final_score"]) == (0.25, 0.898)


def _recorded_trace(context: StubContext) -> Trace:
    (record,) = context.emitted["trace"]
    assert isinstance(record, TraceRecord)
    return read_trace(triple for event in record.events for triple in event.triples)
