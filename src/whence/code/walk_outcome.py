"""Why a walk over the graph of code did not reach a node. In: a recorded walk, a node. Out: its `WhyNot`.

Cost: at most three walks from the recorded seeds without a limit of depth, up to 10,000 nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.outcome import WhyNot
from whence.provenance.stage_records import Scalar
from whence.schema.graph import ExpandRequest, ExpandResponse, GraphNode
from whence.schema.relations import RelationFilter

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.provenance.trace import Trace
    from whence.schema.access import Access

#: Steps and nodes of a walk that is to find a node wherever it is.
_FAR = 100
_MANY = 10_000
#: Settings of the walk that are reported.
_LIMITS = ("graph_max_depth", "graph_max_nodes", "graph_direction")


async def walk_outcome(
    session: Session,
    settings: Mapping[str, Any],
    trace: Trace,
    outcome: WhyNot,
    access: Access,
) -> WhyNot:
    """Return which limit of the walk left out a node that the search did not return as a seed.

    An outcome without a way from the seeds to the node is returned as it is.

    Args:
        session: Expands nodes.
        settings: Of the recorded question.
        trace: As the reader may see it.
        outcome: What the search made of the node.
        access: Rights of the reader, at every step.
    """
    documents = trace.documents
    seeds = tuple(documents[one] for one in read_graph_walk(trace).seeds if documents.get(one))
    if not seeds:
        return outcome
    allowed = settings["graph_edge_allowlist"]
    relations = ("*",) if allowed == "*" else tuple(msgspec.json.decode(allowed))
    walked = ExpandRequest(
        access=access,
        snapshot=settings["snapshot_id"],
        seeds=seeds,
        relations=relations,
        direction=settings["graph_direction"],
        max_depth=_FAR,
        max_nodes=_MANY,
    )
    own: dict[str, Scalar] = {name: settings[name] for name in _LIMITS}
    for code, request in (
        ("", walked),
        ("relation_not_followed", replace(walked, relations=("*",))),
        ("against_direction", replace(walked, relations=("*",), direction="both")),
    ):
        reply = await session.client.call("graph-expander", request, ExpandResponse)
        found = [place for place, one in enumerate(reply.nodes) if one.chunk_id == outcome.chunk_id]
        if found:
            node = reply.nodes[found[0]]
            numbers = {**own, "depth": node.depth, "walk_rank": found[0] + 1}
            reached = replace(outcome, numbers=outcome.numbers | numbers)
            return _limited(reached, code, node, reply, walked)
    return replace(outcome, numbers=outcome.numbers | own)


def _limited(
    outcome: WhyNot, code: str, node: GraphNode, reply: ExpandResponse, walked: ExpandRequest
) -> WhyNot:
    if code == "relation_not_followed":
        return replace(outcome, code=code, relations=_other_relations(node, reply, walked))
    if code:
        return replace(outcome, code=code)
    numbers = outcome.numbers
    depth, rank = numbers["depth"], numbers["walk_rank"]
    if int(depth or 0) > int(numbers["graph_max_depth"] or 0):
        return replace(outcome, code="beyond_depth", numbers=numbers | {"enters_at_depth": depth})
    if int(rank or 0) > int(numbers["graph_max_nodes"] or 0):
        entering = {"enters_at_max_nodes": rank}
        return replace(outcome, code="over_node_limit", numbers=numbers | entering)
    return replace(outcome, numbers=numbers | {"retrieved_today": True})


def _other_relations(
    node: GraphNode, reply: ExpandResponse, walked: ExpandRequest
) -> tuple[str, ...]:
    """Return the relations on the way to a node that were not followed, the nearest to the seed first."""
    nodes = {one.id: one for one in reply.nodes}
    followed = RelationFilter(walked.relations)
    names: dict[str, None] = {}
    here: GraphNode | None = node
    while here is not None and here.parent_id:
        ends = {here.id, here.parent_id}
        step = [one for one in reply.edges if {one.from_id, one.to_id} == ends]
        if not any(followed.allows(one.stored_relation or one.relation) for one in step):
            names |= dict.fromkeys(one.relation for one in step[:1])
        here = nodes.get(here.parent_id)
    return tuple(reversed(names))
