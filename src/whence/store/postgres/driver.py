"""The part of asyncpg that the store uses, with types; asyncpg has none."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

import asyncpg

#: The driver's exceptions, by name.
errors: Any = asyncpg

_connect: Any = asyncpg.connect
_create_pool: Any = asyncpg.create_pool


class Connection(Protocol):
    """One connection, or one lent by a pool."""

    async def execute(self, query: str, *args: Any) -> str:
        """Run a statement; return its tag, e.g. `DELETE 3`."""

    async def executemany(self, command: str, args: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row of arguments, in one transaction."""

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Return all rows."""

    async def fetchrow(self, query: str, *args: Any) -> Any:
        """Return the first row, or None."""

    async def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Return the first value of the first row, or None."""

    async def copy_records_to_table(
        self, table_name: str, *, records: Iterable[Sequence[Any]], columns: Sequence[str]
    ) -> str:
        """Write rows by binary COPY."""

    async def copy_to_table(
        self, table_name: str, *, source: Any, columns: Sequence[str], **options: Any
    ) -> str:
        """Write the bytes that a source yields; options of COPY, such as `format`."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Return a transaction for the time of a block."""

    def get_server_version(self) -> Any:
        """Return the server's version; `.major` is its first number."""

    def get_server_pid(self) -> int:
        """Return the process id of its server process."""

    def is_in_transaction(self) -> bool:
        """Return whether a transaction is open."""

    def is_closed(self) -> bool:
        """Return whether the connection is closed."""

    async def close(self, *, timeout: float | None = None) -> None:
        """Close after ending the session."""

    def terminate(self) -> None:
        """Close without ending the session."""


def iso_utc(moment: datetime | None) -> str:
    """Return a time of a row as ISO 8601 in UTC, or an empty text for NULL."""
    return "" if moment is None else moment.astimezone(UTC).isoformat()


async def connect(url: str, timeout_s: float) -> Connection:
    """Open one connection."""
    connection: Connection = await _connect(url, timeout=timeout_s)
    return connection


async def create_pool(url: str, **options: Any) -> Any:
    """Open an `asyncpg.Pool`; options as for `asyncpg.create_pool`."""
    return await _create_pool(url, **options)


def read_transaction(connection: Connection, *settings: str) -> AbstractAsyncContextManager[None]:
    """Read one state of the database for the time of a block, with settings that end with it."""
    return _transaction(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", settings)


def write_transaction(connection: Connection, *settings: str) -> AbstractAsyncContextManager[None]:
    """Write in one transaction for the time of a block, with settings that end with it."""
    return _transaction(connection, "BEGIN", settings)


async def set_local(connection: Connection, *settings: str) -> None:
    """Change settings until the transaction ends."""
    await connection.execute("; ".join(_assigned(settings)))


def _assigned(settings: Sequence[str]) -> list[str]:
    return [f"SET LOCAL {one}" for one in settings]


@contextlib.asynccontextmanager
async def _transaction(
    connection: Connection, begin: str, settings: Sequence[str]
) -> AsyncIterator[None]:
    """Begin and end with a message each; the driver's own transactions take one more for each setting."""
    await connection.execute("; ".join([begin, *_assigned(settings)]))
    try:
        yield
    except BaseException:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise
    await connection.execute("COMMIT")
