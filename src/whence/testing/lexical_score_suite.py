"""Lexical scores and their order; part of `lexical_suite`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import NotFound
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.field_boosts import FieldBoosts
from whence.store.protocols import ChunkStore, EmbeddedDocument, Store
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


class LexicalScoreSuite:
    """Scores equal the formula of BM25 over the visible chunks, in every language and field."""

    async def settled(self, store: Any) -> None:
        """Wait until the store has nothing left to do in the background."""

    @given(writes=any_writes, queries=st.lists(any_text, min_size=1, max_size=3), access=any_access)
    @on_one_store
    async def test_rankings_are_those_of_brute_force(
        self, store: ChunkStore, writes: Sequence[Any], queries: list[str], access: Access
    ) -> None:
        """After any writes, ids, order and scores equal the formula over what is visible, to the last bit."""
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

    async def test_all_words_may_be_asked_for(self, store: ChunkStore) -> None:
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

    async def test_each_document_is_read_in_its_own_language(self, store: ChunkStore) -> None:
        """Documents are stemmed in the language they are in, and queries find them in each, all words too."""
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
        """What another language makes of a word is looked for by those who see documents in it, no others."""
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

    async def test_a_few_documents_in_a_language_lend_it_to_no_query(
        self, store: ChunkStore
    ) -> None:
        """One in hundred chunks at least must be in a language before queries are stemmed in it."""
        german = "Die Häuser an dem Ufer sind nicht alt, und in dem Dorf ist ein Haus für Seen."
        english = [text_document(f"e{n}", "long lakes") for n in range(100)]
        name = await fill_collection(store, *english, text_document("d", german))
        rare = await found_documents(store, name, "longer")
        await store.remove_documents(name, ["e0"])

        assert rare == []
        assert len(await found_documents(store, name, "longer")) == 99

    async def test_fields_may_count_more(self, store: Store) -> None:
        """Words of boosted fields count as if they stood there again, in what is stored and in what comes."""
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

    async def test_a_huge_chunk_is_scored_alike_on_both_ways(self, store: ChunkStore) -> None:
        """Where occurrences and lengths stop counting, the ranking and scores by id still agree."""
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
