"""The interface through which metrics and spans observe the handling of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TypeAlias

from whence.flow.context import TraceContext

#: Observes one message within a `with` block. Arguments: name of the processor, type of the message, trace
#: context of the message. The block's value is the trace context for all work on the message; exceptions
#: pass through.
Observer: TypeAlias = Callable[[str, str, TraceContext], AbstractContextManager[TraceContext]]


def observe_nothing(
    _processor: str, _message: str, trace: TraceContext
) -> AbstractContextManager[TraceContext]:
    """Return the trace context unchanged."""
    return nullcontext(trace)


def observe_with(observers: Sequence[Observer]) -> Observer:
    """Return several observers as one, the outermost first; each passes its trace context on to the next."""

    @contextmanager
    def observe(processor: str, message: str, trace: TraceContext) -> Iterator[TraceContext]:
        with ExitStack() as stack:
            for observer in observers:
                trace = stack.enter_context(observer(processor, message, trace))
            yield trace

    return observe if observers else observe_nothing
