"""Collections and documents in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from whence.schema.access import DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import ModelMismatch
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.ingest import DocumentDraft
from whence.store.field_boosts import FieldBoosts
from whence.store.memory.search import MemoryCollection, find
from whence.store.protocols import CollectionInfo, DocumentParts, DocumentState, EmbeddedDocument
from whence.store.validation import (
    check_documents,
    check_model,
    check_name,
    check_tags,
    describe_model,
    json_text,
)


class MemoryDocuments:
    """Writes and lists the documents of collections.

    Args:
        collections: By name, shared with the other parts of the store.
    """

    def __init__(self, collections: dict[str, MemoryCollection]) -> None:
        self._collections = collections
        self._effects: dict[tuple[str, str], dict[str, EffectKind]] = {}

    async def collection(self, name: str) -> CollectionInfo | None:
        """Return a collection with its counts, or None."""
        found = self._collections.get(name)
        return None if found is None else found.info()

    async def collection_model(self, name: str) -> EmbeddingModel | None:
        """Return the model of a collection, or None."""
        found = self._collections.get(name)
        return None if found is None else found.model

    async def collections(self) -> list[CollectionInfo]:
        """Return all collections by name."""
        return [self._collections[name].info() for name in sorted(self._collections)]

    async def ensure_collection(self, name: str, model: EmbeddingModel) -> CollectionInfo:
        """Return a collection, created for this model if it does not exist; see `ChunkStore`."""
        check_name(name)
        check_model(model)
        found = self._collections.setdefault(name, MemoryCollection(name, model))
        if found.model != model:
            raise ModelMismatch(
                f"collection {name!r} was made with {describe_model(found.model)},"
                f" not with {describe_model(model)}"
            )
        return found.info()

    async def document_states(
        self, collection: str, document_ids: Sequence[str]
    ) -> dict[str, DocumentState]:
        """Return the state of each of these documents that exists."""
        found = self._collections.get(collection)
        stored = {} if found is None else found.documents
        return {
            one: DocumentState(
                document_id=one,
                digest=stored[one].draft.digest,
                tags=stored[one].draft.tags,
                chunks=len(stored[one].draft.chunks),
                source_digest=stored[one].draft.source_digest,
            )
            for one in document_ids
            if one in stored
        }

    async def document_ids(self, collection: str, *, prefix: str = "") -> list[str]:
        """Return the sorted ids that begin with `prefix`, hidden documents included."""
        found = self._collections.get(collection)
        stored = () if found is None else found.documents
        return sorted(one for one in stored if one.startswith(prefix))

    async def source_digests(self, collection: str, document_ids: Sequence[str]) -> dict[str, str]:
        """Return the known source digests of documents."""
        found = self._collections.get(collection)
        stored = {} if found is None else found.documents
        digests = {one: stored[one].draft.source_digest for one in document_ids if one in stored}
        return {one: digest for one, digest in digests.items() if digest}

    async def note_sources(self, collection: str, digests: Mapping[str, str]) -> None:
        """Set the source digests of stored documents; unknown ids are ignored."""
        found = self._collections.get(collection)
        stored = {} if found is None else found.documents
        for one in stored.keys() & digests.keys():
            draft = msgspec.structs.replace(stored[one].draft, source_digest=digests[one])
            stored[one] = msgspec.structs.replace(stored[one], draft=draft)

    async def effects_of(self, collection: str, message_id: str) -> dict[str, EffectKind]:
        """Return what a message did to documents, by document id."""
        return dict(self._effects.get((collection, message_id), {}))

    def _record(self, collection: str, effects: Effects | None) -> None:
        if effects is not None:
            recorded = self._effects.setdefault((collection, effects.message_id), {})
            for name, kind in effects.outcomes.items():
                recorded.setdefault(name, kind)

    async def replace_documents(
        self,
        collection: str,
        documents: Sequence[EmbeddedDocument],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Store documents; each replaces a stored one of the same id; see `ChunkStore`."""
        found = find(self._collections, collection)
        check_documents(found.info(), documents)
        for document in documents:
            found.documents[document.draft.document_id] = EmbeddedDocument(
                draft=_copied(document.draft), vectors=np.array(document.vectors, dtype=np.float32)
            )
            found.count_terms(document.draft)
        self._record(collection, effects)

    async def retag_documents(
        self, collection: str, tags: Mapping[str, DocumentTags], *, effects: Effects | None = None
    ) -> None:
        """Change the access tags of documents; see `ChunkStore`."""
        for one, tag in tags.items():
            check_tags(tag, f"document {one[:100]!r}")
        stored = find(self._collections, collection).documents
        for one in stored.keys() & tags.keys():
            if stored[one].draft.tags == tags[one]:
                continue
            draft = msgspec.structs.replace(stored[one].draft, tags=tags[one], source_digest="")
            stored[one] = msgspec.structs.replace(stored[one], draft=draft)
        self._record(collection, effects)

    async def boost_fields(self, collection: str, boosts: FieldBoosts) -> None:
        """Set the weights of fields; see `SupportsFieldBoosts`."""
        found = find(self._collections, collection)
        found.boosts = boosts
        for document in found.documents.values():
            found.count_terms(document.draft)

    async def remove_documents(self, collection: str, document_ids: Sequence[str]) -> int:
        """Remove documents with their chunks; return how many there were."""
        found = self._collections.get(collection)
        gone = set() if found is None else set(document_ids) & found.documents.keys()
        for one in gone:
            self._collections[collection].documents.pop(one)
            self._collections[collection].terms.pop(one)
        return len(gone)

    async def erase_document(
        self, collection: str, document_id: str
    ) -> tuple[DocumentParts, DocumentParts]:
        """Remove a document; return its stored parts before and after."""
        before = self._parts(collection, document_id)
        await self.remove_documents(collection, [document_id])
        return before, self._parts(collection, document_id)

    def _parts(self, collection: str, document_id: str) -> DocumentParts:
        """Count what is stored of a document; links are computed on demand."""
        found = self._collections.get(collection)
        document = None if found is None else found.documents.get(document_id)
        if found is None or document is None:
            return DocumentParts()
        words = found.terms[document_id].of_chunks
        return DocumentParts(
            documents=1,
            chunks=len(document.draft.chunks),
            vectors=len(document.vectors),
            postings=sum(len(one.counts) for one in words),
        )


def _copied(draft: DocumentDraft) -> DocumentDraft:
    """Return a draft that shares no mutable value with the caller's."""
    return msgspec.structs.replace(draft, metadata=msgspec.json.decode(json_text(draft.metadata)))
