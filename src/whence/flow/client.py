"""A typed client of a flow's interfaces: the same whether the flow runs in this process or elsewhere.

It knows the flow's definition and a transport, nothing else. Every call begins a trace (W3C) and sets a
deadline, which all work behind it inherits.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from typing import TypeVar, cast

from whence.broker.transport import Transport
from whence.flow.context import DEFAULT_TIMEOUT_S, Caller
from whence.flow.definition import FlowDefinition
from whence.flow.tracing import TraceContext
from whence.schema.document_rag import Answer, AnswerPiece, DocumentRagRequest, ExplainEvent
from whence.schema.errors import ConfigError, InternalError
from whence.schema.ingest import IngestRequest, IngestResponse
from whence.schema.message import Message

__all__ = ("DOCUMENT_RAG", "INGEST", "FlowClient")

M = TypeVar("M", bound=Message)

#: Names of the interfaces that `ask` and `ingest` go through.
DOCUMENT_RAG = "document-rag"
INGEST = "ingest"

AnswerPart = AnswerPiece | ExplainEvent | Answer


class FlowClient:
    """Speaks to a flow through its interfaces.

    Args:
        definition: The flow; its processors may run anywhere on the same broker.
        transport: The broker; not closed by the client.
        clock: Gives seconds since the epoch.
        new_trace: Begins a trace context.
    """

    def __init__(
        self,
        definition: FlowDefinition,
        transport: Transport,
        *,
        clock: Callable[[], float] = time.time,
        new_trace: Callable[[], TraceContext] = TraceContext.new,
    ) -> None:
        self._definition = definition
        self._transport = transport
        self._clock = clock
        self._new_trace = new_trace

    async def ask(
        self, request: DocumentRagRequest, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> AsyncGenerator[AnswerPart, None]:
        """Ask a question; yields pieces and explain events as they come, the answer last.

        Leaving the iterator early takes the question back.

        Raises:
            WhenceError: The flow answered with an error, or not within `timeout_s` seconds.
        """
        expected = (AnswerPiece, ExplainEvent, Answer)
        last: Message | None = None
        async with aclosing(
            self.stream(DOCUMENT_RAG, request, expected, timeout_s=timeout_s)
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
        return await self._caller(timeout_s).call(self._topic(interface), message, reply)

    async def stream(
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
        async with aclosing(self._caller(timeout_s).stream(topic, message, replies)) as arriving:
            async for reply in arriving:
                yield reply

    def names_of_types(self, types: Collection[str], *, among: Collection[str] = ()) -> list[str]:
        """Give the names of the processors of some types, of `among` when that is not empty."""
        return [
            one.name
            for one in self._definition.processors
            if one.type in types and (not among or one.name in among)
        ]

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
