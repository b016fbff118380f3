"""Names of symbols on PostgreSQL keep to the rules of every store, and are looked up in an index."""

from __future__ import annotations

import asyncpg
import pytest

from whence.schema.access import Access
from whence.store.postgres import symbol_lookup as symbols
from whence.store.postgres.acl_classes import access_values
from whence.store.postgres.store import PostgresStore
from whence.testing.index_samples import MODEL
from whence.testing.symbols_suite import SymbolsSuite, defining

pytestmark = pytest.mark.postgres


class TestPostgresSymbols(SymbolsSuite):
    """All behaviours, on PostgreSQL."""

    @pytest.fixture
    def store(self, postgres_store: PostgresStore) -> PostgresStore:
        return postgres_store


async def test_a_name_is_looked_up_in_the_index(
    postgres_store: PostgresStore, database_url: str
) -> None:
    """The statement states the condition of the index, so that no chunk of another name is read."""
    await postgres_store.ensure_collection("c", MODEL)
    await postgres_store.replace_documents(
        "c", [defining(f"d{n}", (f"Cart.total{n}", "text")) for n in range(50)]
    )
    connection = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    try:
        await connection.execute("SET enable_seqscan = off")
        values = (*access_values(Access.public()), "c", "total7"[::-1], None, "total7", 9)
        plan = await connection.fetch(f"EXPLAIN {symbols._NAMED}", *values)
    finally:
        await connection.close()
    lines = [row[0] for row in plan]

    assert any("chunk_called" in line for line in lines)
    assert any("Index Cond" in line and "reverse" in line for line in lines)
