"""The part of the PostgreSQL store that knows names: of passages, and of symbols."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.store.linked_titles import LinkStatistics, LinkTitle
from whence.store.postgres import symbol_lookup as symbols
from whence.store.postgres.links import queries as passage_links
from whence.store.symbol_names import SymbolMatch
from whence.store.validation import check_limit, is_text, missing_collection

__all__ = ("PostgresNames",)

T = TypeVar("T")


class PostgresNames:
    """Names and their links; implements `SupportsLinks` and `SupportsSymbols`.

    Part of `PostgresStore`, which lends connections.
    """

    _link_shares: passage_links.LinkStatisticsCache

    def _connection(self) -> AbstractAsyncContextManager[Any]:
        """Lend a connection."""
        raise TypeError("PostgresNames is a part of PostgresStore")

    def _maintain(self, collection: str) -> asyncio.Task[None]:
        """Bring a collection up to date in the background."""
        raise TypeError("PostgresNames is a part of PostgresStore")

    async def _with_words(self, collection: str, read: Callable[[Any], Awaitable[T | None]]) -> T:
        """Read what may have to be indexed first."""
        raise TypeError("PostgresNames is a part of PostgresStore")

    async def find_symbols(
        self, collection: str, name: str, *, limit: int, access: Access, filters: Filters = ()
    ) -> list[SymbolMatch]:
        """Give the visible chunks that go by a name, those that fit best first, equal ones by id.

        Raises:
            BadInput: The limit is below 1, or no visible document has a key of the filters.
        """
        check_limit(limit)
        if not is_text(collection) or not is_text(name):
            return []
        return await self._with_words(
            collection,
            lambda connection: symbols.find_symbols(
                connection, collection, name, limit=limit, access=access, filters=filters
            ),
        )

    async def link_statistics(self, collection: str, access: Access) -> LinkStatistics | None:
        """Tell how densely what a reader sees is linked; None when links are not known (yet).

        The links of a collection of a former version are found in the background. Cost: one look-up; the first
        time, and when a tenth of what the reader sees is new, linear in the visible documents.
        """
        if not is_text(collection):
            return None
        async with self._connection() as connection:
            found = await self._link_shares.of(connection, collection, access)
            due = found is None and await passage_links.links_pending(connection, collection)
        if due:
            self._maintain(collection)
        return found

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[LinkTitle]:
        """Give the rare names that some visible chunks bear or hold, or that a query holds, by name.

        Raises:
            NotFound: There is no such collection.
        """
        if not is_text(collection):
            raise missing_collection(collection)
        async with self._connection() as connection:
            return await passage_links.linked_titles(
                connection, collection, chunk_ids, access, query_text
            )
