"""Where a collection stands: what a search needs to know of it, and the stamp that tells if it still holds.

Each write to a collection writes its row in `lexicon`, in the same transaction: documents, rights, words and
vectors. The number of the transaction that wrote the row last, together with the epoch of rights, therefore
names one state of all that can be found. What was read in that state may be used again as long as a later
statement finds the same two: `Standing` is what is remembered, and in another state a `stamped` statement
finds nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import msgspec

from whence.store.postgres.acl_classes import EPOCH
from whence.store.postgres.collections import model_of
from whence.store.postgres.dense.vector_index import INDEXED, MEASURED
from whence.store.postgres.driver import Connection
from whence.store.protocols import CollectionInfo
from whence.store.validation import missing_collection

__all__ = (
    "Changed",
    "Standing",
    "StandingMemory",
    "recalled",
    "stamped",
    "standing",
)

_STAMPED: Final = (
    "SELECT r.* FROM collection c JOIN lexicon l ON l.collection_id = c.id CROSS JOIN rights_epoch e"
    " LEFT JOIN ({rows}) r ON true"
    " WHERE c.name = ${name} AND c.id = ${id} AND l.xmin = ${version}::xid AND e.stamp = ${epoch}::uuid"
)
_STANDING = (
    "SELECT c.id, c.name, c.model_name, c.model_revision, c.model_precision, c.dimension,"  # noqa: S608 - only constants
    f" l.analyzer, l.languages, coalesce(l.chunks, 0) AS chunks, l.xmin AS version, {EPOCH},"
    f" {INDEXED}, {MEASURED} FROM collection c LEFT JOIN lexicon l ON l.collection_id = c.id WHERE c.name = $1"
)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A collection as it stood."""

    id: int
    info: CollectionInfo
    """Its name and model; nothing is counted."""
    version: int
    """Transaction that changed it last, 0 before the first."""
    epoch: UUID
    """State of all classes of rights."""
    analyzer: str
    """The analyzer of its words; empty before the first."""
    languages: tuple[str, ...]
    chunks: int
    indexed: bool
    """Whether it has a graph over its vectors."""
    measured: int | None
    """What that was measured to need, see `vector_index.Neighbourhood`."""


class Changed(Exception):
    """A collection does not stand where it stood: what was remembered of it counts no more."""


def stamped(rows: str, first: int) -> str:
    """Give a statement its rows only where a collection stands where it stood, for `recalled`.

    Args:
        rows: A statement.
        first: The number of its first parameter that is free.
    """
    return _STAMPED.format(rows=rows, name=first, id=first + 1, version=first + 2, epoch=first + 3)


async def recalled(
    connection: Connection, statement: str, known: Standing, *arguments: Any
) -> list[Any]:
    """Run a statement that is `stamped`; gives one row of nothing but NULL in place of none.

    Raises:
        Changed: The collection, or the classes of rights, are in another state.
    """
    stamp = (known.info.name, known.id, known.version, known.epoch)
    rows = await connection.fetch(statement, *arguments, *stamp)
    if not rows:
        raise Changed
    return rows


async def standing(connection: Connection, collection: str) -> Standing:
    """Read where a collection stands.

    Raises:
        NotFound: There is no such collection.
    """
    row = await connection.fetchrow(_STANDING, collection)
    if row is None:
        raise missing_collection(collection)
    return Standing(
        id=row["id"],
        info=CollectionInfo(name=row["name"], model=model_of(row)),
        version=row["version"] or 0,
        epoch=row["epoch"],
        analyzer=row["analyzer"] or "",
        languages=tuple(row["languages"] or ()),
        chunks=row["chunks"],
        indexed=row["indexed"],
        measured=row["measured"],
    )


class StandingMemory:
    """Where collections stood when they were asked last, for a while.

    Args:
        monotonic: Clock in seconds.
    """

    #: A graph that another process has built is noticed after that time.
    _LIFE_S = 30.0
    _MOST = 1000

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, Standing]] = {}

    def get(self, collection: str) -> Standing | None:
        """Give what is remembered of a collection."""
        known = self._known.get(collection)
        return known[1] if known is not None and self._monotonic() < known[0] else None

    def put(self, found: Standing) -> None:
        """Remember it."""
        if len(self._known) >= self._MOST:
            self._known.clear()
        self._known[found.info.name] = (self._monotonic() + self._LIFE_S, found)

    def forget(self, collection: str) -> None:
        """Forget what turned out not to hold any more."""
        self._known.pop(collection, None)
