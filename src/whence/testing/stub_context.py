"""A context without a broker, for testing a processor on its own.

context = StubContext({"embedding": lambda request: EmbeddingResponse(...)})
reply = await processor.handle(message, context)
assert context.emitted["trace"] == [...]
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, TypeVar

from whence.processors.base import Processor, StreamingProcessor, closing
from whence.schema.errors import InternalError
from whence.schema.message import Message

M = TypeVar("M", bound=Message)

Answerer = Callable[[Any], Any]
"""Takes a request; returns a reply or several, may be a coroutine or an async iterator, may raise."""


class StubContext:
    """Answers calls by plain functions and records what was sent and published.

    Args:
        answers: A function per port: takes the request, gives the reply, or an iterable of replies for a
            stream; it may be async and may raise. A port without one is not bound.
        emit_errors: Raised when something is published through the port of that name.
        message_id: See `Context`, also for `attempt` and `remaining_s`.
        attempt: 1 on first delivery.
        remaining_s: None for no deadline.
    """

    def __init__(
        self,
        answers: Mapping[str, Answerer] | None = None,
        *,
        emit_errors: Mapping[str, Exception] | None = None,
        message_id: str = "message-1",
        attempt: int = 1,
        remaining_s: float | None = None,
    ) -> None:
        self._answers = dict(answers or {})
        self._emit_errors = dict(emit_errors or {})
        self.message_id = message_id
        self.attempt = attempt
        self._remaining_s = remaining_s
        self.sent: list[tuple[str, Message]] = []
        """Port and request of every call, in order."""
        self.emitted: dict[str, list[Message]] = defaultdict(list)
        """What was published, by port, in order."""
        self.keys: dict[str, list[str | None]] = defaultdict(list)
        """Keys it was published with, by port, in order."""

    def remaining_s(self) -> float | None:
        """Seconds until the caller gives up."""
        return self._remaining_s

    def is_bound(self, port: str) -> bool:
        """Return whether the port has an answer."""
        return port in self._answers

    async def call(self, port: str, message: Message, reply: type[M]) -> M:
        """Return the port's reply, the first of several.

        Raises:
            InternalError: The port is not bound or its reply has another type.
        """
        given = await _settled(self._ask(port, message))
        if hasattr(given, "__aiter__"):
            async with closing(given) as replies:
                given = await anext(aiter(replies), None)
        elif isinstance(given, list | tuple):
            given = next(iter(given), None)
        if not isinstance(given, reply):
            raise InternalError(f"port {port} gave a {type(given).__name__}")
        return given

    async def stream(self, port: str, message: Message) -> AsyncGenerator[Message, None]:
        """Yield the port's replies; a single one is a stream of one."""
        given = await _settled(self._ask(port, message))
        if hasattr(given, "__aiter__"):
            async with closing(given) as replies:
                async for reply in replies:
                    yield reply
            return
        for reply in (given,) if isinstance(given, Message) else given:
            yield reply

    async def emit(self, port: str, message: Message, *, key: str | None = None) -> None:
        """Record what was published."""
        if port in self._emit_errors:
            raise self._emit_errors[port]
        self.emitted[port].append(message)
        self.keys[port].append(key)

    def _ask(self, port: str, message: Message) -> Any:
        self.sent.append((port, message))
        if port not in self._answers:
            raise InternalError(f"port {port} is not bound")
        return self._answers[port](message)


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def serving(processors: Iterable[tuple[str, Processor]]) -> dict[str, Answerer]:
    """Return answers for a `StubContext` that are the processors themselves, by port.

    The processors served so may not call others.
    """
    return {port: _answerer(processor) for port, processor in processors}


def _answerer(processor: Processor) -> Answerer:
    if isinstance(processor, StreamingProcessor):
        return lambda message: processor.handle_stream(message, StubContext())
    return lambda message: processor.handle(message, StubContext())
