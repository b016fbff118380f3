"""W3C trace context: one trace id over all hops of a request, made at the edge when nobody brought one.

Format: https://www.w3.org/TR/trace-context/ (version 00). What is malformed is replaced, as it asks for.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import NamedTuple

from whence.broker.transport import Headers

__all__ = ("TraceContext",)

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?\Z"
)
#: The standard lets a receiver drop a longer state.
_MAX_STATE = 512

HexSource = Callable[[int], str]
"""Gives the hexadecimal form of that many random bytes."""


class TraceContext(NamedTuple):
    """Where a message stands in its trace."""

    trace_id: str
    """32 hexadecimal digits, the same for the whole request."""
    span_id: str
    """16 hexadecimal digits, new for every hop."""
    flags: str = "01"
    """`01` when the trace is sampled."""
    state: str = ""
    """W3C trace state of other systems, passed on as it is."""

    @classmethod
    def new(cls, token: HexSource = secrets.token_hex) -> TraceContext:
        """Begin a trace."""
        return cls(token(16), token(8))

    @classmethod
    def read(cls, headers: Mapping[str, str], token: HexSource = secrets.token_hex) -> TraceContext:
        """Give the context of a message; a new one when it has none, or a malformed one."""
        match = _TRACEPARENT.match(headers.get(Headers.TRACEPARENT, ""))
        if match is None:
            return cls.new(token)
        state = headers.get(Headers.TRACESTATE, "")
        return cls(match[1], match[2], match[3], state if len(state) <= _MAX_STATE else "")

    def headers_of(self, message_type: str) -> dict[str, str]:
        """Give the headers of a message sent from here: its type and this place."""
        return {Headers.TYPE: message_type, **self.headers()}

    def child(self, token: HexSource = secrets.token_hex) -> TraceContext:
        """Give the context of the next hop."""
        return TraceContext(self.trace_id, token(8), self.flags, self.state)

    def headers(self) -> dict[str, str]:
        """Give the headers that carry it."""
        carried = {Headers.TRACEPARENT: f"00-{self.trace_id}-{self.span_id}-{self.flags}"}
        if self.state:
            carried[Headers.TRACESTATE] = self.state
        return carried
