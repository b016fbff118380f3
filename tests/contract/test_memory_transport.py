"""The memory transport shows every behaviour of a transport, and the faults that can be switched on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from whence.broker.memory.transport import MemoryBroker, MemoryTransport
from whence.broker.transport import Transport
from whence.testing import transport_factory as factories
from whence.testing.transport_suite import Capability, TransportFactory, TransportSuite


class MemoryFactory(TransportFactory):
    """Clients of one memory broker."""

    capabilities = frozenset({Capability.BOUNDED, Capability.CUT, Capability.PROCESS})
    url = "memory://"

    def __init__(self) -> None:
        super().__init__()
        self._broker = MemoryBroker()

    async def make(self, max_backlog: int | None) -> Transport:
        """Return one more client, or one with a small broker of its own."""
        if max_backlog is not None:
            return MemoryTransport(max_backlog=max_backlog, full_wait_s=0.3)
        return MemoryTransport(broker=self._broker)

    async def cut(self, transport: Transport) -> None:
        """Drop the client's connection."""
        assert isinstance(transport, MemoryTransport)
        transport.drop_connection()


@pytest.fixture
async def transport_factory(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MemoryFactory]:
    """Yield a factory of clients and close them; without a network a short silence is enough."""
    monkeypatch.setattr(factories, "SILENCE_S", 0.05)
    factory = MemoryFactory()
    yield factory
    await factory.aclose()


class TestMemoryTransport(TransportSuite):
    """The common suite."""
