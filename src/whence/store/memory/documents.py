"""Collections and documents in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.schema.access import DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.ingest import DocumentDraft, text_to_embed
from whence.store.change_log import Change
from whence.store.field_boosts import FieldBoosts
from whence.store.memory.change_log import change_entry, stored_entry
from whence.store.memory.search import MemoryCollection
from whence.store.memory.sources import MemorySources
from whence.store.protocols import (
    CollectionInfo,
    DocumentParts,
    DocumentState,
    EmbeddedDocument,
    Expunged,
)
from whence.store.validation import (
    check_documents,
    check_model,
    check_name,
    check_tags,
    json_text,
    other_model,
)


class MemoryDocuments(MemorySources):
    """Writes and lists the documents of collections."""

    async def collection(self, name: str) -> CollectionInfo | None:
        """Return a collection with its counts, or None."""
        found = self._collections.get(name)
        return None if found is None else found.counted()

    async def collection_model(self, name: str) -> EmbeddingModel | None:
        """Return the model of a collection, or None."""
        found = self._collections.get(name)
        return None if found is None else found.info.model

    async def collections(self) -> list[CollectionInfo]:
        """Return all collections by name, without those of which only the log of erasures is left."""
        found = [self._collections[name] for name in sorted(self._collections)]
        return [
            one.counted()
            for one in found
            if one.documents or all(entry.kind != "erased" for entry in one.log.entries)
        ]

    async def ensure_collection(self, name: str, model: EmbeddingModel) -> CollectionInfo:
        """Return a collection, created for this model if it does not exist; see `ChunkStore`."""
        check_name(name)
        check_model(model)
        found = self._collections.setdefault(name, MemoryCollection(name, model, self._clock()))
        if found.info.model != model:
            raise other_model(found.info, model)
        return found.counted()

    async def document_states(
        self, collection: str, document_ids: Sequence[str]
    ) -> dict[str, DocumentState]:
        """Return the state of each of these documents that exists."""
        stored = self._documents(collection)
        drafts = [stored[one].draft for one in document_ids if one in stored]
        return {
            draft.document_id: DocumentState(
                document_id=draft.document_id,
                digest=draft.digest,
                tags=draft.tags,
                chunks=len(draft.chunks),
                source_digest=draft.source_digest,
            )
            for draft in drafts
        }

    async def document_ids(self, collection: str, *, prefix: str = "") -> list[str]:
        """Return the sorted ids that begin with `prefix`, hidden documents included."""
        return sorted(one for one in self._documents(collection) if one.startswith(prefix))

    async def source_digests(self, collection: str, document_ids: Sequence[str]) -> dict[str, str]:
        """Return the known source digests of documents."""
        stored = self._documents(collection)
        digests = {one: stored[one].draft.source_digest for one in document_ids if one in stored}
        return {one: digest for one, digest in digests.items() if digest}

    async def note_sources(self, collection: str, drafts: Sequence[DocumentDraft]) -> None:
        """Note what is stored beside the content of documents; see `ChunkStore`."""
        stored = self._documents(collection)
        for one in drafts:
            if one.document_id in stored:
                document = stored[one.document_id]
                document.draft = msgspec.structs.replace(
                    document.draft,
                    source_digest=one.source_digest,
                    places=one.places,
                    root=one.root,
                    date=one.date,
                    encoding=one.encoding,
                    left_out=one.left_out,
                )

    async def effects_of(self, collection: str, message_id: str) -> dict[str, EffectKind]:
        """Return what a message did to documents, by document id."""
        found = self._collections.get(collection)
        return {} if found is None else dict(found.effects.get(message_id, {}))

    async def replace_documents(
        self,
        collection: str,
        documents: Sequence[EmbeddedDocument],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Store documents; each replaces a stored one of the same id; see `ChunkStore`."""
        found = self._find(collection)
        check_documents(found.info, documents)
        stored = self._documents(collection)
        new = [one.draft for one in documents]
        serial = found.log.version + 1
        known = {one: document.draft for one, document in stored.items()}
        entries = (stored_entry(known.get(one.document_id), one, serial) for one in new)
        self._log(found, filter(None, entries))
        for document in documents:
            # Neither metadata nor vectors are shared with the caller.
            metadata = msgspec.json.decode(json_text(document.draft.metadata))
            draft = msgspec.structs.replace(document.draft, metadata=metadata)
            vectors, codes = _vectors_of(found, document)
            found.put(draft, vectors, codes, self._clock().isoformat())
            if document.token_codes_wanted:
                found.codes_wanted |= {
                    one.text.chunk_id
                    for one in found.documents[draft.document_id].chunks
                    if not one.has_vector
                }
        _record(found, effects)

    async def retag_documents(
        self, collection: str, tags: Mapping[str, DocumentTags], *, effects: Effects | None = None
    ) -> None:
        """Change the access tags of documents; see `ChunkStore`."""
        for one, tag in tags.items():
            check_tags(tag, f"document {one[:100]!r}")
        found = self._find(collection)
        drafts = [found.documents[one].draft for one in found.documents.keys() & tags.keys()]
        changed = [one for one in drafts if one.tags != tags[one.document_id]]
        contents = {one.document_id: one.content for one in found.log.entries}
        self._log(
            found,
            (
                change_entry("tagged", one, tags[one], content=contents[one])
                for one in (draft.document_id for draft in changed)
            ),
        )
        for draft in changed:
            one = draft.document_id
            found.documents[one].draft = msgspec.structs.replace(
                draft, tags=tags[one], source_digest=""
            )
        _record(found, effects)

    async def boost_fields(self, collection: str, boosts: FieldBoosts) -> None:
        """Set the weights of fields; see `Store`."""
        found = self._find(collection)
        if found.boosts != boosts:
            self._log(found, [change_entry("settings", "", DocumentTags())])
        found.boosts = boosts
        for document in list(found.documents.values()):
            codes = [chunk.text.token_codes for chunk in document.chunks]
            second = dict(found.other.vectors) if found.other is not None else {}
            wanted, refused = set(found.codes_wanted), dict(found.refused)
            vectors = [chunk.vector for chunk in document.chunks]
            found.put(document.draft, vectors, codes, document.stored_at)
            found.codes_wanted, found.refused = wanted, refused
            if found.other is not None:
                found.other.vectors = second

    async def remove_documents(self, collection: str, document_ids: Sequence[str]) -> int:
        """Remove documents with their chunks; return how many there were."""
        found = self._collections.get(collection)
        if found is None:
            return 0
        drafts = [found.documents[one].draft for one in found.documents.keys() & {*document_ids}]
        removed = (change_entry("removed", one.document_id, one.tags) for one in drafts)
        self._log(found, removed)
        self._forget_documents(collection, document_ids)
        return sum(map(found.remove, document_ids))

    async def erase_document(
        self, collection: str, document_id: str
    ) -> tuple[DocumentParts, DocumentParts]:
        """Remove a document; return its stored parts before and after."""
        before = await self.document_parts(collection, document_id)
        found = self._collections.get(collection)
        if found is not None:
            found.remove(document_id)
            self._forget_documents(collection, [document_id])
            found.log.erase(self._clock(), document_id)
        return before, DocumentParts()

    async def stored_texts(self, collection: str, document_id: str) -> list[str]:
        """Return the texts, titles and headings of a document and its former versions."""
        found = self._collections.get(collection)
        if found is None:
            return []
        drafts = [one.document.draft for one in found.log.former]
        drafts += [one.draft for one in found.documents.values()]
        own = [one for one in drafts if one.document_id == document_id]
        parts = [text for one in own for c in one.chunks for text in (c.content, c.heading)]
        return sorted({*parts, *(one.title for one in own)})

    async def known_words(self, collection: str, words: Sequence[str]) -> frozenset[str]:
        """Return which of these words a chunk has."""
        documents = self._documents(collection).values()
        chunks = [chunk for document in documents for chunk in document.chunks]
        return frozenset(words) & {word for chunk in chunks for word in chunk.terms.words}

    async def document_parts(self, collection: str, document_id: str) -> DocumentParts:
        """Return what is stored of a document. Links are computed on demand."""
        found = self._collections.get(collection)
        entries = [] if found is None else found.log.entries
        former = [] if found is None else found.log.former
        versions = sum(one.document_id == document_id for one in entries)
        versions += sum(one.document.draft.document_id == document_id for one in former)
        document = self._documents(collection).get(document_id)
        if document is None:
            return DocumentParts(versions=versions)
        return DocumentParts(
            documents=1,
            chunks=len(document.chunks),
            vectors=sum(chunk.has_vector for chunk in document.chunks),
            postings=sum(len(chunk.terms.counts) for chunk in document.chunks),
            versions=versions,
        )

    def _log(self, collection: MemoryCollection, entries: Iterable[Change]) -> None:
        """Log what is about to change."""
        log, keep = collection.log, self._keep_versions
        log.add(self._clock(), entries, collection.embedded, keep, collection.vector_set)

    async def expunge(
        self, texts: Sequence[str], *, progress: Callable[[int, int | None], None] | None = None
    ) -> Expunged:
        """Do nothing: there are no files."""
        del texts, progress
        return Expunged(done=True)

    async def is_expunged(self) -> bool:
        """Return True: there are no files."""
        return True


def _vectors_of(
    collection: MemoryCollection, document: EmbeddedDocument
) -> tuple[NDArray[np.float32], Sequence[bytes]]:
    """Return the vectors and codes of a document; those of equal texts when they are made later."""
    if document.vectors is not None:
        return np.array(document.vectors, dtype=np.float32), document.token_codes
    known = {
        one.embedded_text: (one.vector, one.text.token_codes)
        for one in collection.chunks.values()
        if one.has_vector
    }
    empty = np.zeros(collection.info.model.dimension, np.float32)
    found = [known.get(text_to_embed(one), (empty, b"")) for one in document.draft.chunks]
    vectors = np.array([vector for vector, _ in found], dtype=np.float32)
    return vectors.reshape(len(found), len(empty)), [codes for _, codes in found]


def _record(collection: MemoryCollection, effects: Effects | None) -> None:
    """Record what a message did; what it did when it was delivered first stays."""
    if effects is not None:
        recorded = collection.effects.setdefault(effects.message_id, {})
        for document_id, kind in effects.outcomes.items():
            recorded.setdefault(document_id, kind)
