"""The JSON documents of answers and searches: one shape for the command line, HTTP and MCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.retrieval.results import SearchReport
    from whence.schema.document_rag import Answer

__all__ = ("answer_document", "found_message", "search_document")


def answer_document(answer: Answer) -> dict[str, Any]:
    """Give the JSON form of an answer."""
    return {
        "answer_id": answer.answer_id,
        "question": answer.question,
        "answer": answer.text,
        "found": answer.found,
        "citations": [
            {
                "marker": citation.marker,
                "chunk_id": citation.chunk_id,
                "document_id": citation.document_id,
                "source_file": citation.source_file,
                "source_url": citation.source_url,
                "heading": citation.heading,
                "quote": citation.quote,
                "outdated": citation.outdated,
            }
            for citation in answer.citations
        ],
        "model": answer.model,
        "degraded": [
            {"stage": fault.stage, "reason": fault.reason, "code": fault.code}
            for fault in answer.degraded
        ],
        "stages": [
            {
                "stage": stage.stage,
                "duration_ms": stage.duration_ms,
                "candidates_in": stage.candidates_in,
                "candidates_out": stage.candidates_out,
            }
            for stage in answer.stages
        ],
        "in_token": answer.in_token,
        "out_token": answer.out_token,
        "latency_ms": answer.latency_ms,
    }


def found_message(report: SearchReport | None) -> str:
    """Say how much a search found."""
    found = len(report.results) if report else 0
    return {0: "no results found", 1: "1 result"}.get(found, f"{found} results")


def search_document(
    query: str,
    mode: str,
    report: SearchReport | None,
    *,
    latency_ms: dict[str, float] | None = None,
    message: str = "",
) -> dict[str, Any]:
    """Give the JSON form of a search.

    Args:
        query: What was looked for.
        mode: How.
        report: What was found; None when nothing was searched.
        latency_ms: Times in place of the report's, in milliseconds.
        message: Words in place of how much was found.
    """
    latency = latency_ms or (report.latency_ms if report else {})
    document: dict[str, Any] = {
        "query": query,
        "mode": mode,
        "hits": report.results if report else [],
        "best_score": report.best_score if report else None,
        "message": message or found_message(report),
        "degraded": report.degraded if report else [],
        "graph": report.graph if report else None,
        "reranker": report.reranker if report else "",
        "latency_ms": latency or {"total": 0.0},
    }
    if report and report.snapshot_id:
        document["snapshot_id"] = report.snapshot_id
    return document
