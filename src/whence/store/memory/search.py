"""Searches, scores and texts in memory, by definition rather than by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.schema.access import Access
from whence.schema.filters import (
    Filters,
)
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate, Match
from whence.schema.texts import ChunkText
from whence.store.chunk_ids import chunk_key, parse_chunk_key
from whence.store.memory.collection import MemoryCollection, find
from whence.store.validation import (
    candidate,
    check_dense_query,
    check_limit,
    chunk_metadata,
    content_digest,
    cosine,
    lexical_candidate,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MemorySearch:
    """Reads chunks; every call takes time linear in the collection.

    Args:
        collections: By name, shared with the other parts of the store.
    """

    def __init__(self, collections: dict[str, MemoryCollection]) -> None:
        self._collections = collections

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
        """Rank the visible chunks by cosine, always exactly; see `ChunkStore`."""
        found = find(self._collections, collection)
        query = check_dense_query(found.info(), vector, limit, threshold)
        kept = found.filtered(access, filters)
        scored = [
            (-inner, chunk_key(collection, document.draft.document_id, index), document)
            for document in found.visible(access)
            for index, inner in enumerate(_cosines(document.vectors, query))
            if threshold <= 0 or inner >= threshold
        ]
        if kept is not None:
            scored = [one for one in scored if one[1] in kept]
        scored.sort(key=lambda one: one[:2])
        return [
            candidate(key, document.draft.document_id, -distance, rank)
            for rank, (distance, key, document) in enumerate(scored[:limit], 1)
        ]

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
        found = find(self._collections, collection)
        check_limit(limit)
        kept = found.filtered(access, filters)
        scored = [
            (-score, key, document_id)
            for key, document_id, score in found.shares(query_text, access, match)
            if score is not None and (kept is None or key in kept)
        ]
        scored.sort()
        per_share = found.per_share(query_text, access)
        return [
            lexical_candidate(key, document_id, -negative, per_share, rank)
            for rank, (negative, key, document_id) in enumerate(scored[:limit], 1)
        ]

    async def dense_scores(
        self,
        collection: str,
        vector: NDArray[np.float32],
        chunk_ids: Sequence[str],
        access: Access,
    ) -> dict[str, float]:
        """Return the exact cosine of visible chunks; see `ChunkStore`."""
        found = find(self._collections, collection)
        query = check_dense_query(found.info(), vector, 1, 0.0)
        wanted = frozenset(chunk_ids)
        scored = (
            (chunk_key(collection, document.draft.document_id, index), inner)
            for document in found.visible(access)
            for index, inner in enumerate(_cosines(document.vectors, query))
        )
        return {key: cosine(inner) for key, inner in scored if key in wanted}

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
        wanted = frozenset(chunk_ids)
        shares = find(self._collections, collection).shares(query_text, access, match)
        return {key: score or 0.0 for key, _, score in shares if key in wanted}

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Return the texts of visible chunks, in the order asked; see `ChunkStore`."""
        found = ((one, self._visible_chunk(collection, one, access)) for one in chunk_ids)
        return [_text(key, *place) for key, place in found if place is not None]

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Return which of these chunks exist and are visible."""
        return frozenset(
            one for one in chunk_ids if self._visible_chunk(collection, one, access) is not None
        )

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these chunks exist, hidden ones included."""
        return frozenset(one for one in chunk_ids if self._chunk(collection, one) is not None)

    def _visible_chunk(
        self, collection: str, chunk_id: str, access: Access
    ) -> tuple[DocumentDraft, ChunkDraft, int] | None:
        found = self._chunk(collection, chunk_id)
        return found if found is not None and access.allows(found[0].tags) else None

    def _chunk(
        self, collection: str, chunk_id: str
    ) -> tuple[DocumentDraft, ChunkDraft, int] | None:
        key = parse_chunk_key(chunk_id)
        found = self._collections.get(collection)
        if key is None or found is None or key.collection != collection:
            return None
        document = found.documents.get(key.document_id)
        if document is None:
            return None
        chunks = document.draft.chunks
        return (document.draft, chunks[key.index], key.index) if key.index < len(chunks) else None


def _cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> list[float]:
    """Return the cosines of unit vectors, float32; equal vectors get equal values.

    Not by BLAS, whose sums depend on the position of a row in the matrix.
    """
    sums = np.einsum("ij,j->i", vectors.astype(np.float64), query.astype(np.float64))
    cosines: list[float] = sums.astype(np.float32).astype(np.float64).tolist()
    return cosines


def _text(key: str, draft: DocumentDraft, chunk: ChunkDraft, index: int) -> ChunkText:
    return ChunkText(
        chunk_id=key,
        document_id=draft.document_id,
        content=chunk.content,
        metadata=chunk_metadata(draft, chunk, index),
        digest=content_digest(chunk.content),
    )
