"""Searches of collections that were searched before: one message to the database, where a first takes several.

What a search has to find out first is remembered: where the collection stands, the classes of the reader, how
much they see; and vectors and postings that are used again and again are held. Nothing of that is trusted. The
statement that every ranking ends with applies the reader's rights itself, gives the tags for the second line,
and says in which state it found the collection and the classes. In another state than the remembered one,
whatever was made of it is thrown away, and the search begins anew without this module.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from whence.schema.access import Access
from whence.schema.errors import WhenceError
from whence.schema.filters import Filters
from whence.schema.search import Candidate, Match
from whence.store.postgres.acl_classes import allowed_classes, remembered_classes
from whence.store.postgres.chunk_reader import (
    LARGEST_LIMIT,
    dense_candidates,
    recalled_held,
    recalled_near,
    recalled_numbers_near,
    recalled_scan,
)
from whence.store.postgres.collection_version import Changed, Standing, StandingMemory, standing
from whence.store.postgres.dense.vector_cache import MOST_PLACES, HeldVectors
from whence.store.postgres.dense.vector_index import (
    MOST_EF,
    Neighbourhood,
    VisibleCounts,
    fewest_visible,
    neighbourhood,
    rows_for_kept,
)
from whence.store.postgres.driver import Connection
from whence.store.postgres.filter_cache import HeldFilters, KeptChunks
from whence.store.postgres.lexical.posting_cache import HeldPostings
from whence.store.postgres.lexical.search import recalled_lexical
from whence.store.validation import check_query
from whence.text.analysis import ANALYZER_VERSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ("Shortcuts",)

logger = logging.getLogger(__name__)

Lend = Callable[[], AbstractAsyncContextManager[Connection]]


class Shortcuts:
    """What one store remembers.

    Args:
        lend: Lends a connection that makes plans for the values at hand.
        lend_quick: Lends one with plans for any values, that asks graphs iteratively and without sorts.
    """

    def __init__(self, lend: Lend, lend_quick: Lend) -> None:
        self.standings = StandingMemory()
        self.counts = VisibleCounts()
        self._lend = lend
        self._lend_quick = lend_quick
        self._vectors = HeldVectors()
        self._postings = HeldPostings()
        self._filters = HeldFilters()
        self._loading: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Stop reading what was to be held."""
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)

    async def dense(
        self,
        collection: str,
        vector: NDArray[np.float32],
        *,
        limit: int,
        access: Access,
        threshold: float,
        exact: bool,
        filters: Filters = (),
    ) -> list[Candidate] | None:
        """Rank by cosine as `search.search_dense` does; None when it has to be asked."""
        known = self.standings.get(collection)
        classes = None if known is None else remembered_classes(access, known.epoch)
        if known is None or classes is None:
            return None
        try:
            query = check_query(known.info, vector, limit, threshold)
        except WhenceError:
            # For the search that finds it out anew: the error may be about a state that is gone.
            return None
        limit = min(limit, LARGEST_LIMIT)
        try:
            if filters:
                rows = await self._filtered(known, classes, query, limit, threshold, exact, filters)
            else:
                way = None if exact else self._way(known, classes, limit)
                rows = await self._ranked(known, classes, query, limit, threshold, way)
        except Changed:
            self.standings.forget(collection)
            return None
        return None if rows is None else dense_candidates(rows, limit, access, threshold)

    def _way(self, known: Standing, classes: list[int], limit: int) -> Neighbourhood | None:
        """Tell how to ask the graph; None when every row is looked at.

        Raises:
            Changed: It is not known how many rows are visible.
        """
        if not known.indexed or known.chunks <= fewest_visible(limit, known.chunks):
            return None
        visible = self.counts.peek(known.id, classes)
        if visible is None:
            raise Changed
        return neighbourhood(limit, visible, known.chunks, known.measured)

    async def _ranked(
        self,
        known: Standing,
        classes: list[int],
        query: NDArray[np.float32],
        limit: int,
        threshold: float,
        way: Neighbourhood | None,
    ) -> list[Any] | None:
        if way is not None:
            async with self._lend_quick() as connection:
                rows = await recalled_near(connection, known, classes, query, limit, way)
            return rows if len(rows) >= limit else None
        if limit <= MOST_PLACES:
            held = self._vectors.get(known, classes)
            ords = None if held is None else await held.nearest(query, limit)
            if ords is not None and len(ords) <= 2 * MOST_PLACES:
                async with self._lend_quick() as connection:
                    return await recalled_held(connection, known, classes, query, ords)
            if held is None and self._vectors.scanned(known, classes):
                name = known.info.name
                self._start(lambda connection: self._vectors.load(connection, name, classes))
        async with self._lend() as connection:
            return await recalled_scan(connection, known, classes, query, limit, threshold)

    async def _filtered(
        self,
        known: Standing,
        classes: list[int],
        query: NDArray[np.float32],
        limit: int,
        threshold: float,
        exact: bool,
        filters: Filters,
    ) -> list[Any] | None:
        """Rank what a filter keeps: near by as the graph tells, or all of it when that is few or not enough."""
        kept = await self._filters.get(self._lend, known, classes, filters)
        if kept is None:
            return None
        visible = self.counts.peek(known.id, classes) or known.chunks
        passed = rows_for_kept(limit, len(kept.ords), visible)
        if known.indexed and not exact and passed is not None:
            rows = await self._near_kept(known, classes, query, limit, kept, passed)
            if rows is not None:
                return rows
        if kept.vectors is not None and limit <= MOST_PLACES:
            ords = await kept.vectors.nearest(query, limit)
            if len(ords) <= 2 * MOST_PLACES:
                async with self._lend_quick() as connection:
                    return await recalled_held(connection, known, classes, query, ords)
        elif kept.scanned(query.size):
            self._start(lambda connection: self._filters.load(connection, known, kept))
        async with self._lend() as connection:
            ords = kept.ords.tolist()
            return await recalled_scan(connection, known, classes, query, limit, threshold, ords)

    async def _near_kept(
        self,
        known: Standing,
        classes: list[int],
        query: NDArray[np.float32],
        limit: int,
        kept: KeptChunks,
        passed: int,
    ) -> list[Any] | None:
        """Rank what is kept of the rows near by; None when that is not enough."""
        way = Neighbourhood(limit, 0.0, known.chunks)
        way.fetched = passed
        way.ef_search = min(MOST_EF, max(way.ef_search, passed))
        async with self._lend_quick() as connection:
            ords, distances = await recalled_numbers_near(connection, known, classes, query, way)
            inside = kept.holds(ords)
            ords, distances = ords[inside], distances[inside]
            if len(ords) < limit:
                return None
            last = sorted(distances.tolist())[limit - 1]
            best = ords[distances <= last].tolist()
            return await recalled_held(connection, known, classes, query, best)

    async def prime(self, collection: str, access: Access) -> None:
        """Find out what a search by memory has to know of a collection, unless it is known.

        Raises:
            NotFound: There is no such collection.
        """
        known = self.standings.get(collection)
        if known is not None and remembered_classes(access, known.epoch) is not None:
            return
        async with self._lend() as connection:
            known = await standing(connection, collection)
            await allowed_classes(connection, access, known.epoch)
        self.standings.put(known)

    def _start(self, read: Callable[[Connection], Awaitable[None]]) -> None:
        """Start to read vectors that are to be held."""
        task = asyncio.create_task(self._run_load(read))
        self._loading.add(task)
        task.add_done_callback(self._end_load)

    async def _run_load(self, read: Callable[[Connection], Awaitable[None]]) -> None:
        async with self._lend() as connection:
            await read(connection)

    def _end_load(self, task: asyncio.Task[None]) -> None:
        self._loading.discard(task)
        # Nothing is lost: searches go on asking the database.
        if not task.cancelled() and task.exception() is not None:
            logger.warning(
                "reading vectors into memory failed",
                extra={"action": "hold"},
                exc_info=task.exception(),
            )

    async def lexical(
        self,
        collection: str,
        query_text: str,
        *,
        limit: int,
        access: Access,
        match: Match = "any",
        filters: Filters = (),
    ) -> list[Candidate] | None:
        """Rank by words as `lexical.search_lexical` does; None when it has to be asked."""
        known = self.standings.get(collection)
        if known is None or known.analyzer != ANALYZER_VERSION or limit < 1:
            return None
        classes = remembered_classes(access, known.epoch)
        if classes is None:
            return None
        kept = None
        if filters:
            kept = await self._filters.get(self._lend, known, classes, filters)
            if kept is None:
                return None
        try:
            async with self._lend_quick() as connection:
                return await recalled_lexical(
                    connection,
                    known,
                    self._postings,
                    query_text,
                    limit=limit,
                    access=access,
                    classes=classes,
                    match=match,
                    kept=kept,
                )
        except Changed:
            self.standings.forget(collection)
            return None
