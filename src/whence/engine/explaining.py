"""Reading a trace back for someone: what they may not see is not in it, or it does not exist for them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from whence.schema.access import Access
from whence.schema.errors import NotFound

if TYPE_CHECKING:
    from whence.provenance.trace import Trace
    from whence.schema.document_rag import TraceRecord
    from whence.store.base import TraceStore

__all__ = ("explain",)

#: How long to wait for the recorder when an answer is younger than its trace, in seconds.
_PATIENCE_S = 3.0
_PAUSE_S = 0.02


async def explain(
    store: TraceStore, answer_id: str, access: Access, *, fresh: bool = False
) -> Trace:
    """Give the trace of an answer as far as a reader may see it.

    Candidates that the reader may not see are left out. When the answer itself stands on such a chunk its
    text could tell of it, so the trace then does not exist for this reader.

    Args:
        store: Where traces are kept.
        answer_id: Id of the answer.
        access: Rights of the reader.
        fresh: True when the answer was given moments ago and its recording may still be under way.

    Raises:
        NotFound: There is no such trace, or the reader may not see what the answer stands on.
    """
    from whence.provenance.trace import read
    from whence.provenance.trimming import chunk_ids, trimmed

    record = await _record(store, answer_id, _PATIENCE_S if fresh else 0.0)
    if record is None:
        raise _not_found(answer_id)
    triples = [triple for event in record.events for triple in event.triples]
    trace = read(triples, answer_id)
    visible = await store.visible_chunks(record.collection, sorted(chunk_ids(trace)), access)
    if not visible.issuperset(trace.given):
        raise _not_found(answer_id)
    return trimmed(trace, visible)


async def _record(store: TraceStore, answer_id: str, patience_s: float) -> TraceRecord | None:
    end = time.monotonic() + patience_s
    while True:
        stored = await store.trace(answer_id)
        if stored is not None or time.monotonic() >= end:
            return None if stored is None else stored.record
        await asyncio.sleep(_PAUSE_S)


def _not_found(answer_id: str) -> NotFound:
    return NotFound(
        f"there is no answer {answer_id!r}",
        hint="`whence ask` prints the id; give the same access options as for the question",
    )
