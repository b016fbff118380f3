"""Reading, replaying and dropping what was given up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from whence.broker.dead_letters import DeadLetters, replay_headers
from whence.broker.delivery import IncomingMessage, OutgoingMessage
from whence.broker.memory.faults import Faults
from whence.broker.memory.transport import MemoryTransport
from whence.broker.transport import Headers
from whence.broker.worker import Worker
from whence.schema.errors import BadInput, Unavailable
from whence.schema.topics import dead_letter_topic, full_topic

TOPIC = full_topic("given.up")


async def given_up(transport: MemoryTransport, *bodies: bytes) -> list[str]:
    """Make a dead letter of each body; gives their ids."""
    subscription = await transport.subscribe(TOPIC, "g")
    ids = []
    for body in bodies:
        ids.append(await transport.publish(TOPIC, body, key="k"))
        delivery = await subscription.receive()
        await subscription.reject(delivery, reason="because", exception="Boom")
    await subscription.aclose()
    return ids


def test_a_replay_starts_without_a_caller() -> None:
    """A replayed message keeps id, type and trace, and loses failure, attempt and caller."""
    kept = {Headers.MESSAGE_ID: "m", Headers.TYPE: "t", Headers.TRACEPARENT: "p", "own": "x"}
    lost = {
        Headers.REASON: "r",
        Headers.GROUP: "g",
        Headers.ORIGIN: TOPIC,
        Headers.EXCEPTION: "E",
        Headers.ATTEMPTS: "5",
        Headers.FIRST_AT: "1",
        Headers.LAST_AT: "2",
        Headers.ATTEMPT: "5",
        Headers.DEADLINE: "1",
        Headers.REPLY_TO: "nobody",
        Headers.CORRELATION_ID: "c",
    }

    assert replay_headers({**kept, **lost}) == kept


async def test_listing_changes_nothing() -> None:
    """Listing twice returns the same, oldest first, up to the limit."""
    transport = MemoryTransport()
    ids = await given_up(transport, b"0", b"1", b"2")
    letters = DeadLetters(transport, wait_s=0.1)

    first = await letters.list(TOPIC, limit=2)
    second = await letters.list(TOPIC)

    assert [letter.id for letter in first] == ids[:2]
    assert [letter.id for letter in second] == ids
    assert (first[0].origin, first[0].group, first[0].reason) == (TOPIC, "g", "because")
    assert (first[0].exception, first[0].attempts) == ("Boom", 1)
    assert 0 < first[0].first_at <= first[0].last_at


async def test_failed_replay_keeps_the_letter() -> None:
    """A dead letter that cannot be sent stays one."""
    faults = Faults()
    transport = MemoryTransport(faults=faults)
    (message_id,) = await given_up(transport, b"0")
    letters = DeadLetters(transport, wait_s=0.1)
    faults.fail_publishes = 1

    with pytest.raises(Unavailable):
        await letters.replay(TOPIC)

    assert [letter.id for letter in await letters.list(TOPIC)] == [message_id]


async def test_foreign_messages_are_listed() -> None:
    """Foreign messages on a dead-letter topic are listed with the known fields."""
    transport = MemoryTransport()
    headers = {Headers.ATTEMPTS: "many", Headers.FIRST_AT: "-1"}
    await transport.publish(dead_letter_topic(TOPIC), b"x", headers=headers)

    (letter,) = await DeadLetters(transport, wait_s=0.1).list(TOPIC)

    assert (letter.attempts, letter.first_at, letter.origin) == (0, 0.0, "")


async def test_a_replay_sends_each_letter_once() -> None:
    """A replay ends even when a worker fails at once: each letter is sent once and is a dead letter again."""
    transport = MemoryTransport()
    ids = await given_up(transport, b"0", b"1", b"2")
    letters = DeadLetters(transport, wait_s=0.2)

    async def refuse(work: IncomingMessage) -> AsyncIterator[OutgoingMessage]:
        raise BadInput("never")
        yield

    worker = Worker(transport, topic=TOPIC, group="g", handler=refuse)
    await worker.start()
    sent = await letters.replay(TOPIC)
    await worker.aclose()

    assert sent == 3
    assert sorted(letter.id for letter in await letters.list(TOPIC)) == sorted(ids)
    assert worker.counters.dead_letters == 3
