"""The recorder hands each trace to the store and leaves errors to the worker."""

from __future__ import annotations

import pytest

from whence.processors.recorder import RecorderProcessor
from whence.schema import TraceRecord
from whence.schema.errors import DiskFull
from whence.testing.samples import sample
from whence.testing.stub_context import StubContext


class SetStore:
    """Keeps records by answer id."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.kept: dict[str, TraceRecord] = {}

    async def record_trace(self, record: TraceRecord) -> bool:
        if self.error:
            raise self.error
        return self.kept.setdefault(record.answer_id, record) is record


async def test_a_trace_delivered_twice_is_kept_once() -> None:
    """Redelivery changes nothing and is no error."""
    store = SetStore()
    recorder = RecorderProcessor(store=store)
    record = sample(TraceRecord)

    for _ in range(2):
        assert await recorder.handle(record, StubContext()) is None

    assert store.kept == {record.answer_id: record}


async def test_an_error_of_the_store_reaches_the_worker() -> None:
    """The worker decides about another attempt; the trace is not dropped."""
    with pytest.raises(DiskFull):
        await RecorderProcessor(store=SetStore(DiskFull("full"))).handle(
            sample(TraceRecord), StubContext()
        )
