"""Why is this chunk not in the answer? One stage, one code, and the numbers behind it."""

from __future__ import annotations

import msgspec

from whence.provenance.reasons import DROP_REASONS, describe_reason
from whence.provenance.redaction import redact_trace
from whence.provenance.stage_records import CandidateRecord
from whence.provenance.terms import Scalar
from whence.provenance.trace import Trace

__all__ = ("WhyNot", "why_not")

#: How far a candidate came; a document is answered by its chunk that came furthest.
_PROGRESS = {"exploration": 0, "focus": 1, "synthesis": 2}


class WhyNot(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one chunk."""

    chunk_id: str
    """The chunk; of a document that was retrieved, its chunk that came furthest, else what was asked."""
    stage: str
    """Stage that decided: `exploration`, `focus` or `synthesis`."""
    code: str
    """Code of `reasons`: why it was dropped, or `not_retrieved`, `undecided`, `used`, `cited`."""
    reason: str
    """The code in one line."""
    numbers: dict[str, Scalar] = {}
    """What the stage had before it: ranks, scores and limits, as far as they were recorded."""


def why_not(trace: Trace, item: str, *, visible: frozenset[str]) -> WhyNot:
    """Tell what became of a chunk, or of a document.

    What is not in `visible` is answered exactly like what was never retrieved, because it is looked for in
    a trace that was trimmed first. Cost: linear in the triples.

    Args:
        trace: The whole trace.
        item: Id of a chunk or of a document.
        visible: Ids of the chunks that the reader may see, of those that `trimming.chunk_ids` names.
    """
    trace = redact_trace(trace, visible)
    found = [c for c in trace.candidates if item in {c.chunk_id, c.document_id}]
    if not found:
        return _told(trace, item, "not_retrieved", None)
    cited = {citation.chunk_id for citation in trace.citations}
    given = frozenset(trace.used)
    best = min(found, key=lambda c: _nearness(c, _code(c, trace, given, cited)))
    return _told(trace, best.chunk_id, _code(best, trace, given, cited), best)


def _code(candidate: CandidateRecord, trace: Trace, given: frozenset[str], cited: set[str]) -> str:
    if candidate.chunk_id in cited:
        return "cited"
    if candidate.reason_code in DROP_REASONS:
        return candidate.reason_code
    if candidate.chunk_id in given:
        return "used"
    # A trace without accounts names no reasons, but who was explored and not kept was reranked out.
    focus = trace.stage("focus")
    kept = {selection.chunk_id for selection in trace.selections}
    return "reranked_out" if focus and candidate.chunk_id not in kept else "undecided"


def _nearness(candidate: CandidateRecord, code: str) -> tuple[int, int, int, int, str]:
    """Order candidates by how near they came to being cited."""
    return (
        code != "cited",
        code in DROP_REASONS,
        -_PROGRESS[describe_reason(code).stage],
        candidate.rerank_rank or candidate.rank,
        candidate.chunk_id,
    )


def _told(trace: Trace, chunk_id: str, code: str, candidate: CandidateRecord | None) -> WhyNot:
    meaning = describe_reason(code)
    numbers = _numbers_of_trace(trace)
    if candidate is not None:
        numbers |= _numbers_of_candidate(candidate)
    return WhyNot(
        chunk_id=chunk_id,
        stage=meaning.stage,
        code=code,
        reason=meaning.explanation,
        numbers=numbers,
    )


def _numbers_of_trace(trace: Trace) -> dict[str, Scalar]:
    """Give the limits of the run, and the score that the last candidate reached."""
    numbers: dict[str, Scalar] = {"candidates": len(trace.candidates)}
    for stage in trace.stages:
        for key in ("doc_limit", "fetch_limit", "threshold", "token_budget"):
            if key in stage.run.settings:
                numbers[key] = stage.run.settings[key]
    if trace.stage("focus"):
        if trace.reranked_count < len(trace.explored):
            numbers["reread"] = trace.reranked_count
        numbers["kept"] = len(trace.selections)
    scores = [c.score for c in trace.candidates if c.score is not None]
    if scores:
        numbers["lowest_score"] = min(scores)
    if trace.selections:
        numbers["lowest_kept_score"] = min(selection.score for selection in trace.selections)
    return numbers


def _numbers_of_candidate(candidate: CandidateRecord) -> dict[str, Scalar]:
    facts: dict[str, Scalar | None] = {
        "rank": candidate.rank or None,
        "score": candidate.score,
        "dense_score": candidate.dense_score,
        "sparse_score": candidate.sparse_score,
        "graph_score": candidate.graph_score,
        "name_score": candidate.name_score,
        "rerank_rank": candidate.rerank_rank or None,
        "rerank_score": candidate.rerank_score,
    }
    return {key: value for key, value in facts.items() if value is not None}
