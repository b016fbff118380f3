"""What Pulsar's clients and topics survive: a cut line, a closed loop, a full queue."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter

import pytest
from tests.support.pulsar_broker import TestBroker, cut_connections

from whence.broker.pulsar.transport import PulsarOptions, PulsarTransport
from whence.broker.transport import Mode, NackOutcome, Start
from whence.schema.errors import BadInput, Overloaded, Unavailable
from whence.schema.topics import DEAD_LETTER_GROUP, dead_letter_topic, retry_topic
from whence.testing.transport_factory import (
    QUICK,
    acked,
    arrives,
    eventually,
    fresh_topic,
    is_silent,
    publish_all,
    received,
)

pytestmark = [pytest.mark.pulsar, pytest.mark.slow]

_FORGETFUL = """
import asyncio, sys
from whence.broker.pulsar.transport import PulsarTransport

async def main(url, topic):
    transport = PulsarTransport(url)
    subscription = await transport.subscribe(topic, "g", prefetch=2)
    await transport.publish(topic, b"x")
    await subscription.receive()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_message_with_a_lost_ack_is_not_handled_twice(pulsar_broker: TestBroker) -> None:
    """A message whose acknowledgement was lost is acknowledged again, not handled twice."""
    transport, topic = pulsar_broker.connect(), fresh_topic()
    subscription = await transport.subscribe(topic, "g", prefetch=4)
    bodies = await publish_all(transport, topic, 4)

    seen = await acked(subscription, 4)
    cut_connections(pulsar_broker.url)
    await transport.publish(topic, b"after")

    assert sorted(seen) == bodies
    assert await acked(subscription, 1) == [b"after"]
    assert await is_silent(subscription)
    await transport.aclose()


async def test_a_deleted_topic_is_opened_again(pulsar_broker: TestBroker) -> None:
    """Producers and consumers of a deleted topic continue with a new one."""
    import httpx

    if not pulsar_broker.admin_url:
        pytest.skip("needs WHENCE_TEST_PULSAR_ADMIN_URL")
    transport, topic = pulsar_broker.connect(), fresh_topic()
    subscription = await transport.subscribe(topic, "g")
    await transport.publish(topic, b"before")
    assert await acked(subscription, 1) == [b"before"]
    path = topic.replace("://", "/", 1)

    async with httpx.AsyncClient(base_url=pulsar_broker.admin_url) as admin:
        answer = await admin.delete(f"/admin/v2/{path}", params={"force": "true"})
    answer.raise_for_status()
    await transport.publish(topic, b"after")

    assert b"after" in await acked(subscription, 1)
    await transport.aclose()


async def test_partitioned_topics_are_read(pulsar_broker: TestBroker) -> None:
    """A partitioned topic delivers each message once, with retries."""
    import httpx

    if not pulsar_broker.admin_url:
        pytest.skip("needs WHENCE_TEST_PULSAR_ADMIN_URL")
    transport, topic = pulsar_broker.connect(), fresh_topic()
    path = topic.replace("://", "/", 1)
    async with httpx.AsyncClient(base_url=pulsar_broker.admin_url) as admin:
        answer = await admin.put(f"/admin/v2/{path}/partitions", json=3)
    answer.raise_for_status()
    subscription = await transport.subscribe(topic, "g", prefetch=2, retry=QUICK)
    bodies = await publish_all(transport, topic, 20)

    await subscription.nack(await arrives(subscription.receive()))

    assert sorted(await acked(subscription, 20)) == bodies
    assert await is_silent(subscription)
    await transport.aclose()


async def test_dead_letters_are_kept(pulsar_broker: TestBroker) -> None:
    """A subscription retains dead letters from the first one on."""
    transport, topic = pulsar_broker.connect(), fresh_topic()
    subscription = await transport.subscribe(topic, "g", retry=QUICK)
    await transport.publish(topic, b"bad")
    delivery = await arrives(subscription.receive())
    assert await subscription.reject(delivery, reason="no good") is NackOutcome.DEAD_LETTER

    letters = await transport.subscribe(
        dead_letter_topic(topic), DEAD_LETTER_GROUP, start=Start.LATEST
    )

    assert (await arrives(letters.receive())).payload == b"bad"
    await transport.aclose()


async def test_retries_wait_on_a_topic_of_the_group(pulsar_broker: TestBroker) -> None:
    """A retry is a durable message of its own; the original leaves the topic's backlog."""
    transport, topic = pulsar_broker.connect(), fresh_topic()
    subscription = await transport.subscribe(topic, "g")
    await transport.publish(topic, b"x", headers={"color": "blue"}, key="k")
    await subscription.nack(await arrives(subscription.receive()), delay_s=0.3)
    await subscription.aclose()

    waiting = await transport.subscribe(retry_topic(topic, "g"), "g")
    delivery = await arrives(waiting.receive())

    assert (delivery.payload, delivery.key, delivery.attempt) == (b"x", "k", 2)
    assert delivery.headers["color"] == "blue"
    assert not any(name.startswith("_") for name in delivery.headers)
    await transport.aclose()


@pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.KEY_ORDERED, Mode.SHARED, Mode.BROADCAST])
async def test_delays_work_in_every_mode(pulsar_broker: TestBroker, mode: Mode) -> None:
    """Delayed messages and retries wait in every mode, also where the broker supports no delays."""
    transport, topic = pulsar_broker.connect(), fresh_topic()
    subscription = await transport.subscribe(topic, "g", mode=mode, prefetch=2)
    loop = asyncio.get_running_loop()
    start = loop.time()
    await transport.publish(topic, b"later", delay_s=0.4)

    delivery = await arrives(subscription.receive())
    assert loop.time() - start >= 0.35
    nacked = loop.time()
    assert await subscription.nack(delivery, delay_s=0.4) is NackOutcome.RETRY
    again = await arrives(subscription.receive())

    assert loop.time() - nacked >= 0.35
    assert (again.payload, again.attempt) == (b"later", 2)
    assert await subscription.ack(again)
    await transport.aclose()


