"""What the lexical search of every store must do, as tests: subclass `LexicalSuite`, provide a `store` fixture.

Needs pytest, pytest-asyncio in auto mode and hypothesis.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput, ModelMismatch, NotFound
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.field_boosts import FieldBoosts
from whence.store.protocols import ChunkStore, EmbeddedDocument, Store, SupportsHybrid
from whence.testing.index_samples import (
    EVERYTHING,
    SECRET,
    VECTOR,
    any_access,
    apply_write,
    fill_collection,
)
from whence.testing.lexical_samples import (
    Corpus,
    any_text,
    any_writes,
    found_documents,
    text_document,
)
from whence.testing.store_samples import on_one_store


async def check_both(store: Any, name: str, query: str, access: Access) -> None:
    """One read of both rankings gives those of either retriever, and the scores that each has for the other."""
    for limit in (2, 1000):
        both = await store.search_both(name, query, VECTOR, limit=limit, access=access)
        words = await store.search_lexical(name, query, limit=limit, access=access)
        near = await store.search_dense(name, VECTOR, limit=limit, access=access)
        cosines = await store.dense_scores(name, VECTOR, [one.chunk_id for one in words], access)
        shares = await store.lexical_scores(name, query, [one.chunk_id for one in near], access)

        assert both.lexical == [
            replace(one, dense_score=cosines.get(one.chunk_id)) for one in words
        ]
        assert both.dense == [replace(one, sparse_score=shares[one.chunk_id]) for one in near]
        assert both.share == await store.vector_share(name, access)


class LexicalScoreSuite:
    """Scores equal the formula of BM25 over the visible chunks, in every language and field."""

    async def settled(self, store: Any) -> None:
        """Wait until the store has nothing left to do in the background."""

    @given(writes=any_writes, queries=st.lists(any_text, min_size=1, max_size=3), access=any_access)
    @on_one_store
    async def test_rankings_equal_brute_force(
        self, store: ChunkStore, writes: Sequence[Any], queries: list[str], access: Access
    ) -> None:
        """After any writes, ids, order and scores equal the formula over visible chunks, to the last bit."""
        corpus = Corpus(await fill_collection(store))
        name = corpus.collection
        for write in writes:
            await apply_write(store, name, corpus.documents, write)
        for settle in (False, True):
            if settle:
                await self.settled(store)
            for query in queries:
                hits = await store.search_lexical(name, query, limit=1000, access=access)
                few = await store.search_lexical(name, query, limit=2, access=access)
                keys = [*corpus.chunks(), "urn:chunk:nowhere:d0:0", "no id"]
                scores = await store.lexical_scores(name, query, keys, access)
                shares = corpus.shares(query, access)
                assert [(hit.chunk_id, hit.sparse_score) for hit in hits] == corpus.ranking(
                    query, access
                )
                assert few == hits[:2]
                assert scores == {key: score or 0.0 for key, score in shares.items()}
                await self._check_every_word(store, corpus, query, access)
                if isinstance(store, SupportsHybrid):
                    await check_both(store, name, query, access)

    async def _check_every_word(
        self, store: ChunkStore, corpus: Corpus, query: str, access: Access
    ) -> None:
        name = corpus.collection
        hits = await store.search_lexical(name, query, limit=1000, access=access, match="all")
        few = await store.search_lexical(name, query, limit=2, access=access, match="all")
        keys = list(corpus.chunks())
        scores = await store.lexical_scores(name, query, keys, access, match="all")
        expected = corpus.ranking(query, access, every=True)

        assert [(hit.chunk_id, hit.sparse_score) for hit in hits] == expected
        assert few == hits[:2]
        assert scores == dict.fromkeys(corpus.chunks(access), 0.0) | dict(expected)

    async def test_all_words_can_be_required(self, store: ChunkStore) -> None:
        """With `all` a chunk must have every word that is no stop word, and all parts of an identifier."""
        name = await fill_collection(
            store,
            text_document("both", "The red lake, parseHTTPResponse"),
            text_document("split", "red response of http that we parse at the lake"),
            text_document("red", "red red red"),
            text_document("hidden", "red lake", tags=SECRET),
        )
        asked = {
            "red lake": ["both", "split"],
            "the red of lakes": ["both", "split"],
            "red parseHTTPResponse": ["both", "split"],
            "red nowhere": [],
            "RED": ["both", "red", "split"],
            "": [],
            "…": [],
        }
        # Twice: what was read for the first query may be held for the second.
        for query, wanted in [*asked.items(), *asked.items()]:
            hits = await store.search_lexical(
                name, query, limit=9, access=Access.public(), match="all"
            )
            assert sorted(hit.document_id for hit in hits) == wanted, query
        either = await found_documents(store, name, "red nowhere", Access.public())
        assert sorted(either) == ["both", "red", "split"]

    async def test_documents_are_stemmed_in_their_language(self, store: ChunkStore) -> None:
        """Queries match documents in each document's language, also when all words are required."""
        german = (
            "Die Häuser an dem Ufer sind nicht alt, und in dem Dorf ist ein Haus für die Kinder."
        )
        english = (
            "The houses on the shore are old, and in the village there is one for the children."
        )
        name = await fill_collection(
            store, text_document("de", german), text_document("en", english)
        )
        found = {
            query: await found_documents(store, name, query)
            for query in ("Haus", "Hauses", "Kind", "house", "child children", "Dörfer")
        }
        both = await store.search_lexical(
            name, "Hauses Kindern", limit=9, access=EVERYTHING, match="all"
        )

        assert found == {
            "Haus": ["de"], "Hauses": ["de"], "Kind": ["de"], "house": ["en"],
            "child children": ["en"], "Dörfer": ["de"],
        }  # fmt: skip
        assert [hit.document_id for hit in both] == ["de"]

    async def test_the_language_of_hidden_documents_changes_nothing(
        self, store: ChunkStore
    ) -> None:
        """The languages of a query are those of the visible documents."""
        german = "Die Häuser an dem Ufer sind nicht alt, und in dem Dorf ist ein Haus für Seen."
        name = await fill_collection(
            store, *(text_document(f"e{n}", f"long lakes number{n}") for n in "ab")
        )
        public = Access.public()
        # "longer" is a stem in English; in German its stem is "long".
        found = [await found_documents(store, name, "longer", public)]
        await store.replace_documents(name, [text_document("d", german, tags=SECRET)])
        found.append(await found_documents(store, name, "longer", public))
        found.append(await found_documents(store, name, "longer", EVERYTHING))
        await store.retag_documents(name, {"d": DocumentTags()})
        found.append(await found_documents(store, name, "longer", public))
        await store.remove_documents(name, ["d"])
        found.append(await found_documents(store, name, "longer", public))

        assert found == [[], [], ["ea", "eb"], ["ea", "eb"], []]

    async def test_rare_languages_are_ignored(self, store: ChunkStore) -> None:
        """A query is stemmed in a language only if at least one chunk in a hundred is in it."""
        german = "Die Häuser an dem Ufer sind nicht alt, und in dem Dorf ist ein Haus für Seen."
        english = [text_document(f"e{n}", "long lakes") for n in range(100)]
        name = await fill_collection(store, *english, text_document("d", german))
        rare = await found_documents(store, name, "longer")
        await store.remove_documents(name, ["e0"])

        assert rare == []
        assert len(await found_documents(store, name, "longer")) == 99

    async def test_fields_can_be_boosted(self, store: Store) -> None:
        """Words of boosted fields count several times, in stored and in new chunks."""
        sizes = {"titled": ("Red lake", ""), "headed": ("", "Red lake"), "plain": ("", "")}

        def fielded(name: str, repeats: str = "") -> EmbeddedDocument:
            title, heading = sizes[name]
            text = f"blue sea {title} {heading} {repeats}"
            draft = DocumentDraft(
                document_id=name, title=title, chunks=(ChunkDraft(content=text, heading=heading),)
            )
            return EmbeddedDocument(draft=draft, vectors=VECTOR[None])

        boosts = FieldBoosts(title=3, heading=2, path=1)
        name = await fill_collection(store, fielded("titled"), fielded("headed"))
        even = await store.search_lexical(name, "red", limit=9, access=EVERYTHING)
        await store.boost_fields(name, boosts)
        await store.boost_fields(name, boosts)
        await store.replace_documents(name, [fielded("plain"), fielded("titled")])
        written_out = await fill_collection(
            store,
            fielded("plain", "plain"),
            fielded("titled", "Red lake Red lake titled"),
            fielded("headed", "Red lake headed"),
        )
        for query in ("red lake", "plain", "headed sea", "titled"):
            told = [
                [(hit.document_id, hit.sparse_score) for hit in hits]
                for hits in (
                    await store.search_lexical(name, query, limit=9, access=EVERYTHING),
                    await store.search_lexical(written_out, query, limit=9, access=EVERYTHING),
                )
            ]
            assert told[0] == told[1], query
            assert told[0]
        assert even[0].sparse_score == even[1].sparse_score
        assert await found_documents(store, name, "red") == ["titled", "headed"]
        await store.boost_fields(name, FieldBoosts())
        assert await found_documents(store, name, "plain") == []
        with pytest.raises(NotFound):
            await store.boost_fields("nowhere", boosts)

    async def test_a_huge_chunk_has_one_score(self, store: ChunkStore) -> None:
        """Where counts and lengths are clipped, the ranking and scores by id still agree."""
        name = await fill_collection(
            store,
            text_document("huge", "red " * 70_000 + "blue"),
            text_document("small", "red blue"),
            text_document("long", "green " * 66_000 + "blue " * 2),
        )
        for query in ("red", "blue", "red green"):
            hits = await store.search_lexical(name, query, limit=9, access=EVERYTHING)
            keys = [hit.chunk_id for hit in hits]
            scores = await store.lexical_scores(name, query, keys, EVERYTHING)
            assert len(hits) >= 2
            assert scores == {hit.chunk_id: hit.sparse_score for hit in hits}


