"""Renderings of traces, what is wrong with damaged ones and what readers see of them, as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import StringIO
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text
from tests.support.expected import assert_expected
from tests.support.traces import failed_triples, full_triples, plain_triples

from whence.provenance import namespaces as ns
from whence.provenance.checking import check_trace
from whence.provenance.redaction import chunk_ids, redact_trace
from whence.provenance.render import render_trace
from whence.provenance.render.json import to_json, trace_summary
from whence.provenance.render.rdf import run_sparql, to_nquads
from whence.provenance.render.text import format_duration, one_line, rights_text, shorten
from whence.provenance.render.tree import to_tree, tree_text
from whence.provenance.stage_records import (
    GraphWalk,
    ModelUse,
    StageRun,
    WalkEdge,
    WalkNode,
)
from whence.provenance.stages import (
    exploration_triples,
    failure_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.provenance.terms import answer_uris
from whence.provenance.trace import Trace, read_trace
from whence.schema.access import Access
from whence.schema.document_rag import BestPassage, Citation, Refusal
from whence.schema.errors import BadInput
from whence.schema.passages import Passage
from whence.schema.places import Location
from whence.schema.search import Correction, Degradation
from whence.schema.terms import Term, Triple, iri, literal

NOW = "2026-01-01T10:00:00.000Z"
ID = "walk"


def _chunk(number: int) -> str:
    return f"urn:chunk:code:{number}"


def walked_triples(*, candidates: int = 16, refused: bool = False) -> list[Triple]:
    """Return the trace of a question about code: a walk over many edges, moved and dropped candidates."""
    rows = [
        Passage(
            chunk_id=_chunk(number),
            rank=number,
            document_id=f"code-{number % 3}",
            score=None if number == 2 else 1 - number / 20,
            digest=f"d{number}",
            reason_code="text_missing" if number > 9 else "",
        )
        for number in range(1, candidates + 1)
    ]
    read = [row for row in rows if not row.reason_code]
    order = [read[1], read[0], *read[2:]]
    scored = [
        replace(
            row,
            rerank_rank=place,
            raw_score=0.5 - place / 32,
            final_score=0.5 - place / 32 if place == 1 else 0.75 - place / 32,
            reason_code="" if place < 5 else "over_rerank_limit" if place > 7 else "reranked_out",
        )
        for place, row in enumerate(order, 1)
    ]
    kept = [
        Passage(chunk_id=row.chunk_id, raw_score=row.raw_score or 0.0, final_score=row.final_score)
        for row in scored
        if not row.reason_code
    ]
    walk = GraphWalk(
        nodes=tuple(
            WalkNode(
                chunk_id=_chunk(number),
                rank=number,
                depth=number // 3,
                parent_id=_chunk(number - 2) if number > 2 else "",
            )
            for number in range(1, candidates + 1)
        ),
        edges=tuple(
            WalkEdge(from_id=_chunk(number), to_id=_chunk(number + 1), relation=f"calls {number}")
            for number in range(1, 15)
        ),
    )
    lost = Degradation(stage="graph", reason="code-2 was\nnot read", code="graph_unavailable")
    writer = ModelUse(role="writer", name="stub", revision="0123456789abcdef0", precision="")
    run = StageRun(started_at=NOW, ended_at=NOW, duration_ms=1234.5, degraded=(lost, lost))
    citations = [
        Citation(
            marker=1,
            chunk_id=kept[0].chunk_id,
            document_id="code-2",
            quote="x" * 250,
            highlights=((0, 2),),
            location=Location(line_start=3, line_end=4, anchor="a"),
        ),
        Citation(marker=2, chunk_id=kept[1].chunk_id, document_id="code-1", quote=""),
    ]
    best = BestPassage(kept[0].chunk_id, 0.125)
    reason = "nothing\nis near enough"
    refusal = Refusal(code="below_evidence_floor", reason=reason, best=best, floor=0.25)
    return [
        *question_triples(ID, "why does\nit call?", NOW, run=StageRun(settings={"b": 1, "a": "x"})),
        *grounding_triples(
            ID,
            ["y" * 80, "it calls"],
            question_used="why does it call",
            corrections=[Correction(source="cal", target="call")],
            model="m",
            in_token=5,
            run=run,
        ),
        *exploration_triples(
            ID, [row.chunk_id for row in read], candidates=rows, walk=walk, run=run
        ),
        *focus_triples(ID, kept, candidates=scored, run=StageRun()),
        *synthesis_triples(
            ID,
            reranked=True,
            citations=() if refused else citations,
            found=not refused,
            refusal=refusal if refused else None,
            answer_digest="ab",
            saved=True,
            out_token=7,
            run=StageRun(duration_ms=4.04, models=(writer,)),
        ),
    ]


def hinted_triples() -> list[Triple]:
    """Return the trace of a question that failed before anything was kept."""
    return [
        *question_triples("hint", "?", NOW),
        *grounding_triples("hint", []),
        *exploration_triples("hint", [_chunk(1)]),
        *failure_triples(
            "hint",
            derived_from="exploration",
            stage="focus",
            code="unavailable",
            message="it is\ndown",
            hint="start\nit",
        ),
    ]


def many_faults() -> list[Triple]:
    """Return a trace of which most is missing."""
    return [one for one in walked_triples() if not _is_candidate(one)]


def _is_candidate(triple: Triple) -> bool:
    return "/candidate/" in triple.s.iri


TRACES: dict[str, Callable[[], list[Triple]]] = {
    "full": full_triples,
    "plain": plain_triples,
    "unranked": lambda: plain_triples("unranked", reranked=False),
    "failed": failed_triples,
    "walked": walked_triples,
    "refused": lambda: walked_triples(refused=True, candidates=9),
    "hinted": hinted_triples,
    "broken": many_faults,
}


@pytest.mark.parametrize("name", list(TRACES))
def test_a_trace_is_rendered(name: str) -> None:
    """The whole tree in colours and wide, and the whole document without its triples."""
    rights = Access({"hr", "finance"}, {"internal"}, 2) if name == "walked" else None
    trace = replace(read_trace(TRACES[name]()), access=rights)

    out = StringIO()
    Console(file=out, width=80, color_system="standard", force_terminal=True, no_color=False).print(
        to_tree(trace)
    )
    assert Text.from_ansi(out.getvalue()).plain.split() == tree_text(trace).split()
    assert_expected(f"trace_{name}.txt", f"{out.getvalue()}\n{render_trace(trace, 'tree')}")
    assert_expected(f"trace_{name}.json", _told(trace_summary(trace)))


def _told(found: Any) -> Any:
    """Return a document without what is empty or unknown."""
    plain = msgspec.to_builtins(found, str_keys=True)
    if isinstance(plain, dict):
        return {
            key: _told(value)
            for key, value in plain.items()
            if value is not None and value not in ("", [], (), {})
        }
    return [_told(one) for one in plain] if isinstance(plain, list | tuple) else plain


@pytest.mark.parametrize("name", ["full", "walked", "refused", "hinted"])
def test_the_statements_of_a_trace(name: str) -> None:
    """Every statement, of the whole trace and of what a reader sees who may not see the best chunk."""
    trace = read_trace(TRACES[name]())
    best = trace.selections[0].chunk_id if trace.selections else ""
    seen = redact_trace(trace, chunk_ids(trace) - {best})

    assert_expected(f"trace_{name}.nq", f"{to_nquads(trace.triples)}\n{to_nquads(seen.triples)}")


def test_the_document_of_a_trace_has_its_triples() -> None:
    """As plain strings, with kind and datatype; the rest is that of the summary."""
    trace = read_trace(plain_triples())
    document = to_json(trace)
    link, text = (
        Triple(iri("s"), iri("p"), iri("o")),
        Triple(iri("s"), iri("p"), literal("v", "t"), "g"),
    )
    shown = to_json(replace(trace, triples=(link, text)))["triples"]

    assert document == trace_summary(trace) | {"triples": document["triples"]}
    assert shown == [
        {"s": "s", "p": "p", "o": "o", "g": None, "o_kind": "iri", "datatype": ""},
        {"s": "s", "p": "p", "o": "v", "g": "g", "o_kind": "literal", "datatype": "t"},
    ]


@pytest.mark.parametrize("form", ["nquads", "trig", "jsonld", "svg"])
def test_every_form_is_rendered(form: str) -> None:
    """Each name gives its own form."""
    text = render_trace(read_trace(plain_triples()), form)
    beginning = {"nquads": "<urn", "trig": "@prefix", "jsonld": "{", "svg": "<svg"}

    assert text.lstrip().startswith((beginning[form], "["))


def _without(triples: Iterable[Triple], unwanted: Callable[[Triple], bool]) -> list[Triple]:
    return [triple for triple in triples if not unwanted(triple)]


def _changed(
    triples: Iterable[Triple], wanted: Callable[[Triple], bool], **changes: Any
) -> list[Triple]:
    return [replace(triple, **changes) if wanted(triple) else triple for triple in triples]


def _link(source: str, target: str, predicate: str = ns.PROV_WAS_DERIVED_FROM) -> Triple:
    return Triple(iri(source), iri(predicate), iri(target), ns.GRAPH_RETRIEVAL)


def _about(uri: str) -> Callable[[Triple], bool]:
    return lambda triple: triple.s.iri == uri


def _says(predicate: str) -> Callable[[Triple], bool]:
    return lambda triple: triple.p.iri == predicate


def damaged() -> dict[str, list[Triple]]:
    """Return traces with one fault each, and a few with several."""
    full, walked, failed = full_triples(), walked_triples(), failed_triples()
    uris, own = answer_uris("full"), answer_uris(ID)
    graph = ns.GRAPH_RETRIEVAL
    return {
        "sound": full,
        "no graph": _changed(full, _says(ns.TG_QUERY), g=None),
        "another graph": _changed(full, _says(ns.TG_QUERY), g="urn:g"),
        **{
            f"without {stage}": _without(full, _about(getattr(uris, stage)))
            for stage in ("question", "grounding", "exploration", "focus", "synthesis")
        },
        **{
            f"failed without {stage}": _without(
                failed, _about(getattr(answer_uris("failed"), stage))
            )
            for stage in ("question", "grounding", "error")
        },
        "failed after a focus": [
            *failed,
            _link(answer_uris("failed").answer, ns.TG_FOCUS, ns.RDF_TYPE),
        ],
        "two of a kind": [*full, _link(uris.answer, ns.TG_FOCUS, ns.RDF_TYPE)],
        "no parent": _without(
            full, lambda t: _says(ns.PROV_WAS_DERIVED_FROM)(t) and _about(uris.focus)(t)
        ),
        "wrong parent": _changed(
            full,
            lambda t: _says(ns.PROV_WAS_DERIVED_FROM)(t) and _about(uris.focus)(t),
            o=iri(uris.question),
        ),
        "two parents": [*full, _link(uris.focus, uris.question)],
        "a cycle": [*full, _link(uris.grounding, uris.focus)],
        "itself": [*full, _link(uris.grounding, uris.grounding)],
        "part of another": [*full, _link(uris.question, "urn:session")],
        **{
            f"dangling {predicate.rpartition('#')[2].rpartition('/')[2]}": [
                *walked,
                _link(own.synthesis, "urn:nowhere", predicate),
            ]
            for predicate in (
                *(ns.WH_CANDIDATE, ns.WH_CITATION, ns.WH_DEGRADATION, ns.WH_EDGE),
                *(ns.WH_REFUSAL, ns.TG_SELECTED_CHUNK, ns.PROV_WAS_DERIVED_FROM),
            )
        },
        "a kept chunk of which nothing is said": _without(
            walked, _about(f"{own.selection_prefix}0")
        ),
        "a wrong count": _changed(full, _says(ns.TG_CHUNK_COUNT), o=literal("3")),
        "no count": _without(full, _says(ns.TG_CHUNK_COUNT)),
        "a count of letters": _changed(full, _says(ns.TG_CHUNK_COUNT), o=literal("ten")),
        "unknown chunks": _changed(full, _says(ns.TG_DOCUMENT), o=iri("urn:stranger")),
        "unknown code": _changed(full, _says(ns.WH_REASON), o=iri(f"{ns.WH}tired")),
        "no reasons": _without(full, _says(ns.WH_REASON)),
        "equal ranks": _changed(full, _says(ns.WH_RANK), o=literal("3")),
        "two ranks": [
            *full,
            Triple(iri(f"{uris.candidate_prefix}2"), iri(ns.WH_RANK), literal("1"), graph),
        ],
        "no ranks": _without(full, _says(ns.WH_RANK)),
    }


def test_the_faults_of_damaged_traces() -> None:
    """Every fault with its code, place and words, in a fixed order."""
    found = {
        name: check_trace(read_trace(triples, next(_ids(triples))))
        for name, triples in damaged().items()
    }

    assert found["sound"] == []
    assert found["part of another"] == []
    assert_expected("trace_faults.json", found)


def _ids(triples: Iterable[Triple]) -> Iterable[str]:
    for name in ("full", "failed", ID):
        if any(name in triple.s.iri for triple in triples):
            yield name


def _small(*, refused: bool) -> list[Triple]:
    return _without(
        walked_triples(candidates=5, refused=refused), lambda triple: "/edge/" in triple.s.iri
    )


def _odd_values() -> dict[str, list[list[Triple]]]:
    """Return traces with and without an answer, with values of wrong types, or without them."""
    traces = [_small(refused=False), _small(refused=True)]
    odd = {
        "concept order": (ns.WH_CONCEPT_ORDER, ["[", "{}", "[1, 2]", '["it calls"]', '"it"', ""]),
        "corrections": (ns.WH_CORRECTIONS, ["[", "{}", "[1]", ""]),
        "highlights": (ns.WH_HIGHLIGHTS, ["[", "[1]", ""]),
        "code": (ns.WH_CODE, ["odd"]),
        "score": (ns.WH_SCORE, ["high", ""]),
        "chunk": (ns.WH_CHUNK, [""]),
        "found": (ns.WH_FOUND, ["true", "1", "false", "0", "yes", ""]),
        "rank": (ns.WH_RANK, ["x", ""]),
        "depth": (ns.WH_DEPTH, ["x", "-1", "2"]),
        "tokens": (ns.TG_IN_TOKEN, ["x", "12"]),
        "duration": (ns.WH_DURATION_MS, ["x", "12"]),
    }
    return {
        f"{name} {value!r}": [_changed(one, _says(predicate), o=literal(value)) for one in traces]
        for name, (predicate, values) in odd.items()
        for value in values
    }


def test_odd_values_are_left_out() -> None:
    """What cannot be read is empty or unknown, and nothing else changes."""
    sound = [_leaves(trace_summary(read_trace(_small(refused=one)))) for one in (False, True)]
    found = {
        name: [
            sorted(set(_leaves(trace_summary(read_trace(one)))) - set(before))
            for one, before in zip(triples, sound, strict=True)
        ]
        for name, triples in _odd_values().items()
    }

    assert_expected("trace_odd_values.json", found)


def _leaves(plain: Any, path: str = "") -> list[str]:
    """Return the values of a document with their paths; faults are left out."""
    if isinstance(plain, dict):
        return [
            leaf
            for key, value in plain.items()
            if key not in ("faults", "complete")
            for leaf in _leaves(value, f"{path}/{key}")
        ]
    if isinstance(plain, list):
        return [leaf for place, one in enumerate(plain) for leaf in _leaves(one, f"{path}/{place}")]
    return [f"{path}: {plain!r}"]


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("walked", {1}),
        ("walked", {2}),
        ("walked", {4, 12}),
        ("walked", set(range(3, 17))),
        ("refused", {2}),
        ("refused", {9}),
        ("refused", set(range(1, 17))),
    ],
)
def test_what_a_reader_sees_of_a_trace(name: str, hidden: set[int]) -> None:
    """Everything that is left is renumbered without a gap, corrected and complete."""
    trace = read_trace(TRACES[name]())
    visible = chunk_ids(trace) - {_chunk(number) for number in hidden}
    seen = redact_trace(trace, visible)
    kinds = ("/candidate/", "/citation/", "/edge/", ":prov:chunk:")
    nodes = sorted({one.s.iri for one in seen.triples if any(kind in one.s.iri for kind in kinds)})

    assert check_trace(seen) == []
    shown = "-".join(map(str, sorted(hidden)[:2]))
    assert_expected(f"trace_{name}_without_{shown}.json", [nodes, _told(trace_summary(seen))])


def test_duplicates_and_overlaps_of_hidden_chunks() -> None:
    """A duplicate of a hidden chunk goes with it; so does what a lack of diversity says about kept ones."""
    rows = [
        Passage(chunk_id="a", rank=1, document_id="A"),
        Passage(chunk_id="b", rank=2, reason_code="near_duplicate", duplicate_of="a"),
        Passage(chunk_id="c", rank=3, document_id="A", rerank_rank=2, raw_score=0.5),
        Passage(chunk_id="d", rank=4, rerank_rank=3, reason_code="less_diverse", overlap=0.75),
        Passage(chunk_id="e", rank=5, document_id="E", rerank_rank=1, overlap=0.25),
    ]
    read = [row for row in rows if row.chunk_id != "b"]
    late = Degradation(stage="rerank", reason="A and E were late", code="late")
    triples = [
        *question_triples(ID, "?", NOW, run=StageRun()),
        *grounding_triples(ID, [], run=StageRun()),
        *exploration_triples(
            ID, [row.chunk_id for row in read], candidates=rows, run=StageRun(degraded=(late,))
        ),
        *focus_triples(
            ID,
            [
                Passage(chunk_id="a", raw_score=0.5),
                Passage(chunk_id="c", raw_score=0.25),
                Passage(chunk_id="e", raw_score=0.125),
            ],
            candidates=read,
            run=StageRun(degraded=(late,)),
        ),
        *synthesis_triples(
            ID,
            reranked=True,
            citations=[_cites("a", "A"), _cites("e", "E")],
            run=StageRun(degraded=(late,)),
        ),
    ]
    trace = read_trace(triples)
    seen = {
        name: trace_summary(redact_trace(trace, chunk_ids(trace) - {*name}))["stages"][2:]
        for name in ("a", "b", "c", "d", "e", "ac")
    }

    assert_expected("trace_duplicates.json", _told(seen))


def test_what_is_wrong_with_a_query() -> None:
    """Each message has the place in the query, and what is there."""
    queries = [
        "SELECT * WHERE {\n  ?s ?p }",
        "",
        "\n\nSELECT",
        "SELECT * WHERE { ?s foo:bar ?o }",
        "foo:bar",
        "ASK {\n\n foo:bar ?p ?o }",
        "INSERT DATA { <urn:a> <urn:b> 1 }",
        "SELECT * { SERVICE <http://localhost/> { ?s ?p ?o } }",
        "SELECT * FROM <file:///etc/hostname> { ?s ?p ?o }",
        "SELECT ?a WHERE { ?a ?b ?c } this is far too much after the end of the query",
    ]
    found: dict[str, Any] = {}
    for query in queries:
        with pytest.raises(BadInput) as caught:
            run_sparql(plain_triples(), query)
        found[query] = [caught.value.message, caught.value.hint]

    assert_expected("sparql_errors.json", found)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?chunk ?n { ?s tg:selectedChunk ?chunk . ?s tg:chunkCount ?n } ORDER BY ?chunk",
        "SELECT * { ?stage prov:wasDerivedFrom ?before } ORDER BY ?stage LIMIT 2",
        "SELECT $o ?o2 { ?s tg:query ?o OPTIONAL { ?s tg:nothing ?o2 } }",
        "ASK { ?s tg:nothing ?o }",
        "CONSTRUCT { ?s rdfs:seeAlso 'x'@en, 5 } WHERE { ?s tg:query ?o }",
        "PREFIX t: <https://trustgraph.ai/ns/> SELECT ?o { ?s t:query ?o }",
    ],
)
def test_the_answers_of_queries(query: str) -> None:
    """Kind, columns and rows; cut after the maximum, and marked when it was."""
    found = [run_sparql(plain_triples(), query, max_rows=rows) for rows in (1, 2, 9)]

    assert_expected(f"sparql_{sum(map(ord, query))}.json", found)


def _cites(chunk_id: str, document_id: str) -> Citation:
    return Citation(marker=1, chunk_id=chunk_id, document_id=document_id, quote="q")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, ""),
        (0.0, "0.0 ms"),
        (9.94, "9.9 ms"),
        (10.0, "10 ms"),
        (999.4, "999 ms"),
        (1000.0, "1.00 s"),
        (61_005.0, "61.01 s"),
    ],
)
def test_durations(ms: float | None, text: str) -> None:
    """One digit below ten milliseconds, seconds from a thousand on."""
    assert format_duration(ms) == text


def test_texts_on_one_line() -> None:
    """Control characters, line ends, lone surrogates and unassigned code points are spaces."""
    assert one_line("a\u2028b\u2029c\x00d\ud800e\u0378f\u202eg") == "a b c d e fg"
    assert (shorten("abcdef", 6), shorten("abcdef", 5)) == ("abcdef", "abcd…")
    assert rights_text(Access(clearance=3)) == "clearance 3"
    assert rights_text(Access(labels={"x\ny"})) == "labels x y"


def test_terms_of_no_kind() -> None:
    """A triple whose object is no IRI is shown with its value."""
    odd = Triple(iri("s"), iri("p"), Term(type="l", value="5", datatype="d"))
    trace = Trace(answer_id="a", triples=(odd,))

    assert to_json(trace)["triples"][0]["o"] == "5"
