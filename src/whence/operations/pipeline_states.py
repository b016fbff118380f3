"""`state_after` of pipeline traces: requests that were sent and replies that came in, JSON types out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from whence.operations.json_documents import select_fields
from whence.provenance.trace import Trace, read_trace
from whence.schema.access import Access
from whence.schema.document_rag import Answer, ExplainEvent
from whence.schema.search import SearchRequest

if TYPE_CHECKING:
    from whence.operations.ask import DocumentRagRequest
    from whence.operations.traced_client import TracedCall
    from whence.retrieval.results import SearchReport
    from whence.schema.code_rag import CodeRagRequest

R = TypeVar("R")

State = dict[str, Any]


def search_state(calls: Sequence[TracedCall], report: SearchReport | None) -> State:
    """Return what a search narrowed by and found."""
    request = sent(calls, SearchRequest)
    state: State = {}
    if request is not None:
        place: State = {"collection": request.collection}
        if report is not None and report.snapshot_id:
            place = {"repo": report.repo, "snapshot_id": report.snapshot_id}
        state["search_type"] = request.mode
        state["retrieval_filters"] = filters_of(request.access, place, request.filters)
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


def question_state(
    calls: Sequence[TracedCall],
    kind: type[DocumentRagRequest | CodeRagRequest],
    answer: Answer | None,
    walked: Callable[[Trace], State] = lambda _: {},
) -> State:
    """Return what a question searched, read and cited, from the stages that arrived; `walked` adds to it."""
    request = sent(calls, kind)
    events = [reply for call in calls for reply in call.replies if isinstance(reply, ExplainEvent)]
    if request is None:
        return {}
    if not events:
        return {"retrieval_filters": filters_of(request.access, {})}
    trace = read_trace([triple for one in events for triple in one.triples], events[0].answer_id)
    question = trace.stage("question")
    settings = question.run.settings if question is not None else {}
    place: State = {key: settings[key] for key in ("repo", "snapshot_id") if key in settings}
    place = place or {"collection": settings.get("collection")}
    state: State = {
        "search_type": settings.get("mode"),
        "retrieval_filters": filters_of(request.access, place, getattr(request, "filters", {})),
        "concepts": trace.concepts,
        "retrieval_hits": _hits(trace),
        "settings": settings,
    }
    state |= walked(trace)
    if answer is not None:
        state["node_texts"] = [
            {"id": node_of(trace, chunk), "chunk_id": chunk} for chunk in trace.used
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


def sent(calls: Iterable[TracedCall], kind: type[R]) -> R | None:
    """Return the last request of a type; an operation that met an import was tried again."""
    found: R | None = None
    for call in calls:
        if isinstance(call.request, kind):
            found = call.request
    return found


def filters_of(
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


def node_of(trace: Trace, chunk_id: str) -> str:
    """Return the document of a chunk: of code, its canonical id."""
    return trace.documents.get(chunk_id, chunk_id)
