"""The recorder: traces of questions in, rows in the store out.

A trace is written in one transaction. Recording an answer id again changes nothing, so a trace that is
delivered twice is kept once. Words of documents that were erased meanwhile are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import TYPE_CHECKING

from whence.answering.trace_recorder import utc_now
from whence.processors.base import Context, NoParameters, Processor
from whence.provenance.erasing import ERASED, corrections_of, erase_corrections, erase_texts
from whence.schema.document_rag import TraceRecord
from whence.store.chunk_ids import document_key, split_collections
from whence.store.protocols import ErasedMeanwhile
from whence.text.spelling import surface_words

if TYPE_CHECKING:
    from whence.store.protocols import Store


class RecorderProcessor(Processor):
    """Writes traces to the store."""

    type_name = "recorder"
    summary = "writes traces to the store"
    consumes = TraceRecord
    needs = ("store",)

    def __init__(
        self,
        parameters: NoParameters | None = None,
        *,
        store: Store,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(parameters)
        self._store = store
        self._clock = clock

    async def handle(self, message: TraceRecord, context: Context) -> None:
        """Write one trace; on an error of the store the worker tries again."""
        # A store that never refuses need not take the argument.
        without: dict[str, Collection[str]] = {}
        while True:
            try:
                await self._store.record_trace(message, **without)
            except ErasedMeanwhile as found:
                erased = found.documents.union(without.get("without", ()))
                message = erase_documents_of(message, erased, self._clock().isoformat())
                message = await erase_lost_words(self._store, message)
                without["without"] = erased
            else:
                return


def erase_documents_of(
    record: TraceRecord, document_ids: Collection[str], erased_at: str, collection: str = ""
) -> TraceRecord:
    """Return a trace without the words of documents of a collection, by default of each that it searched.

    `erased_at` is ISO 8601.
    """
    names = [collection] if collection else split_collections(record.collection)
    others = set(split_collections(record.collection)) - set(names)
    keys = tuple(document_key(name, one) for name in names for one in document_ids)
    kept = tuple(document_key(name, one) for name in others for one in document_ids)

    def is_erased(chunk_id: str, named: str) -> bool:
        if chunk_id.startswith(keys):
            return True
        return named in document_ids and not chunk_id.startswith(kept)

    return erase_texts(record, is_erased=is_erased, erased_at=erased_at)


async def erase_lost_words(store: Store, record: TraceRecord) -> TraceRecord:
    """Return a trace without what misspelt words were taken for, where no document has it any more."""
    targets = [one.target for one in corrections_of(record)]
    words = {word for one in targets for word in surface_words(one.replace(ERASED, ""))}
    gone = set(words)
    for name in split_collections(record.collection) if words else ():
        gone -= await store.known_words(name, sorted(words))
    return erase_corrections(record, gone.__contains__) if gone else record
