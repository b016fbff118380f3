"""Searches, scores and texts in PostgreSQL: the reader's rights are applied before ranking and limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.schema.search import Candidate, Match
from whence.schema.texts import ChunkText
from whence.store.postgres import chunk_reader
from whence.store.postgres.cached_search import Shortcuts
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical import search as lexical
from whence.store.postgres.maintenance import Maintenance
from whence.store.postgres.pool import ConnectionPool
from whence.store.validation import is_text, missing_collection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ("PostgresSearch",)


class PostgresSearch:
    """Implements the reads of `ChunkStore` and `TraceStore` that take a reader's access.

    Args:
        pool: Lends connections.
        maintenance: Indexes a collection of a former version before it is searched.
    """

    def __init__(self, pool: ConnectionPool, maintenance: Maintenance) -> None:
        self._pool = pool
        self._maintenance = maintenance
        self._shortcuts = Shortcuts(pool.connection, pool.search_connection)

    async def aclose(self) -> None:
        """Stop background reads."""
        await self._shortcuts.aclose()

    async def search_dense(
        self,
        collection: str,
        vector: NDArray[np.float32],
        *,
        limit: int,
        access: Access,
        threshold: float = 0.0,
        filters: Filters = (),
        exact: bool = False,
    ) -> list[Candidate]:
        """Rank the visible chunks by cosine; see `ChunkStore`."""

        async def read(connection: Connection) -> list[Candidate] | None:
            await self._maintenance.check_vector_index(connection, collection)
            return await chunk_reader.search_dense(
                connection,
                collection,
                vector,
                limit=limit,
                access=access,
                threshold=threshold,
                filters=filters,
                counts=None if exact else self._shortcuts.counts,
                standings=self._shortcuts.standings,
            )

        if filters:
            await self._prime(collection, access)
        found = await self._shortcuts.dense(
            collection,
            vector,
            limit=limit,
            access=access,
            threshold=threshold,
            exact=exact,
            filters=filters,
        )
        if found is not None:
            return found
        return await self._maintenance.read_indexed(collection, read)

    async def search_lexical(
        self,
        collection: str,
        query_text: str,
        *,
        limit: int,
        access: Access,
        filters: Filters = (),
        match: Match = "any",
    ) -> list[Candidate]:
        """Rank the visible chunks by BM25; see `ChunkStore`."""
        if filters:
            await self._prime(collection, access)
        found = await self._shortcuts.lexical(
            collection, query_text, limit=limit, access=access, match=match, filters=filters
        )
        if found is not None:
            return found
        return await self._maintenance.read_indexed(
            collection,
            lambda connection: lexical.search_lexical(
                connection,
                collection,
                query_text,
                limit=limit,
                access=access,
                filters=filters,
                match=match,
                standings=self._shortcuts.standings,
            ),
        )

    async def _prime(self, collection: str, access: Access) -> None:
        """Let a filtered search be answered by memory from the first one on: it looks up what is kept once."""
        if not is_text(collection):
            return
        async with self._pool.connection() as connection:
            await self._maintenance.check_vector_index(connection, collection)
        await self._shortcuts.prime(collection, access)

    async def lexical_scores(
        self,
        collection: str,
        query_text: str,
        chunk_ids: Sequence[str],
        access: Access,
        *,
        match: Match = "any",
    ) -> dict[str, float]:
        """Return the lexical share of visible chunks; see `ChunkStore`."""
        return await self._maintenance.read_indexed(
            collection,
            lambda connection: lexical.lexical_scores(
                connection, collection, query_text, chunk_ids, access, match
            ),
        )

    async def dense_scores(
        self,
        collection: str,
        vector: NDArray[np.float32],
        chunk_ids: Sequence[str],
        access: Access,
    ) -> dict[str, float]:
        """Return the exact cosine of visible chunks; see `ChunkStore`."""
        if not is_text(collection):
            raise missing_collection(collection)
        async with self._pool.connection() as connection:
            return await chunk_reader.dense_scores(
                connection, collection, vector, chunk_ids, access
            )

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Return the texts of visible chunks, in the order asked; see `ChunkStore`."""
        async with self._pool.connection() as connection:
            return await chunk_reader.chunk_texts(connection, collection, chunk_ids, access)

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Return which of these chunks exist and are visible."""
        async with self._pool.connection() as connection:
            return await chunk_reader.visible_chunks(connection, collection, chunk_ids, access)

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these chunks exist, hidden ones included."""
        async with self._pool.connection() as connection:
            return await chunk_reader.known_chunks(connection, collection, chunk_ids)
