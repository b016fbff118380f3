"""Ingest stores what changed, embeds nothing twice, and lets each document fail alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.processors.document_batch import draft_digest
from whence.processors.ingest import IngestParameters, IngestProcessor
from whence.schema import (
    ChunkDraft,
    DocumentDraft,
    DocumentTags,
    EmbeddingModel,
    EmbeddingRequest,
    EmbeddingResponse,
    IngestRequest,
    IngestResponse,
)
from whence.schema.errors import (
    BadInput,
    ConfigError,
    DiskFull,
    InternalError,
    ModelMismatch,
    ModelMissing,
    Unavailable,
)
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.places import Place
from whence.store.protocols import CollectionInfo, DocumentState, EmbeddedDocument
from whence.testing.stub_context import StubContext

MODEL = EmbeddingModel(name="m", dimension=2)


class MemoryStore:
    """The part of a store that ingest uses."""

    def __init__(self) -> None:
        self.model: EmbeddingModel | None = None
        self.documents: dict[str, EmbeddedDocument] = {}
        self.tags: dict[str, DocumentTags] = {}
        self.sources: dict[str, str] = {}
        self.places: dict[str, Sequence[Place]] = {}
        self.transactions: list[list[str]] = []
        self.refuses: dict[str, Exception] = {}
        self.effects: dict[str, dict[str, EffectKind]] = {}

    async def collection_model(self, name: str) -> EmbeddingModel | None:
        return self.model

    async def ensure_collection(self, name: str, model: EmbeddingModel) -> CollectionInfo:
        self.model = self.model or model
        if self.model != model:
            raise ModelMismatch(f"collection {name} was made with {self.model.name}")
        return CollectionInfo(name=name, model=model)

    async def document_states(
        self, collection: str, document_ids: Sequence[str]
    ) -> dict[str, DocumentState]:
        return {
            i: DocumentState(
                document_id=i,
                digest=self.documents[i].draft.digest,
                tags=self.tags[i],
                chunks=len(self.documents[i].draft.chunks),
                source_digest=self.sources.get(i, ""),
            )
            for i in document_ids
            if i in self.documents
        }

    async def effects_of(self, collection: str, message_id: str) -> dict[str, EffectKind]:
        return dict(self.effects.get(message_id, {}))

    def keep(self, effects: Effects | None) -> None:
        if effects is not None:
            self.effects.setdefault(effects.message_id, {}).update(effects.outcomes)

    async def replace_documents(
        self,
        collection: str,
        documents: Sequence[EmbeddedDocument],
        *,
        effects: Effects | None = None,
    ) -> None:
        for document in documents:
            if document.draft.document_id in self.refuses:
                raise self.refuses[document.draft.document_id]
        self.transactions.append([d.draft.document_id for d in documents])
        for document in documents:
            self.documents[document.draft.document_id] = document
            self.tags[document.draft.document_id] = document.draft.tags
        self.keep(effects)

    async def retag_documents(
        self,
        collection: str,
        tags: Mapping[str, DocumentTags],
        *,
        effects: Effects | None = None,
    ) -> None:
        self.tags.update(tags)
        self.keep(effects)

    async def document_ids(self, collection: str, *, prefix: str = "") -> list[str]:
        return sorted(self.documents)

    async def source_digests(self, collection: str, document_ids: Any) -> dict[str, str]:
        return self.sources

    async def note_sources(self, collection: str, drafts: Sequence[DocumentDraft]) -> None:
        self.sources.update({one.document_id: one.source_digest for one in drafts})
        self.places.update({one.document_id: one.places for one in drafts})


class Embeddings:
    """An embedding service whose vectors identify their texts, and which refuses some texts."""

    def __init__(self, model: EmbeddingModel = MODEL, error: Exception | None = None) -> None:
        self.model = model
        self.error = error
        self.requests: list[tuple[str, ...]] = []

    @staticmethod
    def vector(text: str) -> list[float]:
        angle = sum(map(ord, text)) % 7
        return [float(np.cos(angle)), float(np.sin(angle))]

    def __call__(self, request: EmbeddingRequest) -> EmbeddingResponse:
        assert request.purpose == "document"
        self.requests.append(request.texts)
        if self.error:
            raise self.error
        if any("poison" in text for text in request.texts):
            raise InternalError("the model choked")
        rows = np.array([self.vector(text) for text in request.texts], "<f4")
        return EmbeddingResponse(vectors=rows.tobytes(), model=self.model)


def draft(document_id: str, *contents: str, **fields: Any) -> DocumentDraft:
    chunks = tuple(ChunkDraft(content=content) for content in contents)
    return DocumentDraft(document_id=document_id, chunks=chunks, **fields)


class Bench:
    """An ingest processor between a store and an embedding service."""

    def __init__(self, **parameters: Any) -> None:
        self.store = MemoryStore()
        self.embeddings = Embeddings()
        self.processor = IngestProcessor(IngestParameters(**parameters), store=self.store)
        self.numbers = itertools.count()

    async def ingest(self, *drafts: DocumentDraft, message_id: str = "") -> IngestResponse:
        # Another message each time, as from a client that sends anew.
        message_id = message_id or f"message-{next(self.numbers)}"
        context = StubContext({"embedding": self.embeddings}, message_id=message_id)
        return await self.processor.handle(
            IngestRequest(collection="books", documents=drafts), context
        )


def kinds(response: IngestResponse) -> list[tuple[str, str, int, int]]:
    return [(o.document_id, o.outcome, o.chunks, o.embedded) for o in response.outcomes]


async def test_new_documents_are_added_in_one_transaction() -> None:
    """Each chunk has the vector of its text, in order; the collection has the model's identity."""
    bench = Bench()
    response = await bench.ingest(draft("a", "one", "two"), draft("b", "three"))

    assert kinds(response) == [("a", "added", 2, 2), ("b", "added", 1, 1)]
    assert response.model == bench.store.model == MODEL
    assert bench.store.transactions == [["a", "b"]]
    for document in bench.store.documents.values():
        expected = [Embeddings.vector(chunk.content) for chunk in document.draft.chunks]
        assert document.vectors.tolist() == np.array(expected, "<f4").tolist()


