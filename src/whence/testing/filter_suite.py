"""What every store must do with filters, as tests: subclass `FilterSuite` and give it a `store` fixture.

Needs pytest, pytest-asyncio in auto mode and hypothesis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput
from whence.schema.filters import parse_filter_options, parse_filters
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.protocols import ChunkStore, EmbeddedDocument
from whence.testing.store_samples import QUERY, fill_collection, on_one_store

PUBLIC = Access.public()

#: What documents state in the examples below, by their ids.
BOOKS: dict[str, dict[str, Any]] = {
    "guides/first.md": {"lang": "en", "year": 2019, "day": "2024-05-31", "tag": ["a", "b"]},
    "guides/second.md": {"lang": "de", "year": 2020.0, "day": "2024-06-01T08:30:00Z", "tag": "b"},
    "guidesX/third.md": {"lang": "EN", "year": "2020", "day": "31 May", "done": True},
    "notes/100%_sure.md": {"lang": None, "year": 2021.5, "done": "true", "who": {"name": "x"}},
    "notes/long.md": {
        "lang": "x" * 5000,
        "tag": [],
        "year": 10**30,
        "day": "2024-05-30T23:00:00-02:00",
    },
}

CASES: dict[str, set[str]] = {
    "lang=en": {"first"},
    "lang=en,de": {"first", "second"},
    'lang="en","EN"': {"first", "third"},
    "lang=" + "x" * 5000: {"long"},
    "lang=" + "x" * 4999: set(),
    "lang^=" + "x" * 200: {"long"},
    "tag=b": {"first", "second"},
    "tag=a,b": {"first", "second"},
    "year=2020": {"second", "third"},
    "year=2019..2020": {"first", "second"},
    "year>2019": {"second", "100%_sure", "long"},
    "year>=2020": {"second", "100%_sure", "long"},
    "year<2020": {"first"},
    "year<=2020.0": {"first", "second"},
    "year=2021.5": {"100%_sure"},
    "day=2024-05-31..2024-05-31": {"first", "long"},
    "day>2024-05-31": {"second"},
    "day>=2024-06-01T08:30:00Z": {"second"},
    "day<2024-06-01T10:30:00+02:00": {"first", "long"},
    "day=..2024-05-30": set(),
    "done=true": {"third", "100%_sure"},
    "document_id^=guides/": {"first", "second"},
    "source_file^=guides": {"first", "second", "third"},
    "document_id^=notes/100%": {"100%_sure"},
    "document_id^=notes/_": set(),
    "document_id=guides/first.md": {"first"},
    "document_id=guides/first.md," + "x" * 300: {"first"},
    "title=The first": {"first"},
    "heading=Part 1": {"first", "second", "third", "100%_sure", "long"},
    "heading^=Part 9": set(),
    "chunk_index=0": {"first", "second", "third", "100%_sure", "long"},
    "chunk_index>0": {"first", "second", "third", "100%_sure", "long"},
    "chunk_index>1": set(),
    "who=x": set(),
    "lang!=en": {"second", "third", "100%_sure", "long"},
    "tag!=a,b": {"third", "100%_sure", "long"},
    "heading!=Part 1": {"first", "second", "third", "100%_sure", "long"},
    "chunk_index!=0,1": set(),
    '{"or": [{"lang": "de"}, {"year": {"lt": 2020}}]}': {"first", "second"},
    '{"or": [{"lang": "de"}, {"not": {"document_id": {"prefix": "guides"}}}]}': {
        "second",
        "100%_sure",
        "long",
    },
    '{"and": [{"tag": "a"}, {"tag": "b"}]}': {"first"},
    '{"not": {"or": [{"lang": "en"}, {"not": {"tag": "b"}}]}}': {"second"},
    '{"not": {"lang": "en", "year": 2020}}': {"first", "second", "third", "100%_sure", "long"},
}

UNKNOWN = (
    "nothing=1",
    "acl=a",
    "clearance>=0",
    "labels=x",
    "secret_key=1",
    "lang'; DROP TABLE chunk --=1",
    "nothing!=1",
    '{"or": [{"lang": "en"}, {"secret_key": 1}]}',
)

_values = st.sampled_from([
    "a", "b", "ab", "1", 1, 1.0, 2, -3.5, True, False, "true", "2024-01-01", "2024-01-01T10:00", None, ["a", 2],
])  # fmt: skip
_metadata = st.dictionaries(st.sampled_from(["k", "m"]), _values, max_size=2)
_tags = st.builds(DocumentTags, st.lists(st.sampled_from(["a", "b"]), max_size=1))
_corpus = st.lists(st.tuples(_tags, _metadata), max_size=6)
_conditions = st.one_of(
    st.sampled_from(["a", "ab", "1", 1, 2, -3.5, True, "true", "2024-01-01"]),
    st.lists(st.sampled_from(["a", "b", 1, False]), min_size=1, max_size=3),
    st.fixed_dictionaries({"prefix": st.sampled_from(["a", "ab", "2024-", "1"])}),
    st.dictionaries(
        st.sampled_from(["gte", "lt"]), st.sampled_from([-3.5, 1, 1.5, 2]), min_size=1, max_size=2
    ),
    st.dictionaries(
        st.sampled_from(["gt", "lte"]), st.sampled_from(["2024-01-01", "2023-12-31"]), min_size=1
    ),
)
_joined = st.recursive(
    st.dictionaries(st.sampled_from(["k", "m"]), _conditions, min_size=1, max_size=2),
    lambda part: st.one_of(
        st.fixed_dictionaries({"not": part}),
        st.fixed_dictionaries({"or": st.lists(part, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"and": st.lists(part, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"k": _conditions, "not": part}),
    ),
    max_leaves=4,
)


def _document(
    document_id: str, metadata: dict[str, Any], tags: DocumentTags | None = None
) -> EmbeddedDocument:
    chunks = tuple(
        ChunkDraft(
            content=f"common words of part {n}", heading=f"Part {n}", section_path=f"Book > {n}"
        )
        for n in (1, 2)
    )
    draft = DocumentDraft(
        document_id=document_id,
        chunks=chunks,
        title=f"The {_short(document_id)}",
        source_file=document_id,
        metadata=metadata,
        tags=tags or DocumentTags(),
    )
    return EmbeddedDocument(draft=draft, vectors=np.array([QUERY, QUERY]))


def _short(document_id: str) -> str:
    return document_id.partition("/")[2].removesuffix(".md")


async def _both_retrievers(
    store: ChunkStore, collection: str, filters: Any, access: Access
) -> set[str]:
    """Return the documents that match a filter in both retrievers, which must agree and fill their limit."""
    parsed = parse_filters(filters)
    dense = await store.search_dense(collection, QUERY, limit=100, access=access, filters=parsed)
    lexical = await store.search_lexical(
        collection, "common words", limit=100, access=access, filters=parsed
    )
    first = await store.search_dense(collection, QUERY, limit=1, access=access, filters=parsed)

    assert {one.chunk_id for one in dense} == {one.chunk_id for one in lexical}
    assert [one.chunk_id for one in first] == [one.chunk_id for one in dense[:1]]
    return {one.document_id for one in dense}


class FilterSuite:
    """Behaviours of a store that narrows by metadata."""

    async def _filled(self, store: ChunkStore) -> str:
        hidden = {"lang": "en", "secret_key": 1}
        return await fill_collection(
            store,
            *(_document(one, metadata) for one, metadata in BOOKS.items()),
            _document("guides/hidden.md", hidden, DocumentTags(("hr",))),
        )

    async def test_conditions_match_by_type(self, store: Any) -> None:
        """Values are typed, lists are any-of, ranges take numbers and dates, prefixes are literal."""
        name = await self._filled(store)
        for option, expected in CASES.items():
            found = await _both_retrievers(store, name, parse_filter_options([option]), PUBLIC)

            assert {_short(one) for one in found} == expected, option

    async def test_conditions_are_joined_by_and(self, store: Any) -> None:
        """Several conditions intersect, also on one key."""
        name = await self._filled(store)
        filters = parse_filter_options(
            ["year>=2019", "year<2021", "document_id^=guides/", "tag=b", "tag=a"]
        )

        assert await _both_retrievers(store, name, filters, PUBLIC) == {"guides/first.md"}

    @pytest.mark.parametrize("option", UNKNOWN)
    async def test_unknown_keys_are_refused(self, store: Any, option: str) -> None:
        """The error lists the known keys; a key that only hidden documents have is unknown."""
        name = await self._filled(store)
        with pytest.raises(BadInput, match="no document here has it") as caught:
            await _both_retrievers(store, name, parse_filter_options([option]), PUBLIC)

        assert "document_id" in caught.value.hint
        assert "lang" in caught.value.hint
        assert "secret" not in caught.value.hint

    async def test_rights_and_filter_are_applied_together(self, store: Any) -> None:
        """A filter only removes results; a hidden document stays hidden."""
        name = await self._filled(store)
        hr = Access({"hr"})

        assert await _both_retrievers(store, name, {"lang": "en"}, hr) == {
            "guides/first.md",
            "guides/hidden.md",
        }
        assert await _both_retrievers(store, name, {"secret_key": 1}, hr) == {"guides/hidden.md"}
        await store.retag_documents(name, {"guides/hidden.md": DocumentTags(("ops",))})
        assert await _both_retrievers(store, name, {"lang": "en"}, hr) == {"guides/first.md"}

    async def test_metadata_follows_the_document(self, store: Any) -> None:
        """A document that is replaced or removed leaves no indexed metadata."""
        name = await self._filled(store)
        await store.replace_documents(name, [_document("guides/first.md", {"lang": "fr"})])
        await store.remove_documents(name, ["guides/second.md"])

        assert await _both_retrievers(store, name, {"lang": "fr"}, PUBLIC) == {"guides/first.md"}
        assert await _both_retrievers(store, name, {"lang": ["en", "de"]}, PUBLIC) == set()

    @given(_corpus, _joined, st.sampled_from([PUBLIC, Access({"a"})]))
    @on_one_store
    async def test_filters_equal_a_scan(
        self, store: Any, corpus: list[Any], filters: dict[str, Any], access: Access
    ) -> None:
        """A filter keeps exactly the visible documents whose metadata match."""
        documents = [
            _document(f"d{n}", metadata, tags) for n, (tags, metadata) in enumerate(corpus)
        ]
        name = await fill_collection(store, *documents)
        visible = [one.draft for one in documents if access.allows(one.draft.tags)]
        expected = {one.document_id for one in visible if _holds(filters, one.metadata)}
        try:
            found = await _both_retrievers(store, name, filters, access)
        except BadInput:
            assert any(all(key not in one.metadata for one in visible) for key in _keys(filters))
        else:
            assert found == expected


def _holds(filters: dict[str, Any], metadata: dict[str, Any]) -> bool:
    def one(key: str, value: Any) -> bool:
        if key == "not":
            return not _holds(value, metadata)
        if key in ("or", "and"):
            return (any if key == "or" else all)(_holds(part, metadata) for part in value)
        return _matches(value, metadata.get(key))

    return all(one(key, value) for key, value in filters.items())


def _keys(filters: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for key, value in filters.items():
        parts = [value] if key == "not" else value if key in ("or", "and") else []
        found |= set().union(*map(_keys, parts)) if parts else {key}
    return found


def _matches(condition: Any, stated: Any) -> bool:
    values = stated if isinstance(stated, list) else [stated]
    if isinstance(condition, dict):
        return any(all(_end(op, end, one) for op, end in condition.items()) for one in values)
    wanted = condition if isinstance(condition, list) else [condition]
    return any(
        one is not None and _kind(one) == _kind(other) and one == other
        for one in values
        for other in wanted
    )


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "flag"
    return "text" if isinstance(value, str) else "number"


def _end(operator: str, end: Any, one: Any) -> bool:
    if operator == "prefix":
        return isinstance(one, str) and one.startswith(end)
    if isinstance(end, str):
        # The only dates in these examples are a day and a time on that day.
        if not isinstance(one, str) or not one.startswith("2024-"):
            return False
        day = one[:10]
        return day > end if operator == "gt" else day <= end
    if _kind(one) != "number" or one is None:
        return False
    return bool(one >= end) if operator == "gte" else bool(one < end)
