"""Outdated documents are marked for the writer and in citations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.processors.document_rag import DocumentRag
from whence.retrieval.editions import outdated
from whence.schema import ChunkText
from whence.testing.stub_clients import StubEmbeddings, StubPrompt, StubSearch, candidate

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    st.lists,
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({}, ""),
        ({"status": "in force"}, ""),
        ({"status": "Superseded "}, "superseded"),
        ({"status": ["superseded"]}, ""),
        ({"replaced_by": "Leave  policy\n2025"}, "replaced by Leave policy 2025"),
        ({"superseded_by": "b.md", "status": "archived"}, "replaced by b.md"),
        ({"replaced_by": " "}, ""),
        ({"replaced_by": 3}, ""),
    ],
)
def test_outdated_metadata_is_recognised(metadata: dict[str, Any], said: str) -> None:
    """A known status or a named successor makes a document outdated; other metadata does not."""
    assert outdated(metadata) == said


@given(st.dictionaries(st.sampled_from(["status", "replaced_by", "superseded_by", "x"]), JSON))
def test_any_metadata_is_read(metadata: dict[str, Any]) -> None:
    """Metadata of any type gives one line of text."""
    assert "\n" not in outdated(metadata)


async def test_writer_and_citation_get_the_reason() -> None:
    """The writer gets the numbers of outdated passages, and their citations state the reason."""
    texts = {
        "a": ChunkText(chunk_id="a", document_id="new.md", content="27 days.", metadata={}),
        "b": ChunkText(
            chunk_id="b",
            document_id="old.md",
            content="25 days.",
            metadata={"status": "superseded", "replaced_by": "new.md"},
        ),
    }

    async def fetch_chunk(chunk_id: str) -> str:
        return texts[chunk_id].content

    async def fetch_chunks(ids: Any) -> dict[str, ChunkText]:
        return {chunk_id: texts[chunk_id] for chunk_id in ids}

    prompt = StubPrompt("27 days [1], once 25 [2].")
    rag = DocumentRag(
        prompt,
        StubEmbeddings(),
        StubSearch([candidate("a", 0.9, 1, "new.md"), candidate("b", 0.8, 2, "old.md")]),
        fetch_chunk,
        fetch_chunks=fetch_chunks,
    )
    answer = await rag.query("How many days?")
    assert prompt.outdated == [[2]]
    assert [one.outdated for one in answer.citations] == ["", "replaced by new.md"]
