"""`state_after` of pipeline traces: requests that were sent and replies that came in, JSON types out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from whence.code.node_texts import FetchReport
from whence.operations.ask import DocumentRagRequest
from whence.operations.json_documents import select_fields
from whence.operations.traced_client import TracedCall
from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.stage_records import Scalar
from whence.provenance.trace import Trace, read_trace
from whence.retrieval.results import SearchReport
from whence.schema.access import Access
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import Answer, ExplainEvent
from whence.schema.graph import ExpandRequest, ExpandResponse
from whence.schema.search import SearchRequest
from whence.schema.texts import TextRequest

R = TypeVar("R")

State = dict[str, Any]


def search_state(calls: Sequence[TracedCall], report: SearchReport | None) -> State:
    """Return what a search narrowed by and found."""
    request = _sent(calls, SearchRequest)
    state: State = {}
    if request is not None:
        place: State = {"collection": request.collection}
        if report is not None and report.snapshot_id:
            place = {"repo": report.repo, "snapshot_id": report.snapshot_id}
        state["search_type"] = request.mode
        state["retrieval_filters"] = _filters(request.access, place, request.filters)
    if report is None:
        return state
    hits = report.results
    return state | {
        "retrieval_seed_nodes": [hit.document_id for hit in hits],
        "retrieval_hits": [
            {
                "id": hit.document_id,
                "chunk_id": hit.chunk.id,
                "rank": hit.rank,
                "score": hit.similarity_score,
                **hit.score_breakdown,
            }
            for hit in hits
        ],
        "observed_sources": [hit.chunk.metadata.get("source_file", "") for hit in hits],
        "node_texts": [{"id": hit.document_id, "chars": len(hit.chunk.content)} for hit in hits],
        "reranker": report.reranker,
        "best_score": report.best_score,
        "degraded": report.degraded,
        "latency_ms": report.latency_ms,
    }


def expand_state(calls: Sequence[TracedCall], reply: ExpandResponse | None) -> State:
    """Return the limits of an expansion and what it reached.

    What rights removed is not in it: the reader must not learn that there was anything.
    """
    request = _sent(calls, ExpandRequest)
    state: State = {}
    if request is not None:
        place = {"snapshot_id": request.snapshot}
        if reply is not None:
            place = {"repo": reply.seeds[0].split("::")[0], "snapshot_id": reply.snapshot_id}
        state["retrieval_filters"] = _filters(request.access, place)
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
    request = _sent(calls, TextRequest)
    state: State = {}
    if request is not None and request.plan is not None:
        place = {"collection": request.collection}
        if report is not None:
            place = {"repo": report.repo, "snapshot_id": report.snapshot_id}
        state["retrieval_filters"] = _filters(request.access, place)
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


def ask_state(calls: Sequence[TracedCall], answer: Answer | None) -> State:
    """Return what a question searched, walked, read and cited, from the stages that arrived."""
    request = _sent(calls, CodeRagRequest) or _sent(calls, DocumentRagRequest)
    events = [reply for call in calls for reply in call.replies if isinstance(reply, ExplainEvent)]
    if request is None:
        return {}
    if not events:
        return {"retrieval_filters": _filters(request.access, {})}
    trace = read_trace([triple for one in events for triple in one.triples], events[0].answer_id)
    question = trace.stage("question")
    settings = question.run.settings if question is not None else {}
    place: State = {key: settings[key] for key in ("repo", "snapshot_id") if key in settings}
    place = place or {"collection": settings.get("collection")}
    filters = request.filters if isinstance(request, DocumentRagRequest) else {}
    state: State = {
        "search_type": settings.get("mode"),
        "retrieval_filters": _filters(request.access, place, filters),
        "concepts": trace.concepts,
        "retrieval_hits": _hits(trace),
        "settings": settings,
    }
    if isinstance(request, CodeRagRequest):
        state |= _code_state(trace, settings)
    if answer is not None:
        state["node_texts"] = [
            {"id": _node(trace, chunk), "chunk_id": chunk} for chunk in trace.used
        ]
        state["answer"] = {
            "answer_id": answer.answer_id,
            "text": answer.text,
            "found": answer.found,
            "citations": [select_fields(one, _CITED) for one in answer.citations],
            "model": answer.model,
        }
        state["stages"] = [select_fields(one, _STAGE) for one in answer.stages]
        state["degraded"] = answer.degraded
        state["latency_ms"] = {"total": answer.latency_ms}
    return state


_CITED = ("marker", "chunk_id", "document_id", "source_file")
_STAGE = ("stage", "label", "duration_ms", "candidates_in", "candidates_out")

#: What happened, by operation.
STATES: Mapping[str, Callable[[Sequence[TracedCall], Any], State]] = {
    "search": search_state,
    "expand": expand_state,
    "fetch": fetch_state,
    "ask": ask_state,
}


def _sent(calls: Iterable[TracedCall], kind: type[R]) -> R | None:
    """Return the last request of a type; an operation that met an import was tried again."""
    found: R | None = None
    for call in calls:
        if isinstance(call.request, kind):
            found = call.request
    return found


def _filters(
    access: Access, place: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> State:
    """Return what a request was narrowed by; the ACL is a list even when it is empty."""
    filters: State = {**place, "acl_tags_any": sorted(access.acl_tags)}
    if access.labels:
        filters["classification_labels_all"] = sorted(access.labels)
    if access.clearance:
        filters["clearance"] = access.clearance
    if metadata:
        filters["metadata"] = metadata
    return filters


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


def _code_state(trace: Trace, settings: Mapping[str, Scalar]) -> State:
    """Return the limits and the walk of a question about code."""
    walk = read_graph_walk(trace)
    allowed = settings.get("graph_edge_allowlist", "*")
    exploration = trace.stage("exploration")
    degraded = exploration.run.degraded if exploration is not None else ()
    truncated = any(one.code == "graph_truncated" for one in degraded)
    nodes = [
        {
            "id": _node(trace, one.chunk_id),
            "depth": one.depth,
            "parent_id": _node(trace, one.parent_id) if one.parent_id else None,
        }
        for one in walk.nodes
    ]
    edges = [
        (_node(trace, one.from_id), _node(trace, one.to_id), one.relation) for one in walk.edges
    ]
    seeds = [_node(trace, one) for one in walk.seeds]
    return {
        "graph_max_depth": settings.get("graph_max_depth"),
        "graph_max_nodes": settings.get("graph_max_nodes"),
        "graph_edge_allowlist": None if allowed == "*" else msgspec.json.decode(str(allowed)),
        "graph_direction": settings.get("graph_direction"),
        **_graph(seeds, nodes, edges, truncated, "max_nodes" if truncated else None),
        "prioritization_mode": settings.get("prioritize"),
        "budget": {"kind": settings.get("budget_kind"), "limit": settings.get("budget_limit")},
    }


def _hits(trace: Trace) -> list[State]:
    """Return the candidates by rank, with their scores and why they were dropped."""
    fields = (
        "chunk_id",
        "rank",
        "score",
        "dense_score",
        "sparse_score",
        "raw_score",
        "final_score",
    )
    return [
        {"id": one.document_id} | select_fields(one, fields) | {"dropped": one.reason_code or None}
        for one in trace.candidates
    ]


def _node(trace: Trace, chunk_id: str) -> str:
    """Return the document of a chunk: of code, its canonical id."""
    return trace.documents.get(chunk_id, chunk_id)
