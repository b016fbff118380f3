"""Read the graph walk of an exploration: seeds, depths, parents and the edges followed."""

from __future__ import annotations

from whence.provenance import namespaces as ns
from whence.provenance.stage_records import GraphWalk, WalkEdge, WalkNode
from whence.provenance.terms import answer_uris, id_from_iri
from whence.provenance.trace import Trace
from whence.schema.terms import Term


def read_graph_walk(trace: Trace) -> GraphWalk:
    """Read the walk of a trace; damaged parts are left out. Cost: linear in the triples."""
    depths, parents = _objects(trace, ns.WH_DEPTH), _objects(trace, ns.WH_PARENT)
    starts, ends = _objects(trace, ns.WH_FROM), _objects(trace, ns.WH_TO)
    relations = _objects(trace, ns.WH_RELATION)
    prefix = answer_uris(trace.answer_id).candidate_prefix
    nodes = [
        WalkNode(
            chunk_id=candidate.chunk_id,
            rank=candidate.rank,
            depth=int(depths[uri].value),
            parent_id=id_from_iri(parents[uri].iri) if uri in parents else "",
        )
        for candidate in trace.candidates
        if candidate.rank and (uri := f"{prefix}{candidate.rank}") in depths
        if depths[uri].value.isdecimal()
    ]
    edges = [
        WalkEdge(
            from_id=id_from_iri(starts[uri].iri),
            to_id=id_from_iri(ends[uri].iri),
            relation=relations[uri].value,
        )
        for uri in sorted(relations, key=lambda uri: (len(uri), uri))  # a longer number is greater
        if uri in starts and uri in ends
    ]
    nodes.sort(key=lambda node: (node.depth, node.rank))
    return GraphWalk(nodes=tuple(nodes), edges=tuple(edges))


def _objects(trace: Trace, predicate: str) -> dict[str, Term]:
    return {triple.s.iri: triple.o for triple in trace.triples if triple.p.iri == predicate}
