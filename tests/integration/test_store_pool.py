"""The connection pool for searches: never more connections than allowed, never a broken one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from whence.schema.errors import BadInput, Overloaded
from whence.store.postgres import pool
from whence.store.postgres.driver import connect
from whence.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    """A store with two connections for searches."""
    async with await PostgresStore.connect(database_url, pool_size=2) as opened:
        yield opened


async def _pid(store: PostgresStore) -> int:
    async with store.pool.search_connection() as connection:
        pid: int = await connection.fetchval("SELECT pg_backend_pid()")
        return pid


async def test_connections_are_reused(store: PostgresStore) -> None:
    """Consecutive searches use one connection, concurrent ones at most the pool's size."""
    assert len({await _pid(store) for _ in range(5)}) == 1
    assert len(set(await asyncio.gather(*(_pid(store) for _ in range(40))))) == 2


async def test_a_closed_connection_is_replaced(store: PostgresStore, database_url: str) -> None:
    """A connection that the server closed while it was idle is not lent."""
    before = await _pid(store)
    other = await connect(database_url, 10.0)
    await other.execute(f"SELECT pg_terminate_backend({before})")
    while await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", before):
        await asyncio.sleep(0.01)
    await other.close()
    await asyncio.sleep(0.05)

    assert await _pid(store) != before


async def test_cancelled_and_failed_searches_leave_usable_connections(store: PostgresStore) -> None:
    """After cancelled and failed searches, all connections answer."""

    async def wait() -> None:
        async with store.pool.search_connection() as connection:
            await connection.fetch("SELECT pg_sleep(60)")

    async def fail() -> None:
        async with store.pool.search_connection() as connection:
            await connection.fetch("SELECT 1 / 0")

    for _ in range(3):
        tasks = [asyncio.create_task(wait()) for _ in range(5)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        given_up = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in given_up)
        failed = await asyncio.gather(*(fail() for _ in range(5)), return_exceptions=True)
        assert all(isinstance(one, BadInput) for one in failed)
        pids = await asyncio.gather(*(_pid(store) for _ in range(10)))
        assert len(set(pids)) <= 2


async def test_waiting_too_long_is_overloaded(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When all connections stay in use, a search raises `Overloaded`, and the next one succeeds."""
    # Both are opened before: that may take longer than the wait.
    async with store.pool.search_connection(), store.pool.search_connection():
        monkeypatch.setattr(pool, "_ACQUIRE_TIMEOUT_S", 0.05)
        with pytest.raises(Overloaded):
            await _pid(store)
    assert await _pid(store)
