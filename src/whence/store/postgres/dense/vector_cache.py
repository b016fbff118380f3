"""Vectors of the classes that are scanned again and again, held in this process.

What is held only says which rows can be among the nearest. The database ranks these by its own arithmetic,
leaves out what the reader may not see, and tells whether the collection still stands where it stood when they
were read; see `store.shortcuts`. Nothing is held of a collection that changes between two searches.

Searches that come while one is at work are worked on together: vectors are read from memory once for all of
them, which is what a scan spends its time on.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.collection_version import Standing, standing
from whence.store.postgres.driver import Connection, snapshot
from whence.store.postgres.server.tuning import memory_bytes

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = ("MOST_PLACES", "SCANS", "HeldVectors", "Matrices", "read_vectors")

#: Longest ranking that is prepared here.
MOST_PLACES = 1000
#: Scans of the same rows after which they are held: to read them takes as long as some ten scans.
SCANS = 10
#: Bytes of vectors held, at most, and as a part of the memory.
_MOST_BYTES = 128 * 1024 * 1024
_OF_MEMORY = 16
#: Numbers that are added up at once: to wait for another thread would take longer.
_AT_ONCE = 1_000_000
#: Searches worked on together, at most: bounds the memory for their scores.
_TOGETHER = 32
#: Places whose greatest score is looked at first.
_BLOCK = 64
#: Scores that are sorted as they are.
_FEW = 32 * _BLOCK
#: Readers of one collection whose scans are counted.
_MOST_READERS = 1000
_NONE: Final[NDArray[np.float32]] = np.empty(0, np.float32)
_COUNT = (
    "SELECT count(*) FROM chunk_vec v WHERE v.collection_id = $1 AND v.class_id = ANY($2::int[])"
)
_VECTORS_OF = (
    "SELECT 0 AS class_id, string_agg(int4send(v.ord) || vector_send(v.e), '') AS packed FROM chunk_vec v"
    " WHERE v.collection_id = $1 AND v.ord = ANY($2::int[])"
)
_VECTORS = (
    "SELECT v.class_id, string_agg(int4send(v.ord) || vector_send(v.e), '') AS packed FROM chunk_vec v"
    " WHERE v.collection_id = $1 AND v.class_id = ANY($2::int[]) GROUP BY v.class_id"
)


class _Block(msgspec.Struct, frozen=True):
    """All vectors of one class."""

    ords: NDArray[np.int32]
    vectors: NDArray[np.float32]
    """Shape (n, dimension)."""


class _Asked:
    """A search that waits for its chunks."""

    def __init__(self, query: NDArray[np.float32], limit: int) -> None:
        self.query = query
        self.limit = limit
        self.found: list[int] | Exception | None = None


class Matrices:
    """The vectors of some classes, for searches that may come at once."""

    def __init__(self, blocks: Sequence[_Block]) -> None:
        self._blocks = [block for block in blocks if len(block.ords)]
        self._ords = np.concatenate([np.empty(0, np.int32), *(one.ords for one in self._blocks)])
        self._margin = _margin(self._blocks[0].vectors.shape[1]) if self._blocks else 0.0
        self._turn = asyncio.Lock()
        self._waiting: list[_Asked] = []

    @property
    def size(self) -> int:
        """Bytes of its vectors."""
        return sum(block.vectors.nbytes for block in self._blocks)

    async def nearest(self, query: NDArray[np.float32], limit: int) -> list[int]:
        """Give the numbers of all chunks that can be among the nearest, in no order.

        Cost: linear in the vectors, 0.1 to 0.2 us each at 384 dimensions, and a fraction of it when others ask
        at the same time; off the event loop, where that takes longer than to change threads.

        Args:
            query: A unit vector, float32, shape (dimension,).
            limit: Places of the ranking.
        """
        if self._ords.size * query.size <= _AT_ONCE:
            parts = [np.vecdot(block.vectors, query) for block in self._blocks]
            scores = parts[0] if len(parts) == 1 else np.concatenate([_NONE, *parts])
            return self._near(scores, limit)
        asked = _Asked(query, limit)
        self._waiting.append(asked)
        async with self._turn:
            # Who was cancelled meanwhile is answered with the others.
            while asked.found is None:
                batch = self._waiting[:_TOGETHER]
                found: Sequence[list[int] | Exception]
                try:
                    found = await asyncio.to_thread(self._answers, batch)
                except Exception as error:  # noqa: BLE001 - raised for each of them below
                    # Of all who were worked on together: the next ones begin anew.
                    found = [error] * len(batch)
                for one, ords in zip(batch, found, strict=True):
                    one.found = ords
                del self._waiting[: len(batch)]
        if isinstance(asked.found, Exception):
            raise asked.found
        return asked.found

    def _answers(self, batch: Sequence[_Asked]) -> list[list[int]]:
        queries = np.stack([one.query for one in batch])
        scores = np.empty((len(batch), len(self._ords)), np.float32)
        with _one_thread():
            at = 0
            for block in self._blocks:
                scores[:, at : at + len(block.ords)] = (block.vectors @ queries.T).T
                at += len(block.ords)
        return [self._near(row, one.limit) for row, one in zip(scores, batch, strict=True)]

    def _near(self, scores: NDArray[np.float32], limit: int) -> list[int]:
        found: list[int] = self._ords[_best(scores, limit, self._margin)].tolist()
        return found


_blas_turn = threading.Lock()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let BLAS use one thread: more of them go on spinning for milliseconds after a product of this size."""
    # One at a time: the limit is the whole process's, and undone afterwards.
    with _blas_turn, _pools().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _pools() -> ThreadpoolController:
    """Find the libraries with threads of their own, once: it takes some 15 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _margin(dimension: int) -> float:
    """Give how far below the last place a score can be that another arithmetic puts on it.

    Two sums of `dimension` products of unit vectors in single precision are less than 2 * dimension * 2**-24
    apart whatever their order (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1);
    the last place may be that much too high and the score that much too low. Twice that, for vectors whose
    length is only nearly 1.
    """
    return 8.0 * dimension * 2.0**-24


def _best(scores: NDArray[np.float32], n: int, margin: float) -> NDArray[np.intp]:
    """Give where the n greatest scores stand, and all that are less than a margin below them."""
    if n >= len(scores):
        return np.arange(len(scores))
    if len(scores) <= _FEW:
        ranked = scores.copy()
        # In place: some microseconds less than by a function.
        ranked.partition(len(scores) - n)
        few: NDArray[np.intp] = (scores >= ranked[len(scores) - n] - margin).nonzero()[0]
        return few
    whole = scores[: len(scores) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    level = -np.inf
    if len(whole) >= n:
        # The n-th of the greatest of each block is no greater than the n-th of all.
        tops = whole.max(axis=1)
        level = np.partition(tops, len(tops) - n)[len(tops) - n]
    found = np.flatnonzero(scores >= level - margin)
    values = scores[found]
    last = np.partition(values, len(values) - n)[len(values) - n]
    near: NDArray[np.intp] = found[values >= last - margin]
    return near


class _Collection:
    """What is held of a collection in one state."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.blocks: dict[int, _Block] = {}
        self.readers: dict[tuple[int, ...], Matrices] = {}
        self.scans: dict[tuple[int, ...], int] = {}

    @property
    def size(self) -> int:
        """Bytes of its vectors."""
        return sum(block.vectors.nbytes for block in self.blocks.values())