async def test_indexing_again_embeds_and_stores_nothing() -> None:
    """Documents with equal digest and tags are unchanged."""
    bench = Bench()
    await bench.ingest(draft("a", "one"))
    response = await bench.ingest(draft("a", "one"))

    assert kinds(response) == [("a", "unchanged", 1, 0)]
    assert response.model == MODEL
    assert len(bench.embeddings.requests) == len(bench.store.transactions) == 1


async def test_a_redelivered_message_has_the_same_outcomes() -> None:
    """A worker that died after storing does not change the counts."""
    bench = Bench()
    await bench.ingest(draft("b", "two"), draft("c", "three"))
    drafts = (
        draft("a", "one", "more"),
        draft("b", "TWO"),
        draft("c", "three", tags=DocumentTags(["x"])),
    )
    first = await bench.ingest(*drafts, message_id="m")
    again = await bench.ingest(*drafts, message_id="m")
    other = await bench.ingest(*drafts, message_id="n")

    assert kinds(first) == [("a", "added", 2, 2), ("b", "updated", 1, 1), ("c", "updated", 1, 0)]
    assert kinds(again) == kinds(first)
    assert {outcome.outcome for outcome in other.outcomes} == {"unchanged"}
    assert len(bench.embeddings.requests) == 2


async def test_new_tags_alone_embed_nothing() -> None:
    """Re-tagging counts as updated and leaves vectors alone."""
    bench = Bench()
    await bench.ingest(draft("a", "one"))
    response = await bench.ingest(draft("a", "one", tags=DocumentTags(["hr"])))

    assert kinds(response) == [("a", "updated", 1, 0)]
    assert bench.store.tags == {"a": DocumentTags(["hr"])}
    assert len(bench.embeddings.requests) == 1


async def test_a_changed_document_replaces_the_former() -> None:
    """Only changed chunks are embedded."""
    bench = Bench()
    await bench.ingest(draft("a", "one"), draft("b", "two"))
    response = await bench.ingest(draft("a", "ONE", "more"), draft("b", "two"))

    assert kinds(response) == [("a", "updated", 2, 2), ("b", "unchanged", 1, 0)]
    assert bench.embeddings.requests[1:] == [("ONE", "more")]


