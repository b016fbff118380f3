"""Check that a trace is complete and acyclic and that every reference resolves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.terms import answer_uris
from whence.provenance.trace import SOURCE_TYPES, STAGE_TYPES, Trace

#: Predicates that link to nodes which the trace must describe. `tg:selectedChunk` links a focus to such a node,
#: but an exploration to the chunk itself, which the store describes.
_LINKS = (
    *(ns.PROV_WAS_DERIVED_FROM, ns.PROV_WAS_GENERATED_BY, ns.PROV_USED, ns.WH_PART_OF),
    # Of version 0.1.
    *(ns.WH_CANDIDATE, ns.WH_CITATION, ns.WH_DEGRADATION, ns.WH_EDGE, ns.WH_REFUSAL),
)


class TraceFault(msgspec.Struct, frozen=True):
    """One fault of a trace."""

    code: str
    """`missing_stage`, `duplicate_stage`, `no_activity`, `no_parent`, `wrong_parent`, `cycle`, `dangling`,
    `wrong_graph`, `count_mismatch`, `unknown_chunk`, `unknown_code`, `rank_clash` or `unexplained`."""
    where: str
    """IRI of the node, or name of the stage when the node is missing."""
    what: str


def check_trace(trace: Trace) -> list[TraceFault]:
    """Return all faults of a trace in a fixed order; a complete trace has none.

    A complete trace is a chain of question, grounding, exploration, optionally focus and steps, and synthesis;
    that of a failed question is the first of these stages and an error. Cost: linear in the triples.
    """
    described = {triple.s.iri for triple in trace.triples}
    parents: dict[str, list[str]] = defaultdict(list)
    for triple in trace.triples:
        if triple.p.iri == ns.PROV_WAS_DERIVED_FROM:
            parents[triple.s.iri].append(triple.o.iri)
    return [
        *_wrong_graph(trace),
        *_missing_stages(trace),
        *_missing_activities(trace),
        *_wrong_parents(trace, parents),
        *_cycles(parents),
        *_dangling(trace, described),
        *_wrong_counts(trace),
        *_wrong_chunks(trace),
        *_wrong_candidates(trace),
    ]


def _wrong_graph(trace: Trace) -> Iterator[TraceFault]:
    for triple in trace.triples:
        if triple.g != ns.GRAPH_RETRIEVAL:
            graph = triple.g or "the default graph"
            what = f"<{triple.p.iri}> lies in {graph}, not in {ns.GRAPH_RETRIEVAL}"
            yield TraceFault("wrong_graph", triple.s.iri, what)


def _missing_stages(trace: Trace) -> Iterator[TraceFault]:
    counts = Counter(stage.stage for stage in trace.stages)
    for stage in STAGE_TYPES:
        if counts[stage] > 1:
            what = f"the trace has {counts[stage]} stages of this kind"
            yield TraceFault("duplicate_stage", stage, what)
    for stage in _required(counts):
        if not counts[stage]:
            yield TraceFault("missing_stage", stage, f"the trace has no {stage}")


def _missing_activities(trace: Trace) -> Iterator[TraceFault]:
    """Check that an activity generated each stage, unless the trace has none at all."""
    generated = {t.s.iri for t in trace.triples if t.p.iri == ns.PROV_WAS_GENERATED_BY}
    for stage in trace.stages if generated else ():
        if stage.uri not in generated:
            yield TraceFault("no_activity", stage.uri, "no activity generated it")


def _required(counts: Counter[str]) -> tuple[str, ...]:
    chain = ("question", "grounding", "exploration", "synthesis")
    if not counts["error"]:
        return chain
    last = max((n for n, stage in enumerate(chain) if counts[stage]), default=0)
    if counts["focus"]:
        last = max(last, 2)
    return chain[: last + 1]


def _wrong_parents(trace: Trace, parents: Mapping[str, list[str]]) -> Iterator[TraceFault]:
    """Check that each stage derives from the one before it, and beside it from passages alone."""
    kinds = [t for t in trace.triples if t.p.iri == ns.RDF_TYPE]
    sources = {t.s.iri for t in kinds if t.o.iri in SOURCE_TYPES}
    before = ""
    for stage in trace.stages:
        found = [uri for uri in parents.get(stage.uri, ()) if uri not in sources]
        if stage.stage != "question" and not found:
            yield TraceFault("no_parent", stage.uri, "it derives from nothing")
        elif stage.stage != "question" and before and found != [before]:
            what = f"it derives from {', '.join(found)}, not from {before}"
            yield TraceFault("wrong_parent", stage.uri, what)
        before = stage.uri


def _cycles(parents: Mapping[str, list[str]]) -> Iterator[TraceFault]:
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        ring = error.args[1][:-1]
        turn = ring.index(min(ring))
        round_trip = (*ring[turn + 1 :], *ring[: turn + 1])
        what = "it derives from itself through " + ", ".join(round_trip)
        yield TraceFault("cycle", ring[turn], what)


def _dangling(trace: Trace, described: set[str]) -> Iterator[TraceFault]:
    uris = answer_uris(trace.answer_id)
    for triple in trace.triples:
        predicate, target = triple.p.iri, triple.o.iri
        if predicate == ns.PROV_WAS_DERIVED_FROM and triple.s.iri == uris.question:
            continue  # described by the trace that the question is part of
        own_link = predicate in _LINKS
        selection = predicate == ns.TG_SELECTED_CHUNK and triple.s.iri == uris.focus
        if (own_link or selection) and target not in described:
            what = f"<{predicate}> leads to {target}, of which nothing is said"
            yield TraceFault("dangling", triple.s.iri, what)


def _wrong_counts(trace: Trace) -> Iterator[TraceFault]:
    exploration = trace.stage("exploration")
    if exploration and trace.chunk_count != len(trace.explored):
        what = f"it counts {trace.chunk_count} chunks and names {len(trace.explored)}"
        yield TraceFault("count_mismatch", exploration.uri, what)
    generated = Counter(t.o.iri for t in trace.triples if t.p.iri == ns.PROV_WAS_GENERATED_BY)
    for triple in trace.triples:
        found = str(generated[triple.s.iri])
        if triple.p.iri == ns.WH_GENERATED_COUNT and triple.o.value != found:
            what = (
                f"it counts {triple.o.value} entities that it generated, of which {found} are there"
            )
            yield TraceFault("count_mismatch", triple.s.iri, what)


def _wrong_chunks(trace: Trace) -> Iterator[TraceFault]:
    explored = set(trace.explored)
    focus, synthesis = trace.stage("focus"), trace.stage("synthesis")
    for selection in trace.selections:
        if focus and selection.chunk_id not in explored:
            what = f"it keeps {selection.chunk_id!r}, which was not explored"
            yield TraceFault("unknown_chunk", focus.uri, what)
    given = set(trace.used)
    for citation in trace.citations:
        if synthesis and citation.chunk_id not in given:
            what = f"[{citation.marker}] cites {citation.chunk_id!r}, which the writer did not get"
            yield TraceFault("unknown_chunk", synthesis.uri, what)


def _wrong_candidates(trace: Trace) -> Iterator[TraceFault]:
    """Check that ranks are unique and that each candidate was used or dropped for a known reason."""
    accounts = [candidate for candidate in trace.candidates if candidate.rank]
    given = set(trace.used)
    decided = trace.stage("synthesis") is not None
    exploration = trace.stage("exploration")
    ranks = Counter(candidate.rank for candidate in accounts)
    where = exploration.uri if exploration else "exploration"
    for rank in sorted(rank for rank, count in ranks.items() if count > 1):
        what = f"{ranks[rank]} candidates have rank {rank}"
        yield TraceFault("rank_clash", where, what)
    for candidate in accounts:
        if candidate.reason_code and candidate.reason_code not in DROP_REASONS:
            what = (
                f"{candidate.chunk_id!r} was dropped for {candidate.reason_code!r}, no known code"
            )
            yield TraceFault("unknown_code", where, what)
        elif decided and not candidate.reason_code and candidate.chunk_id not in given:
            what = f"{candidate.chunk_id!r} was neither used nor dropped for a reason"
            yield TraceFault("unexplained", where, what)
