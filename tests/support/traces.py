"""Traces to test readers and renderers with: every kind of statement occurs in them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from whence.provenance.stage_records import (
    GraphWalk,
    ModelUse,
    Scalar,
    StageRun,
    WalkEdge,
    WalkNode,
)
from whence.provenance.stages import (
    exploration_triples,
    failure_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.schema.document_rag import BestPassage, Citation, Refusal
from whence.schema.passages import Passage
from whence.schema.places import Location
from whence.schema.search import Degradation
from whence.schema.terms import Triple

_NOW = "2026-01-01T10:00:00.000Z"
_CONCEPTS = ("return policy", "refund", "How long may I keep it & <b>when</b> is it paid back?")


def plain_triples(answer_id: str = "plain", *, reranked: bool = True) -> list[Triple]:
    """Return a trace in the shared vocabulary alone: three chunks, of which the reranker keeps two."""
    chunks = ["urn:chunk:policy:0", "urn:chunk:policy:1", "urn:chunk:policy:2"]
    kept = [
        Passage(chunk_id=chunks[2], raw_score=0.95),
        Passage(chunk_id=chunks[0], raw_score=0.42),
    ]
    return [
        *question_triples(answer_id, _CONCEPTS[2], _NOW),
        *grounding_triples(answer_id, _CONCEPTS[:2]),
        *exploration_triples(answer_id, chunks),
        *(focus_triples(answer_id, kept) if reranked else ()),
        *synthesis_triples(answer_id, reranked=reranked),
    ]


def full_triples(answer_id: str = "full", *, found: int = 12, kept: int = 4) -> list[Triple]:
    """Return a trace with the full record, a reranker, drops at every stage and two citations.

    Args:
        answer_id: Id of the answer.
        found: Candidates, 8 or more. The fourth's text is missing, the last is a duplicate of the first.
        kept: Chunks that the reranker keeps, 3 or more; the last of them is over the budget.
    """
    candidates = [_candidate(rank, found) for rank in range(1, found + 1)]
    read = [candidate for candidate in candidates if not candidate.reason_code]
    order = [*reversed(read[: kept + 1]), *read[kept + 1 :]]
    scored = [
        replace(
            candidate,
            rerank_rank=place,
            raw_score=1.0 - 0.05 * place,
            final_score=1.0 - 0.03 * place,
            reason_code="" if place <= kept else "reranked_out",
        )
        for place, candidate in enumerate(order, 1)
    ]
    selections = [
        Passage(chunk_id=c.chunk_id, raw_score=c.raw_score or 0.0, final_score=c.final_score)
        for c in scored[:kept]
    ]
    over = replace(
        scored[kept - 1],
        reason_code="over_budget",
        rerank_rank=0,
        raw_score=None,
        final_score=None,
    )
    cited = [
        Citation(
            marker=marker,
            chunk_id=c.chunk_id,
            document_id=c.document_id,
            title=f"Policy {marker}",
            source_file=c.document_id,
            source_url=f"https://example.org/{marker}" if marker > 1 else "",
            quote=quote,
            location=Location(line_start=3, line_end=4, anchor="returns") if marker == 1 else None,
        )
        for marker, c, quote in (
            (1, scored[0], "Customers may return items within 30 days."),
            (2, scored[1], 'Refunds take <five> days & "no fee".'),
        )
    ]
    reranker = ModelUse(role="reranker", name="ms-marco-MiniLM-L-12-v2")
    late = Degradation(
        stage="prompt", code="no_language_model", reason="no language model is configured"
    )
    settings: dict[str, Scalar] = {
        "collection": "default",
        "doc_limit": kept,
        "mode": "hybrid",
        "threshold": 0.25,
    }
    return [
        *question_triples(
            answer_id,
            _CONCEPTS[2],
            _NOW,
            version="0.1",
            run=_stage_run(0.25, settings=settings),
        ),
        *grounding_triples(
            answer_id,
            _CONCEPTS,
            in_token=212,
            out_token=18,
            model="openai:m",
            run=_stage_run(412.0),
        ),
        *exploration_triples(
            answer_id,
            [candidate.chunk_id for candidate in read],
            candidates=candidates,
            run=_stage_run(18.5, models=(_EMBEDDING,)),
        ),
        *focus_triples(
            answer_id, selections, candidates=scored, run=_stage_run(96.0, models=(reranker,))
        ),
        *synthesis_triples(
            answer_id,
            reranked=True,
            saved=True,
            model="extractive",
            dropped=[over],
            text="Within 30 days [1]. Refunds take five days [2].",
            citations=cited,
            found=True,
            answer_digest="ab" * 32,
            run=_stage_run(1240.0, models=(_WRITER,), degraded=(late,)),
        ),
    ]


def refused_triples(answer_id: str = "refused") -> list[Triple]:
    """Return the trace of a question without an answer, for which one passage was found and cited nothing."""
    found = replace(_candidate(1, 2), reason_code="")
    refusal = Refusal(
        code="below_evidence_floor",
        reason="the best passage scores 0.20; an answer needs 0.50",
        best=BestPassage(found.chunk_id, 0.2),
        floor=0.5,
    )
    return [
        *question_triples(answer_id, _CONCEPTS[2], _NOW, version="0.1", run=_stage_run(0.25)),
        *grounding_triples(answer_id, _CONCEPTS[2:], run=_stage_run(1.0)),
        *exploration_triples(answer_id, [found.chunk_id], candidates=[found], run=_stage_run(2.0)),
        *synthesis_triples(
            answer_id,
            reranked=False,
            model="extractive",
            text="Nothing was found that could answer this question.",
            found=False,
            refusal=refusal,
            run=_stage_run(3.0, models=(_WRITER,)),
        ),
    ]


def code_triples(answer_id: str = "code", *, nodes: int = 3) -> list[Triple]:
    """Return the trace of a question about code: a chain of nodes walked from one seed, all kept and cited."""
    chunks = [f"urn:chunk:code:R::s::cs::{number}:0" for number in range(1, nodes + 1)]
    found = [
        Passage(chunk_id=chunk, rank=rank, document_id=f"R::s::cs::{rank}")
        for rank, chunk in enumerate(chunks, 1)
    ]
    walk = GraphWalk(
        nodes=tuple(
            WalkNode(chunk_id=c, rank=n + 1, depth=n, parent_id=chunks[n - 1] if n else "")
            for n, c in enumerate(chunks)
        ),
        edges=tuple(WalkEdge(from_id=a, to_id=b, relation="Calls") for a, b in pairwise(chunks)),
    )
    cited = [
        Citation(marker=marker, chunk_id=c.chunk_id, document_id=c.document_id, quote="x")
        for marker, c in enumerate(found, 1)
    ]
    concepts = [f"concept {number:03}" for number in range(nodes)]
    return [
        *question_triples(answer_id, "Why?", _NOW, version="0.1", run=_stage_run(0.25)),
        *grounding_triples(answer_id, concepts, run=_stage_run(1.0)),
        *exploration_triples(answer_id, chunks, candidates=found, walk=walk, run=_stage_run(2.0)),
        *focus_triples(
            answer_id, [Passage(chunk_id=c, raw_score=0.5) for c in chunks], run=_stage_run(3.0)
        ),
        *synthesis_triples(
            answer_id, reranked=True, text="So.", citations=cited, run=_stage_run(4.0)
        ),
    ]


def failed_triples(answer_id: str = "failed") -> list[Triple]:
    """Return the trace of a question that failed while it was searched for."""
    return [
        *question_triples(answer_id, _CONCEPTS[2], _NOW, version="0.1", run=_stage_run(0.25)),
        *grounding_triples(answer_id, _CONCEPTS[:1], run=_stage_run(1.0)),
        *failure_triples(
            answer_id,
            derived_from="grounding",
            stage="exploration",
            code="unavailable",
            message="the store did not answer within 30 s",
            hint="run `whence doctor`",
            run=_stage_run(30_000.0),
        ),
    ]


def earlier_triples() -> str:
    """Return the N-Quads of four traces as version 0.1 stored them: `full`, `failed`, `code` and `refused`."""
    return (Path(__file__).parent / "traces_0_1.nq").read_text(encoding="utf-8")


_WRITER = ModelUse(role="writer", name="extractive")
_EMBEDDING = ModelUse(
    role="embedding", name="all-MiniLM-L6-v2", revision="c9745ed1", precision="w8", dimension=384
)


def _candidate(rank: int, found: int) -> Passage:
    code = "text_missing" if rank == 4 else "duplicate" if rank == found else ""
    document = f"policies/<{'abcd'[rank % 4]}> & more.md"
    return Passage(
        chunk_id=f"{document}#{rank}",
        rank=rank,
        document_id=document,
        score=0.9 - 0.02 * rank,
        dense_score=0.95 - 0.02 * rank,
        sparse_score=0.8 - 0.02 * rank,
        concepts=(_CONCEPTS[rank % 3],),
        digest=f"{1 if rank == found else rank:064x}",
        reason_code=code,
        duplicate_of="policies/<b> & more.md#1" if rank == found else "",
    )


def _stage_run(
    duration_ms: float,
    *,
    models: tuple[ModelUse, ...] = (),
    settings: dict[str, Scalar] | None = None,
    degraded: tuple[Degradation, ...] = (),
) -> StageRun:
    return StageRun(
        started_at=_NOW,
        ended_at="2026-01-01T10:00:01.000Z",
        duration_ms=duration_ms,
        models=models,
        settings=settings or {},
        degraded=degraded,
    )
