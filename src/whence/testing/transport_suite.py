"""The behaviours that every transport shows, as tests to inherit.

The author of a transport writes a `TransportFactory`, a fixture `transport_factory` that yields one, and

    class TestMyTransport(TransportSuite):
        pass

Each test states its rule and, where it has one, the number of the behaviour in the conformance list. What a
transport or its test set-up cannot show it leaves out of the factory's `capabilities`; those tests are skipped
with the reason. The tests need pytest and pytest-asyncio in its automatic mode.
"""

from __future__ import annotations

import pytest

from whence.broker.transport import Transport

# Before the suites are imported, so that a failing assert shows its values.
pytest.register_assert_rewrite(
    "whence.testing.delivery_suite",
    "whence.testing.lifecycle_suite",
    "whence.testing.request_suite",
    "whence.testing.worker_suite",
)

from whence.testing.delivery_suite import DeliverySuite, SettlementSuite  # noqa: E402
from whence.testing.lifecycle_suite import LifecycleSuite  # noqa: E402
from whence.testing.request_suite import RequestSuite, StreamSuite  # noqa: E402
from whence.testing.transport_factory import Capability, TransportFactory, fresh_topic  # noqa: E402
from whence.testing.worker_suite import WorkerRequestSuite, WorkerSuite  # noqa: E402

__all__ = ("Capability", "TransportFactory", "TransportSuite")


class TransportSuite(
    DeliverySuite,
    SettlementSuite,
    LifecycleSuite,
    RequestSuite,
    StreamSuite,
    WorkerSuite,
    WorkerRequestSuite,
):
    """All behaviours; needs a fixture `transport_factory`."""

    @pytest.fixture
    def topic(self) -> str:
        """Return a topic that no other test uses."""
        return fresh_topic()

    @pytest.fixture
    async def transport(self, transport_factory: TransportFactory) -> Transport:
        """Return a new client."""
        return await transport_factory()

    #: More clients, by the part that they play in a test.
    client = server = one = two = transport
