"""Numbers of identity columns, taken before the rows are written."""

from __future__ import annotations

from collections.abc import Sequence

from whence.store.driver import Connection

__all__ = ("reserve",)


async def reserve(connection: Connection, table: str, column: str, n: int) -> Sequence[int]:
    """Take n numbers of an identity column, ascending. Cost: one statement, linear in n.

    They are gone for good, also when the transaction fails.
    """
    # OFFSET keeps the name of the sequence from being looked up for every number.
    row = await connection.fetchrow(
        "SELECT min(x.n) AS low, CASE WHEN max(x.n) - min(x.n) >= $3 THEN array_agg(x.n) END AS apart"
        " FROM (SELECT nextval(s.name) AS n FROM (SELECT pg_get_serial_sequence($1, $2)::regclass"
        " AS name OFFSET 0) s, generate_series(1, $3::int)) x",
        table,
        column,
        n,
    )
    if row["low"] is None:
        return ()
    # Nearly always one after the other; another connection may have taken some between.
    return range(row["low"], row["low"] + n) if row["apart"] is None else sorted(row["apart"])
