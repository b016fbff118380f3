"""Vectors that follow the words: what ingest embeds, and how passages without a vector are scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whence.models.encoders import MINILM
from whence.models.factory import ModelSettings
from whence.models.library import ModelLibrary
from whence.processors.embedding import EmbeddingProcessor
from whence.processors.ingest import IngestProcessor
from whence.retrieval.hybrid import SearchParameters, SearchService
from whence.schema import (
    Access,
    ChunkDraft,
    DocumentDraft,
    EmbeddingModel,
    EmbeddingRequest,
    EmbeddingResponse,
    IngestRequest,
    IngestResponse,
    SearchRequest,
    SearchResponse,
)
from whence.schema.errors import InternalError, Unavailable
from whence.store.memory.store import MemoryStore
from whence.testing.stub_context import StubContext
from whence.testing.stub_models import HashEmbedder

PUBLIC = Access.public()
MODEL = HashEmbedder().model


class Service:
    """An embedding service that notes its texts, and refuses those with `poison`."""

    def __init__(self) -> None:
        self.model = MODEL
        self.texts: list[str] = []

    async def __call__(self, request: EmbeddingRequest) -> EmbeddingResponse:
        if any("poison" in text for text in request.texts):
            raise InternalError("the model choked")
        self.texts += request.texts
        rows = await HashEmbedder().embed(request.texts, request.purpose)
        return EmbeddingResponse(vectors=rows.astype("<f4").tobytes(), model=self.model)


class Bench:
    """An ingest processor between a store in memory and an embedding service."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.service = Service()
        self.processor = IngestProcessor(store=self.store)

    async def send(self, *drafts: DocumentDraft, name: str = "m", **fields: Any) -> IngestResponse:
        request = IngestRequest(collection="c", documents=drafts, **fields)
        context = StubContext({"embedding": self.service}, message_id=name)
        return await self.processor.handle(request, context)

    async def store_words(self, **texts: str) -> IngestResponse:
        return await self.send(*(draft(*one) for one in texts.items()), vectors_later=True)

    async def search(self, text: str, mode: str = "hybrid") -> SearchResponse:
        vector = (await HashEmbedder().embed([text]))[0]
        request = SearchRequest(
            access=PUBLIC,
            collection="c",
            limit=10,
            query_text=text,
            vector=vector.astype("<f4").tobytes(),
            model=MODEL,
            mode=mode,  # type: ignore[arg-type]
        )
        return await SearchService(self.store, SearchParameters()).search(request)


def draft(name: str, text: str) -> DocumentDraft:
    """Return a document with one passage for each part between bars."""
    chunks = tuple(ChunkDraft(content=part) for part in text.split("|"))
    return DocumentDraft(document_id=name, chunks=chunks)


async def test_words_need_no_vector() -> None:
    """Documents are stored without an embedding of theirs, and reported as embedded by nobody."""
    bench = Bench()
    response = await bench.store_words(a="one river|two rivers", b="a hill")

    assert bench.service.texts == []
    assert [(one.outcome, one.embedded) for one in response.outcomes] == [("added", 0)] * 2
    again = await bench.store_words(a="one river|two rivers", b="a hill")
    assert [(one.outcome, one.embedded) for one in again.outcomes] == [("added", 0)] * 2


async def test_vectors_follow_by_requests() -> None:
    """Each request embeds at most so many passages, and says how many still wait."""
    bench = Bench()
    await bench.store_words(a="one|two|three")

    first = await bench.send(embed=2, name="1")
    assert (first.embedded, first.stored, first.waiting) == (2, 2, 1)
    second = await bench.send(embed=2, name="2")
    assert (second.embedded, second.waiting) == (1, 0)
    assert sorted(bench.service.texts) == ["one", "three", "two"]
    assert (await bench.send(embed=2, name="3")).stored == 0


async def test_equal_texts_are_embedded_once() -> None:
    """Within a request and over requests and documents."""
    bench = Bench()
    await bench.store_words(a="same|same|other", b="same")

    made = await bench.send(embed=100, name="1")
    assert (made.embedded, made.stored, made.waiting) == (2, 4, 0)
    await bench.store_words(c="same|new")
    await bench.send(embed=100, name="2")
    assert sorted(bench.service.texts) == ["new", "other", "same"]


async def test_a_refused_text_fails_alone() -> None:
    """Its document is reported, its words are found, and all other passages have vectors."""
    bench = Bench()
    await bench.store_words(a="good|a poison text", b="fine")

    made = await bench.send(embed=100, name="1")
    assert (made.stored, made.waiting) == (2, 0)
    assert [(one.document_id, one.outcome) for one in made.refused] == [("a", "failed")]
    assert "choked" in made.refused[0].reason
    found = await bench.search("poison")
    assert found.candidates[0].document_id == "a"


