"""A typed client of a flow's interfaces, for a flow in this process or elsewhere.

Every call starts a trace (W3C), or belongs to the one around it, and sets a deadline. Further calls inherit
both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from typing import Any, TypeVar, cast

import msgspec

from whence.broker.clock import clock_of
from whence.broker.control import ping_workers
from whence.broker.transport import Transport
from whence.flow.context import CURRENT_TRACE, DEFAULT_TIMEOUT_S, FlowContext, TraceContext
from whence.flow.definition import FlowDefinition, register_types
from whence.operations.ask import DocumentRagRequest
from whence.schema.code_rag import CODE_RAG, CodeRagRequest
from whence.schema.document_rag import Answer, AnswerPiece, ExplainEvent
from whence.schema.errors import ConfigError, InternalError, Unavailable
from whence.schema.ingest import IngestRequest, IngestResponse
from whence.schema.message import Message
from whence.schema.topics import short_topic

M = TypeVar("M", bound=Message)
T = TypeVar("T")

#: Interfaces of `ask` and `ingest`.
DOCUMENT_RAG = "document-rag"
INGEST = "ingest"

#: Unanswered pings of two seconds each after which no worker is alive: a restart takes less.
_PINGS = 3

AnswerPart = AnswerPiece | ExplainEvent | Answer


class FlowClient:
    """Calls a flow through its interfaces.

    Args:
        definition: The flow; its processors may run anywhere on the same broker.
        transport: The broker; not closed by the client.
        absent_after_s: Seconds without a reply after which workers are pinged; without an answer the request is
            cancelled. None waits for the deadline.
        new_id: Makes ids of answers, so that a redelivered question is answered under the same id; None leaves
            them to the flow.

    Raises:
        ConfigError: Other message types are registered for the flow's topics.
    """

    def __init__(
        self,
        definition: FlowDefinition,
        transport: Transport,
        *,
        absent_after_s: float | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._new_id = new_id
        register_types(definition, transport)
        self._absent_after_s = absent_after_s
        self._definition = definition
        self._transport = transport
        self._clock = clock_of(transport).time
        #: Topics of requests by interface; those of events are empty.
        self._topics = {one.name: one.request for one in definition.interfaces}

    async def ask(
        self, request: DocumentRagRequest | CodeRagRequest, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> AsyncGenerator[AnswerPart, None]:
        """Ask about documents or about code; yield pieces and explain events as they arrive, the answer last.

        Closing the iterator early cancels the question.

        Raises:
            WhenceError: The flow answered with an error, or not within `timeout_s` seconds.
        """
        if not request.answer_id and self._new_id is not None:
            request = msgspec.structs.replace(request, answer_id=self._new_id())
        expected = (AnswerPiece, ExplainEvent, Answer)
        interface = CODE_RAG if isinstance(request, CodeRagRequest) else DOCUMENT_RAG
        last: Message | None = None
        async with aclosing(
            self.stream(interface, request, expected, timeout_s=timeout_s)
        ) as replies:
            async for last in replies:
                yield cast("AnswerPart", last)
        if not isinstance(last, Answer):
            raise InternalError("the flow ended without an answer")

    async def ingest(
        self, request: IngestRequest, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> IngestResponse:
        """Store documents and return the outcome of each; errors as for `ask`."""
        return await self.call(INGEST, request, IngestResponse, timeout_s=timeout_s)

    async def call(
        self,
        interface: str,
        message: Message,
        reply: type[M],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> M:
        """Send a request to an interface and wait for its one reply.

        Raises:
            ConfigError: The flow has no such interface, or it is an interface of events.
            WhenceError: As for `ask`.
        """
        context = self._context(interface, timeout_s)
        return await self._watched(interface, context.call(interface, message, reply))

    def stream(
        self,
        interface: str,
        message: Message,
        replies: tuple[type[Message], ...],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> AsyncGenerator[Message, None]:
        """Send a request to an interface and yield its replies in order; errors as for `call`."""
        stream = self._context(interface, timeout_s).stream(interface, message, replies)
        return stream if self._absent_after_s is None else self._watched_stream(interface, stream)

    async def _watched_stream(
        self, interface: str, stream: AsyncGenerator[Message, None]
    ) -> AsyncGenerator[Message, None]:
        """Stream, and fail early when the flow does not run."""
        async with aclosing(stream) as arriving:
            first = await self._watched(interface, anext(arriving, None))
            if first is None:
                return
            yield first
            async for reply in arriving:
                yield reply

    def names_of_types(self, types: Collection[str], *, among: Collection[str] = ()) -> list[str]:
        """Return the names of the processors of some types, of `among` when that is not empty."""
        return [
            one.name
            for one in self._definition.processors
            if one.type in types and (not among or one.name in among)
        ]

    async def _watched(self, interface: str, work: Awaitable[T]) -> T:
        """Wait for a first reply, and fail early when the flow does not run.

        Raises:
            Unavailable: No worker of the interface answered a ping.
        """
        if self._absent_after_s is None:
            return await work
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task}, timeout=self._absent_after_s)
            if not task.done():
                await self._check_present(self._topics[interface], task)
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _check_present(self, topic: str, task: asyncio.Future[Any]) -> None:
        for _ in range(_PINGS):
            if await ping_workers(self._transport, [topic], enough=1) or task.done():
                return
        raise Unavailable(
            f"no worker serves {short_topic(topic)} on {self._transport.url}",
            hint=f"start the flow: whence run {self._definition.name} --broker {self._transport.url}",
        )

    def _context(self, interface: str, timeout_s: float) -> FlowContext:
        """Return the context of one request, whose ports are the interfaces."""
        if not self._topics.get(interface):
            self._definition.interface(interface)
            raise ConfigError(f"the interface {interface!r} is one of events and takes no requests")
        return FlowContext(
            transport=self._transport,
            trace=CURRENT_TRACE.get() or TraceContext.new(),
            topics=self._topics,
            deadline=self._clock() + timeout_s,
            clock=self._clock,
            keeps_margin=False,
        )
