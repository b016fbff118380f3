"""Runs one processor on the bus: decodes messages, calls the handler and encodes its replies.

Acknowledging, retrying, deadlines and dead letters are done by the broker's worker.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from whence.broker.clock import Clock
from whence.broker.delivery import IncomingMessage, OutgoingMessage, Replies
from whence.broker.idempotency import Ledger
from whence.broker.transport import Headers, Transport
from whence.broker.worker import Worker
from whence.flow.context import FlowContext, Observer, TraceContext
from whence.flow.definition import ProcessorDefinition, inbound_type
from whence.processors.base import Processor, StreamingProcessor, closing
from whence.schema.codec import decode_as, encode
from whence.schema.errors import CodecError, ConfigError, InternalError
from whence.schema.message import Message


class Replica:
    """One replica of a processor, from its start to its end; a restart makes a new one.

    Args:
        definition: The processor's definition.
        build: Creates the processor without I/O.
        transport: The broker.
        clock: Source of time.
        reply_topic: Full topic for replies to requests that name no topic; None drops them.
        ledger: Prevents that a redelivered message is handled twice; None for an idempotent processor.
        observer: Observes each message.
    """

    def __init__(
        self,
        definition: ProcessorDefinition,
        build: Callable[[], Processor],
        transport: Transport,
        *,
        clock: Clock,
        reply_topic: str | None = None,
        ledger: Ledger | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._definition = definition
        self._observer = observer
        self._build = build
        self._ledger = ledger
        self._transport = transport
        self._reply_topic = reply_topic
        self._clock = clock
        self._type: type[Message] = inbound_type(definition.cls)
        self._processor: Processor | None = None
        #: None before `start`.
        self.worker: Worker | None = None

    async def start(self) -> None:
        """Build and start the processor, then subscribe.

        Raises:
            ConfigError: The processor receives no messages.
            WhenceError: The start failed; `stop` releases what was opened.
        """
        definition = self._definition
        if self._type is None:
            raise ConfigError(f"processor type {definition.type!r} neither serves nor consumes")
        self._processor = self._build()
        await self._processor.start()
        self.worker = Worker(
            self._transport,
            topic=definition.inbound,
            group=definition.name,
            handler=self.handle,
            concurrency=definition.concurrency,
            prefetch=definition.prefetch,
            retry=definition.retry,
            ledger=self._ledger,
            reply_topic=self._reply_topic,
            name=definition.name,
            clock=self._clock,
        )
        await self.worker.start()

    async def run(self) -> None:
        """Handle messages until `stop` is called.

        Raises:
            WhenceError: The broker was lost, or no message can be handled until a fault is repaired.
        """
        assert self.worker is not None, "start comes first"
        await self.worker.join()

    async def stop(self, drain_s: float) -> None:
        """Wait at most `drain_s` seconds for messages in progress, return the others, close the processor.

        Also after a failed start, and idempotent.
        """
        if self.worker is not None:
            await self.worker.aclose(drain_s)
        processor, self._processor = self._processor, None
        if processor is not None:
            await processor.aclose()

    async def handle(self, incoming: IncomingMessage) -> Replies:
        """Handle one message and yield its replies, the last one marked.

        Raises:
            CodecError: The message is not of the processor's type.
            InternalError: A reply is not one of the processor's service.
            WhenceError: The error of the processor.
        """
        delivery, processor = incoming.delivery, self._processor
        assert processor is not None, "start comes first"
        trace = TraceContext.read(delivery.headers)
        observed: AbstractContextManager[TraceContext] = nullcontext(trace)
        exchange: list[Message] = []
        if self._observer is not None:
            observed = self._observer(self._definition.name, self._type.TYPE, trace, exchange)
        with observed as trace:
            # A topic has one type, so the header is optional.
            name = delivery.headers.get(Headers.TYPE) or self._type.TYPE
            if name != self._type.TYPE:
                raise CodecError(
                    f"{self._definition.name} takes {self._type.TYPE}, not {name}",
                    hint="send it to the topic of the service that takes this type",
                )
            message = decode_as(delivery.payload, self._type)
            exchange[:] = (message,)
            context = FlowContext(
                transport=self._transport,
                trace=trace,
                topics=self._definition.topics,
                services=processor.calls,
                message_id=delivery.message_id,
                attempt=incoming.attempt,
                deadline=incoming.deadline,
                clock=self._clock.time,
            )
            if isinstance(processor, StreamingProcessor):
                async with closing(processor.handle_stream(message, context)) as replies:
                    async for reply in replies:
                        exchange[1:] = (reply,)
                        outgoing = self._outgoing(reply, trace)
                        yield outgoing
                        if outgoing.end:
                            return
                return
            only = await processor.handle(message, context)
            last = None
            if only is not None:
                exchange[1:] = (only,)
                last = self._outgoing(only, trace)
        if last is not None:
            yield last

    def _outgoing(self, reply: Message, trace: TraceContext) -> OutgoingMessage:
        """Encode a reply; raise `InternalError` when it is not one of the processor's service."""
        service = self._definition.cls.serves
        if service is None or not isinstance(reply, service.replies):
            raise InternalError(
                f"processor {self._definition.name} returned {type(reply).__name__}, which is not one of"
                " its replies",
                hint="this is a fault of the processor",
            )
        return OutgoingMessage(
            payload=encode(reply),
            headers=trace.headers_of(type(reply).TYPE),
            end=service.is_last is None or service.is_last(reply),
        )
