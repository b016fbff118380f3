"""Renderings of traces: every format is well formed and complete, and untrusted texts cannot control it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as ET

import hypothesis.strategies as st
import msgspec
import pytest
import rdflib
from hypothesis import given, settings
from rich.cells import cell_len
from tests.support.traces import failed_triples, full_triples, plain_triples

from whence.provenance import namespaces as ns
from whence.provenance.checking import check_trace
from whence.provenance.outcome import WhyNot
from whence.provenance.render.json import to_json
from whence.provenance.render.picture import make_picture
from whence.provenance.render.rdf import PREFIXES, run_sparql, serialize, to_nquads
from whence.provenance.render.svg import to_svg
from whence.provenance.render.text import one_line, shorten
from whence.provenance.render.tree import tree_text
from whence.provenance.stages import grounding_triples, question_triples
from whence.provenance.terms import double
from whence.provenance.trace import STAGE_TITLES, PassageName, Trace, read_trace
from whence.schema.document_rag import Refusal
from whence.schema.errors import BadInput
from whence.schema.terms import Term, Triple, iri, literal

TRACES = {
    "full": read_trace(full_triples()).triples,
    "plain": plain_triples(),
    "failed": read_trace(failed_triples()).triples,
}
ALL = pytest.mark.parametrize("name", list(TRACES))
hostile = st.text(st.characters(exclude_categories=[]), max_size=40)


def quads(triples: Iterable[Triple]) -> set[tuple[str, ...]]:
    """Return triples as plain tuples."""
    return {(t.s.iri, t.p.iri, t.o.iri or t.o.value, t.o.datatype, t.g or "") for t in triples}


@pytest.fixture
def as_written() -> Iterable[None]:
    """Have rdflib keep literals as they were written."""
    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    yield
    rdflib.NORMALIZE_LITERALS = before


def parsed(text: str, form: str) -> set[tuple[str, ...]]:
    """Read quads with rdflib."""
    dataset = rdflib.Dataset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        dataset.parse(data=text, format=form)
        return {
            (str(s), str(p), str(o), str(getattr(o, "datatype", None) or ""), str(g or ""))
            for s, p, o, g in dataset.quads()
        }


@ALL
@pytest.mark.parametrize(
    ("form", "parser"), [("nquads", "nquads"), ("trig", "trig"), ("jsonld", "json-ld")]
)
@pytest.mark.usefixtures("as_written")
def test_rdf_reads_back_as_the_same_quads(name: str, form: str, parser: str) -> None:
    """Every RDF format has exactly the trace's statements, datatypes and graph included."""
    assert parsed(serialize(TRACES[name], form), parser) == quads(TRACES[name])


@pytest.mark.parametrize("form", ["trig", "turtle"])
def test_every_prefix_is_written_once(form: str) -> None:
    """All of our prefixes are declared, each under its own name and no other."""
    lines = [line for line in serialize(TRACES["failed"], form).splitlines() if "@prefix" in line]

    assert sorted(lines) == sorted(f"@prefix {name}: <{of}> ." for name, of in PREFIXES.items())


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_survives_canonical_nquads(text: str) -> None:
    """Quotes, line ends and control characters are escaped; another parser returns the same text."""
    triples = question_triples("a1", text, text)
    lines = to_nquads(triples)

    assert lines.count("\n") == len(triples)
    assert all(line.endswith(" .") for line in lines[:-1].split("\n"))
    assert parsed(lines, "nquads") == quads(triples)


def test_canonical_nquads_are_exact() -> None:
    """Lines are sorted; short escapes where they exist, numbers for other controls, all else unescaped."""
    p = iri("urn:p")
    triples = [
        Triple(iri("urn:b"), p, double(0.5), "urn:g"),
        Triple(iri("urn:a"), p, literal('"\\\n\t\x01ä', ns.XSD_STRING)),
        Triple(iri("urn:a"), p, literal('"\\\n\t\x01ä')),
    ]
    assert to_nquads(triples) == (
        '<urn:a> <urn:p> "\\"\\\\\\n\\t\\u0001ä" .\n'
        '<urn:b> <urn:p> "0.5"^^<http://www.w3.org/2001/XMLSchema#double> <urn:g> .\n'
    )


def test_an_unknown_form_is_refused() -> None:
    """The message lists the valid forms."""
    with pytest.raises(BadInput) as caught:
        serialize([], "yaml")
    assert "nquads" in caught.value.hint


#: Both names of each stage.
LABELS = {
    "question": "query processing",
    "grounding": "query processing",
    "exploration": "retrieval",
    "focus": "reranking",
    "synthesis": "generation",
    "error": "error",
}


