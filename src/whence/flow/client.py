"""A typed client of a flow's interfaces: the same whether the flow runs in this process or elsewhere.

It knows the flow's definition and a transport, nothing else. Every call begins a trace (W3C) and sets a
deadline, which all work behind it inherits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from typing import Any, TypeVar, cast

import msgspec

from whence.broker.clock import clock_of
from whence.broker.liveness import roll_call
from whence.broker.transport import Transport
from whence.flow.context import DEFAULT_TIMEOUT_S, Caller
from whence.flow.definition import FlowDefinition
from whence.flow.topic_types import register_types
from whence.flow.tracing import TraceContext
from whence.schema.code_rag import CODE_RAG, CodeRagRequest
from whence.schema.document_rag import Answer, AnswerPiece, DocumentRagRequest, ExplainEvent
from whence.schema.errors import ConfigError, InternalError, Unavailable
from whence.schema.ingest import IngestRequest, IngestResponse
from whence.schema.message import Message
from whence.schema.topics import short_topic

__all__ = ("DOCUMENT_RAG", "INGEST", "FlowClient")

M = TypeVar("M", bound=Message)
T = TypeVar("T")

#: Names of the interfaces that `ask` and `ingest` go through.
DOCUMENT_RAG = "document-rag"
INGEST = "ingest"

#: Calls of two seconds each that nobody answers before nobody counts as there: a processor that is being
#: restarted is back within these.
_CALLS = 3

AnswerPart = AnswerPiece | ExplainEvent | Answer


class FlowClient:
    """Speaks to a flow through its interfaces.

    Args:
        definition: The flow; its processors may run anywhere on the same broker.
        transport: The broker; not closed by the client.
        clock: Gives seconds since the epoch; the transport's clock, else this machine's, when None.
        new_trace: Begins a trace context.
        absent_after_s: Seconds without any reply after which the broker is asked whether anybody serves at
            all; when nobody does, again and again, the request is taken back. None waits for the deadline.
        new_id: Makes ids of answers, so that a question whose processor dies on the way is answered by another
            under the same id; None leaves them to the flow.

    Raises:
        ConfigError: The transport was told other message types for the flow's topics.
    """

    def __init__(
        self,
        definition: FlowDefinition,
        transport: Transport,
        *,
        clock: Callable[[], float] | None = None,
        new_trace: Callable[[], TraceContext] = TraceContext.new,
        absent_after_s: float | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._new_id = new_id
        register_types(definition, transport)
        self._absent_after_s = absent_after_s
        self._definition = definition
        self._transport = transport
        self._clock = clock or clock_of(transport).time
        self._new_trace = new_trace

    async def ask(
        self,
        request: DocumentRagRequest | CodeRagRequest,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> AsyncGenerator[AnswerPart, None]:
        """Ask about documents or about code; yields pieces and explain events as they come, the answer last.

        Leaving the iterator early takes the question back.

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
        """Store documents; gives what became of each.

        Raises:
            WhenceError: As for `ask`.
        """
        return await self.call(INGEST, request, IngestResponse, timeout_s=timeout_s)

    async def call(
        self,
        interface: str,
        message: Message,
        reply: type[M],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> M:
        """Send a request through an interface and wait for its one reply.

        Raises:
            ConfigError: The flow has no such interface, or it is one of events.
            WhenceError: As for `ask`.
        """
        topic = self._topic(interface)
        return await self._watched(topic, self._caller(timeout_s).call(topic, message, reply))

    def stream(
        self,
        interface: str,
        message: Message,
        replies: tuple[type[Message], ...],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> AsyncGenerator[Message, None]:
        """Send a request through an interface and yield its replies in order.

        Raises:
            ConfigError: As for `call`.
            WhenceError: As for `ask`.
        """
        topic = self._topic(interface)
        if self._absent_after_s is None:
            return self._caller(timeout_s).stream(topic, message, replies)
        return self._watched_stream(topic, message, replies, timeout_s)

    async def _watched_stream(
        self, topic: str, message: Message, replies: tuple[type[Message], ...], timeout_s: float
    ) -> AsyncGenerator[Message, None]:
        """Stream, but do not wait for a flow that nobody runs."""
        async with aclosing(self._caller(timeout_s).stream(topic, message, replies)) as arriving:
            first = await self._watched(topic, anext(arriving, None))
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

    async def _watched(self, topic: str, work: Awaitable[T]) -> T:
        """Wait for a first reply, but not for a flow that nobody runs.

        Raises:
            Unavailable: No worker of the topic answered any of the calls.
            WhenceError: As for the work.
        """
        if self._absent_after_s is None:
            return await work
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task}, timeout=self._absent_after_s)
            if not task.done():
                await self._check_present(topic, task)
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _check_present(self, topic: str, task: asyncio.Future[Any]) -> None:
        for _ in range(_CALLS):
            if await roll_call(self._transport, [topic], enough=1) or task.done():
                return
        raise Unavailable(
            f"nobody serves {short_topic(topic)} on {self._transport.url}",
            hint=f"start the flow: whence run {self._definition.name} --broker {self._transport.url}",
        )

    def _caller(self, timeout_s: float) -> Caller:
        return Caller(
            self._transport,
            self._new_trace(),
            self._clock() + timeout_s,
            self._clock,
            margin=False,
        )

    def _topic(self, name: str) -> str:
        interface = self._definition.interface(name)
        if not interface.request:
            raise ConfigError(
                f"the interface {name!r} is one of events; nothing can be asked through it"
            )
        return interface.request
