"""The ingest service: documents cut into chunks in, an outcome for each out.

A document is stored whole or not at all, and each can fail alone. When the whole request fails (no space, no
store, no embedding service), sending it again continues: documents that are stored already are unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.processors.base import EMBEDDING, INGEST, Context, Processor
from whence.processors.document_batch import DocumentBatch, embed_documents
from whence.processors.pending_vectors import PendingVectors, model_of_service
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch
from whence.schema.ingest import IngestRequest, IngestResponse, text_to_embed

if TYPE_CHECKING:
    from whence.store.protocols import ChunkStore, EmbeddedDocument


class IngestParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the ingest processor."""

    batch_texts: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 128
    """Most texts of one embedding request."""
    batch_bytes: Annotated[int, msgspec.Meta(ge=1024, le=4_000_000)] = 500_000
    """Most bytes of text of one embedding request, UTF-8; a single larger text goes alone."""


class IngestProcessor(Processor):
    """Stores documents with their vectors, or at once with vectors that further requests make.

    Only what changed is embedded: a document with the stored digest is `unchanged`, or tagged again when its
    tags differ. Cost: one read of states, one embedding request per batch, one transaction.
    """

    type_name = "ingest"
    summary = "documents to stored chunks and vectors"
    serves = INGEST
    calls = {"embedding": EMBEDDING}
    Parameters = IngestParameters
    needs = ("store",)
    once = True

    parameters: IngestParameters

    def __init__(self, parameters: IngestParameters | None = None, *, store: ChunkStore) -> None:
        super().__init__(parameters)
        self._store = store

    async def handle(self, message: IngestRequest, context: Context) -> IngestResponse:
        """Store the documents of one request.

        Raises:
            ModelMismatch: The collection was made with another embedding model.
            BadInput: The collection's name is invalid.
            Unavailable: The store or the embedding service does not answer; also `DiskFull`.
        """
        store, collection, message_id = self._store, message.collection, context.message_id
        model = await store.collection_model(collection)
        batch = DocumentBatch(message.documents, vectors_later=message.vectors_later)
        if model is not None:
            ids = [document.document_id for document in batch.valid]
            batch.compare(await store.document_states(collection, ids))
            batch.earlier = await store.effects_of(collection, message_id)
        if message.vectors_later:
            model = await self._store_words(message, batch, context, model)
        else:
            model = await self._store_changed(message, batch, context, model)
        if batch.retagged:
            effects = batch.effects(message_id, batch.retagged)
            await store.retag_documents(collection, batch.retagged, effects=effects)
        if batch.sources:
            # Last: a source digest says that everything is done for the document.
            await store.note_sources(collection, batch.sources)
        response = IngestResponse(outcomes=batch.outcomes(), model=model)
        if not message.embed:
            return response
        most = min(message.embed, self.parameters.batch_texts)
        pending = PendingVectors(store, context, collection, self.parameters.batch_bytes)
        made = await pending.embed(most)
        return msgspec.structs.replace(made, outcomes=response.outcomes)

    async def _store_words(
        self,
        message: IngestRequest,
        batch: DocumentBatch,
        context: Context,
        model: EmbeddingModel | None,
    ) -> EmbeddingModel | None:
        """Store what changed without vectors; return the model of the collection, created when it is new."""
        from whence.store.protocols import EmbeddedDocument

        if not batch.changed:
            return model
        if model is None:
            first = text_to_embed(batch.changed[0].chunks[0])
            model = message.model or await model_of_service(context, first)
            await self._store.ensure_collection(message.collection, model)
        documents = [
            EmbeddedDocument(draft=one, vectors=None, token_codes_wanted=message.token_vectors)
            for one in batch.changed
        ]
        batch.stored |= {one.document_id for one in batch.changed}
        await self._write(message.collection, batch, context.message_id, documents)
        return model

    async def _store_changed(
        self,
        message: IngestRequest,
        batch: DocumentBatch,
        context: Context,
        model: EmbeddingModel | None,
    ) -> EmbeddingModel | None:
        """Embed what changed, and store each document as soon as it is embedded.

        Return the model of the collection, which is created when it is new.
        """
        own = self.parameters
        models = embed_documents(
            context,
            batch,
            max_texts=own.batch_texts,
            max_bytes=own.batch_bytes,
            token_codes=message.token_vectors,
            model=model,
        )
        async for used in models:
            # After the first reply already: more vectors of a wrong model would be useless.
            if used != model:
                model = (await self._store.ensure_collection(message.collection, used)).model
            await self._save(message.collection, batch, context.message_id)
        return model

    async def _save(self, collection: str, batch: DocumentBatch, message_id: str) -> None:
        """Store the documents that have their vectors by now."""
        from whence.store.protocols import EmbeddedDocument

        fresh = batch.vectors.keys() - batch.saved
        ready = [
            EmbeddedDocument(
                draft=draft,
                vectors=batch.vectors[draft.document_id],
                token_codes=batch.token_codes.get(draft.document_id, ()),
            )
            for draft in batch.changed
            if draft.document_id in fresh
        ]
        batch.saved |= fresh
        if ready:
            await self._write(collection, batch, message_id, ready)

    async def _write(
        self,
        collection: str,
        batch: DocumentBatch,
        message_id: str,
        ready: list[EmbeddedDocument],
    ) -> None:
        """Store documents in one transaction, or one by one when the store refuses one."""

        async def store(documents: list[EmbeddedDocument]) -> None:
            effects = batch.effects(message_id, [one.draft.document_id for one in documents])
            await self._store.replace_documents(collection, documents, effects=effects)

        try:
            await store(ready)
        except ModelMismatch:
            raise
        except BadInput:
            for document in ready:
                try:
                    await store([document])
                except ModelMismatch:
                    raise
                except BadInput as error:
                    batch.fail(document.draft.document_id, error.message)
