"""Consistent reads of one snapshot of code during imports, and the choice of the snapshot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
from msgspec.structs import replace

from whence.schema.errors import BadInput, NotFound, Unavailable

if TYPE_CHECKING:
    from whence.retrieval.results import SearchReport
    from whence.store.snapshot_protocols import CodeStore, SnapshotRecord, SnapshotSource

T = TypeVar("T")

_SOURCES = ("primary", "secondary")
#: Attempts while the snapshot is being replaced.
_ATTEMPTS = 3


class SnapshotChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot to read, as the caller named it."""

    snapshot: str = ""
    """Id, head sha, branch or tag."""
    set_name: str = ""
    """A set: with `snapshot`, the set it must be in; alone, `source` selects the member."""
    source: str = ""
    """`primary` (also when empty) or `secondary`."""

    @classmethod
    def of(cls, snapshot: str | SnapshotChoice) -> SnapshotChoice:
        """Return a choice for an id, head sha, branch or tag; a choice is returned as it is."""
        return snapshot if isinstance(snapshot, SnapshotChoice) else cls(snapshot=snapshot)

    def __post_init__(self) -> None:
        if self.source and self.source not in _SOURCES:
            raise BadInput(
                f"unknown snapshot source {self.source!r}", hint=f"use {' or '.join(_SOURCES)}"
            )
        if not self.snapshot and not self.set_name:
            raise BadInput("no snapshot is named", hint="give a snapshot or a set")
        if self.source and not self.set_name:
            raise BadInput("a snapshot source goes with a set", hint="name the set too")
        if self.source and self.snapshot:
            raise BadInput("a snapshot and a snapshot source are given", hint="give one of the two")


async def resolve_choice(store: CodeStore, choice: SnapshotChoice) -> SnapshotRecord:
    """Return the chosen snapshot."""
    if choice.snapshot:
        return await store.resolve_snapshot(choice.snapshot, within=choice.set_name)
    source = cast("SnapshotSource", choice.source or "primary")
    return await store.resolve_set(choice.set_name, source)


async def read_snapshot(
    store: CodeStore, choice: SnapshotChoice, read: Callable[[SnapshotRecord], Awaitable[T]]
) -> T:
    """Run several reads of a snapshot against the same content.

    Every import writes a new collection, so reads never mix two imports; but the collection may be dropped
    between two reads. Then, and when the name refers to another snapshot at the end, `read` runs again.

    Args:
        store: Store of the snapshots.
        choice: Snapshot to read.
        read: Reads through `SnapshotRecord.collection`.
    """
    for _ in range(_ATTEMPTS):
        record = await resolve_choice(store, choice)
        try:
            result = await read(record)
        except NotFound:
            if (await resolve_choice(store, choice)).collection == record.collection:
                raise
            continue
        if (await resolve_choice(store, choice)).collection == record.collection:
            return result
    raise Unavailable(
        f"snapshot {choice.snapshot or choice.set_name!r} was replaced while it was read",
        hint="try again after the import",
    )


async def search_snapshot(
    store: CodeStore,
    choice: SnapshotChoice,
    search: Callable[[str], Awaitable[SearchReport]],
) -> SearchReport:
    """Search a snapshot; hits carry the canonical ids of nodes."""

    async def read(record: SnapshotRecord) -> SearchReport:
        report = await search(record.collection)
        # A node is one chunk; its own id is stable, the chunk's changes with every import.
        results = [
            replace(one, chunk=replace(one.chunk, id=one.document_id)) for one in report.results
        ]
        info = record.info
        return replace(report, results=results, repo=info.repo, snapshot_id=info.snapshot_id)

    return await read_snapshot(store, choice, read)
