"""The numbers of `why-not`, against what the settings, scores and ranks of a trace say."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from whence.provenance.outcome import WhyNot
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.redaction import chunk_ids
from whence.provenance.stage_records import Scalar, StageRun
from whence.provenance.stages import (
    exploration_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.provenance.trace import read_trace
from whence.provenance.why_not import why_not
from whence.schema.document_rag import Refusal, RefusalCode
from whence.schema.passages import Passage

LIMITS: dict[str, Scalar] = {
    "doc_limit": 2,
    "fetch_limit": 4,
    "threshold": 0.125,
    "token_budget": 900,
}


def _found(**codes: str) -> list[Passage]:
    """Return six candidates `a` to `f`, with scores from 0.75 down in steps of 1/16, and reasons by name."""
    return [
        Passage(
            chunk_id=name,
            rank=rank,
            document_id=f"doc-{name}",
            score=0.8125 - rank / 16,
            reason_code=codes.get(name, ""),
        )
        for rank, name in enumerate("abcdef", 1)
    ]


def _stage(row: Passage) -> str:
    return DROP_REASONS[row.reason_code].stage if row.reason_code else ""


def _told(
    item: str,
    rows: list[Passage],
    kept: dict[str, float] | None = None,
    *,
    settings: dict[str, Scalar] | None = None,
    refusal: RefusalCode | None = None,
) -> WhyNot:
    """Ask about an item of a trace; `kept` are the scores of the chunks that a reranker kept."""
    found = [replace(row, rerank_rank=0, raw_score=None, final_score=None) for row in rows]
    found = [row if _stage(row) == "exploration" else replace(row, reason_code="") for row in found]
    refused = Refusal(code=refusal, reason="why") if refusal else None
    read = [row for row in rows if _stage(row) != "exploration"]
    late = [row for row in rows if _stage(row) == "synthesis"]
    focus = [
        Passage(chunk_id=name, raw_score=0.0, final_score=score)
        for name, score in (kept or {}).items()
    ]
    trace = read_trace(
        [
            *question_triples(
                "id", "?", "2026-01-01T10:00:00Z", run=StageRun(settings=settings or {})
            ),
            *grounding_triples("id", []),
            *exploration_triples("id", [row.chunk_id for row in read], candidates=found),
            *(
                focus_triples("id", focus, candidates=[one for one in read if one not in late])
                if kept is not None
                else ()
            ),
            *synthesis_triples("id", reranked=kept is not None, refusal=refused, found=not refused),
        ]
    )
    return why_not(trace, item, visible=chunk_ids(trace))


@pytest.mark.parametrize(
    ("code", "settings", "entering"),
    [
        ("over_fetch_limit", {}, "enters_at_fetch_limit"),
        ("over_limit", {}, "enters_at_doc_limit"),
        ("over_fetch_limit", {"seed_limit": 4}, "enters_at_seed_limit"),
        ("over_limit", {"seed_limit": 4}, "enters_at_seed_limit"),
    ],
)
def test_a_passage_behind_the_cut(code: str, settings: dict[str, Scalar], entering: str) -> None:
    """It has rank and score of the last one before the cut, the distance, and the limit that lets it in."""
    found = _told("f", _found(e=code, f=code), settings=LIMITS | settings)

    assert found.code == code
    assert found.numbers == {
        "candidates": 6,
        "lowest_score": 0.4375,
        **LIMITS,
        "rank": 6,
        "score": 0.4375,
        "cut_rank": 4,
        "cut_score": 0.5625,
        "gap": 0.125,
        entering: 6,
    }


def test_where_nothing_was_kept_nothing_is_before_the_cut() -> None:
    """The rank of the cut is 0, without score and distance; a passage without a score has no distance."""
    codes = dict.fromkeys("abcdef", "over_limit")
    none = _told("b", _found(**codes)).numbers
    unscored = [
        replace(row, score=None if row.rank == 2 else row.score) for row in _found(b="over_limit")
    ]

    assert none == {
        "candidates": 6,
        "lowest_score": 0.4375,
        "rank": 2,
        "score": 0.6875,
        "cut_rank": 0,
        "cut_score": None,
        "gap": None,
        "enters_at_doc_limit": 2,
    }
    numbers = _told("b", unscored).numbers
    assert (numbers["cut_rank"], numbers["cut_score"], numbers["gap"]) == (1, 0.75, None)


def _reranked(codes: dict[str, str]) -> list[Passage]:
    """Return the candidates as a reranker turned them round."""
    return [
        replace(row, rerank_rank=7 - row.rank, raw_score=row.rank / 4, final_score=row.rank / 8)
        for row in _found(**codes)
    ]


def test_a_passage_that_the_reranker_placed_too_low() -> None:
    """It has its rank and scores, those of the last one kept, and how many passages would have it."""
    rows = _reranked(dict.fromkeys("abc", "reranked_out"))
    found = _told("b", rows, {"f": 0.75, "e": 0.625, "d": 0.5})

    assert (found.stage, found.code, found.document_id) == ("focus", "reranked_out", "doc-b")
    assert found.numbers == {
        "candidates": 6,
        "lowest_score": 0.4375,
        "kept": 3,
        "lowest_kept_score": 0.5,
        "rank": 2,
        "score": 0.6875,
        "rerank_rank": 5,
        "raw_score": 0.5,
        "final_score": 0.25,
        "cut_rank": 3,
        "cut_score": 0.5,
        "gap": 0.25,
        "enters_at_doc_limit": 5,
    }


def test_a_passage_that_the_reranker_did_not_reach() -> None:
    """It has its place among those retrieved, and how many were read."""
    codes = dict.fromkeys("cd", "reranked_out") | dict.fromkeys("ef", "over_rerank_limit")
    rows = [
        replace(row, rerank_rank=row.rank, raw_score=0.5, final_score=0.5) if row.rank < 5 else row
        for row in _found(**codes)
    ]
    found = _told("f", rows, {"a": 0.5, "b": 0.5})

    assert found.code == "over_rerank_limit"
    assert found.numbers == {
        "candidates": 6,
        "lowest_score": 0.4375,
        "kept": 2,
        "lowest_kept_score": 0.5,
        "rank": 6,
        "score": 0.4375,
        "reread": 4,
        "place": 6,
        "cut_rank": 4,
        "enters_at_rerank_limit": 6,
    }


@pytest.mark.parametrize(
    ("refusal", "code"),
    [(None, "used"), ("below_evidence_floor", "used"), ("term_not_in_documents", "refused")],
)
def test_a_passage_that_was_to_be_read(refusal: RefusalCode | None, code: str) -> None:
    """It was given to the writer, but for a question that was refused before; the refusal is told."""
    found = _told("a", _found(), refusal=refusal)

    assert (found.code, found.stage) == (code, "synthesis")
    assert (found.refusal and found.refusal.code) == refusal


def test_of_a_document_the_passage_that_came_furthest_is_told() -> None:
    """One that was read before one that was dropped, a later stage before an earlier, then by rank."""
    codes: list[tuple[dict[str, str], str]] = [
        ({"a": "text_missing", "b": "text_missing"}, "c"),
        ({"a": "over_limit", **dict.fromkeys("bcdef", "fetch_failed")}, "a"),
        (dict.fromkeys("abcdef", "text_missing"), "a"),
        ({"a": "text_missing", "f": "over_budget", **dict.fromkeys("bcde", "duplicate")}, "f"),
    ]
    for reasons, best in codes:
        rows = [replace(row, document_id="doc") for row in _found(**reasons)]
        assert _told("doc", rows).chunk_id == best
