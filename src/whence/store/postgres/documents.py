"""Collections and documents in PostgreSQL: stored, tagged anew and removed, each call all or nothing.

Writers of one collection take turns: each holds the row of the collection while it writes. Readers never wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

import msgspec

from whence.schema.access import DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import ModelMismatch
from whence.schema.idempotency import Effects
from whence.store.chunk_ids import chunk_key
from whence.store.field_boosts import FieldBoosts
from whence.store.postgres import metadata_index as facts
from whence.store.postgres.acl_classes import intern_classes
from whence.store.postgres.driver import Connection, writing
from whence.store.postgres.ledger import record_effects
from whence.store.postgres.lexical import postings
from whence.store.postgres.lexical.merging import merge_in_background
from whence.store.postgres.links.indexing import (
    add_links,
    delete_unused_titles,
    ensure_links_indexed,
    named,
    names_of,
)
from whence.store.postgres.migrate import SCHEMA
from whence.store.protocols import CollectionInfo, DocumentParts, DocumentState, EmbeddedDocument
from whence.store.snapshot_documents import is_internal
from whence.store.term_counts import DEFAULT_LANGUAGES, Words, count_document_terms
from whence.store.validation import (
    check_documents,
    check_model,
    check_name,
    content_digest,
    is_text,
    json_text,
    missing_collection,
    model_words,
)

__all__ = (
    "document_ids",
    "document_states",
    "ensure_collection",
    "erase_document",
    "find_collection",
    "find_model",
    "list_collections",
    "maintain",
    "model_of",
    "note_sources",
    "remove_documents",
    "replace_documents",
    "retag_documents",
    "source_digests",
)

_ON_DISK = """
SELECT (SELECT coalesce(sum(chunks), 0) FROM document) AS chunks,
    (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname ~ '^(chunk|document|passage|posting|segment|term)') AS bytes
