"""Laws of traces: reading inverts building, order is irrelevant, faults are found, redaction is complete."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings
from tests.support.traces import failed_triples, full_triples, plain_triples

from whence.provenance import namespaces as ns
from whence.provenance.checking import check_trace
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.redaction import WITHHELD, chunk_ids, redact_trace
from whence.provenance.render.rdf import to_nquads
from whence.provenance.stage_records import ModelUse, StageRun
from whence.provenance.stages import (
    exploration_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.provenance.terms import answer_uris, id_from_iri
from whence.provenance.trace import Trace, read_trace
from whence.provenance.why_not import why_not
from whence.schema.document_rag import BestPassage, Citation, Refusal
from whence.schema.errors import BadInput
from whence.schema.passages import Passage
from whence.schema.search import Degradation
from whence.schema.terms import Triple, iri

ID = "a1"
URIS = answer_uris(ID)
REPLACE = msgspec.structs.replace

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
words = texts.filter(bool)
scores = st.none() | st.floats(allow_nan=False)
ids = st.one_of(words, st.integers(0, 99).map("urn:chunk:{}".format))
names = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """All that goes into one trace."""

    question: str
    concepts: tuple[str, ...]
    candidates: tuple[Passage, ...]
    """As the last stage knows them."""
    kept: tuple[Passage, ...] | None
    citations: tuple[Citation, ...]
    refusal: Refusal | None
    run: StageRun

    def triples(self, order: random.Random | None = None) -> list[Triple]:
        """Build the trace; with `order` the candidates are given in another order."""
        candidates = list(self.candidates)
        if order is not None:
            order.shuffle(candidates)
        explored = [c for c in candidates if not at(c, "exploration")]
        retrieved = [
            REPLACE(
                c,
                rerank_rank=0,
                raw_score=None,
                final_score=None,
                reason_code=c.reason_code * at(c, "exploration"),
            )
            for c in candidates
        ]
        seen = [REPLACE(c, reason_code=c.reason_code * at(c, "focus")) for c in explored]
        out = [
            *question_triples(ID, self.question, "2026-01-01T10:00:00Z", run=self.run),
            *grounding_triples(ID, self.concepts, run=self.run),
            *exploration_triples(
                ID, [c.chunk_id for c in explored], candidates=retrieved, run=self.run
            ),
        ]
        if self.kept is not None:
            out += focus_triples(ID, self.kept, candidates=seen, run=self.run)
        dropped = [c for c in candidates if at(c, "synthesis")]
        out += synthesis_triples(
            ID,
            reranked=self.kept is not None,
            dropped=dropped,
            citations=self.citations,
            refusal=self.refusal,
            run=self.run,
        )
        return out


def at(candidate: Passage, stage: str) -> bool:
    """Return whether a candidate is dropped at a stage."""
    code = candidate.reason_code
    return bool(code) and DROP_REASONS[code].stage == stage


@st.composite
def stage_facts(draw: st.DrawFn) -> StageRun:
    """Draw how a stage ran."""
    roles = ("embedding", "reranker", "writer")
    models = tuple(
        ModelUse(
            role=role,
            name=draw(words),
            revision=draw(texts),
            precision=draw(texts),
            dimension=draw(st.integers(0, 16_000)),
        )
        for role in roles
        if draw(st.booleans())
    )
    values = texts | st.booleans() | st.integers() | st.floats(allow_nan=False)
    degraded = st.builds(Degradation, stage=texts, reason=texts, code=texts)
    return StageRun(
        started_at=draw(texts),
        ended_at=draw(texts),
        duration_ms=draw(st.none() | st.floats(0, allow_nan=False)),
        models=models,
        settings=draw(st.dictionaries(names, values, max_size=3)),
        degraded=tuple(draw(st.lists(degraded, max_size=2))),
    )


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Draw a question with all that happened to it."""
    concepts = tuple(draw(st.lists(words, max_size=3, unique=True)))
    reranks = draw(st.booleans())
    codes = [code for code, meaning in DROP_REASONS.items() if reranks or meaning.stage != "focus"]
    digests = st.sampled_from(["", "d1", "d2"])
    candidates: list[Passage] = []
    # A reranker ranks what it was given, and no others: its ranks have no gaps.
    reranked = itertools.count(1)
    for place, chunk_id in enumerate(draw(st.lists(ids, max_size=7, unique=True)), 1):
        account = Passage(
            chunk_id=chunk_id,
            rank=place,
            document_id=draw(st.sampled_from(["", "doc-a", "doc-b", "doc c"])),
            score=draw(scores),
            dense_score=draw(scores),
            sparse_score=draw(scores),
            concepts=tuple(sorted(draw(st.sets(st.sampled_from(concepts), max_size=2))))
            if concepts
            else (),
            digest=draw(digests),
            reason_code=draw(st.sampled_from(["", "", *codes])),
        )
        if reranks and not at(account, "exploration"):
            account = REPLACE(
                account,
                rerank_rank=next(reranked),
                raw_score=draw(scores),
                final_score=draw(scores),
            )
        candidates.append(account)
    in_focus = [c for c in candidates if not c.reason_code or at(c, "synthesis")]
    kept = tuple(
        Passage(chunk_id=c.chunk_id, raw_score=draw(st.floats(0, 1)), final_score=draw(scores))
        for c in in_focus
    )
    given_chunks = [c for c in candidates if not c.reason_code]
    citations = tuple(
        Citation(
            marker=n,
            chunk_id=c.chunk_id,
            document_id=c.document_id,
            quote=draw(texts),
            highlights=draw(st.sampled_from([(), ((0, 1),), ((0, 1), (3, 9))])),
        )
        for n, c in enumerate(given_chunks[:2], 1)
    )
    refusal = None
    if candidates and draw(st.booleans()):
        best = BestPassage(draw(st.sampled_from(candidates)).chunk_id, draw(st.floats(0, 1)))
        refusal = Refusal(
            code="below_evidence_floor",
            reason=draw(texts),
            best=draw(st.sampled_from([best, None])),
            floor=draw(scores),
        )
    return Story(
        question=draw(texts),
        concepts=concepts,
        candidates=tuple(candidates),
        kept=kept if reranks else None,
        citations=citations,
        refusal=refusal,
        run=draw(stage_facts()),
    )


