"""The interface through which metrics and spans observe the handling of messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Protocol

from whence.flow.tracing import TraceContext

__all__ = ("NO_OBSERVER", "Observer", "Observers")


class Observer(Protocol):
    """Observes the handling of messages."""

    def handling(
        self, processor: str, message: str, trace: TraceContext
    ) -> AbstractContextManager[TraceContext]:
        """Observe one message within a `with` block.

        Args:
            processor: Name of the processor in its flow.
            message: Type of the message.
            trace: Trace context of the message.

        Returns:
            A context manager with the trace context for all work on the message; exceptions inside pass
            through.
        """
        ...


class Observers:
    """Several observers as one; each passes its trace context on to the next.

    Args:
        observers: Outermost first; may be empty.
    """

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = tuple(observers)

    @contextmanager
    def handling(self, processor: str, message: str, trace: TraceContext) -> Iterator[TraceContext]:
        """Observe one message with all observers."""
        with ExitStack() as stack:
            for observer in self._observers:
                trace = stack.enter_context(observer.handling(processor, message, trace))
            yield trace


class _NullObserver:
    """Observes nothing."""

    def handling(
        self, processor: str, message: str, trace: TraceContext
    ) -> AbstractContextManager[TraceContext]:
        return nullcontext(trace)


#: Observes nothing.
NO_OBSERVER: Observer = _NullObserver()
