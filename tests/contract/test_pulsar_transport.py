"""The Pulsar transport, on a real broker, is held to the suite of all transports."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
from tests.support.pulsar_broker import PulsarFactory, TestBroker

from whence.testing.transport_factory import (
    TransportFactory,
    acked,
    arrives,
    fresh_topic,
    publish_all,
    received,
)
from whence.testing.transport_suite import TransportSuite

pytestmark = [pytest.mark.pulsar, pytest.mark.slow]


@pytest.fixture
async def transport_factory(pulsar_broker: TestBroker) -> AsyncIterator[PulsarFactory]:
    """Yield the factory of clients that the suite needs."""
    factory = PulsarFactory(pulsar_broker)
    yield factory
    await factory.aclose()


class TestPulsarTransport(TransportSuite):
    """All behaviours, over a network."""

    #: The full measure is ten thousand.
    soak_messages = int(os.environ.get("WHENCE_TEST_SOAK", "2000"))

    async def test_a_client_reconnects(self, transport_factory: TransportFactory) -> None:
        """34: After a cut a client reconnects; its deliveries stay valid and arrive once."""
        transport, topic = await transport_factory(), fresh_topic()
        subscription = await transport.subscribe(topic, "g", prefetch=5)
        bodies = await publish_all(transport, topic, 20)
        held = await received(subscription, 3)

        await transport_factory.cut(transport)
        seen = []
        while len(seen) < 17:
            delivery = await arrives(subscription.receive())
            await subscription.ack(delivery)
            seen.append(delivery.payload)

        assert [await subscription.ack(delivery) for delivery in held] == [True] * 3
        assert sorted([*seen, *(delivery.payload for delivery in held)]) == bodies
        await transport.publish(topic, b"after")
        assert await acked(subscription, 1) == [b"after"]
