"""JSON documents of answers, searches and outcomes, shared by the command line, HTTP and MCP."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from whence.schema.codec import to_builtins
from whence.schema.errors import NotFound
from whence.schema.places import DocumentText, Location, locate

if TYPE_CHECKING:
    from whence.provenance.outcome import WhyNot
    from whence.retrieval.results import SearchReport
    from whence.schema.document_rag import Answer
    from whence.schema.graph import ExpandResponse
    from whence.schema.search import Degradation

_CITATION = (
    *("marker", "chunk_id", "document_id", "title", "source_file", "root", "source_url"),
    *("heading", "lead", "quote", "highlights", "outdated", "added"),
    *("document_date", "indexed_at", "changed"),
)
_STAGE = ("stage", "label", "duration_ms", "candidates_in", "candidates_out")


def answer_document(answer: Answer) -> dict[str, Any]:
    """Return the JSON document of an answer."""
    return {
        "answer_id": answer.answer_id,
        "question": answer.question,
        "question_used": answer.question_used or answer.question,
        "corrections": answer.corrections,
        "answer": answer.text,
        "found": answer.found,
        "score": answer.score,
        "refusal": answer.refusal,
        "nearest": answer.nearest,
        "citations": [
            {
                **select_fields(one, _CITATION),
                **({"collection": one.collection} if one.collection else {}),
                "location": one.location or Location(),
            }
            for one in answer.citations
        ],
        "conflicts": answer.conflicts,
        "highlights": answer_highlights(answer),
        "unsupported": answer.unsupported,
        "model": answer.model,
        "degraded": _degraded(answer.degraded),
        "stages": [select_fields(one, _STAGE) for one in answer.stages],
        "in_token": answer.in_token,
        "out_token": answer.out_token,
        "cost": answer.cost,
        "currency": answer.currency,
        "cached": answer.cached,
        "latency_ms": answer.latency_ms,
    }


def _degraded(faults: Iterable[Degradation]) -> list[dict[str, Any]]:
    return [
        select_fields(one, ("stage", "label", "reason", "code"))
        | ({} if one.share is None else {"share": one.share})
        for one in faults
    ]


def document_json(document: DocumentText) -> dict[str, Any]:
    """Return the JSON document of a stored document."""
    names = ("document_id", "source_file", "root", "source_url", "title", "text", "metadata")
    chunks = [
        {
            "id": chunk.id,
            "char_start": chunk.char_start,
            "char_end": chunk.char_end,
            "heading": chunk.heading,
            "page": chunk.page or None,
            "location": locate(document.places, chunk.char_start, chunk.char_end),
        }
        for chunk in document.chunks
    ]
    return {**{name: getattr(document, name) for name in names}, "chunks": chunks}


def expand_document(reply: ExpandResponse) -> dict[str, Any]:
    """Return the JSON document of a neighbourhood of code nodes."""
    return {
        **select_fields(reply, ("snapshot_id", "seeds", "truncated", "reason")),
        "nodes": [
            select_fields(one, ("id", "local_id", "depth", "parent_id")) for one in reply.nodes
        ],
        "edges": [
            select_fields(one, ("from_id", "to_id", "relation", "stored_relation"))
            for one in reply.edges
        ],
    }


def why_not_document(outcome: WhyNot) -> dict[str, Any]:
    """Return the JSON document of an outcome; that of an unknown id has the error, too."""
    document: dict[str, Any] = to_builtins(outcome)
    if outcome.code == "unknown":
        error = unknown_item(outcome)
        # The id stands beside it: documents for a hidden and a missing id differ in nothing else.
        document["error"] = {"code": error.code, "message": outcome.reason, "hint": error.hint}
    return document


def unknown_item(outcome: WhyNot) -> NotFound:
    """Return the error for an id that does not exist or is hidden, with the visible ids that resemble it."""
    nearest = ", ".join(outcome.nearest)
    hint = f"similar ids: {nearest}" if nearest else "`whence explain ANSWER_ID` lists candidates"
    return NotFound(f"there is no passage or document {outcome.chunk_id!r}", hint=hint)


def answer_highlights(answer: Answer) -> list[tuple[int, int]]:
    """Return the offsets in an answer's text of the words that its citations highlight, in order.

    The text has the words of a quote, but may break its lines elsewhere.
    """
    found: set[tuple[int, int]] = set()
    for citation in answer.citations:
        for start, end in citation.highlights:
            span = _find_in_text(answer.text, citation.quote, start, end)
            if span and not any(a < span[1] and span[0] < b for a, b in found):
                found.add(span)
    return sorted(found)


def unsupported_note(answer: str, places: Iterable[tuple[int, int]]) -> str:
    """Return a paragraph that names the sentences of an answer without support; empty when all have it.

    For readers who get the text alone.
    """
    said = [" ".join(answer[start:end].split()) for start, end in places]
    return (
        "\n".join(["", "", "Not supported by the cited passages:", *(f"- {one}" for one in said)])
        if said
        else ""
    )


def _find_in_text(text: str, quote: str, start: int, end: int) -> tuple[int, int] | None:
    """Return where words of a quote stand in a text: in their own line, else anywhere."""
    first = quote.rfind("\n", 0, start) + 1
    last = quote.find("\n", end)
    before, words, after = map(
        _pattern_of, (quote[first:start], quote[start:end], quote[end : None if last < 0 else last])
    )
    match = words and (
        re.search(f"{before}({words}){after}", text) or re.search(f"({words})", text)
    )
    return match.span(1) if match else None


def _pattern_of(words: str) -> str:
    """Return a pattern of words whose line may be broken elsewhere."""
    return re.sub(r"(?:\\\s)+", r"\\s+", re.escape(words))


def result_message(report: SearchReport) -> str:
    """Return the number of results as a message, and how many of them are weak."""
    found = len(report.results)
    weak = sum(one.weak for one in report.results)
    message = {0: "no results found", 1: "1 result"}.get(found, f"{found} results")
    if not weak:
        return message
    return f"{message}, {'all' if weak == found > 1 else weak} weak"


def search_document(
    query: str, mode: str, report: SearchReport, *, message: str = ""
) -> dict[str, Any]:
    """Return the JSON document of a search; the message is the number of results by default."""
    document: dict[str, Any] = {
        "query": query,
        "question_used": report.question_used or query,
        "corrections": report.corrections,
        "mode": mode,
        "hits": report.results,
        "best_score": report.best_score,
        "message": message or result_message(report),
        "degraded": _degraded(report.degraded),
        "graph": report.graph,
        "calibration": report.calibration,
        "reranker": report.reranker,
        "latency_ms": report.latency_ms,
    }
    if report.calibrations:
        document["calibrations"] = report.calibrations
    if report.snapshot_id:
        document["snapshot_id"] = report.snapshot_id
    return document


def select_fields(record: object, names: Iterable[str]) -> dict[str, Any]:
    """Return some fields of a record, in the given order."""
    return {name: getattr(record, name) for name in names}
