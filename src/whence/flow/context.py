"""What a handler sees of the world, made of a transport: typed calls, streams and events.

A call carries the caller's deadline, a little earlier at every hop so that each can still answer; the trace
context goes along. Whatever comes back is checked: an error reply is raised as the error it stands for, and
bytes that are no such message are a `CodecError`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from whence.broker.transport import Headers, Reply, Transport
from whence.flow.tracing import TraceContext
from whence.processors.base import Service
from whence.processors.streams import closing
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

__all__ = ("DEFAULT_TIMEOUT_S", "Caller", "FlowContext", "read_reply")

M = TypeVar("M", bound=Message)
T = TypeVar("T")

#: Seconds to wait for a reply when the caller set no deadline.
DEFAULT_TIMEOUT_S = 120.0
#: What a hop keeps of the time left, to answer in: a fifth, at most 0.1 s. Twice what the worker keeps
#: for itself, so that a handler still sees its callee's failure.
_MARGIN_SHARE = 0.2
_MARGIN_S = 0.1


class Caller(msgspec.Struct, frozen=True, eq=False):
    """Sends requests on behalf of one piece of work."""

    transport: Transport
    """Where to."""
    trace: TraceContext
    """Trace context of the work."""
    deadline: float | None = None
    """End of the work's time, seconds since the epoch; None when nobody waits."""
    clock: Callable[[], float] = time.time
    """Gives seconds since the epoch."""
    margin: bool = True
    """Whether a little of the time left is kept for an answer of one's own; a client at the edge has nobody to
    answer."""

    def remaining_s(self) -> float | None:
        """Return the seconds left, never negative; None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - self.clock())

    async def call(self, topic: str, message: Message, reply: type[M]) -> M:
        """Send a request and wait for its one reply.

        Raises:
            WhenceError: The other side answered with an error, not in time, or something else.
        """
        timeout_s, headers = self._prepare(topic, message)
        payload = encode(message)
        try:
            got = await self.transport.request(topic, payload, headers=headers, timeout_s=timeout_s)
        except DeadlineExceeded as error:
            raise _too_late(topic, timeout_s) from error
        return read_reply(got, (reply,), topic)

    async def stream(
        self, topic: str, message: Message, replies: tuple[type[Message], ...]
    ) -> AsyncGenerator[Message, None]:
        """Send a request and yield its replies in order; leaving early takes the request back.

        Raises:
            WhenceError: As for `call`.
        """
        timeout_s, headers = self._prepare(topic, message)
        payload = encode(message)
        source = self.transport.stream(topic, payload, headers=headers, timeout_s=timeout_s)
        async with closing(source) as arriving:
            while True:
                try:
                    got = await anext(arriving)
                except StopAsyncIteration:
                    return
                except DeadlineExceeded as error:
                    raise _too_late(topic, timeout_s) from error
                yield read_reply(got, replies, topic)

    async def publish(self, topic: str, message: Message, *, key: str | None = None) -> None:
        """Publish a message that nobody answers; it carries no deadline, for it must not expire."""
        headers = self.trace.child_headers(message.TYPE)
        await self.transport.publish(topic, encode(message), headers=headers, key=key)

    def _prepare(self, topic: str, message: Message) -> tuple[float, dict[str, str]]:
        remaining = self.remaining_s()
        if remaining is None:
            timeout_s = DEFAULT_TIMEOUT_S
        else:
            margin = min(_MARGIN_S, remaining * _MARGIN_SHARE) if self.margin else 0.0
            timeout_s = remaining - margin
        if timeout_s <= 0:
            raise DeadlineExceeded(f"no time is left to ask {short_topic(topic)}")
        # The transport adds the deadline.
        return timeout_s, self.trace.child_headers(message.TYPE)


class FlowContext(msgspec.Struct, frozen=True, eq=False):
    """The `Context` of one message."""

    caller: Caller
    """Sends for this message."""
    services: Mapping[str, Service]
    """Services the processor may call, by port."""
    topics: Mapping[str, str]
    """Full topic by port; optional ports may be missing."""
    message_id: str
    """Id of the message; the same when it is delivered again."""
    attempt: int
    """1 on first delivery."""

    def remaining_s(self) -> float | None:
        """Seconds until the caller gives up, never negative; None when the caller set no deadline."""
        return self.caller.remaining_s()

    def is_bound(self, port: str) -> bool:
        """Return whether a port leads anywhere."""
        return port in self.topics

    def call(self, port: str, message: Message, reply: type[M]) -> Coroutine[Any, Any, M]:
        """Send a request through a port of `calls` and wait for its reply.

        Raises:
            WhenceError: The other side answered with an error, not in time, or something else.
        """
        return self.caller.call(self._topic(port), message, reply)

    def stream(self, port: str, message: Message) -> AsyncGenerator[Message, None]:
        """Send a request through a port of `calls` and yield its replies in order."""
        return self.caller.stream(self._topic(port), message, self.services[port].replies)

    def emit(
        self, port: str, message: Message, *, key: str | None = None
    ) -> Coroutine[Any, Any, None]:
        """Publish through a port of `emits`; returns when it is safely stored."""
        return self.caller.publish(self._topic(port), message, key=key)

    def _topic(self, port: str) -> str:
        topic = self.topics.get(port)
        if topic is None:
            raise InternalError(f"the port {port!r} leads nowhere in this flow")
        return topic


def _too_late(topic: str, timeout_s: float) -> DeadlineExceeded:
    """Return the error of a request without a reply in time, in words for people."""
    return DeadlineExceeded(f"{short_topic(topic)} gave no reply within {timeout_s:.3g} s")


def read_reply(reply: Reply, expected: tuple[type[M], ...], topic: str) -> M:
    """Read one reply of a service.

    Args:
        reply: As it came. A missing `type` header is taken for the only type expected.
        expected: Types it may have.
        topic: Where the request went, for errors.

    Raises:
        CodecError: It is none of those types, or no such message.
        WhenceError: It is an error.
    """
    name = reply.headers.get(Headers.TYPE, "")
    for known in expected:
        if name == known.TYPE:
            return _decoded(reply, known, topic)
    if name == ErrorReply.TYPE:
        raise error_from_reply(_decoded(reply, ErrorReply, topic))
    if not name and len(expected) == 1:
        return _decoded(reply, expected[0], topic)
    where = short_topic(topic)
    names = " or ".join(cls.TYPE for cls in expected)
    raise CodecError(f"{where} answered with {name or 'no type'!r} instead of {names}")


def _decoded(reply: Reply, cls: type[M], topic: str) -> M:
    try:
        return decode_as(reply.payload, cls)
    except CodecError as error:
        where = short_topic(topic)
        raise CodecError(f"the reply of {where} cannot be read: {error.message}") from error
