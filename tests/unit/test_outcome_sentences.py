"""What people read about the outcome of a passage, for every code, and what is erased of corrections."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.expected import assert_expected
from tests.support.traces import failed_triples, full_triples, plain_triples

from whence.provenance.erasing import erase_corrections, erase_texts
from whence.provenance.outcome import WhyNot, outcome_sentence
from whence.provenance.reasons import OUTCOMES
from whence.provenance.redaction import chunk_ids
from whence.provenance.stage_records import StageRun
from whence.provenance.stages import grounding_triples, question_triples
from whence.provenance.trace import read_trace
from whence.provenance.why_not import why_not
from whence.schema.access import Access
from whence.schema.document_rag import Answer, Citation, ExplainEvent, TraceRecord
from whence.schema.search import Correction, Degradation

FULL: dict[str, Any] = {
    "rank": 1234,
    "score": 0.25,
    "passages": 5678,
    "cut_rank": 60,
    "cut_score": 0.5,
    "threshold": 0.75,
    "rerank_rank": 9,
    "final_score": 0.125,
    "place": 70,
    "support": 0.25,
    "floor": 0.5,
    "best_support": 0.875,
    "overlap": 0.625,
    "diversity_score": 0.1,
    "lowest_kept_diversity_score": 0.2,
    "depth": 3,
    "graph_max_depth": 2,
    "graph_direction": "out",
    "walk_rank": 121,
    "graph_max_nodes": 120,
    "changed": True,
}
#: Numbers that are missing, or have other values.
CHANGES: list[dict[str, Any]] = [
    {},
    *({name: None} for name in FULL),
    {"retrieved_today": True},
    {"enters_at_fetch_limit": 2000, "enters_at_seed_limit": 30, "enters_at_doc_limit": 40},
    {"enters_at_seed_limit": 30, "enters_at_doc_limit": 40},
    {"enters_at_doc_limit": 40},
    {"support": 0.5},
    {"support": 0.75, "best_support": None},
    {"support": 1, "floor": 0.5},
    {"rank": "first"},
    {"score": 0},
    {"changed": False},
]


@pytest.mark.parametrize("code", [*OUTCOMES, "unknown"])
def test_the_sentence_of_a_code(code: str) -> None:
    """With all numbers, and without each of them; a sentence that lacks its numbers explains the code."""
    told = WhyNot(
        chunk_id="c",
        stage="s",
        code=code,
        reason="",
        missing_words=("lake", "red"),
        excluded_by=("year", "team"),
        nearest_query="a query",
        relations=("Calls", "Reads"),
        duplicate_of="d",
    )
    bare = msgspec.structs.replace(
        told, missing_words=(), excluded_by=(), nearest_query="", relations=(), duplicate_of=""
    )
    found: dict[str, str] = {}
    for change in CHANGES:
        numbers = {key: value for key, value in (FULL | change).items() if value is not None}
        for name, one in (("", told), ("bare ", bare)):
            try:
                line = outcome_sentence(msgspec.structs.replace(one, numbers=numbers))
            except KeyError as error:
                line = f"KeyError {error}"
            if line not in found.values():
                found[f"{name}{change}"] = line
    found["nothing"] = outcome_sentence(bare) if code in OUTCOMES else ""

    assert_expected(f"sentence_{code}.json", found)


@pytest.mark.parametrize("name", ["full", "plain", "unranked", "failed"])
def test_why_not_of_every_item(name: str) -> None:
    """Every chunk and document of a trace, one that is missing, and what hidden chunks change."""
    triples = {
        "full": full_triples(found=14, kept=3),
        "plain": plain_triples("plain"),
        "unranked": plain_triples("unranked", reranked=False),
        "failed": failed_triples(),
    }[name]
    trace = read_trace(triples)
    every = chunk_ids(trace)
    items = sorted({*every, *(one.document_id for one in trace.candidates), "nothing"} - {""})
    found = {
        f"{item}, {len(visible)} visible": why_not(trace, item, visible=visible).reason
        + f" {sorted(why_not(trace, item, visible=visible).numbers.items())}"
        for visible in (every, frozenset(sorted(every)[1:]))
        for item in items
    }

    assert_expected(f"why_not_{name}.json", found)


def test_what_is_erased_of_corrections() -> None:
    """Words that no document has any more, wherever they stand, but not in the question as it was asked."""
    corrections = [
        Correction(source="lak", target="Lake"),
        Correction(source="rede", target="red"),
        Correction(source="xx", target="get-lake"),
    ]
    run = StageRun(degraded=(Degradation(stage="s", code="c", reason="lake, LAKE, lakes"),))
    triples = [
        *question_triples("a", "the lak of Lake", "2026-01-01T00:00:00Z", run=run),
        *grounding_triples(
            "a", ["lake red", "flake"], question_used="the Lake", corrections=corrections, run=run
        ),
    ]
    record = TraceRecord(
        answer_id="a",
        collection="c",
        question="the lak of Lake",
        access=Access.public(),
        events=(
            ExplainEvent(
                answer_id="a", stage="s", sequence=0, explain_id="", triples=tuple(triples)
            ),
        ),
        answer=Answer(
            answer_id="a",
            question="the lak of Lake",
            text="The lake [1].",
            citations=(Citation(marker=1, chunk_id="k", document_id="d", quote="A lake."),),
            question_used="the Lake",
            corrections=tuple(corrections),
        ),
    )
    found = {
        gone: erase_corrections(record, lambda word, gone=gone: word in gone.split())  # type: ignore[misc]
        for gone in ("lake", "red", "get", "nothing")
    }

    assert found["nothing"] is record
    assert_expected(
        "erased_corrections.json",
        {
            gone: [
                msgspec.to_builtins(one.answer),
                [
                    triple.o.value
                    for event in one.events
                    for triple in event.triples
                    if triple.o.value
                ],
                one.question,
            ]
            for gone, one in found.items()
        },
    )


def test_what_is_erased_of_texts() -> None:
    """Every statement and the answer after one or all of the documents are erased, and again."""
    trace = read_trace(full_triples())
    answer = Answer(
        answer_id="full",
        question="q",
        text="It says so [1].",
        citations=trace.citations,
        unsupported=((0, 5),),
        degraded=(
            Degradation(stage="s", code="sentence_unsupported", reason="It says so."),
            Degradation(stage="s", code="late", reason="it was late"),
        ),
    )
    record = TraceRecord(
        answer_id="full",
        collection="c",
        question="q",
        access=Access.public(),
        events=(
            ExplainEvent(
                answer_id="full", stage="s", sequence=0, explain_id="", triples=trace.triples
            ),
        ),
        answer=answer,
    )
    found = {}
    for name, documents in (("one", {trace.citations[0].document_id}), ("none", set[str]())):
        once = erase_texts(
            record,
            is_erased=lambda _chunk, document, documents=documents: document in documents,  # type: ignore[misc]
            erased_at="2026-02-03T04:05:06Z",
        )
        again = erase_texts(
            once,
            is_erased=lambda _chunk, document, documents=documents: document in documents,  # type: ignore[misc]
            erased_at="2027-02-03T04:05:06Z",
        )
        assert again == once
        before = set(record.events[0].triples)
        after = set(once.events[0].triples)
        found[name] = [
            sorted(f"{one.s.iri} {one.p.iri} {one.o.iri or one.o.value}" for one in part)
            for part in (before - after, after - before)
        ] + [msgspec.to_builtins(once.answer)]

    assert_expected("erased_texts.json", found)
