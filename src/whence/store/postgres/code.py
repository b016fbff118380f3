"""Snapshots of code in the PostgreSQL store, over a connection pool; `CodeStore` documents the methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from whence.schema.graph import ExpandRequest, ExpandResponse
from whence.store.postgres.pool import ConnectionPool
from whence.store.postgres.snapshots import catalogue as code_snapshots
from whence.store.postgres.snapshots import expansion as code_graph
from whence.store.postgres.snapshots import importing as code_import
from whence.store.snapshot_protocols import CodeImport, SnapshotRecord, SnapshotSet, SnapshotSource

__all__ = ("PostgresCode",)


class PostgresCode:
    """Snapshots and sets; implements `CodeStore`."""

    def __init__(
        self, pool: ConnectionPool, write_timeout_s: float, clock: Callable[[], datetime]
    ) -> None:
        self._pool = pool
        self._write_timeout_s = write_timeout_s
        self._clock = clock

    async def snapshots(self) -> list[SnapshotRecord]:
        """Return all published snapshots, newest first; regardless of rights."""
        async with self._pool.connection() as connection:
            return await code_snapshots.list_snapshots(connection)

    async def sets(self) -> list[SnapshotSet]:
        """Return all sets by name; regardless of rights."""
        async with self._pool.connection() as connection:
            return await code_snapshots.list_sets(connection)

    async def resolve_snapshot(self, reference: str, *, within: str = "") -> SnapshotRecord:
        """Return the newest active snapshot that has this id, head sha, branch or tag."""
        async with self._pool.connection() as connection:
            return await code_snapshots.resolve_snapshot(connection, reference, within)

    async def resolve_set(self, name: str, source: SnapshotSource = "primary") -> SnapshotRecord:
        """Return the first or the second snapshot of a set."""
        async with self._pool.connection() as connection:
            return await code_snapshots.resolve_set(connection, name, source)

    @asynccontextmanager
    async def importing(self) -> AsyncIterator[CodeImport]:
        """Run an import for the time of a block; what it does not publish is removed."""
        async with (
            self._pool.connection() as connection,
            code_import.importing(
                connection,
                self._pool.connection,
                timeout_s=self._write_timeout_s,
                clock=self._clock,
            ) as run,
        ):
            yield run

    async def make_set(self, name: str, references: Sequence[str]) -> SnapshotSet:
        """Make a set of published snapshots, replacing any of that name."""
        async with self._pool.connection() as connection:
            return await code_snapshots.make_set(connection, name, references, self._clock())

    async def set_active(self, name: str, active: bool) -> None:
        """Switch a set, or else a snapshot by its id, on or off."""
        async with self._pool.connection() as connection:
            await code_snapshots.set_active(connection, name, active)

    async def remove_set(self, name: str) -> None:
        """Delete a set; its snapshots stay."""
        async with self._pool.connection() as connection:
            await code_snapshots.remove_set(connection, name)

    async def purge_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot, and sets that become empty."""
        async with self._pool.connection() as connection:
            await code_snapshots.purge_snapshot(connection, snapshot_id, self._write_timeout_s)

    async def expand(self, request: ExpandRequest, *, travel: bool = False) -> ExpandResponse:
        """Walk the graph of a snapshot; see `GraphStore`."""
        async with self._pool.connection() as connection:
            return await code_graph.expand(connection, request, travel=travel)
