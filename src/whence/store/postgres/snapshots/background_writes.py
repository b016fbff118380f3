"""Writes of an import on a second connection, while the first one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from whence.schema.errors import InternalError
from whence.store.postgres.driver import Connection, writing

Work = Callable[[Connection], Awaitable[object]]

# Removing the collection waits for this lock.
_LOCK = "SELECT true FROM collection WHERE id = $1 FOR KEY SHARE"


class BackgroundWrites:
    """Runs work for a collection on another connection: one after the other, each in a transaction."""

    def __init__(
        self,
        lend: Callable[[], AbstractAsyncContextManager[Connection]],
        collection_id: int,
        settings: tuple[str, ...],
    ) -> None:
        self._lend = lend
        self._collection_id = collection_id
        self._settings = settings
        self._last: asyncio.Task[None] | None = None

    def start(self, work: Work) -> None:
        """Start some work after that which was started before."""
        self._last = asyncio.create_task(self._run(work, self._last))

    async def wait(self) -> None:
        """Wait for all work; raise what it failed with."""
        if self._last is not None:
            await self._last

    async def wait_ignoring_errors(self) -> None:
        """Wait for all work, before the import is removed."""
        if self._last is not None:
            await asyncio.gather(self._last, return_exceptions=True)

    async def _run(self, work: Work, former: asyncio.Task[None] | None) -> None:
        if former is not None:
            await former
        async with self._lend() as connection, writing(connection, *self._settings):
            if not await connection.fetchval(_LOCK, self._collection_id):
                raise InternalError("the import was given up", hint="run the same command again")
            await work(connection)
