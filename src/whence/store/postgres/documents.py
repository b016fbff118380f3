"""Documents in PostgreSQL: stored, retagged and removed, each call all or nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from whence.schema.access import DocumentTags
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.ingest import DocumentDraft, text_to_embed
from whence.store.field_boosts import FieldBoosts
from whence.store.postgres import change_log
from whence.store.postgres.acl_classes import intern_classes
from whence.store.postgres.collections import (
    LockedCollection,
    find_writable,
    lock_collection,
    writable_collection,
    write_settings,
)
from whence.store.postgres.dense.pending import known_vectors
from whence.store.postgres.dense.vector_sets import vector_table
from whence.store.postgres.document_rows import insert_documents
from whence.store.postgres.driver import Connection, write_transaction
from whence.store.postgres.former_documents import keep_former, prune_former
from whence.store.postgres.ledger import find_effects, record_effects
from whence.store.postgres.lexical import forward_index, reindexing, segments, vocabulary
from whence.store.postgres.links.indexing import (
    add_links,
    delete_unused_titles,
    document_titles,
    ensure_links_indexed,
    titles_of_drafts,
)
from whence.store.postgres.maintenance import index_words
from whence.store.postgres.metadata_index import ensure_metadata_indexed, index_metadata
from whence.store.postgres.part import PostgresPart
from whence.store.postgres.server.home import Home
from whence.store.postgres.sources import forget_documents
from whence.store.postgres.trace_chain import lock_traces
from whence.store.protocols import DocumentParts, DocumentState, EmbeddedDocument
from whence.store.term_counts import DEFAULT_LANGUAGES, TermVector, count_document_terms
from whence.store.validation import check_documents, check_tags, is_text, json_text

_VECTOR_COLUMNS = ("ord", "collection_id", "class_id", "e")
_PENDING_COLUMNS = ("collection_id", "number", "ord", "token_codes")
_OTHER_SET = "SELECT number FROM vector_set WHERE collection_id = $1"

_STATES = """
SELECT d.document_id, d.digest, d.source_digest, d.chunks, s.acl, s.labels, s.clearance
FROM collection c JOIN document d ON d.collection_id = c.id JOIN sec_class s ON s.id = d.class_id
WHERE c.name = $1 AND d.document_id = ANY($2::text[])
"""
_IDS = """
SELECT d.document_id FROM collection c JOIN document d ON d.collection_id = c.id
WHERE c.name = $1 AND d.document_id ^@ $2 ORDER BY d.document_id
"""
_SOURCE_DIGESTS = """
SELECT d.document_id, d.source_digest FROM collection c JOIN document d ON d.collection_id = c.id
WHERE c.name = $1 AND d.document_id = ANY($2::text[]) AND d.source_digest <> ''
"""
# A row that is right is not written again.
_NOTE_SOURCES = """
UPDATE document d SET source_digest = w.digest, places = w.places::json, root = w.root, date = w.date,
    encoding = w.encoding, left_out = w.left_out::jsonb
FROM collection c, unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
    w(document_id, digest, places, root, date, encoding, left_out)
WHERE c.name = $1 AND d.collection_id = c.id AND d.document_id = w.document_id
    AND (d.source_digest, d.places::text, d.root, d.date, d.encoding, d.left_out)
    IS DISTINCT FROM (w.digest, w.places, w.root, w.date, w.encoding, w.left_out::jsonb)
