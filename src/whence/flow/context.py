"""The context of a handler: typed calls, streams and events over a transport.

A call carries the trace context and the caller's deadline, a little earlier at every hop so that each hop
can still answer. An error reply is raised as the error it describes; a reply of another type is a
`CodecError`.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from whence.broker.transport import Headers, Reply, Transport
from whence.processors.base import Service, closing
from whence.schema.codec import decode_as, encode
from whence.schema.errors import (
    CodecError,
    DeadlineExceeded,
    ErrorReply,
    InternalError,
    error_from_reply,
)
from whence.schema.message import Message
from whence.schema.topics import short_topic

M = TypeVar("M", bound=Message)

#: Seconds to wait for a reply when the caller set no deadline.
DEFAULT_TIMEOUT_S = 120.0
#: Share of the remaining time that a handler keeps for its own answer, and the most it keeps in seconds: twice
#: the worker's margin, so that a handler still sees the failure of its call.
_MARGIN_SHARE = 0.2
_MARGIN_S = 0.1
_TYPE, _PARENT, _STATE = Headers.TYPE, Headers.TRACEPARENT, Headers.TRACESTATE
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?\Z"
)
#: A receiver may drop a longer state.
_MAX_STATE = 512


class TraceContext(msgspec.Struct, frozen=True):
    """Place of a message in its trace."""

    trace_id: str
    """32 hexadecimal digits, the same for the whole request."""
    span_id: str
    """16 hexadecimal digits, new for every hop."""
    flags: str = "01"
    """`01` when the trace is sampled."""
    state: str = ""
    """W3C trace state of other systems, passed on unchanged."""

    @classmethod
    def new(cls) -> TraceContext:
        """Start a trace."""
        # Ids must be unique, not secret; random bytes of the system cost more than the rest of the headers.
        return cls(f"{random.getrandbits(128):032x}", f"{random.getrandbits(64):016x}")

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> TraceContext:
        """Return the context in a message's headers; a new one when they have none, or a malformed one."""
        match = _TRACEPARENT.match(headers.get(_PARENT, ""))
        if match is None:
            return cls.new()
        state = headers.get(_STATE, "")
        return cls(match[1], match[2], match[3], state if len(state) <= _MAX_STATE else "")

    def headers_of(self, message_type: str, *, child: bool = False) -> dict[str, str]:
        """Return the headers of a message: its type and this context, with a new span for the next hop."""
        span_id = f"{random.getrandbits(64):016x}" if child else self.span_id
        place = f"00-{self.trace_id}-{span_id}-{self.flags}"
        headers = {_TYPE: message_type, _PARENT: place}
        if self.state:
            headers[_STATE] = self.state
        return headers


#: The context that requests of clients belong to, set by `within_trace`; None without one.
CURRENT_TRACE: ContextVar[TraceContext | None] = ContextVar("trace", default=None)


@contextmanager
def within_trace(trace: TraceContext | None) -> Iterator[None]:
    """Make requests of clients within the block part of a trace."""
    token = CURRENT_TRACE.set(trace)
    try:
        yield
    finally:
        CURRENT_TRACE.reset(token)


#: Observes one message within a `with` block. Arguments: name of the processor, type of the message, trace
#: context of the message, and a list that holds the message and its last reply as they become known. The
#: block's value is the trace context for all work on the message; exceptions pass through.
Observer: TypeAlias = Callable[
    [str, str, TraceContext, list[Message]], AbstractContextManager[TraceContext]
]


