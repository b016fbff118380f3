"""Messages of the embedding service: texts in, unit vectors out."""

from __future__ import annotations

from typing import ClassVar, Literal

from whence.schema.message import Message

__all__ = ("EmbeddingModel", "EmbeddingRequest", "EmbeddingResponse", "Purpose")

Purpose = Literal["document", "query"]


class EmbeddingModel(Message, frozen=True, kw_only=True):
    """What makes two vectors comparable: all four fields must be equal."""

    name: str
    """Model name, e.g. `all-MiniLM-L6-v2` or `cohere:embed-english-v3.0`."""
    revision: str = ""
    """Digest or version of the weights; empty when the provider gives none."""
    precision: str = "float32"
    """Arithmetic of the encoder: `w8`, `float32`, or what the provider states."""
    dimension: int
    """Length of a vector, 1 to 16000."""


class EmbeddingRequest(Message, frozen=True, kw_only=True):
    """Ask for one vector per text, in order."""

    TYPE: ClassVar[str] = "embedding-request.v1"

    texts: tuple[str, ...]
    """Texts to embed, any length; longer ones than the model's window are cut by it."""
    purpose: Purpose = "query"
    """Whether the texts are to be found (`document`) or to find (`query`); some models differ."""


class EmbeddingResponse(Message, frozen=True, kw_only=True):
    """One unit vector per text."""

    TYPE: ClassVar[str] = "embedding-response.v1"

    vectors: bytes
    """float32 little endian, shape (len(texts), model.dimension), row by row, each of length 1."""
    model: EmbeddingModel
    """The model that made them."""