"""
_COLLECTION = (
    "SELECT c.name, c.model_name, c.model_revision, c.model_precision, c.dimension,"
    " count(d.id) AS documents, coalesce(sum(d.chunks), 0)::bigint AS chunks,"
    " max(d.stored_at) AS changed_at"
    " FROM collection c LEFT JOIN document d ON d.collection_id = c.id"
)
#: A collection without its counts, which take time that grows with its documents: writers need none.
_UNCOUNTED = (
    "SELECT c.id, c.name, c.model_name, c.model_revision, c.model_precision, c.dimension,"
    " 0 AS documents, 0 AS chunks, NULL::timestamptz AS changed_at"
)
_DOCUMENT_COLUMNS = (
    "id", "collection_id", "document_id", "digest", "class_id", "chunks", "title",
    "source_file", "source_url", "metadata", "source_digest",
)  # fmt: skip
_CHUNK_COLUMNS = (
    "ord", "collection_id", "document", "index", "chunk_key", "class_id", "content", "digest",
    "heading", "section_path", "span_start", "span_end", "embed_text", "page",
)  # fmt: skip
_VECTOR_COLUMNS = ("ord", "collection_id", "class_id", "e")
#: A write looks its rows up by an index each, most of them for foreign keys. To plan each look-up anew, as
#: searches need it, took half of the database's time. Tables that were tiny when a plan was made grow while it
#: is kept, so none is to be read whole.
_WRITING = ("plan_cache_mode = force_generic_plan", "enable_seqscan = off")


class _Locked(msgspec.Struct, frozen=True):
    """A collection whose row this transaction holds."""

    id: int
    info: CollectionInfo


def model_of(row: Mapping[str, Any]) -> EmbeddingModel:
    """Give the model that a row of `collection` names."""
    return EmbeddingModel(
        name=row["model_name"],
        revision=row["model_revision"],
        precision=row["model_precision"],
        dimension=row["dimension"],
    )


def _info(row: Mapping[str, Any]) -> CollectionInfo:
    return CollectionInfo(
        name=row["name"],
        model=model_of(row),
        documents=row["documents"],
        chunks=row["chunks"],
        changed_at=row["changed_at"].astimezone(UTC).isoformat() if row["changed_at"] else "",
    )


async def find_collection(connection: Connection, name: str) -> CollectionInfo | None:
    """Give a collection with its counts. Cost: linear in its documents."""
    row = await connection.fetchrow(f"{_COLLECTION} WHERE c.name = $1 GROUP BY c.id", name)
    return None if row is None else _info(row)


async def find_model(connection: Connection, name: str) -> EmbeddingModel | None:
    """Give the model of a collection, None when there is none. Cost: one look-up, nothing is counted."""
    row = await connection.fetchrow(
        "SELECT model_name, model_revision, model_precision, dimension FROM collection"
        " WHERE name = $1",
        name,
    )
    return None if row is None else model_of(row)


async def list_collections(connection: Connection) -> list[CollectionInfo]:
    """Give all collections by name, without those that hold snapshots of code.

    Cost: linear in all documents; sizes are from catalogues.
    """
    rows = await connection.fetch(
        f"{_COLLECTION} WHERE NOT c.internal GROUP BY c.id ORDER BY c.name"
    )
    found = [_info(row) for row in rows]
    total = await connection.fetchrow(_ON_DISK, SCHEMA)
    share = total["bytes"] / max(1, total["chunks"])
    return [msgspec.structs.replace(one, bytes=round(share * one.chunks)) for one in found]


async def ensure_collection(
    connection: Connection, name: str, model: EmbeddingModel
) -> CollectionInfo:
    """Give a collection, made for this model when it does not exist.

    Raises:
        BadInput: The name or the dimension cannot be.
        ModelMismatch: It exists with another model.
    """
    check_name(name)
    check_model(model)
    info = await find_collection(connection, name)
    if info is None:
        await connection.execute(
            "INSERT INTO collection (name, model_name, model_revision, model_precision, dimension)"
            " VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING",
            name,
            model.name,
            model.revision,
            model.precision,
            model.dimension,
        )
        info = await find_collection(connection, name)
    if info is None:
        raise missing_collection(name)
    if info.model != model:
        raise ModelMismatch(
            f"collection {name!r} was made with {model_words(info.model)},"
            f" not with {model_words(model)}"
        )
    return info


async def document_states(
    connection: Connection, collection: str, ids: Sequence[str]
) -> dict[str, DocumentState]:
    """Give the state of each of these documents that exists."""
    if not is_text(collection):
        return {}
    rows = await connection.fetch(
        "SELECT d.document_id, d.digest, d.source_digest, d.chunks, s.acl, s.labels, s.clearance"
        " FROM collection c JOIN document d ON d.collection_id = c.id"
        " JOIN sec_class s ON s.id = d.class_id"
        " WHERE c.name = $1 AND d.document_id = ANY($2::text[])",
        collection,
        list(ids),
    )
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


async def document_ids(connection: Connection, collection: str, prefix: str) -> list[str]:
    """Give the sorted ids that begin with `prefix`."""
    if not is_text(collection):
        return []
    rows = await connection.fetch(
        "SELECT d.document_id FROM collection c JOIN document d ON d.collection_id = c.id"
        " WHERE c.name = $1 AND d.document_id ^@ $2 ORDER BY d.document_id",
        collection,
        prefix,
    )
    return [row["document_id"] for row in rows]


async def replace_documents(
    connection: Connection,
    collection: str,
    documents: Sequence[EmbeddedDocument],
    timeout_s: float,
    effects: Effects | None = None,
) -> None:
    """Store documents, each in the place of its former self, by binary COPY.

    Raises:
        NotFound: There is no such collection.
        ModelMismatch: A vector's length is not the collection's dimension.
        BadInput: A document cannot be stored.
    """
    info = await _existing(connection, collection)
    check_documents(info, documents)
    if not documents:
        return
    await _index_words(connection, collection, timeout_s)
    classes = await intern_classes(connection, {one.draft.tags for one in documents})
    boosts = await postings.read_field_boosts(connection, collection)
    words = await asyncio.to_thread(_words, documents, boosts)
    language = DEFAULT_LANGUAGES[0]
    passages = await asyncio.to_thread(named, [one.draft for one in documents], language)
    async with writing(connection, *_WRITING):
        locked = await _lock(connection, collection, timeout_s)
        # Checked again: the collection may have been made anew for another model meanwhile.
        if locked.info.model != info.model:
            check_documents(locked.info, documents)
        ids = [one.draft.document_id for one in documents]
        await facts.open_facts(connection, locked.id)
        await postings.ensure_indexed(connection, locked.id)
        if (now := await postings.read_field_boosts(connection, collection)) != boosts:
            words = await asyncio.to_thread(_words, documents, now)
        await ensure_links_indexed(connection, locked.id)
        borne = await names_of(connection, locked.id, ids)
        former = await postings.remove_document_terms(connection, locked.id, ids)
        await _delete(connection, locked.id, ids)
        ords = await _insert(connection, locked.id, collection, documents, classes)
        await postings.add_chunk_terms(connection, locked.id, ords, words)
        await add_links(connection, locked.id, ords, passages, language)
        await delete_unused_titles(connection, borne)
        await postings.delete_unused_terms(connection, former)
        await postings.settle(connection, locked.id)
        if effects is not None:
            await record_effects(connection, collection, effects)


def _words(documents: Sequence[EmbeddedDocument], boosts: FieldBoosts) -> list[Words]:
    drafts = (document.draft for document in documents)
    return [one for draft in drafts for one in count_document_terms(draft, boosts).of_chunks]


async def boost_fields(
    connection: Connection, collection: str, boosts: FieldBoosts, timeout_s: float
) -> None:
    """Record how much the fields of a collection count; its words are indexed anew when that is new.

    Raises:
        NotFound: There is no such collection.
    """
    await _existing(connection, collection)
    async with writing(connection, *_WRITING):
        locked = await _lock(connection, collection, timeout_s)
        await postings.ensure_indexed(connection, locked.id)
        if await postings.read_field_boosts(connection, collection) != boosts:
            await postings.boost(connection, locked.id, boosts)


async def _existing(connection: Connection, name: str) -> CollectionInfo:
    # What an import of code wrote is changed by no one else.
    is_open = is_text(name) and not is_internal(name)
    row = (
        await connection.fetchrow(f"{_UNCOUNTED} FROM collection c WHERE c.name = $1", name)
        if is_open
        else None
    )
    if row is None:
        raise missing_collection(name)
    return _info(row)


async def _lock(connection: Connection, name: str, timeout_s: float) -> _Locked:
    """Take the collection's row, and the time that writing may take, until the transaction ends."""
    row = await connection.fetchrow(
        f"{_UNCOUNTED}, set_config('statement_timeout', $2, true)"
        " FROM collection c WHERE c.name = $1 FOR NO KEY UPDATE",
        name,
        str(int(timeout_s * 1000)),
    )
    if row is None:
        raise missing_collection(name)
    return _Locked(row["id"], _info(row))


