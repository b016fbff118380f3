"""The flow behind an engine: where it runs, its client, its resources, and the order in which they close."""

from __future__ import annotations

import asyncio
import logging
import uuid
import weakref
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whence.answering.state import ChunkCallback, ExplainCallback
from whence.broker.connect import in_process
from whence.engine.audit import AuditLog
from whence.schema.document_rag import Answer, AnswerPiece, ExplainEvent
from whence.schema.errors import BadInput, InternalError, WhenceError
from whence.schema.message import Message

if TYPE_CHECKING:
    from whence.engine.retriever import Retriever
    from whence.flow.client import FlowClient
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings
    from whence.store.protocols import Store
    from whence.store.snapshot_protocols import CodeStore

logger = logging.getLogger(__name__)

#: Silence after which a client asks the broker whether a fleet is running, in seconds.
_ABSENT_AFTER_S = 3.0
#: Types of processors that a search needs.
_SEARCH_TYPES = ("embedding", "search", "text-fetcher", "reranker")
_NOT_OPEN_HINT = "use it inside `async with Engine(...) as engine:`"


class EngineSession:
    """What every operation of an engine works with; opened and closed by the engine."""

    def __init__(
        self,
        settings: Settings,
        objects: dict[str, Any],
        *,
        flow: str | Path,
        only: tuple[str, ...],
        warm_up: bool | Literal["questions"],
    ) -> None:
        self.settings = settings
        self.objects = objects
        self.flow = flow
        self.only = only
        self.audit_log = None if settings.audit is None else AuditLog(settings.audit)
        #: Answers given by this engine; their traces may not be stored yet.
        self.recent_answers: set[str] = set()
        #: Blocking retrievers, closed with the session.
        self.retrievers: weakref.WeakSet[Retriever] = weakref.WeakSet()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._warm_up = warm_up
        self._client: FlowClient | None = None
        self._resources: Resources | None = None
        self._stack = AsyncExitStack()

    @property
    def is_open(self) -> bool:
        """Whether operations are possible."""
        return self._client is not None

    @property
    def client(self) -> FlowClient:
        """Client of the flow."""
        if self._client is None:
            raise BadInput("this engine is not open", hint=_NOT_OPEN_HINT)
        return self._client

    @property
    def resources(self) -> Resources:
        """Store and models."""
        if self._client is None or self._resources is None:
            raise BadInput("this engine is not open", hint=_NOT_OPEN_HINT)
        return self._resources

    @property
    def runs_flow(self) -> bool:
        """Whether the flow runs in this process; otherwise this is a client of a fleet."""
        return in_process(self.settings.broker)

    async def store(self) -> Store:
        """Return the store, opened on first use."""
        store: Store = await self.resources.get("store")
        return store

    async def code_store(self) -> CodeStore:
        """Return the store of code snapshots, opened on first use."""
        store: CodeStore = await self.resources.get("store")
        return store

    def clone_options(self) -> dict[str, Any]:
        """Return arguments for an engine that searches with the same settings and local models."""
        return {
            "settings": self.settings,
            "flow": self.flow,
            "only": self.client.names_of_types(_SEARCH_TYPES, among=self.only),
            **self.resources.loop_independent_models(),
            **self.objects,
        }

    async def open(self) -> None:
        """Connect, and start the flow when it runs in this process."""
        if self.is_open:
            raise BadInput("this engine is open already", hint="make one engine per `async with`")
        async with AsyncExitStack() as stack:
            self._client = await self._connect(stack)
            self._stack = stack.pop_all()
        self.loop = asyncio.get_running_loop()

    async def close(self, *error: Any) -> None:
        """Stop the flow and disconnect; requests in progress fail."""
        self._client = None
        for retriever in list(self.retrievers):
            # It waits for its thread, which may wait for this event loop.
            await asyncio.to_thread(retriever.close)
        await self._stack.__aexit__(*error)

    async def _connect(self, stack: AsyncExitStack) -> FlowClient:
        from whence.flow.resources import Resources

        self._resources = Resources(self.settings, self.objects)
        stack.push_async_callback(self._resources.aclose)
        if self._warm_up and self.runs_flow:
            loading = asyncio.create_task(
                _load_models(self._resources, reranker=self._warm_up == "questions")
            )
            stack.push_async_callback(asyncio.wait, {loading})
            await asyncio.sleep(0)  # Loading continues in a thread.
        connecting: asyncio.Task[Any] | None = None
        if self.runs_flow and not self.only:
            # The embedded server starts in its own processes while this one imports the flow's modules.
            connecting = asyncio.create_task(self._resources.get("store"))
            stack.push_async_callback(_cancel, connecting)
            await asyncio.sleep(0)
        from whence.broker.connect import connect
        from whence.flow.builtin_flows import find_flow
        from whence.flow.client import FlowClient
        from whence.flow.loader import load_flow
        from whence.flow.runtime import run_flow

        definition = load_flow(find_flow(self.flow))
        transport = await connect(self.settings.broker)
        stack.push_async_callback(transport.aclose)
        if connecting is not None:
            await connecting
        if not self.runs_flow:
            return FlowClient(
                definition,
                transport,
                absent_after_s=_ABSENT_AFTER_S,
                new_id=lambda: uuid.uuid4().hex,
            )
        running = run_flow(definition, transport, self._resources, only=self.only)
        await stack.enter_async_context(running)
        return FlowClient(definition, transport)


async def _load_models(resources: Resources, *, reranker: bool) -> None:
    with suppress(WhenceError):
        embedder = await resources.get("embedder")
        await embedder.embed(["warm up"])
    if reranker:
        with suppress(WhenceError):
            model = await resources.get("reranker")
            await model.score("warm up", ["warm up"])


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def collect_answer(
    replies: AsyncGenerator[Message, None],
    chunk_callback: ChunkCallback | None = None,
    explain_callback: ExplainCallback | None = None,
) -> Answer:
    """Return the answer at the end of the replies."""
    answer: Answer | None = None
    async with aclosing(replies) as arriving:
        async for part in arriving:
            if isinstance(part, Answer):
                answer = part
            elif isinstance(part, AnswerPiece) and chunk_callback is not None:
                await chunk_callback(part.text, part.end_of_stream)
            elif isinstance(part, ExplainEvent) and explain_callback is not None:
                await _explain(explain_callback, part)
    if answer is None:
        raise InternalError("the flow ended without an answer")
    return answer


async def _explain(callback: ExplainCallback, event: ExplainEvent) -> None:
    try:
        await callback(event.triples, event.explain_id)
    except Exception:
        logger.warning(
            "explain callback failed",
            extra={"action": "explain", "answer_id": event.answer_id, "stage": event.stage},
            exc_info=True,
        )