"""
# Chunks, vectors and metadata are deleted by their foreign keys.
_DELETE = "DELETE FROM document WHERE collection_id = $1 AND document_id = ANY($2::text[])"
_DELETE_FORMER = "DELETE FROM former_document WHERE collection_id = $1 AND document_id = $2"
# `former` is read from the state before this statement, in which all its parts begin.
_RETAG = """
WITH wanted AS (SELECT * FROM unnest($2::text[], $3::int[]) w(document_id, class_id)),
changed AS (
    UPDATE document d SET class_id = w.class_id, source_digest = '' FROM wanted w
    WHERE d.collection_id = $1 AND d.document_id = w.document_id AND d.class_id <> w.class_id
    RETURNING d.id, d.class_id
), moved AS (
    UPDATE chunk c SET class_id = d.class_id FROM changed d WHERE c.document = d.id RETURNING c.ord, c.class_id
), even AS (UPDATE chunk_vec v SET class_id = m.class_id FROM moved m WHERE v.ord = m.ord),
odd AS (UPDATE chunk_vec_odd v SET class_id = m.class_id FROM moved m WHERE v.ord = m.ord)
SELECT m.ord, former.class_id FROM moved m JOIN chunk former ON former.ord = m.ord
"""
_STORED_TEXTS = """
WITH d AS (
    SELECT d.id FROM collection c JOIN document d ON d.collection_id = c.id WHERE c.name = $1 AND d.document_id = $2
), f AS (
    SELECT f.id FROM collection c JOIN former_document f ON f.collection_id = c.id
    WHERE c.name = $1 AND f.document_id = $2
)
SELECT x.title AS text FROM document x JOIN d USING (id)
UNION SELECT x.title FROM former_document x JOIN f USING (id)
UNION SELECT t.text FROM chunk x JOIN d ON d.id = x.document, unnest(ARRAY[x.content, x.heading]) t(text)
UNION SELECT t.text FROM former_chunk x JOIN f ON f.id = x.document, unnest(ARRAY[x.content, x.heading]) t(text)
ORDER BY text
"""
_KNOWN_WORDS = """
SELECT DISTINCT x.word FROM word x JOIN collection c ON c.id = x.collection_id
WHERE c.name = $1 AND x.word = ANY ($2::text[])
"""
_COLLECTION_ID = "SELECT id FROM collection WHERE name = $1"
_PARTS = """
SELECT (SELECT count(*) FROM document WHERE collection_id = $1 AND document_id = $2) AS documents,
    (SELECT count(*) FROM chunk WHERE ord = ANY($3::int[])) AS chunks,
    (SELECT count(*) FROM chunk_vec WHERE ord = ANY($3::int[]))
    + (SELECT count(*) FROM chunk_vec_odd WHERE ord = ANY($3::int[])) AS vectors,
    (SELECT coalesce(sum(length(terms) / 4), 0) FROM chunk_terms WHERE ord = ANY($3::int[])) AS postings,
    (SELECT count(*) FROM passage_bearer WHERE ord = ANY($3::int[]))
    + (SELECT count(*) FROM passage_mention WHERE ord = ANY($3::int[])) AS links,
    (SELECT count(*) FROM document_change WHERE collection_id = $1 AND document_id = $2)
    + (SELECT count(*) FROM former_document WHERE collection_id = $1 AND document_id = $2) AS versions
