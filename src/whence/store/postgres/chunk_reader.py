"""Chunks and texts in PostgreSQL by their ids: the reader's rights are part of every statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from whence.schema.access import Access
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.places import DocumentText, Place, only_line
from whence.schema.texts import ChunkText
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.chunk_ids import parse_chunk_key
from whence.store.document_text import document_text, requested_documents, select_texts
from whence.store.postgres.acl_classes import ALLOWED, access_values
from whence.store.postgres.collections import model_of
from whence.store.postgres.driver import iso_utc
from whence.store.postgres.part import PostgresPart
from whence.store.postgres.sources import FILE_STATES, FILE_TAGS, LETTERS
from whence.store.protocols import ListedCollection, ListedDocument, read_place
from whence.store.results import chunk_metadata
from whence.store.source_states import Order, State
from whence.store.validation import is_text

_REQUESTED = """
 FROM unnest(${ids}::text[], ${indexes}::int[]) WITH ORDINALITY w(document_id, index, place)
 JOIN collection n ON n.name = ${collection}
 JOIN document d ON d.collection_id = n.id AND d.document_id = w.document_id
 JOIN chunk c ON c.document = d.id AND c.index = w.index
"""
#: The part of a statement that finds chunks by id that exist and are visible; takes `requested_values` as $1
#: to $6. To be read with `DOCUMENT_TAGS`, for `allowed_rows`.
REQUESTED_CHUNKS = (
    _REQUESTED.format(collection=4, ids=5, indexes=6)
    + f" JOIN sec_class s ON s.id = c.class_id AND {ALLOWED}{TAGS_JOIN}"
)
_TEXTS = (
    "SELECT c.chunk_key, d.document_id, c.index, c.content, c.lead, c.digest, c.word_signature, c.heading,"
    f" c.section_path, c.page, d.title, d.source_file, d.source_url, d.root, d.metadata, {DOCUMENT_TAGS}{REQUESTED_CHUNKS} ORDER BY w.place"
)
_CODES = f"SELECT c.chunk_key, k.codes, {DOCUMENT_TAGS}{REQUESTED_CHUNKS} JOIN chunk_codes k ON k.ord = c.ord"
_VISIBLE = f"SELECT c.chunk_key, {DOCUMENT_TAGS}{REQUESTED_CHUNKS}"
_KNOWN = "SELECT c.chunk_key" + _REQUESTED.format(collection=1, ids=2, indexes=3)

#: Letters of the states by which a list is asked for.
_WANTED: dict[State, str] = {"waiting": "w", **dict(LETTERS.items())}

_DOCUMENTS = f"""
SELECT d.document_id, d.title, d.source_file, d.source_url, d.root, d.metadata, d.gaps, d.places,
    array(SELECT row(c.content, c.span_start, c.span_end, c.heading, c.page)
        FROM chunk c WHERE c.document = d.id ORDER BY c.index) AS chunks, {DOCUMENT_TAGS}
FROM collection n JOIN document d ON d.collection_id = n.id AND d.document_id = ANY($5::text[])
JOIN sec_class s ON s.id = d.class_id AND {ALLOWED}{TAGS_JOIN}
WHERE n.name = $4
"""  # noqa: S608 - only constants

# What is known of a file is shown to those who may see it. Vectors are counted for the rows of the page alone.
_KNOWN_FILE = f"""
LEFT JOIN LATERAL (
    SELECT x.* FROM source_file x JOIN sec_class s ON s.id = x.class_id AND {ALLOWED}
    WHERE x.collection = n.name AND x.root = d.root AND x.path = d.source_file
) f ON true
"""  # noqa: S608 - only constants
_VECTORS = (
    "(d.chunks - (SELECT count(*) FROM chunk k JOIN vector_pending p ON p.collection_id = n.id"
    " AND p.number = n.vector_set AND p.ord = k.ord WHERE k.document = d.id))"
)
#: The places of a document that is one line; those of others may be long, and are not read.
_ONE_PLACE = "CASE WHEN octet_length(d.places::text) < 200 THEN d.places::text END"
_DOCUMENT_ROWS = f"""
SELECT d.document_id AS key, d.document_id, d.root, d.source_file AS path, coalesce(f.state, 'r') AS state,
    coalesce(f.reason, '') AS reason, d.title, d.source_file, d.source_url, d.chunks, {_VECTORS} AS vectors,
    d.date, d.stored_at, f.tried_at, d.encoding, d.left_out::text, coalesce(f.size, -1) AS size,
    coalesce(f.modified, 0) AS modified, coalesce(f.digest, '') AS digest, {_ONE_PLACE} AS places, {DOCUMENT_TAGS}
