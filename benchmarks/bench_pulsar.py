"""Measure the Pulsar transport against the bare client library on the same broker in the same run.

In turn in each round: a hop (publish to received, persistent, 228 bytes), a request with its reply (both
persistent), and messages a second with 200 publishes in flight, each acknowledged. The bare client is set
for low latency: no batching, 1000 messages prefetched. A reply on a non-persistent topic is measured for
comparison.

Then a question on stub models over Pulsar and in one process; the difference is compared with the sum of
its hops: its requests and replies, recorded in one process and sent one after the other, and the trace,
which is stored before the answer is sent. Explain events are sent in parallel and not counted.

Starts the broker of `deploy/pulsar` unless `WHENCE_TEST_PULSAR_URL` names one. Run `python
benchmarks/bench_pulsar.py`; `--json` prints one JSON document, `--soak N` sends N more messages and
measures memory.
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
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pulsar
import pytest
from pulsar.asyncio import Client, Producer, PulsarException
from tests.support.pulsar_broker import running_broker

from whence.broker.memory.transport import MemoryTransport
from whence.broker.pulsar.transport import PulsarTransport
from whence.broker.transport import Delivery, Headers, Transport
from whence.flow.client import FlowClient
from whence.flow.loader import load_flow
from whence.flow.resources import Resources
from whence.flow.runtime import run_flow
from whence.flow.settings import Settings
from whence.operations.ask import DocumentRagRequest
from whence.schema.access import Access
from whence.schema.ingest import ChunkDraft, DocumentDraft, IngestRequest
from whence.schema.topics import full_topic
from whence.store.memory.store import MemoryStore
from whence.testing.stub_models import EchoWriter, HashEmbedder, OverlapReranker

BODY = b"x" * 228
#: What a hop and a request may cost beside the bare client.
LIMIT = 1.25
#: Messages a second beside the bare client's.
LEAST = 0.8
#: What a question may take beside the sum of its hops.
QUESTION_LIMIT = 1.3
#: Growth of memory over a soak that counts as none, in MiB.
FLAT_MIB = 16.0
#: Publishes on their way in the measurement of throughput.
IN_FLIGHT = 200


def fresh(*, persistent: bool = True) -> str:
    """Return a new topic."""
    return full_topic(f"bench.{uuid4().hex}", persistent=persistent)


class Bare:
    """The client library as one would use it for low latency, closed in the order that it wants."""

    def __init__(self, url: str) -> None:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
        self.client = Client(url, stats_interval_in_seconds=0, logger=logger)
        self.closers: list[Callable[[], Awaitable[None]]] = []

    async def producer(self, topic: str) -> Producer:
        """Open a producer without batching."""
        producer = await self.client.create_producer(topic, batching_enabled=False)
        self.closers.append(producer.close)
        return producer

    async def consumer(self, topic: str, name: str = "bench") -> Any:
        """Open a shared consumer."""
        kind = pulsar.ConsumerType.Shared
        consumer = await self.client.subscribe(topic, name, consumer_type=kind)
        self.closers.insert(0, consumer.close)
        return consumer

    async def aclose(self) -> None:
        """Close consumers, producers, client."""
        for close in self.closers:
            with suppress(PulsarException):
                await close()
        with suppress(PulsarException):
            await self.client.close()


async def pace(times: int, once: Callable[[], Awaitable[None]]) -> float:
    """Return the median seconds of one go, after a few to warm up, 200 goes a second at most."""
    seconds = []
    for number in range(times + 20):
        start = time.perf_counter()
        await once()
        if number >= 20:
            seconds.append(time.perf_counter() - start)
        await asyncio.sleep(0.005)
    return statistics.median(seconds)


async def bare_hop(url: str, times: int) -> float:
    """Return the median seconds from publishing to having it, with the bare client."""
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
    """Return the same with the transport."""
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


async def bare_request(url: str, times: int, *, kept: bool = True) -> float:
    """Return the median seconds of a request and its reply, kept or not, with the bare client."""
    bare, asked, replied = Bare(url), fresh(), fresh(persistent=kept)
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
    """Return the same with the transport."""
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
    """Return the seconds a message, many publishes on their way at a time, each taken and acknowledged."""
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
    """Return the seconds a message with the bare client."""
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
    """Return the same with the transport."""
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


def stub_models() -> dict[str, Any]:
    """Return models and a store that take next to no time."""
    return {
        "store": MemoryStore(),
        "embedder": HashEmbedder(),
        "reranker": OverlapReranker(),
        "writer": EchoWriter(is_language_model=True),
    }


class Exchange(NamedTuple):
    """A request of a question and its replies, as bodies."""

    request: bytes
    replies: list[bytes]


class Recording:
    """Takes down what a transport publishes, as long as it is switched on."""

    def __init__(self, transport: Transport) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self.traces: list[bytes] = []
        self.on = False
        self._publish = transport.publish
        transport.publish = self.publish  # type: ignore[method-assign]

    async def publish(self, topic: str, payload: bytes, **options: Any) -> str:
        """Publish, and note requests, replies and traces."""
        headers = options.get("headers") or {}
        correlation = headers.get(Headers.CORRELATION_ID, "")
        if self.on and Headers.REPLY_TO in headers:
            self.exchanges[correlation] = Exchange(payload, [])
        elif self.on and correlation in self.exchanges:
            self.exchanges[correlation].replies.append(payload)
        elif self.on and topic.endswith("trace"):
            self.traces.append(payload)
        return await self._publish(topic, payload, **options)


async def question(transport: Transport, times: int) -> tuple[float, Recording]:
    """Return the median seconds of a question over a transport, and one question as recorded."""
    recording = Recording(transport)
    definition = load_flow("all-in-one")
    texts = [f"Fact {n}: the key of room {n} is kept by the porter." for n in range(20)]
    drafts = tuple(
        DocumentDraft(document_id=f"{n}.md", chunks=(ChunkDraft(content=text),))
        for n, text in enumerate(texts)
    )
    asked = DocumentRagRequest(access=Access.public(), question="Who keeps the key of room 7?")
    try:
        async with (
            Resources(Settings({}), stub_models()) as resources,
            run_flow(definition, transport, resources),
        ):
            client = FlowClient(definition, transport)
            await client.ingest(IngestRequest(collection="default", documents=drafts))

            async def once() -> None:
                async for _ in client.ask(asked):
                    pass

            await once()
            recording.on = True
            await once()
            recording.on = False
            return await pace(times, once), recording
    finally:
        await transport.aclose()


async def replayed(url: str, recording: Recording, times: int) -> float:
    """Return the median seconds of a recorded question's hops, one after the other."""
    transport, topic, trace = PulsarTransport(url), fresh(), fresh()
    exchanges = list(recording.exchanges.values())
    requests = await transport.subscribe(topic, "bench", prefetch=16)

    async def serve() -> None:
        while True:
            delivery: Delivery = await requests.receive()
            replies = exchanges[int(delivery.key or 0)].replies
            for number, reply in enumerate(replies):
                headers = {
                    Headers.CORRELATION_ID: delivery.headers[Headers.CORRELATION_ID],
                    Headers.SEQUENCE: str(number),
                    Headers.END: "1" if number == len(replies) - 1 else "0",
                }
                await transport.publish(delivery.headers[Headers.REPLY_TO], reply, headers=headers)
            await requests.ack(delivery)

    async def once() -> None:
        for number, exchange in enumerate(exchanges):
            async for _ in transport.stream(topic, exchange.request, key=str(number)):
                pass
        for body in recording.traces:
            await transport.publish(trace, body)

    serving = asyncio.create_task(serve())
    try:
        return await pace(times, once)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await transport.aclose()


