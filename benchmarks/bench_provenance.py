"""Measure the cost of a trace: build, encode and decode the triples of a question.

Two sizes of the same question (60 candidates, 20 kept): the shared vocabulary alone, and the full record with
scores, ranks and reasons of every candidate. Run `python benchmarks/bench_provenance.py`;
`--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import msgspec

from whence.provenance.stage_records import ModelUse, StageRun
from whence.provenance.stages import (
    exploration_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.schema import Citation, ExplainEvent, decode_as, encode
from whence.schema.passages import Passage

ANSWER_ID = "5f0c7d3e-6a51-4a63-9f2c-3b8b2f8f9c11"
CANDIDATES = 60
KEPT = 20
CONCEPTS = ("return policy", "refund", "What is the return policy?")


def candidates() -> list[Passage]:
    """Return the candidates of a hybrid search as retrieval leaves them."""
    return [
        Passage(
            chunk_id=f"urn:chunk:policy-doc-{i // 3}:chunk-{i % 3}",
            rank=i + 1,
            document_id=f"docs/policy-{i // 3}.md",
            score=0.91 - i * 0.01234,
            dense_score=0.83 - i * 0.00987,
            sparse_score=0.71 - i * 0.01101,
            concepts=(CONCEPTS[i % 3],),
        )
        for i in range(CANDIDATES)
    ]


def reranked(found: list[Passage]) -> list[Passage]:
    """Add what the reranker says of them."""
    return [
        msgspec.structs.replace(
            candidate,
            rerank_rank=i + 1,
            raw_score=0.99 - i * 0.0111,
            final_score=0.98 - i * 0.0111,
            reason_code="" if i < KEPT else "reranked_out",
        )
        for i, candidate in enumerate(found)
    ]


def stage_run(stage: int) -> StageRun:
    """Return times, and for the question its settings."""
    settings: dict[str, str | int | float | bool] = {
        "collection": "default",
        "doc_limit": KEPT,
        "fetch_limit": CANDIDATES,
        "mode": "hybrid",
    }
    return StageRun(
        started_at="2026-01-01T00:00:00.000Z",
        ended_at="2026-01-01T00:00:00.012Z",
        duration_ms=12.345,
        models=(
            ModelUse(
                role="embedding",
                name="all-MiniLM-L6-v2",
                revision="1",
                precision="w8",
                dimension=384,
            ),
        )
        if stage == 2
        else (),
        settings=settings if stage == 0 else {},
    )


FOUND = candidates()
SCORED = reranked(FOUND)
SELECTIONS = [
    Passage(chunk_id=c.chunk_id, raw_score=c.raw_score or 0.0, final_score=c.final_score)
    for c in SCORED[:KEPT]
]
CITATIONS = [
    Citation(
        marker=i + 1,
        chunk_id=FOUND[i].chunk_id,
        document_id=FOUND[i].document_id,
        quote="words " * 15,
    )
    for i in range(3)
]
RUNS = [stage_run(stage) for stage in range(5)]
CHUNK_IDS = [c.chunk_id for c in FOUND]
NOW = "2026-01-01T00:00:00.000Z"


def build(*, full: bool) -> list[ExplainEvent]:
    """Build the events of one question."""
    question, grounding, exploration, focus, synthesis = RUNS if full else [None] * 5
    stages = (
        question_triples(ANSWER_ID, CONCEPTS[2], NOW, run=question),
        grounding_triples(ANSWER_ID, CONCEPTS, in_token=9, out_token=9, model="m", run=grounding),
        exploration_triples(
            ANSWER_ID, CHUNK_IDS, candidates=FOUND if full else (), run=exploration
        ),
        focus_triples(ANSWER_ID, SELECTIONS, candidates=SCORED if full else (), run=focus),
        synthesis_triples(
            ANSWER_ID,
            reranked=True,
            in_token=9,
            out_token=9,
            model="m",
            citations=CITATIONS if full else (),
            run=synthesis,
        ),
    )
    return [
        ExplainEvent(
            answer_id=ANSWER_ID,
            stage="stage",
            sequence=n,
            explain_id=triples[0].s.iri,
            triples=triples,
        )
        for n, triples in enumerate(stages)
    ]


def median_ms(work: Callable[[], object], runs: int) -> float:
    """Return the median time of the runs in milliseconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def measure(*, full: bool, runs: int) -> dict[str, float]:
    """Measure one size."""
    events = build(full=full)
    payloads = [encode(event) for event in events]
    return {
        "triples": sum(len(event.triples) for event in events),
        "bytes": sum(map(len, payloads)),
        "build_ms": median_ms(lambda: build(full=full), runs),
        "encode_ms": median_ms(lambda: [encode(event) for event in events], runs),
        "decode_ms": median_ms(lambda: [decode_as(p, ExplainEvent) for p in payloads], runs),
    }


def main() -> None:
    """Print medians of both sizes and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    plain = measure(full=False, runs=options.runs)
    full = measure(full=True, runs=options.runs)
    ratio = {key: full[key] / plain[key] for key in plain}
    if options.json:
        print(json.dumps({"shared_vocabulary": plain, "full_account": full, "ratio": ratio}))
        return
    print(f"{'':12}{'shared':>12}{'full':>12}{'ratio':>8}")
    for key in plain:
        print(f"{key:12}{plain[key]:12.3f}{full[key]:12.3f}{ratio[key]:8.2f}")


if __name__ == "__main__":
    main()
