"""The recorder: traces of questions in, rows in the store out.

A trace is written in one transaction. Recording an answer id again changes nothing, so a trace that is
delivered twice is kept once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.processors.base import Context, NoParameters, Processor
from whence.schema.document_rag import TraceRecord

if TYPE_CHECKING:
    from whence.store.protocols import TraceStore


class RecorderProcessor(Processor):
    """Writes traces to the store."""

    type_name = "recorder"
    summary = "writes traces to the store"
    consumes = TraceRecord
    needs = ("store",)

    def __init__(self, parameters: NoParameters | None = None, *, store: TraceStore) -> None:
        super().__init__(parameters)
        self._store = store

    async def handle(self, message: TraceRecord, context: Context) -> None:
        """Write one trace; on an error of the store the worker tries again."""
        await self._store.record_trace(message)
