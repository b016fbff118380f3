"""The broker keeps the schema of a topic and refuses clients that do not fit."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.support.pulsar_broker import TestBroker

from whence.broker.pulsar.schema_registry import avro_record
from whence.schema import message_types
from whence.schema.errors import BadInput
from whence.schema.message import Message
from whence.testing.transport_factory import acked, fresh_topic

pytestmark = [pytest.mark.pulsar, pytest.mark.slow]


class Order(Message, frozen=True, kw_only=True):
    """A message as it began."""

    goods: str
    count: int = 1


class OrderWithNote(Message, frozen=True, kw_only=True):
    """The same with one more field that has a default."""

    goods: str
    count: int = 1
    note: str | None = None


class OrderWithBuyer(Message, frozen=True, kw_only=True):
    """The same with one more field that everybody must know."""

    goods: str
    buyer: str
    count: int = 1


class OrderOfMany(Message, frozen=True, kw_only=True):
    """The same with a field of another type."""

    goods: tuple[str, ...]
    count: int = 1


def as_order(cls: type[Any]) -> type[Any]:
    """Set the name that all versions of one record have."""
    cls.__name__ = "Order"
    return cls


@pytest.mark.parametrize("side", ["publish", "subscribe"])
async def test_versions_of_a_type(pulsar_broker: TestBroker, side: str) -> None:
    """A new field with a default is accepted; a required field or another type is refused on connecting.

    To publishers the broker names the field; to members it only says that the schema does not fit.
    """
    first, topic = pulsar_broker.connect(), fresh_topic()
    first.register_topic(topic, Order)
    subscription = await first.subscribe(topic, "g")
    await first.publish(topic, b'{"goods":"tea"}')
    assert await acked(subscription, 1) == [b'{"goods":"tea"}']

    for version, refused in (
        (OrderWithBuyer, "buyer"),
        (OrderOfMany, "goods"),
        (OrderWithNote, ""),
    ):
        client = pulsar_broker.connect()
        client.register_topic(topic, as_order(version))
        joining = (
            client.publish(topic, b"{}") if side == "publish" else client.subscribe(topic, "other")
        )
        if refused:
            words = refused if side == "publish" else "IncompatibleSchema"
            with pytest.raises(BadInput, match=words) as told:
                await joining
            assert "default" in told.value.hint
        else:
            await joining
        await client.aclose()
    await first.aclose()


async def test_the_registry_has_the_schema(pulsar_broker: TestBroker) -> None:
    """The broker accepts every message type, and its registry returns the schema."""
    if not pulsar_broker.admin_url:
        pytest.skip("needs WHENCE_TEST_PULSAR_ADMIN_URL")
    transport = pulsar_broker.connect()
    topics = {name: fresh_topic() for name in message_types() if name != Order.TYPE}
    for name, topic in topics.items():
        transport.register_topic(topic, message_types()[name])
        await transport.publish(topic, b"{}")
    async with httpx.AsyncClient(base_url=pulsar_broker.admin_url) as admin:
        for name, topic in topics.items():
            path = topic.removeprefix("persistent://")
            kept = (await admin.get(f"/admin/v2/schemas/{path}/schema")).json()
            assert kept["type"] == "JSON"
            assert json.loads(kept["data"]) == avro_record(message_types()[name])
    await transport.aclose()
