"""Explain why a chunk is not in an answer: one stage, one code, and the numbers behind it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from whence.provenance.reasons import DROP_REASONS, OUTCOMES
from whence.provenance.redaction import redact_trace
from whence.provenance.stage_records import (
    OUTCOME_PREDICATES,
    SCORE_PREDICATES,
    CandidateRecord,
    Scalar,
)
from whence.provenance.trace import Trace
from whence.schema.document_rag import Refusal

#: Order of the stages that can drop a candidate; a document is answered by its chunk that came furthest.
_STAGE_ORDER = {"exploration": 0, "focus": 1, "synthesis": 2}


class WhyNot(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one chunk."""

    chunk_id: str
    """The chunk; of a retrieved document its chunk that came furthest, else the id that was asked for."""
    stage: str
    """Stage that decided: `exploration`, `focus` or `synthesis`."""
    code: str
    """Code of `reasons`: a reason to drop it, or `not_retrieved`, `undecided`, `used`, `cited`."""
    reason: str
    numbers: dict[str, Scalar] = {}
    """Ranks, scores and limits that led to the decision, as far as they were recorded."""
    duplicate_of: str = ""
    """Chunk that was kept in its place, when it was dropped because that one says the same."""
    refusal: Refusal | None = None
    """Why the question has no answer, when it has none."""


def why_not(trace: Trace, item: str, *, visible: frozenset[str]) -> WhyNot:
    """Explain the outcome of a chunk, or of a document.

    An item that is not in `visible` is answered exactly like one that was never retrieved, because it is
    looked up in the redacted trace; `visible` are those of `redaction.chunk_ids` that the reader may see.
    Cost: linear in the triples.
    """
    trace = redact_trace(trace, visible)
    outcomes = _Outcomes(trace)
    found = [
        (outcomes.code(candidate), candidate)
        for candidate in trace.candidates
        if item in {candidate.chunk_id, candidate.document_id}
    ]
    if not found:
        return _answer(trace, item, "not_retrieved", {})
    code, best = min(found, key=lambda pair: _distance(*pair))
    found_out = _answer(trace, best.chunk_id, code, _candidate_numbers(best))
    return replace(found_out, duplicate_of=best.duplicate_of)


class _Outcomes:
    def __init__(self, trace: Trace) -> None:
        self._cited = {citation.chunk_id for citation in trace.citations}
        self._used = set(trace.used)
        self._kept = {selection.chunk_id for selection in trace.selections}
        self._has_focus = trace.stage("focus") is not None

    def code(self, candidate: CandidateRecord) -> str:
        if candidate.chunk_id in self._cited:
            return "cited"
        if candidate.reason_code in DROP_REASONS:
            return candidate.reason_code
        if candidate.chunk_id in self._used:
            return "used"
        # A trace of the shared vocabulary alone has no reasons; a chunk that was read and not kept is one the
        # reranker dropped.
        reranked_out = self._has_focus and candidate.chunk_id not in self._kept
        return "reranked_out" if reranked_out else "undecided"


def _distance(code: str, candidate: CandidateRecord) -> tuple[int, int, int, int, str]:
    """Return a sort key: candidates nearest to being cited first."""
    return (
        code != "cited",
        code in DROP_REASONS,
        -_STAGE_ORDER[OUTCOMES[code].stage],
        candidate.rerank_rank or candidate.rank,
        candidate.chunk_id,
    )


def _answer(trace: Trace, chunk_id: str, code: str, numbers: dict[str, Scalar]) -> WhyNot:
    meaning = OUTCOMES[code]
    return WhyNot(
        chunk_id=chunk_id,
        stage=meaning.stage,
        code=code,
        reason=meaning.explanation,
        numbers=_trace_numbers(trace) | numbers,
        refusal=trace.refusal,
    )


def _trace_numbers(trace: Trace) -> dict[str, Scalar]:
    """Return the limits of the run, and the lowest scores that were retrieved and kept."""
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
        kept = {selection.chunk_id for selection in trace.selections}
        diverse = [c.diversity_score for c in trace.candidates if c.chunk_id in kept]
        known = [score for score in diverse if score is not None]
        if known:
            numbers["lowest_kept_diversity_score"] = min(known)
    return numbers


def _candidate_numbers(candidate: CandidateRecord) -> dict[str, Scalar]:
    numbers: dict[str, Scalar | None] = {
        "rank": candidate.rank or None,
        **{field: getattr(candidate, field) for field in SCORE_PREDICATES},
        "rerank_rank": candidate.rerank_rank or None,
        **{field: getattr(candidate, field) for field in OUTCOME_PREDICATES},
    }
    return {key: value for key, value in numbers.items() if value is not None}
