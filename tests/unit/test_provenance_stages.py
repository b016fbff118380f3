"""Triples of each stage: exactly the shared vocabulary, plus ours only on request."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.traces import failed_triples, full_triples, plain_triples

from whence.provenance import namespaces as ns
from whence.provenance import terms
from whence.provenance.reasons import DROP_REASONS, OUTCOMES
from whence.provenance.render import text
from whence.provenance.render.rdf import run_sparql
from whence.provenance.stage_records import StageRun
from whence.provenance.stages import (
    exploration_triples,
    failure_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.provenance.terms import (
    answer_id_from_uri,
    answer_uris,
    double,
    id_from_iri,
    integer,
    iri_from_id,
    read_scalar,
    scalar,
)
from whence.provenance.trace import read_trace
from whence.schema.errors import BadInput
from whence.schema.passages import Passage
from whence.schema.terms import Triple

Q = "urn:trustgraph:docrag:a1"
NOW = "2026-01-01T10:00:00Z"


def short(text: str) -> str:
    """Return an IRI with its namespace as a prefix."""
    for prefix, namespace in (
        ("tg:", ns.TG),
        ("prov:", ns.PROV),
        ("rdfs:", ns.RDFS),
        ("rdf:", ns.RDF),
        ("Q", Q),
    ):
        text = text.replace(namespace, prefix)
    return text


def said(triples: tuple[Triple, ...]) -> list[tuple[str, str, str]]:
    """Return triples as short strings: an IRI object in angle brackets, a plain literal in quotes."""
    assert {triple.g for triple in triples} == {"urn:graph:retrieval"}
    times = {ns.PROV_STARTED_AT_TIME}
    assert not [triple for triple in triples if triple.o.datatype and triple.p.iri not in times]
    return [
        (
            short(triple.s.iri),
            short(triple.p.iri),
            f"<{short(triple.o.iri)}>" if triple.o.type == "i" else f'"{triple.o.value}"',
        )
        for triple in triples
    ]


def test_constants_have_the_shared_iris() -> None:
    """The constants have the IRIs that existing consumers expect."""
    assert ns.RDF_TYPE == "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
    assert ns.RDFS_LABEL == "http://www.w3.org/2000/01/rdf-schema#label"
    assert ns.PROV_WAS_DERIVED_FROM == "http://www.w3.org/ns/prov#wasDerivedFrom"
    assert ns.PROV_STARTED_AT_TIME == "http://www.w3.org/ns/prov#startedAtTime"
    assert ns.SKOS_DEFINITION == "http://www.w3.org/2004/02/skos/core#definition"
    assert ns.TG_DOC_RAG_QUESTION == "https://trustgraph.ai/ns/DocRagQuestion"
    assert ns.TG_DOCUMENT == "https://trustgraph.ai/ns/document"
    assert ns.TG_DOCUMENT_TYPE == "https://trustgraph.ai/ns/Document"
    assert (ns.GRAPH_DEFAULT, ns.GRAPH_SOURCE, ns.GRAPH_RETRIEVAL) == (
        "",
        "urn:graph:source",
        "urn:graph:retrieval",
    )


def test_question_has_six_triples() -> None:
    """Without options a question has exactly the six shared triples, in order; the time has its datatype."""
    assert said(question_triples("a1", "Why?", NOW)) == [
        ("Q", "rdf:type", "<prov:Entity>"),
        ("Q", "rdf:type", "<tg:Question>"),
        ("Q", "rdf:type", "<tg:DocRagQuestion>"),
        ("Q", "rdfs:label", '"DocumentRAG Question"'),
        ("Q", "prov:startedAtTime", f'"{NOW}"'),
        ("Q", "tg:query", '"Why?"'),
    ]
    assert question_triples("a1", "Why?", NOW)[4].o.datatype == ns.XSD_DATE_TIME


def test_grounding_has_concepts_and_model() -> None:
    """Concepts in order, then tokens and model when known."""
    triples = grounding_triples("a1", ["b", "a"], in_token=3, out_token=0, model="m")
    assert said(triples) == [
        ("Q/grounding", "rdf:type", "<prov:Entity>"),
        ("Q/grounding", "rdf:type", "<tg:Grounding>"),
        ("Q/grounding", "rdfs:label", '"Grounding"'),
        ("Q/grounding", "prov:wasDerivedFrom", "<Q>"),
        ("Q/grounding", "tg:concept", '"b"'),
        ("Q/grounding", "tg:concept", '"a"'),
        ("Q/grounding", "tg:inToken", '"3"'),
        ("Q/grounding", "tg:outToken", '"0"'),
        ("Q/grounding", "tg:llmModel", '"m"'),
    ]


def test_exploration_has_its_chunks() -> None:
    """The count is a plain string, the chunks are IRIs."""
    assert said(exploration_triples("a1", ["urn:c:1", "urn:c:2"])) == [
        ("Q/exploration", "rdf:type", "<prov:Entity>"),
        ("Q/exploration", "rdf:type", "<tg:Exploration>"),
        ("Q/exploration", "rdfs:label", '"Exploration"'),
        ("Q/exploration", "prov:wasDerivedFrom", "<Q/grounding>"),
        ("Q/exploration", "tg:chunkCount", '"2"'),
        ("Q/exploration", "tg:selectedChunk", "<urn:c:1>"),
        ("Q/exploration", "tg:selectedChunk", "<urn:c:2>"),
    ]


def test_focus_has_four_triples_per_kept_chunk() -> None:
    """The score is `str(float)` without a datatype; an integer counts as a float."""
    chosen = "urn:trustgraph:prov:chunk:a1:"
    assert said(
        focus_triples(
            "a1",
            [Passage(chunk_id="urn:c:2", raw_score=0.95), Passage(chunk_id="urn:c:1", raw_score=1)],
        )
    ) == [
        ("Q/focus", "rdf:type", "<prov:Entity>"),
        ("Q/focus", "rdf:type", "<tg:Focus>"),
        ("Q/focus", "rdfs:label", '"Chunk Selection"'),
        ("Q/focus", "prov:wasDerivedFrom", "<Q/exploration>"),
        ("Q/focus", "tg:selectedChunk", f"<{chosen}0>"),
        ("Q/focus", "tg:selectedChunk", f"<{chosen}1>"),
        (f"{chosen}0", "rdf:type", "<tg:ChunkSelection>"),
        (f"{chosen}0", "tg:document", "<urn:c:2>"),
        (f"{chosen}0", "tg:score", '"0.95"'),
        (f"{chosen}1", "rdf:type", "<tg:ChunkSelection>"),
        (f"{chosen}1", "tg:document", "<urn:c:1>"),
        (f"{chosen}1", "tg:score", '"1.0"'),
    ]


def test_a_long_question_is_recorded_once() -> None:
    """Only the question has the full text; candidates and concepts have its beginning and a digest."""
    long = "leave " * 10_000
    found = [Passage(chunk_id=f"c{rank}", rank=rank, concepts=(long, "leave")) for rank in (1, 2)]
    triples = (
        *question_triples("a1", long, NOW),
        *grounding_triples("a1", [long, "leave"], run=StageRun()),
        *exploration_triples("a1", ["c1", "c2"], candidates=found),
    )
    names = {t.o.value for t in triples if t.p.iri == ns.TG_CONCEPT}

    assert sum(long in triple.o.value for triple in triples) == 1
    assert all(len(name) < 1_100 for name in names)
    assert {t.o.value for t in triples if t.p.iri == ns.WH_FOUND_BY} == names


@pytest.mark.parametrize(("reranked", "parent"), [(True, "focus"), (False, "exploration")])
def test_synthesis_derives_from_the_stage_before(reranked: bool, parent: str) -> None:
    """An answer derives from the focus when there is one, else from the exploration."""
    assert said(synthesis_triples("a1", reranked=reranked, saved=True)) == [
        ("Q/synthesis", "rdf:type", "<prov:Entity>"),
        ("Q/synthesis", "rdf:type", "<tg:Synthesis>"),
        ("Q/synthesis", "rdf:type", "<tg:Answer>"),
        ("Q/synthesis", "rdfs:label", '"Synthesis"'),
        ("Q/synthesis", "prov:wasDerivedFrom", f"<Q/{parent}>"),
        ("Q/synthesis", "tg:document", "<Q/answer>"),
    ]


def test_options_change_no_shared_statement() -> None:
    """With candidates and run a stage states all that it states without them; these triples come first."""
    plain = exploration_triples("a1", ["urn:c:1"])
    account = Passage(chunk_id="urn:c:1", rank=1, score=0.5)
    full = exploration_triples(
        "a1", ["urn:c:1"], candidates=[account], run=StageRun(duration_ms=1.0)
    )

    assert full[: len(plain)] == plain
    assert {triple.s.iri for triple in full} == {
        f"{Q}/exploration",
        f"{Q}/candidate/1",
        f"{Q}/activity/exploration",
    }


def test_every_statement_is_in_a_known_vocabulary() -> None:
    """All statements lie in the retrieval graph; of the shared vocabulary all literals are plain strings."""
    known = (ns.WH, ns.TG, ns.PROV, ns.RDF, ns.RDFS, ns.DC)
    for triple in (*full_triples(), *failed_triples()):
        assert triple.g == ns.GRAPH_RETRIEVAL
        assert triple.p.iri.startswith(known)
        assert not (triple.p.iri.startswith(ns.TG) and triple.o.datatype)


def test_plain_traces_have_no_term_of_ours() -> None:
    """A trace without options has no term of our namespace."""
    for triple in plain_triples():
        assert ns.WH not in triple.p.iri + triple.o.iri


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ([Passage(chunk_id="a", rank=0)], "not 1 or more"),
        ([Passage(chunk_id=c, rank=1) for c in "ab"], "taken"),
        ([Passage(chunk_id="a", rank=1, reason_code="tired")], "not a reason"),
        ([Passage(chunk_id="a", rank=1, reason_code="used")], "not a reason"),
        ([Passage(chunk_id="", rank=1)], "empty id"),
    ],
)
def test_invalid_candidates_are_refused(candidates: list[Passage], words: str) -> None:
    """A shared rank, a missing rank, an unknown reason and an empty id raise errors."""
    with pytest.raises(BadInput, match=words):
        exploration_triples("a1", [], candidates=candidates)


@pytest.mark.parametrize("answer_id", ["", "a b", "a/b", "a>b", "../x", "ä", "x" * 129, "a\n"])
def test_invalid_answer_ids_are_refused(answer_id: str) -> None:
    """No answer id reaches outside its IRI."""
    with pytest.raises(BadInput):
        question_triples(answer_id, "Why?", NOW)


def test_the_name_of_a_setting_is_checked() -> None:
    """The key of a setting becomes part of an IRI and is validated."""
    with pytest.raises(BadInput, match="setting"):
        question_triples("a1", "Why?", NOW, run=StageRun(settings={"a> <b": 1}))


def test_a_failure_derives_from_a_stage() -> None:
    """The chain of a failed question ends in an error that derives from the last recorded stage."""
    triples = failure_triples("a1", derived_from="focus", stage="synthesis", code="c", message="m")
    parents = [t.o.iri for t in triples if t.p.iri == ns.PROV_WAS_DERIVED_FROM]

    assert parents == [f"{Q}/focus"]
    with pytest.raises(BadInput):
        failure_triples("a1", derived_from="synthesis", stage="x", code="c", message="m")


@pytest.mark.parametrize(
    ("value", "text", "datatype"),
    [
        (0.1, "0.1", "double"),
        (1e-7, "1e-07", "double"),
        (float("inf"), "INF", "double"),
        (float("-inf"), "-INF", "double"),
        (3, "3", "integer"),
        (-3, "-3", "integer"),
        (100_000, "100000", "integer"),
        (True, "true", "boolean"),
    ],
)
def test_typed_literals_follow_xml_schema(value: float | bool, text: str, datatype: str) -> None:
    """Lexical forms are those of XSD, and read back as the same value."""
    term = scalar(value)

    assert (term.value, term.datatype) == (text, ns.XSD + datatype)
    assert read_scalar(term) == value


def test_nan_has_its_xsd_form() -> None:
    """NaN is written as XSD writes it."""
    assert double(float("nan")).value == "NaN"
    assert integer(512).value == "512"
    assert scalar(False).value == "false"


def test_every_reason_has_a_stage_and_an_explanation() -> None:
    """The list of codes is closed, and each code has one stage and one line."""
    for meaning in OUTCOMES.values():
        assert meaning.stage in {"exploration", "focus", "synthesis"}
        assert "\n" not in meaning.explanation


def test_stage_iris_contain_the_answer_id() -> None:
    """The answer id can be read from the IRI of every stage, and from no other IRI."""
    own = answer_uris("a1")

    for uri in (own.question, own.grounding, own.focus, own.synthesis, own.answer, own.error):
        assert answer_id_from_uri(uri) == "a1"
    assert answer_id_from_uri("urn:other:a1") == ""
    assert answer_id_from_uri("urn:trustgraph:docrag:") == ""


@pytest.mark.parametrize(
    "identifier",
    ["a", "a b", "urn:x>y", "urn:whence:id:a", "ä:ö", "x:\ud800", "notes/ä.md#1", "%20", ":"],
)
def test_any_id_round_trips_through_its_iri(identifier: str) -> None:
    """Any id can be converted to an IRI and back."""
    wrapped = iri_from_id(identifier)

    assert wrapped.startswith("urn:whence:id:")
    assert not set(wrapped) & set('<>"{}|^`\\ \n')
    assert id_from_iri(wrapped) == identifier


DOCS = Path(__file__).resolve().parents[2] / "docs" / "provenance.md"


def test_every_term_of_ours_is_documented() -> None:
    """docs/provenance.md names every predicate, class and reason code of ours."""
    page = DOCS.read_text(encoding="utf-8")
    terms = [value for name, value in vars(ns).items() if name.startswith("WH_")]
    used = {t.p.iri for t in (*full_triples(), *failed_triples()) if t.p.iri.startswith(ns.WH)}

    for term in (*terms, *used):
        name = term.removeprefix(ns.WH)
        assert f"wh:{name}" in page or name.startswith("setting_"), name
    for code in OUTCOMES:
        assert f"`{code}`" in page
    for code, meaning in DROP_REASONS.items():
        assert f"| `{code}` | {meaning.stage} | {meaning.explanation} |" in page


def test_documented_queries_return_rows() -> None:
    """Every SPARQL example of the page returns rows on a full trace."""
    examples = re.findall(r"```sparql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)

    assert len(examples) == 4
    for example in examples:
        assert run_sparql(read_trace(full_triples()).triples, example).rows


@pytest.mark.parametrize("module", [terms, text])
def test_docstring_examples_are_correct(module: ModuleType) -> None:
    """Examples in docstrings produce the output shown."""
    result = doctest.testmod(module)

    assert result.attempted > 0
    assert result.failed == 0