FROM collection n JOIN document d ON d.collection_id = n.id
JOIN sec_class s ON s.id = d.class_id AND {ALLOWED}{TAGS_JOIN}{_KNOWN_FILE}
"""  # noqa: S608 - only constants
_DESCRIBED = f"{_DOCUMENT_ROWS} WHERE n.name = $4 AND d.document_id = ANY($5::text[])"
_LISTED = f"""
{_DOCUMENT_ROWS}
WHERE n.name = $4 AND d.document_id COLLATE "C" > $6 AND ($7 = '' OR CASE WHEN $7 IN ('r', 'w')
    THEN coalesce(f.state, 'r') = 'r' AND ($7 = 'w') = ({_VECTORS} < d.chunks) ELSE f.state = left($7, 1)::"char" END)
"""
_BY_KEY = 'ORDER BY d.document_id COLLATE "C" LIMIT $5'
_MOMENT = "coalesce(d.stored_at, to_timestamp(0))"
_NEWEST = f"""
AND ($8::timestamptz IS NULL OR {_MOMENT} < $8 OR {_MOMENT} = $8 AND d.document_id COLLATE "C" > $9)
ORDER BY {_MOMENT} DESC, d.document_id COLLATE "C" LIMIT $5
"""
_LISTED_FILES = f"""
SELECT d.root || '//' || d.path AS key, NULL AS document_id, d.root, d.path, d.state, d.reason, '' AS title,
    d.path AS source_file, '' AS source_url, 0 AS chunks, 0 AS vectors, '' AS date, NULL AS stored_at, d.tried_at,
    '' AS encoding, '{{}}' AS left_out, d.size, d.modified, d.digest, NULL AS places, {FILE_TAGS}
FROM source_file d JOIN sec_class s ON s.id = d.class_id AND {ALLOWED}{TAGS_JOIN}
WHERE d.collection = $4 AND (d.root || '//' || d.path) COLLATE "C" > $6 AND d.state <> 'r'
    AND ($7 = '' OR d.state = left($7, 1)::"char") AND NOT EXISTS (
        SELECT FROM collection n JOIN document x ON x.collection_id = n.id JOIN sec_class s ON s.id = x.class_id
        WHERE n.name = $4 AND x.root = d.root AND x.source_file = d.path AND {ALLOWED})
"""  # noqa: S608 - only constants
_NEWEST_FILES = """
AND ($8::timestamptz IS NULL OR d.tried_at < $8 OR d.tried_at = $8 AND (d.root || '//' || d.path) COLLATE "C" > $9)
ORDER BY d.tried_at DESC, (d.root || '//' || d.path) COLLATE "C" LIMIT $5
"""
# One row for each collection and class, whose tags are those of all its documents.
_COLLECTIONS = f"""
SELECT n.name, n.model_name, n.model_revision, n.model_precision, n.dimension, count(*) AS documents,
    sum(d.chunks) AS chunks, max(d.stored_at) AS changed_at,
    min(d.id) AS own_document, g.id AS own_class, g.acl AS own_acl, g.labels AS own_labels,
    g.clearance AS own_clearance
