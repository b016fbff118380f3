"""What the database is and how much of what it holds."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from whence.store.postgres.driver import Connection
from whence.store.postgres.migrate import SCHEMA
from whence.store.protocols import StoreOverview

__all__ = ("overview",)

_FACTS = """
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
#: What each table is for, by the beginning of its name; the first that fits counts.
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
    """Describe the database. Cost: a count of the questions; the rest is in catalogues."""
    facts = await connection.fetchrow(_FACTS)
    parts: Counter[str] = Counter()
    for row in await connection.fetch(_SIZES, SCHEMA):
        parts[_part(row["name"])] += row["bytes"]
    return StoreOverview(
        server=f"PostgreSQL {facts['server'].split()[0]}",
        pgvector=facts["pgvector"] or "",
        bytes=facts["bytes"],
        parts=dict(sorted(parts.items())),
        questions=facts["questions"],
        snapshots=facts["snapshots"],
        asked_at=_iso(facts["asked_at"]),
        stored_at=_iso(facts["stored_at"]),
    )


def _part(table: str) -> str:
    return next((part for prefix, part in _PARTS if table.startswith(prefix)), "other")


def _iso(moment: Any) -> str:
    return moment.astimezone(UTC).isoformat() if isinstance(moment, datetime) else ""
