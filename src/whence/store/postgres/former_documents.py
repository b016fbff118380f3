"""Former versions of documents in PostgreSQL: kept when one is replaced or removed, read as of a version."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from pgvector import Vector

from whence.schema.access import Access, DocumentTags
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.places import Place
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.change_log import check_version
from whence.store.memory.store import MemoryStore
from whence.store.postgres.acl_classes import ALLOWED, access_values
from whence.store.postgres.collections import model_of
from whence.store.postgres.dense.vector_sets import vector_table
from whence.store.postgres.document_rows import STORED_EMBED_TEXT
from whence.store.postgres.driver import Connection, read_transaction
from whence.store.postgres.lexical.reindexing import read_field_boosts
from whence.store.postgres.part import PostgresPart
from whence.store.postgres.pool import ConnectionPool
from whence.store.protocols import CollectionInfo, EmbeddedDocument
from whence.store.validation import missing_collection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from whence.store.memory.search import StoredChunk

#: Former versions that one write deletes at most.
_PRUNED_AT_ONCE = 1_000
# Those that the log says are replaced or removed by this version; a document that only gets other tags stays.
_KEEP = """
WITH kept AS (
    INSERT INTO former_document (collection_id, document_id, valid_from, valid_to, replaced_at, digest, title,
        source_file, root, source_url, metadata, gaps, places, vector_set)
    SELECT d.collection_id, d.document_id, (
            SELECT max(o.version) FROM document_change o WHERE o.collection_id = $1
                AND o.document_id = d.document_id AND o.version < $2 AND o.kind IN ('a', 'c')),
        $2, $3, d.digest, d.title, d.source_file, d.root, d.source_url, d.metadata, d.gaps, d.places,
        n.vector_set
    FROM document_change x JOIN collection n ON n.id = x.collection_id
    JOIN document d ON d.collection_id = $1 AND d.document_id = x.document_id
    WHERE x.collection_id = $1 AND x.version = $2 AND x.kind IN ('c', 'r')
    RETURNING id, document_id
)
INSERT INTO former_chunk (document, index, content, heading, section_path, span_start, span_end, embed_text, embed_prefix, page,
    e, codes, lead)
SELECT k.id, c.index, c.content, c.heading, c.section_path, c.span_start, c.span_end, c.embed_text, c.embed_prefix, c.page,
    coalesce(v.e, o.e), t.codes, c.lead
FROM kept k JOIN document d ON d.collection_id = $1 AND d.document_id = k.document_id
JOIN collection n ON n.id = $1 JOIN chunk c ON c.document = d.id
LEFT JOIN chunk_vec v ON v.ord = c.ord AND n.vector_set % 2 = 0
LEFT JOIN chunk_vec_odd o ON o.ord = c.ord AND n.vector_set % 2 = 1
LEFT JOIN chunk_codes t ON t.ord = c.ord
"""
# Writers of other collections delete other rows, or none.
_PRUNE = """
DELETE FROM former_document WHERE id IN (
    SELECT f.id FROM former_document f WHERE f.replaced_at < $1 ORDER BY f.id LIMIT $2 FOR UPDATE SKIP LOCKED)
"""
_COLLECTION = """
SELECT c.id, c.logged_since, c.vector_set, c.model_name, c.model_revision, c.model_precision, c.dimension
FROM collection c WHERE c.name = $1
"""
# The last entry of each document up to the version, with the tags of its last entry of all.
_THEN = f"""
WITH own AS (
    SELECT DISTINCT ON (x.document_id) x.document_id, x.class_id FROM document_change x
    WHERE x.collection_id = $4 AND x.document_id <> '' ORDER BY x.document_id, x.version DESC
), latest AS (
    SELECT DISTINCT ON (x.document_id) x.document_id, x.kind FROM document_change x
    WHERE x.collection_id = $4 AND x.document_id <> '' AND x.version <= $5
    ORDER BY x.document_id, x.version DESC
)
SELECT o.document_id, o.class_id FROM own o JOIN latest t ON t.document_id = o.document_id AND t.kind <> 'r'
JOIN sec_class s ON s.id = o.class_id AND {ALLOWED}
"""  # noqa: S608 - only constants
# Stored documents whose content is older than the version, and former ones that were valid then.
_DOCUMENTS = f"""
WITH visible AS MATERIALIZED ({_THEN}),
d AS (
    SELECT d.id, false AS former, d.document_id, v.class_id, d.digest, d.title, d.source_file, d.root,
        d.source_url, d.metadata, d.gaps, d.places, d.chunks
    FROM visible v JOIN document d ON d.collection_id = $4 AND d.document_id = v.document_id
    WHERE NOT EXISTS (SELECT FROM document_change x WHERE x.collection_id = $4
        AND x.document_id = d.document_id AND x.version > $5 AND x.kind IN ('a', 'c'))
    UNION ALL
    SELECT f.id, true, f.document_id, v.class_id, f.digest, f.title, f.source_file, f.root,
        f.source_url, f.metadata, f.gaps, f.places, (SELECT count(*)::int FROM former_chunk c WHERE c.document = f.id)
    FROM visible v JOIN former_document f ON f.collection_id = $4 AND f.document_id = v.document_id
    WHERE f.valid_from <= $5 AND $5 < f.valid_to
)
SELECT d.*, {DOCUMENT_TAGS} FROM d{TAGS_JOIN} ORDER BY d.document_id
"""  # noqa: S608 - only constants
_EXPECTED = f"SELECT count(*) FROM ({_THEN}) visible"  # noqa: S608 - only constants
_CHUNKS = """
SELECT c.document, false AS former, c.index, c.content, c.heading, c.section_path, c.span_start, c.span_end,
    {stored} AS embed_text, c.page, v.e, t.codes, c.lead
