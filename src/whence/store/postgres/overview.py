"""Server, sizes and counts of the database."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from whence.store.postgres.driver import Connection
from whence.store.postgres.migrate import SCHEMA
from whence.store.protocols import StoreOverview

_COUNTS = """
SELECT current_setting('server_version') AS server,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector,
    pg_database_size(current_database()) AS bytes,
    (SELECT count(*) FROM trace) AS questions,
    (SELECT max(recorded_at) FROM trace) AS asked_at,
    (SELECT max(stored_at) FROM document) AS stored_at,
    (SELECT count(*) FROM code_snapshot) AS snapshots
"""
_SIZES = """
SELECT c.relname AS name, pg_total_relation_size(c.oid) AS bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'
"""
#: Purpose of each table by the beginning of its name; the first match counts.
_PARTS = (
    ("chunk_vec", "vectors"),
    ("chunk_terms", "words"),
    ("posting", "words"),
    ("segment", "words"),
    ("term", "words"),
    ("lexicon", "words"),
    ("chunk", "texts"),
    ("document_fact", "filters"),
    ("document", "texts"),
    ("trace", "traces"),
    ("passage", "links"),
    ("code", "code"),
)


async def overview(connection: Connection) -> StoreOverview:
    """Return server, sizes and counts. Cost: linear in the traces; all else is read from catalogues."""
    counts = await connection.fetchrow(_COUNTS)
    parts: Counter[str] = Counter()
    for row in await connection.fetch(_SIZES, SCHEMA):
        parts[_part(row["name"])] += row["bytes"]
    return StoreOverview(
        server=f"PostgreSQL {counts['server'].split()[0]}",
        pgvector=counts["pgvector"] or "",
        bytes=counts["bytes"],
        parts=dict(sorted(parts.items())),
        questions=counts["questions"],
        snapshots=counts["snapshots"],
        asked_at=_iso(counts["asked_at"]),
        stored_at=_iso(counts["stored_at"]),
    )


def _part(table: str) -> str:
    return next((part for prefix, part in _PARTS if table.startswith(prefix)), "other")


def _iso(moment: Any) -> str:
    return moment.astimezone(UTC).isoformat() if isinstance(moment, datetime) else ""
