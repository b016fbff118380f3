"""Erasing removes the texts of erased chunks from a trace, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from tests.support.traces import full_triples, plain_triples

from whence.provenance import namespaces as ns
from whence.provenance.checking import check_trace
from whence.provenance.erasing import ERASED, erase_corrections, erase_texts
from whence.provenance.terms import id_from_iri, iri_from_id
from whence.provenance.trace import read_trace
from whence.schema import Access
from whence.schema.document_rag import Answer, ExplainEvent, TraceRecord
from whence.schema.search import Correction, Degradation
from whence.schema.terms import Triple, iri, literal

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


def test_nothing_tells_the_words_of_an_erased_answer() -> None:
    """Digest, places and messages that quote a sentence go with the text; other messages stay."""
    quoting = Degradation(stage="synthesis", code="sentence_unsupported", reason="says Quokka")
    other = Degradation(stage="prompt", code="no_language_model", reason="no model")
    node, graph = iri("urn:trustgraph:docrag:full/synthesis"), ns.GRAPH_RETRIEVAL
    triples = full_triples()
    for number, one in enumerate((quoting, other)):
        message = iri(f"{node.iri}/degradation/{number}")
        triples.append(Triple(message, iri(ns.WH_CODE), literal(one.code), graph))
        triples.append(Triple(message, iri(ns.WH_MESSAGE), literal(one.reason), graph))
    triples.append(Triple(node, iri(ns.WH_ANSWER_DIGEST), literal("0f"), graph))
    record = recorded(triples)
    assert record.answer is not None
    answer = replace(record.answer, unsupported=((0, 5),), degraded=(quoting, other))
    record = replace(record, answer=answer)
    untouched = erased(record, "urn:chunk:default:other.md:0")
    done = erased(record, read_back(record).used[0])

    assert untouched == record
    assert done.answer is not None
    assert done.answer.unsupported == ()
    assert [one.reason for one in done.answer.degraded] == [ERASED, "no model"]
    assert read_back(done).answer_digest == ""
    assert "Quokka" not in str(done)
    assert "no model" in [t.o.value for t in read_back(done).triples]


def test_a_corrected_word_that_is_gone_is_erased() -> None:
    """It stays in the question as asked, everything else with it has a mark; other corrections stay."""
    corrections = (
        Correction(source="quoka", target="Quokka"),
        Correction(source="leev", target="leave"),
    )
    node, graph = iri("urn:trustgraph:docrag:full/grounding"), ns.GRAPH_RETRIEVAL
    said = [
        (ns.TG_QUERY, "quoka leev of a quokka"),
        (ns.WH_QUESTION_USED, "Quokka leave of a quokka"),
        (ns.WH_CORRECTIONS, '[{"from":"quoka","to":"Quokka"}]'),
        (ns.TG_CONCEPT, "quokkas' quokka leave"),
    ]
    triples = [Triple(node, iri(name), literal(text), graph) for name, text in said]
    record = recorded(full_triples() + triples)
    assert record.answer is not None
    answer = replace(
        record.answer, question_used="Quokka leave of a quokka", corrections=corrections
    )
    record = replace(record, answer=answer, settings={"filter": "a quokka", "limit": 3})
    done = erase_corrections(record, {"quokka"}.__contains__)
    literals = [t.o.value for event in done.events for t in event.triples]

    assert erase_corrections(record, {"other"}.__contains__) == record
    assert erase_corrections(done, {"quokka"}.__contains__) == done
    assert done.answer is not None
    assert [one.target for one in done.answer.corrections] == [ERASED, "leave"]
    assert done.answer.question_used == f"{ERASED} leave of a {ERASED}"
    failed = erase_corrections(replace(record, answer=None), {"quokka"}.__contains__)
    assert failed.settings == done.settings
    assert failed.events == done.events
    assert done.settings == {"filter": f"a {ERASED}", "limit": 3}
    assert literals[-4:] == [
        "quoka leev of a quokka",
        f"{ERASED} leave of a {ERASED}",
        f'[{{"from":"quoka","to":"{ERASED}"}}]',
        f"quokkas' {ERASED} leave",
    ]