async def _index_words(connection: Connection, collection: str, timeout_s: float) -> None:
    """Index the words of all chunks by this analyzer where they are not, some in a transaction.

    What cuts it off leaves the rest for the next time. Cost: one look-up; linear in the texts that are not
    indexed.

    Raises:
        NotFound: There is no such collection.
    """
    indexed = await postings.is_indexed(connection, collection)
    while not indexed:
        async with writing(connection, *_WRITING):
            locked = await _lock(connection, collection, timeout_s)
            indexed = await postings.reindex_batch(connection, locked.id)


async def _delete(connection: Connection, collection_id: int, ids: Sequence[str]) -> int:
    """Delete documents; chunks and vectors go with them. Cost: linear in their chunks."""
    done: str = await connection.execute(
        "DELETE FROM document WHERE collection_id = $1 AND document_id = ANY($2::text[])",
        collection_id,
        list(ids),
    )
    return int(done.rpartition(" ")[2])


async def _reserve(connection: Connection, table: str, column: str, n: int) -> list[int]:
    """Take n numbers of an identity column, ascending."""
    rows = await connection.fetch(
        "SELECT nextval(pg_get_serial_sequence($1, $2)) AS number FROM generate_series(1, $3::int)",
        table,
        column,
        n,
    )
    return [row["number"] for row in rows]


async def _insert(
    connection: Connection,
    collection_id: int,
    collection: str,
    documents: Sequence[EmbeddedDocument],
    classes: Mapping[DocumentTags, int],
) -> list[int]:
    """Write documents, chunks and vectors; gives the numbers of the chunks, in order."""
    numbers = await _reserve(connection, "document", "id", len(documents))
    chunks = sum(len(one.draft.chunks) for one in documents)
    ords = await _reserve(connection, "chunk", "ord", chunks)
    numbered = list(zip(numbers, documents, strict=True))
    await connection.copy_records_to_table(
        "document",
        columns=_DOCUMENT_COLUMNS,
        records=_document_rows(numbered, collection_id, classes),
    )
    drafts = ((number, document.draft) for number, document in numbered)
    await facts.add_facts(connection, collection_id, drafts)
    await connection.copy_records_to_table(
        "chunk",
        columns=_CHUNK_COLUMNS,
        records=_chunk_rows(numbered, iter(ords), collection_id, collection, classes),
    )
    await connection.copy_records_to_table(
        "chunk_vec",
        columns=_VECTOR_COLUMNS,
        records=_vector_rows(documents, iter(ords), collection_id, classes),
    )
    return ords


