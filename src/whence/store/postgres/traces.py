"""Traces in PostgreSQL: one row each, written in one transaction with an entry of the chain."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from whence.schema.access import Access
from whence.schema.document_rag import TraceRecord
from whence.schema.errors import WhenceError
from whence.schema.integrity import EntryKind, RemovedTraces
from whence.store.chunk_ids import document_key, parse_chunk_key, split_collections
from whence.store.postgres.change_log import erased_documents, prune_log, was_erased_since
from whence.store.postgres.driver import Connection, iso_utc, write_transaction
from whence.store.postgres.trace_chain import PostgresIntegrity, entry_columns
from whence.store.postgres.trace_rows import (
    COLUMNS,
    CORRECTED,
    hash_name,
    make_row,
    row_faults,
)
from whence.store.protocols import ErasedMeanwhile, StoredTrace
from whence.store.renaming import renamed_record
from whence.store.trace_body import AnswerSources, read_record, read_sources
from whence.store.validation import check_limit, check_trace, is_text

logger = logging.getLogger(__name__)

_RECORD = f"""
WITH recorded AS (
    INSERT INTO trace (number, {COLUMNS}) VALUES ($8, $1, $2, $3, $4, $5, $6, $7, $15, $16)
    ON CONFLICT (answer_id) DO NOTHING RETURNING number
)
INSERT INTO trace_chain (number, kind, answer_id, digest, written_at, hash, signature)
SELECT number, $9, $10, $11, $12, $13, $14 FROM recorded RETURNING number
"""  # noqa: S608 - only constants
# Of a name that another collection has by now, the question is about that one.
_RENAMED = """
SELECT c.name FROM collection_former_name f JOIN collection c ON c.id = f.collection_id
WHERE f.name = $1 AND NOT EXISTS (SELECT FROM collection o WHERE o.name = $1)
"""
_LATEST_DIGEST = """(
    SELECT digest FROM trace_chain e WHERE e.answer_id = trace.answer_id ORDER BY e.number DESC LIMIT 1
) AS digest"""
_FORMER = f"""
SELECT {COLUMNS}, {_LATEST_DIGEST} FROM trace WHERE answer_id = $1
"""  # noqa: S608 - only constants
_REWRITE = """
UPDATE trace SET collection = $2, body = $3, names = $4, acl_tags = $5, labels = $6, clearance = $7, salt = $8,
    recorded_at = $9
