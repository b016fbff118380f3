"""Traces that an earlier version stored stay as they were."""

from __future__ import annotations

import asyncpg
import pytest

from whence.schema.access import Access
from whence.schema.document_rag import Answer, Citation, ExplainEvent, TraceRecord
from whence.schema.terms import Triple, iri, literal
from whence.store.chunk_ids import chunk_key
from whence.store.postgres.migrate import SCHEMA, migrate, migrations
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore
from whence.store.validation import json_text

pytestmark = pytest.mark.postgres

#: The last schema with a row for each statement.
_ROWS = 22
_CHUNK = chunk_key("c", "a b/ü.md", 3)
_RECORD = TraceRecord(
    answer_id="old",
    collection="c",
    question='Wie "alt"?\n\\u0041',
    access=Access(frozenset({"b", "a"}), frozenset({"l"}), 2),
    events=(
        ExplainEvent(
            answer_id="old",
            stage="question",
            sequence=0,
            explain_id="urn:q",
            triples=(
                Triple(iri("urn:s"), iri("urn:p"), iri(_CHUNK), None),
                Triple(iri("urn:s"), iri("urn:p"), literal("named.md"), "urn:g"),
                Triple(iri("urn:s"), iri("urn:p"), literal("7", "urn:int"), ""),
            ),
        ),
        ExplainEvent(answer_id="old", stage="focus", sequence=1, explain_id="urn:f", triples=()),
    ),
    answer=Answer(
        answer_id="old",
        question="q",
        text="t",
        latency_ms=0.1,
        citations=(Citation(marker=1, chunk_id="x", document_id="cited.md"),),
    ),
    settings={"small": 1e-7, "exact": 0.1, "none": None},
    asked_at="2024-01-01T00:00:00+00:00",
)
_FAILED = TraceRecord(
    answer_id="failed", collection="", question="", access=Access.public(), events=()
)


async def _insert(connection: asyncpg.Connection, record: TraceRecord) -> None:
    """Store a trace as schema 22 did."""
    answer = None if record.answer is None else json_text(record.answer)
    number = await connection.fetchval(
        "INSERT INTO trace (answer_id, collection, question, acl_tags, labels, clearance, settings, answer,"
        " asked_at, recorded_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now()) RETURNING number",
        record.answer_id,
        record.collection,
        record.question,
        sorted(record.access.acl_tags),
        sorted(record.access.labels),
        record.access.clearance,
        json_text(record.settings),
        answer,
        record.asked_at,
    )
    for place, event in enumerate(record.events):
        await connection.execute(
            "INSERT INTO trace_event VALUES ($1, $2, $3, $4, $5, $6)",
            *(number, place, event.answer_id, event.stage, event.sequence, event.explain_id),
        )
        for seq, one in enumerate(event.triples):
            await connection.execute(
                "INSERT INTO trace_quad VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                *(number, place, seq, one.s.iri, one.p.iri, one.o.iri or one.o.value),
                *(one.o.type.encode(), one.o.datatype, one.g),
            )


async def test_a_trace_of_many_rows_becomes_one(postgres_server: EmbeddedServer) -> None:
    """Every field of a former trace is kept, and it is found by all that it names."""
    admin = await asyncpg.connect(postgres_server.url())
    await admin.execute("CREATE DATABASE former")
    try:
        url = postgres_server.url("former")
        connection = await asyncpg.connect(url)
        await migrate(connection, migrations()[:_ROWS])
        await connection.execute(f"SET search_path = {SCHEMA}")
        for record in (_RECORD, _FAILED):
            await _insert(connection, record)
        await connection.close()
        async with await PostgresStore.connect(url) as store:
            read = [await store.trace(one) for one in ("old", "failed")]
            names = ("a b/ü.md", "named.md", "cited.md", "7", "a b/ü.m", "")
            about = [name for name in names if await store.traces_about("c", name)]
            latest = await store.recent_traces(2)
    finally:
        await admin.execute("DROP DATABASE former WITH (FORCE)")
        await admin.close()

    assert [one and one.record for one in read] == [_RECORD, _FAILED]
    assert latest == read[::-1]
    assert about == ["a b/ü.md", "named.md", "cited.md"]
