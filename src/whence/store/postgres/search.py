"""Searches and scores in PostgreSQL: the reader's rights are applied before ranking and limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from whence.schema.access import Access
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput
from whence.schema.filters import Filters
from whence.schema.search import Candidate, Match
from whence.store.postgres.collection_version import (
    ReaderView,
    StaleVersion,
    cached_view,
    read_view,
)
from whence.store.postgres.dense import search as dense
from whence.store.postgres.dense.pending import read_vector_share
from whence.store.postgres.dense.statistics import read_vector_statistics
from whence.store.postgres.driver import Connection, read_transaction
from whence.store.postgres.hybrid_search import search_both
from whence.store.postgres.lexical import search as lexical
from whence.store.postgres.lexical import vocabulary
from whence.store.postgres.part import PostgresPart
from whence.store.protocols import HybridRankings, VectorShare
from whence.store.validation import is_text
from whence.store.vector_statistics import VectorStatistics
from whence.store.vocabulary import AbsentWords

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


class PostgresSearch(PostgresPart):
    """Implements the searches and scores of `ChunkStore`."""

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
        model: EmbeddingModel | None = None,
    ) -> list[Candidate]:
        """Rank the visible chunks by cosine; see `ChunkStore`."""
        await self.maintenance.check_vector_index(collection)
        return await self._read(
            collection,
            access,
            lambda connection, view: dense.search_dense(
                connection,
                view,
                vector,
                limit=limit,
                threshold=threshold,
                filters=filters,
                exact=exact,
                model=model,
            ),
        )

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
        return await self._read(
            collection,
            access,
            lambda connection, view: lexical.search_lexical(
                connection, view, query_text, limit=limit, filters=filters, match=match
            ),
        )

    async def search_both(
        self,
        collection: str,
        query_text: str,
        vector: NDArray[np.float32],
        *,
        limit: int,
        access: Access,
        filters: Filters = (),
        match: Match = "any",
        model: EmbeddingModel | None = None,
    ) -> HybridRankings:
        """Rank the visible chunks by words and by vectors; see `SupportsHybrid`."""
        await self.maintenance.check_vector_index(collection)
        return await self._read(
            collection,
            access,
            lambda connection, view: search_both(
                connection,
                view,
                query_text,
                vector,
                limit=limit,
                filters=filters,
                match=match,
                model=model,
            ),
        )

    async def vector_statistics(self, collection: str, access: Access) -> VectorStatistics | None:
        """Compare a sample of the visible passages; see `ChunkStore`."""
        (found,) = await self._read(collection, access, read_vector_statistics)
        return found

    async def vector_share(self, collection: str, access: Access) -> VectorShare:
        """Return how many of the visible passages have vectors; see `ChunkStore`."""
        (found,) = await self._read(collection, access, read_vector_share)
        return found

    async def absent_words(
        self, collection: str, words: Sequence[str], access: Access
    ) -> AbsentWords:
        """Return the words that no visible chunk has; see `ChunkStore`."""
        return await self._read(
            collection,
            access,
            lambda connection, view: vocabulary.absent_words(connection, view, words),
        )

    async def similar_words(self, collection: str, word: str, access: Access) -> dict[str, int]:
        """Return words of visible chunks like a misspelt one; see `ChunkStore`."""
        return await self._read(
            collection,
            access,
            lambda connection, view: vocabulary.similar_words(connection, view, word),
        )

    async def dense_scores(
        self,
        collection: str,
        vector: NDArray[np.float32],
        chunk_ids: Sequence[str],
        access: Access,
        *,
        model: EmbeddingModel | None = None,
    ) -> dict[str, float]:
        """Return the exact cosine of visible chunks; see `ChunkStore`."""
        return await self._read(
            collection,
            access,
            lambda connection, view: dense.dense_scores(connection, view, vector, chunk_ids, model),
        )

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
        return await self._read(
            collection,
            access,
            lambda connection, view: lexical.lexical_scores(
                connection, view, query_text, chunk_ids, match
            ),
        )

    async def _read(
        self,
        collection: str,
        access: Access,
        read: Callable[[Connection, ReaderView], Awaitable[T | None]],
    ) -> T:
        """Return what `read` returns; it returns None while the collection is not indexed by this version.

        A cached version saves the statements that read it. It is only a proposal: each statement of a ranking
        checks it, and after a write the read is repeated in a snapshot of the database.
        """
        view = cached_view(collection, access, self.cache) if is_text(collection) else None
        if view is not None:
            try:
                async with self.pool.search_connection() as connection:
                    found = await read(connection, view)
                if found is not None:
                    return found
            except (StaleVersion, BadInput):
                # Input may be bad for the former version only.
                pass
            self.cache.drop(collection)

        async def read_snapshot(connection: Connection) -> T | None:
            async with read_transaction(connection):
                view = await read_view(connection, collection, access, self.cache)
                found = await read(connection, view)
            if view.version.version is not None:
                self.cache.put(collection, view.version)
            return found

        return await self.maintenance.read_indexed(collection, read_snapshot)
