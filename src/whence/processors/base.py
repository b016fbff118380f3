"""The base of processors: what each consumes, replies and calls, independent of where it runs.

A processor declares its services and ports as class attributes. `flow` builds it with its resources and binds
it to topics; a test calls `handle` with a stub context. The worker acknowledges, retries, enforces deadlines
and keeps dead letters.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from whence.operations.ask import DocumentRagRequest
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import Answer, AnswerPiece, ExplainEvent
from whence.schema.embedding import EmbeddingRequest, EmbeddingResponse
from whence.schema.graph import ExpandRequest, ExpandResponse
from whence.schema.ingest import IngestRequest, IngestResponse
from whence.schema.message import Message
from whence.schema.prompt import PromptRequest, PromptResponse
from whence.schema.rerank import RerankRequest, RerankResponse
from whence.schema.search import SearchRequest, SearchResponse
from whence.schema.texts import TextRequest, TextResponse

T = TypeVar("T")


def closing(items: AsyncIterator[T]) -> AbstractAsyncContextManager[AsyncIterator[T]]:
    """Close a stream on exit, so that its source stops at once.

    Python closes an abandoned async generator only when it is collected. An iterator that cannot be closed is
    left as it is.
    """
    stream: Any = items
    return aclosing(stream) if hasattr(stream, "aclose") else nullcontext(items)


M = TypeVar("M", bound=Message)


class Service(msgspec.Struct, frozen=True):
    """A request type and the types of its replies."""

    request: type[Message]
    """Type of the request."""
    replies: tuple[type[Message], ...]
    """Types of the replies; an error may take their place."""
    is_last: Callable[[Message], bool] | None = None
    """Whether a reply is the last of several. None for a service with one reply."""


class NoParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a processor without parameters."""


class Context(Protocol):
    """What a handler can use for the time of one message."""

    @property
    def message_id(self) -> str:
        """Id of the message; the same when it is delivered again."""

    @property
    def attempt(self) -> int:
        """1 on first delivery."""

    def remaining_s(self) -> float | None:
        """Seconds until the caller gives up, never negative; None when the caller set no deadline."""

    def is_bound(self, port: str) -> bool:
        """Return whether a port has a topic; only those of `optional_calls` may have none."""

    async def call(self, port: str, message: Message, reply: type[M]) -> M:
        """Send a request through a port of `calls` and wait for its reply."""

    def stream(self, port: str, message: Message) -> AsyncGenerator[Message, None]:
        """Send a request through a port of `calls` and yield its replies in order."""

    async def emit(self, port: str, message: Message, *, key: str | None = None) -> None:
        """Publish through a port of `emits`; return when the message is stored."""


class Processor:
    """Base of all processors that send at most one reply."""

    #: Name in flow files, lower-case words joined by `-`.
    type_name: ClassVar[str]
    #: One line for `whence run --check` and the reference pages.
    summary: ClassVar[str] = ""
    #: The service it offers, or None for a processor that only consumes.
    serves: ClassVar[Service | None] = None
    #: The message it consumes when it offers no service; its port is `input`.
    consumes: ClassVar[type[Message] | None] = None
    #: Services it calls, by port name.
    calls: ClassVar[Mapping[str, Service]] = {}
    #: Ports of `calls` that a flow may leave without a topic; see `Context.is_bound`.
    optional_calls: ClassVar[frozenset[str]] = frozenset()
    #: Messages it publishes for any subscriber, by port name.
    emits: ClassVar[Mapping[str, type[Message]]] = {}
    #: Parameters with defaults and ranges.
    Parameters: ClassVar[type[msgspec.Struct]] = NoParameters
    #: Resources it is built with: `store`, `embedder`, `reranker`, `writer`, or one of a plug-in.
    needs: ClassVar[tuple[str, ...]] = ()
    #: True when handling a message has effects: a ledger, shared by all copies of the processor, then keeps a
    #: redelivered message from being handled again.
    once: ClassVar[bool] = False

    def __init__(self, parameters: Any = None) -> None:
        self.parameters = self.Parameters() if parameters is None else parameters

    async def start(self) -> None:
        """Load models and the like; called once before the first message."""

    async def aclose(self) -> None:
        """Free resources; called once after the last message."""

    async def handle(self, message: Any, context: Context) -> Message | None:
        """Handle one message and return its reply, None when it has none.

        Raises:
            WhenceError: Sent to the caller. A retryable one is tried again first when the caller has no
                deadline or the deadline allows it.
        """
        raise TypeError(f"{type(self).__name__} handles no messages")


class StreamingProcessor(Processor):
    """Base of processors that send several replies."""

    def handle_stream(self, message: Any, context: Context) -> AsyncIterator[Message]:
        """Yield replies in order; the last must be one for which `serves.is_last` is true."""
        raise TypeError(f"{type(self).__name__} handles no messages")


def _is_last(reply: Message) -> bool:
    """Return whether a reply ends its stream: an answer, or the result of a prompt."""
    if isinstance(reply, PromptResponse):
        return reply.result is not None
    return isinstance(reply, Answer)


EMBEDDING = Service(EmbeddingRequest, (EmbeddingResponse,))
SEARCH = Service(SearchRequest, (SearchResponse,))
EXPAND = Service(ExpandRequest, (ExpandResponse,))
TEXTS = Service(TextRequest, (TextResponse,))
RERANK = Service(RerankRequest, (RerankResponse,))
PROMPT = Service(PromptRequest, (PromptResponse,), _is_last)
INGEST = Service(IngestRequest, (IngestResponse,))
CODE_RAG = Service(CodeRagRequest, (AnswerPiece, ExplainEvent, Answer), _is_last)
DOCUMENT_RAG = Service(DocumentRagRequest, (AnswerPiece, ExplainEvent, Answer), _is_last)
