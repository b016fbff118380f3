"""The code RAG service: a question about code in; pieces of the answer, explain events and the answer out."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec.structs import replace

from whence.answering.requests import answer_request
from whence.answering.state import RagOptions
from whence.answering.trace_recorder import Sources
from whence.code.evidence import CodeRetrieval
from whence.operations.ask import check_question
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
from whence.provenance.stage_records import Scalar
from whence.schema.code_rag import CODE_RAG as CODE_FLOW
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import ExplainEvent, TraceRecord
from whence.schema.errors import BadInput
from whence.schema.graph import Direction, ExpandRequest
from whence.schema.message import Message
from whence.schema.search import SearchMode
from whence.schema.texts import BudgetKind, Prioritize, TextBudget, TextPlan

if TYPE_CHECKING:
    from whence.code.snapshots.protocols import CodeStore


class CodeRagParameters(RagOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the code RAG processor; a request may say otherwise."""

    mode: SearchMode = "hybrid"
    """How seeds are found."""
    seed_limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    """Nodes found by the search to start from."""
    max_depth: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2
    """Most steps from a seed."""
    max_nodes: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 120
    """Most nodes, seeds included, of a request without a `doc_limit`."""
    relations: Annotated[
        tuple[Annotated[str, msgspec.Meta(pattern=r"\S")], ...], msgspec.Meta(max_length=100)
    ] = ()
    """Relations to follow, with or without prefix, in any case; empty, or `*`, for all."""
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
    needs = ("snapshots",)

    parameters: CodeRagParameters

    def __init__(
        self,
        parameters: CodeRagParameters | None = None,
        *,
        snapshots: CodeStore,
        sources: Sources = Sources(),  # noqa: B008 - immutable
    ) -> None:
        super().__init__(parameters)
        self._snapshots = snapshots
        self._sources = sources

    async def handle_stream(
        self, message: CodeRagRequest, context: Context
    ) -> AsyncIterator[Message]:
        """Answer one question."""
        async with aclosing(await self._answer(message, context)) as replies:
            async for reply in replies:
                yield reply

    async def _answer(
        self, message: CodeRagRequest, context: Context
    ) -> AsyncGenerator[Message, None]:
        """Return the replies to one question.

        Raises:
            BadInput: The question is invalid, a limit is out of range, no snapshot is named, or the answer id
                cannot be part of an IRI.
            NotFound: The snapshot does not exist.
        """
        parameters, snapshots = self.parameters, self._snapshots
        _check_code_request(message, parameters)
        if message.snapshot:
            record = await snapshots.resolve_snapshot(message.snapshot, within=message.set_name)
        else:
            record = await snapshots.resolve_set(message.set_name, message.snapshot_source)
        direction = message.direction or parameters.direction
        prioritize = message.prioritize or parameters.prioritize
        budget = message.budget or TextBudget(
            kind=parameters.budget_kind, limit=parameters.budget_limit
        )
        mode = message.mode or parameters.mode
        # Enough to ask the question again.
        message = replace(
            message,
            snapshot=record.info.snapshot_id,
            seed_limit=message.seed_limit or parameters.seed_limit,
            doc_limit=message.doc_limit or parameters.max_nodes,
            max_depth=message.max_depth or parameters.max_depth,
            relations=message.relations or parameters.relations,
            direction=direction,
            prioritize=prioritize,
            budget=budget,
            mode=mode,
        )
        walk = ExpandRequest(
            access=message.access,
            snapshot=message.snapshot,
            seeds=(),
            max_depth=message.max_depth,
            max_nodes=message.doc_limit,
            relations=message.relations,
            direction=direction,
        )
        code = CodeRetrieval(
            caller=context,
            collection=record.collection,
            seed_limit=message.seed_limit,
            expand=walk,
            plan=TextPlan(prioritize=prioritize, budget=budget),
        )
        settings = _settings(code, record.info.repo, mode)
        timeout_s = parameters.trace_timeout_s
        return answer_request(
            message, parameters, context, self._sources, settings, timeout_s, own=code.retrieve
        )


def _settings(code: CodeRetrieval, repo: str, mode: SearchMode) -> dict[str, Scalar]:
    walk, plan = code.expand, code.plan
    return {
        "flow": CODE_FLOW,
        "collection": code.collection,
        "repo": repo,
        "snapshot_id": walk.snapshot,
        "mode": mode,
        "seed_limit": code.seed_limit,
        "graph_max_depth": walk.max_depth,
        "graph_max_nodes": walk.max_nodes,
        "graph_edge_allowlist": json.dumps(walk.relations) if walk.follows_some else "*",
        "graph_direction": walk.direction,
        "prioritize": plan.prioritize,
        "budget_kind": plan.budget.kind,
        "budget_limit": plan.budget.limit,
    }


def _check_code_request(message: CodeRagRequest, parameters: CodeRagParameters) -> None:
    check_question(message.question, 1, max_bytes=parameters.max_question_bytes)
    for name in ("seed_limit", "max_depth", "doc_limit"):
        if (value := getattr(message, name)) < 0:
            raise BadInput(f"{name} must be at least 1, not {value}")
    if message.doc_limit > (most := parameters.max_doc_limit):
        raise BadInput(f"doc_limit must be at most {most}, not {message.doc_limit}")
    if message.budget is not None and message.budget.limit < 1:
        raise BadInput(f"a budget must be at least 1, not {message.budget.limit}")
    if not message.snapshot and not message.set_name:
        raise BadInput("no snapshot is named", hint="name a snapshot or a set to ask about code")
