"""`state_after` of pipeline traces of operations on code: what was expanded, fetched and walked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from whence.operations.json_documents import select_fields
from whence.operations.pipeline_states import State, filters_of, node_of, sent
from whence.provenance.graph_walks import read_graph_walk
from whence.schema.graph import ExpandRequest, ExpandResponse
from whence.schema.texts import TextRequest

if TYPE_CHECKING:
    from whence.code.node_texts import FetchReport
    from whence.operations.traced_client import TracedCall
    from whence.provenance.trace import Trace


def expand_state(calls: Sequence[TracedCall], reply: ExpandResponse | None) -> State:
    """Return the limits of an expansion and what it reached.

    What rights removed is not in it: the reader must not learn that there was anything.
    """
    request = sent(calls, ExpandRequest)
    state: State = {}
    if request is not None:
        place = {"snapshot_id": request.snapshot}
        if reply is not None:
            place = {"repo": reply.seeds[0].split("::")[0], "snapshot_id": reply.snapshot_id}
        state["retrieval_filters"] = filters_of(request.access, place)
        state |= {
            "graph_max_depth": request.max_depth,
            "graph_max_nodes": request.max_nodes,
            "graph_edge_allowlist": request.relations if request.follows_some else None,
            "graph_direction": request.direction,
            "graph_seed_only": request.seed_only,
        }
    if reply is None:
        return state
    edges = [(one.from_id, one.to_id, one.relation) for one in reply.edges]
    nodes = [{"id": one.id, "depth": one.depth, "parent_id": one.parent_id} for one in reply.nodes]
    return state | _graph(reply.seeds, nodes, edges, reply.truncated, reply.reason)


def fetch_state(calls: Sequence[TracedCall], report: FetchReport | None) -> State:
    """Return the budget and order of texts, and the decision for each."""
    request = sent(calls, TextRequest)
    state: State = {}
    if request is not None and request.plan is not None:
        place = {"collection": request.collection}
        if report is not None:
            place = {"repo": report.repo, "snapshot_id": report.snapshot_id}
        state["retrieval_filters"] = filters_of(request.access, place)
        budget = request.plan.budget
        state |= {
            "prioritization_mode": request.plan.prioritize,
            "budget": {"kind": budget.kind, "limit": budget.limit},
            "budget_tokens": budget.limit if budget.kind == "tokens" else None,
            "budget_tokens_from_settings": budget.setting or None,
            "max_chars": budget.limit if budget.kind == "chars" else None,
        }
    if report is None:
        return state
    fields = ("id", "is_seed", "depth", "chars", "tokens")
    return state | {
        "used": report.used,
        "node_texts": [select_fields(one, fields) for one in report.node_texts],
        "decisions": [select_fields(one, ("id", "action", "reason")) for one in report.decisions],
    }


def walk_state(trace: Trace) -> State:
    """Return the limits and the walk of a question about code."""
    question = trace.stage("question")
    settings = question.run.settings if question is not None else {}
    walk = read_graph_walk(trace)
    allowed = settings.get("graph_edge_allowlist", "*")
    exploration = trace.stage("exploration")
    degraded = exploration.run.degraded if exploration is not None else ()
    truncated = any(one.code == "graph_truncated" for one in degraded)
    nodes = [
        {
            "id": node_of(trace, one.chunk_id),
            "depth": one.depth,
            "parent_id": node_of(trace, one.parent_id) if one.parent_id else None,
        }
        for one in walk.nodes
    ]
    edges = [
        (node_of(trace, one.from_id), node_of(trace, one.to_id), one.relation) for one in walk.edges
    ]
    seeds = [node_of(trace, one) for one in walk.seeds]
    return {
        "graph_max_depth": settings.get("graph_max_depth"),
        "graph_max_nodes": settings.get("graph_max_nodes"),
        "graph_edge_allowlist": None if allowed == "*" else msgspec.json.decode(str(allowed)),
        "graph_direction": settings.get("graph_direction"),
        **_graph(seeds, nodes, edges, truncated, "max_nodes" if truncated else None),
        "prioritization_mode": settings.get("prioritize"),
        "budget": {"kind": settings.get("budget_kind"), "limit": settings.get("budget_limit")},
    }


def _graph(
    seeds: Sequence[str],
    nodes: Sequence[Mapping[str, Any]],
    edges: Sequence[tuple[str, str, str]],
    truncated: bool,
    reason: str | None,
) -> State:
    return {
        "retrieval_seed_nodes": seeds,
        "graph_expanded_nodes": [one["id"] for one in nodes],
        "graph_nodes": nodes,
        "graph_edges": [
            {"from_id": start, "to_id": end, "edge_type": relation}
            for start, end, relation in edges
        ],
        "graph_debug": {
            "seed_count": len(seeds),
            "expanded_count": len(nodes),
            "edges_count": len(edges),
            "relations": sorted({relation for _, _, relation in edges}),
            "truncated": truncated,
            "reason": reason,
        },
    }
