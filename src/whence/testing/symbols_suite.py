"""Behaviour of symbol look-up in every store that has it, as tests: subclass `SymbolsSuite`.

A subclass provides the `store` fixture. Needs pytest, pytest-asyncio in auto mode and hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.processors.search import SearchProcessor
from whence.retrieval.fusion import MIN_BOOSTED_SCORE
from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput
from whence.schema.filters import parse_filters
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate, SearchMode, SearchRequest, SearchResponse
from whence.store.chunk_ids import chunk_key
from whence.store.protocols import ChunkStore, EmbeddedDocument
from whence.store.symbol_names import LONGEST_NAME, SymbolMatch
from whence.testing.index_samples import EVERYTHING, PUBLIC, SECRET, fill_collection
from whence.testing.store_samples import on_one_store
from whence.testing.stub_context import StubContext

_QUERY = np.array([1, 0], dtype="<f4").tobytes()


def defining(
    document_id: str,
    *chunks: tuple[str, str],
    tags: DocumentTags | None = None,
    metadata: Mapping[str, Any] | None = None,
    near: float = 0.6,
    title: str | None = None,
) -> EmbeddedDocument:
    """Return a document of chunks, each a heading and a text; `near` is their cosine with the query.

    It is a file of source code, whose title is its id, unless it has a title of its own.
    """
    draft = DocumentDraft(
        document_id=document_id,
        chunks=tuple(
            ChunkDraft(content=text, heading=heading, embed_text=f"{heading}\n{text}")
            for heading, text in chunks
        ),
        title=document_id if title is None else title,
        tags=tags or DocumentTags(),
        metadata=dict(metadata or {}),
    )
    vector = np.array([near, np.sqrt(1 - near * near)], dtype=np.float32)
    return EmbeddedDocument(draft=draft, vectors=np.tile(vector, (len(chunks), 1)))


# --- the definition, by taking headings apart --------------------------------------------------------


def _ends(heading: str) -> Iterator[str]:
    yield heading
    for place, char in enumerate(heading):
        if char in ".:#":
            yield heading[place + 1 :]


def _lower(text: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in text)


def _expected(
    name: str, documents: Sequence[EmbeddedDocument], collection: str, access: Access
) -> list[SymbolMatch]:
    found = []
    for document in documents:
        seen: set[str] = set()
        for index, chunk in enumerate(document.draft.chunks):
            heading = chunk.heading
            if heading in seen or " " in heading or not access.allows(document.draft.tags):
                continue
            if document.draft.title not in (document.draft.document_id, heading):
                continue
            seen.add(heading)
            if _lower(name) not in map(_lower, _ends(heading)):
                continue
            fit = 2 if heading == name else int(name in _ends(heading))
            key = chunk_key(collection, document.draft.document_id, index)
            found.append(SymbolMatch(key, document.draft.document_id, fit))
    return sorted(found, key=lambda one: (-one.fit, one.chunk_id))


_PARTS = ("cart", "Cart", "CART", "total", "subtotal", "ärger", "Ärger", "_cart", "x1")
_part = st.sampled_from(_PARTS)
_name = st.one_of(
    _part, st.builds("{}{}{}".format, _part, st.sampled_from([".", "::", "#"]), _part)
)
_heading = st.one_of(
    _name,
    st.builds("{}.{}".format, _name, _part),
    st.sampled_from(["", "the cart", "cart total", "cart-total", "1cart"]),
)
_text = st.lists(st.sampled_from([*_PARTS, "of", "the", "returns"]), max_size=12).map(" ".join)
_tags = st.sampled_from([DocumentTags(), DocumentTags(), SECRET, DocumentTags((), ("x",), 2)])
_accesses = st.sampled_from([PUBLIC, EVERYTHING, Access(frozenset({"a"}))])
_documents = st.lists(
    st.tuples(
        st.lists(st.tuples(_heading, _text), min_size=1, max_size=3),
        _tags,
        st.sampled_from([0.0, 0.3, 0.9, 1.0]),
        st.sampled_from([None, None, "", "Cart", "total"]),
    ),
    max_size=8,
).map(
    lambda some: [
        defining(f"d{n}", *chunks, tags=tags, near=near, title=title)
        for n, (chunks, tags, near, title) in enumerate(some)
    ]
)


class SymbolsSuite:
    """Behaviours of every store."""

    async def _search(
        self, store: ChunkStore, collection: str, query: str, **fields: Any
    ) -> SearchResponse:
        default: dict[str, Any] = {"access": PUBLIC, "limit": 9, "vector": _QUERY, "mode": "hybrid"}
        request = SearchRequest(collection=collection, query_text=query, **{**default, **fields})
        return await SearchProcessor(store=store).handle(request, StubContext())

    @given(documents=_documents, name=_name, access=_accesses)
    @on_one_store
    async def test_a_symbol_matches_the_end_of_a_heading(
        self, store: ChunkStore, documents: list[EmbeddedDocument], name: str, access: Access
    ) -> None:
        """A reader gets the visible chunks with that name, in order; `limit` truncates."""
        collection = await fill_collection(store, *documents)
        expected = _expected(name, documents, collection, access)

        for limit in (1, 3, 100):
            found = await store.find_symbols(collection, name, limit=limit, access=access)
            assert found == expected[:limit]

    @given(
        documents=_documents,
        name=_name,
        access=_accesses,
        mode=st.sampled_from(["bm25", "hybrid"]),
        limit=st.sampled_from([1, 2, 50]),
    )
    @on_one_store
    async def test_definitions_rank_before_mentions(
        self,
        store: ChunkStore,
        documents: list[EmbeddedDocument],
        name: str,
        access: Access,
        mode: SearchMode,
        limit: int,
    ) -> None:
        """All definitions are first, better matches before worse; hidden documents change no bit."""
        collection = await fill_collection(store, *documents)
        seen = [one for one in documents if access.allows(one.draft.tags)]
        alone = await fill_collection(store, *seen)
        fits = {one.chunk_id: one.fit for one in _expected(name, documents, collection, access)}

        found = await self._search(store, collection, name, access=access, mode=mode, limit=limit)
        same = await self._search(store, alone, name, access=access, mode=mode, limit=limit)

        hits = found.candidates
        assert found.degraded == ()
        assert [one.chunk_id for one in hits if one.name_score is not None] == [
            one.chunk_id for one in hits if one.chunk_id in fits
        ]
        order = [fits.get(one.chunk_id, -1) for one in hits]
        assert order == sorted(order, reverse=True)
        assert sum(fit >= 0 for fit in order) == min(limit, len(fits))
        scores = [one.score for one in hits]
        assert scores == sorted(scores, reverse=True)
        assert all((one.score >= MIN_BOOSTED_SCORE) == (one.chunk_id in fits) for one in hits)
        assert [_comparable(one) for one in hits] == [_comparable(one) for one in same.candidates]

    async def test_a_name_matches_whole_words(self, store: ChunkStore) -> None:
        """`total` does not match `subtotal`, and a heading with a space is a phrase."""
        headings = ["total", "Cart.total", "shop::total", "Cart#total", "Cart.Total"]
        others = ["subtotal", "sub_total", "total.of", "the total", "sub-total", ""]
        documents = [
            defining(f"d{n}", (heading, "text")) for n, heading in enumerate(headings + others)
        ]
        name = await fill_collection(store, *documents)

        found = await store.find_symbols(name, "total", limit=99, access=PUBLIC)

        assert [(one.document_id, one.fit) for one in found] == [
            ("d0", 2),
            ("d1", 1),
            ("d2", 1),
            ("d3", 1),
            ("d4", 0),
        ]

    async def test_prose_headings_are_not_symbols(self, store: ChunkStore) -> None:
        """A section heading of minutes is not a symbol; a document title is."""
        text = ("Harbour", "text")
        name = await fill_collection(
            store,
            defining("minutes", ("Council", "text"), text, title="Council"),
            defining("untitled", text, title=""),
            defining("product", text, ("Harbour.price", "text"), title="Harbour"),
            defining("harbour.py", text),
        )

        found = await store.find_symbols(name, "Harbour", limit=9, access=PUBLIC)
        price = await store.find_symbols(name, "price", limit=9, access=PUBLIC)

        assert sorted(one.document_id for one in found) == ["harbour.py", "product"]
        assert price == []

    async def test_the_first_chunk_of_a_definition_is_found(self, store: ChunkStore) -> None:
        """A long definition has several chunks; the first is its beginning."""
        text = ("Cart.total", "text")
        name = await fill_collection(store, defining("d", ("", "imports"), text, text))

        found = await store.find_symbols(name, "total", limit=9, access=PUBLIC)

        assert found == [SymbolMatch(chunk_key(name, "d", 1), "d", 1)]

    async def test_rights_apply_to_definitions(self, store: ChunkStore) -> None:
        """A hidden definition is not found; new tags apply at once, a removed one is gone."""
        name = await fill_collection(
            store,
            defining("open", ("total", "text")),
            defining("shut", ("total", "text"), tags=SECRET),
        )

        async def named(access: Access) -> list[str]:
            found = await store.find_symbols(name, "total", limit=9, access=access)
            return [one.document_id for one in found]

        assert (await named(PUBLIC), await named(EVERYTHING)) == (["open"], ["open", "shut"])
        await store.retag_documents(name, {"open": SECRET, "shut": DocumentTags()})
        assert await named(PUBLIC) == ["shut"]
        await store.remove_documents(name, ["shut"])
        assert (await named(PUBLIC), await named(EVERYTHING)) == ([], ["open"])

    async def test_filters_apply_to_definitions(self, store: ChunkStore) -> None:
        """A definition excluded by a filter is not found, and an unknown key is refused."""
        name = await fill_collection(
            store,
            defining("cs", ("Cart.total", "text"), metadata={"kind": "cs"}),
            defining("sql", ("dbo.total", "text"), metadata={"kind": "sql"}),
        )
        kept = parse_filters({"kind": "sql"})
        found = await store.find_symbols(name, "total", limit=9, access=PUBLIC, filters=kept)
        hits = await self._search(store, name, "total", filters={"kind": "sql"})

        assert [one.document_id for one in found] == ["sql"]
        assert [one.document_id for one in hits.candidates] == ["sql"]
        with pytest.raises(BadInput):
            await store.find_symbols(
                name, "total", limit=9, access=PUBLIC, filters=parse_filters({"no": 1})
            )

    async def test_pattern_characters_are_literal(self, store: ChunkStore) -> None:
        """Characters of patterns match themselves, and headings too long for a symbol are ignored."""
        long = "x" * (LONGEST_NAME + 1)
        name = await fill_collection(store, defining("d", ("total", "text"), (long, "text")))

        for odd in ("t%", "t_tal", "%", "tota.", ".*", "to\0tal", "'; --", long, "", "l"):
            assert await store.find_symbols(name, odd, limit=9, access=PUBLIC) == []
        assert await store.find_symbols("nowhere", "total", limit=9, access=PUBLIC) == []
        with pytest.raises(BadInput):
            await store.find_symbols(name, "total", limit=0, access=PUBLIC)

    async def test_a_definition_no_retriever_ranked_is_found(self, store: ChunkStore) -> None:
        """Its definition is first, with true scores, however many chunks mention the name."""
        mentions = [defining(f"m{n:03}", ("", "total " * 9), near=0.9) for n in range(120)]
        text = "total " + " ".join(f"word{n}" for n in range(400))
        name = await fill_collection(
            store, defining("d", ("Cart.total", text), near=0.1), *mentions
        )

        for mode in ("bm25", "hybrid"):
            first = (await self._search(store, name, "`total()`", mode=mode)).candidates[0]
            assert (first.document_id, first.rank) == ("d", 1)
            assert first.sparse_score
            assert first.name_score == pytest.approx(first.score, abs=0.9)
            assert (first.dense_score is None) == (mode == "bm25")

    @pytest.mark.parametrize("query", ["total of a cart", "cart total", "what is total"])
    async def test_a_question_is_not_a_symbol(self, store: ChunkStore, query: str) -> None:
        """Only a query that is one symbol looks up definitions, and never in dense mode."""
        name = await fill_collection(store, defining("d", ("total", "text")))

        for mode, text in (("hybrid", query), ("bm25", query), ("dense", "total")):
            found = await self._search(store, name, text, mode=mode)
            assert all(one.name_score is None for one in found.candidates)
            assert all(one.score < MIN_BOOSTED_SCORE for one in found.candidates)


def _comparable(one: Candidate) -> tuple[Any, ...]:
    return (
        one.document_id,
        one.chunk_id.rpartition(":")[2],
        one.score,
        one.sparse_score,
        one.dense_score,
        one.name_score,
    )
