"""Consistent reads of one snapshot of code during imports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec.structs import replace

from whence.schema.code import SnapshotChoice
from whence.schema.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from whence.code.snapshots.protocols import CodeStore, SnapshotRecord, SnapshotSource
    from whence.operations.session import Session
    from whence.retrieval.results import SearchReport

T = TypeVar("T")

#: Attempts while the snapshot is being replaced.
_ATTEMPTS = 3


async def code_store(session: Session) -> CodeStore:
    """Return the store of snapshots, opened on first use."""
    store: CodeStore = await session.resources.get("snapshots")
    return store


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
    session: Session,
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

    return await read_snapshot(await code_store(session), choice, read)
