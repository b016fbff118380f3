"""The change log in PostgreSQL, written in the transaction that changes the documents.

Each function that writes must be called with the row of the collection locked, before the documents change. One
that finds nothing to change makes no version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from whence.schema.access import Access, DocumentTags
from whence.store.acl_check import allowed_rows
from whence.store.change_log import Change, ChangeKind
from whence.store.postgres.acl_classes import ALLOWED, access_values
from whence.store.postgres.collection_version import CollectionVersion
from whence.store.postgres.driver import Connection, iso_utc, write_transaction
from whence.store.postgres.part import PostgresPart
from whence.store.validation import is_text

#: Names of the kinds in the table.
_KINDS: Final[Mapping[str, ChangeKind]] = {
    "a": "added",
    "c": "changed",
    "t": "tagged",
    "r": "removed",
    "e": "erased",
    "s": "settings",
}
# Rows of `document_id, kind, class_id, content, first_version`; a null content becomes the new version's
# number.
_LOG = """
WITH w AS ({rows}),
next AS (
    UPDATE collection SET version = version + 1, changed_at = $2 WHERE id = $1 AND EXISTS (SELECT FROM w)
    RETURNING version
),
logged AS (
    INSERT INTO document_change
        (collection_id, document_id, version, kind, class_id, content, first_version, changed_at)
    SELECT $1, w.document_id, next.version, w.kind::"char", w.class_id, coalesce(w.content, next.version),
        w.first_version, $2
    FROM w, next RETURNING version
)
SELECT max(version) FROM logged
"""
_LAST = """
    SELECT x.{column} FROM document_change x
    WHERE x.collection_id = $1 AND x.document_id = d.document_id ORDER BY x.version DESC LIMIT 1"""
_REPLACED = _LOG.format(
    rows="""
    SELECT w.document_id, w.class_id, hashtextextended(nullif(w.digest, ''), 0) AS content,
        CASE WHEN d.id IS NULL THEN 'a' WHEN d.digest = w.digest AND w.digest <> '' THEN 't' ELSE 'c' END AS kind,
        NULL::bigint AS first_version
    FROM unnest($3::text[], $4::int[], $5::text[]) w(document_id, class_id, digest)
    LEFT JOIN document d ON d.collection_id = $1 AND d.document_id = w.document_id
    WHERE d.id IS NULL OR d.digest <> w.digest OR w.digest = '' OR d.class_id <> w.class_id"""
)
_TAGGED = _LOG.format(
    rows=f"""
    SELECT d.document_id, w.class_id, ({_LAST.format(column="content")}) AS content, 't' AS kind,
        NULL::bigint AS first_version
    FROM unnest($3::text[], $4::int[]) w(document_id, class_id)
    JOIN document d ON d.collection_id = $1 AND d.document_id = w.document_id AND d.class_id <> w.class_id"""  # noqa: S608 - only constants
)
_REMOVED = _LOG.format(
    rows="""
    SELECT d.document_id, d.class_id, 0 AS content, 'r' AS kind, NULL::bigint AS first_version
    FROM document d WHERE d.collection_id = $1 AND d.document_id = ANY($3::text[])"""
)
# One entry without a name takes the place of all that name the document.
_ERASED = _LOG.format(
    rows="""
    SELECT '' AS document_id, (array_agg(x.class_id ORDER BY x.version DESC))[1] AS class_id, 0 AS content,
        'e' AS kind, min(x.version) AS first_version
    FROM document_change x WHERE x.collection_id = $1 AND x.document_id = $3 HAVING count(*) > 0"""
)
_FORGET = "DELETE FROM document_change WHERE collection_id = $1 AND document_id = $2"
_SETTINGS = _LOG.format(
    rows="""
    SELECT '' AS document_id, NULL::int AS class_id, 0 AS content, 's' AS kind, NULL::bigint AS first_version"""
)
_CURRENT = "SELECT version FROM collection WHERE name = $1"
_VERSION_AT = """
SELECT coalesce(max(x.version), 0) FROM collection n JOIN document_change x ON x.collection_id = n.id
WHERE n.name = $1 AND x.changed_at <= $2
"""
# A document has the tags of its last entry. Settings have none and are the collection's.
_CHANGES = f"""
WITH entry AS MATERIALIZED (
    SELECT x.* FROM collection n JOIN document_change x ON x.collection_id = n.id
    WHERE n.name = $4 AND x.version > $5
), named AS (
    SELECT DISTINCT ON (x.document_id) x.document_id, x.collection_id, x.class_id
    FROM entry x WHERE x.document_id <> '' ORDER BY x.document_id, x.version DESC
), own AS (
    SELECT w.* FROM named w JOIN sec_class s ON s.id = w.class_id AND {ALLOWED}
), chosen AS (
    SELECT x.*, own.class_id AS last_class FROM own JOIN document_change x
        ON x.collection_id = own.collection_id AND x.document_id = own.document_id AND ($6 OR x.version > $5)
    UNION ALL
    SELECT x.*, x.class_id FROM entry x JOIN sec_class s ON s.id = x.class_id AND {ALLOWED}
    WHERE x.document_id = ''
)
SELECT x.document_id, x.version, x.kind, x.content, x.first_version, x.changed_at,
    t.acl, t.labels, t.clearance, x.version AS own_document,
    g.id AS own_class, g.acl AS own_acl, g.labels AS own_labels, g.clearance AS own_clearance
