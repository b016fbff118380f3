"""Rows of a snapshot on their way in: the same words as anywhere else, and checked as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.small_bundles import write_small

from whence.ingest.bundles.bundle import open_bundle
from whence.ingest.bundles.bundle_reader import BundleReader
from whence.schema.errors import InternalError
from whence.store.postgres.identity_columns import reserve
from whence.store.postgres.lexical import forward_index, reindexing
from whence.store.postgres.snapshots.removal import bulk_settings
from whence.store.postgres.snapshots.term_index import SnapshotTermWriter, TermCounter
from whence.store.postgres.store import PostgresStore
from whence.store.term_counts import count_terms
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

TEXTS = st.lists(
    st.lists(
        st.sampled_from(
            [
                "Running",
                "parseHTTPResponse",
                "net.core_v2",
                "C#",
                "the",
                "x",
                "größe",
                "日本語",
                "x" * 600,
            ]
        ),
        max_size=6,
    ).map(" ".join),
    min_size=1,
    max_size=12,
)


async def words_written(
    store: PostgresStore, batches: Sequence[Sequence[str]], max_cached: int
) -> tuple[list[dict[str, int]], dict[str, int], tuple[int, int, int]]:
    """Return the terms of each text, the counts of terms, and the sums of the lexicon; nothing is kept."""
    async with store.pool.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SET LOCAL session_replication_role = replica")
        collection = await connection.fetchval(
            "INSERT INTO collection (name, model_name, model_revision, model_precision, dimension)"
            " VALUES ('code.words', '', '', '', 1) RETURNING id"
        )
        await reindexing.ensure_indexed(connection, collection)
        words = SnapshotTermWriter(connection, collection)
        counter = TermCounter("english", max_cached)
        ord_ = 1_000_000
        for texts in batches:
            classes = np.ones(len(texts), dtype=np.int32)
            counted = counter.count(texts)
            numbers = await reserve(connection, "term", "id", len(counted.new))
            await words.write(range(ord_, ord_ + len(texts)), classes, counted, numbers)
            ord_ += len(texts)
        await words.finish(connection)
        terms = {
            row["id"]: row
            for row in await connection.fetch(
                "SELECT id, term, df FROM term WHERE collection_id = $1", collection
            )
        }
        rows = await connection.fetch(
            "SELECT terms, counts FROM chunk_terms WHERE collection_id = $1 ORDER BY ord, slot",
            collection,
        )
        sums = await connection.fetchrow(
            "SELECT l.chunks, sum(t.length), l.next_slot FROM lexicon l JOIN chunk_terms t"
            " USING (collection_id) WHERE collection_id = $1 GROUP BY 1, 3",
            collection,
        )
        await transaction.rollback()
    found = []
    for row in rows:
        numbers = np.frombuffer(row["terms"], "<i4").tolist()
        assert numbers == sorted(numbers)
        counts = np.frombuffer(row["counts"], "<i4").tolist()
        found.append({terms[n]["term"]: count for n, count in zip(numbers, counts, strict=True)})
    return found, {row["term"]: row["df"] for row in terms.values()}, tuple(sums)


@given(batches=st.lists(TEXTS, min_size=1, max_size=4), max_cached=st.sampled_from([1, 5, 1000]))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_staged_terms_equal_those_of_documents(
    postgres_store: PostgresStore, batches: list[list[str]], max_cached: int
) -> None:
    """Terms, counts and lengths equal those of documents, however few terms are kept in memory."""
    expected = [count_terms(text, "english") for texts in batches for text in texts]
    counts = [{forward_index.term_key(t): n for t, n in one.counts.items()} for one in expected]
    df = Counter(term for one in counts for term in one)
    total = sum(one.length for one in expected)

    found = await words_written(postgres_store, batches, max_cached)

    assert found == (counts, dict(df), (len(expected), total, len(expected)))


@pytest.mark.parametrize("table", ["chunk_terms", "document", "chunk_vec"])
async def test_an_incomplete_snapshot_is_not_published(
    postgres_store: PostgresStore, tmp_path: Path, table: str
) -> None:
    """A snapshot that lacks a row another row refers to is refused and cannot be read."""
    opened = open_bundle(write_small(tmp_path / "b.zip", {"C1": "class Alpha", "C2": "class Beta"}))
    contents = BundleReader(opened)
    embedder = HashEmbedder()

    async def publish_damaged() -> None:
        async with postgres_store.importing() as run:
            staged = await run.stage("run", opened.snapshot)
            await staged.add_nodes(list(contents.nodes()))
            await staged.end_nodes()
            await staged.add_edges(contents.edges())
            await staged.close(contents.report())
            while texts := await staged.texts(10):
                vectors = await embedder.embed([one.text for one in texts])
                await staged.add_vectors([one.key for one in texts], vectors, embedder.model)
            async with postgres_store.pool.connection() as connection, connection.transaction():
                await connection.execute("SET LOCAL session_replication_role = replica")
                await connection.execute(f"DELETE FROM {table}")
            await run.publish()

    with pytest.raises(InternalError, match="2 nodes of Small"):
        await publish_damaged()
    assert await postgres_store.snapshots() == []
    async with postgres_store.pool.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM collection") == 0


async def test_checks_stay_on_without_the_right_to_skip_them(postgres_store: PostgresStore) -> None:
    """A role that may not switch off foreign key checks writes with them on."""
    async with postgres_store.pool.connection() as connection:
        assert "session_replication_role = replica" in await bulk_settings(connection, 1.0)
        await connection.execute("CREATE ROLE whence_plain")
        try:
            await connection.execute("SET ROLE whence_plain")
            allowed = await bulk_settings(connection, 1.0)
        finally:
            await connection.execute("RESET ROLE; DROP ROLE whence_plain")
    assert allowed == ("statement_timeout = 1000", "synchronous_commit = off")
