"""Bring a database to the schema of this version: plain SQL files, each applied once, in order.

When several processes open a new database at once, one applies the files and the others wait. A database of a
newer version and a file that was changed after it was applied are refused.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources

import msgspec

from whence.schema.errors import ConfigError, HomeTooNew
from whence.store.postgres.driver import Connection, errors

#: Schema of all tables, so that their names clash with no others.
SCHEMA = "whence"

#: Key of the advisory lock under which migrations are applied: "whence" in ASCII.
_LOCK = 0x7768656E6365
_LOWEST_SERVER = 160000
_CREATE_SCHEMA = f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"
_CREATE_TABLE = f"""
CREATE TABLE IF NOT EXISTS {SCHEMA}.migration (
    version int PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now())
"""
_APPLIED = f"SELECT version, checksum FROM {SCHEMA}.migration"  # noqa: S608 - only constants
_RECORD = f"INSERT INTO {SCHEMA}.migration (version, name, checksum) VALUES ($1, $2, $3)"  # noqa: S608 - only constants
_VECTOR_SCHEMA = """
SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""
_FILE = re.compile(r"(\d{4})_(\w+)\.sql\Z")


class Migration(msgspec.Struct, frozen=True):
    """One file of SQL."""

    version: int
    """Of two the lower one is applied first; numbers may have gaps."""
    name: str
    """Its subject."""
    sql: str
    """The statements."""

    @property
    def checksum(self) -> str:
        """SHA-256 of the statements, hexadecimal."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def migrations() -> tuple[Migration, ...]:
    """Read all migrations in order."""
    found = [
        Migration(int(matched[1]), matched[2], file.read_text(encoding="utf-8"))
        for file in (resources.files("whence.store.postgres") / "migrations").iterdir()
        if (matched := _FILE.match(file.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.version))


async def migrate(connection: Connection, known: tuple[Migration, ...]) -> int:
    """Apply missing files, each in a transaction of its own; return how many were applied."""
    _check_server(connection)
    # Checked first, so that later starts take no lock.
    if not _missing(await _applied(connection), known):
        return 0
    await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
    try:
        await _prepare(connection)
        missing = _missing(await _applied(connection), known)
        for migration in missing:
            await _apply(connection, migration)
    finally:
        if not connection.is_closed():
            await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)
    return len(missing)


def _check_server(connection: Connection) -> None:
    version = connection.get_server_version()
    if version.major * 10000 < _LOWEST_SERVER:
        raise ConfigError(
            f"the database is PostgreSQL {version.major}",
            hint=f"PostgreSQL {_LOWEST_SERVER // 10000} or newer is needed",
        )


async def _applied(connection: Connection) -> dict[int, str]:
    """Return the checksums of applied files by version."""
    if await connection.fetchval("SELECT to_regclass($1)", f"{SCHEMA}.migration") is None:
        return {}
    rows = await connection.fetch(_APPLIED)
    return {row["version"]: row["checksum"] for row in rows}


def _missing(applied: dict[int, str], known: tuple[Migration, ...]) -> list[Migration]:
    newest, ours = max(applied, default=0), max((one.version for one in known), default=0)
    if newest > ours:
        raise HomeTooNew(
            f"the database has schema {newest}, this version of Whence knows {ours}",
            hint="install the newer version again, or use another database",
        )
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise ConfigError(
                f"migration {migration.version:04} ({migration.name}) was changed after it was applied",
                hint="install Whence again; if that does not help, index into a new database",
            )
    return [migration for migration in known if migration.version not in applied]


async def _prepare(connection: Connection) -> None:
    """Create the schema, the extension and the table of applied files."""
    await connection.execute(_CREATE_SCHEMA)
    await _ensure_vector(connection)
    await connection.execute(_CREATE_TABLE)


async def _ensure_vector(connection: Connection) -> None:
    # Checked first: some hosts forbid CREATE EXTENSION even for an installed extension.
    if await extension_schema(connection) is not None:
        return
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (errors.FeatureNotSupportedError, errors.UndefinedFileError) as error:
        raise ConfigError(
            "the database server has no pgvector", hint="install pgvector on the database server"
        ) from error
    except errors.InsufficientPrivilegeError as error:
        raise ConfigError(
            "the database does not allow us to install pgvector",
            hint="ask its owner to run: CREATE EXTENSION vector",
        ) from error


async def extension_schema(connection: Connection) -> str | None:
    """Return the schema that pgvector is installed in, or None."""
    schema: str | None = await connection.fetchval(_VECTOR_SCHEMA)
    return schema


async def _apply(connection: Connection, migration: Migration) -> None:
    vector = await extension_schema(connection)
    async with connection.transaction():
        await connection.execute(
            "SELECT set_config('search_path', $1, true)", f'{SCHEMA}, public, "{vector}"'
        )
        await connection.execute(migration.sql)
        await connection.execute(_RECORD, migration.version, migration.name, migration.checksum)