@ALL
def test_json_has_the_documented_shape(name: str) -> None:
    """The document has the documented keys, plain strings and completeness, and is valid JSON."""
    trace = read_trace(TRACES[name])
    shown: dict[str, Any] = json.loads(json.dumps(to_json(trace), allow_nan=False))

    assert {"answer_id", "question", "graph", "stages", "triples", "complete"} <= shown.keys()
    assert shown["answer_id"] == name
    assert shown["graph"] == "urn:graph:retrieval"
    assert shown["complete"] is True
    assert len(shown["triples"]) == len(quads(TRACES[name]))
    assert {"s", "p", "o", "g", "o_kind", "datatype"} == shown["triples"][0].keys()
    uris = [stage["uri"] for stage in shown["stages"]]
    assert [stage["derived_from"] for stage in shown["stages"]] == [None, *uris[:-1]]
    assert {stage["stage"]: stage["label"] for stage in shown["stages"]}.items() <= LABELS.items()


def test_json_lists_faults() -> None:
    """A cut trace is incomplete and its faults are listed."""
    shown = to_json(read_trace(TRACES["full"][:-60], "full"))

    assert shown["complete"] is False
    assert {"code", "where", "what"} == shown["faults"][0].keys()


@ALL
def test_the_tree_fits_the_terminal(name: str) -> None:
    """No line is wider than 80 columns, and each stage has its branch."""
    trace = read_trace(TRACES[name])
    lines = tree_text(trace).splitlines()

    assert max(map(cell_len, lines)) <= 80
    for stage in trace.stages:
        assert any(STAGE_TITLES[stage.stage] in line for line in lines)


def test_the_tree_counts_reranked_candidates() -> None:
    """Candidates that the reranker did not read are not counted as reranked."""
    assert "of 10 reranked" not in tree_text(read_trace(TRACES["full"]))
    whole = read_trace(TRACES["full"])
    candidates = tuple(
        msgspec.structs.replace(one, reason_code="over_rerank_limit")
        if one.reason_code == "reranked_out"
        else one
        for one in whole.candidates
    )
    trace = msgspec.structs.replace(whole, candidates=candidates)
    assert (whole.reranked_count, trace.reranked_count) == (10, 4)
    assert "4 of 10 reranked, 4 kept" in tree_text(trace)
    assert "4 reranked, 4 kept" in texts_of(to_svg(trace))


def test_the_tree_lists_dropped_candidates_by_reason() -> None:
    """The tree has reasons with counts, kept chunks with scores, citations with quotes."""
    text = tree_text(read_trace(TRACES["full"]))

    for words in (
        "dropped 6: reranked_out",
        "and 1 more",
        "dropped 1: text_missing",
        "dropped 1: duplicate",
        "dropped 1: over_budget",
        "[1] policies/<",
        "within 30 days",
        "note: no language model is configured",
        "embedding by all-MiniLM-L6-v2",
        "complete",
    ):
        assert words in text, words


def test_the_tree_lists_faults_and_failures() -> None:
    """Faults and failures of a trace are shown."""
    assert "not complete" in tree_text(read_trace(TRACES["full"][:-60], "full"))
    assert "unavailable" in tree_text(read_trace(TRACES["failed"]))


@settings(max_examples=60)
@given(hostile)
def test_texts_cannot_control_the_terminal(text: str) -> None:
    """No control character and no change of text direction reaches the terminal."""
    triples = [*question_triples("a1", text, "now"), *grounding_triples("a1", [text])]
    shown = tree_text(read_trace(triples))

    assert not set(shown) & {chr(n) for n in (*range(10), *range(11, 32), 127, 0x202E, 0x2066)}


@settings(max_examples=60)
@given(hostile)
def test_any_text_gives_a_well_formed_picture(text: str) -> None:
    """For any question the picture is XML without scripts and outside addresses."""
    triples = [*question_triples("a1", text, text), *grounding_triples("a1", [text])]
    root = ET.fromstring(to_svg(read_trace(triples)))

    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds <= {"svg", "title", "desc", "style", "rect", "text", "path", "circle", "g"}
    assert not [a for e in root.iter() for a in e.attrib if "href" in a or a.startswith("on")]
    assert "url(" not in "".join(e.text or "" for e in root.iter() if e.tag.endswith("style"))


SVG = "{http://www.w3.org/2000/svg}"


def texts_of(picture: str) -> list[str]:
    """Return the texts of a picture, without tooltips."""
    return [e.text or "" for e in ET.fromstring(picture).iter(f"{SVG}text")]


def named(trace: Trace) -> Trace:
    """Return a trace whose passages have titles and headings, and whose answer is known."""
    names = {one.chunk_id: PassageName(f"Title {one.rank}", "Heading") for one in trace.candidates}
    return msgspec.structs.replace(trace, names=names, answer_text="Thirty days [1].")


