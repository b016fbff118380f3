"""The graph walk of an exploration: seeds, depths, parents and the edges followed.

Its triples add to those of `stages.exploration_triples`, on the same candidates and the same stage.
"""

from __future__ import annotations

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.terms import answer_uris, id_from_iri, integer, iri_from_id
from whence.provenance.trace import Trace
from whence.schema.terms import Term, Triple, iri, literal


class WalkNode(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that the walk started from or reached."""

    chunk_id: str
    rank: int
    depth: int
    """Steps from the nearest seed, 0 for a seed."""
    parent_id: str = ""
    """Chunk from which it was reached; empty for a seed."""


class WalkEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge that the walk followed, in its stored direction."""

    from_id: str
    to_id: str
    relation: str


class GraphWalk(msgspec.Struct, frozen=True, kw_only=True):
    """A walk; empty when the exploration had none."""

    nodes: tuple[WalkNode, ...] = ()
    """By depth, then rank."""
    edges: tuple[WalkEdge, ...] = ()
    """In the order in which they were recorded."""

    @property
    def seeds(self) -> tuple[str, ...]:
        """Chunks that the walk started from, by rank."""
        return tuple(node.chunk_id for node in self.nodes if node.depth == 0)


def graph_walk_triples(answer_id: str, walk: GraphWalk) -> tuple[Triple, ...]:
    """State how candidates were reached; up to two triples a node and four an edge."""
    uris = answer_uris(answer_id)
    exploration = iri(uris.exploration)
    out: list[Triple] = []

    def add(subject: Term, predicate: str, target: Term) -> None:
        out.append(Triple(subject, iri(predicate), target, ns.GRAPH_RETRIEVAL))

    for node in walk.nodes:
        candidate = iri(f"{uris.candidate_prefix}{node.rank}")
        add(candidate, ns.WH_DEPTH, integer(node.depth))
        if node.parent_id:
            add(candidate, ns.WH_PARENT, iri(iri_from_id(node.parent_id)))
    for index, edge in enumerate(walk.edges):
        term = iri(f"{exploration.iri}/edge/{index}")
        add(exploration, ns.WH_EDGE, term)
        add(term, ns.WH_FROM, iri(iri_from_id(edge.from_id)))
        add(term, ns.WH_TO, iri(iri_from_id(edge.to_id)))
        add(term, ns.WH_RELATION, literal(edge.relation))
    return tuple(out)


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
    edge_uris = {triple.o.iri for triple in trace.triples if triple.p.iri == ns.WH_EDGE}
    edges = [
        WalkEdge(
            from_id=id_from_iri(starts[uri].iri),
            to_id=id_from_iri(ends[uri].iri),
            relation=relations[uri].value,
        )
        for uri in sorted(edge_uris, key=lambda uri: (len(uri), uri))  # a longer number is greater
        if uri in starts and uri in ends and uri in relations
    ]
    nodes.sort(key=lambda node: (node.depth, node.rank))
    return GraphWalk(nodes=tuple(nodes), edges=tuple(edges))


def _objects(trace: Trace, predicate: str) -> dict[str, Term]:
    return {triple.s.iri: triple.o for triple in trace.triples if triple.p.iri == predicate}
