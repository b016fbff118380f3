"""W3C trace context: one trace id over all hops of a request.

Format: https://www.w3.org/TR/trace-context/ (version 00). Malformed headers are replaced, as it requires.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

import msgspec

from whence.broker.transport import Headers

_TYPE, _PARENT, _STATE = Headers.TYPE, Headers.TRACEPARENT, Headers.TRACESTATE
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?\Z"
)
#: A receiver may drop a longer state.
_MAX_STATE = 512


def _random_hex(size: int) -> str:
    # Ids must be unique, not secret; random bytes of the system cost more than the rest of the headers.
    return f"{random.getrandbits(8 * size):0{2 * size}x}"


class TraceContext(msgspec.Struct, frozen=True):
    """Place of a message in its trace."""

    trace_id: str
    """32 hexadecimal digits, the same for the whole request."""
    span_id: str
    """16 hexadecimal digits, new for every hop."""
    flags: str = "01"
    """`01` when the trace is sampled."""
    state: str = ""
    """W3C trace state of other systems, passed on unchanged."""

    @classmethod
    def new(cls) -> TraceContext:
        """Start a trace."""
        return cls(_random_hex(16), _random_hex(8))

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> TraceContext:
        """Return the context in a message's headers; a new one when they have none, or a malformed one."""
        match = _TRACEPARENT.match(headers.get(_PARENT, ""))
        if match is None:
            return cls.new()
        state = headers.get(_STATE, "")
        return cls(match[1], match[2], match[3], state if len(state) <= _MAX_STATE else "")

    def headers_of(self, message_type: str, span_id: str = "") -> dict[str, str]:
        """Return the headers of a message: its type and this context, or a span of its own."""
        place = f"00-{self.trace_id}-{span_id or self.span_id}-{self.flags}"
        headers = {_TYPE: message_type, _PARENT: place}
        if self.state:
            headers[_STATE] = self.state
        return headers

    def child_headers(self, message_type: str) -> dict[str, str]:
        """Return the headers of a message to the next hop: its type and a new span."""
        return self.headers_of(message_type, _random_hex(8))