def test_a_newcomer_can_read_the_picture() -> None:
    """It has the question, the answer, what decided, what was read, what came near, and why, in words."""
    trace = named(read_trace(TRACES["full"]))
    shown = texts_of(to_svg(trace))
    cited = {one.chunk_id for one in trace.citations}
    dropped = [one for one in trace.candidates if one.reason_code]

    assert shown[0] == trace.question
    assert {*STAGE_TITLES.values()} - {"Error", "Question", "Further search"} <= set(shown)
    assert {"Answer", "Thirty days [1].", f"Decided the answer ({len(cited)})"} <= set(shown)
    assert f"Read by the writer, not cited ({len(set(trace.used) - cited)})" in shown
    assert f"Not read, the nearest first ({len(dropped)})" in shown
    assert "placed too low by the reranker" in shown
    assert f"All {len(trace.candidates)} passages that were found, by score" in shown
    assert any(one.startswith("last one read ") for one in shown)
    assert any("[1]" in one and "Title" in one for one in shown)
    # Passages have names; ids, codes and the names of settings are in tooltips only.
    for one in trace.candidates:
        assert not any(one.chunk_id in text for text in shown)
        assert not any(text == one.reason_code for text in shown)


def test_a_refused_question_shows_why_and_what_came_nearest() -> None:
    """The reason stands in the place of the answer, with the nearest passage and its best sentence."""
    trace = named(read_trace(TRACES["full"]))
    refusal = Refusal(code="below_evidence_floor", reason="The best passage scores 0.20.")
    nearest = WhyNot(
        chunk_id=trace.candidates[0].chunk_id,
        stage="synthesis",
        code="used",
        reason="It lacks `dog`.",
        numbers={"best_sentence": "Cats may stay."},
    )
    trace = msgspec.structs.replace(
        trace, citations=(), found=False, refusal=refusal, nearest=nearest
    )
    shown = texts_of(to_svg(trace))

    assert {"No answer", refusal.reason, "“Cats may stay.”", nearest.reason} <= set(shown)
    assert "Nearest: Title 1 > Heading" in shown
    assert not any(text.startswith("Decided") for text in shown)


