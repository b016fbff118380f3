"""Traces are PROV-O: the package `prov` loads them, our SHACL shapes hold, and shared readers read them."""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from types import ModuleType
from typing import Any

import msgspec
import pytest
import rdflib
from prov.model import (
    ProvActivity,
    ProvAgent,
    ProvAssociation,
    ProvBundle,
    ProvDerivation,
    ProvDocument,
    ProvEntity,
    ProvGeneration,
    ProvUsage,
)
from tests.support.prov_o import load, prov_faults, violations
from tests.support.traces import (
    code_triples,
    earlier_triples,
    failed_triples,
    full_triples,
    plain_triples,
    refused_triples,
)

from whence.provenance import namespaces as ns
from whence.provenance.checking import check_trace
from whence.provenance.erasing import erase_texts
from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.redaction import WITHHELD, chunk_ids, redact_trace
from whence.provenance.render.rdf import run_sparql, serialize, to_nquads
from whence.provenance.stages import (
    MAX_LISTED,
    exploration_triples,
    focus_triples,
    grounding_triples,
    synthesis_triples,
)
from whence.provenance.terms import answer_uris, iri_from_id
from whence.provenance.trace import Trace, read_trace
from whence.provenance.why_not import why_not
from whence.schema import Access
from whence.schema.document_rag import Citation, ExplainEvent, TraceRecord
from whence.schema.passages import Passage
from whence.schema.places import Location
from whence.schema.terms import Term, Triple, iri, literal

# rdflib uses names of its own that it has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning")

REPLACE = msgspec.structs.replace
#: Beyond it lists continue on parts.
WIDE = MAX_LISTED + 5


def traces() -> dict[str, list[Triple]]:
    """Return a trace of each kind as its stages state it."""
    return {
        "full": full_triples(),
        "failed": failed_triples(),
        "refused": refused_triples(),
        "code": code_triples(nodes=WIDE),
    }


KINDS = pytest.mark.parametrize("name", ["full", "failed", "refused", "code"])


def subjects(triples: Iterable[Triple]) -> Counter[str]:
    """Return the number of different triples of each subject."""
    return Counter(triple.s.iri for triple in set(triples))


# The package `prov`.


def loaded(triples: Iterable[Triple], form: str = "trig", parser: str = "trig") -> ProvBundle:
    """Load triples with `prov` from a format."""
    return load(serialize(triples, form), parser)


def pairs(bundle: ProvBundle, relation: type) -> set[tuple[str, str]]:
    """Return both ends of all relations of a kind."""
    found = (record.args[:2] for record in bundle.get_records(relation))
    return {(one.uri, other.uri) for one, other in found}


@KINDS
@pytest.mark.parametrize(
    ("form", "parser"),
    [("trig", "trig"), ("turtle", "turtle"), ("jsonld", "json-ld"), ("nquads", "nquads")],
)
def test_prov_loads_every_trace(name: str, form: str, parser: str) -> None:
    """Each stage is an entity that an activity with times generated, by software, from the stage before."""
    trace = read_trace(traces()[name])
    bundle = loaded(trace.triples, form, parser)
    generated = pairs(bundle, ProvGeneration)
    activities = {one.identifier.uri: one for one in bundle.get_records(ProvActivity)}
    agents = {one.identifier.uri for one in bundle.get_records(ProvAgent)}
    entities = {one.identifier.uri for one in bundle.get_records(ProvEntity)}

    assert {*activities, *agents, *entities} == set(subjects(trace.triples))
    assert {entity for entity, _ in generated} <= entities
    for stage in trace.stages:
        activity = f"{trace.stages[0].uri}/activity/{stage.stage}"
        assert (stage.uri, activity) in generated
        times = [activities[activity].get_startTime(), activities[activity].get_endTime()]
        assert all(one.utcoffset() is not None for one in times)
        assert times == sorted(times)
        associated = {a for one, a in pairs(bundle, ProvAssociation) if one == activity}
        assert associated
        assert associated <= agents
        if stage.derived_from:
            assert (activity, stage.derived_from) in pairs(bundle, ProvUsage)
            assert (stage.uri, stage.derived_from) in pairs(bundle, ProvDerivation)


