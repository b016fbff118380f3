"""Erasing a document: from the collection, and its words from every trace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from whence.schema.errors import NotFound

if TYPE_CHECKING:
    from whence.store.protocols import DocumentParts, Store

__all__ = ("Erasure", "Remains", "erase")


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a document."""

    documents: int
    """1 while it is in the collection, else 0."""
    chunks: int
    vectors: int
    postings: int
    """Words of its chunks in the index of words, each counted once a chunk."""
    links: int
    """Names in the passage graph that its chunks bear or mention."""
    traces: int
    """Traces that name it."""
    traces_with_text: int
    """Those that still hold words of it: a quote, or an answer that was written from it."""


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure found and what it left."""

    document_id: str
    collection: str
    before: Remains
    after: Remains
    """All zero but for `traces`, which keep a tombstone."""


async def erase(
    store: Store,
    collection: str,
    document_id: str,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Erasure:
    """Remove a document with its chunks, vectors and postings, then its words from all traces.

    Interrupted in between it can be called again and goes on. Cost: linear in what is kept of questions.

    Raises:
        NotFound: There is no such document, and no trace holds words of it.
    """
    named, quoted = await _traces(store, collection, document_id)
    stored, left = await store.erase_document(collection, document_id)
    if not (stored.documents or quoted):
        raise NotFound(
            f"there is no document {document_id!r} in collection {collection!r}",
            hint="`whence search --json` prints the ids of documents; --collection names another collection",
        )
    erased_at = now().astimezone(UTC).isoformat()
    for answer_id in await store.traces_about(collection, document_id):
        await _clean(store, answer_id, document_id, erased_at)
    return Erasure(
        document_id=document_id,
        collection=collection,
        before=_remains(stored, named, quoted),
        after=_remains(left, *await _traces(store, collection, document_id)),
    )


async def _clean(store: Store, answer_id: str, document_id: str, erased_at: str) -> None:
    from whence.provenance.erasing import erase_texts

    stored = await store.trace(answer_id)
    if stored is None:
        return
    is_erased = _belongs(stored.record.collection, document_id)
    await store.rewrite_trace(erase_texts(stored.record, is_erased=is_erased, erased_at=erased_at))


async def _traces(store: Store, collection: str, document_id: str) -> tuple[int, int]:
    """Count the traces that name a document, and those of them that hold words of it."""
    from whence.provenance.erasing import erase_texts

    about = await store.traces_about(collection, document_id)
    with_text = 0
    for answer_id in about:
        stored = await store.trace(answer_id)
        if stored is not None:
            record = stored.record
            clean = erase_texts(
                record, is_erased=_belongs(record.collection, document_id), erased_at=""
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


def _belongs(collection: str, document_id: str) -> Callable[[str, str], bool]:
    """Give the test whether a chunk, or whatever names the document, is part of it."""
    from whence.store.chunk_ids import document_key

    prefix = document_key(collection, document_id)
    return lambda chunk_id, named: named == document_id or chunk_id.startswith(prefix)
