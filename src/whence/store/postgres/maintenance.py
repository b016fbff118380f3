"""Work that writes leave for later: indexing words, merging segments, building vector indexes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from whence.schema.errors import Unavailable
from whence.store.postgres.collections import lock_collection, write_settings
from whence.store.postgres.dense import vector_index
from whence.store.postgres.driver import Connection, write_transaction
from whence.store.postgres.lexical import reindexing
from whence.store.postgres.lexical.merge_policy import plan_background_merges
from whence.store.postgres.lexical.merging import list_segments, merge_in_background
from whence.store.postgres.links.indexing import ensure_links_indexed
from whence.store.postgres.metadata_index import ensure_metadata_indexed
from whence.store.postgres.pool import ConnectionPool
from whence.store.validation import is_text, missing_collection

logger = logging.getLogger(__name__)

T = TypeVar("T")

_COLLECTION_ID = "SELECT id FROM collection WHERE name = $1"


class Maintenance:
    """Background tasks, at most one of each kind per collection.

    A task that fails or is cancelled loses nothing: it is rolled back, and the next write or search starts it
    again.
    """

    def __init__(self, pool: ConnectionPool, write_timeout_s: float) -> None:
        self._pool = pool
        self._write_timeout_s = write_timeout_s
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._checked: set[str] = set()

    async def start_needed(self, connection: Connection, collection: str) -> None:
        """Start what a write left to do."""
        if not is_text(collection):
            return
        collection_id = await connection.fetchval(_COLLECTION_ID, collection)
        if plan_background_merges(await list_segments(connection, collection_id)):
            self.start(collection)
        await self._start_indexing(connection, collection, collection_id)

    def start(self, collection: str) -> asyncio.Task[None]:
        """Start indexing and merging the words of a collection; return the task, also if it runs already."""

        async def work(connection: Connection) -> None:
            await maintain(connection, collection, self._write_timeout_s)

        return self._start("maintain", collection, work)

    async def check_vector_index(self, collection: str) -> None:
        """Start building a vector index that an earlier process left unfinished; once per collection."""
        if collection not in self._checked and is_text(collection):
            self._checked.add(collection)
            async with self._pool.connection() as connection:
                collection_id = await connection.fetchval(_COLLECTION_ID, collection)
                await self._start_indexing(connection, collection, collection_id)

    async def read_indexed(
        self, collection: str, read: Callable[[Connection], Awaitable[T | None]]
    ) -> T:
        """Return what `read` returns on a connection for searches; when that is None, index and read again.

        Indexing goes on when the caller is cancelled, so a large collection is ready at a later attempt.
        """
        if not is_text(collection):
            raise missing_collection(collection)
        for _ in range(2):
            async with self._pool.search_connection() as connection:
                found = await read(connection)
            if found is not None:
                return found
            await asyncio.shield(self.start(collection))
        raise Unavailable(
            f"the words of collection {collection!r} are being indexed by another version of Whence",
            hint="use one version of Whence on a database",
        )

    @property
    def is_running(self) -> bool:
        """Whether any task runs."""
        return bool(self._tasks)

    async def wait(self) -> None:
        """Wait until no task runs."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values())

    async def aclose(self) -> None:
        """Cancel all tasks."""
        running = [*self._tasks.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _start_indexing(
        self, connection: Connection, collection: str, collection_id: int
    ) -> None:
        """Start building or measuring a collection's vector index if that is needed."""
        if ("index", collection) in self._tasks or not await vector_index.needs_index_build(
            connection, collection_id
        ):
            return

        async def work(connection: Connection) -> None:
            await vector_index.build_index(connection, collection_id)
            await vector_index.drop_orphan_indexes(connection)

        self._start("index", collection, work)

    def _start(
        self, kind: str, collection: str, work: Callable[[Connection], Awaitable[None]]
    ) -> asyncio.Task[None]:
        key = (kind, collection)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._run(work))
            self._tasks[key].add_done_callback(lambda done: self._finish(key, done))
        return self._tasks[key]

    async def _run(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        async with self._pool.connection() as connection:
            await work(connection)

    def _finish(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        kind, collection = key
        del self._tasks[key]
        if not task.cancelled() and task.exception() is not None:
            logger.warning(
                "maintenance of collection %r failed",
                collection,
                extra={"action": kind, "collection": collection},
                exc_info=task.exception(),
            )


async def index_words(connection: Connection, collection: str, timeout_s: float) -> None:
    """Index the words of all chunks by this analyzer, in batches of a transaction each.

    It is resumable: an interrupted call leaves the remaining batches to the next one. Cost: one look-up; linear
    in the texts that are not indexed.
    """
    indexed = await reindexing.is_indexed(connection, collection)
    while not indexed:
        async with write_transaction(connection, *write_settings(timeout_s)):
            locked = await lock_collection(connection, collection)
            indexed = await reindexing.reindex_batch(connection, locked.id)


async def maintain(connection: Connection, collection: str, timeout_s: float) -> None:
    """Index words, metadata and names that this version has not indexed; then merge segments."""
    await index_words(connection, collection, timeout_s)
    async with write_transaction(connection, *write_settings(timeout_s)):
        locked = await lock_collection(connection, collection)
        await ensure_metadata_indexed(connection, locked.id)
        await reindexing.ensure_indexed(connection, locked.id)
        await ensure_links_indexed(connection, locked.id)
    await merge_in_background(connection, locked.id, *write_settings(timeout_s))