FROM chosen x JOIN sec_class t ON t.id = x.class_id JOIN sec_class g ON g.id = x.last_class
"""  # noqa: S608 - only constants
_SETTINGS_CHANGES = """
SELECT x.version, x.changed_at FROM collection n JOIN document_change x ON x.collection_id = n.id
WHERE n.name = $1 AND x.version > $2 AND x.document_id = '' AND x.kind = 's'
"""


_ERASED_SINCE = """
SELECT EXISTS (
    SELECT FROM collection n JOIN document_change x ON x.collection_id = n.id AND x.document_id = '' AND x.kind = 'e'
    WHERE n.name = $1 AND x.version > $2
)
"""
# Erased documents have no entries; one that came again has none of then.
_ERASED_OF = """
SELECT d FROM unnest($2::text[]) d WHERE NOT EXISTS (
    SELECT FROM collection n JOIN document_change x ON x.collection_id = n.id
    WHERE n.name = $1 AND x.document_id = d AND (x.version <= $3 OR $3 = 0)
)
"""


# Old entries but the last of each document that was there, and the last with its content.
_OLD = """
WITH old AS (
    SELECT x.document_id, max(x.version) AS last, max(x.version) FILTER (WHERE x.kind IN ('a', 'c')) AS content
    FROM document_change x WHERE x.collection_id = $1 AND x.changed_at < $2 AND x.document_id <> '' GROUP BY 1
), kept AS (
    SELECT o.document_id, unnest(ARRAY[o.last, o.content]) AS version
    FROM old o JOIN document_change l ON l.collection_id = $1 AND l.document_id = o.document_id
        AND l.version = o.last AND l.kind <> 'r'
)
{what} FROM document_change x WHERE x.collection_id = $1 AND x.changed_at < $2
    AND NOT EXISTS (SELECT FROM kept k WHERE k.document_id = x.document_id AND k.version = x.version)