async def test_embed_text_is_embedded_and_content_is_stored() -> None:
    """`embed_text` is embedded if there is one; `content` is stored."""
    bench = Bench()
    chunk = ChunkDraft(content="text", embed_text="Title\ntext")
    await bench.ingest(DocumentDraft(document_id="a", chunks=(chunk,)))

    assert bench.embeddings.requests == [("Title\ntext",)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (draft("bad"), "no text"),
        (draft("bad", " \n"), "chunk 0 is blank"),
        (draft("bad", "a\0b"), "NUL"),
        (draft("bad", "text", title="a\0"), "NUL"),
        (draft("bad", "text", metadata={"deep": [{"k\0": 1}]}), "NUL"),
        (draft("bad", "a\ud800"), "surrogate"),
        (draft(" ", "text"), "blank"),
        (draft("good", "again"), "twice"),
        (draft("bad", "fine", "poison"), "the model choked"),
    ],
    ids=["empty", "blank", "nul", "title", "metadata", "surrogate", "id", "twice", "embedding"],
)
async def test_a_document_fails_alone_with_a_reason(bad: DocumentDraft, reason: str) -> None:
    """The other documents of the request are stored; nothing of the failed one is."""
    bench = Bench()
    response = await bench.ingest(draft("good", "one"), bad, draft("other", "two"))

    assert [o.outcome for o in response.outcomes] == ["added", "failed", "added"]
    assert reason in response.outcomes[1].reason
    assert response.outcomes[1].document_id == bad.document_id
    assert sorted(bench.store.documents) == ["good", "other"]
    assert bench.store.documents["good"].draft.chunks[0].content == "one"


async def test_a_document_that_the_store_refuses_fails_alone() -> None:
    """When the store refuses a document, the others are stored one by one."""
    bench = Bench()
    bench.store.refuses = {"b": BadInput("cannot be stored")}
    response = await bench.ingest(draft("a", "one"), draft("b", "two"), draft("c", "three"))

    assert [o.outcome for o in response.outcomes] == ["added", "failed", "added"]
    assert response.outcomes[1].reason == "cannot be stored"
    assert bench.store.transactions == [["a"], ["c"]]


@pytest.mark.parametrize("error", [DiskFull("full"), Unavailable("down")])
async def test_a_failing_store_fails_the_whole_request(error: Exception) -> None:
    """No document is blamed, and nothing is stored."""
    bench = Bench()
    bench.store.refuses = {"b": error}

    with pytest.raises(type(error)):
        await bench.ingest(draft("a", "one"), draft("b", "two"))

    assert bench.store.documents == {}


@pytest.mark.parametrize(
    "error", [Unavailable("down"), ConfigError("no key"), ModelMissing("gone")]
)
async def test_a_failing_embedder_fails_the_whole_request(error: Exception) -> None:
    """No document is blamed; sending the request again continues."""
    bench = Bench()
    bench.embeddings.error = error
    with pytest.raises(type(error)):
        await bench.ingest(draft("a", "one"))
    bench.embeddings.error = None
    response = await bench.ingest(draft("a", "one"))

    assert kinds(response) == [("a", "added", 1, 1)]


async def test_a_late_service_failure_blames_no_document() -> None:
    """A service that fails while documents are tried one by one fails the request."""
    bench = Bench()
    answers = iter([InternalError("choked"), ConfigError("no key")])

    def breaking(_: EmbeddingRequest) -> EmbeddingResponse:
        raise next(answers)

    context = StubContext({"embedding": breaking})
    with pytest.raises(ConfigError):
        await bench.processor.handle(
            IngestRequest(collection="books", documents=(draft("a", "one"),)), context
        )


async def test_what_was_embedded_is_stored_before_the_next_request() -> None:
    """Interrupted work keeps the documents whose chunks are all embedded, and goes on with the others."""
    bench = Bench(batch_texts=3)
    drafts = [draft(name, f"{name} one", f"{name} two") for name in "abcd"]
    seen: list[list[str]] = []

    def breaking(request: EmbeddingRequest) -> EmbeddingResponse:
        seen.append(list(bench.store.documents))
        if len(seen) == 3:
            raise Unavailable("killed")
        return Embeddings()(request)

    context = StubContext({"embedding": breaking}, message_id="first")
    with pytest.raises(Unavailable):
        await bench.processor.handle(
            IngestRequest(collection="books", documents=tuple(drafts)), context
        )
    again = await bench.ingest(*drafts, message_id="first")

    assert seen == [[], ["a"], ["a", "b", "c"]]
    assert bench.embeddings.requests == [("d one", "d two")]
    assert kinds(again) == [(name, "added", 2, 2) for name in "abcd"]
    assert bench.store.transactions == [["a"], ["b", "c"], ["d"]]


async def test_a_request_is_bounded_by_bytes() -> None:
    """Bytes count, not characters; a text over the limit is sent alone."""
    bench = Bench(batch_bytes=1024)
    half, large = "\u00e9" * 256, "\u00e9" * 600
    await bench.ingest(draft("a", half, half, half, large, half))

    assert bench.embeddings.requests == [(half, half), (half,), (large,), (half,)]


