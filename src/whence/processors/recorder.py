"""The recorder: traces of questions in, rows in the store out.

A trace is written in one transaction, whole or not at all. Recording an answer id again changes nothing,
so a trace that is delivered twice is kept once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.processors.base import Context, NoParameters, Processor
from whence.schema.document_rag import TraceRecord

if TYPE_CHECKING:
    from whence.store.protocols import TraceStore

__all__ = ("RecorderProcessor",)


class RecorderProcessor(Processor):
    """Keeps the traces it hears of."""

    type_name = "recorder"
    summary = "writes traces to the store"
    consumes = TraceRecord
    needs = ("store",)
    once = True

    def __init__(self, parameters: NoParameters | None = None, *, store: TraceStore) -> None:
        super().__init__(parameters)
        self._store = store

    async def handle(self, message: TraceRecord, context: Context) -> None:
        """Keep one trace; an error of the store is left to the worker, which tries again."""
        await self._store.record_trace(message)