"""


class PostgresDocuments(PostgresPart):
    """Documents with their chunks, vectors, words, metadata and names."""

    async def document_states(
        self, collection: str, document_ids: Sequence[str]
    ) -> dict[str, DocumentState]:
        """Return the state of each of these documents that exists."""
        ids = list(filter(is_text, document_ids))
        if not is_text(collection):
            return {}
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_STATES, collection, ids)
        return {
            row["document_id"]: DocumentState(
                document_id=row["document_id"],
                digest=row["digest"],
                tags=DocumentTags(tuple(row["acl"]), tuple(row["labels"]), row["clearance"]),
                chunks=row["chunks"],
                source_digest=row["source_digest"],
            )
            for row in rows
        }

    async def document_ids(self, collection: str, *, prefix: str = "") -> list[str]:
        """Return the sorted ids that begin with `prefix`, hidden documents included."""
        if not (is_text(collection) and is_text(prefix)):
            return []
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_IDS, collection, prefix)
        return [row["document_id"] for row in rows]

    async def source_digests(self, collection: str, document_ids: Sequence[str]) -> dict[str, str]:
        """Return the known source digests of documents. Cost: one look into an index per id."""
        ids = list(filter(is_text, document_ids))
        if not ids or not is_text(collection):
            return {}
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_SOURCE_DIGESTS, collection, ids)
        return {row["document_id"]: row["source_digest"] for row in rows}

    async def note_sources(self, collection: str, drafts: Sequence[DocumentDraft]) -> None:
        """Note what is stored beside the content of documents; see `ChunkStore`."""
        known = [one for one in drafts if is_text(one.document_id) and is_text(one.source_digest)]
        if not known or not is_text(collection):
            return
        columns = (
            [one.document_id for one in known],
            [one.source_digest for one in known],
            [json_text(one.places) for one in known],
            [one.root for one in known],
            [one.date for one in known],
            [one.encoding for one in known],
            [json_text(one.left_out) for one in known],
        )
        async with self.pool.connection() as connection:
            await connection.execute(_NOTE_SOURCES, collection, *columns)

    async def effects_of(self, collection: str, message_id: str) -> dict[str, EffectKind]:
        """Return what a message did to documents, by document id."""
        async with self.pool.connection() as connection:
            return await find_effects(connection, collection, message_id)

    async def replace_documents(
        self,
        collection: str,
        documents: Sequence[EmbeddedDocument],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Store documents in one transaction by binary COPY; see `ChunkStore`."""
        async with self.pool.connection() as connection:
            info = await writable_collection(connection, collection)
            check_documents(info, documents)
            if not documents:
                return
            await index_words(connection, collection, self.write_timeout_s)
            classes = await intern_classes(connection, {one.draft.tags for one in documents})
            boosts = await reindexing.read_field_boosts(connection, collection)
            words = await asyncio.to_thread(_words, documents, boosts)
            language = DEFAULT_LANGUAGES[0]
            passages = await asyncio.to_thread(
                titles_of_drafts, [one.draft for one in documents], words, language
            )
            async with self._writing(connection, collection) as locked:
                # The collection may have been replaced by one of another model meanwhile.
                if locked.info.model != info.model:
                    check_documents(locked.info, documents)
                if (now := await reindexing.read_field_boosts(connection, collection)) != boosts:
                    words = await asyncio.to_thread(_words, documents, now)
                await ensure_metadata_indexed(connection, locked.id)
                ids = [one.draft.document_id for one in documents]
                drafts = [one.draft for one in documents]
                states = [(one.document_id, classes[one.tags], one.digest) for one in drafts]
                at = self.clock()
                version = await change_log.log_replaced(connection, locked.id, at, states)
                await self._keep_former(connection, locked.id, version, at)
                ready = await _with_known_vectors(connection, locked, documents)
                async with _removing(connection, locked.id, ids):
                    ords = await _insert(connection, locked, ready, classes)
                    await forward_index.add_chunk_terms(connection, locked.id, ords, words)
                    await vocabulary.add_words(connection, locked.id, ords, words)
                    await add_links(connection, locked.id, ords, passages, language)
                if effects is not None:
                    await record_effects(connection, collection, effects)

    @contextlib.asynccontextmanager
    async def _writing(
        self, connection: Connection, collection: str
    ) -> AsyncIterator[LockedCollection]:
        """Write to a locked collection in one transaction, then start due maintenance."""
        async with write_transaction(connection, *write_settings(self.write_timeout_s)):
            locked = await lock_collection(connection, collection)
            await reindexing.ensure_indexed(connection, locked.id)
            yield locked
        await self.maintenance.start_needed(connection, collection)

    async def retag_documents(
        self, collection: str, tags: Mapping[str, DocumentTags], *, effects: Effects | None = None
    ) -> None:
        """Change the tags of documents, their chunks and vectors in one transaction; see `ChunkStore`."""
        known = {one: tag for one, tag in tags.items() if is_text(one)}
        for one, tag in known.items():
            check_tags(tag, f"document {one[:100]!r}")
        async with self.pool.connection() as connection:
            await writable_collection(connection, collection)
            await index_words(connection, collection, self.write_timeout_s)
            classes = await intern_classes(connection, set(known.values()))
            numbers = [classes[tag] for tag in known.values()]
            async with self._writing(connection, collection) as locked:
                await change_log.log_tagged(
                    connection, locked.id, self.clock(), list(known), numbers
                )
                moved = await connection.fetch(_RETAG, locked.id, list(known), numbers)
                former = {row["ord"]: row["class_id"] for row in moved}
                await forward_index.move_chunk_terms(connection, locked.id, former)
                await vocabulary.move_words(connection, locked.id, former)
                await segments.flush(connection, locked.id)
                if effects is not None:
                    await record_effects(connection, collection, effects)

    async def boost_fields(self, collection: str, boosts: FieldBoosts) -> None:
        """Set the weights of the fields of a collection; its words are indexed again if they changed."""
        async with self.pool.connection() as connection:
            await writable_collection(connection, collection)
            async with self._writing(connection, collection) as locked:
                if await reindexing.read_field_boosts(connection, collection) != boosts:
                    await change_log.log_settings(connection, locked.id, self.clock())
                    await reindexing.set_field_boosts(connection, locked.id, boosts)

    async def remove_documents(self, collection: str, document_ids: Sequence[str]) -> int:
        """Remove documents in one transaction; return how many there were, 0 without such a collection."""
        ids = list(filter(is_text, document_ids))
        async with self.pool.connection() as connection:
            if await find_writable(connection, collection) is None:
                return 0
            await index_words(connection, collection, self.write_timeout_s)
            async with self._writing(connection, collection) as locked:
                at = self.clock()
                version = await change_log.log_removed(connection, locked.id, at, ids)
                await self._keep_former(connection, locked.id, version, at)
                await forget_documents(connection, collection, ids)
                async with _removing(connection, locked.id, ids) as removed:
                    return removed

    async def stored_texts(self, collection: str, document_id: str) -> list[str]:
        """Return the texts, titles and headings of a document and its former versions."""
        if not (is_text(collection) and is_text(document_id)):
            return []
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_STORED_TEXTS, collection, document_id)
        return [row["text"] for row in rows]

    async def known_words(self, collection: str, words: Sequence[str]) -> frozenset[str]:
        """Return which of these words a chunk has."""
        if not is_text(collection):
            return frozenset()
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_KNOWN_WORDS, collection, list(filter(is_text, words)))
        return frozenset(row["word"] for row in rows)

    async def _keep_former(
        self, connection: Connection, collection_id: int, version: int | None, at: datetime
    ) -> None:
        """Keep what a version replaces or removes, and delete what was kept long enough."""
        if version is not None and self._keep_versions:
            await keep_former(connection, collection_id, version, at)
        await prune_former(connection, at - self._keep_versions)

    async def document_parts(self, collection: str, document_id: str) -> DocumentParts:
        """Return what is stored of a document."""
        if not (is_text(collection) and is_text(document_id)):
            return DocumentParts()
        async with self.pool.connection() as connection:
            number = await connection.fetchval(_COLLECTION_ID, collection)
            if number is None:
                return DocumentParts()
            places = await forward_index.chunk_slots(connection, number, document_id)
            return await _parts(connection, number, document_id, list(places))

    async def erase_document(
        self, collection: str, document_id: str
    ) -> tuple[DocumentParts, DocumentParts]:
        """Remove a document and its postings in segments; return its parts before and after."""
        if not is_text(document_id):
            return DocumentParts(), DocumentParts()
        async with self.pool.connection() as connection:
            if await find_writable(connection, collection) is None:
                return DocumentParts(), DocumentParts()
            await index_words(connection, collection, self.write_timeout_s)
            async with self._writing(connection, collection) as locked:
                places = await forward_index.chunk_slots(connection, locked.id, document_id)
                ords, slots = list(places), list(places.values())
                before = await _parts(connection, locked.id, document_id, ords)
                if (before.documents or before.versions) and self.pool.home is not None:
                    Home(self.pool.home).erasure_mark.touch(mode=0o600)
                # A trace that is recorded later is compared with the log as it is then.
                await lock_traces(connection)
                await change_log.log_erased(connection, locked.id, self.clock(), document_id)
                await connection.execute(_DELETE_FORMER, locked.id, document_id)
                await forget_documents(connection, collection, [document_id])
                async with _removing(connection, locked.id, [document_id]):
                    pass
                await segments.expunge_deleted(connection, locked.id, slots)
                after = await _parts(connection, locked.id, document_id, ords)
                dead = await segments.count_deleted_postings(connection, locked.id, slots)
        return before, msgspec.structs.replace(after, postings=after.postings + dead)


