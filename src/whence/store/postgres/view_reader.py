"""Reads of a collection in one version: with what is cached of it, or in one snapshot of the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from whence.schema.access import Access
from whence.schema.errors import BadInput
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.collection_version import (
    ReaderView,
    StaleVersion,
    cached_view,
    read_view,
)
from whence.store.postgres.driver import Connection, snapshot
from whence.store.postgres.maintenance import Maintenance
from whence.store.postgres.pool import ConnectionPool
from whence.store.postgres.server.tuning import memory_bytes
from whence.store.validation import is_text

T = TypeVar("T")

#: Size of the cache: a part of the memory, and at most.
_OF_MEMORY = 16
_MAX_BYTES = 128 * 1024 * 1024


class ViewReader:
    """Runs reads that need the version of a collection.

    A cached version saves the statements that read it. It is only a proposal: each statement of a ranking
    checks it, and after a write the read is repeated in a snapshot of the database.

    Args:
        pool: Lends connections.
        maintenance: Indexes a collection of a former version before it is read.
    """

    def __init__(self, pool: ConnectionPool, maintenance: Maintenance) -> None:
        self._pool = pool
        self._maintenance = maintenance
        self.cache = ByteCache(min(_MAX_BYTES, memory_bytes() // _OF_MEMORY))

    async def read(
        self,
        collection: str,
        access: Access,
        read: Callable[[Connection, ReaderView], Awaitable[T | None]],
    ) -> T:
        """Return what `read` returns; it returns None while the collection is not indexed by this version."""
        view = cached_view(collection, access, self.cache) if is_text(collection) else None
        if view is not None:
            try:
                async with self._pool.search_connection() as connection:
                    found = await read(connection, view)
                if found is not None:
                    return found
            except (StaleVersion, BadInput):
                # Input may be bad for the former version only.
                pass
            self.cache.drop(collection)

        async def read_snapshot(connection: Connection) -> T | None:
            async with snapshot(connection):
                view = await read_view(connection, collection, access, self.cache)
                found = await read(connection, view)
            if view.version.version is not None:
                self.cache.put(collection, view.version)
            return found

        return await self._maintenance.read_indexed(collection, read_snapshot)
