"""The passage graph on PostgreSQL keeps to the rules of every store, and is found for homes that lack it."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from whence.schema.access import Access
from whence.store.chunk_ids import chunk_key
from whence.store.linked_titles import LinkStatistics
from whence.store.postgres.links import indexing
from whence.store.postgres.store import PostgresStore
from whence.testing.index_samples import MODEL
from whence.testing.passages_suite import PassagesSuite, titled

pytestmark = pytest.mark.postgres

PUBLIC = Access.public()


class TestPostgresNames(PassagesSuite):
    """All behaviours, on PostgreSQL."""

    @pytest.fixture
    def store(self, postgres_store: PostgresStore) -> PostgresStore:
        return postgres_store


async def test_links_of_former_versions_are_indexed_in_background(
    postgres_store: PostgresStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search starts the indexing in batches; the result equals that of a new index."""
    monkeypatch.setattr(indexing, "_BATCH", 2)
    documents = [
        titled(
            f"d{n}", f"Place {n}x", f"After place {n + 1}x.", "More.", headings=("", f"Part {n}z")
        )
        for n in range(5)
    ]
    await postgres_store.ensure_collection("c", MODEL)
    await postgres_store.replace_documents("c", documents)
    keys = [chunk_key("c", f"d{n}", index) for n in range(5) for index in range(2)]
    expected = await postgres_store.linked_titles("c", keys, PUBLIC)
    connection = await asyncpg.connect(database_url)
    await connection.execute("DELETE FROM whence.passage_name; DELETE FROM whence.passage_links")
    await connection.close()

    before = await postgres_store.link_statistics("c", PUBLIC)
    await postgres_store.maintenance.wait()

    assert (before, len(expected)) == (None, 10)
    assert await postgres_store.linked_titles("c", keys, PUBLIC) == expected
    assert await postgres_store.link_statistics("c", PUBLIC) == LinkStatistics(
        chunks=10, linked=5, documents=5
    )


async def test_titles_with_a_common_word_are_not_all_read(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text with a word of all titles reads few of them, however many there are."""
    fetched: list[int] = []
    titles_by_anchor = indexing.titles_by_anchor

    async def spy(*arguments: Any) -> dict[str, int]:
        found = await titles_by_anchor(*arguments)
        fetched.append(len(found))
        return found

    monkeypatch.setattr(indexing, "titles_by_anchor", spy)
    await postgres_store.ensure_collection("c", MODEL)
    for start in range(100, 400, 20):
        documents = [
            titled(f"d{n}", f"Protocol {n}", f"The protocol after protocol {n - 1}.")
            for n in range(start, start + 20)
        ]
        await postgres_store.replace_documents("c", documents)
    names = await postgres_store.linked_titles("c", [chunk_key("c", "d250", 0)], PUBLIC)

    assert max(fetched) <= 21
    assert {one.name for one in names} == {"protocol 249", "protocol 250"}


async def test_titles_of_removed_documents_are_deleted(
    postgres_store: PostgresStore, database_url: str
) -> None:
    """Removal deletes the title of a document and its mentions."""
    await postgres_store.ensure_collection("c", MODEL)
    await postgres_store.replace_documents(
        "c", [titled("fox", "Red Fox", "An animal."), titled("tale", "", "The red fox sleeps.")]
    )
    await postgres_store.remove_documents("c", ["fox"])

    connection = await asyncpg.connect(database_url)
    counts = [
        await connection.fetchval(f"SELECT count(*) FROM whence.{table}")
        for table in ("passage_name", "passage_bearer", "passage_mention")
    ]
    await connection.close()
    assert counts == [0, 0, 0]
