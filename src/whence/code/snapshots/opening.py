"""The resource `snapshots`: the store of code snapshots, in the database of the flow's store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from whence.code.snapshots.protocols import CodeStore
from whence.code.snapshots.store import PostgresCode
from whence.store.postgres.part import PostgresPart


@asynccontextmanager
async def open_snapshots(get: Callable[[str], Awaitable[Any]]) -> AsyncIterator[CodeStore]:
    """Open the snapshots of the flow's store; a store that is not on PostgreSQL has its own."""
    store = await get("store")
    yield PostgresCode(store) if isinstance(store, PostgresPart) else store
