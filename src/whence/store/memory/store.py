"""The store in memory: the same rules and the same order as the store on PostgreSQL, for tests and trials."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from whence.store.memory.documents import MemoryDocuments
from whence.store.memory.names import MemoryNames
from whence.store.memory.search import MemoryPart, MemorySearch, MemoryTraces
from whence.store.protocols import StoreOverview

_now = partial(datetime.now, UTC)


class MemoryStore(MemoryDocuments, MemorySearch, MemoryNames, MemoryTraces):
    """Chunks, names and traces in memory; subclass it for a store with other storage.

    Its methods are those of its bases; `whence.store.protocols` specifies them.
    """

    def __init__(self, *, clock: Callable[[], datetime] = _now) -> None:
        MemoryPart.__init__(self, clock)
        MemoryTraces.__init__(self, clock)

    async def aclose(self) -> None:
        """Free nothing, so that all stores are closed the same way."""

    async def overview(self) -> StoreOverview:
        """Return how much the store holds."""
        recorded = [stored.recorded_at for stored in self._traces.values()]
        return StoreOverview(
            server="memory", questions=len(recorded), asked_at=max(recorded, default="")
        )
