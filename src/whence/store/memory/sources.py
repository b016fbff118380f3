"""Roots and the states of files in memory, and the list of documents."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial

import msgspec

from whence.schema.access import Access
from whence.schema.ingest import DocumentDraft
from whence.schema.places import only_line
from whence.store.memory.search import MemoryPart, StoredDocument
from whence.store.protocols import ListedDocument, read_place
from whence.store.source_states import (
    UNREAD,
    Order,
    SourceFileState,
    SourceRoot,
    State,
    StoredSource,
    numbered,
)

_normal = partial(unicodedata.normalize, "NFC")
#: What a name may mean, in the order in which it is tried.
_MEANINGS: tuple[Callable[[DocumentDraft], str], ...] = (
    lambda one: _normal(one.document_id),
    lambda one: f"{one.root}/{one.source_file}",
    lambda one: one.source_file,
)


class MemorySources(MemoryPart):
    """Implements `SourceStore`."""

    async def source_roots(self, collection: str) -> list[SourceRoot]:
        """Return the roots of a collection by name."""
        return [SourceRoot(*one) for one in sorted(self._roots.get(collection, {}).items())]

    async def add_root(
        self, collection: str, name: str, path: str, *, moved: bool = False
    ) -> SourceRoot:
        """Return the root of a path, added when there is none; see `SourceStore`."""
        known = self._roots.setdefault(collection, {})
        if not moved or name not in known:
            found = next((one for one, place in known.items() if place == path), None)
            name = found or numbered(name, known)
        known[name] = path
        return SourceRoot(name, path)

    async def forget_sources(self, collection: str) -> None:
        """Forget the roots of a collection and the states of their files."""
        self._roots.pop(collection, None)
        self._files.pop(collection, None)

    async def stored_sources(self, collection: str) -> list[StoredSource]:
        """Return the documents with their files; see `SourceStore`."""
        drafts = [one.draft for one in self._documents(collection).values()]
        files = [one for one, _ in self._files.get(collection, {}).values()]
        return [
            *(StoredSource(one.document_id, one.root, one.source_file) for one in drafts),
            *(
                StoredSource(
                    one.document_id,
                    one.root,
                    one.path,
                    is_document=False,
                    read_as=(one.size, one.modified, one.digest) if one.state == "read" else None,
                )
                for one in files
            ),
        ]

    async def note_files(
        self,
        collection: str,
        files: Sequence[SourceFileState],
        forgotten: Collection[tuple[str, str]] = (),
    ) -> None:
        """Note what became of files, and forget others; see `SourceStore`."""
        known = self._files.setdefault(collection, {})
        stored = self._documents(collection)
        for key in forgotten:
            known.pop(key, None)
        for one in files:
            document = stored.get(one.document_id)
            tags = document.draft.tags if document else one.tags
            if one.is_storable:
                noted = msgspec.structs.replace(one, tags=tags)
                known[one.root, one.path] = noted, self._clock().isoformat()

    async def adopt_documents(
        self, collection: str, root: str, document_ids: Collection[str]
    ) -> None:
        """Let documents that have no root belong to one."""
        for document in self._documents(collection).values():
            draft = document.draft
            if draft.document_id in document_ids and not draft.root:
                document.draft = msgspec.structs.replace(draft, root=root)

    async def unread_files(
        self, collection: str, access: Access, *, most: int = 1000
    ) -> tuple[int, list[SourceFileState]]:
        """Return the number of visible files that were not read, and the first; see `SourceStore`."""
        found = [
            one
            for one, _ in self._files.get(collection, {}).values()
            if one.state in UNREAD and one.size != 0 and access.allows(one.tags)
        ]
        return len(found), sorted(found, key=lambda one: (one.path, one.root))[:most]

    async def documents_named(self, collection: str, name: str, access: Access | None) -> list[str]:
        """Return the ids of visible documents that a name means; see `SourceStore`."""
        drafts = [
            one.draft
            for one in self._documents(collection).values()
            if access is None or access.allows(one.draft.tags)
        ]
        if any(one.document_id == name for one in drafts):
            return [name]
        for meaning in _MEANINGS:
            found = [one.document_id for one in drafts if name and meaning(one) == _normal(name)]
            if found:
                return sorted(found)
        return []

    async def visible_documents(
        self,
        collection: str,
        access: Access,
        *,
        limit: int,
        after: str = "",
        state: State | None = None,
        unread: bool = False,
        order: Order = "key",
    ) -> list[ListedDocument]:
        """Return the first visible documents, and files without one, after a key; see `ChunkStore`."""
        files = {
            key: one
            for key, one in self._files.get(collection, {}).items()
            if access.allows(one[0].tags)
        }
        documents = [
            one for one in self._documents(collection).values() if access.allows(one.draft.tags)
        ]
        listed = [
            _listed(one, files.get((one.draft.root, one.draft.source_file))) for one in documents
        ]
        if unread:
            read = {(one.root, one.path) for one in listed}
            listed += [
                ListedDocument(
                    document_id=None,
                    root=one.root,
                    path=one.path,
                    state=one.state,
                    reason=one.reason,
                    source_file=one.path,
                    tried_at=tried_at,
                    size=one.size,
                    modified=one.modified,
                    file_digest=one.digest,
                )
                for key, (one, tried_at) in files.items()
                if one.state != "read" and key not in read
            ]
        wanted = [one for one in listed if state in (None, one.state)]
        if order == "key":
            later = (one for one in wanted if one.key > after)
            return sorted(later, key=lambda one: one.key)[:limit]
        if after:
            moment, key = read_place(after)
            wanted = [one for one in wanted if _newest(one) > (-moment.timestamp(), key)]
        return sorted(wanted, key=_newest)[:limit]

    async def describe_documents(
        self, collection: str, document_ids: Sequence[str], access: Access
    ) -> dict[str, ListedDocument]:
        """Return what is known of documents that exist and are visible, by id; see `ChunkStore`."""
        held, files = self._documents(collection), self._files.get(collection, {})
        found: dict[str, ListedDocument] = {}
        for name in document_ids:
            if name in held and access.allows(held[name].draft.tags):
                draft = held[name].draft
                file = files.get((draft.root, draft.source_file))
                is_shown = file is not None and access.allows(file[0].tags)
                found[name] = _listed(held[name], file if is_shown else None)
        return found

    def _forget_documents(self, collection: str, document_ids: Collection[str]) -> None:
        """Forget the files of removed documents."""
        known = self._files.get(collection, {})
        for key in [key for key, (one, _) in known.items() if one.document_id in document_ids]:
            if known[key][0].document_id:
                del known[key]


def _newest(one: ListedDocument) -> tuple[float, str]:
    return -datetime.fromisoformat(one.moment).timestamp(), one.key


def _listed(document: StoredDocument, noted: tuple[SourceFileState, str] | None) -> ListedDocument:
    draft = document.draft
    file, tried_at = noted or (SourceFileState(root="", path="", state="read"), "")
    vectors = sum(chunk.has_vector for chunk in document.chunks)
    is_waiting = file.state == "read" and vectors < len(document.chunks)
    return ListedDocument(
        document_id=draft.document_id,
        root=draft.root,
        path=draft.source_file,
        state="waiting" if is_waiting else file.state,
        reason=file.reason,
        title=draft.title,
        source_file=draft.source_file,
        source_url=draft.source_url,
        chunks=len(document.chunks),
        vectors=vectors,
        document_date=draft.date or None,
        indexed_at=document.stored_at or None,
        tried_at=tried_at or None,
        encoding=draft.encoding,
        left_out=draft.left_out,
        size=file.size,
        modified=file.modified,
        file_digest=file.digest,
        line=only_line(draft.places),
    )
