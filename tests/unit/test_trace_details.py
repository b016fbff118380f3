"""Details of traces that few questions have: what is read, written, redacted and erased of them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.traces import code_triples, full_triples, plain_triples

from whence.provenance import namespaces as ns
from whence.provenance.checking import check_trace
from whence.provenance.erasing import (
    ERASED,
    corrections_of,
    erase_corrections,
    erase_texts,
    erased_chunks,
)
from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.redaction import WITHHELD, chunk_ids, redact_trace
from whence.provenance.render.json import trace_summary
from whence.provenance.render.rdf import (
    PREFIXES,
    run_sparql,
    to_json_ld,
    to_turtle,
)
from whence.provenance.render.tree import tree_text
from whence.provenance.stage_records import ModelUse, StageRun
from whence.provenance.stages import (
    exploration_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.provenance.terms import answer_uris
from whence.provenance.trace import STAGE_TYPES, read_trace
from whence.schema.access import Access
from whence.schema.document_rag import Answer, Citation, ExplainEvent, Refusal, TraceRecord
from whence.schema.errors import BadInput
from whence.schema.passages import Passage
from whence.schema.places import Location
from whence.schema.search import Calibration, Correction, Degradation
from whence.schema.terms import Triple, iri

NOW = "2026-01-01T10:00:00Z"
URIS = answer_uris("id")


def _chain(
    explored: list[str],
    candidates: list[Passage] | None = None,
    *,
    run: StageRun | None = None,
    kept: list[Passage] | None = None,
    citations: list[Citation] | None = None,
) -> list[Triple]:
    return [
        *question_triples("id", "?", NOW, run=run),
        *grounding_triples("id", ["休暇"], run=run),
        *exploration_triples("id", explored, candidates=candidates or [], run=run),
        *(focus_triples("id", kept, run=run) if kept else ()),
        *synthesis_triples("id", reranked=bool(kept), citations=citations or [], run=run),
    ]


# --- writing ----------------------------------------------------------------------------------------


def test_names_of_models_are_one_part_of_an_iri() -> None:
    """Slashes, colons, spaces and lone surrogates are escaped."""
    model = ModelUse(role="writer", name="org/a b:c\ud800")
    agents = {
        one.o.iri
        for one in _chain(["a"], run=StageRun(models=(model,)))
        if one.p.iri == ns.PROV_WAS_ASSOCIATED_WITH and one.o.iri.startswith(URIS.agent_prefix)
    }

    assert f"{URIS.agent_prefix}writer/org%2Fa%20b%3Ac%ED%A0%80" in agents


def test_a_calibration_is_read_back() -> None:
    """Settings of retrieval hold it flat; the document of a trace has one object, or null."""
    known = Calibration(encoder="m", language="german", passages=9, unrelated=0.5, slope=2.0)
    triples = _chain(["a"], run=StageRun(settings=known.as_settings()))
    expected = {"encoder": "m", "language": "german", "passages": 9, "unrelated": 0.5}
    expected |= {"slope": 2.0, "offset": 0.0, "dense_weight": 0.35}

    assert trace_summary(read_trace(triples, "id"))["calibration"] == expected
    assert trace_summary(read_trace(_chain(["a"]), "id"))["calibration"] is None


def test_what_is_not_known_is_not_stated() -> None:
    """A candidate without a document says nothing of one; words of any script are written as they are."""
    triples = _chain(["a"], [Passage(chunk_id="a", rank=1)], run=StageRun())
    order = [one.o.value for one in triples if one.p.iri == ns.WH_CONCEPT_ORDER]

    assert not [one for one in triples if one.p.iri == ns.WH_DOCUMENT]
    assert order == ['["休暇"]']


def test_rdf_is_written_with_prefixes() -> None:
    """Types of numbers in Turtle, and names in JSON-LD, are short; the context explains each prefix."""
    triples = full_triples()
    body = [line for line in to_turtle(triples).splitlines() if not line.startswith("@prefix")]
    document = json.loads(to_json_ld(triples))

    assert any('"^^xsd:double' in line for line in body)
    assert not any("XMLSchema#" in line for line in body)
    assert PREFIXES.items() <= document["@context"].items()
    assert "http" not in "".join(key for node in document["@graph"] for key in node)


def test_a_service_of_a_query_is_refused_however_it_is_written() -> None:
    """Escapes in a query are read first; then there is no place to name."""
    for word, place in (("SERVICE", " (line 2, column 1)"), ("\\u0053ERVICE", "")):
        with pytest.raises(BadInput) as caught:
            run_sparql(
                plain_triples(), f"SELECT * {{\n{word} <http://localhost/> {{ ?s ?p ?o }} }}"
            )
        assert caught.value.message == f"SERVICE would read from outside the trace{place}"


# --- reading ----------------------------------------------------------------------------------------


def test_chunks_of_which_nothing_is_said_come_first() -> None:
    """Then those with a rank, by rank."""
    rows = [Passage(chunk_id=name, rank=rank) for rank, name in enumerate("ba", 1)]

    assert read_trace(_chain(["a", "b", "z"], rows)).explored == ("z", "b", "a")


def test_a_question_derives_from_nothing() -> None:
    """Other stages from the one before, beside passages."""
    stages = read_trace(full_triples()).stages

    assert [one.derived_from for one in stages] == ["", *(one.uri for one in stages[:-1])]


def test_the_order_of_equal_statements_in_several_graphs_is_fixed() -> None:
    """By the name of the graph, none first."""
    base = plain_triples()
    same = [replace(base[0], g=graph) for graph in ("urn:b", None, "urn:a")]
    orders = {read_trace([*some, *base[1:]]).triples for some in itertools.permutations(same)}

    assert len(orders) == 1


def test_an_edge_with_one_end_is_left_out() -> None:
    """Whichever end is missing; the others stay in their order."""
    triples = code_triples("id", nodes=4)
    assert [one.from_id[-3:] for one in read_graph_walk(read_trace(triples)).edges] == [
        *("1:0", "2:0", "3:0")
    ]
    for end in (ns.WH_FROM, ns.WH_TO):
        lost = [t for t in triples if not (t.p.iri == end and t.s.iri.endswith("/edge/1"))]
        edges = read_graph_walk(read_trace(lost)).edges
        assert [one.from_id[-3:] for one in edges] == ["1:0", "3:0"]


def test_a_failure_alone_lacks_its_question() -> None:
    """Stages after it may never have begun."""
    error = Triple(iri(URIS.error), iri(ns.RDF_TYPE), iri(STAGE_TYPES["error"]), ns.GRAPH_RETRIEVAL)
    found = check_trace(read_trace([error], "id"))

    assert [one.what for one in found if one.code == "missing_stage"] == [
        "the trace has no question"
    ]


def test_a_second_question_is_one_fault() -> None:
    """It has no parent, as the first has none."""
    kind = iri(STAGE_TYPES["question"])
    other = Triple(iri(f"{URIS.question}/again"), iri(ns.RDF_TYPE), kind, ns.GRAPH_RETRIEVAL)
    found = check_trace(read_trace([*_chain(["a"]), other], "id"))

    assert "duplicate_stage" in {one.code for one in found}
    assert other.s.iri not in {one.where for one in found if one.code == "wrong_parent"}


# --- the tree ---------------------------------------------------------------------------------------


def test_the_tree_says_where_a_kept_chunk_was_before() -> None:
    """When that is another place; of a chunk without a rank nothing is known."""
    rows = [Passage(chunk_id=name, rank=rank) for rank, name in enumerate("abc", 1)]
    kept = [Passage(chunk_id=name, raw_score=0.5) for name in "bazc"]
    lines = tree_text(read_trace(_chain([*"abcz"], rows, kept=kept))).splitlines()
    shown = [line.split()[-5:] for line in lines if " 0.5000 " in line]

    assert [" ".join(one).partition("0.5000  ")[0].split("0.5000 ")[1] for one in shown] == [
        *("b was 2", "a was 1", "z", "c was 3")
    ]


def test_the_tree_counts_the_faults_that_it_does_not_list() -> None:
    """Ten are listed."""
    lost = [
        Triple(iri(URIS.synthesis), iri(ns.WH_CANDIDATE), iri(f"urn:no:{n}"), ns.GRAPH_RETRIEVAL)
        for n in range(12)
    ]
    text = tree_text(read_trace([*_chain(["a"], run=StageRun()), *lost], "id"))

    assert "not complete: 12 faults" in text
    assert text.rstrip().endswith("and 2 more")


# --- redaction and erasure --------------------------------------------------------------------------


def test_documents_are_numbered_from_zero_whatever_is_hidden() -> None:
    """A passage without a document takes no number."""
    rows = [
        Passage(chunk_id=name, rank=rank, document_id=document, digest=f"{rank}" * 64)
        for rank, (name, document) in enumerate([("a", ""), ("b", "B"), ("c", "C"), ("d", "D")], 1)
    ]
    trace = read_trace(_chain([*"abcd"], rows, run=StageRun()))
    for hidden in "abcd":
        seen = redact_trace(trace, chunk_ids(trace) - {hidden})
        numbers = {
            int(one.s.iri.rpartition("/")[2])
            for one in seen.triples
            if one.s.iri.startswith(URIS.document_prefix)
        }
        assert numbers == set(range(len(numbers)))


@pytest.mark.parametrize(("hidden", "shown"), [("a", False), ("b", True)])
def test_a_message_that_names_the_document_of_a_hidden_citation_is_withheld(
    hidden: str, *, shown: bool
) -> None:
    """Also when the candidates do not say which document that is."""
    rows = [Passage(chunk_id=name, rank=rank) for rank, name in enumerate("ab", 1)]
    late = Degradation(stage="s", code="c", reason="secret.md was late")
    cited = [
        Citation(marker=1, chunk_id="a", document_id="secret.md", quote="q"),
        Citation(marker=2, chunk_id="b", document_id="open.md", quote="q"),
    ]
    triples = _chain([*"ab"], rows, run=StageRun(degraded=(late,)), citations=cited)
    seen = redact_trace(read_trace(triples), frozenset("ab") - {hidden})
    reasons = {one.reason for stage in seen.stages for one in stage.run.degraded}

    assert reasons == ({late.reason} if shown else {WITHHELD})


def test_a_document_without_a_name_withholds_nothing() -> None:
    """Though the chunk of it that is hidden may be the only one."""
    rows = [
        Passage(chunk_id="chunk-1", rank=1),
        Passage(chunk_id="chunk-2", rank=2, document_id="B.md"),
    ]
    late = Degradation(stage="s", code="c", reason="the words were late")
    triples = _chain(["chunk-1", "chunk-2"], rows, run=StageRun(degraded=(late,)))
    seen = redact_trace(read_trace(triples), frozenset(["chunk-2"]))

    assert {one.reason for stage in seen.stages for one in stage.run.degraded} == {late.reason}


def _record(triples: list[Triple], answer: Answer | None = None) -> TraceRecord:
    event = ExplainEvent(
        answer_id="id", stage="s", sequence=0, explain_id="", triples=tuple(triples)
    )
    return TraceRecord(
        answer_id="id",
        collection="c",
        question="?",
        access=Access.public(),
        events=(event,),
        answer=answer,
    )


def test_a_record_is_read_by_its_own_id() -> None:
    """Triples of another answer among its own change nothing."""
    corrections = [Correction(source="lak", target="lake")]
    own = [
        *question_triples("id", "a lak", NOW, run=StageRun()),
        *grounding_triples("id", ["lake"], corrections=corrections, run=StageRun()),
        *exploration_triples("id", ["a"]),
        *synthesis_triples("id", reranked=False, text="So.", saved=True),
    ]
    record = _record([*own, *question_triples("other", "?", NOW)])

    assert corrections_of(record) == tuple(corrections)
    erased = erase_texts(record, is_erased=lambda chunk, _: chunk == "a", erased_at=NOW)
    assert "So." not in {one.o.value for one in erased.events[0].triples}


def test_erased_chunks_are_known_afterwards() -> None:
    """Those and no others; a chunk of which no document is known is asked for without one."""
    rows = [Passage(chunk_id="a", rank=1, document_id="A")]
    asked: set[tuple[str, str]] = set()

    def is_erased(chunk_id: str, document_id: str) -> bool:
        asked.add((chunk_id, document_id))
        return chunk_id == "a"

    erased = erase_texts(_record(_chain([*"ab"], rows)), is_erased=is_erased, erased_at=NOW)
    trace = read_trace(erased.events[0].triples)

    assert erased_chunks(trace) == {"a"}
    assert asked == {("a", "A"), ("b", "")}


def test_what_is_left_of_a_citation() -> None:
    """Of an erased chunk its marker and ids; of another all."""
    cited: dict[str, Any] = {
        "title": "T",
        "heading": "H",
        "quote": "Q",
        "lead": "L",
        "highlights": ((0, 1),),
        "location": Location(line_start=1, line_end=2),
    }
    citations = tuple(
        Citation(marker=marker, chunk_id=name, document_id=f"doc-{name}", **cited)
        for marker, name in enumerate("ab", 1)
    )
    answer = Answer(answer_id="id", question="?", text="So.", citations=citations)
    record = _record(_chain([*"ab"]), answer)
    erased = erase_texts(record, is_erased=lambda chunk, _: chunk == "a", erased_at=NOW).answer

    assert erased is not None
    assert erased.citations == (
        Citation(marker=1, chunk_id="a", document_id="doc-a", quote=ERASED),
        citations[1],
    )


def test_a_refusal_that_repeats_an_erased_word_is_cleaned() -> None:
    """Its reason alone; whole words in any case."""
    refusal = Refusal(code="below_evidence_floor", reason="No Lake, lakes", floor=0.5)
    correction = Correction(source="lak", target="lake")
    answer = Answer(
        answer_id="id", question="?", text="None.", corrections=(correction,), refusal=refusal
    )
    cleaned = erase_corrections(_record([], answer), lambda word: word == "lake").answer

    assert cleaned is not None
    assert cleaned.refusal == replace(refusal, reason=f"No {ERASED}, lakes")
    assert cleaned.text == "None."
