"""The store on PostgreSQL with pgvector: opens and closes it, and names its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Self

from whence.store.chain_key import ChainKey
from whence.store.change_log import KEEP_VERSIONS
from whence.store.postgres.change_log import PostgresChangeLog
from whence.store.postgres.chunk_reader import PostgresTexts
from whence.store.postgres.collections import PostgresCollections
from whence.store.postgres.dense.pending import PostgresVectors
from whence.store.postgres.documents import PostgresDocuments
from whence.store.postgres.driver import Connection, iso_utc
from whence.store.postgres.former_documents import PostgresVersions
from whence.store.postgres.ledger import PostgresLedger
from whence.store.postgres.links.queries import PostgresLinks
from whence.store.postgres.maintenance import Maintenance
from whence.store.postgres.migrate import SCHEMA
from whence.store.postgres.physical_erasure import PostgresPhysicalErasure
from whence.store.postgres.pool import ConnectionPool
from whence.store.postgres.readers import PostgresReaders
from whence.store.postgres.renaming import PostgresRenaming
from whence.store.postgres.search import PostgresSearch
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.sources import PostgresSources
from whence.store.postgres.symbol_lookup import PostgresSymbols
from whence.store.postgres.traces import PostgresTraces
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
_REFERENCE = "SELECT count(*) FROM generate_series(1, 4000) AS number WHERE number % 7 = 3"
#: Purpose of each table by the beginning of its name; the first match counts.
_PARTS = (
    ("chunk_vec", "vectors"),
    ("vector", "vectors"),
    ("chunk_codes", "token_vectors"),
    ("chunk_terms", "words"),
    ("posting", "words"),
    ("segment", "words"),
    ("term", "words"),
    ("lexicon", "words"),
    ("word", "words"),
    ("chunk", "texts"),
    ("document_fact", "filters"),
    ("document_change", "changes"),
    ("former", "former_versions"),
    ("document", "texts"),
    ("trace", "traces"),
    ("reader", "traces"),
    ("passage", "links"),
    ("source", "texts"),
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
        asked_at=iso_utc(counts["asked_at"]),
        stored_at=iso_utc(counts["stored_at"]),
    )


def _part(table: str) -> str:
    return next((part for prefix, part in _PARTS if table.startswith(prefix)), "other")


def _now() -> datetime:
    return datetime.now(UTC)


class PostgresStore(
    PostgresCollections,
    PostgresDocuments,
    PostgresVectors,
    PostgresVersions,
    PostgresPhysicalErasure,
    PostgresSearch,
    PostgresChangeLog,
    PostgresTexts,
    PostgresSources,
    PostgresSymbols,
    PostgresLinks,
    PostgresRenaming,
    PostgresTraces,
    PostgresReaders,
):
    """Chunks, traces and names over one connection pool.

    Its methods are those of its bases; `whence.store.protocols` specifies them. Open it with
    `async with await PostgresStore.connect(...)`.
    """

    @classmethod
    async def connect(
        cls,
        source: str | EmbeddedServer,
        *,
        pool_size: int | None = None,
        statement_timeout_s: float = 60.0,
        write_timeout_s: float = 600.0,
        clock: Callable[[], datetime] = _now,
        key: ChainKey | None = None,
        keep_versions: timedelta = KEEP_VERSIONS,
        keep_traces: timedelta | None = None,
    ) -> Self:
        """Connect and bring the database to the schema of this version; `aclose` or a block closes the store.

        Args:
            source: A URL `postgresql://...`, or an embedded server that was started.
            pool_size: Most connections at once, 1 or more; None for four per core, at most 32. As many are
                opened beside them for short searches.
            statement_timeout_s: Longest a read may take, in seconds.
            write_timeout_s: Longest one statement of a write may take, in seconds.
            clock: Returns the time that a change or a trace is recorded with, and its zone.
            key: Signs the chain of traces; None when nothing is signed.
            keep_versions: Time for which replaced and removed documents are kept; none when it is zero.
            keep_traces: How long traces are kept; None for ever.
        """
        pool = await ConnectionPool.open(
            source, size=pool_size, statement_timeout_s=statement_timeout_s
        )
        store = cls(
            pool,
            Maintenance(pool, write_timeout_s),
            write_timeout_s=write_timeout_s,
            clock=clock,
            key=key,
            keep_versions=keep_versions,
            keep_traces=keep_traces,
        )
        await store.adopt_traces()
        return store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; calls still running after 10 s are cut off, maintenance at once."""
        await self.maintenance.aclose()
        await self.pool.aclose()

    def ledger(self) -> PostgresLedger:
        """Return a ledger in this database, to be closed by the caller."""
        return PostgresLedger(self.pool.connection)

    async def reference(self) -> None:
        """Have the database answer a fixed statement that reads no table; about 1 ms."""
        async with self.pool.connection() as connection:
            await connection.fetchval(_REFERENCE)

    async def overview(self) -> StoreOverview:
        """Return what the database is and how much it holds."""
        async with self.pool.connection() as connection:
            return await overview(connection)
