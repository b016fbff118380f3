"""Measure what a hop between two processors costs beside a bare hand-off between two tasks.

A hop is all that lies between two handlers: encode, publish, switch to the other task, receive, decode,
acknowledge, for replies with 20 chunks (about 20 kB) and with 20 scores (about 4 kB). The yardstick, in the
same run, is an `asyncio.Queue` that hands one object from task to task. Run
`python benchmarks/bench_hop.py`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from whence.broker.delivery import IncomingMessage, OutgoingMessage
from whence.broker.memory.transport import MemoryTransport
from whence.broker.transport import Headers
from whence.broker.worker import Worker
from whence.schema import (
    Candidate,
    ChunkText,
    Message,
    SearchResponse,
    TextRequest,
    TextResponse,
    decode,
    encode,
)
from whence.schema.topics import full_topic

#: A hop of the larger message may cost this many hand-offs.
LIMIT = 15.0


def texts() -> TextResponse:
    """Give the texts of 20 chunks of 800 characters."""
    words = "The return window is thirty days from the day the parcel reached its reader. "
    return TextResponse(
        texts=tuple(
            ChunkText(
                chunk_id=f"urn:chunk:handbook-returns:{i:04d}",
                document_id="handbook/returns.md",
                content=(words * 11)[i : i + 800],
                metadata={"source_file": "handbook/returns.md", "chunk_index": i},
                digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            )
            for i in range(20)
        )
    )


def scores() -> SearchResponse:
    """Give a ranking of 20 chunks."""
    return SearchResponse(
        candidates=tuple(
            Candidate(
                chunk_id=f"urn:chunk:handbook-returns:{i:04d}",
                document_id="handbook/returns.md",
                score=0.91 - i * 0.0123,
                rank=i + 1,
                dense_score=0.83 - i * 0.00987,
                sparse_score=0.71 - i * 0.01101,
            )
            for i in range(20)
        )
    )


async def queue_hop(times: int) -> float:
    """Give the seconds of one hand-off, from `times` rounds there and back between two tasks."""
    there: asyncio.Queue[object] = asyncio.Queue()
    back: asyncio.Queue[object] = asyncio.Queue()
    token = object()

    async def echo() -> None:
        for _ in range(times):
            await back.put(await there.get())

    task = asyncio.create_task(echo())
    start = time.perf_counter()
    for _ in range(times):
        await there.put(token)
        await back.get()
    seconds = time.perf_counter() - start
    await task
    return seconds / (2 * times)


async def transport_hop(times: int, message: Message) -> float:
    """Give the seconds of one hop, from `times` rounds there and back between two tasks."""
    transport = MemoryTransport()
    topics = full_topic("bench.there"), full_topic("bench.back")
    there = await transport.subscribe(topics[0], "bench")
    back = await transport.subscribe(topics[1], "bench")
    headers = {
        Headers.TYPE: message.TYPE,
        Headers.CORRELATION_ID: "b" * 32,
        Headers.DEADLINE: "1790000000000",
        Headers.TRACEPARENT: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }

    async def hop_in(subscription: Any) -> Message:
        delivery = await subscription.receive()
        received = decode(delivery.payload, delivery.headers[Headers.TYPE])
        await subscription.ack(delivery)
        return received

    async def echo() -> None:
        for _ in range(times):
            received = await hop_in(there)
            await transport.publish(topics[1], encode(received), headers=headers)

    task = asyncio.create_task(echo())
    current = message
    start = time.perf_counter()
    for _ in range(times):
        await transport.publish(topics[0], encode(current), headers=headers)
        current = await hop_in(back)
    seconds = time.perf_counter() - start
    await task
    await transport.aclose()
    assert current == message
    return seconds / (2 * times)


async def round_trip(times: int, message: Message) -> float:
    """Give the seconds of one request to a worker and its reply with `message`."""
    transport = MemoryTransport()
    topic = full_topic("bench.request")
    payload = encode(message)

    async def handle(work: IncomingMessage) -> Any:
        decode(work.delivery.payload, work.delivery.headers[Headers.TYPE])
        yield OutgoingMessage(payload=payload, headers={Headers.TYPE: message.TYPE})

    worker = Worker(transport, topic=topic, group="bench", handler=handle)
    await worker.start()
    asked = encode(sample_request())
    headers = {Headers.TYPE: TextRequest.TYPE}
    start = time.perf_counter()
    for _ in range(times):
        reply = await transport.request(topic, asked, headers=headers)
        decode(reply.payload, reply.headers[Headers.TYPE])
    seconds = time.perf_counter() - start
    await worker.aclose()
    await transport.aclose()
    return seconds / times


def sample_request() -> TextRequest:
    """Give the request for 20 chunks."""
    from whence.schema import Access

    ids = tuple(f"urn:chunk:handbook-returns:{i:04d}" for i in range(20))
    return TextRequest(access=Access.public(), collection="default", chunk_ids=ids)


def measure(rounds: int, times: int) -> dict[str, Any]:
    """Measure everything side by side in each round and give the medians, in microseconds."""
    cases: dict[str, Callable[[], Awaitable[float]]] = {
        "queue": lambda: queue_hop(times * 4),
        "hop_texts": lambda: transport_hop(times, texts()),
        "hop_scores": lambda: transport_hop(times, scores()),
        "request_texts": lambda: round_trip(times, texts()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in cases}

    async def once() -> None:
        for name, case in cases.items():
            seconds[name].append(await case())

    for _ in range(rounds):
        asyncio.run(once())
    ratios = [
        hop / queue for hop, queue in zip(seconds["hop_texts"], seconds["queue"], strict=True)
    ]
    return {
        "us": {name: round(statistics.median(values) * 1e6, 2) for name, values in seconds.items()},
        "ratio": round(statistics.median(ratios), 2),
        "ratio_worst": round(max(ratios), 2),
        "limit": LIMIT,
        "bytes": {"texts": len(encode(texts())), "scores": len(encode(scores()))},
        "rounds": rounds,
        "times": times,
    }


def main() -> int:
    """Print the figures; give 1 when a hop costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--times", type=int, default=1000)
    options = parser.parse_args()
    report = measure(options.rounds, options.times)
    if options.json:
        print(json.dumps(report))
    else:
        us = report["us"]
        print(f"asyncio.Queue hand-off                    {us['queue']:8.2f} us")
        print(
            f"hop, {report['bytes']['texts']:5d} bytes in 20 chunks          {us['hop_texts']:8.2f} us"
        )
        print(
            f"hop, {report['bytes']['scores']:5d} bytes in 20 scores          {us['hop_scores']:8.2f} us"
        )
        print(f"request to a worker, reply with 20 chunks {us['request_texts']:8.2f} us")
        print(
            f"ratio hop / hand-off  {report['ratio']} (at most {LIMIT:g}; worst {report['ratio_worst']})"
        )
    return 0 if report["ratio"] <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
