"""Numbers of identity columns, taken before the rows are written."""

from __future__ import annotations

from whence.store.driver import Connection

__all__ = ("reserve",)


async def reserve(connection: Connection, table: str, column: str, n: int) -> list[int]:
    """Take n numbers of an identity column, ascending. Cost: one statement, linear in n.

    They are gone for good, also when the transaction fails.
    """
    # OFFSET keeps the name of the sequence from being looked up for every number.
    numbers: list[int] | None = await connection.fetchval(
        "SELECT array_agg(nextval(s.name)) FROM (SELECT pg_get_serial_sequence($1, $2)::regclass"
        " AS name OFFSET 0) s, generate_series(1, $3::int)",
        table,
        column,
        n,
    )
    return sorted(numbers or ())
