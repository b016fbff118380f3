"""The flow behind an engine: where it runs, its client, its resources, and the order in which they close."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from whence.answering.state import collect_answer
from whence.answering.trace_recorder import new_answer_id
from whence.broker.connect import in_process
from whence.operations.ask import ChunkCallback, DocumentRagRequest, ExplainCallback, check_timeout
from whence.operations.audit import AuditLog
from whence.retrieval.pipeline import check_text
from whence.schema.errors import BadInput, WhenceError

if TYPE_CHECKING:
    from whence.answering.question_rankings import WholeRanking
    from whence.flow.client import FlowClient
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings
    from whence.flow.telemetry.monitor import FlowMonitor
    from whence.ingest.reader import ReaderPool
    from whence.operations.ask import Ask
    from whence.operations.operation import Call, Middleware, Operation
    from whence.schema.access import Access
    from whence.schema.code_rag import CodeRagRequest
    from whence.schema.document_rag import Answer
    from whence.store.protocols import Store
    from whence.surfaces.python.retriever import Retriever

R = TypeVar("R")

#: Silence after which a client asks the broker whether a fleet is running, in seconds.
_ABSENT_AFTER_S = 3.0
#: Answers whose traces are waited for.
_MOST_RECENT = 1000
#: Types of processors that a search needs.
_SEARCH_TYPES = ("embedding", "search", "text-fetcher", "reranker")
_NOT_OPEN_HINT = "use it inside `async with Engine(...) as engine:`"


class Session:
    """What every operation of an engine works with; opened and closed by the engine."""

    client: FlowClient
    """Client of the flow, while the session is open."""
    resources: Resources
    """Store and models, while the session is open."""

    def __init__(
        self,
        settings: Settings,
        objects: dict[str, Any],
        *,
        flow: str | Path,
        only: tuple[str, ...],
        warm_up: bool | Literal["questions"],
        traced: bool = False,
        monitor: FlowMonitor | None = None,
    ) -> None:
        self.settings = settings
        self.objects = objects
        self.flow = flow
        self.only = only
        #: What runs around every operation, the innermost first.
        self.middlewares: list[Middleware] = []
        self.audit_log = None if settings.audit is None else AuditLog(settings.audit)
        if self.audit_log is not None:
            self.middlewares.append(self.audit_log)
        if monitor is not None and monitor.provider is not None:
            from whence.flow.telemetry.genai import Spans
            from whence.operations.spans import OperationSpans

            self.middlewares.append(OperationSpans(Spans(monitor.provider)))
        if monitor is not None and monitor.metrics is not None:
            from whence.operations.operation_metrics import OperationMetrics

            self.middlewares.append(OperationMetrics(monitor.metrics.registry))
        #: Rights of the latest answers given by this engine; their traces may not be stored yet.
        self.recent_answers: dict[str, Access] = {}
        #: The last ranking without limits that `why_not` made.
        self.rankings: dict[Hashable, WholeRanking] = {}
        #: Blocking retrievers, closed with the session.
        self.retrievers: weakref.WeakSet[Retriever] = weakref.WeakSet()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._readers: ReaderPool | None = None
        self._warm_up = warm_up
        self._traced = traced
        self._monitor = monitor
        self._stack = AsyncExitStack()

    @property
    def is_open(self) -> bool:
        """Whether operations are possible."""
        return "client" in vars(self)

    def __getattr__(self, name: str) -> NoReturn:
        """Raise `BadInput` for what exists only while the session is open."""
        if name in {"client", "resources"}:
            raise BadInput("this engine is not open", hint=_NOT_OPEN_HINT)
        raise AttributeError(name)

    @property
    def runs_flow(self) -> bool:
        """Whether the flow runs in this process; otherwise this is a client of a fleet."""
        return in_process(self.settings.broker)

    @property
    def readers(self) -> ReaderPool:
        """Readers of documents within the limits of the settings; their processes end with the session."""
        if self._readers is None:
            from whence.ingest.reader import ReaderPool

            self._readers = ReaderPool(self.settings.document_limits)
        return self._readers

    async def store(self) -> Store:
        """Return the store, opened on first use."""
        store: Store = await self.resources.get("store")
        return store

    async def ask(
        self,
        asked: Ask,
        chunk_callback: ChunkCallback | None = None,
        explain_callback: ExplainCallback | None = None,
    ) -> Answer:
        """Return the answer to a question about documents; see `Ask.run`."""
        asked.check()
        if asked.follow:
            from whence.operations.conversation import with_conversation

            asked = await with_conversation(self, asked)
        request = DocumentRagRequest.of(asked, streaming=chunk_callback is not None)
        send = partial(
            self.send,
            timeout_s=asked.timeout_s,
            chunk_callback=chunk_callback,
            explain_callback=explain_callback,
        )
        from whence.operations.freshness import with_freshness

        if asked.as_of is None:
            from whence.operations.unread_files import with_unread_files

            answer = await self._cached_or(send, request, chunk_callback, explain_callback)
            answer = await with_unread_files(self, request.collection, answer, asked.access)
            return await with_freshness(self, request.collection, answer, asked.access)
        from whence.operations.as_of import client_at, find_moment

        at = await find_moment(self, asked.collection, asked.as_of, asked.access)
        async with client_at(self, asked.collection, asked.access, at) as client:
            answer = await send(request, client=client)
        return await with_freshness(self, asked.collection, answer, asked.access, past=True)

    async def _cached_or(
        self,
        send: Callable[[DocumentRagRequest], Awaitable[Answer]],
        request: DocumentRagRequest,
        chunk_callback: ChunkCallback | None,
        explain_callback: ExplainCallback | None,
    ) -> Answer:
        """Return the recorded answer of an equal question where the settings allow it; else ask."""
        if self.settings.answer_cache != "on":
            return await send(request)
        from whence.operations.answer_cache import look_up, show_again

        request, found = await look_up(self, request)
        if found is None:
            return await send(request)
        return await show_again(found, chunk_callback, explain_callback)

    async def send(
        self,
        request: DocumentRagRequest | CodeRagRequest,
        timeout_s: float,
        chunk_callback: ChunkCallback | None = None,
        explain_callback: ExplainCallback | None = None,
        *,
        client: FlowClient | None = None,
    ) -> Answer:
        """Send a question to the flow, or to that of another client, and return its answer.

        Raises:
            BadInput: The question cannot be sent as text, or the time is out of range.
            WhenceError: The time ran out, or a stage failed that the answer depends on.
        """
        check_text("the question", request.question)
        check_timeout(timeout_s)
        replies = (client or self.client).ask(request, timeout_s=timeout_s)
        answer = await collect_answer(replies, chunk_callback, explain_callback)
        self.recent_answers[answer.answer_id] = request.access
        if len(self.recent_answers) > _MOST_RECENT:
            del self.recent_answers[next(iter(self.recent_answers))]
        return answer

    async def run(self, operation: Operation[R]) -> R:
        """Run an operation within the middlewares: audit log, spans, metrics and pipeline trace."""
        if not operation.many_collections and "," in (getattr(operation, "collection", None) or ""):
            raise BadInput(
                f"{operation.NAME} takes one collection, not {operation.collection!r}",  # type: ignore[attr-defined]
                hint="name one of them; `search` and `ask` take several",
            )
        call: Call[R] = operation.run
        for middleware in self.middlewares:
            call = middleware.around(operation, call)
        return await call(self)

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
            self.client, self.resources = await self._connect(stack)
            self._stack = stack.pop_all()
        self.loop = asyncio.get_running_loop()

    async def close(self, *error: Any) -> None:
        """Stop the flow and disconnect; requests in progress fail."""
        for name in ("client", "resources"):
            vars(self).pop(name, None)
        if self._readers is not None:
            self._readers.close()
        for retriever in list(self.retrievers):
            # It waits for its thread, which may wait for this event loop.
            await asyncio.to_thread(retriever.close)
        await self._stack.__aexit__(*error)

    async def _connect(self, stack: AsyncExitStack) -> tuple[FlowClient, Resources]:
        from whence.flow.resources import Resources

        resources = Resources(self.settings, self.objects)
        stack.push_async_callback(resources.aclose)
        if self._warm_up and self.runs_flow:
            loading = asyncio.create_task(
                _load_models(resources, reranker=self._warm_up == "questions")
            )
            stack.push_async_callback(asyncio.wait, {loading})
            await asyncio.sleep(0)  # Loading continues in a thread.
        connecting: asyncio.Task[Any] | None = None
        if self.runs_flow and not self.only:
            # The embedded server starts in its own processes while this one imports the flow's modules.
            connecting = asyncio.create_task(resources.get("store"))
            stack.push_async_callback(_cancel, connecting)
            await asyncio.sleep(0)
        from whence.broker.connect import connect
        from whence.flow.client import FlowClient
        from whence.flow.loader import load_flow
        from whence.flow.runtime import run_flow

        definition = load_flow(self.flow)
        transport = await connect(self.settings.broker)
        stack.push_async_callback(transport.aclose)
        if connecting is not None:
            await connecting
        make_client = FlowClient
        if self._traced:
            from whence.operations.traced_client import TracedClient

            make_client = TracedClient
        if not self.runs_flow:
            client = make_client(
                definition, transport, absent_after_s=_ABSENT_AFTER_S, new_id=new_answer_id
            )
            return client, resources
        observer = None if self._monitor is None else self._monitor.observer
        running = run_flow(definition, transport, resources, only=self.only, observer=observer)
        runtime = await stack.enter_async_context(running)
        if self._monitor is not None:
            await stack.enter_async_context(self._monitor.watch(runtime))
        return make_client(definition, transport), resources


async def _load_models(resources: Resources, *, reranker: bool) -> None:
    # Here, because two threads that import it at once may see a half of it.
    import numpy  # noqa: F401, ICN001

    with suppress(WhenceError):
        embedder = await resources.get("embedder")
        # A request to a server may cost money.
        if not hasattr(embedder, "served_by"):
            await embedder.embed(["warm up"])
    if reranker:
        with suppress(WhenceError):
            model = await resources.get("reranker")
            if not hasattr(model, "served_by"):
                await model.score("warm up", ["warm up"])


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
