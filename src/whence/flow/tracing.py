"""W3C trace context: one trace id over all hops of a request, made at the edge when nobody brought one.

Format: https://www.w3.org/TR/trace-context/ (version 00). What is malformed is replaced, as it asks for.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

import msgspec

from whence.broker.transport import Headers

__all__ = ("TraceContext",)

# Looked up for every message.
_TYPE, _PARENT, _STATE = Headers.TYPE, Headers.TRACEPARENT, Headers.TRACESTATE
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?\Z"
)
#: The standard lets a receiver drop a longer state.
_MAX_STATE = 512

HexSource = Callable[[int], str]
"""Return the hexadecimal form of that many random bytes."""


def _token(size: int) -> str:
    # Ids need to differ, not to be secret; asking the system for each costs more than the message's headers.
    return f"{random.getrandbits(8 * size):0{2 * size}x}"


class TraceContext(msgspec.Struct, frozen=True):
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
    def new(cls, token: HexSource = _token) -> TraceContext:
        """Begin a trace."""
        return cls(token(16), token(8))

    @classmethod
    def read(cls, headers: Mapping[str, str], token: HexSource = _token) -> TraceContext:
        """Return the context of a message; a new one when it has none, or a malformed one."""
        match = _TRACEPARENT.match(headers.get(_PARENT, ""))
        if match is None:
            return cls.new(token)
        state = headers.get(_STATE, "")
        return cls(match[1], match[2], match[3], state if len(state) <= _MAX_STATE else "")

    def headers_of(self, message_type: str, span_id: str = "") -> dict[str, str]:
        """Return the headers of a message sent from here: its type, and this place unless a span is given."""
        place = f"00-{self.trace_id}-{span_id or self.span_id}-{self.flags}"
        headers = {_TYPE: message_type, _PARENT: place}
        if self.state:
            headers[_STATE] = self.state
        return headers

    def child_headers(self, message_type: str, token: HexSource = _token) -> dict[str, str]:
        """Return the headers of a message that begins the next hop: its type, and a span of its own."""
        return self.headers_of(message_type, token(8))

    def headers(self) -> dict[str, str]:
        """Return the headers that carry it."""
        carried = {_PARENT: f"00-{self.trace_id}-{self.span_id}-{self.flags}"}
        if self.state:
            carried[_STATE] = self.state
        return carried
