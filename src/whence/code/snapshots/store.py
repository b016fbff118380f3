"""Snapshots of code in PostgreSQL, over the connections of its store; `CodeStore` documents the methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from whence.code.snapshots import expansion
from whence.code.snapshots.catalogue import (
    SETS,
    SNAPSHOTS,
    find_published,
    hide_collections,
    snapshot_record,
    snapshot_sets,
    write_set,
)
from whence.code.snapshots.documents import missing_set, missing_snapshot
from whence.code.snapshots.importing import PostgresImport
from whence.code.snapshots.protocols import (
    CodeImport,
    SetMember,
    SnapshotRecord,
    SnapshotSet,
    SnapshotSource,
)
from whence.code.snapshots.removal import delete_hidden_collections
from whence.schema.errors import InternalError, NotFound
from whence.schema.graph import ExpandRequest, ExpandResponse
from whence.store.postgres.driver import Connection
from whence.store.postgres.part import PostgresPart
from whence.store.validation import is_text

_NEWEST_FIRST = f"{SNAPSHOTS} ORDER BY s.published DESC"
_RESOLVE = f"""{SNAPSHOTS}
    WHERE s.active
    AND s.snapshot_id IN (
        SELECT x.snapshot_id FROM code_snapshot x WHERE x.snapshot_id = $1 OR x.head_sha = $1
        UNION ALL SELECT r.snapshot_id FROM code_ref r WHERE r.ref = $1)
    AND ($2::text[] IS NULL OR s.snapshot_id = ANY($2))
    ORDER BY s.published DESC LIMIT 1"""  # noqa: S608 - only constants
_SETS_BY_NAME = f"{SETS} ORDER BY t.name, m.place"
_ONE_SET = f"{SETS} WHERE t.name = $1 ORDER BY m.place"
_SWITCH_SET = "UPDATE code_set SET active = $2 WHERE name = $1"
_SWITCH_SNAPSHOT = "UPDATE code_snapshot SET active = $2 WHERE snapshot_id = $1"
_DELETE_SET = "DELETE FROM code_set WHERE name = $1"
_DELETE_SNAPSHOT = "DELETE FROM code_snapshot WHERE snapshot_id = $1 RETURNING collection_id"
_DELETE_EMPTY_SETS = """
    DELETE FROM code_set t
    WHERE NOT EXISTS (SELECT FROM code_set_member m WHERE m.set_name = t.name)"""
_DELETE_RUNS = "DELETE FROM code_import WHERE snapshot_id = $1 AND status <> 'running'"


class PostgresCode:
    """Snapshots and sets; implements `CodeStore`.

    Args:
        store: Lends its connections, clock and time limit; the caller closes it.
    """

    def __init__(self, store: PostgresPart) -> None:
        self._pool = store.pool
        self._clock = store.clock
        self._write_timeout_s = store.write_timeout_s

    async def snapshots(self) -> list[SnapshotRecord]:
        """Return all published snapshots, newest first; regardless of rights."""
        async with self._pool.connection() as connection:
            return [snapshot_record(row) for row in await connection.fetch(_NEWEST_FIRST)]

    async def sets(self) -> list[SnapshotSet]:
        """Return all sets by name; regardless of rights."""
        async with self._pool.connection() as connection:
            return snapshot_sets(await connection.fetch(_SETS_BY_NAME))

    async def resolve_snapshot(self, reference: str, *, within: str = "") -> SnapshotRecord:
        """Return the newest active snapshot that has this id, head sha, branch or tag."""
        async with self._pool.connection() as connection:
            return await _resolve(connection, reference, within)

    async def resolve_set(self, name: str, source: SnapshotSource = "primary") -> SnapshotRecord:
        """Return the first or the second snapshot of a set."""
        async with self._pool.connection() as connection:
            members = await _active_members(connection, name)
            place = 0 if source == "primary" else 1
            if place >= len(members):
                raise NotFound(
                    f"set {name!r} has no {source} snapshot", hint="import two bundles with --set"
                )
            snapshot_id = members[place].snapshot_id
            found = (await find_published(connection, [snapshot_id])).get(snapshot_id)
        if found is None or not found.active:
            raise missing_snapshot(snapshot_id)
        return found

    @asynccontextmanager
    async def importing(self) -> AsyncIterator[CodeImport]:
        """Run an import for the time of a block; what it does not publish is removed."""
        async with self._pool.connection() as connection:
            run = PostgresImport(connection, self._write_timeout_s, self._clock)
            await run.sweep()
            try:
                yield run
            except BaseException as error:
                await run.abandon(error)
                raise
            await run.abandon(InternalError("the import ended before it was published"))

    async def make_set(self, name: str, references: Sequence[str]) -> SnapshotSet:
        """Make a set of published snapshots, replacing any of that name."""
        async with self._pool.connection() as connection, connection.transaction():
            found = [await _resolve(connection, one, "") for one in references]
            members = [
                SetMember(ref=reference, snapshot_id=one.info.snapshot_id)
                for reference, one in zip(references, found, strict=True)
            ]
            repos = [one.info.repo for one in found]
            return await write_set(connection, name, repos, members, self._clock())

    async def set_active(self, name: str, active: bool) -> None:
        """Switch a set, or else a snapshot by its id, on or off."""
        async with self._pool.connection() as connection:
            for statement in (_SWITCH_SET, _SWITCH_SNAPSHOT) if is_text(name) else ():
                if await connection.execute(statement, name, active) != "UPDATE 0":
                    return
        raise NotFound(f"there is no set or snapshot {name!r}", hint="see whence snapshots")

    async def remove_set(self, name: str) -> None:
        """Delete a set; its snapshots stay."""
        async with self._pool.connection() as connection:
            deleted = await connection.execute(_DELETE_SET, name)
        if deleted == "DELETE 0":
            raise NotFound(f"there is no set {name!r}", hint="see whence snapshots")

    async def purge_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot, and sets that become empty.

        A first, short transaction makes it unreachable; the rows are deleted after that.
        """
        if not is_text(snapshot_id):
            raise missing_snapshot(snapshot_id)
        async with self._pool.connection() as connection:
            async with connection.transaction():
                collection_id = await connection.fetchval(_DELETE_SNAPSHOT, snapshot_id)
                if collection_id is None:
                    raise missing_snapshot(snapshot_id)
                await connection.execute(_DELETE_EMPTY_SETS)
                await connection.execute(_DELETE_RUNS, snapshot_id)
                await hide_collections(connection, [collection_id])
            await delete_hidden_collections(connection, [collection_id], self._write_timeout_s)

    async def expand(self, request: ExpandRequest, *, travel: bool = False) -> ExpandResponse:
        """Expand nodes along the graph of a snapshot."""
        async with self._pool.connection() as connection:
            return await expansion.expand(connection, request, travel=travel)


async def _resolve(connection: Connection, reference: str, within: str) -> SnapshotRecord:
    if not is_text(reference):
        raise missing_snapshot(reference)
    members: list[str] | None = None
    if within:
        members = [one.snapshot_id for one in await _active_members(connection, within)]
    row = await connection.fetchrow(_RESOLVE, reference, members)
    if row is None:
        raise missing_snapshot(reference)
    return snapshot_record(row)


async def _active_members(connection: Connection, name: str) -> tuple[SetMember, ...]:
    if not is_text(name):
        raise missing_set(name)
    found = snapshot_sets(await connection.fetch(_ONE_SET, name))
    if not found or not found[0].active:
        raise missing_set(name)
    return found[0].members
