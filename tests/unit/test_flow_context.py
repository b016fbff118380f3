"""W3C trace context: valid headers are kept, malformed ones are replaced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.broker.transport import Headers
from whence.flow.context import TraceContext

GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_good_context_is_passed_on() -> None:
    """Trace id, flags and state of the caller stay; the span is new."""
    headers = {Headers.TRACEPARENT: GOOD, Headers.TRACESTATE: "vendor=1"}
    context = TraceContext.read(headers)
    child = TraceContext.read(context.headers_of("any.v1", child=True))

    assert context.headers_of("any.v1") == {Headers.TYPE: "any.v1", **headers}
    assert (child.trace_id, child.flags, child.state) == (context.trace_id, "01", "vendor=1")
    assert child.span_id != context.span_id


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "00-abc-def-01",
        GOOD.upper(),
        GOOD.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        GOOD + "x",
    ],
)
def test_a_malformed_context_is_replaced(bad: str) -> None:
    """Headers that the standard calls invalid start a new trace."""
    context = TraceContext.read({Headers.TRACEPARENT: bad})
    again = TraceContext.read({Headers.TRACEPARENT: bad})

    assert (len(context.trace_id), len(context.span_id)) == (32, 16)
    assert context.trace_id not in (GOOD[3:35], "0" * 32, again.trace_id)


def test_a_later_version_is_understood() -> None:
    """Fields that a later version adds are ignored."""
    later = "01" + GOOD[2:] + "-more"

    assert TraceContext.read({Headers.TRACEPARENT: later}).trace_id == GOOD[3:35]


@given(st.text(max_size=80), st.text(max_size=600))
def test_any_headers_give_a_valid_context(parent: str, state: str) -> None:
    """Any headers give headers that are valid."""
    read = {Headers.TRACEPARENT: parent, Headers.TRACESTATE: state}
    headers = TraceContext.read(read).headers_of("any.v1")

    assert TraceContext.read(headers).headers_of("any.v1") == headers
    assert len(headers.get(Headers.TRACESTATE, "")) <= 512
