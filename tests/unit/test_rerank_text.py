"""What a reranker reads of a chunk: its title and heading, then its text, nothing twice."""

from __future__ import annotations

import pytest

from whence.retrieval.rerank import text_to_read


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, "The text."),
        ({"title": "A", "heading": "B"}, "A\nB\nThe text."),
        ({"title": "A", "heading": "A"}, "A\nThe text."),
        ({"title": "The text", "heading": ""}, "The text."),
        ({"title": 7, "heading": None}, "The text."),
    ],
)
def test_title_and_heading_precede_the_text(metadata: dict[str, object], expected: str) -> None:
    """A passage is read as it was embedded; metadata that is not text is left out."""
    assert text_to_read("The text.", metadata) == expected
