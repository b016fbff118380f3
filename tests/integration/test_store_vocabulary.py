"""Words of chunks on PostgreSQL keep to the rules of every store."""

from __future__ import annotations

import asyncpg
import pytest

from whence.store.postgres.store import PostgresStore
from whence.testing.index_samples import MODEL
from whence.testing.symbols_suite import defining
from whence.testing.vocabulary_suite import VocabularySuite

pytestmark = pytest.mark.postgres


class TestPostgresVocabulary(VocabularySuite):
    """All behaviours, on PostgreSQL."""

    @pytest.fixture
    def store(self, postgres_store: PostgresStore) -> PostgresStore:
        return postgres_store


async def test_words_of_an_erased_document_leave_the_table(
    postgres_store: PostgresStore, database_url: str
) -> None:
    """A word has no row when no chunk has it any more."""
    await postgres_store.ensure_collection("c", MODEL)
    await postgres_store.replace_documents("c", [defining("a.md", ("Canary", "a zebrafinch"))])
    await postgres_store.erase_document("c", "a.md")
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.fetch("SELECT * FROM whence.word") == []
    finally:
        await connection.close()
