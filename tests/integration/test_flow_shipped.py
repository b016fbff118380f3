"""The shipped flows at work: documents in, answers with their provenance out, on stub models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from whence.answering.trace_recorder import Sources
from whence.broker.memory.transport import MemoryBroker, MemoryTransport
from whence.broker.transport import Headers
from whence.flow.client import FlowClient
from whence.flow.context import Observer
from whence.flow.loader import load_flow
from whence.flow.resources import Resources
from whence.flow.runtime import run_flow
from whence.flow.settings import Settings
from whence.flow.telemetry.monitor import FlowSpans
from whence.operations.ask import DocumentRagRequest
from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import Answer, AnswerPiece, ExplainEvent
from whence.schema.embedding import EmbeddingRequest, EmbeddingResponse
from whence.schema.errors import BadInput, ModelMissing, Unavailable
from whence.schema.ingest import ChunkDraft, DocumentDraft, IngestRequest
from whence.store.memory.store import MemoryStore
from whence.testing.stub_models import EchoWriter, HashEmbedder, OverlapReranker

QUESTION = "Who keeps the key of the archive?"
DOCUMENTS = {
    "archive.md": "The key of the archive is kept by the porter.",
    "kitchen.md": "The kitchen opens at noon and closes at nine.",
    "garden.md": "Roses grow along the southern wall of the garden.",
}
SECRET = "The porter keeps the key of the archive under the blue stone."


def faults(answer: Answer) -> list[str]:
    """Return the stages that degraded; the writer of these tests cites no passage, which counts for itself."""
    return [one.stage for one in answer.degraded if one.stage != "prompt"]


def draft(name: str, text: str, **options: Any) -> DocumentDraft:
    chunk = ChunkDraft(content=text, start=0, end=len(text))
    return DocumentDraft(document_id=name, chunks=(chunk,), source_file=name, **options)


def request(**options: Any) -> DocumentRagRequest:
    return DocumentRagRequest(access=Access.public(), question=QUESTION, **options)


def models() -> dict[str, Any]:
    return {
        "store": MemoryStore(),
        "embedder": HashEmbedder(),
        "reranker": OverlapReranker(),
        "writer": EchoWriter(is_language_model=True),
    }


@asynccontextmanager
async def house(
    *flows: str,
    objects: dict[str, Any] | None = None,
    settings: Settings | None = None,
    observer: Observer | None = None,
) -> AsyncIterator[FlowClient]:
    """Run flows side by side with a transport each; yield a client."""
    broker = MemoryBroker()
    resources = Resources(settings or Settings({}), objects or models())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(resources)
        for name in flows:
            transport = MemoryTransport(broker=broker)
            stack.push_async_callback(transport.aclose)
            running = run_flow(load_flow(name), transport, resources, observer=observer)
            await stack.enter_async_context(running)
        mine = MemoryTransport(broker=broker)
        stack.push_async_callback(mine.aclose)
        yield FlowClient(load_flow("all-in-one"), mine)


async def fill(client: FlowClient) -> None:
    documents = [draft(name, text) for name, text in DOCUMENTS.items()]
    documents.append(draft("secret.md", SECRET, tags=DocumentTags(acl=("porters",))))
    reply = await client.ingest(IngestRequest(collection="default", documents=tuple(documents)))
    assert {outcome.outcome for outcome in reply.outcomes} == {"added"}


async def ask(client: FlowClient, **options: Any) -> tuple[Answer, list[Any]]:
    parts = [part async for part in client.ask(request(**options))]
    assert isinstance(parts[-1], Answer)
    return parts[-1], parts[:-1]


@pytest.mark.parametrize("flows", [("all-in-one",), ("ingest", "document-rag")])
async def test_a_question_is_answered_from_stored_documents(flows: tuple[str, ...]) -> None:
    """The shipped flows, together or separately, store documents and answer from them."""
    objects = models()
    async with house(*flows, objects=objects) as client:
        await fill(client)
        answer, parts = await ask(client, streaming=True, answer_id="a1")
        record = None
        while record is None:
            record = await objects["store"].trace("a1")
            await asyncio.sleep(0.001)

        assert answer.found
        assert answer.citations[0].document_id == "archive.md"
        assert "blue stone" not in answer.text
        assert faults(answer) == []
        assert [part.stage for part in parts if isinstance(part, ExplainEvent)] == [
            "question",
            "grounding",
            "exploration",
            "focus",
            "synthesis",
        ]
        pieces = [part.text for part in parts if isinstance(part, AnswerPiece)]
        assert "".join(pieces) == answer.text
        assert record.record.answer == answer


async def test_explain_events_are_published() -> None:
    """A listener on the explain interface hears every stage, in one trace."""
    async with house("all-in-one") as client:
        await fill(client)
        topic = client._definition.interface("explain").topic
        ear = await client._transport.subscribe(topic, "listener", prefetch=8)
        await ask(client)
        heard = [await ear.receive() for _ in range(5)]

        assert {one.headers[Headers.TYPE] for one in heard} == {ExplainEvent.TYPE}
        traces = {one.headers[Headers.TRACEPARENT].split("-")[1] for one in heard}
        assert len(traces) == 1


@pytest.mark.parametrize("captures", [False, True])
async def test_spans_of_a_flow_have_the_names_of_the_conventions(captures: bool) -> None:
    """Messages to models, searches and questions have OpenTelemetry's attributes; texts on request only."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    observer = FlowSpans("all-in-one", provider, captures=captures).handling
    async with house("all-in-one", observer=observer) as client:
        await fill(client)
        kept.clear()
        await ask(client, streaming=True, answer_id="a1")
    spans = {one.name: dict(one.attributes or {}) for one in kept.get_finished_spans()}
    shown = {
        name.removeprefix("process "): {
            key.removeprefix("gen_ai."): value
            for key, value in facts.items()
            if key.startswith("gen_ai.") and "text" not in key and "messages" not in key
        }
        for name, facts in spans.items()
    }
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    used = {key for facts in spans.values() for key in facts if key.startswith("gen_ai.")}
    whence = {"provider.name": "whence"}
    stop = {"response.finish_reasons": ("stop",)}

    assert used <= known
    assert shown["document-rag"] == {
        "operation.name": "invoke_workflow", "workflow.name": "document-rag", "data_source.id": "default",
        "response.id": "a1", "response.model": "stub-echo", **whence, **stop,
    }  # fmt: skip
    assert shown["prompt"] == {
        "operation.name": "chat", "response.model": "stub-echo", **whence, **stop,
        "usage.input_tokens": ANY, "usage.output_tokens": ANY,
    }  # fmt: skip
    assert shown["search"] == {
        "operation.name": "retrieval",
        "data_source.id": "default",
        **whence,
    }
    assert shown["embedding"] == {
        "operation.name": "embeddings", "request.model": ANY, "embeddings.dimension.count": ANY, **whence,
    }  # fmt: skip
    assert shown["text-fetcher"] == shown["recorder"] == {}
    assert ("porter" in str(spans["process document-rag"])) is captures
    for name in ("document-rag", "prompt", "search"):
        assert ("archive" in str(spans[f"process {name}"])) is captures
    assert "archive" not in str(spans["process embedding"])