FROM chunk c LEFT JOIN {vectors} v ON v.ord = c.ord LEFT JOIN chunk_codes t ON t.ord = c.ord
WHERE c.document = ANY($1::bigint[])
UNION ALL
SELECT c.document, true, c.index, c.content, c.heading, c.section_path, c.span_start, c.span_end,
    {stored}, c.page, CASE WHEN f.vector_set = $3 THEN c.e END, c.codes, c.lead
FROM former_chunk c JOIN former_document f ON f.id = c.document WHERE c.document = ANY($2::bigint[])
ORDER BY 1, 2, 3
"""
# By the database's own arithmetic, so that a version has the scores that a search of it had, to the last bit.
_PRODUCTS = """
SELECT array_agg(-(w.e <#> $1::vector) ORDER BY w.place) FROM unnest($2::vector[]) WITH ORDINALITY w(e, place)
"""


async def keep_former(
    connection: Connection, collection_id: int, version: int, at: datetime
) -> None:
    """Keep what a version replaces or removes; call it after the log is written, before the documents change.

    Cost: linear in the chunks of these documents.
    """
    await connection.execute(_KEEP, collection_id, version, at)


async def prune_former(connection: Connection, before: datetime) -> None:
    """Delete former versions of all collections that were replaced before a moment, at most 1,000."""
    await connection.execute(_PRUNE, before, _PRUNED_AT_ONCE)


class PostgresVersions(PostgresPart):
    """Reads a collection as it was."""

    async def store_at(
        self, collection: str, access: Access, version: int, moment: datetime
    ) -> MemoryStore:
        """Return a store that has one version of a collection; see `ChunkStore`."""
        async with self.pool.connection() as connection, read_transaction(connection):
            row = await connection.fetchrow(_COLLECTION, collection)
            if row is None:
                raise missing_collection(collection)
            values = (*access_values(access), row["id"], version)
            expected: int = await connection.fetchval(_EXPECTED, *values)
            found = await connection.fetch(_DOCUMENTS, *values)
            check_version(
                collection,
                moment,
                since=row["logged_since"],
                missing=expected - len(found),
                chunks=sum(one["chunks"] for one in found),
            )
            documents = allowed_rows(found, access, "version")
            ids = [[one["id"] for one in documents if one["former"] is f] for f in (False, True)]
            statement = _CHUNKS.format(
                vectors=vector_table(row["vector_set"]), stored=STORED_EMBED_TEXT
            )
            chunks = await connection.fetch(statement, *ids, row["vector_set"])
            boosts = await read_field_boosts(connection, collection)
        model = model_of(row)
        of_document: dict[tuple[int, bool], list[Any]] = defaultdict(list)
        for chunk in chunks:
            of_document[chunk["document"], chunk["former"]].append(chunk)
        embedded = [
            _document(one, of_document[one["id"], one["former"]], model.dimension)
            for one in documents
        ]
        held = _HeldVersion(self.pool)
        info = CollectionInfo(name=collection, model=model)
        await asyncio.to_thread(held.hold_version, info, version, embedded, boosts)
        return held


class _HeldVersion(MemoryStore):
    """One version in memory, whose vectors the database compares."""

    def __init__(self, pool: ConnectionPool) -> None:
        super().__init__()
        self._pool = pool

    async def _inner_products(
        self, query: NDArray[np.float32], chunks: Sequence[StoredChunk]
    ) -> list[float]:
        # A bare array would be read as a dimension of the list.
        vectors = [Vector(chunk.vector) for chunk in chunks]
        async with self._pool.connection() as connection:
            products: list[float] | None = await connection.fetchval(_PRODUCTS, query, vectors)
        return products or []


def _document(row: Any, chunks: Sequence[Any], dimension: int) -> EmbeddedDocument:
    draft = DocumentDraft(
        document_id=row["document_id"],
        chunks=tuple(
            ChunkDraft(
                content=one["content"],
                start=one["span_start"],
                end=one["span_end"],
                heading=one["heading"],
                section_path=one["section_path"],
                embed_text=one["embed_text"],
                page=one["page"],
                lead=one["lead"],
            )
            for one in chunks
        ),
        title=row["title"],
        source_file=row["source_file"],
        root=row["root"],
        source_url=row["source_url"],
        tags=DocumentTags(tuple(row["own_acl"]), tuple(row["own_labels"]), row["own_clearance"]),
        metadata=msgspec.json.decode(row["metadata"]),
        digest=row["digest"],
        gaps=tuple(row["gaps"]),
        places=msgspec.json.decode(row["places"], type=tuple[Place, ...]),
    )
    # Zeros stand for a vector that waits, or is of another encoder than the collection's today.
    vectors = np.array(
        [np.zeros(dimension) if one["e"] is None else one["e"].to_numpy() for one in chunks],
        dtype=np.float32,
    )
    codes = tuple(one["codes"] or b"" for one in chunks)
    return EmbeddedDocument(
        draft=draft, vectors=vectors.reshape(len(chunks), dimension), token_codes=codes
    )
