"""Contract of the names of collections; part of `store_suite`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest

from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import Citation
from whence.schema.errors import BadInput, NotFound
from whence.schema.terms import iri
from whence.store.chunk_ids import chunk_key
from whence.store.protocols import ErasedMeanwhile, Store
from whence.store.source_states import SourceFileState, SourceRoot
from whence.testing.store_samples import (
    EVERYTHING,
    fill_collection,
    make_document,
    make_trace,
    make_trace_with_term,
    search_all,
)

_END = datetime(2999, 1, 1, tzinfo=UTC)


class RenamingSuite:
    """A collection gets another name with all that goes by its name, or nothing of it."""

    async def test_all_of_a_collection_goes_by_its_new_name(self, store: Store) -> None:
        """Ranking, rights, roots, states, log and answers are those of before; again changes nothing."""
        tags = DocumentTags(("a",))
        former = await fill_collection(
            store, make_document("a.md", root="r"), make_document("b.md", root="r", tags=tags)
        )
        other = await fill_collection(store, make_document("a.md"))
        name = f"{former}-new"
        await store.add_root(former, "r", "/r")
        await store.note_files(former, [SourceFileState(root="r", path="c.bin", state="skipped")])
        key = chunk_key(former, "a.md", 0)
        cited = Citation(marker=1, chunk_id=key, document_id="a.md")
        asked = json.dumps({"question": key, "collection": former})
        trace = make_trace_with_term("renamed-1", former, iri(key), (cited,))
        await store.record_trace(trace)
        await store.record_trace(
            make_trace("renamed-2", collection=former, question=key, settings={"operation": asked})
        )
        await store.record_trace(make_trace_with_term("renamed-3", other, iri(key), ()))
        ranked = [(one.document_id, one.score) for one in await search_all(store, former)]
        changes = await store.changes(former, EVERYTHING)

        assert await store.rename_collection(former, name) == 2
        assert await store.rename_collection(former, name) == 0

        found = await search_all(store, name)
        assert [(one.document_id, one.score) for one in found] == ranked
        assert {one.chunk_id for one in found} == {chunk_key(name, f"{one}.md", 0) for one in "ab"}
        keys = [chunk_key(name, f"{one}.md", 0) for one in "ab"]
        assert await store.visible_chunks(name, keys, EVERYTHING) == {*keys}
        assert await store.visible_chunks(name, keys, Access.public()) == {keys[0]}
        assert await store.changes(name, EVERYTHING) == changes
        assert await store.source_roots(name) == [SourceRoot("r", "/r")]
        assert (await store.unread_files(name, EVERYTHING))[0] == 1
        assert await store.source_roots(former) == []
        assert await store.collection(former) is None
        assert await store.traces_about(name, "a.md") == ["renamed-1"]
        one, two, three = [await store.trace(f"renamed-{number}") for number in (1, 2, 3)]
        assert one is not None
        assert one.record.answer is not None
        assert one.record.collection == name
        assert one.record.answer.citations[0].chunk_id == chunk_key(name, "a.md", 0)
        assert one.record.events[0].triples[0].o == iri(chunk_key(name, "a.md", 0))
        assert two is not None
        assert two.record.question == key, "what was asked stays as it was asked"
        assert json.loads(two.record.settings["operation"])["collection"] == name
        assert three is not None
        assert three.record.collection == other
        assert three.record.events[0].triples[0].o == iri(key)

    async def test_a_question_under_way_is_recorded_by_the_new_name(self, store: Store) -> None:
        """Its trace is found when a document of it is erased."""
        former = await fill_collection(store, make_document("a.md"))
        name = f"{former}-new"
        await store.rename_collection(former, name)
        term = iri(chunk_key(former, "a.md", 0))
        await store.record_trace(make_trace_with_term("late-1", former, term, ()))

        assert await store.traces_about(name, "a.md") == ["late-1"]
        again = await store.rename_collection(name, former)
        assert again == 1
        assert await store.traces_about(former, "a.md") == ["late-1"]

    async def test_a_name_that_is_taken_or_none_is_refused(self, store: Store) -> None:
        """Nothing is renamed then."""
        one = await fill_collection(store, make_document("a.md"))
        other = await fill_collection(store, make_document("b.md"))
        rooted = f"{one}-rooted"
        await store.add_root(rooted, "r", "/r")

        for name in (other, rooted, one, "Not A Name", "x" * 64, ""):
            with pytest.raises(BadInput):
                await store.rename_collection(one, name)
        for name in (f"{one}-none", "", "\0"):
            with pytest.raises(NotFound):
                await store.rename_collection(name, f"{one}-new")
        assert await store.document_ids(one) == ["a.md"]
        assert await store.document_ids(other) == ["b.md"]

    async def test_the_name_of_a_removed_collection_can_be_taken(self, store: Store) -> None:
        """A question about what was removed, which is still being answered, is recorded without its words."""
        gone = await fill_collection(store, make_document("old.md"))
        fresh = await fill_collection(store, make_document("new.md"))
        version = await store.version_at(gone, _END)
        await store.erase_document(gone, "old.md")

        await store.rename_collection(fresh, gone)

        assert await store.document_ids(gone) == ["new.md"]
        late = make_trace_with_term("late-2", gone, iri(chunk_key(gone, "old.md", 0)), ())
        late = msgspec.structs.replace(late, collection_version=version)
        if await _sees_erasures(store):
            with pytest.raises(ErasedMeanwhile) as raised:
                await store.record_trace(late)
            assert raised.value.documents == {"old.md"}


async def _sees_erasures(store: Store) -> bool:
    """Return whether a store notices documents that were erased while a question was under way."""
    name = await fill_collection(store, make_document("x.md"))
    version = await store.version_at(name, _END)
    await store.erase_document(name, "x.md")
    late = make_trace_with_term(f"late-{name}", name, iri(chunk_key(name, "x.md", 0)), ())
    try:
        await store.record_trace(msgspec.structs.replace(late, collection_version=version))
    except ErasedMeanwhile:
        return True
    return False
