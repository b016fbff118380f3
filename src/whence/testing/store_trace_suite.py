"""Traces of a store; part of `store_suite`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import Answer, Citation, ExplainEvent, TraceRecord
from whence.schema.errors import BadInput
from whence.schema.search import Correction
from whence.schema.terms import Term, Triple, iri, literal
from whence.store.chunk_ids import chunk_key
from whence.store.protocols import Store
from whence.testing.samples import sample
from whence.testing.store_samples import (
    EVERYTHING,
    QUERY,
    any_events,
    any_json,
    any_text,
    fill_collection,
    make_document,
    make_trace,
    make_trace_with_term,
    on_one_store,
    search_all,
    serial_numbers,
)


class TraceSuite:
    """Traces are recorded once and returned as they were."""

    async def test_a_trace_is_returned_unchanged(self, store: Store) -> None:
        """Every field of a trace is kept; None is distinct from an empty text."""
        record = sample(TraceRecord)
        fields = {name: getattr(record, name) for name in record.__struct_fields__}
        bare = make_trace("bare", events=(ExplainEvent(
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
        question=any_text,
        events=st.lists(any_events, max_size=3).map(tuple),
        options=st.dictionaries(any_text, any_json, max_size=3),
        answer=st.none() | st.builds(Answer, answer_id=any_text, question=any_text, text=any_text),
    )
    @on_one_store
    async def test_any_trace_is_returned_unchanged(
        self, store: Store, question: str, events: Any, options: Any, answer: Any
    ) -> None:
        """Any texts, terms and settings of a trace are returned equal."""
        record = make_trace(
            f"any-{next(serial_numbers)}",
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
        """The first record of an answer stays, also among concurrent ones."""
        written = await asyncio.gather(
            *(store.record_trace(make_trace("once", question=f"q{n}")) for n in range(6))
        )
        first = await store.trace("once")
        again = await store.record_trace(make_trace("once", question="late"))

        assert sorted(written) == [False] * 5 + [True]
        assert again is False
        assert first is not None
        assert await store.trace("once") == first

    @pytest.mark.parametrize(
        "record",
        [
            make_trace(""),
            make_trace("a\0"),
            make_trace("bad", question="\0"),
            make_trace("bad", question="\ud800"),
            make_trace("bad", settings={"k": float("inf")}),
            make_trace("bad", answer=Answer(answer_id="x", question="q", text="\0")),
            *(
                make_trace("bad", events=(ExplainEvent(
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
        """A trace that could not be returned unchanged is refused, and nothing is stored."""
        with pytest.raises(BadInput):
            await store.record_trace(record)
        assert await store.trace(record.answer_id) is None

    async def test_a_rewritten_trace_replaces_the_former(self, store: Store) -> None:
        """The new content has the former id and time; a trace that was never recorded is not created."""
        name = f"rewritten-{next(serial_numbers)}"
        await store.record_trace(make_trace(name, question="before"))
        former = await store.trace(name)
        done = await store.rewrite_trace(make_trace(name, question="after"))
        stored = await store.trace(name)

        assert done
        assert former is not None
        assert stored is not None
        assert (stored.record.question, stored.recorded_at) == ("after", former.recorded_at)
        assert not await store.rewrite_trace(make_trace(f"{name}-never"))
        assert await store.trace(f"{name}-never") is None

    async def test_a_trace_takes_the_rights_of_its_question(self, store: Store) -> None:
        """A reader without one of its rights is answered like one who asks for a trace that does not exist."""
        name = f"rights-{next(serial_numbers)}"
        asked = Access(frozenset({"a", "b"}), frozenset({"l"}), 2)
        await store.record_trace(make_trace(name, access=asked))
        readers = {
            None: True,
            asked: True,
            Access(frozenset({"a", "b", "c"}), frozenset({"l", "m"}), 3): True,
            Access(frozenset({"a"}), frozenset({"l"}), 2): False,
            Access(frozenset({"a", "b"}), frozenset(), 2): False,
            Access(frozenset({"a", "b"}), frozenset({"l"}), 1): False,
            Access.public(): False,
        }
        read = {reader: await store.trace(name, reader) for reader in readers}

        assert {reader: stored is not None for reader, stored in read.items()} == readers

    @pytest.mark.parametrize("document_id", ["a.md", "b c/ü.md", "100%"])
    async def test_traces_about_a_document(self, store: Store, document_id: str) -> None:
        """Matched by a chunk, the id as a text, or a citation; other documents and collections do not count."""
        name = await fill_collection(
            store, make_document(document_id, [QUERY]), make_document("z.md")
        )
        mine = (await search_all(store, name))[0].chunk_id
        told = {
            "chunk": (iri(mine), ()),
            "literal": (literal(document_id), ()),
            "cited": (literal("x"), (Citation(marker=1, chunk_id=mine, document_id=document_id),)),
            "other": (iri(f"{mine[:-2]}x:0"), ()),
            "longer": (literal(f"{document_id}x"), ()),
            "typed": (literal(document_id, "urn:number"), ()),
        }
        for kind, (term, citations) in told.items():
            await store.record_trace(make_trace_with_term(f"{name}-{kind}", name, term, citations))
        await store.record_trace(
            make_trace_with_term(f"{name}-elsewhere", "elsewhere", iri(mine), ())
        )

        about = await store.traces_about(name, document_id)

        assert about == [f"{name}-{kind}" for kind in ("chunk", "cited", "literal")]
        assert await store.traces_about("no-such", document_id) == []

    async def test_a_question_about_several_collections_is_one_of_each(self, store: Store) -> None:
        """It is found by the documents of each; a rename of one changes that name alone."""
        name = await fill_collection(store, make_document("a.md", [QUERY]))
        other = await fill_collection(store, make_document("a.md", [QUERY]))
        both = f"{name},{other}"
        mine, theirs = [chunk_key(one, "a.md", 0) for one in (name, other)]
        cited = (Citation(marker=1, chunk_id=theirs, document_id="a.md"),)
        record = make_trace_with_term(f"{name}-both", both, iri(mine), cited)
        await store.record_trace(
            msgspec.structs.replace(record, collection_versions={name: 1, other: 2})
        )
        since = datetime(2000, 1, 1, tzinfo=UTC)
        for one, documents in ((name, frozenset()), (other, frozenset({"a.md"}))):
            assert await store.traces_about(one, "a.md") == [f"{name}-both"]
            (answer,) = await store.answer_sources(one, EVERYTHING, since)
            assert answer.collection == both
            assert answer.of(one).cited == documents
        assert await store.traces_about(both, "a.md") == []

        await store.rename_collection(other, f"{other}-new")

        stored = await store.trace(f"{name}-both")
        assert stored is not None
        assert stored.record.collection == f"{name},{other}-new"
        assert stored.record.version_of(name) == 1
        assert stored.record.version_of(f"{other}-new") == 2
        assert await store.traces_about(f"{other}-new", "a.md") == [f"{name}-both"]

    async def test_traces_of_corrected_questions(self, store: Store) -> None:
        """Those of a collection with corrections, and of failed questions; others do not count."""
        name = f"corrected-{next(serial_numbers)}"
        fixed = (Correction(source="leev", target="leave"),)
        for kind, corrections, collection in (
            ("one", fixed, name),
            ("none", (), name),
            ("else", fixed, "default"),
        ):
            answer_id = f"{name}-{kind}"
            answer = Answer(answer_id=answer_id, question="q", text="t", corrections=corrections)
            record = make_trace(answer_id, collection=collection, answer=answer)
            await store.record_trace(record)
        await store.record_trace(make_trace(f"{name}-failed", collection=name))

        assert await store.traces_corrected(name) == [f"{name}-failed", f"{name}-one"]

    async def test_the_overview_counts_questions(self, store: Store) -> None:
        """The overview has the number of recorded questions and the time of the last."""
        before = await store.overview()
        await store.record_trace(make_trace(f"counted-{next(serial_numbers)}"))
        after = await store.overview()

        assert after.questions == before.questions + 1
        assert after.asked_at >= before.asked_at
        assert after.asked_at.endswith("+00:00")
        assert after.server

    async def test_known_chunks_are_those_that_exist(self, store: Store) -> None:
        """Hidden chunks are known, too; removed and foreign ones are not."""
        secret = make_document("secret.md", [QUERY], tags=DocumentTags(("a",)))
        name = await fill_collection(store, secret, make_document("gone.md", [QUERY]))
        ids = [candidate.chunk_id for candidate in await search_all(store, name)]
        await store.remove_documents(name, ["gone.md"])

        known = await store.known_chunks(name, [*ids, "nonsense", f"urn:chunk:{name}:x:0"])

        assert known == {one for one in ids if "secret" in one}
        assert await store.known_chunks("no-such", ids) == frozenset()

    async def test_latest_traces_come_first(self, store: Store) -> None:
        """The latest traces, newest first, each complete; none for an unknown id."""
        for number in range(5):
            await store.record_trace(
                make_trace_with_term(f"t{number}", "default", literal(str(number)), ())
            )
        latest = await store.recent_traces(3)

        assert [one.record.answer_id for one in latest] == ["t4", "t3", "t2"]
        assert latest[0] == await store.trace("t4")
        assert await store.trace("t9") is None
        assert await store.trace("\0") is None
        with pytest.raises(BadInput):
            await store.recent_traces(0)

    async def test_the_documents_of_answers(self, store: Store) -> None:
        """What each answer of a time cites and names, for readers with the rights of its question."""
        name, other = (f"sources-{next(serial_numbers)}" for _ in "12")
        begun = datetime.now(UTC) - timedelta(minutes=1)
        cited = (
            Citation(marker=1, chunk_id=chunk_key(name, "b c/ü.md", 0), document_id="b c/ü.md"),
        )
        named = iri(chunk_key(name, "z%.md", 3))
        first = make_trace_with_term(f"{name}-1", name, named, cited)
        second = make_trace(f"{name}-2", collection=name, access=Access(frozenset({"a"})))
        await store.record_trace(msgspec.structs.replace(first, asked_at="2026-01-02T03:04:05Z"))
        await store.record_trace(second)
        await store.record_trace(make_trace_with_term(f"{other}-1", other, named, cited))

        (read,) = await store.answer_sources(name, Access.public(), begun)
        assert (read.answer_id, read.asked_at) == (f"{name}-1", "2026-01-02T03:04:05Z")
        assert read.cited == {"b c/ü.md"}
        assert read.named == {"b c/ü.md", "z%.md"}
        both = await store.answer_sources(name, Access(frozenset({"a", "b"})), begun)
        assert [one.answer_id for one in both] == [f"{name}-1", f"{name}-2"]
        assert (both[1].cited, both[1].named) == (frozenset(), frozenset())
        assert both[1].asked_at
        later = datetime.now(UTC) + timedelta(minutes=1)
        assert await store.answer_sources(name, Access(frozenset({"a"})), later) == []
