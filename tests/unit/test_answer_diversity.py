"""Passages of an answer chosen for their diversity: what is kept, what is recorded, who may see it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from whence.answering.requests import DocumentRagParameters
from whence.operations.ask import DocumentRagRequest
from whence.operations.recorded_answers import replay_request
from whence.processors.document_rag import DocumentRag, DocumentRagProcessor
from whence.provenance.checking import check_trace
from whence.provenance.redaction import redact_trace
from whence.provenance.trace import Trace, read_trace
from whence.provenance.why_not import why_not
from whence.schema import (
    Access,
    Answer,
    Candidate,
    ChunkText,
    EmbeddingModel,
    EmbeddingRequest,
    EmbeddingResponse,
    PromptRequest,
    PromptResponse,
    PromptResult,
    RerankerResult,
    RerankRequest,
    RerankResponse,
    SearchRequest,
    SearchResponse,
    TextRequest,
    TextResponse,
    TraceRecord,
    Triple,
)
from whence.schema.errors import BadInput, Unavailable
from whence.testing.stub_clients import (
    StubEmbeddings,
    StubPrompt,
    StubReranker,
    StubSearch,
    StubTexts,
)
from whence.testing.stub_context import StubContext

TEXTS = {
    "urn:a": "Returns are accepted within thirty days of purchase.",
    "urn:b": "Returns are accepted within thirty days of purchase everywhere.",
    "urn:c": "Refunds reach the card after a week.",
    "urn:d": "Shops open at nine.",
}
QUESTION = "How do I return an item?"
SCORES = {"urn:a": 0.9, "urn:b": 0.85, "urn:c": 0.6, "urn:d": 0.1}


def embedding(request: EmbeddingRequest) -> EmbeddingResponse:
    model = EmbeddingModel(name="m", dimension=2)
    return EmbeddingResponse(vectors=b"\0\0\x80?\0\0\0\0" * len(request.texts), model=model)


def search(request: SearchRequest) -> SearchResponse:
    found = [
        Candidate(chunk_id=chunk_id, document_id="doc", score=score, rank=rank)
        for rank, (chunk_id, score) in enumerate(SCORES.items(), 1)
    ]
    return SearchResponse(candidates=tuple(found[: request.limit]))


def texts(request: TextRequest) -> TextResponse:
    return TextResponse(
        texts=tuple(
            ChunkText(chunk_id=one, document_id="doc", content=TEXTS[one])
            for one in request.chunk_ids
        )
    )


def reranker(request: RerankRequest) -> RerankResponse:
    """Score the documents 8, 7, 6 and so on: the order of retrieval, on another scale."""
    found = [RerankerResult(d.id, "0", 8.0 - n) for n, d in enumerate(request.documents)]
    return RerankResponse(results=tuple(found[: request.limit]), model="cross")


def prompt(request: PromptRequest) -> PromptResponse:
    text = "" if request.template_id == "extract-concepts" else "So [1]."
    return PromptResponse(result=PromptResult(text=text, model="llm"))


class Asked:
    """One question through the processor, with its trace as it was recorded."""

    def __init__(self, replies: list[Any], context: StubContext) -> None:
        self.answer: Answer = replies[-1]
        (record,) = context.emitted["trace"]
        assert isinstance(record, TraceRecord)
        self.record = record
        self.trace: Trace = read_trace(
            [triple for event in self.record.events for triple in event.triples]
        )

    @property
    def kept(self) -> str:
        return "".join(one.chunk_id[-1] for one in self.trace.selections)

    def dropped(self) -> dict[str, str]:
        return {c.chunk_id[-1]: c.reason_code for c in self.trace.candidates if c.reason_code}


async def ask(
    parameters: dict[str, Any] | None = None, services: Any = None, **fields: Any
) -> Asked:
    """Ask for two passages, near duplicates included."""
    known = {"embedding": embedding, "search": search, "texts": texts, "prompt": prompt}
    context = StubContext(known | ({"reranker": reranker} if services is None else services))
    message = DocumentRagRequest(
        **{"access": Access.public(), "question": QUESTION, "doc_limit": 2, **fields}
    )
    processor = DocumentRagProcessor(
        DocumentRagParameters(**{"drop_duplicates": False} | (parameters or {}))
    )
    return Asked([reply async for reply in processor.handle_stream(message, context)], context)


async def test_without_diversity_relevance_alone_decides() -> None:
    """By default the best two passages are kept, and nothing about diversity is recorded."""
    asked = await ask()

    assert asked.kept == "ab"
    assert "rerank_diversity" not in asked.record.settings
    assert all(one.diversity_score is None for one in asked.trace.candidates)


async def test_a_passage_that_repeats_another_is_dropped_for_it() -> None:
    """MMR keeps the best passage and the best one that says something else; the reason says so."""
    asked = await ask(diversity="mmr", diversity_lambda=0.4)

    assert asked.kept == "ac"
    assert asked.dropped() == {"b": "less_diverse", "d": "reranked_out"}
    assert check_trace(asked.trace) == []
    assert asked.record.settings["rerank_diversity"] == "mmr"
    assert asked.record.settings["rerank_diversity_lambda"] == 0.4


async def test_only_what_ranks_before_a_kept_passage_gave_way() -> None:
    """A passage gave way when a less relevant one was kept, wherever that one ranks."""
    same = TEXTS["urn:a"]

    def alike(request: TextRequest) -> TextResponse:
        found = texts(request).texts
        return TextResponse(
            texts=tuple(
                replace(
                    one, content=f"{same} {one.chunk_id[-1]}" if one.chunk_id < "urn:d" else "X1"
                )
                for one in found
            )
        )

    services = {"reranker": reranker, "texts": alike}
    asked = await ask(services=services, diversity="mmr", diversity_lambda=0.2)

    assert asked.kept == "ad"
    assert asked.dropped() == {"b": "less_diverse", "c": "less_diverse"}


async def test_why_not_has_the_numbers_of_diversity() -> None:
    """The overlap with a kept passage, the score that it led to, and the lowest score of a kept passage."""
    asked = await ask(diversity="mmr", diversity_lambda=0.4)

    told = why_not(asked.trace, "urn:b", visible=frozenset(TEXTS))

    assert (told.stage, told.code) == ("focus", "less_diverse")
    # Six of seven terms are in common; relevance is 2/3 between the scores 5 and 8.
    assert told.numbers["overlap"] == pytest.approx(6 / 7)
    assert told.numbers["diversity_score"] == pytest.approx(0.4 * 2 / 3 - 0.6 * 6 / 7)
    assert told.numbers["lowest_kept_diversity_score"] == pytest.approx(0.4 * 1 / 3)
    assert told.numbers["rerank_rank"] == 2
    assert told.numbers["raw_score"] == 7.0


async def test_the_flow_decides_when_the_request_does_not() -> None:
    """Parameters of the flow hold for requests that say nothing; a request may say otherwise."""
    flow = {"rerank_diversity": "mmr"}

    assert (await ask(flow)).kept == "ac"
    assert (await ask(flow, diversity="none")).kept == "ab"
    assert (await ask(flow | {"rerank_diversity_lambda": 0.9})).kept == "ab"
    asked = await ask(flow | {"rerank_diversity_lambda": 0.9}, diversity_lambda=0.0)
    assert asked.kept == "ac"
    assert asked.record.settings["rerank_diversity_lambda"] == 0.0


async def test_the_scores_of_retrieval_serve_without_a_reranker() -> None:
    """Without a reranker, or with one that fails, relevance is the score of retrieval."""

    def failing(_: RerankRequest) -> RerankResponse:
        raise Unavailable("no model")

    for services in ({}, {"reranker": failing}):
        asked = await ask(services=services, diversity="mmr", diversity_lambda=0.4)

        assert asked.kept == "ac"
        assert asked.dropped() == {"b": "less_diverse", "d": "over_limit"}
        assert [one.order_score for one in asked.trace.selections] == [0.9, 0.6]
        assert check_trace(asked.trace) == []


async def test_diversity_chooses_from_as_many_candidates_as_a_reranker() -> None:
    """Three times as many candidates as are kept are read, or `fetch_limit`, without a reranker too."""
    asked = await ask(services={}, diversity="mmr", doc_limit=1)
    assert asked.record.settings["fetch_limit"] == 3

    asked = await ask(services={}, diversity="mmr", doc_limit=1, fetch_limit=2)
    assert len(asked.trace.explored) == 2


async def test_a_replay_asks_with_the_same_diversity() -> None:
    """The request that repeats a question has its diversity, none when there was none."""
    request = replay_request((await ask(diversity="mmr", diversity_lambda=0.4)).record)
    assert isinstance(request, DocumentRagRequest)
    assert (request.diversity, request.diversity_lambda) == ("mmr", 0.4)

    request = replay_request((await ask()).record)
    assert isinstance(request, DocumentRagRequest)
    assert request.diversity == "none"


async def test_a_hidden_passage_shows_in_no_overlap() -> None:
    """A reader who may not see a kept passage sees neither overlaps nor what was dropped for it."""
    asked = await ask(diversity="mmr", diversity_lambda=0.4)

    redacted = redact_trace(asked.trace, frozenset(TEXTS) - {"urn:a"})

    assert {one.chunk_id for one in redacted.candidates} == {"urn:c", "urn:d"}
    assert all(one.overlap is None and one.diversity_score is None for one in redacted.candidates)


@pytest.mark.parametrize("fields", [{"diversity": "mmr", "diversity_lambda": 1.1}])
async def test_a_weight_out_of_range_is_refused(fields: dict[str, Any]) -> None:
    """A lambda outside 0 to 1 is an error before anything is searched."""
    with pytest.raises(BadInput, match="0 to 1"):
        await ask(**fields)


# `DocumentRag`


async def traced(reranker: StubReranker | None, **arguments: Any) -> tuple[list[str], Trace]:
    """Ask a `DocumentRag` for two documents; return their ids and the trace."""
    prompts, triples = StubPrompt("So."), list[Triple]()
    rag = DocumentRag(
        prompts,
        StubEmbeddings(),
        StubSearch(list(TEXTS)),
        StubTexts(TEXTS).fetch_chunk,
        reranker,
        False,
        **arguments,
    )

    async def keep(some: tuple[Triple, ...], _: str) -> None:
        triples.extend(some)

    await rag.query(QUESTION, doc_limit=2, explain_callback=keep)
    by_text = {text: chunk_id for chunk_id, text in TEXTS.items()}
    return [by_text[text] for text in prompts.documents[-1]], read_trace(triples)


async def test_the_reranker_scores_all_before_the_choice() -> None:
    """With `mmr` the reranker is asked for all scores, and two documents are chosen by them."""
    reranker = StubReranker([RerankerResult(str(n), "0", 1.0 - n / 20) for n in range(4)])

    given, trace = await traced(reranker, rerank_diversity_mode="mmr", rerank_diversity_lambda=0.2)

    assert reranker.calls[0]["limit"] == 4
    assert given == ["urn:a", "urn:c"]
    assert [one.raw_score for one in trace.selections] == [1.0, 0.9]


async def test_ranks_serve_where_a_search_has_no_scores() -> None:
    """Without reranker and scores, relevance falls evenly with the rank."""
    given, trace = await traced(None, rerank_diversity_mode="mmr", rerank_diversity_lambda=0.4)

    assert given == ["urn:a", "urn:c"]
    assert [one.order_score for one in trace.selections] == [1.0, 0.5]


@pytest.mark.parametrize(
    "arguments", [{"rerank_diversity_mode": "mrr"}, {"rerank_diversity_lambda": -0.1}]
)
async def test_arguments_are_checked_at_construction(arguments: dict[str, Any]) -> None:
    """An unknown mode or weight is refused when the object is made."""
    with pytest.raises(ValueError, match="diversity"):
        await traced(None, **arguments)