def _words(documents: Sequence[EmbeddedDocument], boosts: FieldBoosts) -> list[TermVector]:
    drafts = (document.draft for document in documents)
    return [one for draft in drafts for one in count_document_terms(draft, boosts)]


@contextlib.asynccontextmanager
async def _removing(
    connection: Connection, collection_id: int, ids: Sequence[str]
) -> AsyncIterator[int]:
    """Remove documents with all that belongs to them; yield how many there were.

    New documents are written within the block, before titles and terms that are unused then are deleted and
    postings are flushed. Cost: linear in the chunks of the documents.
    """
    await ensure_links_indexed(connection, collection_id)
    titles = await document_titles(connection, collection_id, ids)
    terms = await forward_index.remove_document_terms(connection, collection_id, ids)
    await vocabulary.remove_words(connection, collection_id, ids)
    deleted: str = await connection.execute(_DELETE, collection_id, list(ids))
    yield int(deleted.rpartition(" ")[2])
    await delete_unused_titles(connection, titles)
    await forward_index.delete_unused_terms(connection, terms)
    await segments.flush(connection, collection_id)


async def _parts(
    connection: Connection, collection_id: int, document_id: str, ords: Sequence[int]
) -> DocumentParts:
    """Count what is stored of a document and of chunks that are, or were, its own."""
    row = await connection.fetchrow(_PARTS, collection_id, document_id, ords)
    return DocumentParts(**row)


