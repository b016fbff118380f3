"""The store in memory: the same rules and the same order as the store on PostgreSQL, for tests and trials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import numpy as np

from whence.schema.access import Access
from whence.schema.codec import decode_as, encode
from whence.schema.document_rag import TraceRecord
from whence.store.change_log import KEEP_VERSIONS, check_version
from whence.store.chunk_ids import split_collections
from whence.store.field_boosts import FieldBoosts
from whence.store.memory.names import MemoryNames
from whence.store.memory.readers import MemoryReaders
from whence.store.memory.search import (
    MemoryCollection,
    MemoryPart,
    MemorySearch,
)
from whence.store.memory.vectors import MemoryVectors
from whence.store.protocols import CollectionInfo, EmbeddedDocument, StoreOverview
from whence.store.renaming import renamed_record, taken
from whence.store.validation import check_name, missing_collection

_now = partial(datetime.now, UTC)


class MemoryStore(MemoryVectors, MemorySearch, MemoryNames, MemoryReaders):
    """Chunks, names, traces and readers in memory; subclass it for a store with other storage.

    Its methods are those of its bases; `whence.store.protocols` specifies them.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = _now,
        keep_versions: timedelta = KEEP_VERSIONS,
    ) -> None:
        MemoryPart.__init__(self, clock, keep_versions)
        MemoryReaders.__init__(self, clock)
        self._former_names: dict[str, str] = {}
        """The name that a collection has now, by a name that it had."""

    def hold_version(
        self,
        info: CollectionInfo,
        version: int,
        documents: Iterable[EmbeddedDocument],
        boosts: FieldBoosts,
    ) -> None:
        """Hold one version of a collection, without its log."""
        held = self._collections[info.name] = MemoryCollection(info.name, info.model, self._clock())
        held.boosts = boosts
        for one in documents:
            vectors = one.vectors
            if vectors is None:
                vectors = np.zeros((len(one.draft.chunks), info.model.dimension), np.float32)
            held.put(one.draft, vectors, one.token_codes)
        held.log.version = version

    def stored_document(self, collection: str, document_id: str) -> EmbeddedDocument:
        """Return a document as it is stored; without vectors when a passage of it waits for one."""
        found = self._find(collection)
        whole = all(chunk.has_vector for chunk in found.documents[document_id].chunks)
        document = found.embedded(document_id)
        return (
            document if whole else msgspec.structs.replace(document, vectors=None, token_codes=())
        )

    async def store_at(
        self, collection: str, access: Access, version: int, moment: datetime
    ) -> MemoryStore:
        """Return a store that has one version of a collection; see `ChunkStore`."""
        found = self._find(collection)
        existing = found.log.existing(access, version)
        documents = [
            found.embedded(one)
            for one in existing.keys() & found.documents.keys()
            if found.log.is_current(one, version)
        ]
        documents += [
            msgspec.structs.replace(
                one.document,
                vectors=one.document.vectors if one.vector_set == found.vector_set else None,
                draft=msgspec.structs.replace(
                    one.document.draft, tags=existing[one.document.draft.document_id]
                ),
            )
            for one in found.log.former
            if one.document.draft.document_id in existing
            and one.valid_from <= version < one.valid_to
        ]
        check_version(
            collection,
            moment,
            since=found.log.since,
            missing=len(existing) - len(documents),
            chunks=sum(len(one.draft.chunks) for one in documents),
        )
        held = MemoryStore(clock=self._clock)
        held.hold_version(found.info, version, documents, found.boosts)
        return held

    async def rename_collection(self, former: str, name: str) -> int:
        """Rename a collection; see `Store`."""
        check_name(name)
        if former not in self._collections and former not in self._roots:
            if name in self._collections and self._former_names.get(former) == name:
                return 0
            raise missing_collection(former)
        held = self._collections.get(name)
        is_log = held is not None and name not in {one.name for one in await self.collections()}
        if self._roots.get(name) or (held is not None and not is_log):
            raise taken(name)
        held_by_name: tuple[dict[str, Any], ...] = (self._collections, self._roots, self._files)
        for each in held_by_name:
            each.pop(name, None)
            if former in each:
                each[name] = each.pop(former)
        if name in self._collections:
            self._collections[name].renamed(name)
        self._former_names.pop(name, None)
        self._former_names[former] = name
        count = 0
        for answer_id, (body, recorded_at) in list(self._traces.items()):
            record = decode_as(body, TraceRecord)
            if former in split_collections(record.collection):
                self._traces[answer_id] = encode(renamed_record(record, former, name)), recorded_at
                count += 1
        return count

    async def record_trace(
        self, record: TraceRecord, *, without: Collection[str] | None = None
    ) -> bool:
        """Store a trace, under the name that its collection has now."""
        for name in split_collections(record.collection):
            current = self._former_names.get(name)
            if current is not None and name not in self._collections:
                record = renamed_record(record, name, current)
        return await super().record_trace(record, without=without)

    async def aclose(self) -> None:
        """Free nothing, so that all stores are closed the same way."""

    async def overview(self) -> StoreOverview:
        """Return how much the store holds."""
        recorded = [recorded_at for _, recorded_at in self._traces.values()]
        return StoreOverview(
            server="memory", questions=len(recorded), asked_at=max(recorded, default="")
        )
