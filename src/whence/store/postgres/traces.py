"""Traces in PostgreSQL: one statement writes a whole trace, three read any number of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from whence.schema.access import Access
from whence.schema.document_rag import Answer, ExplainEvent, TraceRecord
from whence.schema.terms import Triple, iri, literal
from whence.store.chunk_ids import document_key
from whence.store.postgres.driver import Connection
from whence.store.postgres.pool import ConnectionPool
from whence.store.protocols import StoredTrace
from whence.store.validation import check_limit, check_trace, is_text, json_text

_RECORD = """
WITH recorded AS (
    INSERT INTO trace (answer_id, collection, question, acl_tags, labels, clearance, settings, answer,
                       asked_at, recorded_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (answer_id) DO NOTHING RETURNING number
), events AS (
    INSERT INTO trace_event (trace, place, answer_id, stage, sequence, explain_id)
    SELECT r.number, e.* FROM recorded r,
        unnest($11::int[], $12::text[], $13::text[], $14::int[], $15::text[]) e
), quads AS (
    INSERT INTO trace_quad (trace, event, seq, s, p, o, o_kind, datatype, g)
    SELECT r.number, q.* FROM recorded r,
        unnest($16::int[], $17::int[], $18::text[], $19::text[], $20::text[], $21::"char"[],
               $22::text[], $23::text[]) q
)
SELECT number FROM recorded
"""
_ABOUT = """
SELECT t.answer_id FROM trace t WHERE t.collection = $1 AND (
    EXISTS (SELECT FROM trace_quad q WHERE q.trace = t.number
            AND (q.o_kind = 'i' AND starts_with(q.o, $2) OR q.o_kind = 'l' AND q.o = $3))
    OR EXISTS (SELECT FROM json_array_elements(t.answer -> 'citations') c WHERE c ->> 'document_id' = $3)
) ORDER BY t.answer_id
"""
_TRACES = """
SELECT number, answer_id, collection, question, acl_tags, labels, clearance, settings, answer, asked_at, recorded_at
FROM trace
"""
_FIND = _TRACES + "WHERE answer_id = $1"
_RECENT = _TRACES + "ORDER BY number DESC LIMIT $1"
_EVENTS = """
SELECT trace, place, answer_id, stage, sequence, explain_id FROM trace_event
WHERE trace = ANY($1::bigint[]) ORDER BY trace, place
"""
_QUADS = """
SELECT trace, event, s, p, o, o_kind, datatype, g FROM trace_quad
WHERE trace = ANY($1::bigint[]) ORDER BY trace, event, seq
"""
_DELETE = "DELETE FROM trace WHERE answer_id = $1 RETURNING recorded_at"


class PostgresTraces:
    """Implements the part of `TraceStore` that reads and writes traces."""

    def __init__(self, pool: ConnectionPool, clock: Callable[[], datetime]) -> None:
        self._pool = pool
        self._clock = clock

    async def record_trace(self, record: TraceRecord) -> bool:
        """Store a trace in one transaction. Cost: linear in its triples."""
        async with self._pool.connection() as connection:
            return await _record(connection, record, self._clock())

    async def rewrite_trace(self, record: TraceRecord) -> bool:
        """Replace a trace in one transaction. Cost: linear in its triples."""
        async with self._pool.connection() as connection, connection.transaction():
            recorded_at = await connection.fetchval(_DELETE, record.answer_id)
            return recorded_at is not None and await _record(connection, record, recorded_at)

    async def trace(self, answer_id: str) -> StoredTrace | None:
        """Return a trace, or None. Cost: linear in its triples."""
        if not is_text(answer_id):
            return None
        async with self._pool.connection() as connection:
            traces = await _rebuild(connection, await connection.fetch(_FIND, answer_id))
        return traces[0] if traces else None

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Return the latest traces, newest first. Cost: linear in their triples."""
        check_limit(limit)
        async with self._pool.connection() as connection:
            return await _rebuild(connection, await connection.fetch(_RECENT, limit))

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Return the sorted ids of answers whose traces name a document or its chunks.

        Cost: linear in all statements about the collection's questions; the need is too rare for an index.
        """
        if not (is_text(collection) and is_text(document_id)):
            return []
        key = document_key(collection, document_id)
        async with self._pool.connection() as connection:
            rows = await connection.fetch(_ABOUT, collection, key, document_id)
        return [row["answer_id"] for row in rows]


async def _record(connection: Connection, record: TraceRecord, recorded_at: datetime) -> bool:
    """Insert a trace; return False when its answer id is recorded already."""
    check_trace(record)
    number = await connection.fetchval(
        _RECORD,
        record.answer_id,
        record.collection,
        record.question,
        sorted(record.access.acl_tags),
        sorted(record.access.labels),
        record.access.clearance,
        json_text(record.settings),
        None if record.answer is None else json_text(record.answer),
        record.asked_at,
        recorded_at,
        *_event_columns(record.events),
        *_quad_columns(record.events),
    )
    return number is not None


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Turn rows into columns, also when there are no rows."""
    return [[row[place] for row in rows] for place in range(width)]


def _event_columns(events: Sequence[ExplainEvent]) -> list[list[Any]]:
    rows = [
        (place, event.answer_id, event.stage, event.sequence, event.explain_id)
        for place, event in enumerate(events)
    ]
    return _columns(rows, 5)


def _quad_columns(events: Sequence[ExplainEvent]) -> list[list[Any]]:
    rows = [
        (
            place,
            seq,
            triple.s.iri,
            triple.p.iri,
            triple.o.iri or triple.o.value,
            triple.o.type.encode(),
            triple.o.datatype,
            triple.g,
        )
        for place, event in enumerate(events)
        for seq, triple in enumerate(event.triples)
    ]
    return _columns(rows, 8)


async def _rebuild(connection: Connection, rows: Sequence[Any]) -> list[StoredTrace]:
    numbers = [row["number"] for row in rows]
    events = await connection.fetch(_EVENTS, numbers)
    quads = await connection.fetch(_QUADS, numbers)
    triples: dict[tuple[int, int], list[Triple]] = defaultdict(list)
    for quad in quads:
        triples[quad["trace"], quad["event"]].append(_triple(quad))
    rebuilt: dict[int, list[ExplainEvent]] = defaultdict(list)
    for row in events:
        rebuilt[row["trace"]].append(_event(row, triples[row["trace"], row["place"]]))
    return [_stored(row, rebuilt[row["number"]]) for row in rows]


def _triple(quad: Any) -> Triple:
    text = quad["o"]
    object_ = iri(text) if quad["o_kind"] == b"i" else literal(text, quad["datatype"])
    return Triple(iri(quad["s"]), iri(quad["p"]), object_, quad["g"])


def _event(row: Any, triples: Sequence[Triple]) -> ExplainEvent:
    return ExplainEvent(
        answer_id=row["answer_id"],
        stage=row["stage"],
        sequence=row["sequence"],
        explain_id=row["explain_id"],
        triples=tuple(triples),
    )


def _stored(row: Any, events: Sequence[ExplainEvent]) -> StoredTrace:
    answer = row["answer"]
    record = TraceRecord(
        answer_id=row["answer_id"],
        collection=row["collection"],
        question=row["question"],
        access=Access(frozenset(row["acl_tags"]), frozenset(row["labels"]), row["clearance"]),
        events=tuple(events),
        answer=None if answer is None else msgspec.json.decode(answer, type=Answer),
        settings=msgspec.json.decode(row["settings"]),
        asked_at=row["asked_at"],
    )
    return StoredTrace(record=record, recorded_at=row["recorded_at"].astimezone(UTC).isoformat())
