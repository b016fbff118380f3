"""Erasure of a document from its collection, and of its words from all traces."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from whence.schema.errors import NotFound

if TYPE_CHECKING:
    from whence.store.protocols import DocumentParts, Store


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


async def erase(
    store: Store,
    collection: str,
    document_id: str,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Erasure:
    """Remove a document with its chunks, vectors and postings, then its words from all traces.

    Can be repeated after an interruption. Cost: linear in the number of stored traces.
    """
    named, quoted = await _count_traces(store, collection, document_id)
    stored, left = await store.erase_document(collection, document_id)
    if not (stored.documents or quoted):
        raise NotFound(
            f"there is no document {document_id!r} in collection {collection!r}",
            hint="`whence search --json` prints the ids of documents; --collection names another collection",
        )
    erased_at = now().astimezone(UTC).isoformat()
    for answer_id in await store.traces_about(collection, document_id):
        await _rewrite_trace(store, answer_id, document_id, erased_at)
    return Erasure(
        document_id=document_id,
        collection=collection,
        before=_remains(stored, named, quoted),
        after=_remains(left, *await _count_traces(store, collection, document_id)),
    )


async def _rewrite_trace(store: Store, answer_id: str, document_id: str, erased_at: str) -> None:
    from whence.provenance.erasing import erase_texts

    stored = await store.trace(answer_id)
    if stored is None:
        return
    is_erased = _refers_to(stored.record.collection, document_id)
    await store.rewrite_trace(erase_texts(stored.record, is_erased=is_erased, erased_at=erased_at))


async def _count_traces(store: Store, collection: str, document_id: str) -> tuple[int, int]:
    from whence.provenance.erasing import erase_texts

    about = await store.traces_about(collection, document_id)
    with_text = 0
    for answer_id in about:
        stored = await store.trace(answer_id)
        if stored is not None:
            record = stored.record
            clean = erase_texts(
                record, is_erased=_refers_to(record.collection, document_id), erased_at=""
            )
            with_text += clean.answer != record.answer or clean.events != record.events
    return len(about), with_text


def _remains(parts: DocumentParts, traces: int, traces_with_text: int) -> Remains:
    return Remains(
        documents=parts.documents,
        chunks=parts.chunks,
        vectors=parts.vectors,
        postings=parts.postings,
        links=parts.links,
        traces=traces,
        traces_with_text=traces_with_text,
    )


def _refers_to(collection: str, document_id: str) -> Callable[[str, str], bool]:
    from whence.store.chunk_ids import document_key

    prefix = document_key(collection, document_id)
    return lambda chunk_id, named: named == document_id or chunk_id.startswith(prefix)
