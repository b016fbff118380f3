"""Roots and the states of files in PostgreSQL."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from typing import Any

from whence.schema.access import Access
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.postgres.acl_classes import ALLOWED, access_values, intern_classes
from whence.store.postgres.driver import Connection, write_transaction
from whence.store.postgres.part import PostgresPart
from whence.store.source_states import (
    FileState,
    SourceFileState,
    SourceRoot,
    StoredSource,
    numbered,
)
from whence.store.validation import check_texts, is_text

#: States as they are stored.
LETTERS: dict[FileState, str] = {"read": "r", "skipped": "s", "failed": "f", "gone": "g"}
FILE_STATES = {letter: state for state, letter in LETTERS.items()}
#: Key of the advisory lock under which roots are added: "root" in ASCII.
_LOCK = 0x726F6F74
_ROOTS = "SELECT name, path FROM source_root WHERE collection = $1 ORDER BY name"
_ADD_ROOT = """
INSERT INTO source_root VALUES ($1, $2, $3) ON CONFLICT (collection, name) DO UPDATE SET path = EXCLUDED.path
"""
_STORED = """
SELECT d.document_id, d.root, d.source_file AS path, true AS is_document, NULL::"char" AS state, 0::bigint AS size,
    0::bigint AS modified, '' AS digest FROM collection c JOIN document d ON d.collection_id = c.id
WHERE c.name = $1
UNION ALL SELECT f.document_id, f.root, f.path, false, f.state, f.size, f.modified, f.digest FROM source_file f WHERE f.collection = $1
ORDER BY is_document DESC
"""
# The rights of a stored document have precedence. A file that is unchanged is not written again.
_NOTE = """
INSERT INTO source_file AS f
SELECT $1, w.root, w.path, w.state::"char", w.reason, w.document_id, coalesce(d.class_id, w.class_id), w.size, w.modified,
    w.digest, $11
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::bigint[], $9::bigint[],
    $10::text[]) w(root, path, state, reason, document_id, class_id, size, modified, digest)
LEFT JOIN collection c ON c.name = $1
LEFT JOIN document d ON d.collection_id = c.id AND d.document_id = w.document_id
ON CONFLICT (collection, root, path) DO UPDATE SET state = EXCLUDED.state, reason = EXCLUDED.reason,
    document_id = EXCLUDED.document_id, class_id = EXCLUDED.class_id, size = EXCLUDED.size,
    modified = EXCLUDED.modified, digest = EXCLUDED.digest, tried_at = EXCLUDED.tried_at
WHERE f.state <> 'r' OR (f.state, f.document_id, f.class_id, f.size, f.modified, f.digest)
    IS DISTINCT FROM (EXCLUDED.state, EXCLUDED.document_id, EXCLUDED.class_id, EXCLUDED.size, EXCLUDED.modified,
        EXCLUDED.digest)
"""
_FORGET = """
DELETE FROM source_file f USING unnest($2::text[], $3::text[]) w(root, path)
WHERE f.collection = $1 AND f.root = w.root AND f.path = w.path
"""
_FORGET_DOCUMENTS = """
DELETE FROM source_file WHERE collection = $1 AND document_id <> '' AND document_id = ANY($2::text[])
"""
_ADOPT = """
UPDATE document d SET root = $2 FROM collection c
WHERE c.name = $1 AND d.collection_id = c.id AND d.document_id = ANY($3::text[]) AND d.root = ''
"""
#: Columns that `allowed_rows` reads, of a file `d` and its tags `g`; a file has no number.
FILE_TAGS = DOCUMENT_TAGS.replace("d.id", "0::bigint")
# A file that was not read and has documents from before is among them: what they say may be out of date.
_UNREAD = f"""
SELECT d.root, d.path, d.state, d.reason, d.document_id, {FILE_TAGS}
FROM source_file d JOIN sec_class s ON s.id = d.class_id AND {ALLOWED}{TAGS_JOIN}
WHERE d.collection = $4 AND d.state IN ('s', 'f') AND d.size <> 0 ORDER BY d.path, d.root
"""  # noqa: S608 - only constants
#: What a name may mean, in the order in which it is tried; all but the first read all documents.
_MEANINGS = (
    "d.document_id",
    "normalize(d.document_id)",
    "d.root || '/' || d.source_file",
    "d.source_file",
)
# No more than anybody would choose from: a path may have a million records.
_NAMED = tuple(
    f"""
