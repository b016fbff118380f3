"""Rows made column by column are those of PostgreSQL's binary COPY."""

from __future__ import annotations

import struct
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from whence.store.postgres import binary_copy as copying
from whence.store.postgres.binary_copy import rows_of_columns

INTEGERS = st.integers(-(2**31), 2**31 - 1)
ROWS = st.lists(
    st.tuples(
        INTEGERS, st.integers(-(2**63), 2**63 - 1), st.binary(max_size=9), st.text(max_size=9)
    )
)


def row(*values: bytes) -> bytes:
    """Return a row as the manual has it: how many columns, then length and bytes of each."""
    columns = [struct.pack("!i", len(value)) + value for value in values]
    return struct.pack("!h", len(values)) + b"".join(columns)


@given(ROWS, INTEGERS, st.sampled_from([1, 60, 1 << 16]))
def test_rows_are_as_the_manual_has_them(
    rows: list[tuple[int, int, bytes, str]], same: int, piece: int
) -> None:
    """Every value of every column stands in its row, in the order of the columns, however many go at a time."""
    expected = b"".join(
        row(struct.pack("!i", a), struct.pack("!q", b), struct.pack("!i", same), c, d.encode())
        for a, b, c, d in rows
    )
    with patch.object(copying, "_PIECE", piece):
        found = list(
            rows_of_columns(
                {"a": [r[0] for r in rows], "b": [r[1] for r in rows], "same": same},
                {"c": [r[2] for r in rows], "d": [r[3].encode() for r in rows]},
                wide=("b",),
            )
        )
    assert b"".join(found) == expected
    assert piece > 1 or len(found) == len(rows)
