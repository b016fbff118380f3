"""Which chunks filters keep, held in this process: to find that out takes longer than to rank.

What is held is true of one state of a collection. It is used for a ranking whose statement tells that the
collection still stands there, see `store.shortcuts`, and which applies the reader's rights itself: a filter
only ever takes away.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import numpy as np
from numpy.typing import NDArray

from whence.schema.filters import Filters
from whence.store.postgres.collection_version import Standing
from whence.store.postgres.dense import vector_cache as held_vectors
from whence.store.postgres.dense.vector_cache import Matrices
from whence.store.postgres.driver import Connection
from whence.store.postgres.metadata_index import (
    count_documents,
    facts_are_kept,
    matching_documents,
    matching_numbers,
    visible_numbers,
)
from whence.text.analysis import ANALYZER_VERSION

__all__ = ("HeldFilters", "KeptChunks")

#: Bytes held of all filters.
_MOST_BYTES = 64 * 1024 * 1024
#: All visible chunks are looked up once, for a filter and those to come, when it keeps so many documents and
#: at least one of so many: that takes as long as to look up the chunks of a third of them one by one.
_MANY, _OF_DOCUMENTS = 5000, 6
_State = tuple[int, int, tuple[int, ...]]
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


class _VisibleChunks:
    """All visible chunks of a collection.

    Args:
        documents: Row id of the document of each, shape (n,).
        numbers: Of each its number and its slot, shape (n, 2).
    """

    def __init__(self, documents: NDArray[np.int64], numbers: NDArray[np.int32]) -> None:
        self._documents = documents
        self._numbers = numbers

    @property
    def size(self) -> int:
        """Bytes of it."""
        return self._documents.nbytes + self._numbers.nbytes

    def of(self, documents: NDArray[np.int64]) -> KeptChunks:
        """Give those of some documents. Cost: linear in both."""
        return KeptChunks(self._numbers[np.isin(self._documents, documents)])


class HeldFilters:
    """What this process holds of all collections; what was not asked for longest goes first."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._held: OrderedDict[_Key, KeptChunks] = OrderedDict()
        self._visible: OrderedDict[_State, _VisibleChunks] = OrderedDict()
        self._turns: dict[_Key, asyncio.Lock] = {}

    async def get(
        self,
        lend: Callable[[], AbstractAsyncContextManager[Connection]],
        known: Standing,
        classes: Sequence[int],
        filters: Filters,
    ) -> KeptChunks | None:
        """Give the visible chunks that a filter keeps; None when it keeps none, or facts or words are missing.

        Both legs of a search, and whoever asks at the same time, wait for one look. Cost, once in a state of
        the collection: that of `facts.matching_documents`, and of `facts.matching_numbers` where it keeps few;
        for the first that keeps many, that of `facts.visible_numbers`.

        Args:
            lend: Lends a connection with plans for the values at hand.
            known: Where the collection stood.
            classes: Classes that the reader may see.
            filters: At least one condition.
        """
        if known.analyzer != ANALYZER_VERSION:
            # Chunks are looked up with their slots, which not all may have.
            return None
        state = (known.id, known.version, tuple(classes))
        key = (*state, filters)
        found = self._found(key)
        if found is not None:
            return found
        async with self._turn(key):
            found = self._found(key)
            if found is None:
                async with lend() as connection:
                    found = await self._look(connection, state, filters)
                self._forget_others(state)
                if found is not None:
                    self._held[key] = found
                self._make_room()
            return found

    def _found(self, key: _Key) -> KeptChunks | None:
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    @contextlib.asynccontextmanager
    async def _turn(self, key: _Key) -> AsyncIterator[None]:
        """Let one look something up, and the others wait."""
        turn = self._turns.setdefault(key, asyncio.Lock())
        try:
            async with turn:
                yield
        finally:
            if not turn.locked():
                self._turns.pop(key, None)

    async def _look(
        self, connection: Connection, state: _State, filters: Filters
    ) -> KeptChunks | None:
        collection_id, _, classes = state
        if not await facts_are_kept(connection, collection_id):
            return None
        documents = await matching_documents(connection, collection_id, filters)
        visible = None if documents is None else await self._all(connection, state, len(documents))
        if documents is None or visible is None:
            numbers = await matching_numbers(connection, collection_id, classes, filters)
            found = await asyncio.to_thread(KeptChunks, numbers)
        else:
            found = await asyncio.to_thread(visible.of, documents)
        return found if len(found.ords) else None

    async def _all(self, connection: Connection, state: _State, kept: int) -> _VisibleChunks | None:
        """Give all visible chunks when they are held, or worth it for so many documents that a filter keeps."""
        if state in self._visible:
            self._visible.move_to_end(state)
            return self._visible[state]
        if kept < _MANY or kept * _OF_DOCUMENTS < await count_documents(connection, state[0]):
            return None
        async with self._turn((*state, ())):
            if state not in self._visible:
                found = await visible_numbers(connection, state[0], state[2])
                self._visible[state] = _VisibleChunks(*found)
            return self._visible[state]

    def _forget_others(self, state: _State) -> None:
        """Forget what was held of a collection in other states."""
        collection_id, version, _ = state
        for key in [one for one in self._held if one[0] == collection_id and one[1] != version]:
            del self._held[key]
        for old in [one for one in self._visible if one[0] == collection_id and one[1] != version]:
            del self._visible[old]

    async def load(self, connection: Connection, known: Standing, kept: KeptChunks) -> None:
        """Read the vectors of what is kept."""
        kept.vectors = await held_vectors.read_vectors(connection, known, kept.ords)
        self._make_room()

    def _make_room(self) -> None:
        """Let go of what was not asked for longest: of filters first, the last one stays."""
        while self._size() > self._most and (len(self._held) > 1 or self._visible):
            (self._held if len(self._held) > 1 else self._visible).popitem(last=False)

    def _size(self) -> int:
        return sum(one.size for one in self._held.values()) + sum(
            one.size for one in self._visible.values()
        )