class _Ready(NamedTuple):
    """A document with a vector for each chunk, None for one that waits."""

    document: EmbeddedDocument
    vectors: Sequence[Any]
    codes: Sequence[bytes]


async def _with_known_vectors(
    connection: Connection, locked: LockedCollection, documents: Sequence[EmbeddedDocument]
) -> list[_Ready]:
    """Return documents with their vectors, or those of equal texts, also of the versions that they replace."""
    texts = [
        text_to_embed(chunk)
        for one in documents
        if one.vectors is None
        for chunk in one.draft.chunks
    ]
    known = {}
    if texts:
        known = await known_vectors(connection, locked.id, locked.vector_set, texts)
    ready = []
    for one in documents:
        if one.vectors is not None:
            codes = one.token_codes or (b"",) * len(one.draft.chunks)
            ready.append(_Ready(one, [*one.vectors], codes))
            continue
        found = [known.get(text_to_embed(chunk), (None, None)) for chunk in one.draft.chunks]
        vectors = [None if vector is None else vector.to_numpy() for vector, _ in found]
        ready.append(_Ready(one, vectors, [code or b"" for _, code in found]))
    return ready


async def _insert(
    connection: Connection,
    locked: LockedCollection,
    documents: Sequence[_Ready],
    classes: Mapping[DocumentTags, int],
) -> list[int]:
    """Write documents with all that belongs to them; return the numbers of the chunks, in order."""
    drafts = [one.document.draft for one in documents]
    ids, ords = await insert_documents(connection, locked.id, locked.info.name, drafts, classes)
    await index_metadata(connection, locked.id, zip(ids, drafts, strict=True))
    rows = [
        (vector, code, classes[one.document.draft.tags], one.document.token_codes_wanted)
        for one in documents
        for vector, code in zip(one.vectors, one.codes, strict=True)
    ]
    numbered = list(zip(ords, rows, strict=True))
    await connection.copy_records_to_table(
        vector_table(locked.vector_set),
        columns=_VECTOR_COLUMNS,
        records=[
            (ord_, locked.id, class_id, vector)
            for ord_, (vector, _, class_id, _) in numbered
            if vector is not None
        ],
    )
    waiting = [
        (locked.id, locked.vector_set, ord_, wanted)
        for ord_, (vector, _, _, wanted) in numbered
        if vector is None
    ]
    other = await connection.fetchval(_OTHER_SET, locked.id)
    if other is not None:
        waiting += [(locked.id, other, ord_, False) for ord_ in ords]
    if waiting:
        await connection.copy_records_to_table(
            "vector_pending", columns=_PENDING_COLUMNS, records=waiting
        )
    coded = [(ord_, code) for ord_, (_, code, _, _) in numbered if code]
    if coded:
        columns = ("ord", "codes")
        await connection.copy_records_to_table("chunk_codes", columns=columns, records=coded)
    return ords
