"""The protocol of a collection that can be validated. All of its methods only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that a search returned. A field is None when it is missing or of another type."""

    id: str
    score: float
    """Similarity, 0 to 1, higher is better."""
    text: str
    source_url: str | None = None
    section_path: str | None = None
    heading: str | None = None
    chunk_index: int | None = None
    """Place within the document, 0 for the first."""
    document_id: str = ""
    """Id of the document, or its address when it has no id."""
    title: str = ""
    source_file: str = ""
    """Path of its file below the indexed folder; empty when it has none."""


class RetrievedPassages(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one search."""

    passages: list[Passage]
    embedding_ms: float
    search_ms: float
    """Milliseconds for ranking and reading the texts."""
    degraded: tuple[str, ...] = ()
    """Reasons why the search was not complete; empty when it was."""
    embedded: bool = True
    """False when only words ranked although vectors were requested."""


class PassageSource(msgspec.Struct, frozen=True, kw_only=True):
    """The stored document of a passage."""

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
    """Description of a validated collection."""

    store: str
    """Kind and address of the store, without secrets."""
    collection: str
    model: str
    dimension: int


class Target(Protocol):
    """One collection, read with the rights of one reader."""

    async def describe(self) -> TargetInfo:
        """Return a description of the collection.

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

    async def document(self, passage: Passage) -> PassageSource:
        """Return the stored document of a passage."""
        ...

    async def sections(self, limit: int) -> Sequence[Section]:
        """Return a sample of at most `limit` chunks from the whole collection, always the same ones."""
        ...

    async def contains(self, document_ids: Sequence[str]) -> bool:
        """Return whether the collection has all of these documents, visible to the reader or not."""
        ...
