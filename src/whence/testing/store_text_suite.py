"""Whole texts of documents in a store; part of `store_suite`."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.places import DocumentText, Place, StoredPassage
from whence.store.document_text import gaps_between
from whence.store.protocols import EmbeddedDocument, Store
from whence.testing.store_samples import (
    EVERYTHING,
    QUERY,
    any_access,
    any_tags,
    fill_collection,
    make_document,
    on_one_store,
)


class DocumentTextSuite:
    """A document is stored as one text with places, and read with the rights of the reader."""

    async def test_a_document_is_one_text(self, store: Store) -> None:
        """The text has the chunks at their offsets, with what stood between, and its places."""
        text = "Title\n\nOne. Two.\n    Three"
        spans = ((0, 11), (7, 16), (21, 26))
        chunks = tuple(
            ChunkDraft(content=text[start:end], start=start, end=end, heading="Title", page=2)
            for start, end in spans
        )
        places = (
            Place(char_start=0, line_start=1, line_end=2),
            Place(char_start=7, line_start=4, line_end=4, page=3, anchor="two"),
        )
        draft = DocumentDraft(
            document_id="d",
            chunks=chunks,
            title="Title",
            source_file="d.md",
            source_url="urn:d",
            metadata={"year": 2024},
            gaps=gaps_between(text, chunks),
            places=places,
        )
        vectors = np.array([QUERY] * 3, np.float32)
        name = await fill_collection(store, EmbeddedDocument(draft=draft, vectors=vectors))
        ids = [f"urn:chunk:{name}:d:{index}" for index in range(4)]
        found = await store.document_texts(name, ["d", ids[2], ids[3], "e", "\0"], Access.public())

        assert list(found) == ["d", ids[2]]
        assert found["d"] == found[ids[2]]
        assert found["d"] == DocumentText(
            document_id="d",
            source_file="d.md",
            source_url="urn:d",
            title="Title",
            text=text,
            chunks=tuple(
                StoredPassage(id=one, char_start=start, char_end=end, heading="Title", page=2)
                for one, (start, end) in zip(ids, spans, strict=False)
            ),
            places=places,
            metadata={"year": 2024},
        )
        assert await store.document_texts("nowhere", ["d"], EVERYTHING) == {}
        moved = (Place(char_start=0, line_start=9, line_end=9),)
        noted = DocumentDraft(document_id="d", chunks=(), places=moved, source_digest="s")
        await store.note_sources(name, [noted])
        after = await store.document_texts(name, ["d"], Access.public())
        assert after["d"] == msgspec.structs.replace(found["d"], places=moved)

    async def test_a_text_without_gaps_keeps_its_offsets(self, store: Store) -> None:
        """Of a document stored without what stands between its chunks, spaces and line ends take the place."""
        chunks = tuple(
            ChunkDraft(content=content, start=start, end=start + len(content))
            for content, start in (("One.", 3), ("Two.", 8), ("Three.", 14))
        )
        consistent = DocumentDraft(document_id="a", chunks=chunks)
        loose = DocumentDraft(
            document_id="b", chunks=(ChunkDraft(content="One."), ChunkDraft(content="Two."))
        )
        name = await fill_collection(
            store,
            EmbeddedDocument(draft=consistent, vectors=np.array([QUERY] * 3, np.float32)),
            EmbeddedDocument(draft=loose, vectors=np.array([QUERY] * 2, np.float32)),
        )
        found = await store.document_texts(name, ["a", "b"], Access.public())

        assert found["a"].text == " \n\nOne.\nTwo.\n\nThree."
        assert found["b"].text == "One.\n\nTwo."
        for one in found.values():
            contents = [one.text[chunk.char_start : chunk.char_end] for chunk in one.chunks]
            assert contents == ["One.", "Two.", "Three."][: len(contents)]

    @given(tags=any_tags, access=any_access)
    @on_one_store
    async def test_a_hidden_text_is_missing(
        self, store: Store, tags: DocumentTags, access: Access
    ) -> None:
        """A reader gets the text of a document exactly if its tags allow it, by any of its ids."""
        name = await fill_collection(store, make_document("d", tags=tags), make_document("e"))
        ids = ["d", "e", f"urn:chunk:{name}:d:0"]
        found = await store.document_texts(name, ids, access)

        assert list(found) == (ids if access.allows(tags) else ["e"])


class TokenCodeSuite:
    """Token codes are kept with their chunk, and read with the rights of the reader."""

    async def test_codes_go_with_their_document(self, store: Store) -> None:
        """Each chunk has its code until its document is replaced or removed; texts come without codes."""
        coded = msgspec.structs.replace(
            make_document("d", (QUERY, QUERY)), token_codes=(b"ab", b"cd")
        )
        name = await fill_collection(store, coded, make_document("e"))
        ids = [f"urn:chunk:{name}:{one}" for one in ("d:0", "d:1", "e:0", "f:0")]

        assert await store.token_codes(name, ids, EVERYTHING) == {ids[0]: b"ab", ids[1]: b"cd"}
        texts = await store.chunk_texts(name, ids, EVERYTHING)
        assert [text.token_codes for text in texts] == [b"", b"", b""]
        await store.replace_documents(name, [make_document("d", (QUERY, QUERY))])
        assert await store.token_codes(name, ids, EVERYTHING) == {}
        await store.replace_documents(name, [coded])
        await store.remove_documents(name, ["d"])
        assert await store.token_codes(name, ids, EVERYTHING) == {}

    async def test_every_chunk_has_a_code_or_none_has(self, store: Store) -> None:
        """A document with another number of codes than chunks is refused."""
        coded = msgspec.structs.replace(make_document("d", (QUERY, QUERY)), token_codes=(b"ab",))

        with pytest.raises(BadInput, match="token codes"):
            await fill_collection(store, coded)

    @given(tags=any_tags, access=any_access)
    @on_one_store
    async def test_a_hidden_code_is_missing(
        self, store: Store, tags: DocumentTags, access: Access
    ) -> None:
        """A reader gets the codes of a document exactly if its tags allow it."""
        coded = msgspec.structs.replace(make_document("d", tags=tags), token_codes=(b"ab",))
        name = await fill_collection(store, coded)
        chunk = f"urn:chunk:{name}:d:0"
        found = await store.token_codes(name, [chunk], access)

        assert found == ({chunk: b"ab"} if access.allows(tags) else {})
