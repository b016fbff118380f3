"""Reading one snapshot of code from beginning to end, whatever is imported meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
from msgspec.structs import replace

from whence.retrieval.results import SearchReport
from whence.schema.errors import BadInput, NotFound, Unavailable

if TYPE_CHECKING:
    from whence.store.snapshot_protocols import CodeStore, SnapshotRecord, SnapshotSource

__all__ = ("SnapshotChoice", "read_snapshot", "resolve", "search_snapshot")

T = TypeVar("T")

_SOURCES = ("primary", "secondary")
#: Times a reader begins again because the snapshot was replaced under it.
_ATTEMPTS = 3


class SnapshotChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller said about the snapshot to read.

    Raises:
        BadInput: It names neither a snapshot nor a set, or a source without a set or beside a snapshot, or
            a source that there is not.
    """

    snapshot: str = ""
    """Id, head sha, branch or tag."""
    set_name: str = ""
    """A set: with `snapshot`, one of its members; without, the member that `source` says."""
    source: str = ""
    """`primary`, which is also what empty means, or `secondary`."""

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


async def resolve(store: CodeStore, choice: SnapshotChoice) -> SnapshotRecord:
    """Give the snapshot that is meant.

    Raises:
        NotFound: There is none that can be read.
    """
    if choice.snapshot:
        return await store.resolve_snapshot(choice.snapshot, within=choice.set_name)
    source = cast("SnapshotSource", choice.source or "primary")
    return await store.resolve_set(choice.set_name, source)


async def read_snapshot(
    store: CodeStore, choice: SnapshotChoice, read: Callable[[SnapshotRecord], Awaitable[T]]
) -> T:
    """Read a snapshot in several steps as if in one: all of them meet the same content.

    Every import writes into a collection of its own, so steps can never mix two of them; what can happen
    is that the collection is gone in the middle. Then, and when the name stands for another snapshot by
    the end, all is read again.

    Args:
        store: Where snapshots are found.
        choice: Which is meant.
        read: Reads the snapshot it is given, through `SnapshotRecord.collection`.

    Raises:
        NotFound: There is no such snapshot, or what `read` looked for is not in it.
        Unavailable: It was replaced again and again.
    """
    for _ in range(_ATTEMPTS):
        record = await resolve(store, choice)
        try:
            result = await read(record)
        except NotFound:
            if (await resolve(store, choice)).collection == record.collection:
                raise
            continue
        if (await resolve(store, choice)).collection == record.collection:
            return result
    raise Unavailable(
        f"snapshot {choice.snapshot or choice.set_name!r} was replaced while it was read",
        hint="try again when the import is done",
    )


async def search_snapshot(
    store: CodeStore,
    choice: SnapshotChoice,
    search: Callable[[str], Awaitable[SearchReport]],
) -> SearchReport:
    """Search the collection that holds a snapshot; hits carry the canonical ids of nodes.

    Args:
        store: Where snapshots are found.
        choice: Which is meant.
        search: Searches a collection.

    Raises:
        WhenceError: As for `read_snapshot` and from `search`.
    """

    async def read(record: SnapshotRecord) -> SearchReport:
        report = await search(record.collection)
        # A node is one chunk, so its own id names that; the chunk's would change with every import.
        results = [
            replace(one, chunk=replace(one.chunk, id=one.document_id)) for one in report.results
        ]
        return replace(report, results=results, snapshot_id=record.info.snapshot_id)

    return await read_snapshot(store, choice, read)