class FlowContext(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The `Context` of one message; a client outside of the flow has one for each request."""

    transport: Transport
    trace: TraceContext
    topics: Mapping[str, str]
    """Full topic by port; optional ports may be missing."""
    clock: Callable[[], float]
    """Returns seconds since the epoch."""
    services: Mapping[str, Service] = {}
    """Services that the processor may call, by port."""
    message_id: str = ""
    attempt: int = 1
    deadline: float | None = None
    """Seconds since the epoch; None without a deadline."""
    keeps_margin: bool = True
    """Whether calls leave part of the remaining time for an answer of the handler's own."""

    def remaining_s(self) -> float | None:
        """Return the seconds until the deadline, never negative; None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - self.clock())

    def is_bound(self, port: str) -> bool:
        """Return whether a port has a topic."""
        return port in self.topics

    async def call(self, port: str, message: Message, reply: type[M]) -> M:
        """Send a request through a port of `calls` and wait for its one reply.

        Raises:
            WhenceError: The reply is an error, late, or of another type.
        """
        topic, headers = self._address(port, message)
        timeout_s = self._timeout_s(topic)
        payload = encode(message)
        try:
            got = await self.transport.request(topic, payload, headers=headers, timeout_s=timeout_s)
        except DeadlineExceeded as error:
            raise _late(topic, timeout_s) from error
        return read_reply(got, (reply,), topic)

    async def stream(
        self, port: str, message: Message, replies: tuple[type[Message], ...] = ()
    ) -> AsyncGenerator[Message, None]:
        """Send a request through a port of `calls` and yield its replies in order.

        Closing the stream early cancels the request.

        Args:
            port: Name of the port.
            message: The request.
            replies: Types of the replies; those of the port's service when empty.

        Raises:
            WhenceError: As for `call`.
        """
        topic, headers = self._address(port, message)
        timeout_s = self._timeout_s(topic)
        payload = encode(message)
        source = self.transport.stream(topic, payload, headers=headers, timeout_s=timeout_s)
        async with closing(source) as arriving:
            while True:
                try:
                    got = await anext(arriving)
                except StopAsyncIteration:
                    return
                except DeadlineExceeded as error:
                    raise _late(topic, timeout_s) from error
                yield read_reply(got, replies or self.services[port].replies, topic)

    async def emit(self, port: str, message: Message, *, key: str | None = None) -> None:
        """Publish through a port of `emits`; return when the broker has stored the message.

        An event has no deadline, since it must not expire.
        """
        topic, headers = self._address(port, message)
        await self.transport.publish(topic, encode(message), headers=headers, key=key)

    def _address(self, port: str, message: Message) -> tuple[str, dict[str, str]]:
        """Return the topic of a port and the headers of a message to it."""
        topic = self.topics.get(port)
        if topic is None:
            raise InternalError(f"the port {port!r} has no topic in this flow")
        return topic, self.trace.headers_of(message.TYPE, child=True)

    def _timeout_s(self, topic: str) -> float:
        """Return how long to wait for replies; the transport adds the deadline to the request."""
        if self.deadline is None:
            return DEFAULT_TIMEOUT_S
        timeout_s = self.deadline - self.clock()
        if self.keeps_margin:
            timeout_s -= min(_MARGIN_S, timeout_s * _MARGIN_SHARE)
        if timeout_s <= 0:
            raise DeadlineExceeded(f"no time is left to call {short_topic(topic)}")
        return timeout_s


def _late(topic: str, timeout_s: float) -> DeadlineExceeded:
    return DeadlineExceeded(f"{short_topic(topic)} gave no reply within {timeout_s:.3g} s")


def read_reply(reply: Reply, expected: tuple[type[M], ...], topic: str) -> M:
    """Decode one reply of a service; a missing `type` header means the only expected type.

    Raises:
        CodecError: The reply is of another type, or malformed.
        WhenceError: The reply is an error.
    """
    name = reply.headers.get(Headers.TYPE) or (expected[0].TYPE if len(expected) == 1 else "")
    known: Any = ErrorReply
    for known in (*expected, ErrorReply):
        if name == known.TYPE:
            break
    else:
        names = " or ".join(cls.TYPE for cls in expected)
        raise CodecError(
            f"{short_topic(topic)} answered with {name or 'no type'!r} instead of {names}"
        )
    try:
        message: Any = decode_as(reply.payload, known)
    except CodecError as error:
        text = f"the reply of {short_topic(topic)} cannot be read: {error.message}"
        raise CodecError(text) from error
    if isinstance(message, ErrorReply):
        raise error_from_reply(message)
    return cast("M", message)
