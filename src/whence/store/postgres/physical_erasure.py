"""Remove what deleted rows left on disk: rewrite tables, renew the journal, search the files.

A deleted row stays in the files of its table, of its indexes and of the write-ahead log until something else
takes its place; samples of its values stay in the planner's statistics. `VACUUM FULL` writes the tables again,
`ANALYZE` takes other samples, and the journal is filled with zeros or removed by a checkpoint. Blocks that the
file system freed are beyond the reach of a database.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from whence.schema.errors import Unavailable
from whence.store.file_search import FileSearch, rare_words, text_pieces, word_forms
from whence.store.postgres.dense import vector_index
from whence.store.postgres.driver import Connection, errors
from whence.store.postgres.migrate import SCHEMA
from whence.store.postgres.part import PostgresPart
from whence.store.postgres.pool import ConnectionPool
from whence.store.postgres.server.home import Home
from whence.store.postgres.server.locks import Backoff
from whence.store.protocols import Expunged

Progress = Callable[[int, int | None], None]

#: Longest wait for other processes at each step, in seconds.
_PATIENCE_S = 120.0
#: Longest wait for a lock: readers queue behind a waiting rewrite. In milliseconds.
_LOCK_TIMEOUT_MS = 1_000
#: Advisory lock of the process that rewrites: "eras" in ASCII.
_LOCK = 0x65726173
#: Tables without texts of documents.
_NO_TEXTS = ("migration", "code_neighbours", "code_node")
_TABLES = """
SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname <> ALL ($2::text[]) ORDER BY c.relname
"""
_NOW = "SELECT pg_current_xact_id()::xid::text"
#: Connections that may still read rows which were deleted before a transaction.
_OLDER = """
SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()
AND (age(backend_xmin) > age($1::text::xid) OR age(backend_xid) > age($1::text::xid))
"""
_LAST_SEGMENT = "SELECT max(name) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'"
_SEGMENT = "SELECT pg_walfile_name(pg_current_wal_insert_lsn())"
_FILL = "SELECT pg_logical_emit_message(false, 'whence', 'erase')"
_SWITCH = "SELECT pg_switch_wal()"
#: Files of system catalogues, which hold no texts of documents except for samples of columns.
_CATALOGUES = """
SELECT pg_relation_filepath(c.oid) AS path FROM pg_class c
WHERE c.oid < 16384 AND c.relkind IN ('r', 'i', 't') AND c.relname !~ '^(pg_statistic|pg_toast_(2619|3429))'
    AND pg_relation_filepath(c.oid) IS NOT NULL
"""
_OTHER_DATABASES = """
SELECT 'base/' || oid AS path FROM pg_database WHERE datname <> current_database()
"""
_DATABASE = """
SELECT 'base/' || oid, extract(epoch FROM pg_postmaster_start_time())::float8 FROM pg_database
WHERE datname = current_database()
"""
#: Numbers of files without a table; those below 16384 belong to the server itself.
_ORPHANS = """
SELECT n AS number FROM unnest($1::oid[]) n WHERE n >= 16384 AND pg_filenode_relation(0, n) IS NULL
"""
_TABLE_FILE = re.compile(r"(\d+)(?:_[a-z]+)?(?:\.\d+)?\Z")
#: Those of the words that documents still have, or names of the database.
_KEPT_WORDS = """
SELECT w FROM unnest($1::text[]) w WHERE EXISTS (SELECT FROM word x WHERE x.word = w)
    OR EXISTS (SELECT FROM former_chunk c WHERE position(w IN lower(c.embed_prefix || c.content || c.embed_text)) > 0)
    OR EXISTS (SELECT FROM pg_attribute a WHERE position(w IN lower(a.attname)) > 0)
    OR EXISTS (SELECT FROM pg_class c WHERE position(w IN lower(c.relname)) > 0)
    OR EXISTS (SELECT FROM pg_settings s WHERE position(w IN lower(s.name)) > 0)
