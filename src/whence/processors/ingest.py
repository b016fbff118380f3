"""The ingest service: documents cut into chunks in, what became of each out.

A document is stored whole or not at all, and each can fail alone. What makes the whole request fail (no
space, no store, no embedding service) leaves nothing half done: sending it again continues, because what is
stored already is seen to be unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from whence.processors.base import Context, Processor
from whence.processors.document_validation import document_fault, draft_digest
from whence.processors.services import EMBEDDING, INGEST
from whence.retrieval.services import embed_texts
from whence.schema.access import DocumentTags
from whence.schema.embedding import EmbeddingModel, EmbeddingResponse
from whence.schema.errors import (
    BadInput,
    CodecError,
    ConfigError,
    InternalError,
    ModelMismatch,
)
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.ingest import (
    ChunkDraft,
    DocumentDraft,
    DocumentOutcome,
    IngestRequest,
    IngestResponse,
)
from whence.store.protocols import SupportsDocumentListing, SupportsEffects

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.store.protocols import ChunkStore, DocumentState

__all__ = ("IngestParameters", "IngestProcessor")

#: Errors that one text can cause; all others say that the service is in trouble.
_OF_ONE_TEXT = (BadInput, CodecError, InternalError)
#: Kinds of `BadInput` that no text can cause.
_OF_THE_SERVICE = (ConfigError, ModelMismatch)


class IngestParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the ingest processor."""

    batch_texts: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 128
    """Most texts of one embedding request."""
    batch_bytes: Annotated[int, msgspec.Meta(ge=1024, le=4_000_000)] = 500_000
    """Most bytes of text of one embedding request, UTF-8; a single larger text goes alone."""


class IngestProcessor(Processor):
    """Stores documents with their vectors.

    Only what changed is embedded: a document with the digest that is stored is `unchanged`, one whose tags
    alone differ is tagged anew. Cost: one read of states, one embedding request per batch, one transaction.
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
            BadInput: The collection's name is none.
            Unavailable: The store or the embedding service does not answer; also `DiskFull`.
        """
        model = await self._store.collection_model(message.collection)
        batch = _Batch(message.documents)
        if model is not None:
            ids = [document.document_id for document in batch.valid]
            batch.compare(await self._store.document_states(message.collection, ids))
            if isinstance(self._store, SupportsEffects):
                batch.recall(await self._store.effects_of(message.collection, context.message_id))
        model = await self._embed(message.collection, batch, context, model)
        await self._save(message.collection, batch, context.message_id)
        if batch.retagged:
            effects = batch.effects(context.message_id, batch.retagged)
            await self._store.retag_documents(message.collection, batch.retagged, effects=effects)
        if batch.sources and isinstance(self._store, SupportsDocumentListing):
            # Last: a source digest says that nothing is left to be done for the document.
            await self._store.note_sources(message.collection, batch.sources)
        return IngestResponse(outcomes=batch.outcomes(), model=model)

    async def _embed(
        self,
        collection: str,
        batch: _Batch,
        context: Context,
        model: EmbeddingModel | None,
    ) -> EmbeddingModel | None:
        """Embed what changed; gives the model of the collection, which is made when it is new."""
        embedder = _DocumentEmbedder(context, self.parameters)
        async for used in embedder.run(batch):
            # After the first reply already: vectors of a wrong model are not worth computing.
            if used != model:
                model = (await self._store.ensure_collection(collection, used)).model
        return model

    async def _save(self, collection: str, batch: _Batch, message_id: str) -> None:
        """Store what was embedded in one transaction, or one by one when the store refuses one."""
        from whence.store.protocols import EmbeddedDocument

        ready = [
            EmbeddedDocument(draft=draft, vectors=batch.vectors[draft.document_id])
            for draft in batch.changed
            if draft.document_id in batch.vectors
        ]
        if not ready:
            return
        effects = batch.effects(message_id, [one.draft.document_id for one in ready])
        try:
            await self._store.replace_documents(collection, ready, effects=effects)
        except ModelMismatch:
            raise
        except BadInput:
            for document in ready:
                await self._save_alone(collection, document, batch, message_id)

    async def _save_alone(
        self, collection: str, document: Any, batch: _Batch, message_id: str
    ) -> None:
        effects = batch.effects(message_id, [document.draft.document_id])
        try:
            await self._store.replace_documents(collection, [document], effects=effects)
        except ModelMismatch:
            raise
        except BadInput as error:
            batch.fail(document.draft.document_id, error.message)


