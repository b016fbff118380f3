"""The store in memory: the same rules and the same order as the store on PostgreSQL, for tests and trials."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from whence.store.memory.collection import MemoryCollection
from whence.store.memory.documents import MemoryDocuments
from whence.store.memory.names import MemoryNames
from whence.store.memory.search import MemorySearch
from whence.store.memory.traces import MemoryTraces
from whence.store.protocols import StoreOverview

__all__ = ("MemoryStore",)


class MemoryStore:
    """Chunks, names and traces in memory.

    Its methods are those of its parts; `whence.store.protocols` specifies them.

    Args:
        clock: Returns the time a trace is recorded, with its zone.
    """

    def __init__(self, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        shared: dict[str, MemoryCollection] = {}

        documents = MemoryDocuments(shared)
        self.collection = documents.collection
        self.collection_model = documents.collection_model
        self.collections = documents.collections
        self.ensure_collection = documents.ensure_collection
        self.document_states = documents.document_states
        self.document_ids = documents.document_ids
        self.replace_documents = documents.replace_documents
        self.retag_documents = documents.retag_documents
        self.remove_documents = documents.remove_documents
        self.erase_document = documents.erase_document
        self.boost_fields = documents.boost_fields
        self.source_digests = documents.source_digests
        self.note_sources = documents.note_sources
        self.effects_of = documents.effects_of

        search = MemorySearch(shared)
        self.search_dense = search.search_dense
        self.search_lexical = search.search_lexical
        self.dense_scores = search.dense_scores
        self.lexical_scores = search.lexical_scores
        self.chunk_texts = search.chunk_texts
        self.visible_chunks = search.visible_chunks
        self.known_chunks = search.known_chunks

        names = MemoryNames(shared)
        self.find_symbols = names.find_symbols
        self.link_statistics = names.link_statistics
        self.linked_titles = names.linked_titles

        traces = self._traces = MemoryTraces(clock)
        self.record_trace = traces.record_trace
        self.rewrite_trace = traces.rewrite_trace
        self.trace = traces.trace
        self.recent_traces = traces.recent_traces
        self.traces_about = traces.traces_about

    async def aclose(self) -> None:
        """Free nothing, so that all stores are closed the same way."""

    async def overview(self) -> StoreOverview:
        """Return how much the store holds."""
        recorded = self._traces.recorded_at()
        return StoreOverview(
            server="memory", questions=len(recorded), asked_at=max(recorded, default="")
        )
