"""Rows of a snapshot on their way in are checked as a whole before they are published."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.small_bundles import write_small

from whence.code.bundles.bundle import open_bundle
from whence.code.bundles.bundle_reader import BundleReader
from whence.code.snapshots.removal import bulk_settings
from whence.code.snapshots.store import PostgresCode
from whence.schema.errors import InternalError
from whence.store.postgres.store import PostgresStore
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("table", ["chunk_terms", "document", "chunk_vec"])
async def test_an_incomplete_snapshot_is_not_published(
    postgres_store: PostgresStore, tmp_path: Path, table: str
) -> None:
    """A snapshot that lacks a row another row refers to is refused and cannot be read."""
    opened = open_bundle(write_small(tmp_path / "b.zip", {"C1": "class Alpha", "C2": "class Beta"}))
    contents = BundleReader(opened)
    embedder = HashEmbedder()

    async def publish_damaged() -> None:
        async with PostgresCode(postgres_store).importing() as run:
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
    assert await PostgresCode(postgres_store).snapshots() == []
    async with postgres_store.pool.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM collection") == 0


async def test_checks_stay_on_without_the_right_to_skip_them(postgres_store: PostgresStore) -> None:
    """A role that may not switch off foreign key checks writes with them on."""
    async with postgres_store.pool.connection() as connection:
        trusted = await bulk_settings(connection, 1.0)
        await connection.execute("CREATE ROLE whence_plain")
        try:
            await connection.execute("SET ROLE whence_plain")
            allowed = await bulk_settings(connection, 1.0)
        finally:
            await connection.execute("RESET ROLE; DROP ROLE whence_plain")
    assert trusted == (*allowed, "session_replication_role = replica")
