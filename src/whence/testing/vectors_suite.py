"""What every store must do with vectors that are made after their documents were stored."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch, NotFound
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.protocols import (
    EmbeddedDocument,
    PassageVector,
    PendingPassage,
    Store,
    VectorShare,
)
from whence.testing.store_samples import (
    EVERYTHING,
    QUERY,
    fill_collection,
    ids_of,
    make_document,
    unit,
)

PUBLIC = Access.public()
WIDE = EmbeddingModel(name="wide", dimension=3)


def waiting_document(
    document_id: str, *texts: str, tags: DocumentTags | None = None, codes: bool = False
) -> EmbeddedDocument:
    """Return a document whose vectors are made later."""
    chunks = tuple(ChunkDraft(content=text) for text in texts)
    draft = DocumentDraft(
        document_id=document_id, chunks=chunks, tags=tags or DocumentTags(), digest=str(texts)
    )
    return EmbeddedDocument(draft=draft, vectors=None, token_codes_wanted=codes)


async def claimed(store: Store, name: str, **options: Any) -> list[PendingPassage]:
    """Return what can be claimed, and let it go again."""
    async with store.claim_passages(name, 100, **options) as passages:
        return passages


async def embed_all(store: Store, name: str, vector: Any = QUERY, **options: Any) -> list[str]:
    """Store one vector for all passages that wait; return their texts."""
    texts: list[str] = []
    while passages := await claimed(store, name, **options):
        texts += [one.text for one in passages]
        await store.store_vectors(name, [vector_of(one, vector) for one in passages])
    return texts


def vector_of(passage: PendingPassage, vector: Any = QUERY, codes: bytes = b"") -> PassageVector:
    """Return the vector of a passage."""
    return PassageVector(passage=passage, vector=np.array(vector, np.float32), token_codes=codes)


class VectorSuite:
    """Vectors that are made later, and a second set of vectors."""

    async def test_words_are_found_before_vectors(self, store: Store) -> None:
        """A passage without vector is found by its words, and not by vectors until it has one."""
        name = await fill_collection(store, waiting_document("d", "a river", "a hill"))

        assert ids_of(await store.search_lexical(name, "river", limit=5, access=PUBLIC)) == ["d"]
        assert await store.search_dense(name, QUERY, limit=5, access=PUBLIC) == []
        keys = [f"urn:chunk:{name}:d:{index}" for index in range(2)]
        assert await store.dense_scores(name, QUERY, keys, PUBLIC) == {}
        assert await store.vector_share(name, PUBLIC) == VectorShare(pending=2, passages=2)
        assert await embed_all(store, name) == ["a river", "a hill"]
        assert len(await store.search_dense(name, QUERY, limit=5, access=PUBLIC)) == 2
        assert await store.vector_share(name, PUBLIC) == VectorShare(pending=0, passages=0)

    async def test_what_waits_is_counted(self, store: Store) -> None:
        """Progress counts all passages, and documents those of their own."""
        name = await fill_collection(
            store, waiting_document("a", "one", "two"), make_document("b", [QUERY])
        )

        progress = await store.vector_progress(name)
        assert progress is not None
        assert (progress.passages, progress.pending, progress.refused) == (3, 2, 0)
        assert name in await store.pending_collections()
        assert await store.pending_documents(name) == {"a": 2}
        assert await store.pending_documents(name, ["b", "none"]) == {}
        info = await store.collection(name)
        assert info is not None
        assert info.pending == 2
        await embed_all(store, name)
        assert await store.pending_documents(name) == {}
        assert name not in await store.pending_collections()
        assert await store.vector_progress("missing") is None

    async def test_hidden_passages_do_not_count(self, store: Store) -> None:
        """The share of a reader is that of a collection without the hidden documents."""
        secret = DocumentTags(acl=("a",))
        name = await fill_collection(
            store,
            waiting_document("hidden", "one", "two", tags=secret),
            make_document("seen", [QUERY]),
        )

        assert await store.vector_share(name, PUBLIC) == VectorShare(pending=0, passages=0)
        share = await store.vector_share(name, EVERYTHING)
        assert (share.pending, share.passages, share.share) == (2, 3, 0.33)
        await store.retag_documents(name, {"hidden": DocumentTags()})
        assert (await store.vector_share(name, PUBLIC)).pending == 2
        await store.retag_documents(name, {"hidden": secret})
        await embed_all(store, name)
        assert ids_of(await store.search_dense(name, QUERY, limit=5, access=PUBLIC)) == ["seen"]

    async def test_a_claim_keeps_others_away(self, store: Store) -> None:
        """What is claimed is given to nobody else until the block ends, and then again."""
        name = await fill_collection(store, waiting_document("d", "one", "two"))

        async with store.claim_passages(name, 100) as first:
            assert len(first) == 2
            assert await claimed(store, name) == []
        assert await claimed(store, name) != []

    async def test_a_replaced_passage_gets_no_vector(self, store: Store) -> None:
        """The vector of a text that was replaced or removed while it was embedded is dropped."""
        name = await fill_collection(
            store, waiting_document("a", "old"), waiting_document("b", "gone")
        )

        async with store.claim_passages(name, 100) as passages:
            await store.replace_documents(name, [waiting_document("a", "new")])
            await store.remove_documents(name, ["b"])
            assert await store.store_vectors(name, [vector_of(one) for one in passages]) == 0
        assert await embed_all(store, name) == ["new"]

    async def test_a_vector_is_stored_once(self, store: Store) -> None:
        """A second vector for a passage, of a process that was slower, changes nothing."""
        name = await fill_collection(store, waiting_document("d", "one"))
        passages = await claimed(store, name)

        assert await store.store_vectors(name, [vector_of(one) for one in passages]) == 1
        other = [vector_of(one, unit(0, 1, 0, 0)) for one in passages]
        assert await store.store_vectors(name, other) == 0
        (found,) = await store.search_dense(name, QUERY, limit=1, access=PUBLIC)
        assert found.dense_score == 1.0

    async def test_equal_texts_share_a_vector(self, store: Store) -> None:
        """A text that another passage has is not embedded again; nor is one that its document keeps."""
        name = await fill_collection(store, waiting_document("a", "same", "first"))
        await embed_all(store, name)

        await store.replace_documents(name, [waiting_document("b", "same", "second")])
        assert await store.pending_documents(name) == {"b": 1}
        await store.replace_documents(name, [waiting_document("a", "third", "first", "same")])
        assert await store.pending_documents(name) == {"a": 1, "b": 1}
        # Two that wait for one vector: the second gets it once the first has it.
        await store.replace_documents(name, [waiting_document("c", "third")])
        async with store.claim_passages(name, 100) as passages:
            first = next(one for one in passages if one.text == "third")
            await store.store_vectors(name, [vector_of(first)])
            known = await store.known_vectors(name, passages)
        assert {one.passage.text for one in known} == {"third"}

    async def test_token_codes_come_with_vectors(self, store: Store) -> None:
        """Codes are kept for passages that want them."""
        name = await fill_collection(
            store, waiting_document("a", "one", codes=True), waiting_document("b", "two")
        )

        passages = await claimed(store, name)
        assert {one.text: one.token_codes for one in passages} == {"one": True, "two": False}
        vectors = [vector_of(one, codes=b"c" if one.token_codes else b"") for one in passages]
        await store.store_vectors(name, vectors)
        keys = [f"urn:chunk:{name}:{one}:0" for one in "ab"]
        assert await store.token_codes(name, keys, PUBLIC) == {keys[0]: b"c"}

    async def test_a_refused_text_is_not_tried_again(self, store: Store) -> None:
        """It keeps its words, and counts as a passage without vector until it is replaced."""
        name = await fill_collection(store, waiting_document("d", "bad", "good"))
        passages = await claimed(store, name)

        await store.refuse_passages(name, [(passages[0], "too odd")])
        assert [one.text for one in await claimed(store, name)] == ["good"]
        progress = await store.vector_progress(name)
        assert progress is not None
        assert (progress.pending, progress.refused) == (1, 1)
        await embed_all(store, name)
        assert name not in await store.pending_collections()
        assert (await store.vector_share(name, PUBLIC)).pending == 1
        await store.replace_documents(name, [waiting_document("d", "better")])
        assert await embed_all(store, name) == ["better"]

    @pytest.mark.parametrize(
        ("vector", "error"), [([2, 0, 0, 0], BadInput), ([1, 0], ModelMismatch)]
    )
    async def test_a_bad_vector_is_refused(
        self, store: Store, vector: list[float], error: type[Exception]
    ) -> None:
        """As in documents: of length 1, and of the dimension of the model."""
        name = await fill_collection(store, waiting_document("d", "one"))
        passages = await claimed(store, name)

        with pytest.raises(error):
            await store.store_vectors(name, [vector_of(passages[0], vector)])
        assert len(await claimed(store, name)) == 1

    async def test_erasing_leaves_nothing_that_waits(self, store: Store) -> None:
        """An erased document neither waits for vectors nor has a part left."""
        name = await fill_collection(store, waiting_document("d", "one"))
        await store.begin_vectors(name, WIDE)

        await store.erase_document(name, "d")
        assert await store.pending_documents(name) == {}
        assert await claimed(store, name) == []
        assert await claimed(store, name, other=True) == []

    async def test_a_version_without_vectors_is_read(self, store: Store) -> None:
        """A question as of a moment at which passages waited finds them by their words."""
        name = await fill_collection(store, waiting_document("d", "old words"))
        version = await store.collection_version(name)
        await store.replace_documents(name, [waiting_document("d", "new words")])

        then = await store.store_at(name, PUBLIC, version, datetime.now(UTC))
        assert len(await then.search_lexical(name, "old", limit=5, access=PUBLIC)) == 1
        assert await then.search_dense(name, QUERY, limit=5, access=PUBLIC) == []

    async def test_a_second_set_is_made_beside_the_first(self, store: Store) -> None:
        """Searches use the first set until the switch, then the second, also of another dimension."""
        name = await fill_collection(store, make_document("d", [QUERY]))
        before = await store.search_dense(name, QUERY, limit=5, access=PUBLIC)

        await store.begin_vectors(name, WIDE)
        assert (await embed_all(store, name, unit(1, 2, 3), other=True)) == ["d part 0"]
        assert await store.search_dense(name, QUERY, limit=5, access=PUBLIC) == before
        await store.switch_vectors(name)
        assert await store.collection_model(name) == WIDE
        (found,) = await store.search_dense(name, unit(1, 2, 3), limit=5, access=PUBLIC)
        assert found.dense_score == pytest.approx(1.0)
        with pytest.raises(ModelMismatch):
            await store.search_dense(name, QUERY, limit=5, access=PUBLIC)
        await store.switch_vectors(name)
        assert await store.search_dense(name, QUERY, limit=5, access=PUBLIC) == before

    async def test_new_documents_wait_for_both_sets(self, store: Store) -> None:
        """What is stored while a second set is made is part of both, and what is removed of neither."""
        name = await fill_collection(
            store, make_document("a", [QUERY]), make_document("b", [QUERY])
        )
        await store.begin_vectors(name, WIDE)
        await embed_all(store, name, unit(1, 0, 0), other=True)

        await store.replace_documents(name, [waiting_document("c", "more")])
        await store.remove_documents(name, ["b"])
        progress = await store.vector_progress(name)
        assert progress is not None
        assert progress.other is not None
        assert (progress.pending, progress.other.pending, progress.other.former) == (1, 1, False)
        assert await embed_all(store, name, unit(0, 1, 0), other=True) == ["more"]
        await store.switch_vectors(name)
        # The former set goes on waiting for the new document.
        assert await store.pending_documents(name) == {}
        after = await store.vector_progress(name)
        assert after is not None
        assert after.other is not None
        assert (after.other.pending, after.other.former) == (1, True)
        found = await store.search_dense(name, unit(0, 1, 0), limit=5, access=PUBLIC)
        assert ids_of(found) == ["c", "a"]
        nearest = await store.nearest_passages(name, unit(0, 1, 0), 1)
        assert nearest == [found[0].chunk_id]
        assert len(await store.nearest_passages(name, QUERY, 5, other=True)) == 1

    async def test_a_second_set_is_continued_or_replaced(self, store: Store) -> None:
        """Beginning with the same model continues; with another one it begins anew, without the former."""
        name = await fill_collection(store, make_document("d", [QUERY]))
        await store.begin_vectors(name, WIDE)
        await embed_all(store, name, unit(1, 0, 0), other=True)

        await store.begin_vectors(name, WIDE)
        assert await claimed(store, name, other=True) == []
        await store.begin_vectors(name, EmbeddingModel(name="third", dimension=2))
        assert await embed_all(store, name, unit(1, 0), other=True) == ["d part 0"]
        await store.switch_vectors(name)
        await store.begin_vectors(name, WIDE)
        assert await embed_all(store, name, unit(1, 0, 0), other=True) == ["d part 0"]
        await store.switch_vectors(name)
        await store.begin_vectors(name, EmbeddingModel(name="third", dimension=2))
        progress = await store.vector_progress(name)
        assert progress is not None
        assert progress.other is not None
        assert (progress.other.pending, progress.other.former) == (0, False)

    async def test_without_a_second_set_there_is_nothing_to_switch(self, store: Store) -> None:
        """A collection of one set is neither switched nor given vectors of another one."""
        name = await fill_collection(store, make_document("d", [QUERY]))

        with pytest.raises(BadInput):
            await store.switch_vectors(name)
        with pytest.raises(NotFound):
            await claimed(store, name, other=True)
        with pytest.raises(NotFound):
            await store.nearest_passages(name, QUERY, 1, other=True)

    async def test_rights_hold_in_both_sets(self, store: Store) -> None:
        """New tags of a document hold for its vectors in the second set as well."""
        name = await fill_collection(store, make_document("d", [QUERY]))
        await store.begin_vectors(name, WIDE)
        await embed_all(store, name, unit(1, 0, 0), other=True)

        await store.retag_documents(name, {"d": DocumentTags(acl=("a",))})
        await store.switch_vectors(name)
        assert await store.search_dense(name, unit(1, 0, 0), limit=5, access=PUBLIC) == []
        found = await store.search_dense(name, unit(1, 0, 0), limit=5, access=EVERYTHING)
        assert ids_of(found) == ["d"]

    async def test_former_documents_keep_to_their_set(self, store: Store) -> None:
        """A document of before the switch has no vector as of then: it was another encoder's."""
        name = await fill_collection(store, make_document("d", [QUERY]))
        version = await store.collection_version(name)
        await store.remove_documents(name, ["d"])
        same = EmbeddingModel(name="other", dimension=4)
        await store.begin_vectors(name, same)
        await store.switch_vectors(name)

        then = await store.store_at(name, PUBLIC, version, datetime.now(UTC))
        assert await then.search_dense(name, QUERY, limit=5, access=PUBLIC) == []
        await store.switch_vectors(name)
        then = await store.store_at(name, PUBLIC, version, datetime.now(UTC))
        assert ids_of(await then.search_dense(name, QUERY, limit=5, access=PUBLIC)) == ["d"]
