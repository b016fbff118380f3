"""Hidden documents change nothing of what a reader gets, as tests: subclass `HiddenSuite`, give it a `store`.

Needs pytest, pytest-asyncio in auto mode and hypothesis.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from whence.processors.search import SearchParameters, SearchProcessor
from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import SearchRequest
from whence.store.protocols import ChunkStore, EmbeddedDocument
from whence.testing.store_samples import on_one_store, serial_numbers, unit
from whence.testing.stub_context import StubContext

MODEL = EmbeddingModel(name="hidden", dimension=3)
READER = Access(frozenset({"a"}), frozenset(), 1)
_SEEN = (DocumentTags(), DocumentTags(("a",)), DocumentTags(("a", "b"), (), 1))
_HIDDEN = (DocumentTags(("b",)), DocumentTags(("a",), ("x",)), DocumentTags((), (), 2))

_TITLES = ("Red Fox", "Fox", "Blue Lake", "Der Wald", "")
_PIECES = (
    "red fox", "blue lake", "the wood", "of", "canary", "running", "runs", "Häuser im Wald", "der und die",
    "das ist nicht", "parseHTTPResponse", "net.core_v2", "maker",
)  # fmt: skip
_text = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=12).map(" ".join)
_metadata = st.fixed_dictionaries(
    {}, optional={"year": st.integers(1998, 2003), "team": st.sampled_from(["red", "blue"])}
)
_vector = st.tuples(*[st.integers(-3, 3)] * 3).filter(any)
_document = st.tuples(
    st.sampled_from(_TITLES),
    st.lists(st.tuples(_text, _vector), min_size=1, max_size=2),
    st.integers(0, 2),
    _metadata,
)
_seen = st.lists(_document, min_size=1, max_size=6)
_hidden = st.lists(_document, min_size=1, max_size=6)
_asked = st.tuples(
    st.lists(
        st.sampled_from([*_PIECES, "laufen", "unseen", "canrys", "mkaer", "rnning"]),
        min_size=1,
        max_size=4,
    ).map(" ".join),
    _vector,
    st.integers(1, 9),
    st.sampled_from([0.0, 0.0, 0.3]),
    st.sampled_from(
        [{}, {}, {"year": {"gte": 2000}}, {"team": ["red", "green"]}, {"secret": "canary"}]
    ),
)
#: Ways to search, and settings of the passage graph.
_WAYS: tuple[tuple[dict[str, Any], Literal["auto", "on"]], ...] = (
    ({"mode": "dense"}, "auto"),
    ({"mode": "bm25"}, "auto"),
    ({"mode": "bm25", "match": "all"}, "auto"),
    ({"mode": "hybrid", "match": "all"}, "auto"),
    ({"mode": "hybrid"}, "auto"),
    ({"mode": "hybrid"}, "on"),
)


def _stored(prefix: str, some: Any, tags: tuple[DocumentTags, ...]) -> list[EmbeddedDocument]:
    own = {"secret": "canary"} if tags is _HIDDEN else {}
    return [
        EmbeddedDocument(
            draft=DocumentDraft(
                document_id=f"{prefix}{n}",
                title=title,
                chunks=tuple(ChunkDraft(content=text) for text, _ in chunks),
                tags=tags[which],
                metadata=metadata | own,
            ),
            vectors=np.stack([unit(*vector) for _, vector in chunks]),
        )
        for n, (title, chunks, which, metadata) in enumerate(some)
    ]


async def _seen_by_reader(store: ChunkStore, collection: str, asked: Any) -> list[bytes]:
    """Return everything that a reader sees, in every mode, each from a store without caches."""
    text, vector, limit, threshold, filters = asked
    answers = []
    for way, graph in _WAYS:
        processor = SearchProcessor(SearchParameters(passage_graph=graph), store=store)
        request = SearchRequest(
            access=READER,
            collection=collection,
            limit=limit,
            vector=unit(*vector).tobytes(),
            query_text=text,
            threshold=threshold,
            filters=filters,
            spelling=True,
            **way,
        )
        try:
            found = msgspec.json.encode(await processor.handle(request, StubContext()))
        except BadInput as error:
            found = f"{error.message} {error.hint}".encode()
        answers.append(found.replace(collection.encode(), b"collection"))
    return answers


class HiddenSuite:
    """Hidden documents change nothing that a reader sees."""

    @given(seen=_seen, before=_hidden, after=_hidden, again=_hidden, asked=_asked)
    @example(
        seen=[
            ("Red Fox", [("red fox", (1, 0, 0)), ("the wood", (0, 1, 0))], 0, {}),
            ("Der Wald", [("der und die das ist nicht Häuser im Wald", (0, 0, 1))], 0, {}),
        ],
        before=[("Fox", [("maker", (1, 0, 0))], 0, {})],
        after=[("Fox", [("canary", (1, 0, 0))], 0, {})],
        again=[("Fox", [("maker", (1, 0, 0))], 1, {})],
        # Of its words a hidden document alone has one that is no function word in a language of the reader.
        asked=("unseen das ist nicht maker", (1, 0, 0), 3, 0.0, {}),
    )
    @settings(on_one_store, max_examples=20)
    async def test_hidden_documents_change_nothing(
        self, store: ChunkStore, seen: Any, before: Any, after: Any, again: Any, asked: Any
    ) -> None:
        """Ids, scores, order, counts and errors are those of a collection that never had them, in every mode.

        Hidden documents are stored before or after the visible ones, stored again, retagged, or removed.
        """
        alone, beside = (f"hidden-{next(serial_numbers)}" for _ in range(2))
        for name in (alone, beside):
            await store.ensure_collection(name, MODEL)
        await store.replace_documents(alone, _stored("v", seen, _SEEN))
        right = await _seen_by_reader(store, alone, asked)

        await store.replace_documents(beside, _stored("h", before, _HIDDEN))
        await store.replace_documents(beside, _stored("v", seen, _SEEN))
        assert await _seen_by_reader(store, beside, asked) == right
        await store.replace_documents(beside, _stored("k", after, _HIDDEN))
        await store.replace_documents(beside, _stored("h", again, _HIDDEN))
        assert await _seen_by_reader(store, beside, asked) == right
        await store.retag_documents(beside, {"h0": _HIDDEN[asked[2] % 3]})
        await store.remove_documents(beside, [f"k{n}" for n in range(len(after))])
        assert await _seen_by_reader(store, beside, asked) == right