SELECT d.document_id, {DOCUMENT_TAGS}
FROM collection n JOIN document d ON d.collection_id = n.id
JOIN sec_class s ON s.id = d.class_id AND ($6 OR {ALLOWED}){TAGS_JOIN}
WHERE n.name = $4 AND {meaning} = $5 ORDER BY d.document_id LIMIT 100
"""  # noqa: S608 - only constants
    for meaning in _MEANINGS
)


async def forget_documents(
    connection: Connection, collection: str, document_ids: Sequence[str]
) -> None:
    """Forget the files of removed documents."""
    await connection.execute(_FORGET_DOCUMENTS, collection, list(document_ids))


def _stored(row: Any) -> StoredSource:
    is_read = not row["is_document"] and row["state"] == b"r"
    return StoredSource(
        row["document_id"],
        row["root"],
        row["path"],
        is_document=row["is_document"],
        read_as=(row["size"], row["modified"], row["digest"]) if is_read else None,
    )


class PostgresSources(PostgresPart):
    """Implements `SourceStore`."""

    async def source_roots(self, collection: str) -> list[SourceRoot]:
        """Return the roots of a collection by name."""
        if not is_text(collection):
            return []
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_ROOTS, collection)
        return [SourceRoot(row["name"], row["path"]) for row in rows]

    async def add_root(
        self, collection: str, name: str, path: str, *, moved: bool = False
    ) -> SourceRoot:
        """Return the root of a path, added when there is none; see `SourceStore`."""
        check_texts((collection, name, path), "the name or path of a root")
        async with self.pool.connection() as connection, write_transaction(connection):
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            rows = await connection.fetch(_ROOTS, collection)
            known = {row["name"]: row["path"] for row in rows}
            if not moved or name not in known:
                found = next((one for one, place in known.items() if place == path), None)
                if found is not None:
                    return SourceRoot(found, path)
                name = numbered(name, known)
            await connection.execute(_ADD_ROOT, collection, name, path)
        return SourceRoot(name, path)

    async def forget_sources(self, collection: str) -> None:
        """Forget the roots of a collection and the states of their files."""
        if not is_text(collection):
            return
        async with self.pool.connection() as connection, write_transaction(connection):
            await connection.execute("DELETE FROM source_file WHERE collection = $1", collection)
            await connection.execute("DELETE FROM source_root WHERE collection = $1", collection)

    async def stored_sources(self, collection: str) -> list[StoredSource]:
        """Return the documents with their files; see `SourceStore`. Cost: linear in the documents."""
        if not is_text(collection):
            return []
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_STORED, collection)
        return [_stored(row) for row in rows]

    async def note_files(
        self,
        collection: str,
        files: Sequence[SourceFileState],
        forgotten: Collection[tuple[str, str]] = (),
    ) -> None:
        """Note what became of files, and forget others; see `SourceStore`."""
        known = [one for one in files if one.is_storable and is_text(one.path + one.reason)]
        async with self.pool.connection() as connection:
            if forgotten:
                gone = [one for one in forgotten if is_text(one[0] + one[1])]
                await connection.execute(
                    _FORGET, collection, [root for root, _ in gone], [path for _, path in gone]
                )
            if not known:
                return
            # Of two states of a file the last one holds.
            last = list({(one.root, one.path): one for one in known}.values())
            classes = await intern_classes(connection, {one.tags for one in last})
            columns = (
                [one.root for one in last],
                [one.path for one in last],
                [LETTERS[one.state] for one in last],
                [one.reason for one in last],
                [one.document_id for one in last],
                [classes[one.tags] for one in last],
                [one.size for one in last],
                [one.modified for one in last],
                [one.digest for one in last],
            )
            await connection.execute(_NOTE, collection, *columns, self.clock())

    async def adopt_documents(
        self, collection: str, root: str, document_ids: Collection[str]
    ) -> None:
        """Let documents that have no root belong to one."""
        async with self.pool.connection() as connection:
            await connection.execute(_ADOPT, collection, root, list(document_ids))

    async def unread_files(
        self, collection: str, access: Access, *, most: int = 1000
    ) -> tuple[int, list[SourceFileState]]:
        """Return the number of visible files that were not read, and the first; see `SourceStore`."""
        if not is_text(collection):
            return 0, []
        async with self.pool.search_connection() as connection:
            found = await connection.fetch(_UNREAD, *access_values(access), collection)
        rows = allowed_rows(found, access, "unread files")
        files = [
            SourceFileState(
                root=row["root"],
                path=row["path"],
                state=FILE_STATES[row["state"].decode()],
                reason=row["reason"],
                document_id=row["document_id"],
            )
            for row in rows[:most]
        ]
        return len(rows), files

    async def documents_named(self, collection: str, name: str, access: Access | None) -> list[str]:
        """Return the ids of visible documents that a name means; see `SourceStore`."""
        if not (is_text(collection) and is_text(name)) or not name:
            return []
        rights = access_values(access or Access.public())
        normal = unicodedata.normalize("NFC", name)
        for number, statement in enumerate(_NAMED):
            values = (*rights, collection, normal if number else name, access is None)
            async with self.pool.search_connection() as connection:
                rows = await connection.fetch(statement, *values)
            if access is not None:
                rows = allowed_rows(rows, access, "names")
            if rows:
                return [row["document_id"] for row in rows]
        return []
