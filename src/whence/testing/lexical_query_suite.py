"""Lexical queries, rights and limits; part of `lexical_suite`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput, ModelMismatch, NotFound
from whence.store.protocols import ChunkStore, EmbeddedDocument
from whence.testing.index_samples import EVERYTHING, SECRET, VECTOR, fill_collection
from whence.testing.lexical_samples import found_documents, text_document


class LexicalQuerySuite:
    """Any query is answered from the visible chunks only, with complete candidates."""

    async def test_candidates_are_complete(self, store: ChunkStore) -> None:
        """A candidate has document, rank from 1, and its share as score and as sparse score."""
        name = await fill_collection(
            store, text_document("d", "red blue"), text_document("e", "red")
        )
        hits = await store.search_lexical(name, "blue red", limit=9, access=EVERYTHING)

        assert [hit.chunk_id for hit in hits] == [f"urn:chunk:{name}:{one}:0" for one in "de"]
        assert [hit.rank for hit in hits] == [1, 2]
        assert all(0 < (hit.sparse_score or 0) <= hit.score <= 1 for hit in hits)
        assert all(hit.dense_score is None for hit in hits)
        assert all(0 < hit.score < 1 for hit in hits)

    async def test_hidden_words_find_nothing(self, store: ChunkStore) -> None:
        """A word that only hidden documents have is answered like one that nobody has."""
        name = await fill_collection(
            store, text_document("h", "canary red", tags=SECRET), text_document("v", "red")
        )
        key = f"urn:chunk:{name}:h:0"

        assert await found_documents(store, name, "canary", Access.public()) == []
        assert await found_documents(store, name, "canary red", Access.public()) == ["v"]
        assert await store.lexical_scores(name, "canary", [key], Access.public()) == {}
        assert await store.dense_scores(name, VECTOR, [key], Access.public()) == {}
        assert await found_documents(store, name, "canary") == ["h"]

    async def test_hidden_documents_take_no_place(self, store: ChunkStore) -> None:
        """The limit counts what is visible: better hidden chunks push nothing out."""
        hidden = [text_document(f"h{n}", "red red red", tags=SECRET) for n in range(30)]
        name = await fill_collection(
            store, *hidden, text_document("v", "red and much else besides")
        )
        hits = await store.search_lexical(name, "red", limit=1, access=Access.public())

        assert [(hit.document_id, hit.rank) for hit in hits] == [("v", 1)]

    async def test_new_tags_hold_at_once(self, store: ChunkStore) -> None:
        """What is hidden by new tags is gone from the next search, what is shown is found, back and forth."""
        name = await fill_collection(
            store, *(text_document(one, "red", "red blue") for one in "ab")
        )
        for _ in range(6):
            await store.retag_documents(name, {"a": SECRET})
            assert await found_documents(store, name, "red", Access.public()) == ["b", "b"]
            assert await found_documents(store, name, "red", EVERYTHING) == ["a", "b", "a", "b"]
            await store.retag_documents(name, {"a": DocumentTags()})
            assert await found_documents(store, name, "red", Access.public()) == list("abab")

    async def test_ties_go_by_chunk_id(self, store: ChunkStore) -> None:
        """Equal scores are ordered by the code points of the id, also where the limit cuts."""
        ids = ["b", "a", "B", "ä", "a2", "a10", "😀", "\ufb01"]
        name = await fill_collection(
            store, *(text_document(one, "red blue", "blue red") for one in ids)
        )
        everything = await store.search_lexical(name, "red", limit=99, access=EVERYTHING)
        keys = [hit.chunk_id for hit in everything]

        assert len(keys) == 16
        assert keys == sorted(keys)
        for limit in range(1, 18):
            cut = await store.search_lexical(name, "red", limit=limit, access=EVERYTHING)
            assert [hit.chunk_id for hit in cut] == keys[:limit]

    async def test_an_unknown_collection_is_not_found(self, store: ChunkStore) -> None:
        """Scoring in what does not exist says so, whatever the name."""
        for name in ("nowhere", "a\0", "\ud800"):
            with pytest.raises(NotFound):
                await found_documents(store, name, "red")
            with pytest.raises(NotFound):
                await store.lexical_scores(name, "red", [], EVERYTHING)
            with pytest.raises(NotFound):
                await store.dense_scores(name, VECTOR, [], EVERYTHING)

    async def test_a_limit_below_one_is_refused(self, store: ChunkStore) -> None:
        """There is no ranking of no places."""
        name = await fill_collection(store)
        with pytest.raises(BadInput):
            await found_documents(store, name, "red", limit=0)

    async def test_an_empty_collection_answers(self, store: ChunkStore) -> None:
        """Nothing is found where nothing is, nor by a chunk without words."""
        name = await fill_collection(store)
        assert await found_documents(store, name, "red") == []
        await store.replace_documents(name, [text_document("d", "…", "?!"), text_document("e")])
        assert await found_documents(store, name, "red") == []
        key = f"urn:chunk:{name}:d:0"
        assert await store.lexical_scores(name, "red", [key], EVERYTHING) == {key: 0.0}

    async def test_weak_words_alone_find(self, store: ChunkStore) -> None:
        """A query of stop words finds by them; beside other words they do not count."""
        name = await fill_collection(
            store, text_document("s", "to be or not to be"), text_document("r", "red")
        )

        assert await found_documents(store, name, "to be, or not to be?") == ["s"]
        assert await found_documents(store, name, "to be red") == ["r"]

    @pytest.mark.parametrize("query", ["", " ", "…?!", "\0", "\ud800", "\n\t"])
    async def test_a_query_without_words_finds_nothing(self, store: ChunkStore, query: str) -> None:
        """No word, no candidate, no error."""
        name = await fill_collection(store, text_document("d", "red"))
        key = f"urn:chunk:{name}:d:0"

        assert await found_documents(store, name, query) == []
        assert await store.lexical_scores(name, query, [key], EVERYTHING) == {key: 0.0}

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("Ein Größenvergleich", "GRÖSSENVERGLEICH"),
            ("文件管理系统", "管理"),
            ("Ελληνικά", "ΕΛΛΗΝΙΚΆ"),
            ("emoji 😀 between", "between"),
            ("it's \u202e odd", "odd"),
            ("w" * 5000, "w" * 5000),
            ("\u00e9" * 3000, "\u00e9" * 3000),
            ("red", "red\0"),
            ("red", "red\ud800"),
        ],
    )
    async def test_any_script_finds(self, store: ChunkStore, text: str, query: str) -> None:
        """Words of any script and length are found, and only by themselves."""
        name = await fill_collection(
            store, text_document("d", text), text_document("other", "w" * 4999)
        )

        assert await found_documents(store, name, query) == ["d"]

    async def test_a_query_of_ten_thousand_words(self, store: ChunkStore) -> None:
        """The first 1024 distinct words count, the rest are left alone."""
        # Letters only: an identifier with digits would be split into parts.
        words = ["".join(letters) for letters in itertools.product("bcdfghjkmn", repeat=4)]
        name = await fill_collection(
            store, text_document("d", words[1]), text_document("e", words[-1])
        )

        assert len(words) == 10_000
        assert await found_documents(store, name, " ".join(words)) == ["d"]

    async def test_what_is_embedded_is_searched(self, store: ChunkStore) -> None:
        """Title and heading in front of a chunk are searched with it."""
        name = await fill_collection(
            store, text_document("d", "red", embed_text="Colours > Warm\n\nred")
        )

        assert await found_documents(store, name, "colour") == ["d"]

    async def test_collections_do_not_mix(self, store: ChunkStore) -> None:
        """Words, counts and ids of another collection change nothing."""
        name = await fill_collection(store, text_document("d", "red"))
        alone = await store.search_lexical(name, "red", limit=9, access=EVERYTHING)
        other = await fill_collection(
            store, *(text_document(f"o{n}", "red blue") for n in range(9))
        )
        key = f"urn:chunk:{other}:o1:0"

        assert await store.search_lexical(name, "red", limit=9, access=EVERYTHING) == alone
        assert await store.lexical_scores(name, "red", [key], EVERYTHING) == {}
        assert await store.dense_scores(name, VECTOR, [key], EVERYTHING) == {}

    async def test_cosines_by_id_are_those_of_the_search(self, store: ChunkStore) -> None:
        """A chunk has one cosine, whether it was searched or asked for."""
        rng = np.random.default_rng(3)
        vectors = rng.normal(size=(20, 2)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        draft = text_document("d", *["red"] * 20).draft
        name = await fill_collection(store, EmbeddedDocument(draft=draft, vectors=vectors))
        hits = await store.search_dense(name, VECTOR, limit=99, access=EVERYTHING)
        keys = [hit.chunk_id for hit in hits]
        scores = await store.dense_scores(name, VECTOR, [*keys, "no id"], EVERYTHING)

        assert scores == {hit.chunk_id: hit.dense_score for hit in hits}
        assert len(scores) == 20

    async def test_a_query_vector_must_fit(self, store: ChunkStore) -> None:
        """A vector of another dimension or length has no cosine with anything here."""
        name = await fill_collection(store, text_document("d", "red"))

        with pytest.raises(ModelMismatch):
            await store.dense_scores(name, np.array([1, 0, 0], np.float32), [], EVERYTHING)
        with pytest.raises(BadInput):
            await store.dense_scores(name, np.array([2, 0], np.float32), [], EVERYTHING)
