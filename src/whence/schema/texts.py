"""Messages of the text fetcher: chunk ids in, texts out, in one batched read."""

from __future__ import annotations

from typing import Any, ClassVar

from whence.schema.access import Access
from whence.schema.message import Message

__all__ = ("ChunkText", "TextRequest", "TextResponse")


class ChunkText(Message, frozen=True, kw_only=True):
    """The text of one chunk and where it stands in its source."""

    chunk_id: str
    """IRI of the chunk."""
    document_id: str
    """Document it is part of."""
    content: str
    """The text, verbatim from the source."""
    metadata: dict[str, Any] = {}
    """`source_file`, `source_url`, `section_path`, `header_path`, `heading`, `chunk_index`, and the
    document's own metadata."""
    digest: str = ""
    """SHA-256 of `content` in UTF-8, hexadecimal."""


class TextRequest(Message, frozen=True, kw_only=True):
    """Ask for the texts of chunks that the reader may see."""

    TYPE: ClassVar[str] = "text-request.v1"

    access: Access
    """Rights of the reader; a hidden chunk is answered like a missing one."""
    collection: str
    """Name of the collection."""
    chunk_ids: tuple[str, ...]
    """Ids wanted, each once."""


class TextResponse(Message, frozen=True, kw_only=True):
    """The texts that exist and are visible, in the order asked."""

    TYPE: ClassVar[str] = "text-response.v1"

    texts: tuple[ChunkText, ...]
    """One entry for every chunk found."""
    missing: tuple[str, ...] = ()
    """Ids not found or not visible, in the order asked."""