@given(stories())
def test_a_built_trace_is_read_back(story: Story) -> None:
    """A trace has everything it was built from, and no fault."""
    trace = read_trace(story.triples())

    assert trace.answer_id == ID
    assert trace.question == story.question
    assert trace.concepts == story.concepts
    assert trace.candidates == story.candidates
    assert trace.explored == tuple(c.chunk_id for c in story.candidates if not at(c, "exploration"))
    assert trace.selections == (story.kept or ())
    assert trace.citations == story.citations
    assert trace.refusal == story.refusal
    assert [stage.run for stage in trace.stages] == [story.run] * len(trace.stages)
    assert check_trace(trace) == []


@given(stories(), st.randoms(use_true_random=False))
def test_order_is_irrelevant(story: Story, order: random.Random) -> None:
    """Candidates and triples in any order give the same trace and the same text."""
    shuffled = story.triples(order)
    order.shuffle(shuffled)

    assert read_trace(shuffled) == read_trace(story.triples())
    assert to_nquads(shuffled) == to_nquads(story.triples())


def names_in(trace: Trace) -> set[str]:
    """Return every id that a trace's terms name."""
    terms = [term for triple in trace.triples for term in (triple.s, triple.p, triple.o)]
    return {id_from_iri(term.iri) for term in terms if term.iri}


@given(stories(), st.data())
def test_a_redacted_trace_names_nothing_hidden(story: Story, data: st.DataObject) -> None:
    """A redacted trace has no hidden id, no number of a hidden passage, no gap and no fault."""
    trace = read_trace(story.triples())
    visible = frozenset(c for c in chunk_ids(trace) if data.draw(st.booleans()))
    seen = redact_trace(trace, visible)
    best = trace.refusal.best if trace.refusal else None
    if best is not None and best.chunk_id not in visible:
        assert seen.refusal is None

    assert chunk_ids(seen) <= visible
    assert not names_in(seen) & (chunk_ids(trace) - visible)
    assert [c.rank for c in seen.candidates] == list(range(1, len(seen.candidates) + 1))
    ranks = sorted(c.rerank_rank for c in seen.candidates if c.rerank_rank)
    assert ranks == list(range(1, len(ranks) + 1))
    assert check_trace(seen) == []


