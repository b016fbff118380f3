"""From a folder of documents to a cited answer and its provenance, through the installed command."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import rdflib
from prov.model import ProvDerivation, ProvElement
from tests.acceptance.conftest import running_server
from tests.support.prov_o import load, prov_faults, triple_of

TRAVEL = "Who approves travel abroad?"
STAGES = ["question", "grounding", "exploration", "focus", "synthesis"]


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    """Return the demo's questions with the documents they should cite."""
    path = Path(__file__).resolve().parents[2] / "examples" / "demo_questions.json"
    document: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())
    return document["questions"]


def test_indexing_again_changes_nothing(cli: Any, handbook: Path) -> None:
    """The same folder again: every document unchanged, nothing embedded."""
    report = cli("index", handbook, "--json").json

    assert report["documents"]["unchanged"] >= 20
    assert report["documents"]["added"] == report["documents"]["updated"] == 0
    assert (report["chunks"], report["embedded"], report["failures"]) == (0, 0, [])


def test_search_returns_ranked_hits(cli: Any, handbook: Path) -> None:
    """The list is full; hits are ranked, with full metadata, and those below 0.5 are weak."""
    result = cli("search", "how many days of annual leave do employees get", "--json")
    hits = result.json["hits"]

    assert result.code == 0
    assert [hit["rank"] for hit in hits] == [1, 2, 3, 4, 5]
    scores = [hit["similarity_score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert [hit["weak"] for hit in hits] == [score < 0.5 for score in scores]
    for hit in hits:
        metadata = hit["chunk"]["metadata"]
        assert {"dense_score", "sparse_score", "combined_score"} <= set(hit["score_breakdown"])
        assert all(
            metadata[key] for key in ("source_file", "source_url", "section_path", "heading")
        )
        assert metadata["header_path"] == metadata["section_path"]
        assert isinstance(metadata["chunk_index"], int)


def test_outdated_documents_are_marked(cli: Any, handbook: Path) -> None:
    """Hits printed as text mark outdated documents, and do not repeat the heading."""
    told = cli("search", "annual leave policy 2022", "--top-k", "3").out
    head, _, text = told.partition("\n")

    assert re.search(r"annual-leave-2022\.md .*\(out of date: .+\)", head), head
    assert not text.lstrip().startswith("#")


def test_no_results(cli: Any, handbook: Path) -> None:
    """A query without hits is exit 0, an empty list and the words `no results found`."""
    query = ("search", "quantum chromodynamics of neutron stars")
    result = cli(*query, "--threshold", "0.5", "--json")

    assert (result.code, result.json["hits"]) == (0, [])
    assert "no results found" in result.json["message"]
    assert 0 < result.json["best_score"] < 0.5
    assert cli(*query, "--json").json["message"] == "5 results, all weak"
    assert cli(*query).out.startswith("Weak matches")


@pytest.mark.parametrize("mode", ["hybrid", "dense", "bm25"])
def test_the_best_score_below_the_threshold_is_printed(cli: Any, handbook: Path, mode: str) -> None:
    """Without results the best score and a lower threshold are printed."""
    query = ("search", "parental leave in Italy", "--mode", mode)
    none = cli(*query, "--threshold", "0.99")
    lower = re.search(r"scores ([\d.]+), below the threshold 0.99; --threshold ([\d.]+)", none.err)
    assert (none.code, none.out) == (0, "")
    assert lower is not None
    hits = cli(*query, "--threshold", lower[2], "--json").json

    assert hits["best_score"] == hits["hits"][0]["similarity_score"]
    assert f"{hits['best_score']:.3f}" == lower[1]


def test_every_demo_question_is_answered(
    fresh: Any, handbook: Path, questions: list[dict[str, Any]]
) -> None:
    """`whence demo` cites the expected documents, quotes them verbatim, and every trace is complete."""
    told = fresh("demo", "--json")
    assert told.code == 0, told.err
    answers = told.json["answers"]
    assert len(answers) == len(questions)
    with running_server(fresh.home):
        traces = [
            fresh(
                *("explain", answer["answer_id"], "--json"),
                *(word for tag in question.get("acl", []) for word in ("--acl", tag)),
            ).json
            for question, answer in zip(questions, answers, strict=True)
        ]
    for question, answer, trace in zip(questions, answers, traces, strict=True):
        cited = {citation["document_id"] for citation in answer["citations"]}

        assert answer["question"] == question["question"]
        assert answer["asked_as"] == question.get("acl", [])
        assert set(question["expected"]) <= cited, (question, answer["answer"])
        assert not question.get("unanswerable") or not cited
        for citation in answer["citations"]:
            assert f"[{citation['marker']}]" in answer["answer"]
            source = (handbook / citation["source_file"]).read_text()
            assert citation["quote"] in source
        assert trace["complete"] is True
        assert prov_faults(map(triple_of, trace["triples"])) == []
        names = [stage["stage"] for stage in trace["stages"]]
        assert [name for name in STAGES if name in names] == names


def test_restricted_documents_are_for_their_readers_only(cli: Any, handbook: Path) -> None:
    """Without the tag a restricted document is not found, cited or named in the trace."""
    words = "What are the salary bands for engineers?"
    public = cli("search", words, "--threshold", "0", "--top-k", "50", "--json").json
    finance = cli(
        "search", words, "--threshold", "0", "--top-k", "50", "--acl", "finance", "--json"
    ).json
    seen = {hit["document_id"] for hit in public["hits"]}
    more = {hit["document_id"] for hit in finance["hits"]} - seen

    assert more
    answer = cli("ask", words, "--json").json
    trace = (
        cli("explain", answer["answer_id"]).out + cli("explain", answer["answer_id"], "--json").out
    )
    assert not [document for document in more if document in json.dumps(answer) + trace]


def test_a_trace_of_hidden_documents_does_not_exist_for_others(cli: Any, handbook: Path) -> None:
    """An answer from hidden documents has the error of an unknown id."""
    answer = cli(
        "ask", "What are the salary bands for engineers?", "--acl", "finance", "--json"
    ).json
    hidden = cli("explain", answer["answer_id"])
    unknown = cli("explain", "0" * 32)

    assert answer["citations"]
    assert (hidden.code, unknown.code) == (3, 3)
    assert hidden.err.replace(answer["answer_id"], "ID") == unknown.err.replace("0" * 32, "ID")
    assert cli("explain", answer["answer_id"], "--acl", "finance").code == 0


@pytest.fixture(scope="module")
def travel(cli: Any, handbook: Path) -> Any:
    """Return an answer to TRAVEL."""
    return cli("ask", TRAVEL, "--json").json


# rdflib uses names of its own that it has deprecated.
@pytest.mark.filterwarnings("ignore:.* is deprecated, use Dataset:DeprecationWarning")
def test_explain_prints_rdf(cli: Any, travel: Any) -> None:
    """N-Quads hold the triples of the JSON document, all in the retrieval graph."""
    trace = cli("explain", travel["answer_id"], "--json").json
    dataset = rdflib.Dataset()
    dataset.parse(
        data=cli("explain", travel["answer_id"], "--format", "nquads").out, format="nquads"
    )
    quads = list(dataset.quads((None, None, None, None)))

    assert len(quads) == len({tuple(t[k] for k in "spo") for t in trace["triples"]})
    assert {str(quad[3]) for quad in quads} == {"urn:graph:retrieval"} == {trace["graph"]}


@pytest.mark.parametrize(("form", "parser"), [("turtle", "turtle"), ("jsonld", "json-ld")])
def test_explain_prints_prov_o(cli: Any, travel: Any, form: str, parser: str) -> None:
    """The package `prov` loads each format: an activity a stage, and the way from answer to documents."""
    bundle = load(cli("explain", travel["answer_id"], "--format", form).out, parser)
    records = {one.identifier.uri: dict(one.attributes) for one in bundle.get_records(ProvElement)}
    derived = [tuple(end.uri for end in one.args[:2]) for one in bundle.get_records(ProvDerivation)]
    activities = [uri for uri in records if "/activity/" in uri]

    assert len(activities) == len(travel["stages"])
    for citation in travel["citations"]:
        passage = citation["chunk_id"]
        assert passage in [other for one, other in derived if one.endswith("/synthesis")]
        [document] = [other for one, other in derived if one == passage]
        told = {
            str(name).partition(":")[2]: str(value) for name, value in records[document].items()
        }
        assert told["title"] == citation["title"] != ""
        assert told["source"] == citation["source_url"]


def test_explain_draws_and_queries(cli: Any, travel: Any) -> None:
    """The tree fits a terminal, the picture is SVG, and SPARQL returns rows."""
    answer_id = travel["answer_id"]
    sparql = "SELECT ?s WHERE { GRAPH <urn:graph:retrieval> { ?s a <https://trustgraph.ai/ns/Synthesis> } }"

    assert "synthesis" in cli("explain", answer_id).out.lower()
    assert cli("explain", answer_id, "--format", "svg").out.lstrip().startswith(("<svg", "<?xml"))
    assert f"{answer_id}/synthesis" in cli("explain", answer_id, "--sparql", sparql).out
    assert cli("explain", answer_id, "--sparql", "SELEKT").code == 2


@pytest.mark.parametrize("form", ["tree", "trig", "svg"])
def test_json_is_printed_for_every_format(cli: Any, travel: Any, form: str) -> None:
    """With `--json` stdout is one JSON document, whatever format is chosen beside it."""
    result = cli("explain", travel["answer_id"], "--format", form, "--json")

    assert result.code == 0, result.err
    assert travel["answer_id"] in json.dumps(result.json)


def test_a_streamed_answer_has_the_same_text(cli: Any, travel: Any) -> None:
    """The streamed text is the answer."""
    assert travel["answer"].strip() in cli("ask", TRAVEL, "--stream").out


def test_the_same_question_gets_the_same_answer(cli: Any, travel: Any) -> None:
    """Same input, same text, same citations, same stages in the same order."""
    again = cli("ask", TRAVEL, "--json").json

    for key in ("answer", "citations", "model", "degraded"):
        assert travel[key] == again[key]
    assert [one["stage"] for one in travel["stages"]] == [one["stage"] for one in again["stages"]]


def test_run_checks_a_flow(cli: Any) -> None:
    """`run --check` names processors and interfaces with full topic names and starts nothing."""
    flow = Path(__file__).resolve().parents[2] / "flows" / "document-rag.yaml"
    report = cli("run", flow, "--check", "--json").json

    assert report["flow"] == "document-rag"
    assert {"name", "type", "concurrency"} <= set(report["processors"][0])
    assert report["interfaces"]["explain"]["topic"].startswith("persistent://")
    assert {"request", "response"} <= set(report["interfaces"]["document-rag"])


def test_run_says_ready_and_drains(cli: Any, handbook: Path) -> None:
    """`run` prints `ready` when all processors consume, and exits with 0 on SIGTERM."""
    flow = Path(__file__).resolve().parents[2] / "flows" / "all-in-one.yaml"
    process = cli.start("run", flow)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.strip() == b"ready":
                break
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0, err
