"""What validation asks of whatever is validated; all of it only reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

__all__ = ("Passage", "RetrievedPassages", "Section", "StoredDocument", "Target", "TargetInfo")


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that a search returned. What is None was not there, or was of another type."""

    id: str
    """Id of the chunk or point."""
    score: float
    """Similarity, 0 to 1, higher is better."""
    text: str
    """The chunk's text."""
    source_url: str | None = None
    section_path: str | None = None
    """Headings from the top."""
    heading: str | None = None
    chunk_index: int | None = None
    """Place within the document, 0 for the first."""
    document_id: str = ""
    """What tells documents apart: an id where there is one, else the address."""
    title: str = ""
    """Title of the document, when it is known."""


class RetrievedPassages(msgspec.Struct, frozen=True, kw_only=True):
    """What one search gave."""

    passages: list[Passage]
    """Best first."""
    embedding_ms: float
    """Milliseconds for the query's vector."""
    search_ms: float
    """Milliseconds for ranking and reading the texts."""
    degraded: tuple[str, ...] = ()
    """What took no part, and why; empty for a whole search."""
    embedded: bool = True
    """False when words alone ranked although vectors were asked for."""


class StoredDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds of a passage's document."""

    text: str = ""
    """Texts of its chunks, at least up to the passage."""
    digest: str = ""
    """SHA-256 of the passage's text as it was stored, hexadecimal; empty when none was."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A stored chunk, as a source of queries."""

    heading: str
    section_path: str
    text: str
    source_url: str


class TargetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is validated."""

    store: str
    """Kind and address of the store, without secrets."""
    collection: str
    model: str
    """Model that embeds the queries."""
    dimension: int
    """Length of the stored vectors."""


class Target(Protocol):
    """One collection, seen with the rights of one reader."""

    async def about(self) -> TargetInfo:
        """Tell what this is.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: Queries are embedded by another model than the stored chunks.
            Unavailable: The store does not answer.
        """
        ...

    async def search(self, query: str, *, limit: int) -> RetrievedPassages:
        """Find the best passages, without a threshold.

        Raises:
            BadInput: The query cannot be searched for.
            WhenceError: Something needed does not answer.
        """
        ...

    async def page(self, passage: Passage) -> StoredDocument:
        """Return what the store holds of the passage's document."""
        ...

    async def sections(self, limit: int) -> Sequence[Section]:
        """Return chunks from all over the collection, at most `limit`, always the same ones."""
        ...

    async def holds(self, document_ids: Sequence[str]) -> bool:
        """Return whether the collection holds all of these documents, visible to the reader or not."""
        ...
