"""The part of an exploration that walked a graph: seeds, depths, parents and the edges walked along.

These statements stand beside those of `stages.exploration_triples`, on the same candidates and the same stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.terms import integer
from whence.provenance.trace import Trace
from whence.provenance.uris import answer_uris, candidate_uri, id_from_iri, iri_from_id
from whence.schema.terms import Term, Triple, iri, literal

__all__ = ("GraphWalk", "WalkEdge", "WalkNode", "graph_walk_triples", "read_graph_walk")


class WalkNode(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that a walk started from or reached."""

    chunk_id: str
    """Its chunk; a candidate of the exploration."""
    rank: int
    """Rank of the candidate."""
    depth: int
    """Steps from the nearest seed, 0 for a seed."""
    parent_id: str = ""
    """Chunk from which it was reached; empty for a seed."""


class WalkEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge walked along, in its own direction."""

    from_id: str
    """Chunk it leads from."""
    to_id: str
    """Chunk it leads to."""
    relation: str
    """Its name."""


class GraphWalk(msgspec.Struct, frozen=True, kw_only=True):
    """A walk; empty when the exploration had none."""

    nodes: tuple[WalkNode, ...] = ()
    """By depth, then rank."""
    edges: tuple[WalkEdge, ...] = ()
    """In the order in which they were told."""

    @property
    def seeds(self) -> tuple[str, ...]:
        """Chunks it started from, by rank."""
        return tuple(node.chunk_id for node in self.nodes if node.depth == 0)


def graph_walk_triples(answer_id: str, walk: GraphWalk) -> tuple[Triple, ...]:
    """Say how candidates were reached; up to two triples a node and four an edge.

    Raises:
        BadInput: The id is no answer id, or a chunk's id is empty.
    """
    exploration = iri(answer_uris(answer_id).exploration)
    out: list[Triple] = []

    def say(subject: Term, predicate: str, target: Term) -> None:
        out.append(Triple(subject, iri(predicate), target, ns.GRAPH_RETRIEVAL))

    for node in walk.nodes:
        candidate = iri(candidate_uri(answer_id, node.rank))
        say(candidate, ns.WH_DEPTH, integer(node.depth))
        if node.parent_id:
            say(candidate, ns.WH_PARENT, iri(iri_from_id(node.parent_id)))
    for index, edge in enumerate(walk.edges):
        term = iri(f"{exploration.iri}/edge/{index}")
        say(exploration, ns.WH_EDGE, term)
        say(term, ns.WH_FROM, iri(iri_from_id(edge.from_id)))
        say(term, ns.WH_TO, iri(iri_from_id(edge.to_id)))
        say(term, ns.WH_RELATION, literal(edge.relation))
    return tuple(out)


def read_graph_walk(trace: Trace) -> GraphWalk:
    """Read the walk of a trace; what is damaged is left out. Cost: linear in the triples."""
    depths = _objects(trace.triples, ns.WH_DEPTH)
    parents = _objects(trace.triples, ns.WH_PARENT)
    nodes = [
        WalkNode(
            chunk_id=one.chunk_id,
            rank=one.rank,
            depth=int(depths[uri].value),
            parent_id=id_from_iri(parents[uri].iri) if uri in parents else "",
        )
        for one in trace.candidates
        if one.rank and (uri := candidate_uri(trace.answer_id, one.rank)) in depths
        if depths[uri].value.isdecimal()
    ]
    return GraphWalk(
        nodes=tuple(sorted(nodes, key=lambda node: (node.depth, node.rank))),
        edges=_edges(trace),
    )


def _edges(trace: Trace) -> tuple[WalkEdge, ...]:
    starts, ends = _objects(trace.triples, ns.WH_FROM), _objects(trace.triples, ns.WH_TO)
    relations = _objects(trace.triples, ns.WH_RELATION)
    uris = {triple.o.iri for triple in trace.triples if triple.p.iri == ns.WH_EDGE}
    return tuple(
        WalkEdge(
            from_id=id_from_iri(starts[uri].iri),
            to_id=id_from_iri(ends[uri].iri),
            relation=relations[uri].value,
        )
        # By number: a longer number is greater.
        for uri in sorted(uris, key=lambda uri: (len(uri), uri))
        if uri in starts and uri in ends and uri in relations
    )


def _objects(triples: Iterable[Triple], predicate: str) -> Mapping[str, Term]:
    return {triple.s.iri: triple.o for triple in triples if triple.p.iri == predicate}
