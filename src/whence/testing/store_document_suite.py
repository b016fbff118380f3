"""Collections, texts and writes of a store; part of `store_suite`."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch
from whence.schema.filters import CHUNK_KEYS, DOCUMENT_KEYS
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.protocols import EmbeddedDocument, Store
from whence.testing.store_samples import (
    EVERYTHING,
    MODEL,
    ODD_IDS,
    QUERY,
    any_metadata,
    any_text,
    fill_collection,
    ids_of,
    make_document,
    on_one_store,
    search_all,
    unit,
)


class DocumentSuite:
    """Collections have one model; documents are written, read and removed as a whole."""

    async def test_a_collection_keeps_its_model(self, store: Store) -> None:
        """A collection is created once and keeps its model; before, it is None."""
        before = await store.collection("kept"), await store.collection_model("kept")
        made = await store.ensure_collection("kept", MODEL)
        again = await store.ensure_collection("kept", MODEL)

        assert before == (None, None)
        assert made == again == await store.collection("kept")
        assert made.model == await store.collection_model("kept") == MODEL
        assert made in await store.collections()

    @pytest.mark.parametrize(
        "other", [{"name": "n"}, {"revision": "r2"}, {"precision": "w8"}, {"dimension": 8}]
    )
    async def test_another_model_is_refused(self, store: Store, other: dict[str, Any]) -> None:
        """Vectors of two models are not comparable, so a collection accepts one model."""
        await store.ensure_collection("one-model", MODEL)
        fields = {name: getattr(MODEL, name) for name in MODEL.__struct_fields__} | other

        with pytest.raises(ModelMismatch):
            await store.ensure_collection("one-model", EmbeddingModel(**fields))

    @pytest.mark.parametrize(
        "name", ["", "A", "-a", "_a", "a b", "ä", "a" * 64, "a\n", "a:b", "a\0"]
    )
    async def test_an_invalid_name_is_refused(self, store: Store, name: str) -> None:
        """A collection's name is part of ids and addresses, so its characters are restricted."""
        with pytest.raises(BadInput):
            await store.ensure_collection(name, MODEL)

    async def test_collections_are_sorted_and_counted(self, store: Store) -> None:
        """Collections are sorted by name, with their counts."""
        for name in ("zeta", "alpha", "0"):
            await store.ensure_collection(name, MODEL)
        await store.replace_documents("zeta", [make_document("d", [QUERY, QUERY])])
        found = {info.name: info for info in await store.collections()}

        assert list(found) == sorted(found)
        assert (found["zeta"].documents, found["zeta"].chunks) == (1, 2)
        assert (found["alpha"].documents, found["alpha"].chunks) == (0, 0)

    async def test_collections_do_not_mix(self, store: Store) -> None:
        """The same id in two collections is two documents, also with two dimensions."""
        small = await fill_collection(store, make_document("d", [unit(1, 1, 0, 0)]))
        wide = EmbeddingModel(name="wide", dimension=6)
        await store.ensure_collection("wide", wide)
        await store.replace_documents("wide", [make_document("d", [unit(1, 0, 0, 0, 0, 1)])])
        hits = await search_all(store, small)
        texts = await store.chunk_texts("wide", [hits[0].chunk_id], EVERYTHING)

        assert [hit.chunk_id for hit in hits] == [f"urn:chunk:{small}:d:0"]
        assert texts == []

    async def test_texts_have_their_source(self, store: Store) -> None:
        """A text has its source, its location and the metadata of its document."""
        lead = "| a | b |\n|---|---|"
        chunk = ChunkDraft(
            content="Ünïcode\n", heading="H", section_path="T > H", start=3, end=11, lead=lead
        )
        draft = DocumentDraft(
            document_id="d.md",
            chunks=(chunk,),
            title="T",
            source_file="docs/d.md",
            source_url="https://example.org/d",
            metadata={"year": 2024, "tags": ["a", {"b": None}], "ratio": 0.1},
        )
        name = await fill_collection(
            store, EmbeddedDocument(draft=draft, vectors=np.array([QUERY], np.float32))
        )
        (text,) = await store.chunk_texts(name, [f"urn:chunk:{name}:d.md:0"], Access.public())

        assert (text.lead, text.content) == (lead, "Ünïcode\n")
        assert text.document_id == "d.md"
        assert text.digest == "7f9e599fa8db06cd310fc653158af0b80a33e0a944e66a9257b6d8d6a7dd2fb9"
        assert text.metadata == {
            "year": 2024,
            "tags": ["a", {"b": None}],
            "ratio": 0.1,
            "title": "T",
            "source_file": "docs/d.md",
            "source_url": "https://example.org/d",
            "section_path": "T > H",
            "header_path": "T > H",
            "heading": "H",
            "chunk_index": 0,
        }

    async def test_texts_have_the_order_of_the_request(self, store: Store) -> None:
        """Texts have the order of the ids; missing ones are left out."""
        name = await fill_collection(store, *(make_document(one, [QUERY] * 2) for one in "abc"))
        keys = [f"urn:chunk:{name}:{place}" for place in ("c:1", "x:0", "a:0", "a:2", "b:1", "a:1")]
        texts = await store.chunk_texts(name, [*keys, "", "no id", "a\0", "\ud800"], EVERYTHING)

        assert [text.chunk_id for text in texts] == [keys[0], keys[2], keys[4], keys[5]]

    async def test_every_id_can_be_stored_and_found(self, store: Store) -> None:
        """Ids of any characters are distinct documents and are returned unchanged."""
        name = await fill_collection(store, *(make_document(one) for one in ODD_IDS))
        hits = await search_all(store, name)
        texts = await store.chunk_texts(name, [hit.chunk_id for hit in hits], EVERYTHING)

        assert sorted(ids_of(hits)) == sorted(ODD_IDS)
        assert [text.content for text in texts] == [f"{one} part 0" for one in ids_of(hits)]
        assert await store.document_ids(name) == sorted(ODD_IDS)
        assert len(await store.document_states(name, ODD_IDS)) == len(ODD_IDS)

    @given(metadata=st.dictionaries(any_text, any_metadata, max_size=4))
    @on_one_store
    async def test_metadata_comes_back(self, store: Store, metadata: dict[str, Any]) -> None:
        """Any JSON object comes back equal, but for keys of every chunk; whole floats are exact up to 2**53."""
        name = await fill_collection(store, make_document("d", metadata=metadata))
        (text,) = await store.chunk_texts(name, [f"urn:chunk:{name}:d:0"], EVERYTHING)

        own = metadata.keys() - {*DOCUMENT_KEYS, *CHUNK_KEYS}
        assert {key: text.metadata[key] for key in own} == {key: metadata[key] for key in own}

    async def test_replacing_deletes_former_chunks(self, store: Store) -> None:
        """A shorter document has no former chunks, and other documents stay."""
        name = await fill_collection(store, make_document("d", [QUERY] * 5), make_document("e"))
        await store.replace_documents(name, [make_document("d", [QUERY] * 2, digest="new")])
        info = await store.collection(name)

        assert ids_of(await search_all(store, name)) == ["d", "d", "e"]
        assert (await store.document_states(name, ["d"]))["d"].digest == "new"
        assert info is not None
        assert (info.documents, info.chunks) == (2, 3)

    async def test_replacing_twice_changes_nothing(self, store: Store) -> None:
        """Repeating a call leaves the same content."""
        documents = [make_document("d", [QUERY] * 2), make_document("e")]
        name = await fill_collection(store, *documents)
        before = await search_all(store, name)
        await store.replace_documents(name, documents)

        assert await search_all(store, name) == before

    async def test_a_document_may_have_no_chunks(self, store: Store) -> None:
        """A document without chunks exists and is not found by any search."""
        name = await fill_collection(store, make_document("empty", []))

        assert (await store.document_states(name, ["empty"]))["empty"].chunks == 0
        assert await search_all(store, name) == []

    @pytest.mark.parametrize(
        "bad",
        [
            make_document(""),
            make_document("a\0b"),
            make_document("\ud800"),
            make_document("x" * 2001),
            make_document("d", title="\0"),
            make_document("d", source_file="\udfff"),
            make_document("d", metadata={"k": "a\0"}),
            make_document("d", metadata={"a\0": 1}),
            make_document("d", metadata={"k": [float("nan")]}),
            make_document("d", metadata={"k": {1}}),
            make_document("d", tags=DocumentTags(("\ud800",))),
            EmbeddedDocument(draft=make_document("d").draft, vectors=np.zeros((2, 4), np.float32)),
            EmbeddedDocument(
                draft=DocumentDraft(document_id="d", chunks=(ChunkDraft(content="\0"),)),
                vectors=np.array([QUERY]),
            ),
        ],
        ids=range(13),
    )
    async def test_an_invalid_document_refuses_the_whole_call(
        self, store: Store, bad: EmbeddedDocument
    ) -> None:
        """One invalid document of several is an error, and nothing is written."""
        name = await fill_collection(store)

        with pytest.raises(BadInput):
            await store.replace_documents(name, [make_document("good"), bad])
        assert await store.document_ids(name) == []

    async def test_an_id_twice_in_one_call_is_refused(self, store: Store) -> None:
        """The same id twice in one call is an error."""
        name = await fill_collection(store)

        with pytest.raises(BadInput, match="twice"):
            await store.replace_documents(name, [make_document("d"), make_document("d")])

    async def test_retagging_embeds_nothing(self, store: Store) -> None:
        """New tags change neither texts, vectors nor digest; unknown documents are left out."""
        name = await fill_collection(
            store, make_document("d", [QUERY, unit(1, 1, 0, 0)], digest="same")
        )
        before = await search_all(store, name)
        tags = DocumentTags(("b",), ("y",), 2)
        await store.retag_documents(name, {"d": tags, "unknown": tags, "\0": tags})
        states = await store.document_states(name, ["d", "unknown", "\0"])

        assert await search_all(store, name) == before
        assert list(states) == ["d"]
        assert (states["d"].digest, states["d"].tags) == ("same", tags)

    async def test_a_source_digest_is_cleared_by_new_tags(self, store: Store) -> None:
        """It is stored as given, or set later; it covers the tags, so new tags clear it."""
        name = await fill_collection(
            store, make_document("d", source_digest="one"), make_document("e")
        )
        digests = {"e": "two", "unknown": "x", "\0": "x"}
        noted_sources = [
            DocumentDraft(document_id=one, chunks=(), source_digest=digest)
            for one, digest in digests.items()
        ]
        await store.note_sources(name, noted_sources)
        await store.note_sources("nowhere", noted_sources)
        noted = await store.document_states(name, ["d", "e"])
        await store.retag_documents(name, {"d": DocumentTags(("b",)), "e": noted["e"].tags})
        states = await store.document_states(name, ["d", "e"])

        known = await store.source_digests(name, ["d", "e", "unknown", "\0"])

        assert known == {"e": "two"}
        assert await store.source_digests("nowhere", ["d"]) == {}
        assert {one: state.source_digest for one, state in noted.items()} == {
            "d": "one",
            "e": "two",
        }
        assert {one: state.source_digest for one, state in states.items()} == {"d": "", "e": "two"}

    async def test_a_text_has_its_page(self, store: Store) -> None:
        """A chunk of a document with pages has its page; others have none."""
        chunks = tuple(ChunkDraft(content=f"text {page}", page=page) for page in (7, 0))
        name = await fill_collection(
            store,
            EmbeddedDocument(
                draft=DocumentDraft(document_id="d", chunks=chunks),
                vectors=np.array([QUERY] * 2, np.float32),
            ),
        )
        keys = [f"urn:chunk:{name}:d:{index}" for index in (0, 1)]
        texts = await store.chunk_texts(name, keys, Access.public())

        assert [text.metadata.get("page") for text in texts] == [7, None]

    async def test_removing_deletes_everything(self, store: Store) -> None:
        """A removed document is in no read; removing it again counts nothing."""
        name = await fill_collection(store, make_document("d", [QUERY] * 3), make_document("e"))
        removed = await store.remove_documents(name, ["d", "unknown", "d", "\0"])
        info = await store.collection(name)

        assert removed == 1
        assert await store.remove_documents(name, ["d"]) == 0
        assert ids_of(await search_all(store, name)) == ["e"]
        assert await store.chunk_texts(name, [f"urn:chunk:{name}:d:0"], EVERYTHING) == []
        assert await store.document_texts(name, ["d"], EVERYTHING) == {}
        assert info is not None
        assert (info.documents, info.chunks) == (1, 1)

    async def test_ids_by_prefix(self, store: Store) -> None:
        """A prefix is literal text, not a pattern."""
        ids = ["a%", "a%b", "ab", "a_", "A%", "b"]
        name = await fill_collection(store, *(make_document(one) for one in ids))

        assert await store.document_ids(name) == sorted(ids)
        assert await store.document_ids(name, prefix="a%") == ["a%", "a%b"]
        assert await store.document_ids(name, prefix="\0") == []

    async def test_concurrent_writers_leave_one_version(self, store: Store) -> None:
        """Concurrent writers of the same documents leave one complete version of each."""
        name = await fill_collection(store)

        async def write(version: int) -> None:
            tags = DocumentTags((f"t{version}",))
            ids = ["a", "b", "c"] if version % 2 else ["c", "b", "a"]
            vectors = [QUERY] * (version % 3 + 1)
            await store.replace_documents(
                name, [make_document(one, vectors, tags, digest=str(version)) for one in ids]
            )
            await store.retag_documents(name, dict.fromkeys(ids[::-1], tags))

        await asyncio.gather(*(write(version) for version in range(8)))
        states = await store.document_states(name, ["a", "b", "c"])
        reader = Access(frozenset(f"t{version}" for version in range(8)))
        hits = await search_all(store, name, reader)

        assert len({state.digest for state in states.values()}) == 1
        assert len(hits) == sum(state.chunks for state in states.values())