async def test_a_key_has_one_consumer_at_a_time(pulsar_broker: TestBroker) -> None:
    """With two consumers, no key is held by both, and each key stays in order."""
    clients = [pulsar_broker.connect() for _ in range(2)]
    topic = fresh_topic()
    members = [
        await client.subscribe(topic, "g", mode=Mode.KEY_ORDERED, prefetch=8) for client in clients
    ]
    hands: Counter[str] = Counter()
    seen: dict[str, list[int]] = {}
    for number in range(80):
        await clients[0].publish(topic, str(number).encode(), key=f"key{number % 7}")

    async def consume(index: int) -> None:
        while True:
            delivery = await members[index].receive()
            key = delivery.key or ""
            hands[key] += 1
            assert hands[key] == 1
            await asyncio.sleep(0.005)
            seen.setdefault(key, []).append(int(delivery.payload))
            hands[key] -= 1
            await members[index].ack(delivery)

    tasks = [asyncio.create_task(consume(i)) for i in range(2) for _ in range(4)]
    await eventually(lambda: sum(map(len, seen.values())) == 80 or any(t.done() for t in tasks))
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    for client in clients:
        await client.aclose()

    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    assert seen == {f"key{k}": [n for n in range(80) if n % 7 == k] for k in range(7)}


async def test_too_many_pending_is_overloaded(pulsar_broker: TestBroker) -> None:
    """Publishers wait while too many messages are unconfirmed, then fail; the event loop is not blocked."""
    options = PulsarOptions(max_pending=1, full_wait_s=0.0)
    transport, topic = PulsarTransport(pulsar_broker.url, options=options), fresh_topic()
    await transport.publish(topic, b"first")

    results = await asyncio.gather(
        *(transport.publish(topic, b"x") for _ in range(20)), return_exceptions=True
    )
    await transport.aclose()

    refused = [result for result in results if isinstance(result, Overloaded)]
    assert refused
    assert all(isinstance(result, str | Overloaded) for result in results)
    assert all(error.retry_after_s is not None for error in refused)


async def test_cancelled_publish_frees_its_place(pulsar_broker: TestBroker) -> None:
    """A cancelled publish frees its place for others."""
    options = PulsarOptions(max_pending=2)
    transport, topic = PulsarTransport(pulsar_broker.url, options=options), fresh_topic()
    for _ in range(5):
        task = asyncio.create_task(transport.publish(topic, b"given up"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert await arrives(transport.publish(topic, b"x"))
    await transport.aclose()


async def test_largest_body_and_headers_pass(pulsar_broker: TestBroker) -> None:
    """The largest body is accepted with ordinary headers; with huge ones it is refused before sending."""
    transport, topic = pulsar_broker.connect(), fresh_topic()
    subscription = await transport.subscribe(topic, "g")
    body = bytes(transport.max_payload_bytes)

    await transport.publish(topic, body, headers={"title": "x" * 4_000})
    with pytest.raises(BadInput, match="headers"):
        await transport.publish(topic, body, headers={"title": "x" * 20_000})

    assert len((await arrives(subscription.receive())).payload) == len(body)
    await transport.aclose()


async def test_topics_live_in_the_chosen_namespace(pulsar_broker: TestBroker) -> None:
    """A configured namespace keeps topic names; a missing namespace is an error with a hint."""
    options = PulsarOptions(namespace="public/absent")
    transport = PulsarTransport(pulsar_broker.url, options=options)

    with pytest.raises(Unavailable, match="TopicNotFound") as told:
        await transport.publish(fresh_topic(), b"x")
    await transport.aclose()

    assert "WHENCE_PULSAR_NAMESPACE" in told.value.hint


def test_a_client_that_is_not_closed_does_not_crash(pulsar_broker: TestBroker) -> None:
    """A program that ends without closing its client, with a receive pending, exits with 0."""
    command = [sys.executable, "-c", _FORGETFUL, pulsar_broker.url]
    programs = [
        subprocess.Popen([*command, fresh_topic()], stderr=subprocess.PIPE, text=True)
        for _ in range(5)
    ]
    for program in programs:
        _, errors = program.communicate(timeout=60)
        assert program.returncode == 0, errors


async def test_a_missing_broker_is_reported_in_time() -> None:
    """Without a broker a client reports the address within its timeout."""
    options = PulsarOptions(operation_timeout_s=1)
    transport = PulsarTransport("pulsar://127.0.0.1:1", options=options)

    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        await transport.health()
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        await transport.subscribe(fresh_topic(), "g")
    await transport.aclose()


async def test_a_paused_consumer_leaves_messages_to_others(pulsar_broker: TestBroker) -> None:
    """Messages not yet delivered to a paused consumer go to others; those it holds stay with it."""
    transport, topic = pulsar_broker.connect(), fresh_topic()
    pausing = await transport.subscribe(topic, "g")
    other = await transport.subscribe(topic, "g", prefetch=1)
    await publish_all(transport, topic, 10)
    (held,) = await received(pausing, 1)
    pausing.pause()

    others = await acked(other, 9)

    assert len({held.payload, *others}) == 10
    await transport.aclose()
