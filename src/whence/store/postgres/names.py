"""Names in PostgreSQL: chunks by the name of what they define, and links between passages."""

from __future__ import annotations

from collections.abc import Sequence

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.store.linked_titles import LinkStatistics, LinkTitle
from whence.store.postgres import symbol_lookup
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.links import queries as passage_links
from whence.store.postgres.maintenance import Maintenance
from whence.store.postgres.pool import ConnectionPool
from whence.store.symbol_names import SymbolMatch
from whence.store.validation import check_limit, is_text, missing_collection


class PostgresNames:
    """Implements `SupportsLinks` and `SupportsSymbols`.

    Args:
        pool: Lends connections.
        maintenance: Indexes the names of a collection of a former version.
        cache: Keeps the chunks that filters keep, and link statistics.
    """

    def __init__(self, pool: ConnectionPool, maintenance: Maintenance, cache: ByteCache) -> None:
        self._pool = pool
        self._maintenance = maintenance
        self._cache = cache

    async def find_symbols(
        self, collection: str, name: str, *, limit: int, access: Access, filters: Filters = ()
    ) -> list[SymbolMatch]:
        """Return the visible chunks that define a name, best fit first, ties by id."""
        check_limit(limit)
        if not is_text(collection) or not is_text(name):
            return []
        return await self._maintenance.read_indexed(
            collection,
            lambda connection: symbol_lookup.find_symbols(
                connection,
                collection,
                name,
                limit=limit,
                access=access,
                filters=filters,
                cache=self._cache,
            ),
        )

    async def link_statistics(self, collection: str, access: Access) -> LinkStatistics | None:
        """Return how densely the visible passages are linked; None while links are not indexed.

        Links of a collection of a former version are indexed in the background. Cost: one look-up; the first
        time, and when a tenth of what the reader sees is new, linear in the visible documents.
        """
        if not is_text(collection):
            return None
        async with self._pool.connection() as connection:
            found = await passage_links.link_statistics(connection, collection, access, self._cache)
            due = found is None and await passage_links.links_pending(connection, collection)
        if due:
            self._maintenance.start(collection)
        return found

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[LinkTitle]:
        """See `SupportsLinks.linked_titles`."""
        if not is_text(collection):
            raise missing_collection(collection)
        async with self._pool.connection() as connection:
            return await passage_links.linked_titles(
                connection, collection, chunk_ids, access, query_text
            )
