"""One processor on the bus: bytes to messages, a handler's replies to bytes, and a life to supervise.

Acknowledging, retrying, deadlines and dead letters are the broker worker's business; this only translates.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from whence.broker.clock import Clock, SystemClock
from whence.broker.delivery import Handler, IncomingMessage, OutgoingMessage
from whence.broker.idempotency import Ledger
from whence.broker.transport import Headers, Transport
from whence.broker.worker import Worker
from whence.flow.context import Caller, FlowContext
from whence.flow.definition import ProcessorDefinition, inbound_type
from whence.flow.telemetry.observer import NO_OBSERVER, Observer
from whence.flow.tracing import TraceContext
from whence.processors.base import Processor, StreamingProcessor
from whence.processors.streams import closing
from whence.schema.codec import decode_as, encode
from whence.schema.errors import CodecError, ConfigError, InternalError
from whence.schema.message import Message

__all__ = ("Binding", "Replica")


class Binding:
    """The handler that a worker calls for each message of a processor.

    Args:
        processor: Does the work.
        definition: Says what its ports lead to.
        transport: Carries what the processor sends.
        clock: Source of time.
        observer: Watches each message.
    """

    def __init__(
        self,
        processor: Processor,
        definition: ProcessorDefinition,
        transport: Transport,
        clock: Clock,
        observer: Observer = NO_OBSERVER,
    ) -> None:
        self._observer = observer
        self._processor = processor
        self._definition = definition
        self._transport = transport
        self._clock = clock
        self._type: type[Message] = inbound_type(type(processor))

    @property
    def handler(self) -> Handler:
        """What a worker is to call."""
        return self.stream if isinstance(self._processor, StreamingProcessor) else self.answer

    async def answer(self, work: IncomingMessage) -> OutgoingMessage | None:
        """Handle one message of a processor that gives at most one reply, and give that.

        Raises:
            CodecError: The message is not of the processor's type.
            InternalError: The processor broke its own contract.
            WhenceError: Whatever the processor raises.
        """
        trace = TraceContext.read(work.delivery.headers)
        with self._observer.handling(self._definition.name, self._type.TYPE, trace) as place:
            message = self._decode(work)
            reply = await self._processor.handle(message, self._context(work, place))
            if reply is None:
                return None
            last = self._check(reply)
            return OutgoingMessage(
                payload=encode(reply), headers=place.headers_of(type(reply).TYPE), end=last
            )

    async def stream(self, work: IncomingMessage) -> AsyncGenerator[OutgoingMessage, None]:
        """Handle one message and yield its replies, the last one marked.

        Raises:
            WhenceError: As for `answer`.
        """
        processor = self._processor
        assert isinstance(processor, StreamingProcessor)
        trace = TraceContext.read(work.delivery.headers)
        with self._observer.handling(self._definition.name, self._type.TYPE, trace) as place:
            message = self._decode(work)
            replies = processor.handle_stream(message, self._context(work, place))
            async with closing(replies) as arriving:
                async for reply in arriving:
                    last = self._check(reply)
                    headers = place.headers_of(type(reply).TYPE)
                    yield OutgoingMessage(payload=encode(reply), headers=headers, end=last)
                    if last:
                        return

    def _context(self, work: IncomingMessage, place: TraceContext) -> FlowContext:
        return FlowContext(
            Caller(self._transport, place, work.deadline, self._clock.time),
            self._processor.calls,
            self._definition.topics,
            work.message_id,
            work.attempt,
        )

    def _decode(self, work: IncomingMessage) -> Message:
        """Read the message; a foreign client may leave the type out, for a topic has only one."""
        name = work.delivery.headers.get(Headers.TYPE) or self._type.TYPE
        if name != self._type.TYPE:
            raise CodecError(
                f"{self._definition.name} takes {self._type.TYPE}, not {name}",
                hint="send it to the topic of the service it is meant for",
            )
        return decode_as(work.delivery.payload, self._type)

    def _check(self, reply: Message) -> bool:
        """Return whether a reply is the last one.

        Raises:
            InternalError: It is none that the processor's service has.
        """
        service = self._processor.serves
        if service is None or not isinstance(reply, service.replies):
            raise InternalError(
                f"processor {self._definition.name} gave a {type(reply).__name__}, none of its replies",
                hint="this is a fault of the processor",
            )
        return service.is_last is None or service.is_last(reply)


class Replica:
    """One life of one replica: builds the processor, joins its group, and takes both down again.

    Args:
        definition: What to run.
        build: Makes the processor, light and without I/O.
        transport: Where to.
        reply_topic: Full topic for replies to requests that name none; None drops them.
        ledger: Keeps a message that comes again from being handled again; None for a processor that bears it.
        clock: Source of time.
        observer: Watches each message.
    """

    def __init__(
        self,
        definition: ProcessorDefinition,
        build: Callable[[], Processor],
        transport: Transport,
        *,
        reply_topic: str | None = None,
        ledger: Ledger | None = None,
        clock: Clock | None = None,
        observer: Observer = NO_OBSERVER,
    ) -> None:
        self._definition = definition
        self._observer = observer
        self._build = build
        self._ledger = ledger
        self._transport = transport
        self._reply_topic = reply_topic
        self._clock: Clock = clock or SystemClock()
        self._processor: Processor | None = None
        #: None before `start`.
        self.worker: Worker | None = None

    async def start(self) -> None:
        """Build and start the processor, then join its group.

        Raises:
            ConfigError: The processor takes no messages.
            WhenceError: Starting failed; `stop` frees what was begun.
        """
        definition = self._definition
        if inbound_type(definition.cls) is None:
            raise ConfigError(f"processor type {definition.type!r} neither serves nor consumes")
        self._processor = self._build()
        await self._processor.start()
        binding = Binding(self._processor, definition, self._transport, self._clock, self._observer)
        self.worker = Worker(
            self._transport,
            topic=definition.inbound,
            group=definition.name,
            handler=binding.handler,
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
        """IncomingMessage until `stop` is called.

        Raises:
            WhenceError: The broker was lost, or nothing can be handled until somebody repairs something.
        """
        assert self.worker is not None, "start comes first"
        await self.worker.join()

    async def stop(self, drain_s: float) -> None:
        """Finish what is begun within `drain_s` seconds, hand back the rest, close the processor."""
        if self.worker is not None:
            await self.worker.aclose(drain_s)
        processor, self._processor = self._processor, None
        if processor is not None:
            await processor.aclose()