async def test_a_failed_message_names_its_error() -> None:
    """The span of a message that failed has the operation and the code of the error."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    objects = models() | {"embedder": HashEmbedder(error=Unavailable("gone"))}
    observer = FlowSpans("all-in-one", provider).handling
    async with house("all-in-one", objects=objects, observer=observer) as client:
        with pytest.raises(Unavailable):
            await client.call("embedding", EmbeddingRequest(texts=("a",)), EmbeddingResponse)
    failed, *_ = [one for one in kept.get_finished_spans() if one.name == "process embedding"]

    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "unavailable"
    assert failed.attributes["gen_ai.operation.name"] == "embeddings"


async def test_indexing_again_changes_nothing() -> None:
    """Documents sent again are unchanged, and no text is embedded."""
    objects = models()
    async with house("all-in-one", objects=objects) as client:
        await fill(client)
        calls = len(objects["embedder"].calls)
        again = tuple(draft(name, text) for name, text in DOCUMENTS.items())
        reply = await client.ingest(IngestRequest(collection="default", documents=again))

        assert {outcome.outcome for outcome in reply.outcomes} == {"unchanged"}
        assert len(objects["embedder"].calls) == calls


async def test_a_failing_reranker_degrades_the_answer() -> None:
    """The answer keeps the order of retrieval and names the reason."""
    reranker = OverlapReranker(error=Unavailable("the reranker does not answer"))
    async with house("all-in-one", objects=models() | {"reranker": reranker}) as client:
        await fill(client)
        answer, _ = await ask(client)

        assert answer.found
        assert faults(answer) == ["rerank"]


async def test_a_missing_reranker_is_reported_once(tmp_path: Path) -> None:
    """With `auto` and no model the flow runs, and the answer says what to install."""
    objects = models()
    del objects["reranker"]
    settings = Settings({"models": str(tmp_path)})
    async with house("all-in-one", objects=objects, settings=settings) as client:
        await fill(client)
        answer, _ = await ask(client)

        assert answer.citations[0].document_id == "archive.md"
        assert faults(answer) == ["rerank"]
        degradation = next(one for one in answer.degraded if one.stage == "rerank")
        assert "there is no reranker" in degradation.reason


async def test_a_disabled_reranker_degrades_nothing() -> None:
    """With `none` the answer is not degraded."""
    objects = models()
    del objects["reranker"]
    settings = Settings({"reranker": "none"})
    async with house("all-in-one", objects=objects, settings=settings) as client:
        await fill(client)
        answer, parts = await ask(client)

        assert faults(answer) == []
        assert "focus" not in [part.stage for part in parts if isinstance(part, ExplainEvent)]


async def test_a_missing_embedder_fails_its_requests(tmp_path: Path) -> None:
    """Without a local model the flow starts; embedding names the missing model."""
    objects = models()
    del objects["embedder"]
    settings = Settings({"models": str(tmp_path)})
    async with house("all-in-one", objects=objects, settings=settings) as client:
        with pytest.raises(ModelMissing, match="not installed"):
            await client.call("embedding", EmbeddingRequest(texts=("x",)), EmbeddingResponse)


async def test_bad_questions_are_bad_input() -> None:
    """An error of the first processor reaches the client unchanged."""
    async with house("all-in-one") as client:
        blank = DocumentRagRequest(access=Access.public(), question=" ")
        with pytest.raises(BadInput):
            [part async for part in client.ask(blank)]
        with pytest.raises(BadInput, match="doc_limit"):
            await ask(client, doc_limit=10_000)


async def test_many_questions_at_once_do_not_mix() -> None:
    """Thirty concurrent questions each get their own answer."""
    async with house("all-in-one") as client:
        await fill(client)

        async def one(number: int) -> Answer:
            question = f"{QUESTION} ({number})"
            asked = DocumentRagRequest(access=Access.public(), question=question)
            return [part async for part in client.ask(asked)][-1]  # type: ignore[return-value]

        answers = await asyncio.gather(*map(one, range(30)))

        assert [answer.question for answer in answers] == [f"{QUESTION} ({n})" for n in range(30)]
        assert len({answer.answer_id for answer in answers}) == 30


async def test_a_run_can_be_repeated_exactly() -> None:
    """Injected ids reach the processors that take them."""
    resources_ids = iter(["fixed-1"])
    objects = models()
    resources = Resources(
        Settings({}),
        objects,
        processor_arguments={"sources": Sources(new_id=lambda: next(resources_ids)), "unused": 1},
    )
    definition = load_flow("all-in-one")
    transport = MemoryTransport()
    async with run_flow(definition, transport, resources):
        client = FlowClient(definition, transport)
        await fill(client)
        answer, _ = await ask(client)
    await transport.aclose()

    assert answer.answer_id == "fixed-1"
