"""The code RAG service: a question about code in; pieces of the answer, explain events and the answer out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from whence.answering.requests import CodeRagParameters, answer_code_request
from whence.answering.trace_recorder import Sources
from whence.processors.base import (
    CODE_RAG,
    EMBEDDING,
    EXPAND,
    PROMPT,
    SEARCH,
    TEXTS,
    Context,
    StreamingProcessor,
)
from whence.schema.code_rag import CODE_RAG as CODE_FLOW
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import ExplainEvent, TraceRecord
from whence.schema.message import Message

if TYPE_CHECKING:
    from whence.store.snapshot_protocols import CodeStore


class CodeRagProcessor(StreamingProcessor):
    """Answers questions about snapshots of code."""

    type_name = CODE_FLOW
    summary = "a question about code to an answer with citations and its trace"
    serves = CODE_RAG
    calls = {
        "embedding": EMBEDDING,
        "search": SEARCH,
        "graph": EXPAND,
        "texts": TEXTS,
        "prompt": PROMPT,
    }
    emits = {"explain": ExplainEvent, "trace": TraceRecord}
    Parameters = CodeRagParameters
    needs = ("store",)

    parameters: CodeRagParameters

    def __init__(
        self,
        parameters: CodeRagParameters | None = None,
        *,
        store: CodeStore,
        sources: Sources = Sources(),  # noqa: B008 - immutable
    ) -> None:
        super().__init__(parameters)
        self._store = store
        self._sources = sources

    async def handle_stream(
        self, message: CodeRagRequest, context: Context
    ) -> AsyncIterator[Message]:
        """Answer one question."""
        replies = await answer_code_request(
            message, self.parameters, context, self._sources, self._store
        )
        async with aclosing(replies):
            async for reply in replies:
                yield reply
