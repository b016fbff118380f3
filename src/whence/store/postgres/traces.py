"""Traces in PostgreSQL: one statement writes a whole trace, two more read any number of them back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from whence.schema.access import Access
from whence.schema.document_rag import Answer, ExplainEvent, TraceRecord
from whence.schema.terms import Term, Triple, iri, literal
from whence.store.chunk_ids import document_key
from whence.store.postgres.driver import Connection
from whence.store.protocols import StoredTrace
from whence.store.validation import check_limit, check_trace, json_text

__all__ = ("find_trace", "latest_traces", "record_trace", "rewrite_trace", "traces_about")

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
_TRACE = (
    "SELECT number, answer_id, collection, question, acl_tags, labels, clearance, settings, answer,"
    " asked_at, recorded_at FROM trace"
)


def _term(kind: str, text: str, datatype: str) -> Term:
    return iri(text) if kind == "i" else literal(text, datatype)


async def record_trace(connection: Connection, record: TraceRecord, recorded_at: datetime) -> bool:
    """Keep a trace; False when that answer id is recorded already. Cost: linear in its triples.

    Raises:
        BadInput: It could not be given back as it is.
    """
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


async def rewrite_trace(connection: Connection, record: TraceRecord) -> bool:
    """Put a trace in the place of the one with its answer id; False when there is none.

    Cost: linear in its triples.

    Raises:
        BadInput: It could not be given back as it is.
    """
    async with connection.transaction():
        recorded_at = await connection.fetchval(
            "DELETE FROM trace WHERE answer_id = $1 RETURNING recorded_at", record.answer_id
        )
        return recorded_at is not None and await record_trace(connection, record, recorded_at)


async def traces_about(connection: Connection, collection: str, document_id: str) -> list[str]:
    """Give the ids of the answers whose traces name a document or its chunks, sorted.

    Cost: linear in all statements about the collection's questions; there is no index for so rare a need.
    """
    rows = await connection.fetch(
        _ABOUT, collection, document_key(collection, document_id), document_id
    )
    return [row["answer_id"] for row in rows]


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


async def find_trace(connection: Connection, answer_id: str) -> StoredTrace | None:
    """Give a trace, or None when there is none. Cost: linear in its triples."""
    rows = await connection.fetch(f"{_TRACE} WHERE answer_id = $1", answer_id)
    traces = await _rebuild(connection, rows)
    return traces[0] if traces else None


async def latest_traces(connection: Connection, limit: int) -> list[StoredTrace]:
    """Give the latest traces, newest first. Cost: linear in their triples.

    Raises:
        BadInput: The limit is below 1.
    """
    check_limit(limit)
    rows = await connection.fetch(f"{_TRACE} ORDER BY number DESC LIMIT $1", limit)
    return await _rebuild(connection, rows)


async def _rebuild(connection: Connection, rows: Sequence[Any]) -> list[StoredTrace]:
    numbers = [row["number"] for row in rows]
    events = await connection.fetch(
        "SELECT trace, place, answer_id, stage, sequence, explain_id FROM trace_event"
        " WHERE trace = ANY($1::bigint[]) ORDER BY trace, place",
        numbers,
    )
    quads = await connection.fetch(
        "SELECT trace, event, s, p, o, o_kind, datatype, g FROM trace_quad"
        " WHERE trace = ANY($1::bigint[]) ORDER BY trace, event, seq",
        numbers,
    )
    triples: dict[tuple[int, int], list[Triple]] = defaultdict(list)
    for quad in quads:
        triples[quad["trace"], quad["event"]].append(_triple(quad))
    rebuilt: dict[int, list[ExplainEvent]] = defaultdict(list)
    for row in events:
        rebuilt[row["trace"]].append(_event(row, triples[row["trace"], row["place"]]))
    return [_stored(row, rebuilt[row["number"]]) for row in rows]


def _triple(quad: Any) -> Triple:
    kind = quad["o_kind"].decode()
    return Triple(
        iri(quad["s"]), iri(quad["p"]), _term(kind, quad["o"], quad["datatype"]), quad["g"]
    )


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
