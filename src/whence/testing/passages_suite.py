"""Behaviour of links in every store that has them, as tests: subclass `PassagesSuite` with a `store` fixture.

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

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import NotFound
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.chunk_ids import chunk_key
from whence.store.linked_titles import LinkStatistics, LinkTitle, PassageRef
from whence.store.protocols import ChunkStore, EmbeddedDocument
from whence.store.title_mentions import MAX_MENTIONS, MAX_TITLED
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


def titled(
    document_id: str,
    title: str,
    *texts: str,
    headings: Sequence[str] = (),
    tags: DocumentTags | None = None,
) -> EmbeddedDocument:
    """Return a document with a title and one chunk for each text."""
    chunks = tuple(
        ChunkDraft(content=text, heading=heading, embed_text=f"{title}\n{heading}\n{text}")
        for text, heading in itertools.zip_longest(texts, headings[: len(texts)], fillvalue="")
    )
    draft = DocumentDraft(
        document_id=document_id, title=title, chunks=chunks, tags=tags or DocumentTags()
    )
    return EmbeddedDocument(draft=draft, vectors=np.tile(VECTOR, (len(texts), 1)))


# --- the definition, without the finder and the index of any store ---------------------------------

_TITLES = ["Red Fox", "Fox", "Blue Lake", "the lake", "Red Fox (film)", "", "Of", "Lakes"]
_PIECES = ["red", "fox", "Foxes", "blue", "lake", "the", "of", "(film)", "green", "."]
#: What the analyzer makes of the pieces and titles above; qualifiers are left out of titles.
_TERMS = {"foxes": "fox", "lakes": "lake", "(film)": "film"}
_NAMES = {
    "Red Fox": "red fox",
    "Fox": "fox",
    "Blue Lake": "blue lake",
    "the lake": "the lake",
    "Red Fox (film)": "red fox",
    "Lakes": "lake",
}


def _terms(text: str) -> str:
    """Return the terms of a text made of `_PIECES`, each between spaces."""
    words = [_TERMS.get(word.lower(), word.lower()) for word in text.split() if word != "."]
    return f" {' '.join(words)} "


class _World:
    """The documents that a collection should have, and their links by comparing all titles with all texts."""

    def __init__(self, collection: str) -> None:
        self.collection = collection
        self.documents: dict[str, EmbeddedDocument] = {}

    def _passages(self, access: Access) -> list[tuple[PassageRef, set[str], str]]:
        found = []
        for document_id, one in self.documents.items():
            if not access.allows(one.draft.tags):
                continue
            seen = {one.draft.title} - {""}
            for index, chunk in enumerate(one.draft.chunks):
                new = {chunk.heading} - seen - {""}
                seen |= new
                titles = new | ({one.draft.title} if index == 0 else set())
                names = {_NAMES[title] for title in titles if title in _NAMES}
                ref = PassageRef(chunk_key(self.collection, document_id, index), document_id)
                found.append((ref, names, _terms(chunk.content)))
        return found

    def names(self, access: Access) -> dict[str, tuple[set[PassageRef], set[PassageRef]]]:
        """Return titled_passages and mentions of every rare name."""
        passages = self._passages(access)
        graph = {}
        for name in {name for _, names, _ in passages for name in names}:
            titled_passages = {ref for ref, names, _ in passages if name in names}
            owners = {ref.document_id for ref in titled_passages}
            mentions = {
                ref
                for ref, _, terms in passages
                if f" {name} " in terms and ref.document_id not in owners
            }
            if len(titled_passages) <= MAX_TITLED and len(mentions) <= MAX_MENTIONS:
                graph[name] = (titled_passages, mentions)
        return graph

    def expected(self, access: Access, wanted: Sequence[str], query: str) -> list[LinkTitle]:
        return [
            LinkTitle(
                name=name,
                titled_passages=tuple(sorted(titled_passages)),
                mentions=tuple(sorted(mentions)),
                in_query=f" {name} " in _terms(query),
            )
            for name, (titled_passages, mentions) in sorted(self.names(access).items())
            if f" {name} " in _terms(query)
            or any(ref.chunk_id in wanted for ref in titled_passages | mentions)
        ]


_text = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=6).map(" ".join)
_ids = st.sampled_from([f"d{n}" for n in range(7)])
_chunks = st.lists(st.tuples(_text, st.sampled_from(["", "", *_TITLES])), min_size=1, max_size=3)
_document = st.tuples(st.sampled_from(_TITLES), _chunks, any_tags)
_documents = st.dictionaries(_ids, _document, min_size=1, max_size=4).map(
    lambda some: [
        titled(
            one,
            title,
            *(text for text, _ in chunks),
            headings=[heading for _, heading in chunks],
            tags=tags,
        )
        for one, (title, chunks, tags) in some.items()
    ]
)
_writes = store_writes(_documents, _ids, most=6)


class PassagesSuite:
    """Behaviours of every store."""

    @given(writes=_writes, access=any_access, query=_text, picked=st.sets(st.integers(0, 20)))
    @on_one_store
    async def test_links_equal_brute_force(
        self, store: ChunkStore, writes: Any, access: Access, query: str, picked: set[int]
    ) -> None:
        """After any writes, in any order, a reader gets the links among visible documents."""
        world = _World(await fill_collection(store))
        for write in writes:
            await apply_write(store, world.collection, world.documents, write)
        keys = [
            chunk_key(world.collection, one, index)
            for one, document in sorted(world.documents.items())
            for index in range(len(document.draft.chunks))
        ]
        wanted = [key for place, key in enumerate(keys) if place in picked]
        visible = {
            ref.chunk_id
            for titled_passages, mentions in world.names(access).values()
            for ref in titled_passages | mentions
        }

        found = await store.linked_titles(world.collection, wanted, access, query_text=query)

        assert found == world.expected(access, [w for w in wanted if w in visible], query)

    async def test_a_link_is_found_in_either_order_of_writes(self, store: ChunkStore) -> None:
        """A new text finds stored titles, and a new title finds stored texts."""
        name = await fill_collection(store, titled("fox", "Red Fox", "An animal."))
        await store.replace_documents(name, [titled("tale", "", "The red fox meets Blue Lake.")])
        await store.replace_documents(name, [titled("lake", "Blue Lake", "Much water.")])

        found = await store.linked_titles(name, [chunk_key(name, "tale", 0)], PUBLIC)

        assert [(one.name, [ref.document_id for ref in one.titled_passages]) for one in found] == [
            ("blue lake", ["lake"]),
            ("red fox", ["fox"]),
        ]

    async def test_a_document_stored_again_keeps_its_mentions(self, store: ChunkStore) -> None:
        """Storing a document again keeps its mentions; storing it under another title removes them."""
        tale = titled("tale", "", "The red fox sleeps.")
        name = await fill_collection(store, tale, titled("fox", "Red Fox", "An animal."))
        await store.replace_documents(name, [titled("fox", "Red Fox", "Another text.")])
        again = await store.linked_titles(name, [chunk_key(name, "fox", 0)], PUBLIC)
        await store.replace_documents(name, [titled("fox", "Grey Wolf", "Another text.")])
        renamed = await store.linked_titles(name, [chunk_key(name, "tale", 0)], PUBLIC)

        assert [ref.document_id for one in again for ref in one.mentions] == ["tale"]
        assert renamed == []

    async def test_a_hidden_passage_has_no_links(self, store: ChunkStore) -> None:
        """Hidden passages have no title and no mention, by id or by a query; new tags apply at once."""
        documents = [
            titled("fox", "Red Fox", "An animal.", tags=SECRET),
            titled("tale", "", "The red fox sleeps."),
        ]
        name = await fill_collection(store, *documents)
        keys = [chunk_key(name, "fox", 0), chunk_key(name, "tale", 0)]
        hidden = await store.linked_titles(name, keys, PUBLIC, query_text="red fox")
        seen = await store.linked_titles(name, keys, EVERYTHING, query_text="red fox")
        await store.retag_documents(name, {"fox": DocumentTags()})
        opened = await store.linked_titles(name, keys, PUBLIC, query_text="red fox")

        assert hidden == []
        assert [one.name for one in seen] == ["red fox"]
        assert opened == seen

    async def test_hidden_mentions_do_not_make_a_title_common(self, store: ChunkStore) -> None:
        """Only visible passages count for the limits."""
        secret = [
            titled(f"s{n}", "", "Here is the red fox.", tags=SECRET)
            for n in range(MAX_MENTIONS + 1)
        ]
        name = await fill_collection(
            store,
            titled("fox", "Red Fox", "An animal."),
            titled("tale", "", "The red fox sleeps."),
            *secret,
        )
        keys = [chunk_key(name, "tale", 0)]

        assert [one.name for one in await store.linked_titles(name, keys, PUBLIC)] == ["red fox"]
        assert await store.linked_titles(name, keys, EVERYTHING) == []

    async def test_common_titles_link_nothing(self, store: ChunkStore) -> None:
        """A title of more than three visible passages is a common word."""
        documents = [titled(f"d{n}", "Red Fox", "Text.") for n in range(MAX_TITLED + 1)]
        name = await fill_collection(store, titled("tale", "", "The red fox sleeps."), *documents)
        keys = [chunk_key(name, "tale", 0)]
        before = await store.linked_titles(name, keys, PUBLIC)
        await store.remove_documents(name, ["d0"])

        assert before == []
        assert len((await store.linked_titles(name, keys, PUBLIC))[0].titled_passages) == MAX_TITLED

    async def test_links_are_counted(self, store: ChunkStore) -> None:
        """The share of linked passages counts rare titles with passages at both ends."""
        name = await fill_collection(
            store,
            titled("fox", "Red Fox", "An animal."),
            titled("tale", "A Tale", "The red fox sleeps.", "Nobody else comes."),
            titled("lake", "Blue Lake", "Blue Lake is water."),
        )

        found = await store.link_statistics(name, PUBLIC)

        assert found == LinkStatistics(chunks=4, linked=2, documents=3)
        assert found.share == 0.5
        assert found.passages_per_document == 4 / 3
        assert await store.link_statistics("nowhere", PUBLIC) is None

    async def test_unknown_ids_are_left_out(self, store: ChunkStore) -> None:
        """A missing collection is an error; unknown ids are left out."""
        name = await fill_collection(store, titled("fox", "Red Fox", "An animal."))
        with pytest.raises(NotFound):
            await store.linked_titles("nowhere", [], PUBLIC)
        keys = ["urn:chunk:other:fox:0", "nonsense", chunk_key(name, "fox", 7)]

        assert await store.linked_titles(name, keys, PUBLIC, query_text="\0") == []