class _Batch:
    """The documents of one request, sorted by what must be done with them."""

    def __init__(self, documents: Sequence[DocumentDraft]) -> None:
        self._documents = documents
        self._faults: dict[int, str] = {}
        self._states: dict[str, DocumentState] = {}
        self._failed: dict[str, str] = {}
        self._told: Mapping[str, EffectKind] = {}
        self.valid: list[DocumentDraft] = []
        self.changed: list[DocumentDraft] = []
        self.retagged: dict[str, DocumentTags] = {}
        self.sources: dict[str, str] = {}
        self.vectors: dict[str, NDArray[np.float32]] = {}
        self._check()
        self.changed = list(self.valid)

    def _check(self) -> None:
        seen: set[str] = set()
        for place, draft in enumerate(self._documents):
            fault = document_fault(draft)
            if not fault and draft.document_id in seen:
                fault = "its id occurs twice in one request"
            if fault:
                self._faults[place] = fault
                continue
            seen.add(draft.document_id)
            digest = draft.digest or draft_digest(draft)
            self.valid.append(msgspec.structs.replace(draft, digest=digest))

    def compare(self, states: dict[str, DocumentState]) -> None:
        """Find out what changed against what is stored."""
        self._states = states
        self.changed = []
        for draft in self.valid:
            state = states.get(draft.document_id)
            if state is None or state.digest != draft.digest:
                self.changed.append(draft)
                continue
            if state.tags != draft.tags:
                self.retagged[draft.document_id] = draft.tags
            if draft.source_digest and state.source_digest != draft.source_digest:
                self.sources[draft.document_id] = draft.source_digest

    def recall(self, told: Mapping[str, EffectKind]) -> None:
        """Take note of what this very message did when it was delivered before: it is told again."""
        self._told = told

    def effects(self, message_id: str, document_ids: Iterable[str]) -> Effects:
        """Give what is about to be done to these documents, for the store to keep."""
        return Effects(
            message_id=message_id, outcomes={one: self._effect(one) for one in document_ids}
        )

    def _effect(self, document_id: str) -> EffectKind:
        if document_id in self.retagged:
            return "tagged"
        return "updated" if document_id in self._states else "added"

    def fail(self, document_id: str, reason: str) -> None:
        """Give one document up."""
        self._failed[document_id] = reason
        self.vectors.pop(document_id, None)

    def outcomes(self) -> tuple[DocumentOutcome, ...]:
        """Give one outcome per document, in the order of the request."""
        return tuple(self._outcome(place, draft) for place, draft in enumerate(self._documents))

    def _outcome(self, place: int, draft: DocumentDraft) -> DocumentOutcome:
        document_id = draft.document_id
        reason = self._faults.get(place) or self._failed.get(document_id, "")
        if reason:
            return DocumentOutcome(document_id=document_id, outcome="failed", reason=reason)
        chunks = len(draft.chunks)
        acted = document_id in self.vectors or document_id in self.retagged
        effect = self._effect(document_id) if acted else self._told.get(document_id)
        embedded = 0 if effect in (None, "tagged") else chunks
        outcome: Any = {None: "unchanged", "tagged": "updated"}.get(effect, effect)
        return DocumentOutcome(
            document_id=document_id, outcome=outcome, chunks=chunks, embedded=embedded
        )


class _Piece(msgspec.Struct, frozen=True):
    """One text to embed and whose it is."""

    document_id: str
    text: str


class _DocumentEmbedder:
    """Embeds the changed documents of a batch, several documents in one request."""

    def __init__(self, context: Context, parameters: IngestParameters) -> None:
        self._context = context
        self._parameters = parameters
        self._rows: dict[str, list[NDArray[np.float32]]] = {}

    async def run(self, batch: _Batch) -> AsyncIterator[EmbeddingModel]:
        """Fill the batch's vectors; yields the model after each request that succeeded.

        When a request is refused for what is in it, its documents are embedded one by one, so that the one
        at fault fails alone.
        """
        lost: set[str] = set()
        for pieces in self._requests(batch.changed):
            wanted = [piece for piece in pieces if piece.document_id not in lost]
            try:
                model = await self._request(wanted) if wanted else None
            except _OF_THE_SERVICE:
                raise
            except _OF_ONE_TEXT:
                lost.update(piece.document_id for piece in wanted)
                continue
            if model is not None:
                yield model
        for draft in batch.changed:
            if draft.document_id in lost:
                self._rows.pop(draft.document_id, None)
                model = await self._alone(draft, batch)
                if model is not None:
                    yield model
        self._collect(batch)

    async def _alone(self, draft: DocumentDraft, batch: _Batch) -> EmbeddingModel | None:
        model = None
        try:
            for pieces in self._requests([draft]):
                model = await self._request(pieces)
        except _OF_THE_SERVICE:
            raise
        except _OF_ONE_TEXT as error:
            self._rows.pop(draft.document_id, None)
            batch.fail(draft.document_id, f"embedding failed: {error.message}")
            return None
        return model

    async def _request(self, pieces: Sequence[_Piece]) -> EmbeddingModel:
        reply = await embed_texts(self._context, [piece.text for piece in pieces], "document")
        for piece, row in zip(pieces, _matrix(reply), strict=True):
            self._rows.setdefault(piece.document_id, []).append(row)
        return reply.model

    def _requests(self, drafts: Sequence[DocumentDraft]) -> Iterator[list[_Piece]]:
        """Cut the texts of documents into requests bounded by number and bytes."""
        pieces: list[_Piece] = []
        size = 0
        for draft in drafts:
            for chunk in draft.chunks:
                piece = _Piece(draft.document_id, _text(chunk))
                length = len(piece.text.encode())
                full = len(pieces) >= self._parameters.batch_texts
                if pieces and (full or size + length > self._parameters.batch_bytes):
                    yield pieces
                    pieces, size = [], 0
                pieces.append(piece)
                size += length
        if pieces:
            yield pieces

    def _collect(self, batch: _Batch) -> None:
        import numpy as np

        for document_id, rows in self._rows.items():
            batch.vectors[document_id] = np.stack(rows)


def _text(chunk: ChunkDraft) -> str:
    return chunk.embed_text or chunk.content


def _matrix(reply: EmbeddingResponse) -> NDArray[np.float32]:
    """Read vectors from their wire form: float32, shape (texts, dimension)."""
    import numpy as np

    flat = np.frombuffer(reply.vectors, dtype="<f4").astype(np.float32, copy=False)
    return flat.reshape(-1, reply.model.dimension)
