"""Graph walks: built, read back, rendered and redacted."""

from __future__ import annotations

from whence.provenance.checking import check_trace
from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.redaction import redact_trace
from whence.provenance.render.json import to_json
from whence.provenance.render.tree import tree_text
from whence.provenance.stage_records import (
    GraphWalk,
    StageRun,
    WalkEdge,
    WalkNode,
)
from whence.provenance.stages import (
    exploration_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.provenance.trace import Trace, read_trace
from whence.schema.passages import Passage
from whence.schema.terms import Triple

CHUNKS = ("urn:chunk:c:a:0", "urn:chunk:c:b:0", "urn:chunk:c:c:0")
WALK = GraphWalk(
    nodes=(
        WalkNode(chunk_id=CHUNKS[0], rank=1, depth=0),
        WalkNode(chunk_id=CHUNKS[1], rank=2, depth=1, parent_id=CHUNKS[0]),
        WalkNode(chunk_id=CHUNKS[2], rank=3, depth=2, parent_id=CHUNKS[1]),
    ),
    edges=(
        WalkEdge(from_id=CHUNKS[0], to_id=CHUNKS[1], relation="dep"),
        WalkEdge(from_id=CHUNKS[1], to_id=CHUNKS[2], relation="ReadsFrom"),
    ),
)


def triples(walk: GraphWalk | None = WALK) -> list[Triple]:
    accounts = [Passage(chunk_id=c, rank=n) for n, c in enumerate(CHUNKS, 1)]
    return [
        *question_triples("q", "why?", "2026-01-01T00:00:00Z", run=StageRun()),
        *grounding_triples("q", ["why?"], run=StageRun()),
        *exploration_triples("q", CHUNKS, candidates=accounts, walk=walk, run=StageRun()),
        *focus_triples("q", [Passage(chunk_id=c, raw_score=0.5) for c in CHUNKS], run=StageRun()),
        *synthesis_triples("q", reranked=True, run=StageRun()),
    ]


def trace() -> Trace:
    return read_trace(triples())


def test_a_walk_is_read_back() -> None:
    """Nodes, parents, edges and seeds are read back, and the trace is complete."""
    assert read_graph_walk(trace()) == WALK
    assert read_graph_walk(trace()).seeds == (CHUNKS[0],)
    assert check_trace(trace()) == []


def test_an_exploration_without_a_walk_has_none() -> None:
    """Traces of documents have no walk."""
    plain = read_trace(triples(None))

    assert read_graph_walk(plain) == GraphWalk()
    assert "walked" not in tree_text(plain)


def test_an_edge_without_description_is_a_fault() -> None:
    """Every edge that was generated must be described."""
    broken = [one for one in triples() if not one.s.iri.endswith("/edge/1")]

    assert [fault.code for fault in check_trace(read_trace(broken))] == ["count_mismatch"]


def test_hidden_nodes_are_removed_from_the_walk() -> None:
    """Hidden nodes, their edges and parents are removed; the trace stays complete."""
    left = redact_trace(trace(), frozenset({CHUNKS[0], CHUNKS[2]}))
    words = " ".join(f"{t.s.iri} {t.o.iri} {t.o.value}" for t in left.triples)

    assert CHUNKS[1] not in words
    assert read_graph_walk(left) == GraphWalk(nodes=(WALK.nodes[0],))
    assert check_trace(left) == []
    partly = redact_trace(trace(), frozenset(CHUNKS[:2]))
    assert read_graph_walk(partly) == GraphWalk(nodes=WALK.nodes[:2], edges=WALK.edges[:1])


def test_a_walk_is_rendered() -> None:
    """The tree and the JSON document have edges, seeds and depths."""
    text = tree_text(trace())
    document = to_json(trace())
    exploration = next(one for one in document["stages"] if one["stage"] == "exploration")

    assert "walked 2 edges from 1 seeds, 2 deep" in text
    assert "urn:chunk:c:a:0 dep urn:chunk:c:b:0" in text
    assert exploration["seeds"] == [CHUNKS[0]]
    assert [edge["relation"] for edge in exploration["edges"]] == ["dep", "ReadsFrom"]
