"""Connections to one database: opened with its migrations applied, lent for a block, errors made ours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from pgvector.asyncpg import register_vector

from whence.schema.errors import Overloaded, Unavailable, WhenceError
from whence.store.postgres.driver import Connection, connect, create_pool
from whence.store.postgres.errors import (
    DRIVER_ERRORS,
    address_of,
    check_url,
    is_connection_lost,
    translate,
)
from whence.store.postgres.migrate import SCHEMA, extension_schema, migrate, migrations
from whence.store.postgres.server.server import EmbeddedServer

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 10.0
_ACQUIRE_TIMEOUT_S = 30.0
_LOCK_TIMEOUT_S = 60.0
#: Throughput levels off at four to eight connections per core; more only queue inside the server.
_CONNECTIONS_PER_CORE = 4
#: Most connections of a pool by default; several processes share the server's `max_connections`.
_MOST_CONNECTIONS = 32


class ConnectionPool:
    """Lends connections; restarts an embedded server that died.

    There are two pools. Connections of the first plan every statement for its values: a plan that fits every
    array of classes fits none, generic plans of scans took 400 times longer. Connections of the second plan a
    statement once, since planning a search of an HNSW graph or of postings takes longer than running it.

    Args:
        pool: For writes and for statements that scan.
        search_pool: For searches by index, which leave no settings or locks behind.
        where: Address of the server for people, without password.
        server: The embedded server that the connections lead to, if any.
    """

    def __init__(
        self, pool: Any, search_pool: Any, where: str, server: EmbeddedServer | None
    ) -> None:
        self._pool = pool
        self._search_pool = search_pool
        self._where = where
        self._server = server

    @classmethod
    async def open(
        cls, source: str | EmbeddedServer, *, size: int | None, statement_timeout_s: float
    ) -> ConnectionPool:
        """Bring the database to the schema of this version and open connections.

        Args:
            source: A URL `postgresql://...`, or an embedded server that was started.
            size: Most connections of each pool, 1 or more; None for four per core, at most 32.
            statement_timeout_s: Longest a statement may take, in seconds.
        """
        server = source if isinstance(source, EmbeddedServer) else None
        url = source if isinstance(source, str) else source.url()
        check_url(url)
        where = address_of(url)
        most = size or min(_MOST_CONNECTIONS, _CONNECTIONS_PER_CORE * (os.cpu_count() or 1))
        with _translated(where):
            vector_schema = await _migrate(url)
            settings = _settings(vector_schema, statement_timeout_s)
            pool = await _create(
                url, vector_schema, 1, most, {**settings, "plan_cache_mode": "force_custom_plan"}
            )
            search_settings = {
                **settings,
                "plan_cache_mode": "force_generic_plan",
                # A plan is kept while tables grow, so it must not read one whole. Only an HNSW graph gives
                # rows in order of distance without a sort.
                "enable_seqscan": "off",
                "enable_sort": "off",
                # A bitmap of the rows of a reader costs 3 ms of 13 where 10,000 rows are compared; their index
                # has them in the order of the table.
                "enable_bitmapscan": "off",
                "hnsw.iterative_scan": "relaxed_order",
            }
            search_pool = await _create(
                url, vector_schema, 0, most, search_settings, reset=_keep_settings
            )
        return cls(pool, search_pool, where, server)

    async def aclose(self) -> None:
        """Close all connections; statements still running after 10 s are cut off."""
        # A caller that comes later finds no connection, which does not mean that the server died.
        self._server = None
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._search_pool.close()
                await self._pool.close()
        except TimeoutError:
            self._search_pool.terminate()
            self._pool.terminate()

    @property
    def home(self) -> Path | None:
        """The folder of the embedded server; None of any other server."""
        return None if self._server is None else self._server.home

    @property
    def size(self) -> int:
        """Most connections of each pool."""
        size: int = self._pool.get_max_size()
        return size

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection whose settings and locks may be changed; they are reset afterwards."""
        return self._lend(self._pool)

    def search_connection(self) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection that plans a statement once; its settings must not be changed."""
        return self._lend(self._search_pool)

    @contextlib.asynccontextmanager
    async def _lend(self, pool: Any) -> AsyncIterator[Connection]:
        try:
            with _translated(self._where):
                connection = await self._acquire(pool)
                try:
                    yield connection
                finally:
                    await pool.release(connection)
        except Unavailable as error:
            if self._server is not None and error.__cause__ and is_connection_lost(error.__cause__):
                logger.warning("the embedded server died", extra={"action": "restart"})
                await self._server.restart()
            raise

    async def _acquire(self, pool: Any) -> Connection:
        try:
            # The pool's own time limit makes a task of each call.
            async with asyncio.timeout(_ACQUIRE_TIMEOUT_S):
                connection: Connection = await pool.acquire()
        except TimeoutError as error:
            if pool.get_size() < pool.get_max_size():
                raise
            raise Overloaded(
                f"all {pool.get_size()} connections to {self._where} are in use"
            ) from error
        return connection


@contextlib.contextmanager
def _translated(where: str) -> Iterator[None]:
    """Raise our errors in place of the driver's."""
    try:
        yield
    except WhenceError:
        raise
    except (*DRIVER_ERRORS, OSError, TimeoutError) as error:
        raise translate(error, where) from error


async def _migrate(url: str) -> str:
    """Bring the database up to date; return the schema that pgvector is in."""
    connection = await connect(url, _CONNECT_TIMEOUT_S)
    try:
        await migrate(connection, migrations())
        return await extension_schema(connection) or "public"
    finally:
        await connection.close(timeout=_CLOSE_TIMEOUT_S)


async def _create(
    url: str,
    vector_schema: str,
    min_size: int,
    max_size: int,
    settings: dict[str, str],
    reset: Callable[[Any], Awaitable[None]] | None = None,
) -> Any:
    """Open a pool. Settings go into the start-up message: a reset undoes what `init` sets."""

    async def register(connection: Any) -> None:
        await register_vector(connection, schema=vector_schema)

    return await create_pool(
        url,
        min_size=min_size,
        max_size=max_size,
        init=register,
        timeout=_CONNECT_TIMEOUT_S,
        server_settings=settings,
        reset=reset,
    )


async def _keep_settings(connection: Any) -> None:
    """Reset nothing, which saves a message for each search."""
    del connection


def _settings(vector_schema: str, statement_timeout_s: float) -> dict[str, str]:
    """Return what all connections have in common."""
    return {
        "application_name": "whence",
        "search_path": f'{SCHEMA}, public, "{vector_schema}"',
        "jit": "off",
        "statement_timeout": str(int(statement_timeout_s * 1000)),
        "lock_timeout": str(int(_LOCK_TIMEOUT_S * 1000)),
        "idle_in_transaction_session_timeout": str(int(_LOCK_TIMEOUT_S * 1000)),
    }