FROM collection n JOIN document d ON d.collection_id = n.id
JOIN sec_class s ON s.id = d.class_id AND {ALLOWED}{TAGS_JOIN}
WHERE NOT n.internal AND (cardinality($4::text[]) = 0 OR n.name = ANY($4::text[]))
GROUP BY n.id, g.id ORDER BY n.name COLLATE "C"
"""  # noqa: S608 - only constants


def requested_values(access: Access, collection: str, chunk_ids: Sequence[str]) -> tuple[Any, ...]:
    """Return the parameters of `REQUESTED_CHUNKS`."""
    return (*access_values(access), *_places(collection, chunk_ids))


def _places(collection: str, chunk_ids: Sequence[str]) -> tuple[str, list[str], list[int]]:
    """Return the collection, and document id and index of each chunk id that can be one of its chunks."""
    keys = [key for key in map(parse_chunk_key, chunk_ids) if key and key.collection == collection]
    return collection, [key.document_id for key in keys], [key.index for key in keys]


class PostgresTexts(PostgresPart):
    """Implements the reads of `ChunkStore` that take ids of chunks; each is one statement."""

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Return the texts of chunks that exist and are visible, in the order asked; see `ChunkStore`."""
        values = requested_values(access, collection, chunk_ids)
        rows = await self._fetch(_TEXTS, collection, values)
        return [_text(row) for row in allowed_rows(rows, access, "texts")]

    async def token_codes(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> dict[str, bytes]:
        """Return the token codes of chunks that exist and are visible; see `ChunkStore`."""
        values = requested_values(access, collection, chunk_ids)
        rows = await self._fetch(_CODES, collection, values)
        return {row["chunk_key"]: row["codes"] for row in allowed_rows(rows, access, "token codes")}

    async def document_texts(
        self, collection: str, ids: Sequence[str], access: Access
    ) -> dict[str, DocumentText]:
        """Return the texts of documents that exist and are visible, by id asked; see `ChunkStore`."""
        wanted = requested_documents(collection, filter(is_text, ids))
        values = (*access_values(access), collection, list({one for one, _ in wanted.values()}))
        rows = await self._fetch(_DOCUMENTS, collection, values)
        found = {
            row["document_id"]: _document_text(collection, row)
            for row in allowed_rows(rows, access, "document texts")
        }
        return select_texts(wanted, found)

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Return which of these chunks exist and are visible."""
        values = requested_values(access, collection, chunk_ids)
        rows = await self._fetch(_VISIBLE, collection, values)
        return frozenset(row["chunk_key"] for row in allowed_rows(rows, access, "visible chunks"))

    async def visible_documents(
        self,
        collection: str,
        access: Access,
        *,
        limit: int,
        after: str = "",
        state: State | None = None,
        unread: bool = False,
        order: Order = "key",
    ) -> list[ListedDocument]:
        """Return the first visible documents, and files without one, after a place; see `ChunkStore`."""
        if not is_text(after):
            return []
        letter = "" if state is None else _WANTED[state]
        values: tuple[Any, ...] = (*access_values(access), collection, limit)
        if order == "key":
            values += (after, letter)
            orders = (_BY_KEY, "ORDER BY 1 LIMIT $5")
        else:
            values += ("", letter, *(read_place(after) if after else (None, "")))
            orders = (_NEWEST, _NEWEST_FILES)
        rows = await self._fetch(_LISTED + orders[0], collection, values)
        if unread:
            rows += await self._fetch(_LISTED_FILES + orders[1], collection, values)
        listed = [_listed(row) for row in allowed_rows(rows, access, "listing")]
        if unread:
            listed.sort(key=lambda one: one.key)
            if order == "newest":
                listed.sort(key=lambda one: datetime.fromisoformat(one.moment), reverse=True)
        return listed[:limit]

    async def describe_documents(
        self, collection: str, document_ids: Sequence[str], access: Access
    ) -> dict[str, ListedDocument]:
        """Return what is known of documents that exist and are visible, by id; see `ChunkStore`."""
        values = (*access_values(access), collection, list(filter(is_text, document_ids)))
        rows = await self._fetch(_DESCRIBED, collection, values)
        allowed = allowed_rows(rows, access, "documents")
        return {row["document_id"]: _listed(row) for row in allowed}

    async def visible_collections(
        self, access: Access, names: Sequence[str] = ()
    ) -> list[ListedCollection]:
        """Return the collections with a visible document; see `ChunkStore`."""
        wanted = list(filter(is_text, names))
        if names and not wanted:
            return []
        rows = await self._fetch(_COLLECTIONS, "", (*access_values(access), wanted))
        found: dict[str, ListedCollection] = {}
        for row in allowed_rows(rows, access, "collections"):
            before = found.get(row["name"])
            found[row["name"]] = ListedCollection(
                name=row["name"],
                model=model_of(row),
                documents=row["documents"] + (before.documents if before else 0),
                chunks=row["chunks"] + (before.chunks if before else 0),
                changed_at=max(iso_utc(row["changed_at"]), before.changed_at if before else ""),
            )
        return list(found.values())

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these chunks exist, hidden ones included."""
        rows = await self._fetch(_KNOWN, collection, _places(collection, chunk_ids))
        return frozenset(row["chunk_key"] for row in rows)

    async def _fetch(self, statement: str, collection: str, values: Sequence[Any]) -> list[Any]:
        if not is_text(collection):
            return []
        async with self.pool.search_connection() as connection:
            return await connection.fetch(statement, *values)


def _read_places(places: str) -> tuple[Place, ...]:
    return msgspec.json.decode(places, type=tuple[Place, ...])


def _listed(row: Any) -> ListedDocument:
    state: State = FILE_STATES[row["state"].decode()]
    if state == "read" and row["vectors"] < row["chunks"]:
        state = "waiting"
    return ListedDocument(
        document_id=row["document_id"],
        root=row["root"],
        path=row["path"],
        state=state,
        reason=row["reason"],
        title=row["title"],
        source_file=row["source_file"],
        source_url=row["source_url"],
        chunks=row["chunks"],
        vectors=row["vectors"],
        document_date=row["date"] or None,
        indexed_at=iso_utc(row["stored_at"]) or None,
        tried_at=iso_utc(row["tried_at"]) or None,
        encoding=row["encoding"],
        left_out=msgspec.json.decode(row["left_out"]),
        size=row["size"],
        modified=row["modified"],
        file_digest=row["digest"],
        line=only_line(_read_places(row["places"] or "[]")),
    )


def row_document(row: Any) -> DocumentDraft:
    """Return the document of a row, without chunks, tags and digests."""
    return DocumentDraft(
        document_id=row["document_id"],
        chunks=(),
        title=row["title"],
        source_file=row["source_file"],
        source_url=row["source_url"],
        root=row["root"],
        metadata=msgspec.json.decode(row["metadata"]),
    )


def _document_text(collection: str, row: Any) -> DocumentText:
    chunks = tuple(
        ChunkDraft(content=content, start=start, end=end, heading=heading, page=page)
        for content, start, end, heading, page in row["chunks"]
    )
    draft = msgspec.structs.replace(row_document(row), chunks=chunks)
    places = _read_places(row["places"])
    return document_text(collection, draft, row["gaps"], places)


def _text(row: Any) -> ChunkText:
    chunk = ChunkDraft(
        content=row["content"],
        heading=row["heading"],
        section_path=row["section_path"],
        page=row["page"],
    )
    return ChunkText(
        chunk_id=row["chunk_key"],
        document_id=row["document_id"],
        content=row["content"],
        lead=row["lead"],
        metadata=chunk_metadata(row_document(row), chunk, row["index"]),
        digest=row["digest"],
        word_signature=row["word_signature"],
    )