async def test_a_service_that_is_down_loses_nothing() -> None:
    """The passages wait again, and the next request continues."""
    bench = Bench()
    await bench.store_words(a="one|two")

    def down(_: EmbeddingRequest) -> EmbeddingResponse:
        raise Unavailable("no service")

    context = StubContext({"embedding": down}, message_id="1")
    with pytest.raises(Unavailable):
        await bench.processor.handle(IngestRequest(collection="c", documents=(), embed=9), context)
    assert (await bench.send(embed=9, name="2")).stored == 2


async def test_a_service_of_another_model_makes_no_vectors() -> None:
    """Documents are taken, and the reply says what makes vectors for them."""
    bench = Bench()
    await bench.store_words(a="one")
    bench.service.model = EmbeddingModel(name="other", dimension=MODEL.dimension)

    await bench.store_words(b="two")
    made = await bench.send(embed=9, name="1")
    assert (made.stored, made.waiting) == (0, 2)
    assert "reembed" in made.reason


async def test_a_passage_that_waits_is_scored_by_words() -> None:
    """It has the score that words alone give, no cosine, and the search states the share."""
    bench = Bench()
    await bench.store_words(a="the red river", b="the blue lake", d="a lake far away")
    await bench.send(embed=100, name="1")
    whole = await bench.search("red river")
    await bench.store_words(c="a red river bank")

    found = await bench.search("red river")
    by_words = {
        one.chunk_id: one.score for one in (await bench.search("red river", "bm25")).candidates
    }
    waiting = next(one for one in found.candidates if one.document_id == "c")
    assert (waiting.dense_score, waiting.score) == (None, by_words[waiting.chunk_id])
    assert whole.degraded == ()
    assert [(one.code, one.share) for one in found.degraded] == [("vectors_pending", 0.75)]
    other = next(one for one in found.candidates if one.document_id == "a")
    assert other.dense_score == next(
        one.dense_score for one in whole.candidates if one.document_id == "a"
    )


async def test_vectors_alone_state_the_share() -> None:
    """A dense search finds what has vectors, and says that the rest waits."""
    bench = Bench()
    await bench.store_words(a="one")
    await bench.send(embed=9, name="1")
    await bench.store_words(b="two")

    found = await bench.search("one", "dense")
    assert [one.document_id for one in found.candidates] == ["a"]
    assert [one.code for one in found.degraded] == ["vectors_pending"]
    assert (await bench.search("one", "bm25")).degraded == ()


def install(folder: Path, name: str) -> None:
    """Make a folder that counts as an installed model."""
    (folder / name).mkdir()
    (folder / name / "manifest.json").write_text("{}")


def test_an_installed_encoder_is_found_by_its_vectors(tmp_path: Path) -> None:
    """Name, revision, precision and dimension must all be those of an encoder that is installed."""
    library = ModelLibrary(ModelSettings(models=tmp_path))
    model = EmbeddingModel(
        name=MINILM.name, revision=MINILM.revision, precision="float32", dimension=384
    )
    assert library.find(model) is None
    install(tmp_path, MINILM.name)

    found = library.find(model)
    assert found is not None
    assert found.model == model
    assert library.find(model) is found
    assert library.find(EmbeddingModel(name=MINILM.name, revision="older", dimension=384)) is None
    assert library.find(EmbeddingModel(name="openai:some", dimension=384)) is None
    assert library.installed(MINILM.name) is not None
    assert library.installed("bge-small-en-v1.5") is None


class Library:
    """A library with one further model, which a collection has."""

    def __init__(self, embedder: Any) -> None:
        self.embedder = embedder

    async def model_of(self, collection: str) -> EmbeddingModel | None:
        return self.embedder.model if collection == "other" else None

    def find(self, model: EmbeddingModel) -> Any:
        return self.embedder if model == self.embedder.model else None


class Constant:
    """Another model, whose vectors are all one."""

    model = EmbeddingModel(name="constant", dimension=2)

    async def embed(self, texts: Any, purpose: Any = "query") -> Any:
        return np.array([[1, 0]] * len(texts), np.float32)


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ({}, MODEL.name),
        ({"collection": "c"}, MODEL.name),
        ({"collection": "other"}, "constant"),
        ({"model": Constant().model}, "constant"),
        ({"model": EmbeddingModel(name="nowhere", dimension=2)}, MODEL.name),
        ({"model": MODEL, "collection": "other"}, MODEL.name),
    ],
)
async def test_a_collection_has_its_own_model(wanted: dict[str, Any], name: str) -> None:
    """Where the model that is wanted is not here, the service's own answers and is named."""
    processor = EmbeddingProcessor(embedder=HashEmbedder(), embedders=Library(Constant()))  # type: ignore[arg-type]
    reply = await processor.handle(EmbeddingRequest(texts=("a",), **wanted), StubContext())

    assert reply.model.name == name
