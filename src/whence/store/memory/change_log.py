"""The change log of one collection in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from whence.schema.access import Access, DocumentTags
from whence.schema.ingest import DocumentDraft
from whence.store.change_log import Change, ChangeKind
from whence.store.protocols import EmbeddedDocument


class FormerVersion(NamedTuple):
    """A former version of a document."""

    document: EmbeddedDocument
    valid_from: int
    valid_to: int
    """The first version that has it no more."""
    replaced_at: datetime
    vector_set: int
    """Number of its vectors, see `MemoryCollection`."""


class MemoryLog:
    """The changes of one collection, by version, then document, and its former documents."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self.version = 0
        self.entries: list[Change] = []
        self.former: list[FormerVersion] = []

    def add(
        self,
        at: datetime,
        changes: Iterable[Change],
        embedded: Callable[[str], EmbeddedDocument] | None = None,
        keep: timedelta = timedelta(),
        vector_set: int = 0,
    ) -> None:
        """Log the changes of one write as the next version; none make no version.

        What is about to be replaced or removed is kept for a time; `embedded` returns it by its id.
        """
        new = sorted(changes, key=lambda one: one.document_id)
        self.former = [one for one in self.former if one.replaced_at >= at - keep]
        if new:
            for one in new if keep else ():
                if embedded is not None and one.kind in {"changed", "removed"}:
                    came = self._last(one.document_id, {"added", "changed"}, self.version)
                    document = embedded(one.document_id)
                    former = FormerVersion(document, came, self.version + 1, at, vector_set)
                    self.former.append(former)
            self.version += 1
            when = at.astimezone(UTC).isoformat()
            self.entries += [
                msgspec.structs.replace(one, version=self.version, changed_at=when) for one in new
            ]

    def erase(self, at: datetime, document_id: str) -> None:
        """Replace all entries of a document by one that does not name it."""
        self.former = [one for one in self.former if one.document.draft.document_id != document_id]
        named = [one for one in self.entries if one.document_id == document_id]
        if named:
            first, tags = named[0].version, named[-1].tags
            self.entries = [one for one in self.entries if one.document_id != document_id]
            self.add(at, [change_entry("erased", "", tags, first_version=first)])

    def existing(self, access: Access, version: int) -> dict[str, DocumentTags]:
        """Return the documents of a version that a reader may see today, with their last tags."""
        last = {one.document_id: one.tags for one in self.entries if one.document_id}
        return {
            name: last[name]
            for name, one in self._states(version).items()
            if one.kind != "removed" and access.allows(last[name])
        }

    def is_current(self, document_id: str, version: int) -> bool:
        """Return whether a document that exists has had its content since a version."""
        return self._last(document_id, {"added", "changed"}, self.version) <= version

    def _last(self, document_id: str, kinds: Container[str], version: int) -> int:
        """Return the last version up to one with an entry of a document of some kinds; 0 without."""
        found = (
            one.version
            for one in self.entries
            if one.document_id == document_id and one.kind in kinds and one.version <= version
        )
        return max(found, default=0)

    def visible(self, access: Access, after: int, *, whole: bool) -> list[Change]:
        """Return entries as `ChunkStore.changes` does."""
        last = {one.document_id: one.tags for one in self.entries if one.document_id}
        later = [one for one in self.entries if one.version > after]
        touched = {one.document_id for one in later if one.document_id}
        return [
            one
            for one in self.entries
            if (one.version > after or (whole and one.document_id in touched))
            and access.allows(last.get(one.document_id, one.tags))
        ]

    def was_hidden(self, access: Access, one: int, other: int) -> bool:
        """Return whether one version alone shows documents that are hidden today; see `ChunkStore`."""
        last = {each.document_id: each.tags for each in self.entries if each.document_id}
        hidden = {name for name, tags in last.items() if not access.allows(tags)}
        then = [
            {
                name
                for name, each in self._states(version).items()
                if each.kind != "removed" and access.allows(each.tags)
            }
            for version in (one, other)
        ]
        return not hidden.isdisjoint(then[0] ^ then[1])

    def _states(self, version: int) -> dict[str, Change]:
        """Return the last entry of each document up to a version."""
        named = (one for one in self.entries if one.document_id)
        return {one.document_id: one for one in named if one.version <= version}


def change_entry(kind: ChangeKind, document_id: str, tags: DocumentTags, **fields: int) -> Change:
    """Return an entry whose version is set when it is logged."""
    return Change(version=0, changed_at="", kind=kind, document_id=document_id, tags=tags, **fields)


def stored_entry(before: DocumentDraft | None, draft: DocumentDraft, serial: int) -> Change | None:
    """Return the entry of a document that is stored; None when neither content nor tags change.

    A document without a digest is never equal to another; `serial` stands for its content.
    """
    same = before is not None and before.digest == draft.digest != ""
    if before is not None and same and before.tags == draft.tags:
        return None
    kind: ChangeKind = "added" if before is None else "tagged" if same else "changed"
    digest = hashlib.sha256(draft.digest.encode()).digest()
    content = int.from_bytes(digest[:8]) if draft.digest else serial
    return change_entry(kind, draft.document_id, draft.tags, content=content)
