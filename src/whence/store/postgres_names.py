"""The part of the PostgreSQL store that knows the names of passages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from whence.schema.access import Access
from whence.store.checks import is_text, missing_collection
from whence.store.passage_names import LinkStatistics, PassageName
from whence.store.passages import links as passage_links

__all__ = ("PostgresNames",)


class PostgresNames:
    """Names and their links; implements `PassageNames`. Part of `PostgresStore`, which lends connections."""

    _link_shares: passage_links.LinkShares

    def _connection(self) -> AbstractAsyncContextManager[Any]:
        """Lend a connection."""
        raise TypeError("PostgresNames is a part of PostgresStore")

    def _maintain(self, collection: str) -> asyncio.Task[None]:
        """Bring a collection up to date in the background."""
        raise TypeError("PostgresNames is a part of PostgresStore")

    async def link_statistics(self, collection: str, access: Access) -> LinkStatistics | None:
        """Tell how densely what a reader sees is linked; None when links are not known (yet).

        The links of a collection of a former version are found in the background. Cost: one look-up; the first
        time, and when a tenth of what the reader sees is new, linear in the visible documents.
        """
        if not is_text(collection):
            return None
        async with self._connection() as connection:
            found = await self._link_shares.of(connection, collection, access)
            due = found is None and await passage_links.names_due(connection, collection)
        if due:
            self._maintain(collection)
        return found

    async def passage_names(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[PassageName]:
        """Give the rare names that some visible chunks bear or hold, or that a query holds, by name.

        Raises:
            NotFound: There is no such collection.
        """
        if not is_text(collection):
            raise missing_collection(collection)
        async with self._connection() as connection:
            return await passage_links.passage_names(
                connection, collection, chunk_ids, access, query_text
            )
