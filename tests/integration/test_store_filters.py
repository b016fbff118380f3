"""The PostgreSQL store narrows by metadata as every store does, and makes up for what is not kept yet."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from whence.schema.access import Access
from whence.schema.filters import parse_filters
from whence.store.postgres.store import PostgresStore
from whence.testing.filter_suite import FilterSuite
from whence.testing.store_samples import QUERY


class TestPostgresFilters(FilterSuite):
    """All behaviours of the suite."""

    @pytest.fixture
    def store(self, postgres_store: PostgresStore) -> PostgresStore:
        """Return an empty store."""
        return postgres_store

    async def test_metadata_of_a_former_version_is_indexed(
        self, store: PostgresStore, database_url: str
    ) -> None:
        """The first filter indexes metadata that a former version has not indexed."""
        name = await self._filled(store)
        connection: Any = await asyncpg.connect(database_url)
        await connection.execute("SET search_path TO whence")
        await connection.execute("DELETE FROM document_fact")
        await connection.execute("UPDATE collection SET facts_version = 0")
        await connection.close()
        filters = parse_filters({"lang": "en", "year": {"lt": 2020}, "title": "The first"})
        found = await store.search_dense(
            name, QUERY, limit=9, access=Access.public(), filters=filters
        )

        assert {one.document_id for one in found} == {"guides/first.md"}