"""
_COUNT_OLD = _OLD.format(what="SELECT count(*)")
_REMOVE_OLD = f"WITH gone AS ({_OLD.format(what='DELETE')} RETURNING 1) SELECT count(*) FROM gone"  # noqa: S608 - only constants
_BEGIN_LATER = "UPDATE collection SET logged_since = greatest(logged_since, $2) WHERE id = $1"
_COLLECTIONS = "SELECT id FROM collection WHERE NOT internal ORDER BY id"
_LOCK = "SELECT FROM collection WHERE id = $1 FOR UPDATE"


def _allowed_at(version: str, which: str = "t.kind <> 'r'") -> str:
    """Return the condition that a reader may see a document by its tags at a version."""
    return f"""
    EXISTS (
        SELECT FROM (
            SELECT x.kind, x.class_id FROM document_change x
            WHERE x.collection_id = h.collection_id AND x.document_id = h.document_id AND x.version <= {version}
            ORDER BY x.version DESC LIMIT 1
        ) t JOIN sec_class s ON s.id = t.class_id AND {ALLOWED} WHERE {which}
    )"""  # noqa: S608 - only constants


_WAS_HIDDEN = f"""
WITH h AS (
    SELECT DISTINCT n.id AS collection_id, x.document_id
    FROM collection n JOIN document_change x ON x.collection_id = n.id
    WHERE n.name = $4 AND x.version > $5 AND x.version <= $6 AND x.document_id <> ''
)
SELECT EXISTS (
    SELECT FROM h WHERE NOT {_allowed_at(str(2**63 - 1), "true")}
        AND {_allowed_at("$5")} <> {_allowed_at("$6")}
)
"""  # noqa: S608 - only constants


async def log_replaced(
    connection: Connection,
    collection_id: int,
    at: datetime,
    documents: Sequence[tuple[str, int, str]],
) -> int | None:
    """Log documents that are about to be stored: id, access class and digest of each.

    A document whose digest and tags stay is not logged.

    Returns:
        The new version, None when nothing changes.
    """
    columns: list[list[Any]] = [list(column) for column in zip(*documents, strict=True)]
    return await _log(connection, _REPLACED, collection_id, at, *columns)


async def log_tagged(
    connection: Connection, collection_id: int, at: datetime, ids: Sequence[str], classes: list[int]
) -> int | None:
    """Log documents that are about to get other tags; the same as `log_replaced`."""
    return await _log(connection, _TAGGED, collection_id, at, list(ids), classes)


async def log_removed(
    connection: Connection, collection_id: int, at: datetime, ids: Sequence[str]
) -> int | None:
    """Log documents that are about to be removed; the same as `log_replaced`."""
    return await _log(connection, _REMOVED, collection_id, at, list(ids))


async def log_erased(
    connection: Connection, collection_id: int, at: datetime, document_id: str
) -> None:
    """Replace all entries of a document by one that does not name it."""
    await _log(connection, _ERASED, collection_id, at, document_id)
    await connection.execute(_FORGET, collection_id, document_id)


async def was_erased_since(connection: Connection, collection: str, version: int) -> bool:
    """Return whether a document was erased after a version of its collection."""
    found: bool = await connection.fetchval(_ERASED_SINCE, collection, version)
    return found


async def erased_documents(
    connection: Connection, collection: str, document_ids: Sequence[str], version: int
) -> frozenset[str]:
    """Return those of some documents that a version had, and that were erased; 0 is an unknown version."""
    rows = await connection.fetch(_ERASED_OF, collection, list(document_ids), version)
    return frozenset(row["d"] for row in rows)


async def log_settings(connection: Connection, collection_id: int, at: datetime) -> None:
    """Log that settings of the collection change."""
    await _log(connection, _SETTINGS, collection_id, at)


async def prune_log(connection: Connection, before: datetime, *, dry_run: bool = False) -> int:
    """Remove what all logs say of the time before a moment; return the number of entries.

    From then on the log is as it was: each document that was there keeps its last entries. One transaction a
    collection. Cost: linear in the logs.
    """
    removed = 0
    for row in await connection.fetch(_COLLECTIONS):
        if dry_run:
            removed += await connection.fetchval(_COUNT_OLD, row["id"], before)
            continue
        async with write_transaction(connection):
            await connection.execute(_LOCK, row["id"])
            found: int = await connection.fetchval(_REMOVE_OLD, row["id"], before)
            if found:
                await connection.execute(_BEGIN_LATER, row["id"], before)
        removed += found
    return removed


async def _log(connection: Connection, statement: str, *values: Any) -> int | None:
    version: int | None = await connection.fetchval(statement, *values)
    return version


class PostgresChangeLog(PostgresPart):
    """Versions of collections and the log of their changes."""

    async def collection_version(self, collection: str) -> int:
        """Return the version that a search saw last, or the current one; see `ChunkStore`."""
        seen: CollectionVersion | None = self.cache.get(collection)
        if seen is not None:
            return seen.number
        async with self.pool.search_connection() as connection:
            version: int | None = await connection.fetchval(_CURRENT, collection)
        return version or 0

    async def version_at(self, collection: str, moment: datetime) -> int:
        """Return the version of a collection at a moment. Cost: linear in its log."""
        async with self.pool.connection() as connection:
            version: int = await connection.fetchval(_VERSION_AT, collection, moment)
        return version

    async def changes(
        self, collection: str, access: Access, *, after: int = 0, whole: bool = False
    ) -> list[Change]:
        """Return entries of the log that the reader may see; see `ChunkStore`."""
        if not is_text(collection):
            return []
        values = (*access_values(access), collection, after, whole)
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_CHANGES, *values)
            settings = await connection.fetch(_SETTINGS_CHANGES, collection, after)
        found = [
            Change(
                version=row["version"],
                changed_at=iso_utc(row["changed_at"]),
                kind=_KINDS[row["kind"].decode()],
                document_id=row["document_id"],
                tags=DocumentTags(tuple(row["acl"]), tuple(row["labels"]), row["clearance"]),
                content=row["content"],
                first_version=row["first_version"] or 0,
            )
            for row in allowed_rows(rows, access, "change log")
        ]
        found += [
            Change(version=row["version"], changed_at=iso_utc(row["changed_at"]), kind="settings")
            for row in settings
        ]
        return sorted(found, key=lambda one: (one.version, one.document_id))

    async def was_hidden(self, collection: str, access: Access, one: int, other: int) -> bool:
        """Return whether one version alone shows documents that are hidden today; see `ChunkStore`."""
        values = (*access_values(access), collection, *sorted((one, other)))
        async with self.pool.connection() as connection:
            found: bool = await connection.fetchval(_WAS_HIDDEN, *values)
        return found
