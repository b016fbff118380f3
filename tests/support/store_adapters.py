"""A collection of a store as the vector store and the sparse retriever of a `Retriever`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence.surfaces.python.protocols import FoundChunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.schema.access import Access
    from whence.schema.filters import Filters
    from whence.schema.search import Candidate
    from whence.store.protocols import ChunkStore


class _Stored:
    """One collection of a store.

    Args:
        store: PostgreSQL or memory. A PostgreSQL store belongs to the event loop it was opened in, and so do
            searches in it; `Engine.retriever` has no such limit.
        collection: Name of the collection.
        filters: Conditions on metadata that narrow every search.
    """

    def __init__(self, store: ChunkStore, collection: str, *, filters: Filters = ()) -> None:
        self._store = store
        self._collection = collection
        self._filters = filters

    async def _found(
        self, candidates: Sequence[Candidate], access: Access, score: str
    ) -> list[FoundChunk]:
        """Add the texts; a chunk that was hidden or removed in the meantime is left out."""
        ids = [one.chunk_id for one in candidates]
        texts = {
            one.chunk_id: one
            for one in await self._store.chunk_texts(self._collection, ids, access)
        }
        return [
            FoundChunk(
                id=one.chunk_id,
                content=texts[one.chunk_id].content,
                score=getattr(one, score),
                metadata=texts[one.chunk_id].metadata.copy(),
                document_id=one.document_id,
            )
            for one in candidates
            if one.chunk_id in texts
        ]


class StoredVectors(_Stored):
    """Vectors of a collection; implements `whence.surfaces.python.protocols.VectorStore`."""

    async def search(
        self, vector: NDArray[np.float32], *, limit: int, access: Access
    ) -> list[FoundChunk]:
        """Return the visible chunks with the greatest cosine, ties by chunk id.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: The vector's length is not the collection's dimension.
        """
        candidates = await self._store.search_dense(
            self._collection, vector, limit=limit, access=access, filters=self._filters
        )
        return await self._found(candidates, access, "dense_score")

    async def scores(
        self, vector: NDArray[np.float32], chunk_ids: Sequence[str], *, access: Access
    ) -> dict[str, float]:
        """Return the cosine of those of these chunks that exist and are visible, by id.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: The vector's length is not the collection's dimension.
        """
        return await self._store.dense_scores(self._collection, vector, chunk_ids, access)


class StoredWords(_Stored):
    """Words of a collection, ranked by BM25; implements `whence.surfaces.python.protocols.SparseRetriever`."""

    async def search(self, query_text: str, *, limit: int, access: Access) -> list[FoundChunk]:
        """Return the visible chunks that share words with the query, by lexical share, ties by chunk id.

        Raises:
            NotFound: There is no such collection.
        """
        candidates = await self._store.search_lexical(
            self._collection, query_text, limit=limit, access=access, filters=self._filters
        )
        return await self._found(candidates, access, "sparse_score")

    async def scores(
        self, query_text: str, chunk_ids: Sequence[str], *, access: Access
    ) -> dict[str, float]:
        """Return the share of those of these chunks that exist and are visible, by id; 0 without a word.

        Raises:
            NotFound: There is no such collection.
        """
        return await self._store.lexical_scores(self._collection, query_text, chunk_ids, access)
