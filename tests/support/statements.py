"""Statements that a test sends to a store's database itself, past the store."""

from __future__ import annotations

from typing import Any

import asyncpg


async def rows_of(url: str, *statements: str) -> list[Any]:
    """Run statements on a connection of their own; gives the rows of the last."""
    connecting: Any = asyncpg.connect
    connection = await connecting(url, server_settings={"search_path": "whence, public"})
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return list(await connection.fetch(statements[-1]))
    finally:
        await connection.close()
