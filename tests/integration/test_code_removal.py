"""Snapshots that nobody can reach go with everything of them, and nothing else goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.small_bundles import import_into, write_small

from whence.code.snapshots import removal as code_removal
from whence.code.snapshots.removal import delete_hidden_collections
from whence.code.snapshots.store import PostgresCode
from whence.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres

NODES = {"C1": "class Alpha calls Beta", "C2": "class Beta", "SQL:dbo.t": "create table t"}
EDGES = [("C1", "C2", "dep")]
#: What is told in other ways: the row by which a snapshot is found, and its names and sets, go before.
_GO_BEFORE = {"code_snapshot", "code_ref", "code_set_member"}
#: Tables without rows of code.
_OF_DOCUMENTS = {
    "chunk_codes",
    "collection_former_name",
    "document_change",
    "former_chunk",
    "former_document",
}
_REFERRING = """
    WITH RECURSIVE r(name) AS (
        SELECT 'whence.collection'::regclass
        UNION SELECT c.conrelid::regclass FROM pg_constraint c JOIN r ON c.confrelid = r.name
        WHERE c.contype = 'f')
    SELECT (SELECT relname FROM pg_class WHERE oid = name) AS name FROM r
"""


async def rows_of(store: PostgresStore) -> dict[str, int]:
    """Count the rows of every table of the schema that a snapshot may have rows in."""
    async with store.pool.connection() as connection:
        names = await connection.fetch(
            "SELECT table_name AS name FROM information_schema.columns"
            " WHERE table_schema = 'whence' AND column_name IN ('collection_id', 'ord', 'segment',"
            " 'document') GROUP BY 1"
        )
        return {
            row["name"]: await connection.fetchval(f"SELECT count(*) FROM {row['name']}")
            for row in names
        }


async def test_every_referring_table_is_cleared(postgres_store: PostgresStore) -> None:
    """Every table that refers to a collection, also indirectly, is named in the deletion."""
    async with postgres_store.pool.connection() as connection:
        found = {row["name"] for row in await connection.fetch(_REFERRING)}
    told = {statement.split()[2] for statement in code_removal._STATEMENTS} | {"code_import"}
    assert found - told == _GO_BEFORE | _OF_DOCUMENTS


@pytest.mark.parametrize("role", ["", "whence_plain"])
async def test_a_purge_deletes_one_snapshot(
    postgres_store: PostgresStore, tmp_path: Path, role: str
) -> None:
    """A purge deletes all rows of the snapshot and none of another, also when foreign keys are not checked."""
    first, second = (
        write_small(tmp_path / f"{n}.zip", NODES, EDGES, head_sha=f"h{n}") for n in (1, 2)
    )
    await import_into(postgres_store, [first])
    alone = await rows_of(postgres_store)
    await import_into(postgres_store, [second])
    assert (await rows_of(postgres_store))["chunk"] == 2 * alone["chunk"] == 6
    gone = (await PostgresCode(postgres_store).resolve_snapshot("h2")).info.snapshot_id
    async with postgres_store.pool.connection() as connection:
        collection = await connection.fetchval(
            "DELETE FROM code_snapshot WHERE snapshot_id = $1 RETURNING collection_id", gone
        )
        if role:
            await connection.execute(
                f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA whence TO {role};"
                f"GRANT ALL ON ALL TABLES IN SCHEMA whence TO {role}; SET ROLE {role}"
            )
        try:
            await delete_hidden_collections(connection, [collection], 10.0)
        finally:
            if role:
                await connection.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")
    after = await rows_of(postgres_store)
    after["code_import"] -= 1
    assert after == alone


async def test_readable_collections_are_not_deleted(
    postgres_store: PostgresStore, tmp_path: Path
) -> None:
    """A collection of a published snapshot or of a user is never deleted as a leftover."""
    await import_into(postgres_store, [write_small(tmp_path / "b.zip", NODES, EDGES)])
    before = await rows_of(postgres_store)
    async with postgres_store.pool.connection() as connection:
        rows = await connection.fetch("SELECT id FROM collection")
        await delete_hidden_collections(connection, [row["id"] for row in rows], 10.0)
    assert await rows_of(postgres_store) == before