@given(stories(), st.data())
def test_why_not_reports_hidden_chunks_as_missing(story: Story, data: st.DataObject) -> None:
    """The answers for a hidden and a made-up chunk differ in the id only."""
    trace = read_trace(story.triples())
    visible = frozenset(c for c in chunk_ids(trace) if data.draw(st.booleans()))
    unknown = REPLACE(why_not(trace, "no such chunk", visible=visible), chunk_id="")

    assert unknown.code == "not_retrieved"
    for hidden in chunk_ids(trace) - visible - {"no such chunk"}:
        if hidden not in {c.document_id for c in trace.candidates}:
            assert REPLACE(why_not(trace, hidden, visible=visible), chunk_id="") == unknown


@given(stories())
def test_why_not_reports_the_reason(story: Story) -> None:
    """The code of each candidate is its reason, or `used` or `cited`."""
    trace = read_trace(story.triples())
    cited = {citation.chunk_id for citation in story.citations}
    for candidate in story.candidates:
        told = why_not(trace, candidate.chunk_id, visible=chunk_ids(trace))
        if told.chunk_id == candidate.chunk_id:
            expected = "cited" if candidate.chunk_id in cited else candidate.reason_code or "used"
            assert told.code == expected
            assert told.numbers["rank"] == candidate.rank


@given(stories())
def test_redaction_with_full_access_changes_nothing(story: Story) -> None:
    """A reader of all chunks gets the trace itself."""
    trace = read_trace(story.triples())

    assert redact_trace(trace, chunk_ids(trace)) is trace


def test_numbers_beyond_nine_keep_their_order() -> None:
    """The tenth node comes after the ninth, also when one before it is hidden."""
    trace = read_trace(full_triples(found=30, kept=14))
    best, *others = trace.selections
    seen = redact_trace(trace, chunk_ids(trace) - {best.chunk_id})

    scores = [selection.order_score for selection in trace.selections]
    assert scores == sorted(scores, reverse=True)
    assert seen.selections == tuple(others)
    kept = [c for c in trace.candidates if c.chunk_id in chunk_ids(seen)]
    assert [c.chunk_id for c in seen.candidates] == [c.chunk_id for c in kept]


@pytest.mark.parametrize("reranked", [True, False])
def test_a_plain_trace_is_read(reranked: bool) -> None:
    """A trace of the shared vocabulary alone is complete, and why-not works on it."""
    trace = read_trace(plain_triples(reranked=reranked))

    assert check_trace(trace) == []
    assert [c.chunk_id for c in trace.candidates] == [f"urn:chunk:policy:{n}" for n in range(3)]
    assert [s.order_score for s in trace.selections] == ([0.95, 0.42] if reranked else [])
    told = why_not(trace, "urn:chunk:policy:1", visible=chunk_ids(trace))
    assert told.code == ("reranked_out" if reranked else "used")
    assert trace.used == (
        ("urn:chunk:policy:2", "urn:chunk:policy:0") if reranked else trace.explored
    )


def test_a_plain_trace_can_be_redacted() -> None:
    """Counts and numbers are corrected in a trace without candidates too."""
    seen = redact_trace(read_trace(plain_triples()), frozenset({"urn:chunk:policy:0"}))

    assert check_trace(seen) == []
    assert seen.chunk_count == 1
    assert seen.selections == (Passage(chunk_id="urn:chunk:policy:0", raw_score=0.42),)
    assert "urn:trustgraph:prov:chunk:plain:1" not in to_nquads(seen.triples)


def test_a_failed_question_is_complete() -> None:
    """A chain that ends in an error has no fault, and names the failure."""
    trace = read_trace(failed_triples())

    assert check_trace(trace) == []
    assert trace.failure is not None
    assert (trace.failure.stage, trace.failure.code) == ("exploration", "unavailable")
    assert trace.used == ()


def test_a_document_is_answered_by_its_best_chunk() -> None:
    """For a document why-not reports the chunk that came furthest."""
    trace = read_trace(full_triples())
    cited = trace.citations[0]
    told = why_not(trace, cited.document_id, visible=chunk_ids(trace))

    assert (told.code, told.stage) == ("cited", "synthesis")
    assert told.chunk_id in {citation.chunk_id for citation in trace.citations}
    assert told.numbers["doc_limit"] == 4


