"""Explain why a chunk is not in an answer: one stage, one code, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from whence.provenance.outcome import WhyNot, outcome_sentence
from whence.provenance.reasons import DROP_REASONS, OUTCOMES
from whence.provenance.redaction import redact_trace
from whence.provenance.stage_records import OUTCOME_PREDICATES, SCORE_PREDICATES, Scalar
from whence.provenance.trace import Trace
from whence.schema.passages import Passage

#: Order of the stages that can drop a candidate; a document is answered by its chunk that came furthest.
_STAGE_ORDER = {"exploration": 0, "focus": 1, "synthesis": 2}


def why_not(trace: Trace, item: str, *, visible: frozenset[str]) -> WhyNot:
    """Explain the outcome of a chunk, or of a document, from its trace alone.

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
    numbers = _candidate_numbers(best) | _cut_numbers(trace, code, best)
    told = _answer(trace, best.chunk_id, code, numbers)
    told = replace(
        told,
        document_id=best.document_id,
        duplicate_of=best.duplicate_of,
        newer_edition=best.newer_edition,
    )
    return replace(told, reason=outcome_sentence(told))


class _Outcomes:
    def __init__(self, trace: Trace) -> None:
        self._cited = {citation.chunk_id for citation in trace.citations}
        self._used = set(trace.used)
        self._kept = {selection.chunk_id for selection in trace.selections}
        self._added = {chunk_id for step in trace.steps for chunk_id in step.added}
        self._has_focus = trace.stage("focus") is not None
        refusal = trace.refusal
        # Such a question is refused before the passages are reranked and read.
        self._refused = refusal is not None and refusal.code == "term_not_in_documents"

    def code(self, candidate: Passage) -> str:
        if candidate.chunk_id in self._cited:
            return "cited"
        if candidate.reason_code in DROP_REASONS:
            return candidate.reason_code
        if candidate.chunk_id in self._used:
            return "refused" if self._refused else "used"
        # A trace of the shared vocabulary alone has no reasons; a chunk that was read and not kept is one the
        # reranker dropped.
        reranked_out = self._has_focus and candidate.chunk_id not in self._kept | self._added
        return "reranked_out" if reranked_out else "undecided"


def _distance(code: str, candidate: Passage) -> tuple[int, int, int, int, str]:
    """Return a sort key: candidates nearest to being cited first."""
    return (
        code != "cited",
        code in DROP_REASONS,
        -_STAGE_ORDER[OUTCOMES[code].stage],
        candidate.rerank_rank or candidate.rank,
        candidate.chunk_id,
    )


def _answer(trace: Trace, chunk_id: str, code: str, numbers: Mapping[str, Scalar | None]) -> WhyNot:
    meaning = OUTCOMES[code]
    return WhyNot(
        chunk_id=chunk_id,
        stage=meaning.stage,
        code=code,
        reason=meaning.explanation,
        numbers={**_trace_numbers(trace), **numbers},
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
        numbers["lowest_kept_score"] = min(selection.order_score for selection in trace.selections)
        kept = {selection.chunk_id for selection in trace.selections}
        diverse = [c.diversity_score for c in trace.candidates if c.chunk_id in kept]
        known = [score for score in diverse if score is not None]
        if known:
            numbers["lowest_kept_diversity_score"] = min(known)
    return numbers


def _cut_numbers(trace: Trace, code: str, candidate: Passage) -> dict[str, Scalar | None]:
    """Return rank and score of the last candidate on the right side of the cut that dropped this one."""
    before = [c for c in trace.candidates if 0 < c.rank < candidate.rank]
    if code in ("over_fetch_limit", "over_limit"):
        kept = [c for c in before if c.reason_code != code and c.score is not None]
        name = "enters_at_fetch_limit" if code == "over_fetch_limit" else "enters_at_doc_limit"
        question = trace.stage("question")
        if question and "seed_limit" in question.run.settings:
            name = "enters_at_seed_limit"
        return {**cut_numbers(kept[-1:], candidate.score), name: candidate.rank}
    if code == "over_rerank_limit" and candidate.chunk_id in trace.explored:
        place = list(trace.explored).index(candidate.chunk_id) + 1
        return {"place": place, "cut_rank": trace.reranked_count, "enters_at_rerank_limit": place}
    if code == "reranked_out" and candidate.rerank_rank and trace.selections:
        last, own = trace.selections[-1].order_score, candidate.final_score
        gap = None if own is None else last - own
        return {
            "cut_rank": len(trace.selections),
            "cut_score": last,
            "gap": gap,
            "enters_at_doc_limit": candidate.rerank_rank,
        }
    return {}


def cut_numbers(last: Sequence[Passage], score: float | None) -> dict[str, Scalar | None]:
    """Return `cut_rank`, `cut_score` and `gap` for a passage with a score.

    Args:
        last: The last candidate that was kept; empty when none was.
        score: Of the passage; None when it has none.
    """
    if not last:
        return {"cut_rank": 0, "cut_score": None, "gap": None}
    cut = last[-1].score
    gap = None if cut is None or score is None else cut - score
    return {"cut_rank": last[-1].rank, "cut_score": cut, "gap": gap}


def _candidate_numbers(candidate: Passage) -> dict[str, Scalar | None]:
    numbers: dict[str, Scalar | None] = {
        "rank": candidate.rank or None,
        **{field: getattr(candidate, field) for field in SCORE_PREDICATES},
        "rerank_rank": candidate.rerank_rank or None,
        **{field: getattr(candidate, field) for field in OUTCOME_PREDICATES},
    }
    return {key: value for key, value in numbers.items() if value is not None}