class HeldVectors:
    """What this process holds of all collections.

    Args:
        most_bytes: Bytes of vectors, at most; those of collections that were not asked for longest go first.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most = most_bytes or min(_MOST_BYTES, memory_bytes() // _OF_MEMORY)
        self._held: OrderedDict[int, _Collection] = OrderedDict()

    def get(self, known: Standing, classes: Sequence[int]) -> Matrices | None:
        """Give the vectors of some classes; None when they are not held as the collection stands."""
        held = self._held.get(known.id)
        if held is None or held.version != known.version:
            return None
        self._held.move_to_end(known.id)
        reader = tuple(classes)
        if reader not in held.readers and held.blocks.keys() >= set(reader):
            held.readers[reader] = Matrices([held.blocks[one] for one in reader])
        return held.readers.get(reader)

    def scanned(self, known: Standing, classes: Sequence[int]) -> bool:
        """Note that vectors were scanned that are not held; tells whether it is time to hold them."""
        held = self._of(known)
        reader = tuple(classes)
        if len(held.scans) >= _MOST_READERS:
            held.scans.clear()
        held.scans[reader] = held.scans.get(reader, 0) + 1
        return held.scans[reader] == SCANS

    def _of(self, known: Standing) -> _Collection:
        held = self._held.get(known.id)
        if held is None or held.version != known.version:
            held = self._held[known.id] = _Collection(known.version)
        self._held.move_to_end(known.id)
        return held

    async def load(self, connection: Connection, collection: str, classes: Sequence[int]) -> None:
        """Read the vectors of some classes, unless they are too many. Cost: linear in them, some 10 us each.

        Raises:
            NotFound: There is no such collection.
        """
        async with snapshot(connection):
            known = await standing(connection, collection)
            missing = sorted(set(classes) - self._of(known).blocks.keys())
            rows = await connection.fetchval(_COUNT, known.id, missing)
            size = rows * known.info.model.dimension * 4
            if size > self._most:
                return
            packed = await connection.fetch(_VECTORS, known.id, missing)
        found = await asyncio.to_thread(_unpacked, packed, known.info.model.dimension)
        self._make_room(known.id, size)
        held = self._of(known)
        nothing = _Block(np.empty(0, np.int32), np.empty((0, known.info.model.dimension), "f4"))
        held.blocks |= dict.fromkeys(missing, nothing) | found

    def _make_room(self, collection_id: int, size: int) -> None:
        """Let go of what was not asked for longest, the collection's own last."""
        for one in [*(n for n in self._held if n != collection_id), collection_id]:
            if sum(held.size for held in self._held.values()) + size <= self._most:
                return
            self._held.pop(one, None)


async def read_vectors(
    connection: Connection, known: Standing, ords: NDArray[np.int32]
) -> Matrices:
    """Read the vectors of some chunks. Cost: linear in them."""
    rows = await connection.fetch(_VECTORS_OF, known.id, ords.tolist())
    there = [row for row in rows if row["packed"] is not None]
    found = await asyncio.to_thread(_unpacked, there, known.info.model.dimension)
    return Matrices(list(found.values()))


def _unpacked(rows: Sequence[Any], dimension: int) -> dict[int, _Block]:
    """Read numbers and vectors as PostgreSQL sends them: dimension and flags before the numbers, big endian."""
    layout = np.dtype([("ord", ">i4"), ("head", "V4"), ("vector", ">f4", (dimension,))])
    found = {}
    for row in rows:
        table = np.frombuffer(row["packed"], layout)
        found[row["class_id"]] = _Block(
            table["ord"].astype(np.int32), table["vector"].astype(np.float32)
        )
    return found