def test_messages_that_name_hidden_chunks_are_withheld() -> None:
    """The message of a degradation never names a hidden chunk."""
    account = Passage(chunk_id="urn:c:1", rank=1, document_id="secret.md")
    lost = Degradation(
        stage="text-fetch", reason="secret.md could not be read", code="fetch_failed"
    )
    triples = [
        *question_triples(ID, "?", "now"),
        *grounding_triples(ID, []),
        *exploration_triples(ID, ["urn:c:1"], candidates=[account], run=StageRun(degraded=(lost,))),
        *synthesis_triples(ID, reranked=False),
    ]
    seen = redact_trace(read_trace(triples), frozenset())

    assert "secret" not in to_nquads(seen.triples)
    exploration = seen.stage("exploration")
    assert exploration is not None
    assert exploration.run.degraded[0].reason == WITHHELD


def test_duplicates_of_hidden_chunks_are_removed() -> None:
    """A duplicate would reveal the text of the hidden chunk; one of a visible chunk stays, and names it."""
    trace = read_trace(full_triples())
    first, last = trace.candidates[0], trace.candidates[-1]
    assert last.reason_code == "duplicate"
    assert last.duplicate_of == first.chunk_id

    seen = redact_trace(trace, chunk_ids(trace) - {first.chunk_id})

    assert last.chunk_id not in chunk_ids(seen)
    other = redact_trace(trace, chunk_ids(trace) - {trace.candidates[1].chunk_id})
    assert other.candidates[-1].duplicate_of == first.chunk_id


def about(uri: str) -> Any:
    """Return a test for triples about a subject."""
    return lambda triple: triple.s.iri == uri


def link(predicate: str) -> Any:
    """Return a test for triples with a predicate."""
    return lambda triple: triple.p.iri == predicate


FULL = answer_uris("full")


def without(triples: list[Triple], unwanted: Any) -> list[Triple]:
    """Return the triples that a test does not hit."""
    left = [triple for triple in triples if not unwanted(triple)]
    assert len(left) < len(triples)
    return left


def changed(triples: list[Triple], wanted: Any, **changes: Any) -> list[Triple]:
    """Change the first triple that a test hits."""
    place = next(n for n, triple in enumerate(triples) if wanted(triple))
    return [*triples[:place], REPLACE(triples[place], **changes), *triples[place + 1 :]]


def faults(triples: list[Triple]) -> set[tuple[str, str]]:
    """Return code and place of every fault."""
    return {(fault.code, fault.where) for fault in check_trace(read_trace(triples, "full"))}


@pytest.mark.parametrize("stage", ["question", "grounding", "exploration", "synthesis"])
def test_a_missing_stage_is_found(stage: str) -> None:
    """A chain without one of its stages is not complete."""
    uri = getattr(FULL, stage)

    assert ("missing_stage", stage) in faults(without(full_triples(), about(uri)))


def test_a_missing_focus_dangles() -> None:
    """A focus may be missing, but then nothing may derive from it."""
    found = faults(without(full_triples(), about(FULL.focus)))

    assert ("dangling", FULL.synthesis) in found
    assert ("wrong_parent", FULL.synthesis) in found


def test_a_cycle_is_found() -> None:
    """A stage that derives from itself, directly or not, is a fault."""
    edge = Triple(
        iri(FULL.grounding), iri(ns.PROV_WAS_DERIVED_FROM), iri(FULL.focus), ns.GRAPH_RETRIEVAL
    )
    assert ("cycle", FULL.exploration) in faults([*full_triples(), edge])
    own = REPLACE(edge, o=edge.s)
    assert ("cycle", FULL.grounding) in faults([*full_triples(), own])


def test_a_cycle_with_a_way_out_is_found() -> None:
    """A node that derives from the cycle and from another node does not hide the cycle."""
    edges = [(FULL.question, FULL.focus), (FULL.question, FULL.error)]
    extra = [
        Triple(iri(s), iri(ns.PROV_WAS_DERIVED_FROM), iri(o), ns.GRAPH_RETRIEVAL) for s, o in edges
    ]
    assert "cycle" in {code for code, _ in faults([*full_triples(), *extra])}


