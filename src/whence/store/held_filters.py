"""Which chunks filters keep, held in this process: to find that out takes longer than to rank.

What is held is true of one state of a collection. It is used for a ranking whose statement tells that the
collection still stands there, see `store.shortcuts`, and which applies the reader's rights itself: a filter
only ever takes away.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import numpy as np
from numpy.typing import NDArray

from whence.schema.filters import Filters
from whence.store.facts import facts_are_kept, matching_numbers
from whence.store.sql.driver import Connection
from whence.store.standing import Standing
from whence.store.vectors import held_vectors
from whence.store.vectors.held_vectors import Matrices

__all__ = ("HeldFilters", "KeptChunks")

#: Bytes held of all filters.
_MOST_BYTES = 64 * 1024 * 1024
_Key = tuple[int, int, tuple[int, ...], Filters]


class KeptChunks:
    """The visible chunks that a filter keeps.

    Args:
        numbers: Of each its number and its slot, int32, shape (n, 2), in no order.
    """

    def __init__(self, numbers: NDArray[np.int32]) -> None:
        self.ords = np.sort(numbers[:, 0])
        self._slots = np.sort(numbers[:, 1])
        self._places: dict[int, NDArray[np.bool_]] = {}
        self._scans = 0
        self.vectors: Matrices | None = None
        """Theirs, once they were scanned often."""

    @property
    def size(self) -> int:
        """Bytes of it."""
        held = sum(one.nbytes for one in self._places.values())
        vectors = self.vectors.size if self.vectors is not None else 0
        return self.ords.nbytes + self._slots.nbytes + held + vectors

    def scanned(self, dimension: int) -> bool:
        """Note that they were scanned; tells whether it is time to hold their vectors."""
        self._scans += 1
        few = len(self.ords) * dimension * 4 <= _MOST_BYTES // 2
        return few and self._scans == held_vectors.SCANS

    def holds(self, ords: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Tell which chunks are among them, by their numbers."""
        places = np.searchsorted(self.ords, ords)
        # Beyond the last nothing is equal to it.
        found: NDArray[np.bool_] = self.ords[np.minimum(places, len(self.ords) - 1)] == ords
        return found

    def places(self, segment: int, slots: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Tell which places of a segment hold one of them; a segment is never written again.

        Args:
            segment: Its id.
            slots: The slot of each of its places.
        """
        found = self._places.get(segment)
        if found is None:
            found = self._places[segment] = np.isin(slots, self._slots, assume_unique=True)
        return found


class HeldFilters:
    """What this process holds of all collections; what was not asked for longest goes first."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._held: OrderedDict[_Key, KeptChunks] = OrderedDict()
        self._turns: dict[_Key, asyncio.Lock] = {}

    async def get(
        self,
        lend: Callable[[], AbstractAsyncContextManager[Connection]],
        known: Standing,
        classes: Sequence[int],
        filters: Filters,
    ) -> KeptChunks | None:
        """Give the visible chunks that a filter keeps; None when it keeps none, or facts are not kept yet.

        Both legs of a search, and whoever asks at the same time, wait for one look. Cost: that of
        `facts.matching_numbers`, once in a state of the collection.

        Args:
            lend: Lends a connection with plans for the values at hand.
            known: Where the collection stood.
            classes: Classes that the reader may see.
            filters: At least one condition.
        """
        key = (known.id, known.version, tuple(classes), filters)
        found = self._found(key)
        if found is not None:
            return found
        turn = self._turns.setdefault(key, asyncio.Lock())
        try:
            async with turn:
                found = self._found(key)
                return found or await self._look(lend, key)
        finally:
            if not turn.locked():
                self._turns.pop(key, None)

    def _found(self, key: _Key) -> KeptChunks | None:
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    async def _look(
        self, lend: Callable[[], AbstractAsyncContextManager[Connection]], key: _Key
    ) -> KeptChunks | None:
        collection_id, version, classes, filters = key
        async with lend() as connection:
            if not await facts_are_kept(connection, collection_id):
                return None
            numbers = await matching_numbers(connection, collection_id, classes, filters)
        if not len(numbers):
            return None
        found = await asyncio.to_thread(KeptChunks, numbers)
        for stale in [one for one in self._held if one[0] == collection_id and one[1] != version]:
            del self._held[stale]
        self._held[key] = found
        self._make_room()
        return found

    async def load(self, connection: Connection, known: Standing, kept: KeptChunks) -> None:
        """Read the vectors of what is kept."""
        kept.vectors = await held_vectors.read_vectors(connection, known, kept.ords)
        self._make_room()

    def _make_room(self) -> None:
        while len(self._held) > 1 and sum(one.size for one in self._held.values()) > self._most:
            self._held.popitem(last=False)
