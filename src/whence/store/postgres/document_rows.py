"""Rows of documents and their chunks, as documents and imports of code write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whence.schema.access import DocumentTags
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.chunk_ids import chunk_key
from whence.store.postgres.driver import Connection
from whence.store.results import content_digest
from whence.store.validation import json_text
from whence.text.signatures import word_signature

_DOCUMENT_COLUMNS = (
    "id", "collection_id", "document_id", "digest", "class_id", "chunks", "title",
    "source_file", "source_url", "metadata", "source_digest", "gaps", "places",
    "root", "date", "encoding", "left_out",
)  # fmt: skip
_CHUNK_COLUMNS = (
    "ord", "collection_id", "document", "index", "chunk_key", "class_id", "content", "digest",
    "heading", "section_path", "span_start", "span_end", "embed_text", "embed_prefix", "page", "lead",
    "word_signature",
)  # fmt: skip
#: The text of a chunk or former chunk `c` that is embedded and whose words are counted.
EMBEDDED_TEXT = "coalesce(nullif(c.embed_text, ''), c.embed_prefix || c.content)"
#: `ChunkDraft.embed_text` of it.
STORED_EMBED_TEXT = (
    "CASE WHEN c.embed_prefix <> '' THEN c.embed_prefix || c.content ELSE c.embed_text END"
)
#: `OFFSET 0` makes the server look the sequence up once, not for every number.
_RESERVE = """
    SELECT array_agg(x.n ORDER BY x.n)
    FROM (SELECT pg_get_serial_sequence($1, $2)::regclass AS sequence OFFSET 0) s
    CROSS JOIN LATERAL (SELECT nextval(s.sequence) AS n FROM generate_series(1, $3::int)) x"""


async def reserve_ids(connection: Connection, table: str, column: str, n: int) -> list[int]:
    """Reserve n numbers of an identity column, ascending; they are used up also when the transaction fails."""
    numbers: list[int] | None = await connection.fetchval(_RESERVE, table, column, n)
    return numbers or []


async def insert_documents(
    connection: Connection,
    collection_id: int,
    collection: str,
    drafts: Sequence[DocumentDraft],
    classes: Mapping[DocumentTags, int],
) -> tuple[list[int], list[int]]:
    """Write documents and chunks by binary COPY, inside a transaction. Cost: linear in their texts.

    Args:
        connection: In the transaction.
        collection_id: The collection.
        collection: Its name.
        drafts: New documents.
        classes: Access class of each combination of tags.

    Returns:
        The numbers of the documents, and the numbers of all chunks, both in order.
    """
    ids = await reserve_ids(connection, "document", "id", len(drafts))
    chunks = sum(len(draft.chunks) for draft in drafts)
    ords = await reserve_ids(connection, "chunk", "ord", chunks)
    numbered = list(zip(ids, drafts, [classes[draft.tags] for draft in drafts], strict=True))
    await connection.copy_records_to_table(
        "document", columns=_DOCUMENT_COLUMNS, records=_document_rows(collection_id, numbered)
    )
    await connection.copy_records_to_table(
        "chunk",
        columns=_CHUNK_COLUMNS,
        records=_chunk_rows(collection_id, collection, numbered, iter(ords)),
    )
    return ids, ords


#: Documents with their number and access class.
_Numbered = Sequence[tuple[int, DocumentDraft, int]]


def _document_rows(collection_id: int, numbered: _Numbered) -> Iterator[tuple[Any, ...]]:
    for number, draft, class_id in numbered:
        yield (
            number,
            collection_id,
            draft.document_id,
            draft.digest,
            class_id,
            len(draft.chunks),
            draft.title,
            draft.source_file,
            draft.source_url,
            json_text(draft.metadata),
            draft.source_digest,
            draft.gaps,
            json_text(draft.places),
            draft.root,
            draft.date,
            draft.encoding,
            json_text(draft.left_out),
        )


def _embedded(chunk: ChunkDraft) -> tuple[str, str]:
    """Return `embed_text` and `embed_prefix` of a chunk: its content is not stored twice."""
    if chunk.embed_text.endswith(chunk.content):
        return "", chunk.embed_text.removesuffix(chunk.content)
    return chunk.embed_text, ""


def _chunk_rows(
    collection_id: int, collection: str, numbered: _Numbered, ords: Iterator[int]
) -> Iterator[tuple[Any, ...]]:
    for number, draft, class_id in numbered:
        for index, chunk in enumerate(draft.chunks):
            yield (
                next(ords),
                collection_id,
                number,
                index,
                chunk_key(collection, draft.document_id, index),
                class_id,
                chunk.content,
                content_digest(chunk.content),
                chunk.heading,
                chunk.section_path,
                chunk.start,
                chunk.end,
                *_embedded(chunk),
                chunk.page,
                chunk.lead,
                word_signature(chunk.content),
            )
