"""A writer that answers with the first sentence of the last paragraph of the best passage.

`WHENCE_WRITER=first-passage` selects it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from whence.models.protocols import WritePiece, WriteRequest
from whence.schema.prompt import PromptResult


class FirstPassageWriter:
    """Quotes; it is not a language model, so it is never asked for concepts."""

    model = "first-passage"
    is_language_model = False

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield the sentence with its marker, then the whole result."""
        paragraph = request.documents[0].strip().split("\n\n")[-1]
        sentence = paragraph.partition(". ")[0].rstrip(".")
        text = f"{sentence}. [1]"
        yield WritePiece(text=text)
        yield WritePiece(result=PromptResult(response_type="text", text=text, model=self.model))

    async def aclose(self) -> None:
        """Free nothing."""


def make_writer(model: str, settings: Any) -> FirstPassageWriter:
    """Return the writer; it has no variants, so `model` is empty."""
    return FirstPassageWriter()
