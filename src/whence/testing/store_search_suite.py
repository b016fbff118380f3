"""Visibility and dense rankings of a store; part of `store_suite`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput, ModelMismatch, NotFound
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.protocols import EmbeddedDocument, Store
from whence.store.vector_statistics import VectorStatistics
from whence.testing.store_samples import (
    EVERYTHING,
    QUERY,
    any_access,
    any_corpus,
    any_tags,
    fill_collection,
    ids_of,
    make_document,
    on_one_store,
    search_all,
    unit,
)

#: Of `test_vectors_of_a_sample`.
PUBLIC_STATISTICS = VectorStatistics(
    passages=128,
    judged=128,
    unrelated=0.7387,
    spread=0.2533,
    related=0.807,
    agreement=0.6627,
    language="english",
    overlap=0.33706,
)
ALL_STATISTICS = VectorStatistics(
    passages=128,
    judged=128,
    unrelated=0.7296,
    spread=0.2605,
    related=0.8215,
    agreement=0.676,
    language="english",
    overlap=0.34399,
)


class SearchSuite:
    """Searches return exactly the visible chunks, by cosine, with a rule for ties."""

    @pytest.mark.parametrize(
        ("tags", "access", "visible"),
        [
            (DocumentTags(), Access(), True),
            (DocumentTags(("a",)), Access(), False),
            (DocumentTags(("a",)), Access({"a"}), True),
            (DocumentTags(("a", "b")), Access({"b", "c"}), True),
            (DocumentTags(("a",)), Access({"A"}), False),
            (DocumentTags(("a",)), Access({"a "}), False),
            (DocumentTags((), ("x",)), Access({"x"}), False),
            (DocumentTags((), ("x",)), Access(frozenset(), {"x"}), True),
            (DocumentTags((), ("x", "y")), Access(frozenset(), {"x"}), False),
            (DocumentTags((), ("x",)), Access(frozenset(), {"x", "y"}), True),
            (DocumentTags((), (), 1), Access(), False),
            (DocumentTags((), (), 1), Access(frozenset(), frozenset(), 1), True),
            (DocumentTags((), (), 2**31 - 1), Access(frozenset(), frozenset(), 2**31 - 1), True),
            (DocumentTags(("a",), ("x",), 1), Access({"a"}, {"x"}, 0), False),
            (DocumentTags(("a",), ("x",), 1), Access({"a"}, frozenset(), 1), False),
            (DocumentTags(("a",), ("x",), 1), Access(frozenset(), {"x"}, 1), False),
            (DocumentTags(("a",), ("x",), 1), Access({"a"}, {"x"}, 1), True),
            (DocumentTags(("{a}",)), Access({"a"}), False),
            (DocumentTags(("a,b",)), Access({"a", "b"}), False),
            (DocumentTags(('"a"',)), Access({'"a"'}), True),
            (DocumentTags(("NULL",)), Access({"NULL"}), True),
            (DocumentTags(("é",)), Access({"e\u0301"}), False),
            (DocumentTags(("a",)), Access({"\ud800"}), False),
        ],
    )
    async def test_visibility_rule(
        self, store: Store, tags: DocumentTags, access: Access, visible: bool
    ) -> None:
        """ACL empty or shared, labels all held, clearance high enough; the same in every read."""
        name = await fill_collection(store, make_document("d", tags=tags))
        key = f"urn:chunk:{name}:d:0"
        expected = [key] if visible else []

        assert access.allows(tags) is visible
        assert [hit.chunk_id for hit in await search_all(store, name, access)] == expected
        listed = await store.visible_documents(name, access, limit=9)
        assert [one.document_id for one in listed] == ["d"] * visible
        assert await store.visible_documents(name, access, limit=9, after="d") == []
        for names in ((), (name,)):
            seen = await store.visible_collections(access, names)
            assert [one.documents for one in seen if one.name == name] == [1] * visible
        assert await store.visible_collections(access, ["missing"]) == []
        assert [t.chunk_id for t in await store.chunk_texts(name, [key], access)] == expected
        assert await store.visible_chunks(name, [key], access) == frozenset(expected)

    @given(corpus=any_corpus, access=any_access)
    @on_one_store
    async def test_vectors_of_a_sample_are_of_visible_documents(
        self, store: Store, corpus: Any, access: Access
    ) -> None:
        """The statistics are those of a collection that has the visible documents alone."""
        documents = [
            make_document(f"d{n}", vectors, tags) for n, (tags, vectors) in enumerate(corpus)
        ]
        name = await fill_collection(store, *documents)
        visible = [one for one in documents if access.allows(one.draft.tags)]
        alone = await fill_collection(store, *visible)

        found = await store.vector_statistics(name, access)
        assert found == await store.vector_statistics(alone, access)
        assert (found is not None) <= (len(visible) > 1)

    async def test_vectors_of_a_sample(self, store: Store) -> None:
        """Every store chooses the same passages and computes the same numbers."""
        words = ("kiln", "clay", "glaze", "tide", "moon", "harbour", "yeast")
        documents = [
            EmbeddedDocument(
                draft=DocumentDraft(
                    document_id=f"d{n}",
                    chunks=tuple(
                        ChunkDraft(content=f"{words[n % 7]} {words[n % 3]} {words[(n + k) % 5]}")
                        for k in range(2)
                    ),
                    tags=DocumentTags(("a",) * (n % 4 == 0)),
                ),
                vectors=np.stack([unit(1, n % 7, n % 3, k) for k in range(2)]),
            )
            for n in range(200)
        ]
        name = await fill_collection(store, *documents)

        public = await store.vector_statistics(name, Access.public())
        everything = await store.vector_statistics(name, EVERYTHING)
        assert public == PUBLIC_STATISTICS
        assert everything == ALL_STATISTICS
        await store.remove_documents(name, [f"d{n}" for n in range(1, 200)])
        assert await store.vector_statistics(name, EVERYTHING) is None
        with pytest.raises(NotFound):
            await store.vector_statistics("nowhere", EVERYTHING)

    @given(corpus=any_corpus, access=any_access, limit=st.integers(1, 12))
    @on_one_store
    async def test_no_leak_and_nothing_missing(
        self, store: Store, corpus: Any, access: Access, limit: int
    ) -> None:
        """For any tags and any reader, results equal those of a store without the hidden documents."""
        documents = [make_document(f"d{n}", v, tags) for n, (tags, v) in enumerate(corpus)]
        name = await fill_collection(store, *documents)
        best = sorted(
            (-float(vector @ QUERY), f"urn:chunk:{name}:{one.draft.document_id}:{index}")
            for one in documents
            if access.allows(one.draft.tags)
            for index, vector in enumerate(() if one.vectors is None else one.vectors)
        )
        every = [f"urn:chunk:{name}:d{n}:{i}" for n, (_, v) in enumerate(corpus) for i in range(4)]
        visible = {key for _, key in best}
        hits = await store.search_dense(name, QUERY, limit=limit, access=access)
        texts = await store.chunk_texts(name, every, access)

        assert [hit.chunk_id for hit in hits] == [key for _, key in best[:limit]]
        assert [hit.dense_score for hit in hits] == [-score for score, _ in best[:limit]]
        assert [text.chunk_id for text in texts] == [key for key in every if key in visible]
        assert await store.visible_chunks(name, every, access) == visible

    @given(corpus=any_corpus, later=st.lists(any_tags, max_size=8), access=any_access)
    @on_one_store
    async def test_new_tags_apply_at_once(
        self, store: Store, corpus: Any, later: list[DocumentTags], access: Access
    ) -> None:
        """After a change of tags every read uses the new ones."""
        documents = [make_document(f"d{n}", v, tags) for n, (tags, v) in enumerate(corpus)]
        name = await fill_collection(store, *documents)
        changed = {f"d{n}": tags for n, tags in enumerate(later[: len(corpus)])}
        now = {one.draft.document_id: one.draft.tags for one in documents} | changed
        await store.retag_documents(name, changed)
        states = await store.document_states(name, list(now))
        seen = {one for one, tags in now.items() if access.allows(tags)}
        hits = await search_all(store, name, access)
        texts = await store.chunk_texts(name, [f"urn:chunk:{name}:{one}:0" for one in now], access)

        assert {one: state.tags for one, state in states.items()} == now
        assert set(ids_of(hits)) == seen
        assert {text.document_id for text in texts} == seen

    async def test_hidden_documents_take_no_place(self, store: Store) -> None:
        """The limit counts visible chunks only."""
        hidden = [make_document(f"h{n}", tags=DocumentTags(("a",))) for n in range(50)]
        name = await fill_collection(store, *hidden, make_document("seen", [unit(1, 1, 0, 0)]))
        hits = await store.search_dense(name, QUERY, limit=1, access=Access.public())

        assert ids_of(hits) == ["seen"]
        assert hits[0].rank == 1

    async def test_hidden_and_missing_are_alike(self, store: Store) -> None:
        """A hidden chunk is answered like one that does not exist."""
        name = await fill_collection(store, make_document("h", tags=DocumentTags(("a",))))
        keys = [f"urn:chunk:{name}:h:0", f"urn:chunk:{name}:nobody:0"]

        assert await store.chunk_texts(name, keys, Access.public()) == []
        assert await store.visible_chunks(name, keys, Access.public()) == frozenset()

    async def test_ranking_is_by_cosine(self, store: Store) -> None:
        """Nearest first; `dense_score` is the cosine, `score` never negative, ranks count from 1."""
        directions = {"same": (1, 0), "near": (3, 4), "across": (0, 1), "against": (-1, 0)}
        name = await fill_collection(
            store, *(make_document(k, [unit(*v, 0, 0)]) for k, v in directions.items())
        )
        hits = await search_all(store, name)

        assert ids_of(hits) == list(directions)
        assert [hit.rank for hit in hits] == [1, 2, 3, 4]
        assert [hit.dense_score for hit in hits] == pytest.approx([1, 0.6, 0, -1], abs=1e-6)
        assert [hit.score for hit in hits] == pytest.approx([1, 0.6, 0, 0], abs=1e-6)

    async def test_ties_are_ordered_by_chunk_id(self, store: Store) -> None:
        """Equal scores are ordered by the code points of the id, also at the limit."""
        ids = ["b", "a", "B", "ä", "a2", "a10", "😀", "\ufb01"]
        name = await fill_collection(store, *(make_document(one, [QUERY] * 2) for one in ids))
        everything = [hit.chunk_id for hit in await search_all(store, name)]

        assert everything == sorted(everything)
        for limit in range(1, len(everything) + 2):
            cut = await store.search_dense(name, QUERY, limit=limit, access=EVERYTHING)
            assert [hit.chunk_id for hit in cut] == everything[:limit]

    async def test_ties_do_not_depend_on_the_order_of_storing(self, store: Store) -> None:
        """A document that is stored again keeps its place among equal scores."""
        name = await fill_collection(store, *(make_document(one) for one in "abc"))
        await store.replace_documents(name, [make_document("a")])
        hits = await store.search_dense(name, QUERY, limit=2, access=EVERYTHING)

        assert ids_of(hits) == ["a", "b"]

    async def test_threshold_cuts_by_score(self, store: Store) -> None:
        """Only scores at or above the threshold are returned; zero keeps all."""
        vectors = [unit(1, 0, 0, 0), np.full(4, 0.5, np.float32), unit(-1, 0, 0, 0)]
        name = await fill_collection(store, make_document("d", vectors))

        for threshold, count in ((0.0, 3), (0.5, 2), (0.51, 1), (1.0, 1)):
            hits = await store.search_dense(
                name, QUERY, limit=9, access=EVERYTHING, threshold=threshold
            )
            assert len(hits) == count

    async def test_an_unknown_collection_is_not_found(self, store: Store) -> None:
        """Searching what does not exist says so; reading by id finds nothing."""
        key = "urn:chunk:nowhere:d:0"

        for name in ("nowhere", "a\0", "\ud800"):
            with pytest.raises(NotFound):
                await search_all(store, name)
            with pytest.raises(NotFound):
                await store.replace_documents(name, [make_document("d")])
            with pytest.raises(NotFound):
                await store.retag_documents(name, {"d": DocumentTags()})
            assert await store.collection(name) is None
            assert await store.chunk_texts(name, [key], EVERYTHING) == []
            assert await store.visible_chunks(name, [key], EVERYTHING) == frozenset()
            assert await store.document_states(name, ["d"]) == {}
            assert await store.document_ids(name) == []
            assert await store.remove_documents(name, ["d"]) == 0

    async def test_a_vector_of_another_dimension_is_refused(self, store: Store) -> None:
        """The error for a query or document names both dimensions, and nothing changes."""
        name = await fill_collection(store, make_document("d"))

        with pytest.raises(ModelMismatch, match=r"3 dim.*4"):
            await store.search_dense(name, unit(1, 2, 3), limit=1, access=EVERYTHING)
        with pytest.raises(ModelMismatch, match=r"3 dim.*4"):
            await store.replace_documents(
                name, [make_document("new"), make_document("bad", [unit(1, 2, 3)])]
            )
        assert await store.document_ids(name) == ["d"]

    @pytest.mark.parametrize(
        "vector", [[0, 0, 0, 0], [2, 0, 0, 0], [np.nan, 0, 0, 0], [np.inf, 0, 0, 0], [[1, 0, 0, 0]]]
    )
    async def test_only_unit_vectors_are_accepted(self, store: Store, vector: list[Any]) -> None:
        """A vector that is not of length 1 is refused in queries and documents."""
        name = await fill_collection(store)
        bad = np.array(vector, dtype=np.float32)
        document = EmbeddedDocument(draft=make_document("d").draft, vectors=bad.reshape(-1, 4))

        with pytest.raises(BadInput):
            await store.search_dense(name, bad, limit=1, access=EVERYTHING)
        if bad.ndim == 1:
            with pytest.raises(BadInput):
                await store.replace_documents(name, [document])

    @pytest.mark.parametrize(
        "options",
        [
            {"limit": 0},
            {"limit": -1},
            {"threshold": -0.1},
            {"threshold": 1.1},
            {"threshold": np.nan},
        ],
    )
    async def test_limits_have_a_range(self, store: Store, options: dict[str, Any]) -> None:
        """A limit below 1 or a threshold outside 0 to 1 is refused."""
        name = await fill_collection(store, make_document("d"))

        with pytest.raises(BadInput):
            await store.search_dense(
                name,
                QUERY,
                limit=options.get("limit", 1),
                access=EVERYTHING,
                threshold=options.get("threshold", 0.0),
            )

    async def test_a_huge_limit_returns_everything(self, store: Store) -> None:
        """The limit has no maximum."""
        name = await fill_collection(store, make_document("d"))

        assert len(await store.search_dense(name, QUERY, limit=2**63, access=EVERYTHING)) == 1
