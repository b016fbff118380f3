"""Reservation of numbers of identity columns, before the rows are written."""

from __future__ import annotations

from collections.abc import Sequence

from whence.store.postgres.driver import Connection

#: `OFFSET 0` makes the server look the sequence up once, not for every number.
_RESERVE = """
    SELECT t.place, min(x.n) AS low,
        CASE WHEN max(x.n) - min(x.n) >= t.count THEN array_agg(x.n) END AS apart
    FROM (SELECT w.count, w.place, pg_get_serial_sequence(w.name, w.column)::regclass AS sequence
        FROM unnest($1::text[], $2::text[], $3::int[])
            WITH ORDINALITY w(name, "column", count, place) OFFSET 0) t
    CROSS JOIN LATERAL (SELECT nextval(t.sequence) AS n FROM generate_series(1, t.count)) x
    GROUP BY t.place, t.count"""


async def reserve(connection: Connection, table: str, column: str, n: int) -> Sequence[int]:
    """Reserve n numbers of an identity column, ascending; they are used up also when the transaction fails."""
    (numbers,) = await reserve_all(connection, (table, column, n))
    return numbers


async def reserve_all(connection: Connection, *wanted: tuple[str, str, int]) -> list[Sequence[int]]:
    """Reserve numbers of several columns, as `reserve` does, in one statement.

    Args:
        connection: To the database.
        wanted: Table, column, and how many.
    """
    rows = await connection.fetch(_RESERVE, *map(list, zip(*wanted, strict=True)))
    found: list[Sequence[int]] = [()] * len(wanted)
    for row in rows:
        # Almost always consecutive; another connection may have reserved some between.
        n = wanted[row["place"] - 1][2]
        together = range(row["low"], row["low"] + n)
        found[row["place"] - 1] = together if row["apart"] is None else sorted(row["apart"])
    return found
