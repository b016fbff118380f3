"""Erasure of a document from its collection, and of its words from all traces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import asdict

from whence.provenance.erasing import erase_texts
from whence.schema.document_rag import TraceRecord
from whence.schema.errors import NotFound
from whence.store.chunk_ids import document_key

if TYPE_CHECKING:
    from whence.store.protocols import Store


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what is stored of a document."""

    documents: int
    """1 if the collection contains it, else 0."""
    chunks: int
    vectors: int
    postings: int
    """Distinct words of its chunks in the lexical index, summed over the chunks."""
    links: int
    """Names in the passage graph that its chunks define or mention."""
    traces: int
    """Traces that name it."""
    traces_with_text: int
    """Traces that contain words of it: a quote, or an answer written from it."""


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """Counts before and after an erasure."""

    document_id: str
    collection: str
    before: Remains
    after: Remains
    """Zero except for `traces`, which keep a tombstone."""


async def erase(store: Store, collection: str, document_id: str) -> Erasure:
    """Remove a document with its chunks, vectors and postings, then its words from all traces.

    Can be repeated after an interruption. Cost: linear in the traces that name it.
    """
    named, quoted = await _count_traces(store, collection, document_id)
    stored, left = await store.erase_document(collection, document_id)
    if not (stored.documents or quoted):
        raise NotFound(
            f"there is no document {document_id!r} in collection {collection!r}",
            hint="`whence search --json` prints the ids of documents; --collection names another collection",
        )
    erased_at = datetime.now(UTC).isoformat()
    async for _, clean in _traces(store, collection, document_id, erased_at):
        await store.rewrite_trace(clean)
    now_named, now_quoted = await _count_traces(store, collection, document_id)
    return Erasure(
        document_id=document_id,
        collection=collection,
        before=Remains(**asdict(stored), traces=named, traces_with_text=quoted),
        after=Remains(**asdict(left), traces=now_named, traces_with_text=now_quoted),
    )


async def _count_traces(store: Store, collection: str, document_id: str) -> tuple[int, int]:
    """Return how many traces name a document, and how many of them contain words of it."""
    named = with_text = 0
    async for record, clean in _traces(store, collection, document_id, ""):
        named += 1
        with_text += clean.answer != record.answer or clean.events != record.events
    return named, with_text


async def _traces(
    store: Store, collection: str, document_id: str, erased_at: str
) -> AsyncIterator[tuple[TraceRecord, TraceRecord]]:
    """Yield each trace that names a document, and the same trace without words of it."""
    for answer_id in await store.traces_about(collection, document_id):
        stored = await store.trace(answer_id)
        if stored is None:
            continue
        record = stored.record
        prefix = document_key(record.collection, document_id)

        def is_erased(chunk_id: str, named: str, prefix: str = prefix) -> bool:
            return named == document_id or chunk_id.startswith(prefix)

        yield record, erase_texts(record, is_erased=is_erased, erased_at=erased_at)