async def test_a_collection_of_another_model_is_unchanged() -> None:
    """The mismatch is an error at the first vectors, before anything is stored."""
    bench = Bench(batch_texts=1)
    bench.store.model = EmbeddingModel(name="other", dimension=2)

    with pytest.raises(ModelMismatch, match="other"):
        await bench.ingest(draft("a", "one", "two", "three"))

    assert (bench.store.documents, len(bench.embeddings.requests)) == ({}, 1)


async def test_a_failed_request_makes_no_collection() -> None:
    """A request whose documents all fail creates no collection."""
    bench = Bench()
    response = await bench.ingest(draft("a", "poison"))

    assert (bench.store.model, response.model) == (None, None)


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.text("abc", min_size=1, max_size=400), min_size=1, max_size=5), max_size=5
    ),
    st.integers(1, 4),
)
async def test_requests_are_bounded_and_vectors_stay_with_their_texts(
    documents: list[list[str]], batch_texts: int
) -> None:
    """However texts are divided into requests, none is too large and each text has its vector."""
    bench = Bench(batch_texts=batch_texts, batch_bytes=1024)
    drafts = [draft(f"d{n}", *contents) for n, contents in enumerate(documents)]
    response = await bench.ingest(*drafts)

    assert all(o.outcome == "added" for o in response.outcomes)
    for texts in bench.embeddings.requests:
        assert len(texts) <= batch_texts
        assert len(texts) == 1 or sum(map(len, texts)) <= 1024
    for document in bench.store.documents.values():
        expected = [Embeddings.vector(chunk.content) for chunk in document.draft.chunks]
        assert document.vectors.tolist() == np.array(expected, "<f4").tolist()


@settings(deadline=None)
@given(st.sets(st.integers(0, 5), max_size=3), st.integers(1, 3))
async def test_only_invalid_documents_fail(bad: set[int], batch_texts: int) -> None:
    """Documents in one request with an invalid one are stored with their own vectors."""
    bench = Bench(batch_texts=batch_texts)
    drafts = [draft(f"d{n}", f"a{n}", "poison" if n in bad else f"b{n}") for n in range(6)]
    response = await bench.ingest(*drafts)

    assert [o.outcome == "failed" for o in response.outcomes] == [n in bad for n in range(6)]
    for document in bench.store.documents.values():
        expected = [Embeddings.vector(chunk.content) for chunk in document.draft.chunks]
        assert document.vectors.tolist() == np.array(expected, "<f4").tolist()


def test_a_digest_covers_all_but_the_tags() -> None:
    """Tags do not change the digest; everything else does."""
    one = draft("a", "one", title="T")

    assert draft_digest(one) == draft_digest(msgspec.structs.replace(one, tags=DocumentTags(["x"])))
    assert draft_digest(one) == draft_digest(msgspec.structs.replace(one, digest="abc"))
    assert (
        len({draft_digest(d) for d in (one, draft("a", "one"), draft("a", "two", title="T"))}) == 3
    )


async def test_a_source_digest_is_recorded_for_unchanged_documents() -> None:
    """An unchanged or re-tagged document gets the digest of its source without being stored again."""
    bench = Bench()
    await bench.ingest(draft("a", "one"), draft("b", "two"), draft("c", "three"))
    response = await bench.ingest(
        draft("a", "one", source_digest="s"),
        draft("b", "two", source_digest="t", tags=DocumentTags(("x",))),
        draft("c", "three"),
    )

    assert [o.outcome for o in response.outcomes] == ["unchanged", "updated", "unchanged"]
    assert bench.store.sources == {"a": "s", "b": "t"}
    assert len(bench.store.transactions) == 1


async def test_moved_lines_are_recorded_for_unchanged_documents() -> None:
    """Places are no content: they are set anew, and nothing is stored or embedded again."""
    bench = Bench()
    places = [(Place(char_start=0, line_start=line, line_end=line),) for line in (1, 5, 7)]
    await bench.ingest(draft("a", "one", source_digest="s", places=places[0]))
    response = await bench.ingest(draft("a", "one", source_digest="t", places=places[1]))
    assert bench.store.places == {"a": places[1]}

    await bench.ingest(draft("a", "one", places=places[2]))

    assert bench.store.places == {"a": places[2]}
    assert bench.store.sources == {"a": "t"}
    assert [o.outcome for o in response.outcomes] == ["unchanged"]
    assert len(bench.store.transactions) == 1
