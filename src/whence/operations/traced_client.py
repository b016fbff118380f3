"""A client of a flow that keeps the requests that it sends and the replies that it receives."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from whence.flow.client import FlowClient
from whence.flow.context import DEFAULT_TIMEOUT_S
from whence.schema.errors import WhenceError
from whence.schema.message import Message

M = TypeVar("M", bound=Message)


@dataclass(slots=True)
class TracedCall:
    """One request to an interface of the flow."""

    interface: str
    request: Message
    replies: list[Message] = field(default_factory=list)
    duration_ms: float = 0.0
    error: str = ""
    """Code of the error that it ended with."""


#: Calls of the operation that is traced; None outside of one.
calls_of_operation: ContextVar[list[TracedCall] | None] = ContextVar("calls", default=None)


class TracedClient(FlowClient):
    """Adds each call to `calls_of_operation`."""

    async def call(
        self,
        interface: str,
        message: Message,
        reply: type[M],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> M:
        """See `FlowClient.call`."""
        with _kept(TracedCall(interface, message)) as kept:
            found = await super().call(interface, message, reply, timeout_s=timeout_s)
            kept.replies.append(found)
        return found

    async def stream(
        self,
        interface: str,
        message: Message,
        replies: tuple[type[Message], ...],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> AsyncGenerator[Message, None]:
        """See `FlowClient.stream`."""
        stream = super().stream(interface, message, replies, timeout_s=timeout_s)
        with _kept(TracedCall(interface, message)) as kept:
            async with aclosing(stream) as arriving:
                async for one in arriving:
                    kept.replies.append(one)
                    yield one


@contextmanager
def _kept(call: TracedCall) -> Iterator[TracedCall]:
    calls = calls_of_operation.get()
    if calls is not None:
        calls.append(call)
    started = time.perf_counter()
    try:
        yield call
    except BaseException as error:
        call.error = error.code if isinstance(error, WhenceError) else type(error).__name__
        raise
    finally:
        call.duration_ms = round((time.perf_counter() - started) * 1e3, 3)
