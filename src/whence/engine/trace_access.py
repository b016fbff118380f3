"""Reading a trace back for someone: what they may not see is not in it, or it does not exist for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from whence.schema.access import Access
from whence.schema.errors import NotFound

if TYPE_CHECKING:
    from whence.provenance.trace import Trace
    from whence.provenance.why_not import WhyNot
    from whence.schema.document_rag import TraceRecord
    from whence.store.protocols import Store, TraceStore

__all__ = ("SeenTrace", "explain", "not_found", "see_trace", "why_not")

#: How long to wait for the recorder when an answer is younger than its trace, in seconds.
_PATIENCE_S = 3.0
_PAUSE_S = 0.02


class SeenTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and what of it a reader may see."""

    record: TraceRecord
    """As it was recorded."""
    trace: Trace
    """The whole of it."""
    visible: frozenset[str]
    """Ids of its chunks that the reader may see."""


async def see_trace(
    store: Store, answer_id: str, access: Access, *, fresh: bool = False
) -> SeenTrace:
    """Look a trace up for a reader.

    When the answer stands on a chunk that the reader may not see, its text could tell of it, so the trace
    then does not exist for this reader. A chunk that is gone hides nothing from readers who hold all rights
    that the question was asked with, as long as its document is gone too or visible to them.

    Args:
        store: Where traces are kept.
        answer_id: Id of the answer.
        access: Rights of the reader.
        fresh: True when the answer was given moments ago and its recording may still be under way.

    Raises:
        NotFound: There is no such trace, or the reader may not see what the answer stands on.
    """
    from whence.provenance.redaction import chunk_ids
    from whence.provenance.trace import read_trace

    record = await _record(store, answer_id, _PATIENCE_S if fresh else 0.0)
    if record is None:
        raise not_found(answer_id)
    triples = [triple for event in record.events for triple in event.triples]
    trace = read_trace(triples, answer_id)
    named = chunk_ids(trace)
    visible = await store.visible_chunks(record.collection, sorted(named), access)
    if named - visible and access.covers(record.access):
        visible |= await _gone(store, record.collection, trace, named - visible, access)
    if not visible.issuperset(trace.used):
        raise not_found(answer_id)
    return SeenTrace(record=record, trace=trace, visible=visible)


async def explain(store: Store, answer_id: str, access: Access, *, fresh: bool = False) -> Trace:
    """Give the trace of an answer as far as a reader may see it; candidates they may not see are left out.

    Raises:
        NotFound: As for `see_trace`.
    """
    from whence.provenance.redaction import redact_trace

    seen = await see_trace(store, answer_id, access, fresh=fresh)
    return redact_trace(seen.trace, seen.visible)


async def why_not(
    store: Store, item: str, answer_id: str, access: Access, *, fresh: bool = False
) -> WhyNot:
    """Tell what became of a chunk or document on the way to an answer.

    Raises:
        NotFound: As for `see_trace`. An item that the reader may not see is no error: it is answered like
            one that was never retrieved.
    """
    from whence.provenance.why_not import why_not as explained

    seen = await see_trace(store, answer_id, access, fresh=fresh)
    return explained(seen.trace, item, visible=seen.visible)


async def _gone(
    store: Store, collection: str, trace: Trace, unseen: Iterable[str], access: Access
) -> frozenset[str]:
    """Give those of the unseen chunks that are no longer there and hide nothing from this reader."""
    gone = set(unseen) - await store.known_chunks(collection, sorted(unseen))
    documents = trace.documents
    states = await store.document_states(collection, sorted({*documents.values()} - {""}))
    hidden = {name for name, state in states.items() if not access.allows(state.tags)}
    # A chunk of which the document is not known could be one of a hidden document: it stays unseen.
    return frozenset(c for c in gone if documents.get(c) and documents[c] not in hidden)


async def _record(store: TraceStore, answer_id: str, patience_s: float) -> TraceRecord | None:
    end = time.monotonic() + patience_s
    while True:
        stored = await store.trace(answer_id)
        if stored is not None or time.monotonic() >= end:
            return None if stored is None else stored.record
        await asyncio.sleep(_PAUSE_S)


def not_found(answer_id: str) -> NotFound:
    """Give the one error for a trace that does not exist and one that the reader may not see."""
    return NotFound(
        f"there is no answer {answer_id!r}",
        hint="`whence ask` prints the id; give the same access options as for the question",
    )
