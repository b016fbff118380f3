"""Rows for binary COPY, encoded column by column, since the codecs of the driver encode each value alone.

PostgreSQL's manual describes the format with the statement: a row is the number of its columns, then length and
bytes of each.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.driver import Connection

_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL = struct.pack("!h", -1)
_LENGTH = struct.Struct("!i")
#: Of an array: dimensions, flags, type of elements, length, lower bound.
_ARRAY = struct.Struct("!iiiii")
#: Number of the type `integer` in `pg_type`, the same in every database.
_INT4 = 23
#: Bytes handed to the driver at a time, about: less than a socket takes at once.
_PIECE = 1 << 16

Numbers = int | Sequence[int] | NDArray[np.signedinteger[Any]]


async def copy_columns(
    connection: Connection,
    table: str,
    numbers: Mapping[str, Numbers],
    texts: Mapping[str, Sequence[bytes]] | None = None,
    *,
    wide: Sequence[str] = (),
) -> None:
    """Write rows by binary COPY. Cost: linear in their bytes.

    Args:
        connection: Inside the writing transaction.
        table: Target table.
        numbers: Columns of integers, one a row; a single number is repeated in every row.
        texts: Columns of bytes: texts in UTF-8, `bytea`, `boolean`, arrays, or JSON after the byte 1, the
            format of `jsonb`.
        wide: The columns of integers that are `bigint`.
    """
    texts = texts or {}
    await copy_rows(
        connection, table, (*numbers, *texts), rows_of_columns(numbers, texts, wide=wide)
    )


async def copy_rows(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[bytes],
    *,
    in_thread: bool = False,
) -> None:
    """Write rows by binary COPY.

    Args:
        connection: Inside the writing transaction.
        table: Target table.
        columns: Its columns, in the order of the rows.
        rows: Encoded rows, some at a time: the server writes the first while the next are encoded.
        in_thread: Whether the rows are encoded off the event loop.
    """
    blocks = iter(rows)

    async def source() -> AsyncIterator[bytes]:
        yield _HEAD
        while (
            block := await asyncio.to_thread(next, blocks, b"") if in_thread else next(blocks, b"")
        ):
            for at in range(0, len(block), _PIECE):
                yield block[at : at + _PIECE]
        yield _TAIL

    await connection.copy_to_table(table, source=source(), columns=columns, format="binary")


async def copy_vectors(
    connection: Connection,
    table: str,
    numbers: Mapping[str, Numbers],
    column: str,
    vectors: NDArray[np.float32],
) -> None:
    """Write rows of integers and one vector each, of pgvector's type. Cost: linear in their bytes."""
    count, dimension = vectors.shape
    # Of a vector: its dimension, two bytes that are 0, and its numbers.
    tail = np.dtype([("e.size", ">i4"), ("e.n", ">i2"), ("e.0", ">i2"), ("e", ">f4", dimension)])
    rows = _fixed(numbers, (), count, 1, tail)
    rows["e.size"] = 4 + 4 * dimension
    rows["e.n"] = dimension
    rows["e"] = vectors
    await copy_rows(connection, table, (*numbers, column), [rows.tobytes()])


def rows_of_columns(
    numbers: Mapping[str, Numbers],
    texts: Mapping[str, Sequence[bytes]],
    *,
    wide: Sequence[str] = (),
) -> Iterator[bytes]:
    """Yield encoded rows, some at a time; arguments as for `copy_columns`."""
    lists = (
        column for column in (*texts.values(), *numbers.values()) if not isinstance(column, int)
    )
    count = len(next(lists))
    heads = _fixed(numbers, wide, count, len(texts))
    size = heads.nbytes + sum(sum(map(len, column)) for column in texts.values())
    most = max(1, _PIECE * count // max(1, size))
    for at in range(0, count, most):
        some = [column[at : at + most] for column in texts.values()]
        yield _joined(heads[at : at + most], some)


def _joined(heads: NDArray[np.void], texts: Sequence[Sequence[bytes]]) -> bytes:
    """Return encoded rows that begin with integers and end with texts."""
    size, head = heads.dtype.itemsize, heads.tobytes()
    width = 1 + 2 * len(texts)
    pieces = [b""] * (len(heads) * width)
    pieces[::width] = [head[at : at + size] for at in range(0, len(head), size)]
    for place, column in enumerate(texts):
        pieces[2 * place + 1 :: width] = map(_LENGTH.pack, map(len, column))
        pieces[2 * place + 2 :: width] = column
    return b"".join(pieces)


def int_arrays(values: NDArray[np.integer[Any]], widths: NDArray[np.integer[Any]]) -> list[bytes]:
    """Return arrays of type `integer[]`, none of them empty, as columns of bytes. Cost: linear.

    Args:
        values: Elements of all arrays, one after the other.
        widths: How many each has.
    """
    elements = np.empty((len(values), 2), dtype=">i4")
    elements[:, 0] = 4
    elements[:, 1] = values
    data = elements.tobytes()
    ends = np.cumsum(widths).tolist()
    heads = {width: _ARRAY.pack(1, 0, _INT4, width, 1) for width in np.unique(widths).tolist()}
    return [heads[to - at] + data[8 * at : 8 * to] for at, to in itertools.pairwise([0, *ends])]


def _fixed(
    numbers: Mapping[str, Numbers],
    wide: Sequence[str],
    count: int,
    others: int,
    tail: np.dtype[np.void] | None = None,
) -> NDArray[np.void]:
    """Return encoded rows of integers."""
    fields: list[tuple[str, object]] = [("columns", ">i2")]
    for name in numbers:
        fields += (f"{name}.size", ">i4"), (name, ">i8" if name in wide else ">i4")
    fields += [] if tail is None else [(name, tail[name]) for name in tail.names or ()]
    rows = np.zeros(count, dtype=np.dtype(fields))
    rows["columns"] = len(numbers) + others
    for name, values in numbers.items():
        rows[f"{name}.size"] = 8 if name in wide else 4
        rows[name] = values
    return rows
