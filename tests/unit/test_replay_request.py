"""A recorded question is asked again as it was recorded, also one that was recorded before 0.2."""

from __future__ import annotations

from typing import Any

import pytest

from whence.answering.requests import recorded
from whence.operations.ask import DocumentRagRequest
from whence.operations.recorded_answers import replay_request
from whence.schema.access import Access
from whence.schema.code_rag import CODE_RAG, CodeRagRequest
from whence.schema.document_rag import TraceRecord
from whence.schema.texts import TextBudget

READER = Access({"staff"}, {"internal"}, 2)


def record_of(question: str, settings: dict[str, Any]) -> TraceRecord:
    return TraceRecord(
        answer_id="a1",
        collection="handbook",
        question=question,
        access=READER,
        events=(),
        settings=settings,
    )


@pytest.mark.parametrize(
    "asked",
    [
        DocumentRagRequest(
            access=READER,
            question="How long?",
            collection="handbook",
            answer_id="a1",
            doc_limit=7,
            rerank=False,
            diversity="mmr",
            diversity_lambda=0.5,
            mode="bm25",
            filters={"lang": ["en", "de"], "year": {"gte": 2020}},
            exact=True,
            history=("Who?",),
            streaming=True,
        ),
        CodeRagRequest(
            access=READER,
            question="How long?",
            snapshot="s1",
            set_name="releases",
            seed_limit=3,
            doc_limit=9,
            max_depth=1,
            relations=("Calls",),
            direction="in",
            prioritize="balanced",
            budget=TextBudget(kind="chars", limit=100),
            mode="dense",
        ),
    ],
)
def test_a_question_is_asked_again_as_it_was_recorded(
    asked: DocumentRagRequest | CodeRagRequest,
) -> None:
    """All that decides an answer comes back; a snapshot is named itself, and nothing is recorded again."""
    flow = {"flow": CODE_RAG} if isinstance(asked, CodeRagRequest) else {}
    again = replay_request(record_of("How long?", {"operation": recorded(asked), **flow}))

    expected = {name: getattr(asked, name) for name in asked.__struct_fields__}
    expected |= {"answer_id": "", "streaming": False, "record": False}
    if isinstance(asked, CodeRagRequest):
        expected["set_name"] = ""
    assert again == type(asked)(**expected)


def test_a_question_of_an_older_trace_is_read_from_its_settings() -> None:
    """A trace of 0.1 has limits, mode, filters and history among settings that are no parameters."""
    settings = {
        "collection": "handbook",
        "mode": "hybrid",
        "filters": '{"lang": "en"}',
        "history": '["Who?"]',
        "as_of": "2026-01-01T00:00:00+00:00",
        "doc_limit": 7,
        "fetch_limit": 21,
        "rerank": True,
        "rerank_limit": 5,
        "rerank_diversity": "mmr",
        "rerank_diversity_lambda": 0.5,
        "threshold": 0.0,
        "max_concepts": 10,
        "embedder_model": "m",
    }
    plain = {name: settings[name] for name in ("mode", "doc_limit", "fetch_limit", "rerank")}

    assert replay_request(record_of("How long?", settings)) == DocumentRagRequest(
        access=READER,
        question="How long?",
        collection="handbook",
        mode="hybrid",
        doc_limit=7,
        fetch_limit=21,
        rerank_limit=5,
        diversity="mmr",
        diversity_lambda=0.5,
        filters={"lang": "en"},
        history=("Who?",),
        record=False,
    )
    assert replay_request(record_of("How long?", plain)).diversity == "none"  # type: ignore[union-attr]
