"""Connections for statements that leave nothing behind, lent without a message to the server or a task.

A search that is remembered takes some 0.3 ms. A pool's ways to lend a connection and to take it back, which
must be safe whatever was done on it, are tasks of their own and took half as long again.
"""

from __future__ import annotations

import asyncio

from whence.store.postgres.driver import Connection, Pool, errors

__all__ = ("QuickPool",)


class QuickPool:
    """Keeps connections of a pool at hand after use.

    Args:
        pool: Opens them; nobody else uses it.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._turns = asyncio.Semaphore(pool.get_max_size())
        self._idle: list[Connection] = []

    async def acquire(self, *, timeout: float) -> Connection:
        """Lend a connection.

        Args:
            timeout: Seconds to wait for one, and to open one.

        Raises:
            TimeoutError: All are in use for that long, or the server does not answer.
        """
        if self._turns.locked():
            async with asyncio.timeout(timeout):
                await self._turns.acquire()
        else:
            await self._turns.acquire()
        try:
            return await self._open(timeout)
        except BaseException:
            self._turns.release()
            raise

    async def _open(self, timeout: float) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if _is_open(connection):
                return connection
            await self._pool.release(connection)
        return await self._pool.acquire(timeout=timeout)

    async def release(self, connection: Connection, *, whole: bool) -> None:
        """Take a connection back.

        Args:
            connection: Lent before.
            whole: Whether all that was asked on it was answered; what is not, the pool clears away.
        """
        try:
            if whole:
                self._idle.append(connection)
            else:
                await self._pool.release(connection)
        finally:
            self._turns.release()

    def get_size(self) -> int:
        """Give how many connections are open."""
        return self._pool.get_size()

    def get_max_size(self) -> int:
        """Give how many may be."""
        return self._pool.get_max_size()

    async def close(self) -> None:
        """Close all connections once they are given back."""
        while self._idle:
            await self._pool.release(self._idle.pop())
        await self._pool.close()

    def terminate(self) -> None:
        """Close all connections at once."""
        self._pool.terminate()


def _is_open(connection: Connection) -> bool:
    try:
        return not connection.is_closed()
    except errors.InterfaceError:
        # It was cut off while it waited here, and the pool noticed.
        return False
