"""The code RAG service: a question about code in; pieces of the answer, explain events and the answer out."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.answering.arguments import check_limits, check_question
from whence.answering.code_evidence import CodeRetrieval, CodeScope
from whence.answering.pipeline import Steps, answer
from whence.answering.prompts import bus_services
from whence.answering.state import Question, RagOptions, Sources, new_answer_id, new_question
from whence.answering.streaming import AnswerStream, question_time_s
from whence.answering.trace_recorder import utc_now
from whence.processors.base import Context, StreamingProcessor
from whence.processors.services import CODE_RAG, EMBEDDING, EXPAND, PROMPT, SEARCH, TEXTS
from whence.schema.code_rag import CODE_RAG as CODE_FLOW
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import ExplainEvent, TraceRecord
from whence.schema.errors import BadInput
from whence.schema.graph import Direction
from whence.schema.message import Message
from whence.schema.search import SearchMode
from whence.schema.texts import BudgetKind, Prioritize, TextBudget

if TYPE_CHECKING:
    from whence.store.snapshot_protocols import CodeStore, SnapshotRecord

__all__ = ("CodeRagParameters", "CodeRagProcessor")


class CodeRagParameters(RagOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the code RAG processor; a request may say otherwise."""

    mode: SearchMode = "hybrid"
    """How seeds are found."""
    seed_limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    """Nodes found by the search to start from."""
    max_depth: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2
    """Most steps from a seed."""
    direction: Direction = "out"
    """Which way edges are walked."""
    prioritize: Prioritize = "balanced"
    """Which texts go first."""
    budget_kind: BudgetKind = "tokens"
    """What the budget counts."""
    budget_limit: Annotated[int, msgspec.Meta(ge=1)] = 4000
    """What the texts may add up to."""
    max_doc_limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500
    """Largest `doc_limit` of a request; a larger one is refused."""
    trace_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0
    """Seconds for publishing the trace."""


class CodeRagProcessor(StreamingProcessor):
    """Answers questions about snapshots of code.

    Args:
        parameters: Settings.
        store: Where snapshots are looked up.
        new_id: Makes ids of answers for requests without one.
        clock: Time of day in UTC.
        monotonic: Clock in seconds that never goes back.
    """

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
        new_id: Callable[[], str] = new_answer_id,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parameters)
        self._store = store
        self._sources = Sources(new_id, clock, monotonic)

    async def handle_stream(
        self, message: CodeRagRequest, context: Context
    ) -> AsyncIterator[Message]:
        """Answer one question.

        Raises:
            BadInput: The question is blank, too long or no valid text, a limit is out of range, no snapshot is
                named, or the answer id is not fit for an IRI.
            NotFound: There is no such snapshot.
            DeadlineExceeded: The time ran out.
            WhenceError: A stage failed that cannot be done without.
        """
        self._check(message)
        stream = AnswerStream(context, trace_timeout_s=self.parameters.trace_timeout_s)
        scope = self._scope(message, await self._snapshot(message))
        question = self._question(message, scope, context, stream)
        code = CodeRetrieval(scope, context)
        steps = Steps(code.retrieve, code.select)
        replies = stream.run(question, lambda one: answer(one, steps))
        async with aclosing(replies):
            async for reply in replies:
                yield reply

    def _check(self, message: CodeRagRequest) -> None:
        check_question(message.question, max_bytes=self.parameters.max_question_bytes)
        check_limits(message.doc_limit, 0)
        for name, value in (("seed_limit", message.seed_limit), ("max_depth", message.max_depth)):
            if value < 0:
                raise BadInput(f"{name} must be at least 1, not {value}")
        if message.doc_limit > self.parameters.max_doc_limit:
            most = self.parameters.max_doc_limit
            raise BadInput(f"doc_limit must be at most {most}, not {message.doc_limit}")
        if message.budget is not None and message.budget.limit < 1:
            raise BadInput(f"a budget must be at least 1, not {message.budget.limit}")
        if not message.snapshot and not message.set_name:
            raise BadInput(
                "no snapshot is named", hint="name a snapshot or a set to ask about code"
            )

    async def _snapshot(self, message: CodeRagRequest) -> SnapshotRecord:
        if message.snapshot:
            return await self._store.resolve_snapshot(message.snapshot, within=message.set_name)
        return await self._store.resolve_set(message.set_name, message.snapshot_source)

    def _scope(self, message: CodeRagRequest, record: SnapshotRecord) -> CodeScope:
        own = self.parameters
        return CodeScope(
            snapshot_id=record.info.snapshot_id,
            collection=record.collection,
            access=message.access,
            seed_limit=message.seed_limit or own.seed_limit,
            max_depth=message.max_depth or own.max_depth,
            max_nodes=message.doc_limit,
            relations=message.relations,
            direction=message.direction or own.direction,
            prioritize=message.prioritize or own.prioritize,
            budget=message.budget or TextBudget(kind=own.budget_kind, limit=own.budget_limit),
        )

    def _question(
        self,
        message: CodeRagRequest,
        scope: CodeScope,
        context: Context,
        stream: AnswerStream,
    ) -> Question:
        mode = message.mode or self.parameters.mode
        question = new_question(
            message,
            self.parameters,
            bus_services(
                context,
                self.parameters,
                collection=scope.collection,
                access=scope.access,
                mode=mode,
            ),
            self._sources,
            # Enough to ask the question again.
            settings={
                "flow": self.type_name,
                "collection": scope.collection,
                "snapshot_id": scope.snapshot_id,
                "mode": mode,
                "seed_limit": scope.seed_limit,
                "graph_max_depth": scope.max_depth,
                "graph_max_nodes": scope.max_nodes,
                "graph_edge_allowlist": json.dumps(scope.relations) if scope.relations else "*",
                "graph_direction": scope.direction,
                "prioritize": scope.prioritize,
                "budget_kind": scope.budget.kind,
                "budget_limit": scope.budget.limit,
            },
            listeners=(stream.event,),
            deadline_s=question_time_s(context),
        )
        question.on_piece = stream.piece if message.streaming else None
        return question
