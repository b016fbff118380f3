"""The requester by itself: how it reads headers, and what it leaves behind."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.broker import requests
from whence.broker.memory.transport import MemoryTransport
from whence.broker.requests import reply_of
from whence.broker.transport import Delivery, Headers, Mode, deadline_of
from whence.schema.errors import DeadlineExceeded, Overloaded, Unavailable
from whence.schema.topics import cancel_topic, full_topic

TOPIC = full_topic("asked")


def delivery(headers: dict[str, str]) -> Delivery:
    """Return a delivery with these headers."""
    return Delivery(payload=b"", headers=headers, id="1", topic=TOPIC)


@given(
    headers=st.dictionaries(
        st.sampled_from([Headers.CORRELATION_ID, Headers.SEQUENCE, Headers.END, Headers.TYPE]),
        st.text(max_size=30),
    )
)
def test_reading_a_reply_never_fails(headers: dict[str, str]) -> None:
    """Any headers are a reply with a place of 0 or more, or no reply at all."""
    reply = reply_of(delivery(headers))

    assert reply is None or reply.sequence >= 0


def test_reply_without_a_sequence_number_is_the_only_one() -> None:
    """A reply without a sequence number is first and last; with one, `end` decides."""
    alone = reply_of(delivery({Headers.CORRELATION_ID: "c"}))
    part = reply_of(delivery({Headers.CORRELATION_ID: "c", Headers.SEQUENCE: "3"}))

    assert alone is not None
    assert part is not None
    assert (alone.sequence, alone.end) == (0, True)
    assert (part.sequence, part.end) == (3, False)


@given(text=st.text(max_size=40))
def test_reading_a_deadline_never_fails(text: str) -> None:
    """Any text is a deadline of 0 or more seconds, or none."""
    deadline = deadline_of({Headers.DEADLINE: text})

    assert deadline is None or deadline >= 0


async def test_duplicate_replies_are_dropped() -> None:
    """Of replies with the same number, read or not, the first counts."""
    transport = MemoryTransport()
    subscription = await transport.subscribe(TOPIC, "g")
    stream = transport.stream(TOPIC, b"?")
    first = asyncio.ensure_future(anext(stream))
    asked = await subscription.receive()
    for number, place in enumerate((0, 0, 2, 2, 1)):
        headers = {
            Headers.CORRELATION_ID: asked.headers[Headers.CORRELATION_ID],
            Headers.SEQUENCE: str(place),
            Headers.END: str(int(place == 2)),
        }
        body = str(number).encode()
        await transport.publish(asked.headers[Headers.REPLY_TO], body, headers=headers)
    bodies = [(await first).payload] + [reply.payload async for reply in stream]
    await transport.aclose()

    assert bodies == [b"0", b"4", b"2"]


async def test_reply_topic_is_exclusive_and_named_after_the_client() -> None:
    """A client's replies are sent to a topic that no other client can read."""
    transport = MemoryTransport(instance="abc")
    topic = "non-persistent://public/default/whence.reply.abc"
    with pytest.raises(DeadlineExceeded):
        await transport.request(TOPIC, b"?", timeout_s=0.01)

    assert transport.requester.reply_topic == topic
    with pytest.raises(Unavailable):
        await transport.subscribe(topic, "replies", mode=Mode.EXCLUSIVE)
    await transport.aclose()


async def test_lost_reply_topic_is_opened_again() -> None:
    """When the reply topic is lost, waiting requests fail and the next one works."""
    transport = MemoryTransport()
    subscription = await transport.subscribe(TOPIC, "g")
    asking = asyncio.create_task(transport.request(TOPIC, b"?"))
    asked = await subscription.receive()
    await subscription.ack(asked)
    replies = transport.requester._subscription
    assert replies is not None
    await replies.aclose()

    with pytest.raises(Unavailable):
        await asking
    again = asyncio.create_task(transport.request(TOPIC, b"?"))
    asked = await subscription.receive()
    headers = {Headers.CORRELATION_ID: asked.headers[Headers.CORRELATION_ID]}
    await transport.publish(asked.headers[Headers.REPLY_TO], b"!", headers=headers)
    assert (await again).payload == b"!"
    await transport.aclose()


async def test_an_unread_stream_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies are buffered up to a limit; then the reader gets those and `Overloaded`."""
    monkeypatch.setattr(requests, "_MAX_BUFFERED", 5)
    transport = MemoryTransport()
    subscription = await transport.subscribe(TOPIC, "g")
    stream = transport.stream(TOPIC, b"?")
    first = asyncio.ensure_future(anext(stream))
    asked = await subscription.receive()
    for place in range(10):
        headers = {
            Headers.CORRELATION_ID: asked.headers[Headers.CORRELATION_ID],
            Headers.SEQUENCE: str(place),
        }
        await transport.publish(asked.headers[Headers.REPLY_TO], b"", headers=headers)
    await first
    await asyncio.sleep(0.01)

    seen: list[object] = []

    async def read_on() -> None:
        async for reply in stream:
            seen.append(reply)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(Overloaded):
        await read_on()
    assert 4 <= len(seen) < 9
    await transport.aclose()


async def test_breaking_out_of_a_stream_leaves_nothing_pending() -> None:
    """A reader that breaks out of its loop leaves no pending entry and no task."""
    transport = MemoryTransport()
    subscription = await transport.subscribe(TOPIC, "g")
    control = await transport.subscribe(cancel_topic(TOPIC), "c")

    async def serve() -> None:
        asked = await subscription.receive()
        headers = {
            Headers.CORRELATION_ID: asked.headers[Headers.CORRELATION_ID],
            Headers.SEQUENCE: "0",
        }
        await transport.publish(asked.headers[Headers.REPLY_TO], b"0", headers=headers)

    serving = asyncio.create_task(serve())
    async for _ in transport.stream(TOPIC, b"?"):
        break
    await serving
    while transport.requester.pending:
        await asyncio.sleep(0)
    cancelled = await control.receive()
    await transport.aclose()

    assert cancelled.payload
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_full_queue_does_not_outlast_the_deadline() -> None:
    """A request to a full queue is refused before its deadline."""
    transport = MemoryTransport(max_backlog=1, full_wait_s=3600.0)
    await transport.subscribe(TOPIC, "g")
    await transport.publish(TOPIC, b"fills the queue")

    with pytest.raises((Overloaded, DeadlineExceeded)):
        await asyncio.wait_for(transport.request(TOPIC, b"?", timeout_s=0.1), 30)
    assert transport.requester.pending == 0
    await transport.aclose()


async def test_a_slow_reader_gets_all_replies() -> None:
    """Replies that arrived in time are read even after the deadline."""
    transport = MemoryTransport()
    subscription = await transport.subscribe(TOPIC, "g")

    async def serve() -> None:
        asked = await subscription.receive()
        for place in range(2):
            headers = {
                Headers.CORRELATION_ID: asked.headers[Headers.CORRELATION_ID],
                Headers.SEQUENCE: str(place),
                Headers.END: str(place),
            }
            await transport.publish(asked.headers[Headers.REPLY_TO], b"", headers=headers)

    serving = asyncio.create_task(serve())
    places = []
    async for reply in transport.stream(TOPIC, b"?", timeout_s=1.0):
        places.append(reply.sequence)
        await serving
        await asyncio.sleep(1.1)

    assert places == [0, 1]
    await transport.aclose()
