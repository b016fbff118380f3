"""Versions of a collection: what a search needs to know of it, and the check that it still holds.

Each write to a collection writes its row in `lexicon`, in the same transaction: documents, rights, words,
vectors, and the state of its vector index. The number of the transaction that wrote the row last, together with
the epoch of rights, therefore names one version of everything that can be found. What was read in a version may
be reused as long as a later statement finds the same version; a `versioned` statement finds no row in any
other.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec

from whence.schema.access import Access
from whence.store.postgres.acl_classes import EPOCH, allowed_classes, cached_classes
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.collections import model_of
from whence.store.postgres.dense.vector_index import INDEXED, MEASURED
from whence.store.postgres.dense.vector_sets import vector_table
from whence.store.postgres.driver import Connection
from whence.store.protocols import CollectionInfo
from whence.store.validation import missing_collection

_VERSIONED: Final = """
SELECT r.* FROM collection c LEFT JOIN lexicon l ON l.collection_id = c.id CROSS JOIN rights_epoch e
LEFT JOIN ({rows}) r ON true
WHERE c.name = ${name} AND c.id = ${id} AND l.xmin IS NOT DISTINCT FROM ${version}::xid
    AND e.stamp = ${epoch}::uuid
"""
_READ_VERSION = f"""
SELECT c.id, c.name, c.model_name, c.model_revision, c.model_precision, c.dimension, c.facts_version, c.vector_set,
    l.analyzer, coalesce(l.chunks, 0) AS chunks, l.xmin AS version, c.version AS number, {EPOCH}, {INDEXED}, {MEASURED}
FROM collection c LEFT JOIN lexicon l ON l.collection_id = c.id WHERE c.name = $1
"""  # noqa: S608 - only constants


class CollectionVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A collection as it was when it was read."""

    id: int
    info: CollectionInfo
    """Its name and model; nothing is counted."""
    version: int | None
    """Transaction that changed it last, None before the first."""
    number: int
    """Its version in the change log."""
    epoch: UUID
    """State of all access classes."""
    analyzer: str
    """The analyzer of its words; empty before the first."""
    metadata_version: int
    """Version of the code that indexed the metadata of its documents."""
    chunks: int
    indexed: bool
    """Whether it has an HNSW graph."""
    vector_set: int
    """Number of its vectors."""
    measured: tuple[int, int] | None
    """The `ef_search` that the graph was measured to need for short and long rankings, see `vector_index`."""

    @property
    def vectors(self) -> str:
        """The table of its vectors."""
        return vector_table(self.vector_set)


class ReaderView(msgspec.Struct, frozen=True):
    """One version of a collection as one reader sees it."""

    version: CollectionVersion
    access: Access
    classes: list[int]
    """Access classes that the reader may see, ascending."""
    cache: ByteCache

    def key(self, *parts: Any) -> tuple[Any, ...]:
        """Return the key of a value that is derived from what the reader sees of this version."""
        return (self.version.id, self.version.version, tuple(self.classes), *parts)


class StaleVersion(Exception):
    """A collection or the access classes changed after their version was read."""


def versioned(rows: str, first: int) -> str:
    """Return a statement that has its rows only in a given version, for `fetch_versioned`.

    Args:
        rows: A statement.
        first: The number of its first unused parameter.
    """
    return _VERSIONED.format(
        rows=rows, name=first, id=first + 1, version=first + 2, epoch=first + 3
    )


async def fetch_versioned(
    connection: Connection, statement: str, version: CollectionVersion, *arguments: Any
) -> list[Any]:
    """Run a `versioned` statement. No rows of its own are one row of NULL."""
    check = (version.info.name, version.id, version.version, version.epoch)
    rows = await connection.fetch(statement, *arguments, *check)
    if not rows:
        raise StaleVersion
    return rows


_UNCHANGED: Final = versioned("SELECT true", 1)


async def check_version(connection: Connection, version: CollectionVersion) -> None:
    """Raise `StaleVersion` unless a version still holds."""
    await fetch_versioned(connection, _UNCHANGED, version)


async def read_view(
    connection: Connection, collection: str, access: Access, cache: ByteCache
) -> ReaderView:
    """Read the current version of a collection and what a reader may see of it."""
    row = await connection.fetchrow(_READ_VERSION, collection)
    if row is None:
        raise missing_collection(collection)
    version = CollectionVersion(
        id=row["id"],
        info=CollectionInfo(name=row["name"], model=model_of(row)),
        version=row["version"],
        number=row["number"],
        epoch=row["epoch"],
        analyzer=row["analyzer"] or "",
        metadata_version=row["facts_version"],
        chunks=row["chunks"],
        indexed=row["indexed"],
        measured=tuple(row["measured"]) if row["measured"] else None,
        vector_set=row["vector_set"],
    )
    classes = await allowed_classes(connection, access, version.epoch)
    return ReaderView(version, access, classes, cache)


def cached_view(collection: str, access: Access, cache: ByteCache) -> ReaderView | None:
    """Return the version that was read last, or None if it or the reader's classes are not cached."""
    version = cache.get(collection)
    classes = None if version is None else cached_classes(access, version.epoch)
    return None if classes is None else ReaderView(version, access, classes, cache)
