"""Import of snapshots of code into PostgreSQL: staged out of sight, then published in one transaction.

A run writes into an internal collection, batch by batch. Its process holds a session lock; when a run is marked
as running and its lock is free, the process has died, and the next import removes its rows. Readers find a
snapshot only through its row in `code_snapshot`, which the last transaction writes: they see either the former
content or the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from whence.code.snapshots.catalogue import find_published, hide_collections, write_set
from whence.code.snapshots.documents import snapshot_refs
from whence.code.snapshots.protocols import SetMember, SnapshotRecord, SnapshotSet
from whence.code.snapshots.removal import bulk_settings, delete_hidden_collections
from whence.code.snapshots.staging import PostgresStagedSnapshot, uncancellable
from whence.schema.code import SnapshotInfo
from whence.schema.errors import BadInput, WhenceError
from whence.store.postgres.driver import Connection, errors
from whence.store.postgres.errors import DRIVER_ERRORS
from whence.store.postgres.lexical import reindexing
from whence.store.validation import internal_name

logger = logging.getLogger(__name__)

#: First key of the lock of a run, "code" in ASCII; the second is the number of the run.
_RUN_LOCK = 0x636F6465
#: Key of the lock under which snapshots are published, one run at a time: "codepub" in ASCII.
_PUBLISH_LOCK = 0x636F6465707562
#: Model of a collection before its first vector; a model has at least one dimension.
_NO_MODEL = ("", "", "", 1)

_RUNNING = "SELECT id FROM code_import WHERE status = 'running' ORDER BY id"
_TRY_LOCK = "SELECT pg_try_advisory_lock($1::int, $2::int)"
_LOCK = "SELECT pg_advisory_lock($1::int, $2::int)"
_UNLOCK = "SELECT pg_advisory_unlock($1::int, $2::int)"
_UNREACHABLE = """
    SELECT c.id FROM collection c WHERE c.internal
    AND NOT EXISTS (SELECT FROM code_snapshot s WHERE s.collection_id = c.id)
    AND NOT EXISTS (SELECT FROM code_import i WHERE i.collection_id = c.id)"""
_NEW_RUN = """
    INSERT INTO code_import (import_id, snapshot_id, repo, branch, head_sha, tag, status, started_at)
    VALUES ($1, $2, $3, $4, $5, $6, 'running', $7) RETURNING id"""
_NEW_COLLECTION = """
    INSERT INTO collection (name, internal, model_name, model_revision, model_precision, dimension)
    VALUES ($1, true, $2, $3, $4, $5) RETURNING id"""
_SET_COLLECTION = "UPDATE code_import SET collection_id = $2 WHERE id = $1"
_COLLECTION = "SELECT collection_id FROM code_import WHERE id = $1"
_FAIL = """
    UPDATE code_import SET status = 'failed', finished_at = $2, error = $3, collection_id = NULL
    WHERE id = $1"""


class PostgresImport:
    """One import, on a connection that nothing else uses; implements `CodeImport`."""

    def __init__(
        self,
        connection: Connection,
        timeout_s: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._clock = clock
        self._staged: list[PostgresStagedSnapshot] = []
        self._published = False

    @uncancellable
    async def sweep(self) -> None:
        """Remove the rows of runs whose process died, and of replaced snapshots."""
        for row in await self._connection.fetch(_RUNNING):
            if not await self._connection.fetchval(_TRY_LOCK, _RUN_LOCK, row["id"]):
                continue
            await self._fail(row["id"], "the process that ran it has ended")
            await self._connection.execute(_UNLOCK, _RUN_LOCK, row["id"])
        left = await self._connection.fetch(_UNREACHABLE)
        await delete_hidden_collections(
            self._connection, [row["id"] for row in left], self._timeout_s
        )

    @uncancellable
    async def stage(
        self, import_id: str, snapshot: SnapshotInfo, *, tags: Sequence[str] = ()
    ) -> PostgresStagedSnapshot:
        """Begin to write a snapshot; see `CodeImport.stage`."""
        if any(one.snapshot.snapshot_id == snapshot.snapshot_id for one in self._staged):
            raise BadInput(
                f"{snapshot.repo} at {snapshot.head_sha} is given twice",
                hint="give each state of a repository once",
            )
        refs = snapshot_refs(snapshot, tags)
        number, collection_id = await self._begin(import_id, snapshot, ",".join(tags))
        staged = PostgresStagedSnapshot(
            self._connection,
            number,
            collection_id,
            snapshot,
            refs,
            await bulk_settings(self._connection, self._timeout_s),
            self._collections,
        )
        self._staged.append(staged)
        return staged

    def _collections(self) -> list[int]:
        """Return the collections of this import."""
        return [one.collection_id for one in self._staged]

    async def _begin(self, import_id: str, snapshot: SnapshotInfo, tag: str) -> tuple[int, int]:
        """Record the run and make its collection; return both numbers."""
        connection = self._connection
        async with connection.transaction():
            number = await connection.fetchval(
                _NEW_RUN,
                import_id,
                snapshot.snapshot_id,
                snapshot.repo,
                snapshot.branch,
                snapshot.head_sha,
                tag,
                self._clock(),
            )
            # Before the run is visible, so that no other process takes it for a dead one.
            await connection.execute(_LOCK, _RUN_LOCK, number)
            collection_id = await connection.fetchval(
                _NEW_COLLECTION, internal_name(number), *_NO_MODEL
            )
            await connection.execute(_SET_COLLECTION, number, collection_id)
            await reindexing.ensure_indexed(connection, collection_id)
        return number, collection_id

    @uncancellable
    async def publish(
        self, *, set_name: str = "", refs: Sequence[str] = ()
    ) -> tuple[list[SnapshotRecord], SnapshotSet | None]:
        """Publish all staged snapshots in one transaction; see `CodeImport.publish`."""
        connection, now = self._connection, self._clock()
        ids = [one.snapshot.snapshot_id for one in self._staged]
        made: SnapshotSet | None = None
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _PUBLISH_LOCK)
            former = await find_published(connection, ids)
            gone = [
                await one.publish(former.get(one.snapshot.snapshot_id), now) for one in self._staged
            ]
            if set_name:
                members = [
                    SetMember(ref=ref, snapshot_id=snapshot_id)
                    for ref, snapshot_id in zip(refs, ids, strict=True)
                ]
                repos = [one.snapshot.repo for one in self._staged]
                made = await write_set(connection, set_name, repos, members, now)
            records = await find_published(connection, ids)
        self._published = True
        await self._clear([one for one in gone if one is not None])
        return [records[one] for one in ids], made

    @uncancellable
    async def abandon(self, error: BaseException) -> None:
        """Remove what was staged and not published; the next import removes what this fails to."""
        if self._published or not self._staged:
            return
        reason = error.message if isinstance(error, WhenceError) else type(error).__name__
        try:
            for one in self._staged:
                await self._fail(one.number, reason)
        except (*DRIVER_ERRORS, OSError):
            logger.warning("a failed import is not removed yet", extra={"action": "import"})

    async def _fail(self, number: int, reason: str) -> None:
        connection = self._connection
        async with connection.transaction():
            collection_id = await connection.fetchval(_COLLECTION, number)
            await connection.execute(_FAIL, number, self._clock(), reason.replace("\0", ""))
            await hide_collections(connection, [] if collection_id is None else [collection_id])
        if collection_id is not None:
            await delete_hidden_collections(connection, [collection_id], self._timeout_s)

    async def _clear(self, collection_ids: Sequence[int]) -> None:
        """Delete replaced collections; the next import deletes what this fails to."""
        try:
            await delete_hidden_collections(self._connection, collection_ids, self._timeout_s)
        except (errors.PostgresError, OSError):
            logger.warning("a replaced snapshot is not removed yet", extra={"action": "import"})