_Numbered = Sequence[tuple[int, EmbeddedDocument]]


def _document_rows(
    numbered: _Numbered, collection_id: int, classes: Mapping[DocumentTags, int]
) -> Iterator[tuple[Any, ...]]:
    for number, document in numbered:
        draft = document.draft
        yield (
            number,
            collection_id,
            draft.document_id,
            draft.digest,
            classes[draft.tags],
            len(draft.chunks),
            draft.title,
            draft.source_file,
            draft.source_url,
            json_text(draft.metadata),
            draft.source_digest,
        )


def _chunk_rows(
    numbered: _Numbered,
    ords: Iterator[int],
    collection_id: int,
    collection: str,
    classes: Mapping[DocumentTags, int],
) -> Iterator[tuple[Any, ...]]:
    for number, document in numbered:
        draft = document.draft
        for index, chunk in enumerate(draft.chunks):
            yield (
                next(ords),
                collection_id,
                number,
                index,
                chunk_key(collection, draft.document_id, index),
                classes[draft.tags],
                chunk.content,
                content_digest(chunk.content),
                chunk.heading,
                chunk.section_path,
                chunk.start,
                chunk.end,
                chunk.embed_text,
                chunk.page,
            )


def _vector_rows(
    documents: Sequence[EmbeddedDocument],
    ords: Iterator[int],
    collection_id: int,
    classes: Mapping[DocumentTags, int],
) -> Iterator[tuple[Any, ...]]:
    for document in documents:
        for vector in document.vectors:
            yield next(ords), collection_id, classes[document.draft.tags], vector


async def retag_documents(
    connection: Connection,
    collection: str,
    tags: Mapping[str, DocumentTags],
    timeout_s: float,
    effects: Effects | None = None,
) -> None:
    """Change the tags of documents, of their chunks and of their vectors; unknown ids are left out.

    Raises:
        NotFound: There is no such collection.
    """
    await _existing(connection, collection)
    await _index_words(connection, collection, timeout_s)
    classes = await intern_classes(connection, set(tags.values()))
    ids = list(tags)
    async with writing(connection, *_WRITING):
        locked = await _lock(connection, collection, timeout_s)
        await postings.ensure_indexed(connection, locked.id)
        moved = await connection.fetch(
            "WITH wanted AS (SELECT * FROM unnest($2::text[], $3::int[]) w(document_id, class_id)),"
            " changed AS (UPDATE document d SET class_id = w.class_id, source_digest = ''"
            "   FROM wanted w"
            "   WHERE d.collection_id = $1 AND d.document_id = w.document_id"
            "   AND d.class_id <> w.class_id RETURNING d.id, d.class_id),"
            " moved AS (UPDATE chunk c SET class_id = d.class_id FROM changed d"
            "   WHERE c.document = d.id RETURNING c.ord, c.class_id)"
            # Read from the state before this statement, which is where its parts all begin.
            " UPDATE chunk_vec v SET class_id = m.class_id FROM moved m, chunk former"
            " WHERE v.ord = m.ord AND former.ord = m.ord RETURNING v.ord, former.class_id",
            locked.id,
            ids,
            [classes[tags[document_id]] for document_id in ids],
        )
        former = {row["ord"]: row["class_id"] for row in moved}
        await postings.move_chunk_terms(connection, locked.id, former)
        await postings.settle(connection, locked.id)
        if effects is not None:
            await record_effects(connection, collection, effects)


async def source_digests(
    connection: Connection, collection: str, ids: Sequence[str]
) -> dict[str, str]:
    """Give the source digests that are known. Cost: one look into an index for each id."""
    rows = await connection.fetch(
        "SELECT d.document_id, d.source_digest"
        " FROM collection c JOIN document d ON d.collection_id = c.id"
        " WHERE c.name = $1 AND d.document_id = ANY($2::text[]) AND d.source_digest <> ''",
        collection,
        list(ids),
    )
    return {row["document_id"]: row["source_digest"] for row in rows}