@pytest.mark.parametrize("found", [12, 60, 600])
def test_the_scale_has_every_passage(found: int) -> None:
    """Passages that are not shown one by one are counted there, and cited ones are always shown."""
    trace = named(read_trace(full_triples(found=found, kept=min(found // 3, 20))))
    picture = make_picture(trace, 5)

    assert picture.scale is not None
    assert sum(map(sum, picture.scale.bins)) == found == picture.found
    assert sum(len(group.rows) + group.more for group in picture.groups) == found
    cited = {one.chunk_id for one in trace.citations}
    assert {row.chunk_id for row in picture.groups[0].rows} == cited
    root = ET.fromstring(to_svg(trace))
    assert float(root.get("height", 0)) < 1700


@ALL
def test_every_shape_is_inside_the_picture(name: str) -> None:
    """No text starts and no rectangle ends outside the view."""
    root = ET.fromstring(to_svg(read_trace(TRACES[name])))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))

    for element in root.iter():
        if "x" in element.attrib:
            right = float(element.get("x", 0)) + float(element.get("width", 0))
            bottom = float(element.get("y", 0)) + float(element.get("height", 0))
            assert 0 <= float(element.get("x", 0)) <= right <= width
            assert bottom <= height


def test_select_orders_numbers_as_numbers() -> None:
    """Typed scores order by value: 0.9 comes before 0.1 and 1e-3."""
    node, score = iri("urn:trustgraph:docrag:a1/candidate/1"), iri(ns.WH_SCORE)
    triples = [Triple(node, score, double(x), ns.GRAPH_RETRIEVAL) for x in (0.1, 1e-3, 0.9)]
    answer = run_sparql(triples, "SELECT ?s WHERE { ?c wh:score ?s } ORDER BY DESC(?s)")

    assert answer.kind == "select"
    assert answer.columns == ("s",)
    assert [row["s"] for row in answer.rows] == ["0.9", "0.1", "0.001"]


def test_ask_construct_and_describe_return_rows() -> None:
    """All forms of query return plain rows, with and without GRAPH; prefixes are predefined."""
    triples = TRACES["full"]
    asked = run_sparql(triples, "ASK { GRAPH <urn:graph:retrieval> { ?f a tg:Focus } }")
    built = run_sparql(triples, "CONSTRUCT { ?c wh:why ?r } WHERE { ?c wh:reason ?r }")
    told = run_sparql(triples, "DESCRIBE <urn:trustgraph:docrag:full>")

    assert (asked.kind, asked.rows) == ("ask", ({"answer": True},))
    dropped = [c for c in read_trace(triples).candidates if c.reason_code]
    assert len(built.rows) == len(dropped)
    assert list(built.rows) == sorted(built.rows, key=lambda row: str(row["s"]))
    assert {row["s"] for row in told.rows} == {"urn:trustgraph:docrag:full"}


def test_unbound_is_none_and_rows_are_bounded() -> None:
    """An unbound variable is None; rows beyond the maximum are cut and the result is marked truncated."""
    wanted = "SELECT ?c ?r WHERE { ?c a wh:Candidate OPTIONAL { ?c wh:reason ?r } }"
    answer = run_sparql(TRACES["full"], wanted, max_rows=5)

    assert len(answer.rows) == 5
    assert answer.truncated
    assert None in [row["r"] for row in run_sparql(TRACES["full"], wanted).rows]


@pytest.mark.parametrize(
    ("sparql", "words"),
    [
        ("SELECT * WHERE {\n  ?s ?p }", "line 2, column 3"),
        ("", "end of the query"),
        ("SELECT * WHERE { ?s foo:bar ?o }", r"foo.*line 1, column 21"),
        ("INSERT DATA { <urn:a> <urn:b> 1 }", "line 1, column 1"),
        ("LOAD <http://localhost/x>", "line 1, column 1"),
        ("SELECT * { ?s ?p ?o }" + " " * 20_000, "characters"),
        ("SELECT * WHERE " + "{" * 2_000 + "}" * 2_000, "deeply"),
    ],
)
def test_invalid_sparql_is_reported_with_its_position(sparql: str, words: str) -> None:
    """An invalid query raises BadInput with a position, never another exception."""
    with pytest.raises(BadInput, match=words):
        run_sparql(TRACES["plain"], sparql)


@pytest.mark.parametrize(
    "sparql",
    [
        "SELECT * { SERVICE <http://localhost/> { ?s ?p ?o } }",
        "SELECT * { SERVICE SILENT ?where { ?s ?p ?o } }",
        "ASK { { SELECT * { SERVICE <http://localhost/> { ?s ?p ?o } } } }",
        "SELECT * { ?s ?p ?o FILTER EXISTS { SERVICE <http://localhost/> { ?s ?p ?o } } }",
        "SELECT * { ?s ?p ?o MINUS { SERVICE <http://localhost/> { ?s ?p ?o } } }",
        "SELECT * { ?s ?p ?o BIND(EXISTS { SERVICE <http://localhost/> { ?s ?p ?o } } AS ?x) }",
        "CONSTRUCT { ?s ?p ?o } WHERE { OPTIONAL { SERVICE <http://localhost/> { ?s ?p ?o } } }",
        "SELECT * FROM <file:///etc/hostname> { ?s ?p ?o }",
        "ASK FROM NAMED <http://localhost/> { ?s ?p ?o }",
        "DESCRIBE <urn:a> FROM <http://localhost/>",
        "CONSTRUCT FROM <http://localhost/> WHERE { ?s ?p ?o }",
    ],
)
def test_a_query_reads_the_trace_only(sparql: str) -> None:
    """A construct that opens a file or an address is refused, however deeply it is nested."""
    with pytest.raises(BadInput, match="outside the trace"):
        run_sparql(TRACES["plain"], sparql)


@given(hostile, st.integers(1, 30))
def test_shortened_texts_are_one_line_and_fit(text: str, width: int) -> None:
    """A shortened text is one line and not longer than the width."""
    shown = shorten(text, width)

    assert len(shown) <= width
    assert len(shown.splitlines()) <= 1
    assert one_line(one_line(text)) == one_line(text)


def test_sample_traces_are_complete() -> None:
    """The sample traces of these tests have no faults."""
    for name, triples in TRACES.items():
        assert check_trace(read_trace(triples, name)) == [], name
        assert all(isinstance(triple.o, Term) for triple in triples)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_select_star_has_its_columns_in_the_order_of_the_query(seed: int) -> None:
    """Columns of `SELECT *` are in the order of their first use in the query."""
    pattern = "{ ?whose ?does ?what . ?a ?does ?b } LIMIT 1"
    code = (
        "from whence.provenance.render.rdf import PREFIXES, run_sparql\n"
        "from tests.support.traces import plain_triples\n"
        f"print(*run_sparql(plain_triples(), 'SELECT * {pattern}').columns)"
    )
    env = {**os.environ, "PYTHONHASHSEED": str(seed)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    assert run.stdout.split() == ["whose", "does", "what", "a", "b"]
