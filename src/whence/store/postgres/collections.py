"""Collections in PostgreSQL: looked up, created, and locked by their writers.

Writers of one collection take turns: each holds the row of the collection while it writes. Readers never wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from whence.schema.embedding import EmbeddingModel
from whence.store.postgres.driver import Connection, iso_utc
from whence.store.postgres.migrate import SCHEMA
from whence.store.postgres.part import PostgresPart
from whence.store.protocols import CollectionInfo
from whence.store.validation import (
    check_model,
    check_name,
    is_internal,
    is_text,
    missing_collection,
    other_model,
)

_COUNTED = """
SELECT c.name, c.model_name, c.model_revision, c.model_precision, c.dimension, count(d.id) AS documents,
    coalesce(sum(d.chunks), 0)::bigint AS chunks, c.changed_at,
    (SELECT count(*) FROM vector_pending p WHERE p.collection_id = c.id AND p.number = c.vector_set) AS pending
FROM collection c LEFT JOIN document d ON d.collection_id = c.id
"""
_FIND = _COUNTED + "WHERE c.name = $1 GROUP BY c.id"
# An empty collection whose documents were erased is kept for its log alone.
_LIST = (
    _COUNTED
    + """WHERE NOT c.internal GROUP BY c.id HAVING count(d.id) > 0 OR NOT EXISTS (
    SELECT FROM document_change x WHERE x.collection_id = c.id AND x.document_id = '' AND x.kind = 'e'
) ORDER BY c.name"""
)
_MODEL = """
SELECT model_name, model_revision, model_precision, dimension FROM collection WHERE name = $1
"""
# Without counts, which take time that grows with the documents: writers need none.
_UNCOUNTED = """
SELECT c.id, c.name, c.model_name, c.model_revision, c.model_precision, c.dimension,
    0 AS documents, 0 AS chunks, 0 AS pending, c.changed_at, c.vector_set
FROM collection c WHERE c.name = $1
"""
_LOCK = _UNCOUNTED + "FOR NO KEY UPDATE"
_INSERT = """
INSERT INTO collection (name, model_name, model_revision, model_precision, dimension)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING
"""
# Read from catalogues only.
_SIZES = """
SELECT (SELECT coalesce(sum(chunks), 0) FROM document) AS chunks,
    (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname ~ '^(chunk|document|passage|posting|segment|term|vector)') AS bytes
"""


class LockedCollection(msgspec.Struct, frozen=True):
    """A collection whose row this transaction holds."""

    id: int
    info: CollectionInfo
    vector_set: int
    """Number of its vectors."""


class PostgresCollections(PostgresPart):
    """Collections and their models."""

    async def collection(self, name: str) -> CollectionInfo | None:
        """Return a collection with its counts, or None. Cost: linear in its documents."""
        if not is_text(name):
            return None
        async with self.pool.connection() as connection:
            return await _find(connection, name)

    async def collection_model(self, name: str) -> EmbeddingModel | None:
        """Return the model of a collection, or None. Cost: one look-up."""
        if not is_text(name):
            return None
        async with self.pool.connection() as connection:
            row = await connection.fetchrow(_MODEL, name)
        return None if row is None else model_of(row)

    async def collections(self) -> list[CollectionInfo]:
        """Return all collections by name, without those of code snapshots. Cost: linear in all documents."""
        async with self.pool.connection() as connection:
            found = [_info(row) for row in await connection.fetch(_LIST)]
            total = await connection.fetchrow(_SIZES, SCHEMA)
        share = total["bytes"] / max(1, total["chunks"])
        return [msgspec.structs.replace(one, bytes=round(share * one.chunks)) for one in found]

    async def ensure_collection(self, name: str, model: EmbeddingModel) -> CollectionInfo:
        """Return a collection, created for this model if it does not exist."""
        check_name(name)
        check_model(model)
        async with self.pool.connection() as connection:
            info = await _find(connection, name)
            if info is None:
                values = (model.name, model.revision, model.precision, model.dimension)
                await connection.execute(_INSERT, name, *values)
                info = await _find(connection, name)
        if info is None:
            raise missing_collection(name)
        if info.model != model:
            raise other_model(info, model)
        return info


def model_of(row: Mapping[str, Any]) -> EmbeddingModel:
    """Return the model that a row of `collection` names."""
    return EmbeddingModel(
        name=row["model_name"],
        revision=row["model_revision"],
        precision=row["model_precision"],
        dimension=row["dimension"],
    )


def _info(row: Mapping[str, Any]) -> CollectionInfo:
    return CollectionInfo(
        name=row["name"],
        model=model_of(row),
        documents=row["documents"],
        chunks=row["chunks"],
        pending=row["pending"],
        changed_at=iso_utc(row["changed_at"]),
    )


async def _find(connection: Connection, name: str) -> CollectionInfo | None:
    row = await connection.fetchrow(_FIND, name)
    return None if row is None else _info(row)


async def find_writable(connection: Connection, name: str) -> CollectionInfo | None:
    """Return a collection that documents may be written to, without counts, or None."""
    if not is_text(name) or is_internal(name):
        return None
    row = await connection.fetchrow(_UNCOUNTED, name)
    return None if row is None else _info(row)


async def writable_collection(connection: Connection, name: str) -> CollectionInfo:
    """Return a collection that documents may be written to, without counts."""
    info = await find_writable(connection, name)
    if info is None:
        raise missing_collection(name)
    return info


async def lock_collection(connection: Connection, name: str) -> LockedCollection:
    """Lock a collection's row until the transaction ends."""
    row = await connection.fetchrow(_LOCK, name)
    if row is None:
        raise missing_collection(name)
    return LockedCollection(row["id"], _info(row), row["vector_set"])


def write_settings(timeout_s: float) -> tuple[str, ...]:
    """Return the settings of a transaction that writes, for `driver.write_transaction`.

    A write looks its rows up by an index each, most of them for foreign keys. Planning each look-up for its
    values, as searches need it, took half of the database's time. Tables that were tiny when a plan was made
    grow while it is kept, so none may be read whole.
    """
    return (
        f"statement_timeout = {int(timeout_s * 1000)}",
        "plan_cache_mode = force_generic_plan",
        "enable_seqscan = off",
    )
