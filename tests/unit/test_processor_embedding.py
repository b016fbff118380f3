"""The embedding service returns one checked vector per text, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from whence.processors.embedding import EmbeddingParameters, EmbeddingProcessor
from whence.schema import EmbeddingModel, EmbeddingRequest
from whence.schema.errors import BadInput, InternalError
from whence.testing.stub_context import StubContext

MODEL = EmbeddingModel(name="stub", dimension=3)


class FixedEmbedder:
    """Returns the same rows to every call."""

    model = MODEL
    max_tokens = 256

    def __init__(self, rows: Any) -> None:
        self.rows = np.array(rows, dtype=np.float32)
        self.calls: list[tuple[tuple[str, ...], str]] = []

    async def embed(self, texts: Sequence[str], purpose: str = "query") -> Any:
        self.calls.append((tuple(texts), purpose))
        return self.rows


async def test_vectors_travel_as_float32_row_by_row() -> None:
    """The reply holds the rows little endian in the order of the texts, and names the model."""
    embedder = FixedEmbedder([[1, 0, 0], [0, 0.6, 0.8]])
    reply = await EmbeddingProcessor(embedder=embedder).handle(
        EmbeddingRequest(texts=("a", "b"), purpose="document"), StubContext()
    )

    assert reply.model == MODEL
    assert np.frombuffer(reply.vectors, "<f4").reshape(2, 3).tolist() == embedder.rows.tolist()
    assert embedder.calls == [(("a", "b"), "document")]


async def test_no_texts_need_no_model() -> None:
    """An empty request is answered with no vectors."""
    embedder = FixedEmbedder([])
    reply = await EmbeddingProcessor(embedder=embedder).handle(
        EmbeddingRequest(texts=()), StubContext()
    )

    assert (reply.vectors, embedder.calls) == (b"", [])


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 0, 0]],
        [[1, 0, 0]] * 3,
        [[1, 0], [0, 1]],
        [1, 0, 0],
        [[1, 0, 0], [float("nan"), 0, 0]],
        [[1, 0, 0], [float("inf"), 0, 0]],
        [[1, 0, 0], [0, 0, 0]],
        [[1, 0, 0], [2, 0, 0]],
    ],
    ids=["few", "many", "short", "flat", "nan", "inf", "zero", "long"],
)
async def test_wrong_vectors_never_leave(rows: Any) -> None:
    """Number, dimension, finiteness and length are checked, and the model is named."""
    processor = EmbeddingProcessor(embedder=FixedEmbedder(rows))

    with pytest.raises(InternalError, match="model stub gave"):
        await processor.handle(EmbeddingRequest(texts=("a", "b")), StubContext())


async def test_too_many_texts_are_refused() -> None:
    """A request above the limit is refused before the model sees it."""
    embedder = FixedEmbedder([])
    processor = EmbeddingProcessor(EmbeddingParameters(max_texts=1), embedder=embedder)

    with pytest.raises(BadInput, match="2 texts"):
        await processor.handle(EmbeddingRequest(texts=("a", "b")), StubContext())

    assert embedder.calls == []
