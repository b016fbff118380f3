"""The protocol of a collection that can be validated. All of its methods only read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from whence.evaluation.searcher import Passage, Searcher


class PassageSource(msgspec.Struct, frozen=True, kw_only=True):
    """The stored document of a passage."""

    text: str = ""
    """Texts of its chunks, at least up to the passage."""
    digest: str = ""
    """SHA-256 of the passage's text as it was stored, hexadecimal; empty when none was."""


class TargetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a validated collection."""

    store: str
    """Kind and address of the store, without secrets."""
    collection: str
    model: str
    dimension: int


class Target(Searcher, Protocol):
    """One collection that is searched and read with the rights of one reader."""

    async def describe(self) -> TargetInfo:
        """Return a description of the collection.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: Queries are embedded by another model than the stored chunks.
            Unavailable: The store does not answer.
        """
        ...

    async def document(self, passage: Passage) -> PassageSource:
        """Return the stored document of a passage."""
        ...

    async def sections(self, limit: int) -> Sequence[Passage]:
        """Return a sample of at most `limit` chunks from the whole collection, always the same ones."""
        ...

    async def folders(self) -> Sequence[Path]:
        """Return the folders of this machine that the collection was indexed from."""
        ...

    async def contains(self, document_ids: Sequence[str]) -> bool:
        """Return whether the collection has all of these documents, visible to the reader or not."""
        ...
