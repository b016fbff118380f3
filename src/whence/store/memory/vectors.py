"""Vectors in memory that are made after their documents were stored, and the second set of vectors."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput
from whence.store.memory.change_log import change_entry
from whence.store.memory.documents import MemoryDocuments
from whence.store.memory.search import (
    MemoryCollection,
    SecondSet,
    StoredChunk,
    inner_products,
)
from whence.store.protocols import (
    OtherVectors,
    PassageVector,
    PendingPassage,
    SampledText,
    VectorProgress,
    VectorShare,
)
from whence.store.validation import check_model, check_passage_vectors, missing_collection
from whence.store.vector_statistics import sample_key


class MemoryVectors(MemoryDocuments):
    """Implements the part of `ChunkStore` that makes vectors later."""

    async def vector_progress(self, collection: str) -> VectorProgress | None:
        """Return how many passages have vectors; see `ChunkStore`."""
        found = self._collections.get(collection)
        if found is None:
            return None
        waiting = [one.text.chunk_id for one in found.without_vector()]
        refused = found.refused.keys() & {(found.vector_set, one) for one in waiting}
        other = None
        if found.other is not None:
            missing = len(_waiting(found, other=True))
            other = OtherVectors(
                model=found.other.model, pending=missing, former=found.other.former
            )
        return VectorProgress(
            model=found.info.model,
            passages=len(found.chunks),
            pending=len(waiting) - len(refused),
            refused=len(refused),
            other=other,
        )

    async def vector_share(self, collection: str, access: Access) -> VectorShare:
        """Return how many of the visible passages have vectors; see `ChunkStore`."""
        visible = self._find(collection).visible(access)
        pending = sum(not one.has_vector for one in visible)
        return VectorShare(pending=pending, passages=len(visible) if pending else 0)

    async def pending_collections(self) -> list[str]:
        """Return the collections with passages that wait for vectors; see `ChunkStore`."""
        return sorted(name for name, one in self._collections.items() if _waiting(one, other=False))

    async def pending_documents(
        self, collection: str, document_ids: Sequence[str] | None = None
    ) -> dict[str, int]:
        """Return how many passages of documents have no vector; see `ChunkStore`."""
        stored = self._documents(collection)
        ids = stored.keys() if document_ids is None else stored.keys() & set(document_ids)
        counts = {one: sum(not chunk.has_vector for chunk in stored[one].chunks) for one in ids}
        return {one: count for one, count in counts.items() if count}

    @contextlib.asynccontextmanager
    async def claim_passages(
        self, collection: str, limit: int, *, other: bool = False
    ) -> AsyncIterator[list[PendingPassage]]:
        """Claim passages without vector for the time of a block; see `ChunkStore`."""
        found = self._find(collection)
        if other and found.other is None:
            raise missing_collection(collection)
        number = found.number(other=other)
        free = [
            one for one in _waiting(found, other=other) if one.text.chunk_id not in found.claimed
        ]
        names = {one.text.chunk_id for one in free[:limit]}
        found.claimed |= names
        try:
            yield [
                PendingPassage(
                    key=(number, one),
                    chunk_id=one.text.chunk_id,
                    document_id=one.text.document_id,
                    text=one.embedded_text,
                    token_codes=one.text.chunk_id in found.codes_wanted,
                )
                for one in free[:limit]
            ]
        finally:
            found.claimed -= names

    async def known_vectors(
        self, collection: str, passages: Sequence[PendingPassage]
    ) -> list[PassageVector]:
        """Return the vectors of those claimed passages whose text has one; see `ChunkStore`."""
        found = self._find(collection)
        known: dict[tuple[int, str], tuple[NDArray[np.float32], bytes]] = {}
        for one in found.chunks.values():
            for number, vector in found.vectors_of(one).items():
                known.setdefault((number, one.embedded_text), (vector, one.text.token_codes))
        return [
            PassageVector(passage=one, vector=vector, token_codes=codes)
            for one in passages
            if (one.key[0], one.text) in known
            for vector, codes in [known[one.key[0], one.text]]
        ]

    async def store_vectors(self, collection: str, vectors: Sequence[PassageVector]) -> int:
        """Store vectors of claimed passages; see `ChunkStore`."""
        found = self._find(collection)
        stored = 0
        for one in vectors:
            number, chunk = one.passage.key
            model = found.model_of(number)
            if model is None:
                continue
            check_passage_vectors(model, [one])
            stored += found.add_vector(number, chunk, np.array(one.vector), one.token_codes)
        return stored

    async def refuse_passages(
        self, collection: str, reasons: Iterable[tuple[PendingPassage, str]]
    ) -> None:
        """Note texts that the encoder does not take; see `ChunkStore`."""
        found = self._find(collection)
        for passage, reason in reasons:
            found.refused[passage.key[0], passage.chunk_id] = reason

    async def begin_vectors(self, collection: str, model: EmbeddingModel) -> None:
        """Begin or continue a second set of vectors; see `ChunkStore`."""
        check_model(model)
        found = self._find(collection)
        if found.other is not None and found.other.model == model:
            found.other.former = False
        else:
            last = found.vector_set if found.other is None else found.other.number
            found.other = SecondSet(max(found.vector_set, last) + 1, model)

    async def switch_vectors(self, collection: str) -> None:
        """Have searches use the second set of vectors; see `ChunkStore`."""
        found = self._find(collection)
        if found.other is None:
            raise BadInput(
                f"collection {collection!r} has no second set of vectors",
                hint="make one: whence reembed --embedder NAME",
            )
        self._log(found, [change_entry("settings", "", DocumentTags())])
        found.switch()

    async def sample_passages(self, collection: str, limit: int) -> list[SampledText]:
        """Return passages that represent a collection; see `ChunkStore`."""
        documents = self._documents(collection).values()
        ordered = sorted(
            (sample_key(f"{one.draft.document_id}:{index}"), chunk.text.chunk_id, number, index)
            for number, one in enumerate(documents)
            for index, chunk in enumerate(one.chunks)
        )
        stored = [*documents]
        return [
            SampledText(
                chunk_id=chunk_id,
                heading=stored[number].draft.chunks[index].heading,
                text=stored[number].draft.chunks[index].content,
            )
            for _, chunk_id, number, index in ordered[:limit]
        ]

    async def nearest_passages(
        self, collection: str, vector: NDArray[np.float32], limit: int, *, other: bool = False
    ) -> list[str]:
        """Return the nearest passages in one of the sets, hidden ones included; see `ChunkStore`."""
        found = self._find(collection)
        if other and found.other is None:
            raise missing_collection(collection)
        number = found.number(other=other)
        vectors = {
            key: sets[number]
            for key, one in found.chunks.items()
            if number in (sets := found.vectors_of(one))
        }
        products = inner_products(vector, list(vectors.values()))
        ranked = sorted((-product, key) for product, key in zip(products, vectors, strict=True))
        return [key for _, key in ranked[:limit]]


def _waiting(found: MemoryCollection, *, other: bool) -> list[StoredChunk]:
    number = found.number(other=other)
    return [
        one
        for one in found.chunks.values()
        if number not in found.vectors_of(one) and (number, one.text.chunk_id) not in found.refused
    ]
