"""Traces in PostgreSQL: one row each, with the compressed record and hashes of what may name documents."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from whence.schema.codec import decode_as, encode
from whence.schema.document_rag import TraceRecord
from whence.store.chunk_ids import document_key
from whence.store.postgres.pool import ConnectionPool
from whence.store.protocols import StoredTrace
from whence.store.validation import check_limit, check_trace, is_text

_RECORD = """
INSERT INTO trace (answer_id, collection, body, names, recorded_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (answer_id) DO NOTHING RETURNING number
"""
_REWRITE = (
    "UPDATE trace SET collection = $2, body = $3, names = $4 WHERE answer_id = $1 RETURNING number"
)
_ABOUT = "SELECT answer_id FROM trace WHERE collection = $1 AND names && $2 ORDER BY answer_id"
_FIND = "SELECT body, recorded_at FROM trace WHERE answer_id = $1"
_RECENT = "SELECT body, recorded_at FROM trace ORDER BY number DESC LIMIT $1"
#: Beginning of a chunk id that names the document.
_DOCUMENT_KEY = re.compile("urn:chunk:[^:]*:[^:]*:")


class PostgresTraces:
    """Implements the part of `TraceStore` that reads and writes traces."""

    def __init__(self, pool: ConnectionPool, clock: Callable[[], datetime]) -> None:
        self._pool = pool
        self._clock = clock

    async def record_trace(self, record: TraceRecord) -> bool:
        """Store a trace in one transaction. Cost: linear in its triples."""
        check_trace(record)
        async with self._pool.connection() as connection:
            number = await connection.fetchval(_RECORD, *_columns(record), self._clock())
        return number is not None

    async def rewrite_trace(self, record: TraceRecord) -> bool:
        """Replace a trace in one transaction. Cost: linear in its triples."""
        check_trace(record)
        async with self._pool.connection() as connection:
            return await connection.fetchval(_REWRITE, *_columns(record)) is not None

    async def trace(self, answer_id: str) -> StoredTrace | None:
        """Return a trace, or None. Cost: linear in its triples."""
        if not is_text(answer_id):
            return None
        async with self._pool.connection() as connection:
            row = await connection.fetchrow(_FIND, answer_id)
        return None if row is None else _stored(row)

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Return the latest traces, newest first. Cost: linear in their triples."""
        check_limit(limit)
        async with self._pool.connection() as connection:
            return [_stored(row) for row in await connection.fetch(_RECENT, limit)]

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Return the sorted ids of answers whose traces name a document or its chunks; read from an index."""
        if not (is_text(collection) and is_text(document_id)):
            return []
        names = [_hash(document_key(collection, document_id)), _hash(document_id)]
        async with self._pool.connection() as connection:
            rows = await connection.fetch(_ABOUT, collection, names)
        return [row["answer_id"] for row in rows]


def _columns(record: TraceRecord) -> tuple[str, str, bytes, list[int]]:
    return record.answer_id, record.collection, zlib.compress(encode(record)), _names(record)


def _names(record: TraceRecord) -> list[int]:
    """Return the sorted hashes of all that may be the name of a document."""
    objects = {triple.o for event in record.events for triple in event.triples}
    keys = (_DOCUMENT_KEY.match(one.iri) for one in objects if one.iri)
    names = {key[0] for key in keys if key}
    names |= {one.value for one in objects if one.value and not one.datatype}
    if record.answer is not None:
        names |= {citation.document_id for citation in record.answer.citations}
    return sorted(map(_hash, names))


def _hash(name: str) -> int:
    """Return the first 64 bits of the SHA-256 of a name; two names with equal ones are not to be expected."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)


def _stored(row: Any) -> StoredTrace:
    body: bytes = row["body"]
    # An earlier version of the schema kept no bytes; its traces were converted to JSON as it is.
    wire = body if body.startswith(b"{") else zlib.decompress(body)
    return StoredTrace(
        record=decode_as(wire, TraceRecord),
        recorded_at=row["recorded_at"].astimezone(UTC).isoformat(),
    )
