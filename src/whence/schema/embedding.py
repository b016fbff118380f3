"""Messages of the embedding service: texts in, unit vectors out."""

from __future__ import annotations

from typing import ClassVar, Literal

from whence.schema.message import Message

Purpose = Literal["document", "query"]


class EmbeddingModel(Message, frozen=True, kw_only=True):
    """Identity of a model; vectors are comparable when all four fields are equal."""

    name: str
    """Model name, e.g. `all-MiniLM-L6-v2` or `cohere:embed-english-v3.0`."""
    revision: str = ""
    """Digest or version of the weights; empty when unknown."""
    precision: str = "float32"
    """Number format of the weights: `w8`, `float32`, or as stated by the provider."""
    dimension: int
    """Length of a vector, 1 to 16000."""


class EmbeddingRequest(Message, frozen=True, kw_only=True):
    """Ask for one vector per text, in order."""

    TYPE: ClassVar[str] = "embedding-request.v1"

    texts: tuple[str, ...]
    """Texts of any length; the model truncates those longer than its window."""
    purpose: Purpose = "query"
    """`document` for texts to be searched, `query` for queries; some models treat them differently."""
    token_codes: bool = False
    """Whether token codes are wanted, too; a model that makes none leaves them out."""
    collection: str = ""
    """The collection whose model is wanted, where the service knows collections."""
    model: EmbeddingModel | None = None
    """The model that is wanted, where the service has it; else its own. The reply names the used one."""


class EmbeddingResponse(Message, frozen=True, kw_only=True):
    """One unit vector per text."""

    TYPE: ClassVar[str] = "embedding-response.v1"

    vectors: bytes
    """float32 little endian, shape (len(texts), model.dimension), row by row, each of length 1."""
    model: EmbeddingModel
    """Model of the vectors."""
    served_by: str = ""
    """Model and host of the server that made them, `MODEL@HOST`; empty for a model of this machine."""
    token_codes: tuple[bytes, ...] = ()
    """One code per text, for a reranker that reads them in place of texts; none unless they were wanted."""
