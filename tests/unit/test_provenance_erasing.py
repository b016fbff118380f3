"""Erasing removes the texts of erased chunks from a trace, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from tests.support.traces import full_triples, plain_triples

from whence.provenance import namespaces as ns
from whence.provenance.checking import check_trace
from whence.provenance.erasing import ERASED, erase_texts
from whence.provenance.terms import id_from_iri, iri_from_id
from whence.provenance.trace import read_trace
from whence.schema import Access
from whence.schema.document_rag import Answer, ExplainEvent, TraceRecord
from whence.schema.terms import Triple

DERIVED = ns.PROV_WAS_DERIVED_FROM
NOW = "2026-02-03T04:05:06Z"


def recorded(triples: list[Triple], answer_id: str = "full") -> TraceRecord:
    """Return the record of a trace, its answer with the citations that the triples tell."""
    trace = read_trace(triples, answer_id)
    answer = Answer(
        answer_id=answer_id, question="q", text="As it says [1].", citations=trace.citations
    )
    event = ExplainEvent(
        answer_id=answer_id, stage="synthesis", sequence=0, explain_id="", triples=tuple(triples)
    )
    return TraceRecord(
        answer_id=answer_id,
        collection="default",
        question="q",
        access=Access.public(),
        events=(event,),
        answer=answer,
    )


def one_of(*chunks: str) -> Callable[[str, str], bool]:
    """Return the test for these chunks."""
    return lambda chunk_id, _document: chunk_id in chunks


def erased(record: TraceRecord, *chunks: str, at: str = NOW) -> TraceRecord:
    """Erase chunks from a trace."""
    return erase_texts(record, is_erased=one_of(*chunks), erased_at=at)


def read_back(record: TraceRecord) -> Any:
    """Read the trace of a record."""
    return read_trace([t for event in record.events for t in event.triples], record.answer_id)


def test_only_quotes_and_digests_of_erased_chunks_are_removed() -> None:
    """Of two cited chunks one is erased: its quote and digest are removed, the other's remain."""
    record = recorded(full_triples())
    before = read_back(record)
    gone, stays = before.citations
    after = read_back(erased(record, gone.chunk_id))

    assert [c.quote for c in after.citations] == [ERASED, stays.quote]
    digests = {c.chunk_id: c.digest for c in after.candidates}
    assert digests[gone.chunk_id] == ""
    assert (
        digests[stays.chunk_id] == {c.chunk_id: c.digest for c in before.candidates}[stays.chunk_id]
    )


def test_the_text_of_an_answer_is_erased_when_the_writer_received_the_chunk() -> None:
    """An answer may repeat any text of the writer's input, cited or not; other answers keep their text."""
    record = recorded(full_triples())
    trace = read_back(record)
    cited = {c.chunk_id for c in trace.citations}
    uncited = next(c for c in trace.used if c not in cited)
    unread = next(c.chunk_id for c in trace.candidates if c.reason_code == "reranked_out")

    for chunk, text in ((uncited, ERASED), (unread, "As it says [1].")):
        answer = erased(record, chunk).answer
        assert answer is not None
        assert answer.text == text


def test_erased_nodes_have_a_time_and_the_trace_stays_complete() -> None:
    """Every node of an erased chunk has the time of the erasure; ranks, scores and references remain."""
    record = recorded(full_triples())
    before = read_back(record)
    gone = before.citations[0].chunk_id
    after = read_back(erased(record, gone))

    marks = {t.s.iri: t.o.value for t in after.triples if t.p.iri == ns.PROV_INVALIDATED_AT_TIME}
    nodes = {
        t.s.iri
        for t in before.triples
        if t.p.iri in {ns.WH_CHUNK, ns.TG_DOCUMENT} and id_from_iri(t.o.iri) == gone
    }
    [passage] = [t for t in before.triples if t.s.iri == iri_from_id(gone) and t.p.iri == DERIVED]
    assert set(marks) == {*nodes, passage.s.iri, passage.o.iri, before.answer_document}
    assert set(marks.values()) == {NOW}
    assert not check_trace(after)
    assert [replace(c, digest="") for c in after.candidates] == [
        replace(c, digest="") for c in before.candidates
    ]


def test_erasing_is_idempotent() -> None:
    """A second erasure of the same chunk returns the same record, with the first time."""
    record = recorded(full_triples())
    gone = read_back(record).citations[0].chunk_id
    once = erased(record, gone)

    assert erased(once, gone, at="2030-01-01T00:00:00Z") == once


def test_a_trace_without_erased_chunks_is_unchanged() -> None:
    """Chunks of other documents leave the record unchanged."""
    record = recorded(full_triples())

    assert erased(record, "urn:chunk:default:other.md:0") == record


def test_a_plain_trace_loses_its_answer() -> None:
    """Without candidates the explored chunks still determine what the writer received."""
    record = recorded(plain_triples(reranked=False), "plain")
    answer = erased(record, "urn:chunk:policy:1").answer

    assert answer is not None
    assert answer.text == ERASED
