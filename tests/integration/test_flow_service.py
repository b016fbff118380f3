"""A flow as a process: ready, signalled, drained."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

import whence.broker.connect
from whence.broker.memory.transport import MemoryBroker, MemoryTransport
from whence.flow.client import FlowClient
from whence.flow.definition import FlowDefinition
from whence.flow.loader import load_flow
from whence.flow.resources import Resources
from whence.flow.service import serve_flow
from whence.flow.settings import Settings
from whence.schema.embedding import EmbeddingRequest, EmbeddingResponse
from whence.schema.errors import ConfigError, Unavailable
from whence.testing.stub_models import HashEmbedder


class Stage:
    """A served flow of one embedding processor, and a client beside it."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.broker = MemoryBroker()
        self.opened: list[MemoryTransport] = []
        self.embedder = HashEmbedder(delay_s=delay_s)
        self.resources = Resources(Settings({}), {"embedder": self.embedder})
        self.definition: FlowDefinition = load_flow("ingest")
        self.ready = asyncio.Event()
        self.client_transport = MemoryTransport(broker=self.broker)
        self.client = FlowClient(self.definition, self.client_transport)

    async def connect(self, url: str) -> MemoryTransport:
        self.opened.append(MemoryTransport(broker=self.broker))
        return self.opened[-1]

    def serve(self, **options: Any) -> asyncio.Task[bool]:
        return asyncio.create_task(
            serve_flow(
                self.definition,
                Settings({}),
                only=["embedding"],
                on_ready=self.ready.set,
                resources=self.resources,
                **options,
            )
        )

    async def ask(self) -> EmbeddingResponse:
        message = EmbeddingRequest(texts=("one",))
        return await self.client.call("embedding", message, EmbeddingResponse)

    async def until_working(self) -> None:
        while True:
            if self.embedder.calls:
                return
            await asyncio.sleep(0.001)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr(whence.broker.connect, "connect", made.connect)
    return made


async def test_a_signal_drains_and_ends_without_an_error(stage: Stage) -> None:
    """After SIGTERM the current request is answered, then everything is closed, the transport last."""
    stage.embedder._delay_s = 0.05
    serving = stage.serve()
    await stage.ready.wait()
    question = asyncio.create_task(stage.ask())
    await stage.until_working()
    os.kill(os.getpid(), signal.SIGTERM)
    reply = await question
    await serving

    assert reply.model.name == "stub-hash"
    with pytest.raises(Unavailable):
        await stage.opened[0].health()
    with pytest.raises(Unavailable):
        await stage.resources.get("embedder")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_second_signal_ends_at_once(stage: Stage) -> None:
    """A second signal ends the drain; unfinished messages are redelivered."""
    stage.embedder._delay_s = 1000.0
    serving = stage.serve(drain_s=1000.0)
    await stage.ready.wait()
    question = asyncio.create_task(stage.ask())
    await stage.until_working()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0.01)
    assert not serving.done()
    os.kill(os.getpid(), signal.SIGINT)
    assert await serving, "the caller learns that Ctrl-C ended it, for its exit code"
    request = stage.definition.interface("embedding").request
    stats = await stage.client_transport.stats(request, "embedding")

    assert (stats.backlog, stats.in_flight) == (1, 0)
    question.cancel()


async def test_cancelling_stops_the_service(stage: Stage) -> None:
    """A cancelled service leaves no task and no subscription."""
    serving = stage.serve()
    await stage.ready.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving

    with pytest.raises(Unavailable):
        await stage.opened[0].health()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_a_wrong_name_is_refused_before_anything_opens(stage: Stage) -> None:
    """An unknown processor is an error before the broker is asked."""
    with pytest.raises(ConfigError, match="no processor 'embeding'"):
        await serve_flow(stage.definition, Settings({}), only=["embeding"])

    assert stage.opened == []
