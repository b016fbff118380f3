"""The document RAG service: a question in; pieces of the answer, explain events and the answer out."""

from __future__ import annotations

from collections.abc import AsyncIterator

from whence.answering.document_rag import DocumentRag, Query, rrf_fuse
from whence.answering.requests import DocumentRagParameters, answer_document_request
from whence.answering.state import OVERFETCH_FACTOR, RagOptions
from whence.answering.trace_recorder import Sources
from whence.answering.writing import NOTHING_FOUND, NOTHING_READABLE
from whence.operations.ask import DocumentRagRequest, ExplainCallback
from whence.processors.base import (
    DOCUMENT_RAG,
    EMBEDDING,
    PROMPT,
    RERANK,
    SEARCH,
    TEXTS,
    Context,
    StreamingProcessor,
)
from whence.retrieval.fusion import RRF_K
from whence.schema.document_rag import ExplainEvent, TraceRecord
from whence.schema.message import Message

__all__ = (
    "NOTHING_FOUND",
    "NOTHING_READABLE",
    "OVERFETCH_FACTOR",
    "RRF_K",
    "DocumentRag",
    "DocumentRagParameters",
    "DocumentRagProcessor",
    "ExplainCallback",
    "Query",
    "RagOptions",
    "rrf_fuse",
)


class DocumentRagProcessor(StreamingProcessor):
    """Answers questions from documents.

    Explain events go to the port `explain` and to the caller. The trace goes to the port `trace` before the
    answer goes out; one that cannot be published shows in the answer as `trace_not_stored`.

    Args:
        parameters: Settings.
        sources: Where ids and times come from.
        as_of: Moment of which the store has the documents, ISO 8601, for the trace; empty for the present.
    """

    type_name = "document-rag"
    summary = "a question to an answer with citations and its trace"
    serves = DOCUMENT_RAG
    calls = {
        "embedding": EMBEDDING,
        "search": SEARCH,
        "texts": TEXTS,
        "reranker": RERANK,
        "prompt": PROMPT,
    }
    optional_calls = frozenset({"reranker"})
    emits = {"explain": ExplainEvent, "trace": TraceRecord}
    Parameters = DocumentRagParameters

    parameters: DocumentRagParameters

    def __init__(
        self,
        parameters: DocumentRagParameters | None = None,
        *,
        sources: Sources = Sources(),  # noqa: B008 - immutable
        as_of: str = "",
    ) -> None:
        super().__init__(parameters)
        self._sources = sources
        self._as_of = as_of

    def handle_stream(
        self, message: DocumentRagRequest, context: Context
    ) -> AsyncIterator[Message]:
        """Answer one question."""
        sources = self._sources
        return answer_document_request(
            message, self.parameters, context, sources, as_of=self._as_of
        )