class LexicalQuerySuite:
    """Any query is answered from the visible chunks only, with complete candidates."""

    async def test_candidates_are_complete(self, store: ChunkStore) -> None:
        """A candidate has its document, its rank from 1, and its share as score and as sparse score."""
        name = await fill_collection(
            store, text_document("d", "red blue"), text_document("e", "red")
        )
        hits = await store.search_lexical(name, "blue red", limit=9, access=EVERYTHING)

        assert [hit.chunk_id for hit in hits] == [f"urn:chunk:{name}:{one}:0" for one in "de"]
        assert [hit.rank for hit in hits] == [1, 2]
        assert all(0 < (hit.sparse_score or 0) <= hit.score <= 1 for hit in hits)
        assert all(hit.dense_score is None for hit in hits)
        assert all(0 < hit.score < 1 for hit in hits)

    async def test_words_of_hidden_documents_are_unknown(self, store: ChunkStore) -> None:
        """A word of hidden documents only is answered like one that no document has."""
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
        """The limit counts visible chunks only."""
        hidden = [text_document(f"h{n}", "red red red", tags=SECRET) for n in range(30)]
        name = await fill_collection(
            store, *hidden, text_document("v", "red and much else besides")
        )
        hits = await store.search_lexical(name, "red", limit=1, access=Access.public())

        assert [(hit.document_id, hit.rank) for hit in hits] == [("v", 1)]

    async def test_new_tags_apply_at_once(self, store: ChunkStore) -> None:
        """New tags that hide or show a document apply to the next search."""
        name = await fill_collection(
            store, *(text_document(one, "red", "red blue") for one in "ab")
        )
        for _ in range(6):
            await store.retag_documents(name, {"a": SECRET})
            assert await found_documents(store, name, "red", Access.public()) == ["b", "b"]
            assert await found_documents(store, name, "red", EVERYTHING) == ["a", "b", "a", "b"]
            await store.retag_documents(name, {"a": DocumentTags()})
            assert await found_documents(store, name, "red", Access.public()) == list("abab")

    async def test_ties_are_ordered_by_chunk_id(self, store: ChunkStore) -> None:
        """Equal scores are ordered by the code points of the id, also at the limit."""
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
        """Scoring in a missing collection is an error."""
        for name in ("nowhere", "a\0", "\ud800"):
            with pytest.raises(NotFound):
                await found_documents(store, name, "red")
            with pytest.raises(NotFound):
                await store.lexical_scores(name, "red", [], EVERYTHING)
            with pytest.raises(NotFound):
                await store.dense_scores(name, VECTOR, [], EVERYTHING)

    async def test_a_limit_below_one_is_refused(self, store: ChunkStore) -> None:
        """A limit is at least 1."""
        name = await fill_collection(store)
        with pytest.raises(BadInput):
            await found_documents(store, name, "red", limit=0)

    async def test_an_empty_collection_has_no_results(self, store: ChunkStore) -> None:
        """An empty collection, and a chunk without words, have no results."""
        name = await fill_collection(store)
        assert await found_documents(store, name, "red") == []
        await store.replace_documents(name, [text_document("d", "…", "?!"), text_document("e")])
        assert await found_documents(store, name, "red") == []
        key = f"urn:chunk:{name}:d:0"
        assert await store.lexical_scores(name, "red", [key], EVERYTHING) == {key: 0.0}

    async def test_stop_words_alone_match(self, store: ChunkStore) -> None:
        """A query of stop words matches them; beside other words they do not count."""
        name = await fill_collection(
            store, text_document("s", "to be or not to be"), text_document("r", "red")
        )

        assert await found_documents(store, name, "to be, or not to be?") == ["s"]
        assert await found_documents(store, name, "to be red") == ["r"]

    @pytest.mark.parametrize("query", ["", " ", "…?!", "\0", "\ud800", "\n\t"])
    async def test_a_query_without_words_finds_nothing(self, store: ChunkStore, query: str) -> None:
        """A query without words has no candidates and is no error."""
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
    async def test_any_script_is_searched(self, store: ChunkStore, text: str, query: str) -> None:
        """Words of any script and length match themselves only."""
        name = await fill_collection(
            store, text_document("d", text), text_document("other", "w" * 4999)
        )

        assert await found_documents(store, name, query) == ["d"]

    async def test_a_query_of_ten_thousand_words(self, store: ChunkStore) -> None:
        """The first 1024 distinct words count, the others are ignored."""
        # Letters only: an identifier with digits would be split into parts.
        words = ["".join(letters) for letters in itertools.product("bcdfghjkmn", repeat=4)]
        name = await fill_collection(
            store, text_document("d", words[1]), text_document("e", words[-1])
        )

        assert len(words) == 10_000
        assert await found_documents(store, name, " ".join(words)) == ["d"]

    async def test_embedded_titles_are_searched(self, store: ChunkStore) -> None:
        """Title and heading before a chunk are searched with it."""
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

    async def test_cosines_by_id_equal_the_search(self, store: ChunkStore) -> None:
        """A chunk has the same cosine in a search and by id."""
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
        """A query vector of another dimension or length is refused."""
        name = await fill_collection(store, text_document("d", "red"))

        with pytest.raises(ModelMismatch):
            await store.dense_scores(name, np.array([1, 0, 0], np.float32), [], EVERYTHING)
        with pytest.raises(BadInput):
            await store.dense_scores(name, np.array([2, 0], np.float32), [], EVERYTHING)


class LexicalSuite(LexicalScoreSuite, LexicalQuerySuite):
    """Behaviours of lexical search; a subclass provides the `store` fixture."""
