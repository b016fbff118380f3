"""Traces in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from whence.schema.document_rag import TraceRecord
from whence.store.chunk_ids import document_key
from whence.store.protocols import (
    StoredTrace,
)
from whence.store.validation import (
    check_limit,
    check_trace,
)


class MemoryTraces:
    """Stores traces by answer id, in the order of recording.

    Args:
        clock: Returns the time a trace is recorded, with its zone.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._traces: dict[str, StoredTrace] = {}

    async def record_trace(self, record: TraceRecord) -> bool:
        """Store a trace; return False when its answer id is recorded already."""
        check_trace(record)
        if record.answer_id in self._traces:
            return False
        kept = msgspec.json.decode(msgspec.json.encode(record), type=TraceRecord)
        recorded_at = self._clock().astimezone(UTC).isoformat()
        self._traces[record.answer_id] = StoredTrace(record=kept, recorded_at=recorded_at)
        return True

    async def rewrite_trace(self, record: TraceRecord) -> bool:
        """Replace a trace; return False when there is none of its answer id."""
        check_trace(record)
        former = self._traces.get(record.answer_id)
        if former is None:
            return False
        kept = msgspec.json.decode(msgspec.json.encode(record), type=TraceRecord)
        self._traces[record.answer_id] = msgspec.structs.replace(former, record=kept)
        return True

    async def trace(self, answer_id: str) -> StoredTrace | None:
        """Return a trace, or None."""
        return self._traces.get(answer_id)

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Return the latest traces, newest first."""
        check_limit(limit)
        return list(self._traces.values())[::-1][:limit]

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Return the sorted ids of answers whose traces name a document or its chunks."""
        return sorted(
            answer_id
            for answer_id, stored in self._traces.items()
            if stored.record.collection == collection and _names(stored.record, document_id)
        )

    def recorded_at(self) -> list[str]:
        """Return the times of all recordings, ISO 8601 in UTC."""
        return [stored.recorded_at for stored in self._traces.values()]


def _names(record: TraceRecord, document_id: str) -> bool:
    """Return whether a trace names a document or one of its chunks."""
    prefix = document_key(record.collection, document_id)
    objects = (triple.o for event in record.events for triple in event.triples)
    citations = record.answer.citations if record.answer else ()
    return any(one.iri.startswith(prefix) or one.value == document_id for one in objects) or any(
        citation.document_id == document_id for citation in citations
    )
