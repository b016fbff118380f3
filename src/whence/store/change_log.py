"""The change log of a collection: which documents came, went and changed, by version.

A version is a number that each transaction which changes documents raises by one. It counts hidden documents
too, so no reader is shown it. What a reader sees of the log are the entries of the documents that they may see
today; a document that is gone has the tags that it had last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final, Literal

import msgspec

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput

#: Time for which a former version of a document is kept unless a setting says otherwise.
KEEP_VERSIONS: Final = timedelta(days=30)
#: Most visible chunks of a version that is read: some 15 kB of memory each.
MAX_VERSION_CHUNKS: Final = 50_000

ChangeKind = Literal["added", "changed", "tagged", "removed", "erased", "settings"]
"""What happened: `tagged` is a change of the tags alone, `settings` one of the collection itself."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the log."""

    version: int
    """The first version that has it."""
    changed_at: str
    """ISO 8601 in UTC."""
    kind: ChangeKind
    document_id: str = ""
    """Empty for `erased` and `settings`."""
    tags: DocumentTags = DocumentTags()
    """Tags of the document after the change, or the last ones."""
    content: int = 0
    """Stands for the content of the document: equal in two entries when it is equal."""
    first_version: int = 0
    """Version with which an erased document came."""


class NetChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two versions of a collection, for one reader."""

    added: tuple[str, ...] = ()
    """Ids of documents, sorted, here and below."""
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    tagged: tuple[str, ...] = ()
    """Those of the above whose tags alone changed."""
    erased: bool = False
    """Whether documents were erased; their names are gone."""
    settings: bool = False
    """Whether settings of the collection changed."""
    hidden: bool = False
    """Whether one version alone shows documents that the tags of today hide from the reader."""

    @property
    def documents(self) -> tuple[str, ...]:
        """All documents that differ."""
        return (*self.added, *self.changed, *self.removed)


def check_version(
    collection: str, moment: datetime, *, since: datetime, missing: int, chunks: int
) -> None:
    """Refuse a version that cannot be read.

    Args:
        collection: Its name.
        moment: When the version was the current one.
        since: Moment at which the log begins.
        missing: Number of visible documents of the version that are not kept.
        chunks: Number of its visible chunks.
    """
    if moment < since:
        when = since.astimezone(UTC).isoformat(timespec="seconds")
        raise BadInput(
            f"collection {collection!r} is known from {when} on, not as of {moment.isoformat()}",
            hint="ask as of a later moment; `whence changes` lists what is known",
        )
    if missing:
        raise BadInput(
            f"collection {collection!r} cannot be read as of {moment.isoformat()}: documents of then were replaced"
            " or removed, and are kept no more",
            hint="ask as of a later moment; WHENCE_KEEP_VERSIONS says how long former versions are kept",
        )
    if chunks > MAX_VERSION_CHUNKS:
        raise BadInput(
            f"collection {collection!r} had {chunks:,} visible passages then; at most {MAX_VERSION_CHUNKS:,} can be"
            " read as of a moment",
            hint="split the collection, or ask without --as-of",
        )


def net_changes(
    entries: Iterable[Change], before: int, after: int, *, was: Access, now: Access
) -> NetChanges:
    """Return what differs between two versions.

    Args:
        entries: The log after the lower version, as `changes` returns it with `whole`.
        before: One version.
        after: The other, which may be the lower one.
        was: Rights of the reader at `before`.
        now: Rights of the reader at `after`.
    """
    entries = list(entries)
    low, high = sorted((before, after))
    added: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    tagged: list[str] = []
    named = sorted((one for one in entries if one.document_id), key=lambda one: one.document_id)
    for document_id, some in groupby(named, key=lambda one: one.document_id):
        life = sorted(some, key=lambda one: one.version)
        one, other = _state(life, before, was), _state(life, after, now)
        if one is None and other is None:
            continue
        if one is None or other is None:
            (added if one is None else removed).append(document_id)
            if (present := one or other) and _is_retagging(life, before, after, present.content):
                tagged.append(document_id)
        elif one.content != other.content:
            changed.append(document_id)
    return NetChanges(
        added=tuple(added),
        changed=tuple(changed),
        removed=tuple(removed),
        tagged=tuple(tagged),
        erased=any(
            one.kind == "erased" and one.first_version <= low < one.version <= high
            for one in entries
        ),
        settings=any(one.kind == "settings" and low < one.version <= high for one in entries),
    )


def _existing(life: Sequence[Change], version: int) -> Change | None:
    """Return the last entry of a document up to a version, None when it did not exist then."""
    last = next((one for one in reversed(life) if one.version <= version), None)
    return None if last is None or last.kind == "removed" else last


def _state(life: Sequence[Change], version: int, access: Access) -> Change | None:
    found = _existing(life, version)
    return found if found is not None and access.allows(found.tags) else None


def _is_retagging(life: Sequence[Change], before: int, after: int, content: int) -> bool:
    """Return whether a document that only one side shows existed, equal, on both."""
    sides = (_existing(life, before), _existing(life, after))
    return all(one is not None and one.content == content for one in sides)