def measure_question(url: str, rounds: int, times: int) -> dict[str, Any]:
    """Measure hops and the whole in turn in each round; gives medians and the ratio."""
    ratios, wholes, sums, counts = [], [], [], set()
    for _ in range(rounds):
        inside, recording = asyncio.run(question(MemoryTransport(), times))
        hops = asyncio.run(replayed(url, recording, times))
        over, _ = asyncio.run(question(PulsarTransport(url), times))
        wholes.append(over - inside)
        sums.append(hops)
        ratios.append((over - inside) / hops)
        counts.add(len(recording.exchanges))
    return {
        "requests": max(counts),
        "hops_ms": round(statistics.median(sums) * 1e3, 3),
        "ours_ms": round(statistics.median(wholes) * 1e3, 3),
        "ratio": round(statistics.median(ratios), 2),
    }


async def soak(url: str, messages: int) -> dict[str, Any]:
    """Send many messages and give the growth of this process after the first fifth, in MiB."""
    transport, topic = PulsarTransport(url), fresh()
    subscription = await transport.subscribe(topic, "bench", prefetch=64)
    headers = {Headers.TYPE: "bench.v1"}
    sizes = []
    seen = 0

    async def send() -> None:
        await transport.publish(topic, BODY, headers=headers)

    async def take() -> None:
        nonlocal seen
        await subscription.ack(await subscription.receive())
        seen += 1
        if seen % max(1, messages // 20) == 0:
            sizes.append(resident_mib())

    try:
        await flood(messages, send, take)
    finally:
        await transport.aclose()
    growth = max(sizes[4:]) - sizes[3]
    return {"messages": seen, "resident_mib": round(sizes[-1], 1), "growth_mib": round(growth, 1)}


def resident_mib() -> float:
    """Return the memory of this process that is in use, in MiB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


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
    dropping = [asyncio.run(bare_request(url, times, kept=False)) for _ in range(rounds)]
    report["request"]["bare_not_kept_ms"] = round(statistics.median(dropping) * 1e3, 3)
    for side in ("bare", "ours"):
        report["message"][f"{side}_per_s"] = round(1e3 / report["message"][f"{side}_ms"])
    report["throughput_ratio"] = round(1 / report["message"]["ratio"], 2)
    report["question"] = measure_question(url, rounds, max(20, times // 4))
    return report


def within_limits(report: dict[str, Any]) -> bool:
    """Return whether every figure is within its limit."""
    return (
        max(report["hop"]["ratio"], report["request"]["ratio"]) <= LIMIT
        and report["throughput_ratio"] >= LEAST
        # Below 0 the machine was too busy to tell anything.
        and 0 < report["question"]["ratio"] <= QUESTION_LIMIT
        and report.get("soak", {}).get("growth_mib", 0.0) <= FLAT_MIB
    )


def print_report(report: dict[str, Any]) -> None:
    """Print the figures for people."""
    for name in ("hop", "request", "message"):
        part = report[name]
        print(
            f"{name:8} bare {part['bare_ms']:7.3f} ms   ours {part['ours_ms']:7.3f} ms   "
            f"ratio {part['ratio']:.2f}"
        )
    print(
        f"request  bare {report['request']['bare_not_kept_ms']:7.3f} ms with replies that may be dropped"
    )
    told, asked = report["message"], report["question"]
    print(
        f"messages a second: bare {told['bare_per_s']}, ours {told['ours_per_s']}, "
        f"ratio {report['throughput_ratio']:.2f}"
    )
    print(
        f"question: {asked['requests']} requests, hops {asked['hops_ms']:.1f} ms, "
        f"whole {asked['ours_ms']:.1f} ms, ratio {asked['ratio']:.2f}"
    )
    print(f"limits: hop and request {LIMIT}, messages a second {LEAST}, question {QUESTION_LIMIT}")
    if "soak" in report:
        soaked = report["soak"]
        print(
            f"soak: {soaked['messages']} messages, {soaked['resident_mib']} MiB, "
            f"growth {soaked['growth_mib']} MiB (limit {FLAT_MIB})"
        )


def main() -> int:
    """Print the figures; give 1 when one is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument(
        "--soak", type=int, default=0, help="messages to send while watching memory"
    )
    options = parser.parse_args()
    try:
        with running_broker() as broker:
            report = measure(broker.url, options.rounds, options.times, options.messages)
            if options.soak:
                report["soak"] = asyncio.run(soak(broker.url, options.soak))
    except pytest.skip.Exception as reason:
        print(f"not measured: {reason}")
        return 0
    if options.json:
        print(json.dumps(report))
    else:
        print_report(report)
    return int(not within_limits(report))


if __name__ == "__main__":
    raise SystemExit(main())