"""
#: Those of the strings that documents still have, or names of collections, folders, files and documents.
_KEPT_STRINGS = """
SELECT s FROM unnest($1::text[]) s WHERE EXISTS (
    SELECT FROM chunk c WHERE position(s IN c.embed_prefix || c.content) > 0 OR position(s IN c.embed_text) > 0
        OR position(s IN c.heading) > 0 OR position(s IN c.section_path) > 0
) OR EXISTS (
    SELECT FROM former_chunk c WHERE position(s IN c.embed_prefix || c.content) > 0 OR position(s IN c.embed_text) > 0
        OR position(s IN c.heading) > 0 OR position(s IN c.section_path) > 0
) OR EXISTS (
    SELECT FROM (
        SELECT document_id, title, source_file, source_url, metadata FROM document
        UNION ALL SELECT document_id, title, source_file, source_url, metadata FROM former_document
    ) d WHERE position(s IN d.document_id) > 0 OR position(s IN d.title) > 0
        OR position(s IN d.source_file) > 0 OR position(s IN d.source_url) > 0 OR position(s IN d.metadata::text) > 0
) OR EXISTS (
    SELECT FROM (
        SELECT name FROM collection UNION ALL SELECT path FROM source_file
        UNION ALL SELECT path FROM source_root UNION ALL SELECT name FROM source_root
        UNION ALL SELECT document_id FROM effect
    ) n WHERE position(s IN n.name) > 0
)
"""
_EXTERNAL = (
    "deleted rows stay in the files of this database server until its owner runs:"
    " psql DATABASE_URL -c 'VACUUM (FULL, ANALYZE)' -c 'VACUUM FULL pg_statistic' -c 'SELECT pg_switch_wal()' -c CHECKPOINT;"
    " recycled and archived WAL, replicas and backups keep them longer"
)
_FOUND = (
    "these files still have words of it, perhaps because another process wrote them meanwhile;"
    " run the same command again"
)


class PostgresPhysicalErasure(PostgresPart):
    """Implements the part of `Store` that removes what erased documents left in files."""

    async def expunge(self, texts: Sequence[str], *, progress: Progress | None = None) -> Expunged:
        """Rewrite the tables of an embedded server; say what is left to do on another one."""
        if self.pool.home is None:
            return Expunged(done=False, hint=_EXTERNAL)
        await self.maintenance.wait()
        return await _Run(self.pool, Home(self.pool.home), progress).run(texts)

    async def is_expunged(self) -> bool:
        """Return whether the home has no mark of an unfinished erasure."""
        home = self.pool.home
        return home is None or not Home(home).erasure_mark.exists()


class _Run:
    """One run, on the embedded server of a home."""

    def __init__(self, pool: ConnectionPool, home: Home, progress: Progress | None) -> None:
        self._pool = pool
        self._home = home
        self._progress = progress
        self._done = 0
        self._total: int | None = None

    async def run(self, texts: Sequence[str]) -> Expunged:
        """Rewrite all tables that hold texts of documents, renew the journal, and search the home.

        Other processes go on; a search waits while its table is rewritten. Cost: linear in the size of these
        tables and of all files; vector indexes of large collections are built again.
        """
        async with self._pool.connection() as connection:
            await connection.execute(
                f"SET statement_timeout = 0; SET lock_timeout = {_LOCK_TIMEOUT_MS}"
            )
            await self._take_turn(connection)
            self._home.erasure_mark.touch(mode=0o600)
            indexed = await self._rewrite_tables(connection)
            await _renew_journal(connection)
            found = await self._search(connection, texts)
            if found.done:
                self._home.erasure_mark.unlink(missing_ok=True)
        # Built by connections that have settings of their own.
        for collection_id in indexed:
            async with self._pool.connection() as connection:
                await vector_index.build_index(connection, collection_id)
        return found

    async def _take_turn(self, connection: Connection) -> None:
        backoff = Backoff(_PATIENCE_S, "another process to finish erasing")
        while not await connection.fetchval("SELECT pg_try_advisory_lock($1, 0)", _LOCK):
            await _wait(backoff, "another process is erasing documents")
        now = await connection.fetchval(_NOW)
        backoff = Backoff(_PATIENCE_S, "other processes to finish what they began")
        while await connection.fetchval(_OLDER, now):
            await _wait(backoff, "another process reads or writes since before the erasure")

    async def _rewrite_tables(self, connection: Connection) -> list[int]:
        """Return the numbers of the collections whose vector indexes were dropped."""
        tables = [row[0] for row in await connection.fetch(_TABLES, SCHEMA, list(_NO_TEXTS))]
        self._total = len(tables) + 1
        # Made anew afterwards, while searches go on without them.
        graphs = await vector_index.list_indexes(connection)
        for _, name in graphs:
            await _rewrite(connection, f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        for table in tables:
            await _rewrite(connection, f"VACUUM (FULL, ANALYZE) {table}")
            self._step()
        await _rewrite(connection, "VACUUM FULL pg_catalog.pg_statistic")
        self._step()
        return sorted({number for number, _ in graphs})

    async def _search(self, connection: Connection, texts: Sequence[str]) -> Expunged:
        words = rare_words(texts)
        kept = {row[0] for row in await connection.fetch(_KEPT_WORDS, words)}
        search = FileSearch(
            [*text_pieces(texts), *word_forms([one for one in words if one not in kept])]
        )
        self._trim_log(search)
        await self._remove_orphans(connection)
        paths = [
            *await connection.fetch(_CATALOGUES),
            *await connection.fetch(_OTHER_DATABASES),
        ]
        without = frozenset(self._home.data / row["path"] for row in paths) | {
            self._home.data / "global"
        }
        # What the server has by itself, such as names of its settings, shows no document.
        elsewhere = await asyncio.to_thread(
            search.find_in, [*without, *_settings_files(self._home)]
        )
        searched, found = await asyncio.to_thread(
            search.find_below, self._home.path, without=without, moved=self._step
        )
        strings = sorted(
            {one.decode() for of_file in found.values() for one in of_file - elsewhere}
        )
        elsewhere |= {row[0].encode() for row in await connection.fetch(_KEPT_STRINGS, strings)}
        left = {path: ours for path, of_file in found.items() if (ours := of_file - elsewhere)}
        return Expunged(
            done=not left,
            files_searched=searched,
            strings=len(search.strings) - len(elsewhere),
            found=sum(map(len, left.values())),
            files=tuple(str(path.relative_to(self._home.path)) for path in left),
            hint=_FOUND if left else "",
        )

    async def _remove_orphans(self, connection: Connection) -> None:
        """Remove files of tables that a killed server had begun to write; no table has them.

        A file that is older than the server belongs to no transaction that still runs.
        """
        folder, started = await connection.fetchrow(_DATABASE)
        numbered = {
            path: int(matched[1])
            for path in (self._home.data / folder).iterdir()
            if (matched := _TABLE_FILE.match(path.name)) and path.stat().st_mtime < started
        }
        rows = await connection.fetch(_ORPHANS, sorted(set(numbered.values())))
        orphans = {row["number"] for row in rows}
        for path in sorted(path for path, number in numbered.items() if number in orphans):
            path.unlink()

    def _trim_log(self, search: FileSearch) -> None:
        """Empty the server's log if it quotes an erased text."""
        if search.find(self._home.log):
            with self._home.log.open("r+b") as log:
                log.truncate()

    def _step(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def _settings_files(home: Home) -> list[Path]:
    """Return the files of settings that the server was started with; none is written while it runs."""
    return [*home.data.glob("*.conf"), home.data / "postmaster.opts"]


async def _rewrite(connection: Connection, statement: str) -> None:
    """Run a statement that needs a table for itself; it waits a second at a time, so readers go on between."""
    table = statement.rpartition(" ")[2]
    backoff = Backoff(_PATIENCE_S, f"other processes to leave the table {table}")
    while True:
        try:
            await connection.execute(statement)
        except (errors.LockNotAvailableError, errors.DeadlockDetectedError):
            await _wait(backoff, f"the table {table} is used by other processes")
        else:
            return


async def _wait(backoff: Backoff, why: str) -> None:
    if not await backoff.wait():
        raise Unavailable(
            f"{why}: waited {backoff.waited_s:.0f} s; the documents are erased, but their words are still in files"
            " of the database",
            hint="end the other process or wait for it, then run the same command again",
        )


async def _renew_journal(connection: Connection) -> None:
    """Overwrite or remove all files of the write-ahead log that are older than this call.

    The first round fills the files that wait to be used again. Its checkpoint may set older ones aside for
    the same, so there is a second. Cost: 16 MiB of zeros a file.
    """
    for _ in range(2):
        last = await connection.fetchval(_LAST_SEGMENT)
        while await connection.fetchval(_SEGMENT) <= last:
            await connection.execute(_FILL)
            await connection.execute(_SWITCH)
        await connection.execute("CHECKPOINT")
