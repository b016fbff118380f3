"""The change log of one collection in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from whence.schema.access import Access, DocumentTags
from whence.schema.ingest import DocumentDraft
from whence.store.change_log import Change, ChangeKind


class MemoryLog:
    """The changes of one collection, by version, then document."""

    def __init__(self) -> None:
        self.version = 0
        self.entries: list[Change] = []

    def add(self, at: datetime, changes: Iterable[Change]) -> None:
        """Log the changes of one write as the next version; none make no version."""
        new = sorted(changes, key=lambda one: one.document_id)
        if new:
            self.version += 1
            when = at.astimezone(UTC).isoformat()
            self.entries += [
                msgspec.structs.replace(one, version=self.version, changed_at=when) for one in new
            ]

    def erase(self, at: datetime, document_id: str) -> None:
        """Replace all entries of a document by one that does not name it."""
        named = [one for one in self.entries if one.document_id == document_id]
        if named:
            first, tags = named[0].version, named[-1].tags
            self.entries = [one for one in self.entries if one.document_id != document_id]
            self.add(at, [entry("erased", "", tags, first_version=first)])

    def visible(self, access: Access, after: int, *, whole: bool) -> list[Change]:
        """Return entries as `SupportsChangeLog.changes` does."""
        last = {one.document_id: one.tags for one in self.entries if one.document_id}
        later = [one for one in self.entries if one.version > after]
        touched = {one.document_id for one in later if one.document_id}
        return [
            one
            for one in self.entries
            if (one.version > after or (whole and one.document_id in touched))
            and access.allows(last.get(one.document_id, one.tags))
        ]


def entry(kind: ChangeKind, document_id: str, tags: DocumentTags, **fields: int) -> Change:
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
    return entry(kind, draft.document_id, draft.tags, content=content)
