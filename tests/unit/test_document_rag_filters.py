"""Questions carry filters to every search they make, and to the trace that replays them."""

from __future__ import annotations

import msgspec
import pytest

from whence.operations.ask import DocumentRagRequest
from whence.operations.recorded_answers import replay_request
from whence.processors.document_rag import DocumentRagProcessor
from whence.schema.access import Access
from whence.schema.document_rag import Answer, TraceRecord
from whence.schema.errors import BadInput
from whence.testing.stub_context import StubContext

FILTERS = {"lang": ["en", "de"], "year": {"gte": 2020}}


async def test_an_invalid_filter_is_refused_first() -> None:
    """An invalid filter causes no search and no model call."""
    context = StubContext({})
    request = DocumentRagRequest(
        access=Access.public(), question="why?", filters={"year": {"near": 2020}}
    )
    with pytest.raises(BadInput, match="near"):
        async for _ in DocumentRagProcessor().handle_stream(request, context):
            pass

    assert context.sent == []


def test_a_replay_uses_the_recorded_filters() -> None:
    """The filters recorded in a trace are those of the replayed request."""
    record = TraceRecord(
        answer_id="a",
        collection="c",
        question="why?",
        access=Access.public(),
        events=(),
        answer=Answer(answer_id="a", question="why?", text="so"),
        settings={"doc_limit": 5, "filters": msgspec.json.encode(FILTERS).decode()},
    )

    assert replay_request(record).filters == FILTERS
