"""The interface through which metrics and spans observe the handling of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeAlias

from whence.flow.context import TraceContext

#: Observes one message within a `with` block. Arguments: name of the processor, type of the message, trace
#: context of the message. The block's value is the trace context for all work on the message; exceptions
#: pass through.
Observer: TypeAlias = Callable[[str, str, TraceContext], AbstractContextManager[TraceContext]]


def observe_with(observers: Sequence[Observer]) -> Observer | None:
    """Return several observers as one, the outermost first; None when there are none."""

    @contextmanager
    def observe(processor: str, message: str, trace: TraceContext) -> Iterator[TraceContext]:
        with ExitStack() as stack:
            for observer in observers:
                trace = stack.enter_context(observer(processor, message, trace))
            yield trace

    return observe if observers else None
