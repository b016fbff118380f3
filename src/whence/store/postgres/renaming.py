"""A collection in PostgreSQL gets another name, in one transaction with all that goes by its name."""

from __future__ import annotations

from typing import Any

from whence.schema.integrity import ChainEntry
from whence.store.postgres.driver import Connection, write_transaction
from whence.store.postgres.trace_chain import PostgresIntegrity
from whence.store.postgres.trace_rows import COLUMNS, make_row, row_faults
from whence.store.renaming import renamed_record, taken
from whence.store.trace_body import read_record
from whence.store.validation import check_name, is_text, missing_collection

_LOCK = """
SELECT id, name, version FROM collection WHERE name = ANY($1) AND NOT internal ORDER BY id FOR UPDATE
"""
_FORMER = """
SELECT EXISTS (SELECT FROM collection_former_name f JOIN collection c ON c.id = f.collection_id
    WHERE f.name = $1 AND c.name = $2)
"""
_HAS_ROOTS = "SELECT EXISTS (SELECT FROM source_root WHERE collection = $1)"
_IS_EMPTY = """
SELECT NOT EXISTS (SELECT FROM document WHERE collection_id = $1)
    AND EXISTS (SELECT FROM document_change WHERE collection_id = $1 AND document_id = '' AND kind = 'e')
"""
# A question about what was removed, which is still being answered, is recorded without words of it.
_TAKE_OVER = """
WITH later AS (
    UPDATE collection SET version = greatest(version, $2) + 1 WHERE id = $1 RETURNING version
)
INSERT INTO document_change (collection_id, document_id, version, kind, class_id, content, first_version, changed_at)
SELECT $1, '', version, 'e', NULL, 0, NULL, $3 FROM later
"""
_REMOVE = "DELETE FROM collection WHERE id = $1"
_RENAME = "UPDATE collection SET name = $2 WHERE id = $1"
_CHUNKS = """
UPDATE chunk SET chunk_key = 'urn:chunk:' || $3::text || substr(chunk_key, length('urn:chunk:' || $2::text) + 1)
WHERE collection_id = $1
"""
# Whatever is kept of a version of the collection has ids of chunks.
_NEXT_VERSION = "UPDATE lexicon SET collection_id = collection_id WHERE collection_id = $1"
_SOURCES = (
    "UPDATE source_root SET collection = $2 WHERE collection = $1",
    "UPDATE source_file SET collection = $2 WHERE collection = $1",
)
_REMEMBER = """
INSERT INTO collection_former_name VALUES ($2, $1) ON CONFLICT (name) DO UPDATE SET collection_id = EXCLUDED.collection_id
"""
_FORGET = "DELETE FROM collection_former_name WHERE name = $1"
_TRACES = f"""
SELECT {COLUMNS}, (SELECT digest FROM trace_chain e WHERE e.answer_id = trace.answer_id ORDER BY e.number DESC LIMIT 1)
    AS digest
FROM trace WHERE $1 = ANY(string_to_array(collection, ',')) ORDER BY number LIMIT 100
"""  # noqa: S608 - only constants
_REWRITE = """
UPDATE trace SET collection = $2, body = $3, names = $4, acl_tags = $5, labels = $6, clearance = $7, salt = $8,
    recorded_at = $9
WHERE answer_id = $1
"""


class PostgresRenaming(PostgresIntegrity):
    """Implements `Store.rename_collection`."""

    async def rename_collection(self, former: str, name: str) -> int:
        """Rename a collection; see `Store`."""
        check_name(name)
        if not is_text(former):
            raise missing_collection(former)
        async with self.pool.connection() as connection:
            timeout = f"statement_timeout = {int(self.write_timeout_s * 1000)}"
            async with write_transaction(connection, timeout):
                last = await self._chain.begin(connection)
                found = {row["name"]: row for row in await connection.fetch(_LOCK, [former, name])}
                if former not in found and not await connection.fetchval(_HAS_ROOTS, former):
                    if name in found and await connection.fetchval(_FORMER, former, name):
                        return 0
                    raise missing_collection(former)
                if name in found or await connection.fetchval(_HAS_ROOTS, name):
                    await self._free(connection, name, found)
                if former in found:
                    await _rename(connection, found[former]["id"], former, name)
                for statement in _SOURCES:
                    await connection.execute(statement, former, name)
                count, last = await self._rename_traces(connection, former, name, last)
            await self._chain.remember(connection, last if count else None)
        return count

    async def _free(self, connection: Connection, name: str, found: dict[str, Any]) -> None:
        """Let a name be taken again whose collection was removed, and has only its log."""
        row = found.get(name)
        if row is None or not await connection.fetchval(_IS_EMPTY, row["id"]):
            raise taken(name)
        if await connection.fetchval(_HAS_ROOTS, name):
            raise taken(name)
        for other, one in found.items():
            if other != name:
                await connection.execute(_TAKE_OVER, one["id"], row["version"], self.clock())
        await connection.execute(_REMOVE, row["id"])

    async def _rename_traces(
        self, connection: Connection, former: str, name: str, last: ChainEntry | None
    ) -> tuple[int, ChainEntry | None]:
        """Rewrite the traces of a collection; return how many, and the last entry of the chain."""
        count = 0
        while rows := await connection.fetch(_TRACES, former):
            changed = []
            for row in rows:
                record = renamed_record(read_record(row["body"]), former, name)
                new, digest = make_row(record, row["recorded_at"])
                # A trace that somebody changed must not become a good one by being rewritten.
                good = row["digest"] and not any(row_faults(row, row["digest"]))
                await connection.execute(_REWRITE, *new)
                changed.append((new.answer_id, digest if good else b""))
            last = await self._chain.append(connection, last, "rewrite", changed)
            count += len(rows)
        return count, last


async def _rename(connection: Connection, number: int, former: str, name: str) -> None:
    await connection.execute(_RENAME, number, name)
    await connection.execute(_CHUNKS, number, former, name)
    await connection.execute(_NEXT_VERSION, number)
    await connection.execute(_FORGET, name)
    await connection.execute(_REMEMBER, number, former)
