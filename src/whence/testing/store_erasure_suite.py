"""Erasing documents, as tests of a store; part of `store_suite`."""

from __future__ import annotations

from whence.schema.access import DocumentTags
from whence.store.protocols import DocumentParts, Store
from whence.testing.store_samples import (
    EVERYTHING,
    QUERY,
    fill_collection,
    ids_of,
    make_document,
    search_all,
)


class ErasureSuite:
    """What an erasure removes."""

    async def test_erasing_deletes_everything_at_once(self, store: Store) -> None:
        """All counts of the document are zero afterwards, postings of old segments included; others stay."""
        others = [make_document(f"other{n}") for n in range(20)]
        name = await fill_collection(store, make_document("d", [QUERY] * 3), *others)
        before, after = await store.erase_document(name, "d")
        again = await store.erase_document(name, "d")
        found = await store.search_lexical(name, "part", limit=99, access=EVERYTHING)

        assert (before.documents, before.chunks, before.vectors) == (1, 3, 3)
        assert before.postings >= 3
        assert after == DocumentParts()
        assert again == (DocumentParts(), DocumentParts())
        assert await store.erase_document("unknown", "d") == again
        assert await store.erase_document(name, "\0") == again
        left = sorted(one.draft.document_id for one in others)
        assert sorted(ids_of(await search_all(store, name))) == left
        assert sorted(ids_of(found)) == left

    async def test_what_an_owner_erases(self, store: Store) -> None:
        """Parts, texts and words of a document are there for its owner, whatever its tags, until then."""
        secret = make_document("d", title="Zebrafinch rules", tags=DocumentTags(("nobody",)))
        name = await fill_collection(store, secret, make_document("e", title="Other rules"))
        parts, texts = await store.document_parts(name, "d"), await store.stored_texts(name, "d")
        before, _ = await store.erase_document(name, "d")
        after = await store.document_parts(name, "d"), await store.stored_texts(name, "d")

        assert parts == before
        assert parts.documents == parts.chunks == 1
        assert {"Zebrafinch rules", "d part 0"} <= set(texts)
        assert after == (DocumentParts(), [])
        assert await store.known_words(name, ["zebrafinch", "part"]) == {"part"}
        assert await store.known_words("unknown", ["part"]) == frozenset()
        assert await store.stored_texts(name, "\0") == []
        assert (await store.expunge(["Zebrafinch rules"])).found == 0
        assert await store.is_expunged()
