"""Measure what the Pulsar transport adds to the bare client library, on the same broker in the same run.

Three things, bare and ours in turn in each round: a hop (publish to received, persistent, 228 bytes), a
request (persistent) with its reply (non-persistent), and messages a second with 200 publishes on their
way, each acknowledged. The bare client is set for low latency: no batching, 1000 messages fetched ahead.
Starts the broker of `deploy/pulsar` unless `WHENCE_TEST_PULSAR_URL` names one. Run
`python benchmarks/bench_pulsar.py`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import _pulsar
import pulsar
import pytest
from pulsar.asyncio import Client, Producer, PulsarException

from whence.broker.pulsar import PulsarTransport
from whence.broker.transport import Delivery, Headers
from whence.schema.topics import full_topic
from whence.testing.pulsar_broker import running_broker

BODY = b"x" * 228
#: What a hop and a request may cost beside the bare client.
LIMIT = 1.25
#: Publishes on their way in the measurement of throughput.
IN_FLIGHT = 200


def fresh(*, persistent: bool = True) -> str:
    """Give a topic that nobody used."""
    return full_topic(f"bench.{uuid4().hex}", persistent=persistent)


class Bare:
    """The client library as one would use it for low latency, closed in the order that it wants."""

    def __init__(self, url: str) -> None:
        logger = pulsar.FileLogger(_pulsar.LoggerLevel.Error, os.devnull)
        self.client = Client(url, stats_interval_in_seconds=0, logger=logger)
        self.closers: list[Callable[[], Awaitable[None]]] = []

    async def producer(self, topic: str) -> Producer:
        """Open a producer without batching."""
        producer = await self.client.create_producer(topic, batching_enabled=False)
        self.closers.append(producer.close)
        return producer

    async def consumer(self, topic: str, name: str = "bench") -> Any:
        """Open a shared consumer."""
        kind = _pulsar.ConsumerType.Shared
        consumer = await self.client.subscribe(topic, name, consumer_type=kind)
        self.closers.insert(0, consumer.close)
        return consumer

    async def aclose(self) -> None:
        """Close consumers, producers, client."""
        for close in self.closers:
            with suppress(PulsarException):
                await close()
        await asyncio.to_thread(self.client._client.close)


async def pace(times: int, once: Callable[[], Awaitable[None]]) -> float:
    """Give the median seconds of one go, after a few to warm up, 200 goes a second at most."""
    seconds = []
    for number in range(times + 20):
        start = time.perf_counter()
        await once()
        if number >= 20:
            seconds.append(time.perf_counter() - start)
        await asyncio.sleep(0.005)
    return statistics.median(seconds)


async def bare_hop(url: str, times: int) -> float:
    """Give the median seconds from publishing to having it, with the bare client."""
    bare, topic = Bare(url), fresh()
    consumer, producer = await bare.consumer(topic), await bare.producer(topic)

    async def once() -> None:
        sending = asyncio.create_task(producer.send(BODY, properties={Headers.TYPE: "bench.v1"}))
        message = await consumer.receive()
        message.data()
        message.properties()
        await consumer.acknowledge(message)
        await sending

    try:
        return await pace(times, once)
    finally:
        await bare.aclose()


async def our_hop(url: str, times: int) -> float:
    """Give the same with the transport."""
    transport, topic = PulsarTransport(url), fresh()
    subscription = await transport.subscribe(topic, "bench", prefetch=16)
    headers = {Headers.TYPE: "bench.v1"}

    async def once() -> None:
        sending = asyncio.create_task(transport.publish(topic, BODY, headers=headers))
        await subscription.ack(await subscription.receive())
        await sending

    try:
        return await pace(times, once)
    finally:
        await transport.aclose()


async def bare_request(url: str, times: int) -> float:
    """Give the median seconds of a request and its reply, with the bare client."""
    bare, asked, replied = Bare(url), fresh(), fresh(persistent=False)
    requests, replies = await bare.consumer(asked), await bare.consumer(replied)
    ask, answer = await bare.producer(asked), await bare.producer(replied)

    async def serve() -> None:
        with suppress(PulsarException):
            while True:
                message = await requests.receive()
                await answer.send(message.data(), properties=message.properties())
                await requests.acknowledge(message)

    async def once() -> None:
        sending = asyncio.create_task(ask.send(BODY, properties={"id": "1"}))
        message = await replies.receive()
        message.properties()
        await replies.acknowledge(message)
        await sending

    serving = asyncio.create_task(serve())
    try:
        return await pace(times, once)
    finally:
        await bare.aclose()
        await serving


async def our_request(url: str, times: int) -> float:
    """Give the same with the transport."""
    transport, topic = PulsarTransport(url), fresh()
    requests = await transport.subscribe(topic, "bench", prefetch=16)

    async def serve() -> None:
        while True:
            delivery: Delivery = await requests.receive()
            headers = {Headers.CORRELATION_ID: delivery.headers[Headers.CORRELATION_ID]}
            reply_to = delivery.headers[Headers.REPLY_TO]
            await transport.publish(reply_to, delivery.payload, headers=headers)
            await requests.ack(delivery)

    async def once() -> None:
        await transport.request(topic, BODY)

    serving = asyncio.create_task(serve())
    try:
        return await pace(times, once)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await transport.aclose()


async def flood(
    messages: int, send: Callable[[], Awaitable[Any]], take: Callable[[], Awaitable[None]]
) -> float:
    """Give the seconds a message, many publishes on their way at a time, each taken and acknowledged."""
    left = iter(range(messages))

    async def produce() -> None:
        for _ in left:
            await send()

    start = time.perf_counter()
    producing = [asyncio.create_task(produce()) for _ in range(IN_FLIGHT)]
    for _ in range(messages):
        await take()
    await asyncio.gather(*producing)
    return (time.perf_counter() - start) / messages


async def bare_flood(url: str, messages: int) -> float:
    """Give the seconds a message with the bare client."""
    bare, topic = Bare(url), fresh()
    consumer, producer = await bare.consumer(topic), await bare.producer(topic)

    async def send() -> None:
        await producer.send(BODY, properties={Headers.TYPE: "bench.v1"})

    async def take() -> None:
        message = await consumer.receive()
        message.data()
        message.properties()
        await consumer.acknowledge(message)

    try:
        return await flood(messages, send, take)
    finally:
        await bare.aclose()


async def our_flood(url: str, messages: int) -> float:
    """Give the same with the transport."""
    transport, topic = PulsarTransport(url), fresh()
    subscription = await transport.subscribe(topic, "bench", prefetch=64)
    headers = {Headers.TYPE: "bench.v1"}

    async def send() -> None:
        await transport.publish(topic, BODY, headers=headers)

    async def take() -> None:
        await subscription.ack(await subscription.receive())

    try:
        return await flood(messages, send, take)
    finally:
        await transport.aclose()


def measure(url: str, rounds: int, times: int, messages: int) -> dict[str, Any]:
    """Measure bare and ours side by side in each round and give medians and ratios."""
    cases = {
        "hop": (bare_hop, our_hop, times),
        "request": (bare_request, our_request, times),
        "message": (bare_flood, our_flood, messages),
    }
    report: dict[str, Any] = {"rounds": rounds, "times": times, "messages": messages}
    for name, (bare, ours, count) in cases.items():
        pairs = [
            (asyncio.run(bare(url, count)), asyncio.run(ours(url, count))) for _ in range(rounds)
        ]
        report[name] = {
            "bare_ms": round(statistics.median(pair[0] for pair in pairs) * 1e3, 3),
            "ours_ms": round(statistics.median(pair[1] for pair in pairs) * 1e3, 3),
            "ratio": round(statistics.median(b / a for a, b in pairs), 2),
        }
    for side in ("bare", "ours"):
        report["message"][f"{side}_per_s"] = round(1e3 / report["message"][f"{side}_ms"])
    return report


def main() -> int:
    """Print the figures; give 1 when a hop or a request costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--messages", type=int, default=5_000)
    options = parser.parse_args()
    try:
        with running_broker() as broker:
            report = measure(broker.url, options.rounds, options.times, options.messages)
    except pytest.skip.Exception as reason:
        print(f"not measured: {reason}")
        return 0
    if options.json:
        print(json.dumps(report))
    else:
        for name in ("hop", "request", "message"):
            part = report[name]
            print(
                f"{name:8} bare {part['bare_ms']:7.3f} ms   ours {part['ours_ms']:7.3f} ms   "
                f"ratio {part['ratio']:.2f}"
            )
        told = report["message"]
        print(f"messages a second: bare {told['bare_per_s']}, ours {told['ours_per_s']}")
        print(f"limit of hop and request: {LIMIT} times the bare client")
    return int(max(report["hop"]["ratio"], report["request"]["ratio"]) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
