"""Vectors of passages that wait for them: claimed from the store, embedded, and stored.

It is resumable: what a claim leaves undone, because its process was killed, waits again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from whence.processors.document_batch import SERVICE_ERRORS, TEXT_ERRORS
from whence.retrieval.services import Caller, embed_texts
from whence.schema.errors import ModelMismatch, NotFound
from whence.schema.ingest import DocumentOutcome, IngestResponse
from whence.store.protocols import PassageVector, PendingPassage
from whence.store.validation import other_vectors

if TYPE_CHECKING:
    from whence.schema.embedding import EmbeddingModel
    from whence.store.protocols import ChunkStore, OtherVectors, VectorProgress


class PendingVectors:
    """Embeds passages of one collection that wait for vectors.

    Args:
        store: Has the collection.
        caller: Of the embedding service.
        collection: Its name.
        max_bytes: Most bytes of text of one embedding request.
        other: Whether vectors of the second set are made, see `ChunkStore.begin_vectors`.
    """

    def __init__(
        self,
        store: ChunkStore,
        caller: Caller,
        collection: str,
        max_bytes: int,
        *,
        other: bool = False,
    ) -> None:
        self._other = other
        self._store = store
        self._caller = caller
        self._collection = collection
        self._max_bytes = max_bytes
        self._embedded = self._stored = 0
        self._refused: dict[str, DocumentOutcome] = {}

    async def embed(self, most: int) -> IngestResponse:
        """Embed at most `most` passages, those of equal texts once; return what was done.

        Raises:
            Unavailable: The store or the embedding service does not answer.
        """
        before, reason = await self._progress(), ""
        if before is None or not before.pending:
            return IngestResponse(outcomes=())
        async with self._store.claim_passages(
            self._collection, most, other=self._other
        ) as passages:
            try:
                await self._embed_claimed(passages, before.model)
            except ModelMismatch as error:
                reason = error.message
        after = await self._progress()
        return IngestResponse(
            outcomes=(),
            model=before.model,
            embedded=self._embedded,
            stored=self._stored,
            waiting=0 if after is None else after.pending,
            reason=reason,
            refused=tuple(self._refused.values()),
        )

    async def _progress(self) -> VectorProgress | OtherVectors | None:
        found = await self._store.vector_progress(self._collection)
        return found.other if found is not None and self._other else found

    async def _embed_claimed(
        self, passages: Sequence[PendingPassage], model: EmbeddingModel
    ) -> None:
        known = await self._store.known_vectors(self._collection, passages)
        await self._keep(known)
        done = {one.passage.chunk_id for one in known}
        left = [one for one in passages if one.chunk_id not in done]
        for some in _requests(left, self._max_bytes):
            await self._embed_texts(some, model)

    async def _embed_texts(self, passages: Sequence[PendingPassage], model: EmbeddingModel) -> None:
        """Embed and store some passages; texts that the model refuses are found one by one."""
        try:
            await self._keep(await self._vectors(passages, model))
        except (*SERVICE_ERRORS, NotFound):
            raise
        except TEXT_ERRORS as error:
            if len({one.text for one in passages}) > 1:
                for one in passages:
                    await self._embed_texts([one], model)
                return
            reason = f"embedding failed: {error.message}"
            await self._store.refuse_passages(self._collection, [(one, reason) for one in passages])
            for one in passages:
                name = one.document_id
                outcome = DocumentOutcome(document_id=name, outcome="failed", reason=reason)
                self._refused[name] = outcome

    async def _vectors(
        self, passages: Sequence[PendingPassage], model: EmbeddingModel
    ) -> list[PassageVector]:
        import numpy as np

        texts = list(dict.fromkeys(one.text for one in passages))
        coded = any(one.token_codes for one in passages)
        reply = await embed_texts(
            self._caller,
            texts,
            "document",
            token_codes=coded,
            collection=self._collection,
            model=model,
        )
        if reply.model != model:
            raise other_vectors(self._collection, model, reply.model)
        rows = np.frombuffer(reply.vectors, dtype="<f4").reshape(-1, model.dimension)
        codes = reply.token_codes or (b"",) * len(texts)
        made = dict(zip(texts, zip(rows, codes, strict=True), strict=True))
        self._embedded += len(texts)
        return [
            PassageVector(
                passage=one,
                vector=vector.astype(np.float32, copy=False),
                token_codes=code if one.token_codes else b"",
            )
            for one in passages
            for vector, code in [made[one.text]]
        ]

    async def _keep(self, vectors: Sequence[PassageVector]) -> None:
        self._stored += await self._store.store_vectors(self._collection, vectors)


def _requests(passages: Sequence[PendingPassage], max_bytes: int) -> Iterator[list[PendingPassage]]:
    """Cut passages into requests bounded by bytes; a single larger text goes alone."""
    some: list[PendingPassage] = []
    size = 0
    for one in passages:
        length = len(one.text.encode())
        if some and size + length > max_bytes:
            yield some
            some, size = [], 0
        some.append(one)
        size += length
    if some:
        yield some


async def model_of_service(caller: Caller, text: str) -> EmbeddingModel:
    """Return the model of the embedding service; a server tells its dimension with a first vector."""
    reply = await embed_texts(caller, [], "document")
    if reply.model.dimension:
        return reply.model
    return (await embed_texts(caller, [text], "document")).model
