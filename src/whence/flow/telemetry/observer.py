"""The seam between the work and those who watch it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Protocol

from whence.flow.tracing import TraceContext

__all__ = ("NO_OBSERVER", "Observer", "Observers")


class Observer(Protocol):
    """Somebody who watches messages being handled."""

    def handling(
        self, processor: str, message: str, trace: TraceContext
    ) -> AbstractContextManager[TraceContext]:
        """Watch one message for the time of a `with`.

        Args:
            processor: Name of the processor in its flow.
            message: Type of the message.
            trace: The message's place in its trace.

        Returns:
            A context that gives the place under which everything done for the message belongs; what is
            raised inside passes through.
        """
        ...


class Observers:
    """Several observers as one; each hands its place in the trace on to the next.

    Args:
        observers: Outermost first; may be empty.
    """

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = tuple(observers)

    @contextmanager
    def handling(self, processor: str, message: str, trace: TraceContext) -> Iterator[TraceContext]:
        """Watch one message with all of them."""
        with ExitStack() as stack:
            for observer in self._observers:
                trace = stack.enter_context(observer.handling(processor, message, trace))
            yield trace


class _Nobody:
    """Watches nothing, at next to no cost."""

    def handling(
        self, processor: str, message: str, trace: TraceContext
    ) -> AbstractContextManager[TraceContext]:
        return nullcontext(trace)


#: Watches nothing.
NO_OBSERVER: Observer = _Nobody()