def test_prov_reads_the_way_to_the_documents() -> None:
    """By `wasDerivedFrom` alone the answer leads to the cited passages and to their titled documents."""
    trace = read_trace(traces()["full"])
    bundle = loaded(trace.triples)
    reached, waiting = set(), [trace.stages[-1].uri]
    derived = defaultdict(list)
    for one, other in pairs(bundle, ProvDerivation):
        derived[one].append(other)
    while waiting:
        for uri in derived[waiting.pop()]:
            reached.add(uri)
            waiting.append(uri)
    cited = {iri_from_id(citation.chunk_id) for citation in trace.citations}
    documents = {uri for passage in cited for uri in derived[passage]}

    assert len(cited) == 2
    assert cited | documents <= reached
    for uri in documents:
        [document] = bundle.get_record(uri)
        attributes = {str(name): value for name, value in document.attributes}
        assert attributes["dc:title"] in {"Policy 1", "Policy 2"}
        assert attributes["prov:location"]


def test_a_trace_of_the_shared_vocabulary_alone_is_loaded() -> None:
    """Its stages derive from each other; only a time that other readers expect stands on an entity."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        document = ProvDocument.deserialize(
            content=serialize(plain_triples(), "trig"), format="rdf", rdf_format="trig"
        )
    [bundle] = document.bundles

    assert len(pairs(bundle, ProvDerivation)) == 4
    assert len([*bundle.get_records(ProvEntity)]) == 5


def test_agents_have_names_and_versions() -> None:
    """The software and each model are agents, with what is known of their version."""
    bundle = loaded(read_trace(traces()["full"]).triples)
    agents = {
        one.identifier.uri.rpartition("/agent/")[2]: {
            str(name).rpartition(":")[2]: str(value) for name, value in one.attributes
        }
        for one in bundle.get_records(ProvAgent)
    }

    assert set(agents) == {
        "whence",
        "embedding/all-MiniLM-L6-v2",
        "reranker/ms-marco-MiniLM-L-12-v2",
        "writer/extractive",
    }
    assert agents["whence"] == {"label": "Whence", "type": "prov:SoftwareAgent", "version": "0.1"}
    assert agents["embedding/all-MiniLM-L6-v2"]["revision"] == "c9745ed1"
    assert all("label" in attributes for attributes in agents.values())


# Our shapes.


@KINDS
def test_the_shapes_hold(name: str) -> None:
    """Every kind of trace conforms to the shapes."""
    trace = read_trace(traces()[name])

    assert violations(serialize(trace.triples, "turtle")) == ""
    assert prov_faults(trace.triples) == []


def erased(triples: Sequence[Triple], *chunks: str) -> list[Triple]:
    """Return triples from which chunks were erased."""
    answer_id = read_trace(triples).answer_id
    event = ExplainEvent(
        answer_id=answer_id, stage="all", sequence=0, explain_id="", triples=tuple(triples)
    )
    record = TraceRecord(
        answer_id=answer_id,
        collection="default",
        question="?",
        access=Access.public(),
        events=(event,),
    )
    record = erase_texts(
        record, is_erased=lambda c, _: c in chunks, erased_at="2026-02-03T04:05:06Z"
    )
    return [triple for event in record.events for triple in event.triples]


def test_the_shapes_hold_after_redaction_and_erasure() -> None:
    """What is left for another reader, or after an erasure, conforms too."""
    trace = read_trace(traces()["full"])
    first, second = (citation.chunk_id for citation in trace.citations)

    for left in (
        redact_trace(trace, chunk_ids(trace) - {first}),
        read_trace(erased(traces()["full"], second)),
    ):
        assert violations(serialize(left.triples, "turtle")) == ""
        assert prov_faults(left.triples) == []


@pytest.mark.parametrize("name", ["full", "failed", "refused", "code", "plain"])
def test_the_shared_shapes_hold(name: str) -> None:
    """What readers of the shared vocabulary expect is in every trace, also in one of that vocabulary alone."""
    triples = plain_triples() if name == "plain" else traces()[name]
    found = read_trace(triples).triples

    assert violations(serialize(found, "trig"), "shapes-shared.ttl") == ""
    for path, predicate in {
        "tg:query": ns.TG_QUERY,
        "prov:wasDerivedFrom": ns.PROV_WAS_DERIVED_FROM,
        "prov:startedAtTime": ns.PROV_STARTED_AT_TIME,
        "rdfs:label": ns.RDFS_LABEL,
    }.items():
        left = [one for one in found if one.p.iri != predicate]
        assert path in violations(serialize(left, "trig"), "shapes-shared.ttl")


QUESTION, GROUNDING = iri(answer_uris("full").question), iri(answer_uris("full").grounding)
START, GRAPH = iri(ns.PROV_STARTED_AT_TIME), ns.GRAPH_RETRIEVAL


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda t: [*t, Triple(GROUNDING, START, literal("2026", ns.XSD_DATE_TIME), GRAPH)],
            "prov:Activity",
        ),
        (
            lambda t: [
                REPLACE(one, o=literal(one.o.value)) if one.p == START else one for one in t
            ],
            "dateTime",
        ),
        (
            lambda t: [
                REPLACE(one, o=REPLACE(one.o, value=one.o.value.removesuffix("Z")))
                if one.p == START
                else one
                for one in t
            ],
            "pattern",
        ),
        (lambda t: [one for one in t if one.p.iri != ns.DC_TITLE], "dc:title"),
        (lambda t: [one for one in t if one.o.iri != ns.PROV_ENTITY], "neither an entity"),
        (lambda t: [one for one in t if one.p.iri != ns.RDFS_LABEL], "rdfs:label"),
        (
            lambda t: [
                *t,
                *[Triple(QUESTION, iri(ns.TG_CONCEPT), literal(str(n)), GRAPH) for n in range(100)],
            ],
            "more than 100",
        ),
    ],
    ids=["entity", "untyped", "zone", "title", "class", "label", "length"],
)
def test_the_shapes_find_faults(change: Any, words: str) -> None:
    """A time on an entity, untyped or without zone, a missing title, class or label, and a long node."""
    changed = change(list(read_trace(traces()["full"]).triples))

    assert words in violations(serialize(changed, "turtle"))


# Readers of the shared vocabulary: the client of TrustGraph asks a store for 100 triples of a subject.


class Flow:
    """Answers queries for triples as TrustGraph's gateway does, in the order of the store."""

    def __init__(self, triples: Sequence[Triple]) -> None:
        self._triples = triples

    def triples_query(
        self,
        s: str = "",
        p: str = "",
        o: str = "",
        g: str = "",
        collection: str | None = None,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Return at most `limit` triples of a graph."""
        found = (
            {"s": wire_term(t.s), "p": wire_term(t.p), "o": wire_term(t.o)}
            for t in self._triples
            if t.g == g and s in {"", t.s.iri} and p in {"", t.p.iri} and o in {"", t.o.iri}
        )
        return list(islice(found, limit))


def wire_term(term: Term) -> dict[str, str]:
    """Return a term in the form of TrustGraph's gateway."""
    return {"t": "i", "i": term.iri} if term.type == "i" else {"t": "l", "v": term.value}


@cache
def trustgraph_client() -> Any:
    """Return the class of the client; the rest of the package needs transports that are not installed."""
    found = find_spec("trustgraph")
    assert found is not None
    assert found.submodule_search_locations
    package = ModuleType("trustgraph.api")
    package.__path__ = [f"{next(iter(found.submodule_search_locations))}/api"]
    sys.modules.setdefault(package.__name__, package)
    return import_module("trustgraph.api.explainability").ExplainabilityClient


def read_as_trustgraph(triples: Sequence[Triple], name: str) -> dict[str, Any]:
    """Return the entities of a trace that the client of TrustGraph reads."""
    client = trustgraph_client()(Flow(triples), retry_delay=0.0)
    # The way through a focus is that of graph RAG; the one of document RAG expects none.
    has_focus = any(t.o.iri == ns.TG_FOCUS for t in triples)
    fetch = client.fetch_graphrag_trace if has_focus else client.fetch_docrag_trace
    found = fetch(answer_uris(name).question)
    return {kind: entity for kind, entity in found.items() if entity is not None}


@pytest.mark.parametrize("name", ["full", "refused", "failed", "plain"])
def test_shared_readers_read_the_same_in_any_order(name: str) -> None:
    """Each order of the store gives the same entities, those of the stages."""
    triples = {**traces(), "full": full_triples(found=70, kept=20), "plain": plain_triples()}[name]
    order = random.Random(3)
    readings = []
    for _ in range(30):
        order.shuffle(triples)
        found = read_as_trustgraph(triples, name)
        found["grounding"].concepts.sort()
        readings.append(found)
    trace = read_trace(triples)
    first = readings[0]

    assert all(one == first for one in readings)
    assert list(first) == [stage.stage for stage in trace.stages if stage.stage != "error"]
    assert first["question"].query == trace.question
    assert first["question"].timestamp == trace.asked_at
    assert first["question"].question_type == "document-rag"
    assert first["grounding"].concepts == sorted(trace.concepts)
    if name != "failed":
        assert first["exploration"].chunk_count == len(trace.explored)
        assert first["synthesis"].document == ("" if name == "plain" else answer_uris(name).answer)


@pytest.mark.parametrize("form", ["nquads", "trig"])
def test_a_store_that_is_filled_by_explain_is_read(form: str) -> None:
    """N-Quads and TriG of a trace give the client of TrustGraph what the live events gave it."""
    live = full_triples()
    filled = parsed(serialize(read_trace(live).triples, form), form)
    found, expected = read_as_trustgraph(filled, "full"), read_as_trustgraph(live, "full")
    for entities in (found, expected):
        entities["grounding"].concepts.sort()

    assert found == expected
    assert found["question"].timestamp


def test_the_answer_has_its_text() -> None:
    """The document of the synthesis is described, and its value is the text of the answer."""
    trace = read_trace(traces()["full"])
    sparql = (
        "SELECT ?text { ?answer a tg:Answer ; tg:document ?document . ?document prov:value ?text }"
    )

    assert trace.answer_text == "Within 30 days [1]. Refunds take five days [2]."
    assert [row["text"] for row in run_sparql(trace.triples, sparql).rows] == [trace.answer_text]


@pytest.mark.parametrize("form", ["nquads", "trig", "turtle", "jsonld"])
def test_the_time_of_the_question_stands_where_readers_look(form: str) -> None:
    """Formats with the graph of the trace state it of the question too; Turtle of its activity."""
    trace = read_trace(traces()["full"])
    text = serialize(trace.triples, form)
    found = parsed(text, "json-ld" if form == "jsonld" else form)
    stated = {t.s: t.o.datatype for t in found if t.p == START}

    assert stated[iri(f"{QUESTION.iri}/activity/question")] == ns.XSD_DATE_TIME
    assert (QUESTION in stated) == (form != "turtle")
    assert set(stated.values()) == {ns.XSD_DATE_TIME}
    assert read_trace(found).asked_at == trace.asked_at != ""


# No node has more than 100 triples.


def test_a_list_at_the_limit_stays_on_its_node() -> None:
    """The last list that fits has no parts, the next longer one has two and nothing on the node itself."""
    chunks = [f"urn:chunk:c:{number}" for number in range(MAX_LISTED + 1)]
    fits, over = exploration_triples("a", chunks[:-1]), exploration_triples("a", chunks)

    assert set(subjects(fits)) == {answer_uris("a").exploration}
    assert subjects(over) == {
        answer_uris("a").exploration: 5,
        f"{answer_uris('a').exploration}/part/0": 3 + MAX_LISTED,
        f"{answer_uris('a').exploration}/part/1": 3 + 1,
    }
    assert set(read_trace(over).explored) == set(chunks)


@pytest.mark.parametrize("size", [60, 81, 99, 101, 170])
def test_no_node_has_more_than_100_triples(size: int) -> None:
    """However many concepts, chunks, kept chunks, edges and citations: all are read back."""
    triples = code_triples(nodes=size)
    trace = read_trace(triples)

    assert max(subjects(triples).values()) <= 100
    assert len(trace.concepts) == len(trace.explored) == len(trace.candidates) == size
    assert len(trace.selections) == len(trace.citations) == size
    assert len(read_graph_walk(trace).edges) == size - 1
    assert trace.stages[-1].derived_from == answer_uris("code").focus
    assert check_trace(trace) == []
    reached = run_sparql(
        trace.triples,
        "SELECT DISTINCT ?p { ?a a tg:Answer ; prov:wasDerivedFrom+ ?p . ?p a tg:Chunk }",
    )
    assert len(reached.rows) == size


def test_long_lists_of_the_shared_vocabulary_are_read() -> None:
    """Without our statements, too, no node is longer than 100 triples and nothing is lost."""
    chunks = [f"urn:chunk:c:{number}" for number in range(250)]
    triples = [
        *grounding_triples("a", [f"c{number}" for number in range(250)]),
        *exploration_triples("a", chunks),
        *focus_triples("a", [Passage(chunk_id=chunk, raw_score=0.5) for chunk in chunks]),
        *synthesis_triples("a", reranked=True),
    ]
    trace = read_trace(triples)

    assert max(subjects(triples).values()) <= 100
    assert sorted(trace.explored) == sorted(chunks)
    assert [one.chunk_id for one in trace.selections] == chunks
    assert len(trace.concepts) == 250
    assert trace.stages[-1].derived_from == answer_uris("a").focus


def test_redaction_of_long_lists_leaves_no_gap() -> None:
    """Parts are filled anew; when the rest fits on one node there are none."""
    trace = read_trace(code_triples(nodes=2 * MAX_LISTED))
    seen = redact_trace(trace, frozenset(trace.explored[: MAX_LISTED + 1]))
    few = redact_trace(trace, frozenset(trace.explored[:MAX_LISTED]))

    assert check_trace(seen) == check_trace(few) == []
    parts = subjects(t for t in seen.triples if "/part/" in t.s.iri)
    ends = {uri.removeprefix(answer_uris("code").question): n for uri, n in parts.items()}
    assert {uri: n for uri, n in ends.items() if "grounding" not in uri} == {
        f"/{stage}/part/{number}": 3 + size
        for stage in ("exploration", "focus", "synthesis")
        for number, size in ((0, MAX_LISTED), (1, 1))
    }
    assert {t.s.iri.split("/")[-3] for t in few.triples if "/part/" in t.s.iri} == {"grounding"}


# Passages and documents follow the rights of the reader, and erasures.


def words_of(triples: Iterable[Triple]) -> str:
    """Return every text of the triples."""
    return "\n".join(f"{t.s.iri} {t.o.iri} {t.o.value}" for t in triples)


def test_titles_and_places_of_hidden_documents_are_removed() -> None:
    """Of two cited documents one is hidden: its title, place and passage are gone, the answer is withheld."""
    trace = read_trace(traces()["full"])
    hidden, shown = trace.citations
    seen = redact_trace(trace, chunk_ids(trace) - {hidden.chunk_id})
    left = words_of(seen.triples)

    assert "Policy 1" not in left
    assert "Policy 2" in left
    assert iri_from_id(hidden.chunk_id) not in left
    assert iri_from_id(shown.chunk_id) in left
    assert seen.answer_text == WITHHELD
    assert "Within 30 days" not in left
    documents = {t.s.iri for t in seen.triples if t.o.iri == ns.TG_DOCUMENT_TYPE}
    assert documents == {answer_uris("full").document_prefix + "0"}
    assert check_trace(seen) == []


def test_a_reader_of_all_that_the_writer_got_reads_the_answer() -> None:
    """A candidate that was dropped does not withhold the text when it is hidden."""
    trace = read_trace(traces()["full"])
    dropped = next(c.chunk_id for c in trace.candidates if c.reason_code == "reranked_out")

    seen = redact_trace(trace, chunk_ids(trace) - {dropped})

    assert seen.answer_text == trace.answer_text
    assert iri_from_id(dropped) not in words_of(seen.triples)


def test_titles_places_and_the_answer_are_erased() -> None:
    """Nothing of an erased document remains but ids; the other cited one keeps its title and place."""
    trace = read_trace(traces()["full"])
    gone = trace.citations[1]
    left = words_of(erased(traces()["full"], gone.chunk_id))

    for text in ("Policy 2", "https://example.org/2", "Refunds take", "Within 30 days"):
        assert text not in left
    assert "Policy 1" in left
    assert check_trace(read_trace(erased(traces()["full"], gone.chunk_id))) == []


def test_a_passage_of_two_answers_belongs_to_both() -> None:
    """Of a passage that two traces cite each has the document that its own trace names."""
    one, other = traces()["full"], full_triples("other")
    both = [*one, *other]

    assert read_trace(both, "full") == read_trace(one)
    assert read_trace(both, "other") == read_trace(other)


# Traces of version 0.1.


def earlier() -> list[Triple]:
    """Parse the traces that version 0.1 stored."""
    return parsed(earlier_triples(), "nquads")


def parsed(text: str, form: str) -> list[Triple]:
    """Return the statements of a text, its literals as they are written."""
    dataset = rdflib.Dataset()
    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        dataset.parse(data=text, format=form)
    finally:
        rdflib.NORMALIZE_LITERALS = before
    return [Triple(iri(str(s)), iri(str(p)), _term(o), str(g)) for s, p, o, g in dataset.quads()]


def _term(node: Any) -> Term:
    if isinstance(node, rdflib.URIRef):
        return iri(str(node))
    return literal(str(node), str(node.datatype or ""))


def facts(trace: Trace) -> dict[str, Any]:
    """Return what a trace says, without what version 0.1 did not record."""
    plain = [REPLACE(one, location=None) for one in trace.citations]
    stages = [
        (stage.stage, stage.derived_from, stage.model, stage.in_token, stage.out_token)
        for stage in trace.stages
    ]
    return {
        "question": trace.question,
        "asked_at": trace.asked_at,
        "concepts": trace.concepts,
        "explored": trace.explored,
        "candidates": trace.candidates,
        "selections": trace.selections,
        "citations": plain,
        "failure": trace.failure,
        "stages": stages,
        "durations": [stage.run.duration_ms for stage in trace.stages][-2:],
        "times": [stage.run.ended_at for stage in trace.stages][-2:],
        "settings": trace.stages[0].run.settings,
        "degraded": [stage.run.degraded for stage in trace.stages],
    }


def test_a_trace_of_version_0_1_is_read() -> None:
    """All that it states is read as it is of a trace of today, models and times of stages included."""
    old = read_trace(earlier(), "full")
    new = read_trace(full_triples(found=8, kept=3))

    assert facts(old) == facts(new)
    assert [stage.run.models for stage in old.stages[:4]] == [
        stage.run.models for stage in new.stages[:4]
    ]
    assert [one.name for one in old.stages[2].run.models] == ["all-MiniLM-L6-v2"]
    assert (new.found, old.found) == (True, True)
    assert (old.stages[1].in_token, old.stages[1].out_token) == (212, 18)
    assert new.citations[0].location == Location(line_start=3, line_end=4, anchor="returns")


@pytest.mark.parametrize("name", ["full", "failed", "code", "refused"])
def test_traces_of_version_0_1_are_checked_redacted_and_explained(name: str) -> None:
    """They are complete, also when parts are hidden, and why-not answers from them."""
    trace = read_trace(earlier(), name)
    assert check_trace(trace) == []
    assert redact_trace(trace, chunk_ids(trace)) is trace
    for hidden in chunk_ids(trace):
        seen = redact_trace(trace, chunk_ids(trace) - {hidden})
        assert check_trace(seen) == []
        assert iri_from_id(hidden) not in words_of(seen.triples)
        assert why_not(trace, hidden, visible=chunk_ids(seen)).code == "not_retrieved"


def test_a_walk_of_version_0_1_is_read() -> None:
    """Nodes and edges, and without a node that is hidden."""
    trace = read_trace(earlier(), "code")
    seen = redact_trace(trace, frozenset(trace.explored[:2]))

    assert [edge.relation for edge in read_graph_walk(trace).edges] == ["dep", "ReadsFrom"]
    assert [edge.relation for edge in read_graph_walk(seen).edges] == ["dep"]


def test_a_refusal_of_version_0_1_is_read() -> None:
    """Its code, numbers and passage."""
    refusal = read_trace(earlier(), "refused").refusal

    assert refusal is not None
    assert (refusal.code, refusal.floor) == ("below_evidence_floor", 0.5)
    assert refusal.best is not None
    assert refusal.best.chunk_id == "urn:chunk:c:a:0"


def test_a_trace_of_version_0_1_is_erased() -> None:
    """Its quotes and digests are removed."""
    triples = [t for t in earlier() if t.s.iri.partition(":full")[1]]
    gone = read_trace(triples).citations[0]
    left = words_of(erased(triples, gone.chunk_id))

    assert gone.quote
    assert gone.quote not in left


def test_turtle_is_the_trace_without_its_graph() -> None:
    """Turtle has every statement of the N-Quads but the question's own time, in the default graph."""
    trace = read_trace(traces()["full"])
    triples = [REPLACE(t, g=None) for t in parsed(serialize(trace.triples, "turtle"), "turtle")]
    expected = [REPLACE(t, g=None) for t in trace.triples if t.s != QUESTION or t.p != START]

    assert to_nquads(triples) == to_nquads(expected)


def test_citations_of_one_document_share_its_node() -> None:
    """Two passages of one document derive from one node; a passage without a document from none."""
    cited = [
        Citation(marker=1, chunk_id="urn:c:1", document_id="d"),
        Citation(marker=2, chunk_id="urn:c:2", document_id="d"),
        Citation(marker=2, chunk_id="urn:c:2", document_id="d"),
        Citation(marker=3, chunk_id="urn:c:3", document_id=""),
    ]
    triples = synthesis_triples("a", reranked=False, citations=cited)
    derived = [(t.s.iri, t.o.iri) for t in triples if t.p.iri == ns.PROV_WAS_DERIVED_FROM]
    uris = answer_uris("a")
    titles = [t.o.value for t in triples if t.p.iri == ns.DC_TITLE]

    assert sorted(derived) == sorted(
        [
            (uris.synthesis, uris.exploration),
            *((uris.synthesis, f"urn:c:{number}") for number in (1, 2, 3)),
            ("urn:c:1", f"{uris.document_prefix}0"),
            ("urn:c:2", f"{uris.document_prefix}0"),
        ]
    )
    assert titles == ["d"]


def objects(triples: Iterable[Triple], subject: str, predicate: str) -> list[str]:
    """Return the objects of a subject and a predicate."""
    return [t.o.iri or t.o.value for t in triples if (t.s.iri, t.p.iri) == (subject, predicate)]


@pytest.mark.parametrize(
    ("url", "file", "source"),
    [
        ("https://example.org/a", "a.md", "https://example.org/a"),
        ("", "guides/a b.md", "guides/a b.md"),
        ("", "", "d"),
    ],
)
def test_a_document_has_its_best_location(url: str, file: str, source: str) -> None:
    """Its URL, else its file, else its id: as text and as IRI; without a title its id stands for it."""
    cited = Citation(marker=1, chunk_id="c", document_id="d", source_url=url, source_file=file)
    triples = synthesis_triples("a", reranked=False, citations=[cited])
    node = answer_uris("a").document_prefix + "0"

    assert objects(triples, node, ns.DC_SOURCE) == [source]
    assert objects(triples, node, ns.PROV_AT_LOCATION) == [iri_from_id(source)]
    assert objects(triples, node, ns.DC_TITLE) == ["d"]
    assert objects(triples, node, ns.WH_DOCUMENT) == ["d"]


def test_a_failure_used_the_last_stage() -> None:
    """The activity that failed has times and used what was recorded last."""
    triples = traces()["failed"]
    uris = answer_uris("failed")
    activity = f"{uris.activity_prefix}error"

    assert objects(triples, uris.error, ns.RDFS_LABEL) == ["Error"]
    assert objects(triples, uris.error, ns.PROV_WAS_GENERATED_BY) == [activity]
    assert objects(triples, activity, ns.PROV_USED) == [uris.grounding]
    assert objects(triples, activity, ns.PROV_ENDED_AT_TIME) == ["2026-01-01T10:00:01.000Z"]
    assert objects(triples, activity, ns.WH_GENERATED_COUNT) == ["1"]


def test_a_model_is_one_agent_in_all_stages() -> None:
    """What is known of a model stands once; each stage that used it is associated with it."""
    trace = read_trace(traces()["full"])
    uris = answer_uris("full")
    agent = f"{uris.agent_prefix}embedding/all-MiniLM-L6-v2"

    assert objects(trace.triples, agent, ns.WH_DIMENSION) == ["384"]
    assert objects(trace.triples, agent, ns.WH_PRECISION) == ["w8"]
    assert objects(trace.triples, agent, ns.WH_ROLE) == ["embedding"]
    associated = objects(
        trace.triples, f"{uris.activity_prefix}exploration", ns.PROV_WAS_ASSOCIATED_WITH
    )
    assert associated == [agent, f"{uris.agent_prefix}whence"]


@pytest.mark.parametrize("kind", ["candidate/3", "synthesis/citation/1", "synthesis/degradation/0"])
def test_a_removed_node_is_found(kind: str) -> None:
    """Each activity counts what it generated, so that no candidate, citation or lack can be left out."""
    node = f"{answer_uris('full').question}/{kind}"
    activity = "exploration" if kind.startswith("candidate") else "synthesis"
    left = [t for t in traces()["full"] if t.s.iri != node]
    found = {(fault.code, fault.where) for fault in check_trace(read_trace(left))}

    assert ("count_mismatch", answer_uris("full").activity_prefix + activity) in found


def test_a_stage_without_an_activity_is_found() -> None:
    """Where other stages tell how they ran, one that does not is a fault."""
    stage = answer_uris("full").focus
    cut = [t for t in traces()["full"] if (t.s.iri, t.p.iri) != (stage, ns.PROV_WAS_GENERATED_BY)]

    assert ("no_activity", stage) in {
        (fault.code, fault.where) for fault in check_trace(read_trace(cut))
    }
    assert "no_activity" not in {fault.code for fault in check_trace(read_trace(plain_triples()))}
