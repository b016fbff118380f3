"""What every store must do, as tests: subclass `StoreSuite` and give it a `store` fixture.

```python
class TestMyStore(StoreSuite):
    @pytest.fixture
    async def store(self):
        async with open_my_store() as store:
            yield store
```

Needs pytest, pytest-asyncio in auto mode and hypothesis.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import Answer, Citation, ExplainEvent, TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch, NotFound
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate
from whence.schema.terms import Term, Triple, iri, literal
from whence.store.protocols import DocumentParts, EmbeddedDocument, Store
from whence.testing.samples import sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ("StoreSuite", "ids_of", "make_document", "unit")


MODEL = EmbeddingModel(name="suite", revision="r1", precision="float32", dimension=4)
EVERYTHING = Access(frozenset({"a", "b", "c"}), frozenset({"x", "y"}), 9)
QUERY = np.array([1, 0, 0, 0], dtype=np.float32)

ODD_IDS = (
    "plain",
    "with space and ümlaut/文件.md",
    "a:b:c",
    "100%",
    "%61",
    "q'uote\"s\\back",
    "{curly},[square]",
    "tab\tnew\nline",
    "😀",
    "-",
    "." * 600,
)


def unit(*values: float) -> NDArray[np.float32]:
    """Give the unit vector in a direction, float32."""
    vector = np.array(values, dtype=np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def make_document(
    document_id: str,
    vectors: Sequence[NDArray[np.float32]] = (QUERY,),
    tags: DocumentTags | None = None,
    **fields: Any,
) -> EmbeddedDocument:
    """Give a document with one chunk for each vector."""
    chunks = tuple(
        ChunkDraft(content=f"{document_id} part {index}", start=index, end=index + 1)
        for index in range(len(vectors))
    )
    draft = DocumentDraft(
        document_id=document_id, chunks=chunks, tags=tags or DocumentTags(), **fields
    )
    width = len(vectors[0]) if len(vectors) else MODEL.dimension
    stacked = np.array(list(vectors), dtype=np.float32).reshape(len(vectors), width)
    return EmbeddedDocument(draft=draft, vectors=stacked)


def ids_of(candidates: Iterable[Candidate]) -> list[str]:
    """Give the documents of a ranking, best first."""
    return [candidate.document_id for candidate in candidates]


# Few tags over many documents: overlaps, subsets and equal sets all occur often.
_acl = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)
_labels = st.lists(st.sampled_from(["x", "y", "X"]), max_size=2)
_levels = st.integers(min_value=0, max_value=3)
_tags = st.builds(DocumentTags, _acl, _labels, _levels)
_accesses = st.builds(Access, _acl, _labels, _levels)
# Components of a coarse grid: ties are common, and every inner product is exact in float32.
_vectors = st.sampled_from(
    [np.array(v, np.float32) for v in ([1, 0, 0, 0], [0, 1, 0, 0], [0.5] * 4, [-1, 0, 0, 0])]
)
_corpus = st.lists(st.tuples(_tags, st.lists(_vectors, min_size=1, max_size=3)), max_size=8)
_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


def _json_values(floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | floats | _text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
        max_leaves=6,
    )


_json = _json_values(st.floats(allow_nan=False, allow_infinity=False))
# Metadata may be kept as decimal numbers: a whole float beyond 2**53 comes back as the integer it is written
# as, which can differ from it in the last digit.
_metadata = _json_values(st.floats(min_value=-(2.0**53), max_value=2.0**53))
_objects = st.builds(literal, _text, _text) | st.builds(iri, _text)
_triples = st.builds(
    Triple, st.builds(iri, _text), st.builds(iri, _text), _objects, st.none() | _text
)
_events = st.builds(
    ExplainEvent,
    answer_id=_text,
    stage=_text,
    sequence=st.integers(0, 100),
    explain_id=_text,
    triples=st.lists(_triples, max_size=3).map(tuple),
)

#: The store is shared by the examples of one test; each example has a collection of its own.
_on_one_store = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)
_numbers = itertools.count()


async def _filled(store: Store, *documents: EmbeddedDocument) -> str:
    """Make a new collection with these documents; gives its name."""
    name = f"suite-{next(_numbers)}"
    await store.ensure_collection(name, MODEL)
    await store.replace_documents(name, documents)
    return name


async def _everything(store: Store, name: str, access: Access = EVERYTHING) -> list[Candidate]:
    return await store.search_dense(name, QUERY, limit=10_000, access=access)


def _trace(answer_id: str, **fields: Any) -> TraceRecord:
    defaults: dict[str, Any] = {
        "collection": "default",
        "question": "why?",
        "access": Access.public(),
        "events": (),
    }
    return TraceRecord(answer_id=answer_id, **(defaults | fields))


def _told(
    answer_id: str, collection: str, term: Term, citations: tuple[Citation, ...]
) -> TraceRecord:
    """Give a trace that says one thing."""
    triples = (Triple(iri("urn:s"), iri("urn:p"), term, "urn:g"),)
    event = ExplainEvent(
        answer_id=answer_id, stage="question", sequence=0, explain_id="urn:s", triples=triples
    )
    answer = Answer(answer_id=answer_id, question="why?", text="so", citations=citations)
    return _trace(answer_id, collection=collection, events=(event,), answer=answer)


class StoreSuite:
    """Behaviours of a store; a subclass gives the `store` fixture."""

    # --- collections -------------------------------------------------------------------------------

    async def test_a_collection_keeps_its_model(self, store: Store) -> None:
        """A collection is made once, told back as it is, and None before."""
        before = await store.collection("kept"), await store.collection_model("kept")
        made = await store.ensure_collection("kept", MODEL)
        again = await store.ensure_collection("kept", MODEL)

        assert before == (None, None)
        assert made == again == await store.collection("kept")
        assert made.model == await store.collection_model("kept") == MODEL
        assert made in await store.collections()

    @pytest.mark.parametrize(
        "other", [{"name": "n"}, {"revision": "r2"}, {"precision": "w8"}, {"dimension": 8}]
    )
    async def test_another_model_is_refused(self, store: Store, other: dict[str, Any]) -> None:
        """Vectors of two models cannot be compared, so a collection takes one only."""
        await store.ensure_collection("one-model", MODEL)
        fields = {name: getattr(MODEL, name) for name in MODEL.__struct_fields__} | other

        with pytest.raises(ModelMismatch):
            await store.ensure_collection("one-model", EmbeddingModel(**fields))

    @pytest.mark.parametrize(
        "name", ["", "A", "-a", "_a", "a b", "ä", "a" * 64, "a\n", "a:b", "a\0"]
    )
    async def test_an_odd_name_is_refused(self, store: Store, name: str) -> None:
        """A collection's name is part of ids and addresses, so it is plain."""
        with pytest.raises(BadInput):
            await store.ensure_collection(name, MODEL)

    async def test_collections_are_sorted_and_counted(self, store: Store) -> None:
        """Collections come by name, with what they hold."""
        for name in ("zeta", "alpha", "0"):
            await store.ensure_collection(name, MODEL)
        await store.replace_documents("zeta", [make_document("d", [QUERY, QUERY])])
        found = {info.name: info for info in await store.collections()}

        assert list(found) == sorted(found)
        assert (found["zeta"].documents, found["zeta"].chunks) == (1, 2)
        assert (found["alpha"].documents, found["alpha"].chunks) == (0, 0)

    async def test_collections_do_not_mix(self, store: Store) -> None:
        """The same id in two collections is two documents, also with two dimensions."""
        small = await _filled(store, make_document("d", [unit(1, 1, 0, 0)]))
        wide = EmbeddingModel(name="wide", dimension=6)
        await store.ensure_collection("wide", wide)
        await store.replace_documents("wide", [make_document("d", [unit(1, 0, 0, 0, 0, 1)])])
        hits = await _everything(store, small)
        texts = await store.chunk_texts("wide", [hits[0].chunk_id], EVERYTHING)

        assert [hit.chunk_id for hit in hits] == [f"urn:chunk:{small}:d:0"]
        assert texts == []

    # --- visibility --------------------------------------------------------------------------------

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
        name = await _filled(store, make_document("d", tags=tags))
        key = f"urn:chunk:{name}:d:0"
        expected = [key] if visible else []

        assert access.allows(tags) is visible
        assert [hit.chunk_id for hit in await _everything(store, name, access)] == expected
        assert [t.chunk_id for t in await store.chunk_texts(name, [key], access)] == expected
        assert await store.visible_chunks(name, [key], access) == frozenset(expected)

    @given(corpus=_corpus, access=_accesses, limit=st.integers(1, 12))
    @_on_one_store
    async def test_no_leak_and_nothing_missing(
        self, store: Store, corpus: Any, access: Access, limit: int
    ) -> None:
        """For any tags and any reader, results equal those of a store without the hidden documents."""
        documents = [make_document(f"d{n}", v, tags) for n, (tags, v) in enumerate(corpus)]
        name = await _filled(store, *documents)
        best = sorted(
            (-float(vector @ QUERY), f"urn:chunk:{name}:{one.draft.document_id}:{index}")
            for one in documents
            if access.allows(one.draft.tags)
            for index, vector in enumerate(one.vectors)
        )
        every = [f"urn:chunk:{name}:d{n}:{i}" for n, (_, v) in enumerate(corpus) for i in range(4)]
        visible = {key for _, key in best}
        hits = await store.search_dense(name, QUERY, limit=limit, access=access)
        texts = await store.chunk_texts(name, every, access)

        assert [hit.chunk_id for hit in hits] == [key for _, key in best[:limit]]
        assert [hit.dense_score for hit in hits] == [-score for score, _ in best[:limit]]
        assert [text.chunk_id for text in texts] == [key for key in every if key in visible]
        assert await store.visible_chunks(name, every, access) == visible

    @given(corpus=_corpus, later=st.lists(_tags, max_size=8), access=_accesses)
    @_on_one_store
    async def test_new_tags_hold_at_once(
        self, store: Store, corpus: Any, later: list[DocumentTags], access: Access
    ) -> None:
        """After tags are changed every read goes by the new ones, whatever they were before."""
        documents = [make_document(f"d{n}", v, tags) for n, (tags, v) in enumerate(corpus)]
        name = await _filled(store, *documents)
        changed = {f"d{n}": tags for n, tags in enumerate(later[: len(corpus)])}
        now = {one.draft.document_id: one.draft.tags for one in documents} | changed
        await store.retag_documents(name, changed)
        states = await store.document_states(name, list(now))
        seen = {one for one, tags in now.items() if access.allows(tags)}
        hits = await _everything(store, name, access)
        texts = await store.chunk_texts(name, [f"urn:chunk:{name}:{one}:0" for one in now], access)

        assert {one: state.tags for one, state in states.items()} == now
        assert set(ids_of(hits)) == seen
        assert {text.document_id for text in texts} == seen

    async def test_hidden_documents_take_no_place(self, store: Store) -> None:
        """The limit counts what is visible: better hidden chunks push nothing out."""
        hidden = [make_document(f"h{n}", tags=DocumentTags(("a",))) for n in range(50)]
        name = await _filled(store, *hidden, make_document("seen", [unit(1, 1, 0, 0)]))
        hits = await store.search_dense(name, QUERY, limit=1, access=Access.public())

        assert ids_of(hits) == ["seen"]
        assert hits[0].rank == 1

    async def test_hidden_and_missing_look_the_same(self, store: Store) -> None:
        """A hidden chunk is answered like one that does not exist."""
        name = await _filled(store, make_document("h", tags=DocumentTags(("a",))))
        keys = [f"urn:chunk:{name}:h:0", f"urn:chunk:{name}:nobody:0"]

        assert await store.chunk_texts(name, keys, Access.public()) == []
        assert await store.visible_chunks(name, keys, Access.public()) == frozenset()

    # --- ranking -----------------------------------------------------------------------------------

    async def test_ranking_is_by_cosine(self, store: Store) -> None:
        """Nearest first; `dense_score` is the cosine, `score` never negative, ranks count from 1."""
        directions = {"same": (1, 0), "near": (3, 4), "across": (0, 1), "against": (-1, 0)}
        name = await _filled(
            store, *(make_document(k, [unit(*v, 0, 0)]) for k, v in directions.items())
        )
        hits = await _everything(store, name)

        assert ids_of(hits) == list(directions)
        assert [hit.rank for hit in hits] == [1, 2, 3, 4]
        assert [hit.dense_score for hit in hits] == pytest.approx([1, 0.6, 0, -1], abs=1e-6)
        assert [hit.score for hit in hits] == pytest.approx([1, 0.6, 0, 0], abs=1e-6)

    async def test_ties_go_by_chunk_id(self, store: Store) -> None:
        """Equal scores are ordered by the code points of the id, also where the limit cuts."""
        ids = ["b", "a", "B", "ä", "a2", "a10", "😀", "\ufb01"]
        name = await _filled(store, *(make_document(one, [QUERY] * 2) for one in ids))
        everything = [hit.chunk_id for hit in await _everything(store, name)]

        assert everything == sorted(everything)
        for limit in range(1, len(everything) + 2):
            cut = await store.search_dense(name, QUERY, limit=limit, access=EVERYTHING)
            assert [hit.chunk_id for hit in cut] == everything[:limit]

    async def test_ties_do_not_depend_on_the_order_of_storing(self, store: Store) -> None:
        """A document that is stored again keeps its place among equals."""
        name = await _filled(store, *(make_document(one) for one in "abc"))
        await store.replace_documents(name, [make_document("a")])
        hits = await store.search_dense(name, QUERY, limit=2, access=EVERYTHING)

        assert ids_of(hits) == ["a", "b"]

    async def test_threshold_cuts_by_score(self, store: Store) -> None:
        """Only scores at or above the threshold are given; zero keeps everything."""
        vectors = [unit(1, 0, 0, 0), np.full(4, 0.5, np.float32), unit(-1, 0, 0, 0)]
        name = await _filled(store, make_document("d", vectors))

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
                await _everything(store, name)
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
        """A query or a document of another dimension names both and changes nothing."""
        name = await _filled(store, make_document("d"))

        with pytest.raises(ModelMismatch, match=r"3 dim.*4"):
            await store.search_dense(name, unit(1, 2, 3), limit=1, access=EVERYTHING)
        with pytest.raises(ModelMismatch, match=r"3 dim.*4"):
            await store.replace_documents(
                name, [make_document("new"), make_document("bad", [unit(1, 2, 3)])]
            )
        assert await store.document_ids(name) == ["d"]

    @pytest.mark.parametrize(
        "vector",
        [[0, 0, 0, 0], [2, 0, 0, 0], [np.nan, 0, 0, 0], [np.inf, 0, 0, 0], [[1, 0, 0, 0]]],
    )
    async def test_only_unit_vectors(self, store: Store, vector: list[Any]) -> None:
        """A vector that is not of length 1 has no cosine, so it is refused both ways."""
        name = await _filled(store)
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
        name = await _filled(store, make_document("d"))

        with pytest.raises(BadInput):
            await store.search_dense(
                name,
                QUERY,
                limit=options.get("limit", 1),
                access=EVERYTHING,
                threshold=options.get("threshold", 0.0),
            )

    async def test_a_huge_limit_gives_everything(self, store: Store) -> None:
        """The limit has no ceiling."""
        name = await _filled(store, make_document("d"))

        assert len(await store.search_dense(name, QUERY, limit=2**63, access=EVERYTHING)) == 1

    # --- texts -------------------------------------------------------------------------------------

    async def test_texts_carry_where_they_stand(self, store: Store) -> None:
        """A text comes with its source, its place and the document's own metadata."""
        chunk = ChunkDraft(content="Ünïcode\n", heading="H", section_path="T > H", start=3, end=11)
        draft = DocumentDraft(
            document_id="d.md",
            chunks=(chunk,),
            title="T",
            source_file="docs/d.md",
            source_url="https://example.org/d",
            metadata={"year": 2024, "tags": ["a", {"b": None}], "ratio": 0.1},
        )
        name = await _filled(
            store, EmbeddedDocument(draft=draft, vectors=np.array([QUERY], np.float32))
        )
        (text,) = await store.chunk_texts(name, [f"urn:chunk:{name}:d.md:0"], Access.public())

        assert text.content == "Ünïcode\n"
        assert text.document_id == "d.md"
        assert text.digest == "7f9e599fa8db06cd310fc653158af0b80a33e0a944e66a9257b6d8d6a7dd2fb9"
        assert text.metadata == {
            "year": 2024,
            "tags": ["a", {"b": None}],
            "ratio": 0.1,
            "title": "T",
            "source_file": "docs/d.md",
            "source_url": "https://example.org/d",
            "section_path": "T > H",
            "header_path": "T > H",
            "heading": "H",
            "chunk_index": 0,
        }

    async def test_texts_come_in_the_order_asked(self, store: Store) -> None:
        """The order of the ids is the order of the texts; what is missing is left out."""
        name = await _filled(store, *(make_document(one, [QUERY] * 2) for one in "abc"))
        keys = [f"urn:chunk:{name}:{place}" for place in ("c:1", "x:0", "a:0", "a:2", "b:1", "a:1")]
        texts = await store.chunk_texts(name, [*keys, "", "no id", "a\0", "\ud800"], EVERYTHING)

        assert [text.chunk_id for text in texts] == [keys[0], keys[2], keys[4], keys[5]]

    async def test_every_id_can_be_stored_and_found(self, store: Store) -> None:
        """Ids of any characters are distinct documents and come back as they were."""
        name = await _filled(store, *(make_document(one) for one in ODD_IDS))
        hits = await _everything(store, name)
        texts = await store.chunk_texts(name, [hit.chunk_id for hit in hits], EVERYTHING)

        assert sorted(ids_of(hits)) == sorted(ODD_IDS)
        assert [text.content for text in texts] == [f"{one} part 0" for one in ids_of(hits)]
        assert await store.document_ids(name) == sorted(ODD_IDS)
        assert len(await store.document_states(name, ODD_IDS)) == len(ODD_IDS)

    @given(metadata=st.dictionaries(_text, _metadata, max_size=4))
    @_on_one_store
    async def test_metadata_comes_back(self, store: Store, metadata: dict[str, Any]) -> None:
        """Any JSON object is given back equal; whole floats are exact up to 2**53."""
        name = await _filled(store, make_document("d", metadata=metadata))
        (text,) = await store.chunk_texts(name, [f"urn:chunk:{name}:d:0"], EVERYTHING)

        assert {key: text.metadata[key] for key in metadata} == metadata

    # --- writing -----------------------------------------------------------------------------------

    async def test_replacing_leaves_nothing_behind(self, store: Store) -> None:
        """A document that got shorter has no old chunks, and other documents stay."""
        name = await _filled(store, make_document("d", [QUERY] * 5), make_document("e"))
        await store.replace_documents(name, [make_document("d", [QUERY] * 2, digest="new")])
        info = await store.collection(name)

        assert ids_of(await _everything(store, name)) == ["d", "d", "e"]
        assert (await store.document_states(name, ["d"]))["d"].digest == "new"
        assert info is not None
        assert (info.documents, info.chunks) == (2, 3)

    async def test_replacing_twice_changes_nothing(self, store: Store) -> None:
        """The same call again leaves the same contents."""
        documents = [make_document("d", [QUERY] * 2), make_document("e")]
        name = await _filled(store, *documents)
        before = await _everything(store, name)
        await store.replace_documents(name, documents)

        assert await _everything(store, name) == before

    async def test_a_document_may_have_no_chunks(self, store: Store) -> None:
        """A document without text is known and found by nobody."""
        name = await _filled(store, make_document("empty", []))

        assert (await store.document_states(name, ["empty"]))["empty"].chunks == 0
        assert await _everything(store, name) == []

    @pytest.mark.parametrize(
        "bad",
        [
            make_document(""),
            make_document("a\0b"),
            make_document("\ud800"),
            make_document("x" * 2001),
            make_document("d", title="\0"),
            make_document("d", source_file="\udfff"),
            make_document("d", metadata={"k": "a\0"}),
            make_document("d", metadata={"a\0": 1}),
            make_document("d", metadata={"k": [float("nan")]}),
            make_document("d", metadata={"k": {1}}),
            make_document("d", tags=DocumentTags(("\ud800",))),
            EmbeddedDocument(draft=make_document("d").draft, vectors=np.zeros((2, 4), np.float32)),
            EmbeddedDocument(
                draft=DocumentDraft(document_id="d", chunks=(ChunkDraft(content="\0"),)),
                vectors=np.array([QUERY]),
            ),
        ],
        ids=range(13),
    )
    async def test_what_cannot_be_stored_stores_nothing(
        self, store: Store, bad: EmbeddedDocument
    ) -> None:
        """One bad document refuses the whole call, and says so before anything is written."""
        name = await _filled(store)

        with pytest.raises(BadInput):
            await store.replace_documents(name, [make_document("good"), bad])
        assert await store.document_ids(name) == []

    async def test_an_id_twice_in_one_call_is_refused(self, store: Store) -> None:
        """Which of two would win must not be left to chance."""
        name = await _filled(store)

        with pytest.raises(BadInput, match="twice"):
            await store.replace_documents(name, [make_document("d"), make_document("d")])

    async def test_retagging_embeds_nothing(self, store: Store) -> None:
        """New tags leave texts, vectors and digest alone; unknown documents are left out."""
        name = await _filled(store, make_document("d", [QUERY, unit(1, 1, 0, 0)], digest="same"))
        before = await _everything(store, name)
        tags = DocumentTags(("b",), ("y",), 2)
        await store.retag_documents(name, {"d": tags, "unknown": tags, "\0": tags})
        states = await store.document_states(name, ["d", "unknown", "\0"])

        assert await _everything(store, name) == before
        assert list(states) == ["d"]
        assert (states["d"].digest, states["d"].tags) == ("same", tags)

    async def test_a_source_digest_is_noted_and_forgotten_with_the_tags(self, store: Store) -> None:
        """It is kept as it was given or noted later; it vouches for the tags, so new ones forget it."""
        name = await _filled(store, make_document("d", source_digest="one"), make_document("e"))
        await store.note_sources(name, {"e": "two", "unknown": "x", "\0": "x"})
        await store.note_sources("nowhere", {"d": "x"})
        noted = await store.document_states(name, ["d", "e"])
        await store.retag_documents(name, {"d": DocumentTags(("b",)), "e": noted["e"].tags})
        states = await store.document_states(name, ["d", "e"])

        known = await store.source_digests(name, ["d", "e", "unknown", "\0"])

        assert known == {"e": "two"}
        assert await store.source_digests("nowhere", ["d"]) == {}
        assert {one: state.source_digest for one, state in noted.items()} == {
            "d": "one",
            "e": "two",
        }
        assert {one: state.source_digest for one, state in states.items()} == {"d": "", "e": "two"}

    async def test_a_page_is_told_with_the_text(self, store: Store) -> None:
        """A chunk of a document with pages carries its own; others carry none."""
        chunks = tuple(ChunkDraft(content=f"text {page}", page=page) for page in (7, 0))
        name = await _filled(
            store,
            EmbeddedDocument(
                draft=DocumentDraft(document_id="d", chunks=chunks),
                vectors=np.array([QUERY] * 2, np.float32),
            ),
        )
        keys = [f"urn:chunk:{name}:d:{index}" for index in (0, 1)]
        texts = await store.chunk_texts(name, keys, Access.public())

        assert [text.metadata.get("page") for text in texts] == [7, None]

    async def test_removing_takes_everything(self, store: Store) -> None:
        """A removed document is in no read; removing it again counts nothing."""
        name = await _filled(store, make_document("d", [QUERY] * 3), make_document("e"))
        removed = await store.remove_documents(name, ["d", "unknown", "d", "\0"])
        info = await store.collection(name)

        assert removed == 1
        assert await store.remove_documents(name, ["d"]) == 0
        assert ids_of(await _everything(store, name)) == ["e"]
        assert await store.chunk_texts(name, [f"urn:chunk:{name}:d:0"], EVERYTHING) == []
        assert info is not None
        assert (info.documents, info.chunks) == (1, 1)

    async def test_erasing_leaves_nothing_for_later(self, store: Store) -> None:
        """What was found of a document is zero afterwards, postings of old segments included; others stay."""
        others = [make_document(f"other{n}") for n in range(20)]
        name = await _filled(store, make_document("d", [QUERY] * 3), *others)
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
        assert sorted(ids_of(await _everything(store, name))) == left
        assert sorted(ids_of(found)) == left

    async def test_ids_by_prefix(self, store: Store) -> None:
        """A prefix is plain text, not a pattern."""
        ids = ["a%", "a%b", "ab", "a_", "A%", "b"]
        name = await _filled(store, *(make_document(one) for one in ids))

        assert await store.document_ids(name) == sorted(ids)
        assert await store.document_ids(name, prefix="a%") == ["a%", "a%b"]
        assert await store.document_ids(name, prefix="\0") == []

    async def test_writers_take_turns(self, store: Store) -> None:
        """Many writers of the same documents at once leave one whole version of each."""
        name = await _filled(store)

        async def write(version: int) -> None:
            tags = DocumentTags((f"t{version}",))
            ids = ["a", "b", "c"] if version % 2 else ["c", "b", "a"]
            vectors = [QUERY] * (version % 3 + 1)
            await store.replace_documents(
                name, [make_document(one, vectors, tags, digest=str(version)) for one in ids]
            )
            await store.retag_documents(name, dict.fromkeys(ids[::-1], tags))

        await asyncio.gather(*(write(version) for version in range(8)))
        states = await store.document_states(name, ["a", "b", "c"])
        reader = Access(frozenset(f"t{version}" for version in range(8)))
        hits = await _everything(store, name, reader)

        assert len({state.digest for state in states.values()}) == 1
        assert len(hits) == sum(state.chunks for state in states.values())

    # --- traces ------------------------------------------------------------------------------------

    async def test_a_trace_comes_back_as_it_was(self, store: Store) -> None:
        """Every field of a trace is kept; None is told from an empty text."""
        record = sample(TraceRecord)
        fields = {name: getattr(record, name) for name in record.__struct_fields__}
        bare = _trace("bare", events=(ExplainEvent(
            answer_id="bare", stage="question", sequence=0, explain_id="urn:q", triples=(
                Triple(iri("urn:s"), iri("urn:p"), literal(""), None),
                Triple(iri("urn:s"), iri("urn:p"), literal("3", "urn:int"), ""),
                Triple(iri("urn:s"), iri("urn:p"), iri(""), "urn:graph"),
            )),))  # fmt: skip
        full = TraceRecord(**(fields | {"events": bare.events}))

        for one in (full, bare):
            assert await store.record_trace(one)
            stored = await store.trace(one.answer_id)
            assert stored is not None
            assert stored.record == one
            assert stored.recorded_at.endswith("+00:00")

    @given(
        question=_text,
        events=st.lists(_events, max_size=3).map(tuple),
        options=st.dictionaries(_text, _json, max_size=3),
        answer=st.none() | st.builds(Answer, answer_id=_text, question=_text, text=_text),
    )
    @_on_one_store
    async def test_any_trace_comes_back(
        self, store: Store, question: str, events: Any, options: Any, answer: Any
    ) -> None:
        """Whatever texts, terms and settings a trace has, it is given back equal."""
        record = _trace(
            f"any-{next(_numbers)}",
            question=question,
            events=events,
            settings=options,
            answer=answer,
        )
        await store.record_trace(record)
        stored = await store.trace(record.answer_id)

        assert stored is not None
        assert stored.record == record

    async def test_a_trace_is_recorded_once(self, store: Store) -> None:
        """The first record of an answer stays, however many come at once."""
        written = await asyncio.gather(
            *(store.record_trace(_trace("once", question=f"q{n}")) for n in range(6))
        )
        first = await store.trace("once")
        again = await store.record_trace(_trace("once", question="late"))

        assert sorted(written) == [False] * 5 + [True]
        assert again is False
        assert first is not None
        assert await store.trace("once") == first

    @pytest.mark.parametrize(
        "record",
        [
            _trace(""),
            _trace("a\0"),
            _trace("bad", question="\0"),
            _trace("bad", question="\ud800"),
            _trace("bad", settings={"k": float("inf")}),
            _trace("bad", answer=Answer(answer_id="x", question="q", text="\0")),
            *(
                _trace("bad", events=(ExplainEvent(
                    answer_id="bad", stage="s", sequence=0, explain_id="e", triples=(triple,)
                ),))
                for triple in (
                    Triple(literal("s"), iri("p"), iri("o")),
                    Triple(iri("s"), literal("p"), iri("o")),
                    Triple(iri("s"), iri("p"), Term("i", "o", "and a value")),
                    Triple(iri("s"), iri("p"), Term("l", "iri", "value")),
                    Triple(iri("s"), iri("p"), literal("a\0")),
                    Triple(iri("s"), iri("p"), iri("o"), "\0"),
                )
            ),
        ],
        ids=range(12),
    )  # fmt: skip
    async def test_a_trace_that_would_change_is_refused(
        self, store: Store, record: TraceRecord
    ) -> None:
        """What could not be given back as it is, is not taken, and leaves nothing behind."""
        with pytest.raises(BadInput):
            await store.record_trace(record)
        assert await store.trace(record.answer_id) is None

    async def test_a_rewritten_trace_takes_the_place_of_the_old(self, store: Store) -> None:
        """The new content under the old id and time; a trace that was never recorded is not made."""
        name = f"rewritten-{next(_numbers)}"
        await store.record_trace(_trace(name, question="before"))
        former = await store.trace(name)
        done = await store.rewrite_trace(_trace(name, question="after"))
        stored = await store.trace(name)

        assert done
        assert former is not None
        assert stored is not None
        assert (stored.record.question, stored.recorded_at) == ("after", former.recorded_at)
        assert not await store.rewrite_trace(_trace(f"{name}-never"))
        assert await store.trace(f"{name}-never") is None

    @pytest.mark.parametrize("document_id", ["a.md", "b c/ü.md", "100%"])
    async def test_traces_about_a_document(self, store: Store, document_id: str) -> None:
        """Named by a chunk, by its id or in a citation; other documents and collections do not count."""
        name = await _filled(store, make_document(document_id, [QUERY]), make_document("z.md"))
        mine = (await _everything(store, name))[0].chunk_id
        told = {
            "chunk": (iri(mine), ()),
            "literal": (literal(document_id), ()),
            "cited": (literal("x"), (Citation(marker=1, chunk_id=mine, document_id=document_id),)),
            "other": (iri(f"{mine[:-2]}x:0"), ()),
            "longer": (literal(f"{document_id}x"), ()),
        }
        for kind, (term, citations) in told.items():
            await store.record_trace(_told(f"{name}-{kind}", name, term, citations))
        await store.record_trace(_told(f"{name}-elsewhere", "elsewhere", iri(mine), ()))

        about = await store.traces_about(name, document_id)

        assert about == [f"{name}-{kind}" for kind in ("chunk", "cited", "literal")]
        assert await store.traces_about("no-such", document_id) == []

    async def test_the_overview_counts_questions(self, store: Store) -> None:
        """A question that was recorded is counted, and the last one is dated."""
        before = await store.overview()
        await store.record_trace(_trace(f"counted-{next(_numbers)}"))
        after = await store.overview()

        assert after.questions == before.questions + 1
        assert after.asked_at >= before.asked_at
        assert after.asked_at.endswith("+00:00")
        assert after.server

    async def test_known_chunks_are_those_that_exist(self, store: Store) -> None:
        """Hidden ones are known too, removed and foreign ones are not."""
        secret = make_document("secret.md", [QUERY], tags=DocumentTags(("a",)))
        name = await _filled(store, secret, make_document("gone.md", [QUERY]))
        ids = [candidate.chunk_id for candidate in await _everything(store, name)]
        await store.remove_documents(name, ["gone.md"])

        known = await store.known_chunks(name, [*ids, "nonsense", f"urn:chunk:{name}:x:0"])

        assert known == {one for one in ids if "secret" in one}
        assert await store.known_chunks("no-such", ids) == frozenset()

    async def test_latest_traces_come_first(self, store: Store) -> None:
        """The latest traces, newest first, each whole; none for an id that does not exist."""
        for number in range(5):
            events = (ExplainEvent(
                answer_id=f"t{number}", stage="question", sequence=0, explain_id=f"urn:{number}",
                triples=(Triple(iri("urn:s"), iri("urn:p"), literal(str(number))),),
            ),)  # fmt: skip
            await store.record_trace(_trace(f"t{number}", events=events))
        latest = await store.recent_traces(3)

        assert [one.record.answer_id for one in latest] == ["t4", "t3", "t2"]
        assert latest[0] == await store.trace("t4")
        assert await store.trace("t9") is None
        assert await store.trace("\0") is None
        with pytest.raises(BadInput):
            await store.recent_traces(0)
