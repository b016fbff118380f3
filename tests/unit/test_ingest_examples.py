"""The example handbook: it loads whole, and its questions can be answered by whom they are meant for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from whence.ingest.chunking import Chunker
from whence.ingest.documents import load_documents
from whence.ingest.load_results import LoadedDocument
from whence.schema.access import Access
from whence.schema.ingest import DocumentDraft

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


@pytest.fixture(scope="module")
def drafts() -> dict[str, DocumentDraft]:
    """Return the documents of the handbook; every file in it is one, or records."""
    outcomes = list(load_documents([EXAMPLES / "handbook"], chunker=Chunker(words)))
    assert all(isinstance(item, LoadedDocument) for item in outcomes), outcomes
    return {i.draft.document_id: i.draft for i in outcomes if isinstance(i, LoadedDocument)}


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    """Return all questions, the demo's first."""
    document = json.loads((EXAMPLES / "demo_questions.json").read_text())
    return [*document["questions"], *document["evaluation"]]


def visible(question: dict[str, Any], draft: DocumentDraft) -> bool:
    access = Access(
        frozenset(question.get("acl", ())),
        frozenset(question.get("labels", ())),
        question.get("clearance", 0),
    )
    return access.allows(draft.tags)


def test_expected_documents_are_visible_to_those_who_ask(
    drafts: dict[str, DocumentDraft], questions: list[dict[str, Any]]
) -> None:
    """A question expects only documents that its reader may see, and forbids only hidden ones."""
    for question in questions:
        named = question["expected"] + question.get("superseded", [])
        assert all(visible(question, drafts[document_id]) for document_id in named), question
        hidden = question.get("forbidden", [])
        assert not any(visible(question, drafts[document_id]) for document_id in hidden), question


def test_no_open_document_names_a_restricted_one(drafts: dict[str, DocumentDraft]) -> None:
    """Else the name would leak through an open text."""
    restricted = [d for d, draft in drafts.items() if not Access.public().allows(draft.tags)]
    open_texts = [
        chunk.content
        for draft in drafts.values()
        if Access.public().allows(draft.tags)
        for chunk in draft.chunks
    ]

    assert len(restricted) >= 5
    assert not [(d, text) for d in restricted for text in open_texts if d in text]


def test_superseded_documents_say_so(drafts: dict[str, DocumentDraft]) -> None:
    """An outdated page names the page that replaced it, and that page exists."""
    titles = {draft.title for draft in drafts.values()}
    outdated = [d for d in drafts.values() if d.metadata.get("status") == "superseded"]

    assert len(outdated) >= 2
    for draft in outdated:
        assert draft.metadata["replaced_by"] in titles
        assert "out of date" in draft.chunks[0].content


def test_no_document_answers_the_unanswerable_question(
    drafts: dict[str, DocumentDraft], questions: list[dict[str, Any]]
) -> None:
    """None of its specific words occurs in the handbook."""
    (question,) = (q for q in questions if q.get("unanswerable"))
    text = " ".join(c.content for d in drafts.values() for c in d.chunks).casefold()

    assert not [w for w in ("canteen", "vegan", "lunch", "friday") if w in text]
    assert "vegan" in question["question"]