WHERE answer_id = $1
"""
_OLD = f"""
SELECT number, {COLUMNS}, {_LATEST_DIGEST} FROM trace WHERE recorded_at < $1 AND number > $2 ORDER BY number LIMIT 100
"""  # noqa: S608 - only constants
_COUNT_OLD = "SELECT count(*) FROM trace WHERE recorded_at < $1"
_REMOVE = (
    "DELETE FROM trace WHERE answer_id = ANY($1)",
    "DELETE FROM reader_answer WHERE answer_id = ANY($1)",
    "DELETE FROM reader_feedback WHERE answer_id = ANY($1)",
)
_BEFORE_ALL = -(2**63)
#: Longest time from a question to the record of its trace; a broker may deliver late.
_RECORDED_WITHIN = timedelta(days=1)
#: Least time between two removals of old traces by one process.
_REMOVAL_INTERVAL = timedelta(hours=1)
#: A question about several collections is one of each.
_OF_COLLECTION = "$1 = ANY(string_to_array(collection, ','))"
_ABOUT = f"SELECT answer_id FROM trace WHERE {_OF_COLLECTION} AND names && $2 ORDER BY answer_id"  # noqa: S608
_FIND = "SELECT body, recorded_at FROM trace WHERE answer_id = $1"
#: Traces of an earlier version have their rights in the record alone; the reader of it checks them once more.
_RIGHTS = (
    "(acl_tags IS NULL OR (acl_tags <@ $2::text[] AND labels <@ $3::text[] AND clearance <= $4))"
)
_READABLE = f"{_FIND} AND {_RIGHTS}"
_SINCE = f"""
SELECT number, body, recorded_at FROM trace
WHERE {_OF_COLLECTION} AND {_RIGHTS} AND recorded_at >= $5 AND number > $6 ORDER BY number LIMIT 500
"""  # noqa: S608 - only constants
_RECENT = "SELECT body, recorded_at FROM trace ORDER BY number DESC LIMIT $1"


class PostgresTraces(PostgresIntegrity):
    """Implements the part of `TraceStore` that reads and writes traces."""

    _removed_at: datetime | None = None

    async def record_trace(
        self, record: TraceRecord, *, without: Collection[str] | None = None
    ) -> bool:
        """Store a trace in one transaction. Cost: linear in its triples."""
        check_trace(record)
        async with self.pool.connection() as connection:
            async with write_transaction(connection):
                last = await self._chain.begin(connection)
                for name in split_collections(record.collection):
                    if current := await connection.fetchval(_RENAMED, name):
                        record = renamed_record(record, name, current)
                row, digest = make_row(record, self.clock())
                await _check_erasures(connection, record, without)
                at = row.recorded_at
                entry = self._chain.next_entry(last, "record", row.answer_id, digest, at)
                columns = (*row[:7], *entry_columns(entry, at), row.salt, at)
                recorded = await connection.fetchval(_RECORD, *columns) is not None
            await self._chain.remember(connection, entry if recorded else None)
        await self._remove_expired(at)
        return recorded

    async def rewrite_trace(self, record: TraceRecord, *, kind: EntryKind = "erase") -> bool:
        """Replace a trace in one transaction. Cost: linear in its triples."""
        check_trace(record)
        async with self.pool.connection() as connection:
            async with write_transaction(connection):
                last = await self._chain.begin(connection)
                former = await connection.fetchrow(_FORMER, record.answer_id)
                if former is not None:
                    row, digest = make_row(record, former["recorded_at"])
                    # A trace that somebody changed must not become a good one by being rewritten.
                    good = former["digest"] and not any(row_faults(former, former["digest"]))
                    await connection.execute(_REWRITE, *row)
                    changed = [(row.answer_id, digest if good else b"")]
                    last = await self._chain.append(connection, last, kind, changed)
            await self._chain.remember(connection, None if former is None else last)
        return former is not None

    async def remove_traces(self, before: datetime, *, dry_run: bool = False) -> RemovedTraces:
        """Remove the traces recorded before a time, in transactions of 100, then the log of before.

        Cost: linear in their triples and in the log.
        """
        removed = faulty = 0
        after = _BEFORE_ALL
        # A trace is recorded later than its question was asked; former versions need the log of their time.
        logged = min(before - _RECORDED_WITHIN, self.clock() - self._keep_versions)
        async with self.pool.connection() as connection:
            if dry_run:
                removed = await connection.fetchval(_COUNT_OLD, before)
                changes = await prune_log(connection, logged, dry_run=True)
                return RemovedTraces(removed=removed, changes=changes)
            while True:
                async with write_transaction(connection):
                    last = await self._chain.begin(connection)
                    rows = await connection.fetch(_OLD, before, after)
                    # The time of a trace at fault may not be its own, and it is what shows the fault.
                    good = [
                        row["answer_id"] for row in rows if not any(row_faults(row, row["digest"]))
                    ]
                    for statement in _REMOVE:
                        await connection.execute(statement, good)
                    last = await self._chain.append(
                        connection, last, "prune", [(name, b"") for name in good]
                    )
                if not rows:
                    break
                await self._chain.remember(connection, last if good else None)
                removed, faulty = removed + len(good), faulty + len(rows) - len(good)
                after = rows[-1]["number"]
            changes = await prune_log(connection, logged)
        return RemovedTraces(removed=removed, faulty=faulty, changes=changes)

    async def _remove_expired(self, now: datetime) -> None:
        """Remove the traces that are older than the setting says, now and then."""
        if self._keep_traces is None or (
            self._removed_at and now - self._removed_at < _REMOVAL_INTERVAL
        ):
            return
        self._removed_at = now
        try:
            await self.remove_traces(now - self._keep_traces)
        except WhenceError as error:
            # The trace is stored; the next one tries again.
            logger.warning("old traces were not removed: %s", error.message)

    async def trace(self, answer_id: str, access: Access | None = None) -> StoredTrace | None:
        """Return a trace, or None. Cost: linear in its triples; none for a trace that is hidden."""
        if not is_text(answer_id):
            return None
        arguments: tuple[Any, ...] = (answer_id,)
        if access is not None:
            arguments += (list(access.acl_tags), list(access.labels), access.clearance)
        async with self.pool.connection() as connection:
            row = await connection.fetchrow(_FIND if access is None else _READABLE, *arguments)
        return None if row is None else _stored(row)

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Return the latest traces, newest first. Cost: linear in their triples."""
        check_limit(limit)
        async with self.pool.connection() as connection:
            return [_stored(row) for row in await connection.fetch(_RECENT, limit)]

    async def answer_sources(
        self, collection: str, access: Access, since: datetime
    ) -> list[AnswerSources]:
        """Return the documents of answers recorded since a time, oldest first; see `TraceStore`."""
        if not is_text(collection):
            return []
        rights = (list(access.acl_tags), list(access.labels), access.clearance)
        found: list[AnswerSources] = []
        after = _BEFORE_ALL
        async with self.pool.connection() as connection:
            while rows := await connection.fetch(_SINCE, collection, *rights, since, after):
                after = rows[-1]["number"]
                read = [read_sources(row["body"], iso_utc(row["recorded_at"])) for row in rows]
                found += [one for one in read if access.covers(one.access)]
        return found

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Return the sorted ids of answers whose traces name a document or its chunks; read from an index."""
        if not (is_text(collection) and is_text(document_id)):
            return []
        return await self._named(collection, document_key(collection, document_id), document_id)

    async def traces_corrected(self, collection: str) -> list[str]:
        """Return the sorted ids of answers to corrected questions, and of failed ones; read from an index."""
        return await self._named(collection, CORRECTED) if is_text(collection) else []

    async def _named(self, collection: str, *names: str) -> list[str]:
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_ABOUT, collection, list(map(hash_name, names)))
        return [row["answer_id"] for row in rows]


async def _check_erasures(
    connection: Connection, record: TraceRecord, without: Collection[str] | None
) -> None:
    """Refuse a trace that may have words of a document which was erased after its first search."""
    triples = (triple for event in record.events for triple in event.triples)
    chunk_ids = {one.o.iri for one in triples if one.o.iri.startswith("urn:chunk:")}
    erased: frozenset[str] = frozenset()
    was_erased = False
    for name in split_collections(record.collection):
        version = record.version_of(name)
        if await was_erased_since(connection, name, version):
            was_erased = True
            keys = map(parse_chunk_key, chunk_ids)
            named = {key.document_id for key in keys if key and key.collection == name}
            erased |= await erased_documents(connection, name, sorted(named), version)
    if was_erased and (without is None or not erased <= {*without}):
        raise ErasedMeanwhile(erased)


def _stored(row: Any) -> StoredTrace:
    return StoredTrace(record=read_record(row["body"]), recorded_at=iso_utc(row["recorded_at"]))