@pytest.mark.parametrize(
    ("predicate", "where"),
    [
        (ns.PROV_WAS_GENERATED_BY, FULL.question),
        (ns.PROV_USED, f"{FULL.activity_prefix}grounding"),
        (ns.PROV_WAS_DERIVED_FROM, FULL.grounding),
    ],
)
def test_a_dangling_reference_is_found(predicate: str, where: str) -> None:
    """Every node that a stage links to must be described in the trace."""
    triples = changed(full_triples(), link(predicate), o=iri("urn:nowhere"))

    assert ("dangling", where) in faults(triples)


def test_a_dangling_selection_is_found() -> None:
    """A kept chunk that is linked but not described is a fault."""
    gone = FULL.selection_prefix + "0"

    assert ("dangling", FULL.focus) in faults(without(full_triples(), about(gone)))


@pytest.mark.parametrize("graph", [None, "", "urn:graph:source"])
def test_a_wrong_graph_is_found(graph: str | None) -> None:
    """Every triple must be in the retrieval graph."""
    triples = changed(full_triples(), about(FULL.focus), g=graph)

    assert faults(triples) == {("wrong_graph", FULL.focus)}


def test_other_faults_are_found() -> None:
    """Wrong counts, unknown chunks and codes, shared ranks and unexplained candidates are faults."""
    full = full_triples()
    selected = next(t for t in full if t.p.iri == ns.TG_SELECTED_CHUNK)
    reason = next(t for t in full if t.p.iri == ns.WH_REASON)
    ranked = f"{FULL.candidate_prefix}2"
    codes = {
        "count_mismatch": without(full, lambda t: t == selected),
        "unknown_chunk": changed(full, link(ns.TG_DOCUMENT), o=iri("urn:stranger")),
        "unknown_code": changed(full, lambda t: t == reason, o=iri(ns.WH + "tired")),
        "unexplained": without(full, lambda t: t == reason),
        "rank_clash": changed(
            full,
            lambda t: t.p.iri == ns.WH_RANK and t.s.iri == ranked,
            o=next(t.o for t in full if t.p.iri == ns.WH_RANK),
        ),
        "no_parent": without(
            full, lambda t: t.p.iri == ns.PROV_WAS_DERIVED_FROM and t.s.iri == FULL.focus
        ),
        "duplicate_stage": [
            *full,
            Triple(iri(FULL.answer), iri(ns.RDF_TYPE), iri(ns.TG_FOCUS), ns.GRAPH_RETRIEVAL),
        ],
    }
    for code, triples in codes.items():
        assert code in {found for found, _ in faults(triples)}, code


def test_several_answers_need_an_id() -> None:
    """Triples of two answers are read one answer at a time."""
    both = [*full_triples(), *plain_triples()]

    with pytest.raises(BadInput, match="2 answers"):
        read_trace(both)
    with pytest.raises(BadInput, match="0 answers"):
        read_trace([])
    assert read_trace(both, "plain") == read_trace(plain_triples())


@settings(max_examples=200)
@given(st.data())
def test_damaged_traces_are_read_without_errors(data: st.DataObject) -> None:
    """Any subset of triples with exchanged objects can be read, checked, redacted and explained."""
    triples = full_triples(found=8, kept=3)
    kept = data.draw(st.lists(st.sampled_from(triples), max_size=60))
    objects = st.sampled_from([t.o for t in triples])
    mixed = [REPLACE(t, o=data.draw(objects)) if data.draw(st.booleans()) else t for t in kept]
    trace = read_trace(mixed, "full")
    visible = frozenset(sorted(chunk_ids(trace))[::2])
    seen = redact_trace(trace, visible)

    assert isinstance(check_trace(trace), list)
    assert chunk_ids(seen) <= visible
    assert why_not(trace, "nothing", visible=visible).code == "not_retrieved"


def test_infinite_scores_are_read_back() -> None:
    """A score that is not finite is returned as recorded."""
    account = Passage(chunk_id="urn:c:1", rank=1, score=math.inf, dense_score=math.nan)
    trace = read_trace([*exploration_triples(ID, ["urn:c:1"], candidates=[account])])

    assert trace.candidates[0].score == math.inf
    assert math.isnan(trace.candidates[0].dense_score or 0.0)