async def note_sources(connection: Connection, collection: str, digests: Mapping[str, str]) -> None:
    """Set the source digests of documents; a row with the right one is not written again."""
    await connection.execute(
        "UPDATE document d SET source_digest = w.digest FROM collection c,"
        " unnest($2::text[], $3::text[]) w(document_id, digest)"
        " WHERE c.name = $1 AND d.collection_id = c.id AND d.document_id = w.document_id"
        " AND d.source_digest <> w.digest",
        collection,
        list(digests),
        list(digests.values()),
    )


async def remove_documents(
    connection: Connection, collection: str, ids: Sequence[str], timeout_s: float
) -> int:
    """Remove documents; gives how many there were, 0 for a collection that does not exist."""
    if not await _is_open(connection, collection):
        return 0
    await _index_words(connection, collection, timeout_s)
    async with writing(connection, *_WRITING):
        locked = await _lock(connection, collection, timeout_s)
        return await _remove(connection, locked.id, ids)


async def _is_open(connection: Connection, collection: str) -> bool:
    """Tell whether there is such a collection, and no import of code that nobody else changes."""
    if not is_text(collection) or is_internal(collection):
        return False
    return await find_collection(connection, collection) is not None


async def _remove(connection: Connection, collection_id: int, ids: Sequence[str]) -> int:
    await postings.ensure_indexed(connection, collection_id)
    await ensure_links_indexed(connection, collection_id)
    borne = await names_of(connection, collection_id, ids)
    former = await postings.remove_document_terms(connection, collection_id, ids)
    removed = await _delete(connection, collection_id, ids)
    await delete_unused_titles(connection, borne)
    await postings.delete_unused_terms(connection, former)
    await postings.settle(connection, collection_id)
    return removed


async def erase_document(
    connection: Connection, collection: str, document_id: str, timeout_s: float
) -> tuple[DocumentParts, DocumentParts]:
    """Remove a document and its postings in segments; gives what was found of it before and after."""
    if not await _is_open(connection, collection):
        return DocumentParts(), DocumentParts()
    await _index_words(connection, collection, timeout_s)
    async with writing(connection, *_WRITING):
        locked = await _lock(connection, collection, timeout_s)
        # Before its places are looked up: they are others afterwards.
        await postings.ensure_indexed(connection, locked.id)
        places = await postings.places_of(connection, locked.id, document_id)
        before = await _parts(connection, locked.id, document_id, list(places))
        await _remove(connection, locked.id, [document_id])
        await postings.expel(connection, locked.id, list(places.values()))
        after = await _parts(connection, locked.id, document_id, list(places))
        dead = await postings.count_deleted_postings(connection, locked.id, list(places.values()))
        return before, msgspec.structs.replace(after, postings=after.postings + dead)


async def _parts(
    connection: Connection, collection_id: int, document_id: str, ords: Sequence[int]
) -> DocumentParts:
    """Count what is there of a document and of chunks that are, or were, its own."""
    row = await connection.fetchrow(
        "SELECT (SELECT count(*) FROM document WHERE collection_id = $1 AND document_id = $2) AS documents,"
        " (SELECT count(*) FROM chunk WHERE ord = ANY($3::int[])) AS chunks,"
        " (SELECT count(*) FROM chunk_vec WHERE ord = ANY($3::int[])) AS vectors,"
        " (SELECT coalesce(sum(length(terms) / 4), 0) FROM chunk_terms WHERE ord = ANY($3::int[])) AS postings,"
        " (SELECT count(*) FROM passage_bearer WHERE ord = ANY($3::int[]))"
        " + (SELECT count(*) FROM passage_mention WHERE ord = ANY($3::int[])) AS links",
        collection_id,
        document_id,
        ords,
    )
    return DocumentParts(**row)


async def maintain(connection: Connection, collection: str, timeout_s: float) -> None:
    """Index words, facts and names that are not, or by other code; then do the merges that are due.

    Raises:
        NotFound: There is no such collection.
    """
    await _index_words(connection, collection, timeout_s)
    async with writing(connection, *_WRITING):
        locked = await _lock(connection, collection, timeout_s)
        await facts.open_facts(connection, locked.id)
        await postings.ensure_indexed(connection, locked.id)
        await ensure_links_indexed(connection, locked.id)
    settings = (*_WRITING, f"statement_timeout = {int(timeout_s * 1000)}")
    await merge_in_background(connection, locked.id, *settings)
