"""Searches, scores and texts in PostgreSQL: the reader's rights are applied before ranking and limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.schema.search import Candidate, Match
from whence.schema.texts import ChunkText
from whence.store.postgres import chunk_reader
from whence.store.postgres.collection_version import ReaderView
from whence.store.postgres.dense import search as dense
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical import search as lexical
from whence.store.postgres.maintenance import Maintenance
from whence.store.postgres.pool import ConnectionPool
from whence.store.postgres.view_reader import ViewReader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class PostgresSearch:
    """Implements the reads of `ChunkStore` and `TraceStore` that take a reader's access.

    Args:
        pool: Lends connections.
        maintenance: Builds vector indexes that an earlier process left unfinished.
        views: Runs the reads that need the version of a collection.
    """

    def __init__(self, pool: ConnectionPool, maintenance: Maintenance, views: ViewReader) -> None:
        self._pool = pool
        self._maintenance = maintenance
        self._views = views

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

        async def read(connection: Connection, view: ReaderView) -> list[Candidate] | None:
            return await dense.search_dense(
                connection,
                view,
                vector,
                limit=limit,
                threshold=threshold,
                filters=filters,
                exact=exact,
            )

        await self._maintenance.check_vector_index(collection)
        return await self._views.read(collection, access, read)

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

        async def read(connection: Connection, view: ReaderView) -> list[Candidate] | None:
            return await lexical.search_lexical(
                connection, view, query_text, limit=limit, filters=filters, match=match
            )

        return await self._views.read(collection, access, read)

    async def dense_scores(
        self, collection: str, vector: NDArray[np.float32], chunk_ids: Sequence[str], access: Access
    ) -> dict[str, float]:
        """Return the exact cosine of visible chunks; see `ChunkStore`."""

        async def read(connection: Connection, view: ReaderView) -> dict[str, float]:
            return await dense.dense_scores(connection, view, vector, chunk_ids)

        return await self._views.read(collection, access, read)

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

        async def read(connection: Connection, view: ReaderView) -> dict[str, float] | None:
            return await lexical.lexical_scores(connection, view, query_text, chunk_ids, match)

        return await self._views.read(collection, access, read)

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Return the texts of visible chunks, in the order asked; see `ChunkStore`."""
        async with self._pool.search_connection() as connection:
            return await chunk_reader.chunk_texts(connection, collection, chunk_ids, access)

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Return which of these chunks exist and are visible."""
        async with self._pool.search_connection() as connection:
            return await chunk_reader.visible_chunks(connection, collection, chunk_ids, access)

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these chunks exist, hidden ones included."""
        async with self._pool.search_connection() as connection:
            return await chunk_reader.known_chunks(connection, collection, chunk_ids)
