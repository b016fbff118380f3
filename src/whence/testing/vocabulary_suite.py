"""Behaviour of the vocabulary of every store that has one, as tests: subclass `VocabularySuite`.

A subclass provides the `store` fixture. Needs pytest, pytest-asyncio in auto mode and hypothesis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import NotFound
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.protocols import ChunkStore, EmbeddedDocument
from whence.testing.index_samples import (
    EVERYTHING,
    PUBLIC,
    SECRET,
    VECTOR,
    any_access,
    any_tags,
    apply_write,
    fill_collection,
    store_writes,
)
from whence.testing.store_samples import on_one_store
from whence.text.spelling import nearest_word, surface_words

_TEXTS = (
    "Create a migration", "two migrations", "MAX_UPLOAD_SIZE", "connection pooling", "the convection oven",
    "middleware", "Häuser am Fluß", "parseHTTPResponse(v2)", "休暇の申請",
)  # fmt: skip
_MISSPELT = (
    "migratoin",
    "imgration",
    "UPLAOD",
    "conection",
    "midlewear",
    "ove",
    "Fluss",
    "htttp",
    "poolign",
)
_PUBLIC = DocumentTags()
_ids = st.sampled_from(["d0", "d1", "d2", "d3"])


def _document(
    document_id: str, texts: Sequence[str], tags: DocumentTags = _PUBLIC
) -> EmbeddedDocument:
    chunks = tuple(ChunkDraft(content=text) for text in texts)
    draft = DocumentDraft(document_id=document_id, chunks=chunks, tags=tags, title="Notes")
    return EmbeddedDocument(draft=draft, vectors=np.tile(VECTOR, (len(chunks), 1)))


_documents = st.lists(
    st.builds(_document, _ids, st.lists(st.sampled_from(_TEXTS), min_size=1, max_size=3), any_tags),
    max_size=3,
    unique_by=lambda one: one.draft.document_id,
)


def _words(documents: Sequence[EmbeddedDocument], access: Access) -> Counter[str]:
    """Count the chunks with each word that a reader may see."""
    drafts = [one.draft for one in documents if access.allows(one.draft.tags)]
    return Counter(
        word for draft in drafts for one in draft.chunks for word in surface_words(one.content)
    )


class VocabularySuite:
    """What a store must know of the words of its chunks."""

    @given(writes=store_writes(_documents, _ids, 6), access=any_access)
    @on_one_store
    async def test_words_are_those_of_the_visible_chunks(
        self, store: ChunkStore, writes: list[tuple[str, object]], access: Access
    ) -> None:
        """After any writes the words and their counts are those of the chunks that the reader may see."""
        name = await fill_collection(store)
        expected: dict[str, EmbeddedDocument] = {}
        for write in writes:
            await apply_write(store, name, expected, write)
        words = _words(list(expected.values()), access)
        for misspelt in _MISSPELT:
            found = await store.similar_words(name, misspelt, access)
            assert found.items() <= words.items()
            assert nearest_word(misspelt, found) == nearest_word(misspelt, words)

    async def test_absent_words_are_in_no_visible_chunk(self, store: ChunkStore) -> None:
        """A word is there in any inflection, an identifier as a whole; hidden chunks count for nobody else."""
        name = await fill_collection(
            store,
            _document("d0", ["Two migrations of MAX_UPLOAD_SIZE", "C# and 9.3"]),
            _document("d1", ["secret canary"], SECRET),
        )
        wanted = [
            "migration",
            "max_upload_size",
            "UPLOAD_SIZE",
            "upload",
            "C#",
            "9.3",
            "9.4",
            "canary",
        ]
        found = await store.absent_words(name, wanted, PUBLIC)
        seen = await store.absent_words(name, wanted, EVERYTHING)

        assert found.words == {"UPLOAD_SIZE", "9.4", "canary"}
        assert seen.words == {"UPLOAD_SIZE", "9.4"}
        assert found.languages == ("english",)

    async def test_a_missing_collection_is_not_found(self, store: ChunkStore) -> None:
        """A collection that does not exist has no words."""
        with pytest.raises(NotFound):
            await store.absent_words("nowhere", ["word"], PUBLIC)
        with pytest.raises(NotFound):
            await store.similar_words("nowhere", "word", PUBLIC)
