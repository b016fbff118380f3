"""What a processor is: what it takes, what it gives, whom it calls, and nothing about where it runs.

A processor declares its services and ports as class facts. `flow` builds it with its resources and binds
it to topics; a test calls `handle` with a stub context. Acknowledging, retrying, deadlines and dead
letters are the worker's business, not the processor's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from whence.schema.message import Message

__all__ = ("Context", "NoParameters", "Processor", "Service", "StreamingProcessor")

M = TypeVar("M", bound=Message)


class Service(msgspec.Struct, frozen=True):
    """A kind of request and the kinds of its replies."""

    request: type[Message]
    """Type that is sent."""
    replies: tuple[type[Message], ...]
    """Types that come back; an error may always come instead."""
    is_last: Callable[[Message], bool] | None = None
    """For a service with several replies: tells the last one. None means one reply."""


class NoParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For a processor without parameters."""


class Context(Protocol):
    """What the world offers to a handler for the time of one message."""

    @property
    def message_id(self) -> str:
        """Id of the message; the same when it is delivered again."""
        ...

    @property
    def attempt(self) -> int:
        """1 on first delivery."""
        ...

    def remaining_s(self) -> float | None:
        """Seconds until the caller gives up, never negative; None when the caller set no deadline."""
        ...

    def is_bound(self, port: str) -> bool:
        """Tell whether a port leads anywhere; only one of `optional_calls` may not."""
        ...

    async def call(self, port: str, message: Message, reply: type[M]) -> M:
        """Send a request through a port of `calls` and wait for its reply.

        Raises:
            WhenceError: The other side answered with an error, or not in time.
        """
        ...

    def stream(self, port: str, message: Message) -> AsyncGenerator[Message, None]:
        """Send a request through a port of `calls` and yield its replies in order."""
        ...

    async def emit(self, port: str, message: Message, *, key: str | None = None) -> None:
        """Publish through a port of `emits`; returns when it is safely stored."""
        ...


class Processor:
    """Base of all processors that give at most one reply.

    Args:
        parameters: Settings from the flow file, checked against `Parameters`.
        resources: Those named in `needs`, by keyword.
    """

    #: Name in flow files, lower-case words joined by `-`.
    type_name: ClassVar[str]
    #: One line for `whence run --check` and the reference.
    summary: ClassVar[str] = ""
    #: The service it offers, or None for a processor that only listens.
    serves: ClassVar[Service | None] = None
    #: The message it listens to when it offers no service; its port is `input`.
    consumes: ClassVar[type[Message] | None] = None
    #: Services it calls, by port name.
    calls: ClassVar[Mapping[str, Service]] = {}
    #: Ports of `calls` that a flow may leave without a topic; `Context.is_bound` tells.
    optional_calls: ClassVar[frozenset[str]] = frozenset()
    #: Messages it publishes for whoever listens, by port name.
    emits: ClassVar[Mapping[str, type[Message]]] = {}
    #: Parameters with defaults and ranges.
    Parameters: ClassVar[type[msgspec.Struct]] = NoParameters
    #: Resources it is built with: `store`, `embedder`, `reranker`, `writer`.
    needs: ClassVar[tuple[str, ...]] = ()
    #: True for one that changes something: a ledger then keeps a message that comes again from being handled
    #: again, over all copies of the processor.
    once: ClassVar[bool] = False

    def __init__(self, parameters: Any = None) -> None:
        self.parameters = self.Parameters() if parameters is None else parameters

    async def start(self) -> None:
        """Load what is heavy; called once before the first message."""

    async def aclose(self) -> None:
        """Free what is held; called once after the last message."""

    async def handle(self, message: Any, context: Context) -> Message | None:
        """Do the work for one message and give its reply, None when there is none.

        Raises:
            WhenceError: Told to the caller; a retryable one is tried again first when the caller has
                no deadline or the deadline allows it.
        """
        raise TypeError(f"{type(self).__name__} handles no messages")


class StreamingProcessor(Processor):
    """Base of processors that give several replies."""

    def handle_stream(self, message: Any, context: Context) -> AsyncIterator[Message]:
        """Yield replies in order; the last must be one for which `serves.is_last` is true."""
        raise TypeError(f"{type(self).__name__} handles no messages")
