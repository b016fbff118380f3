"""Measure what a request costs between two processors on the memory transport.

A request for 20 chunks goes to a worker, which replies with their texts (about 20 kB). That takes encoding,
publishing, receiving, decoding, handling, replying and acknowledging. A question makes about eight of
these; their share of a warm question is printed.
Run `python -m benchmarks.bench_hop`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

from whence.broker.delivery import IncomingMessage, OutgoingMessage, Replies
from whence.broker.memory.transport import MemoryTransport
from whence.broker.transport import Headers
from whence.broker.worker import Worker
from whence.schema import Access, ChunkText, TextRequest, TextResponse, encode
from whence.schema.codec import decode_as
from whence.schema.topics import full_topic

#: Requests that a question makes, and the milliseconds of a warm question.
REQUESTS = 8
WARM_MS = 300.0
IDS = tuple(f"urn:chunk:handbook-returns:{i:04d}" for i in range(20))
REQUEST = TextRequest(access=Access.public(), collection="default", chunk_ids=IDS)


def texts() -> TextResponse:
    """Return the texts of 20 chunks of 800 characters."""
    words = "The return window is thirty days from the day the parcel reached its reader. "
    return TextResponse(
        texts=tuple(
            ChunkText(
                chunk_id=chunk_id,
                document_id="handbook/returns.md",
                content=(words * 11)[number : number + 800],
                metadata={"source_file": "handbook/returns.md", "chunk_index": number},
                digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            )
            for number, chunk_id in enumerate(IDS)
        )
    )


async def requests(times: int) -> list[float]:
    """Return the seconds of each request to a worker."""
    transport, topic, reply = MemoryTransport(), full_topic("bench.request"), texts()

    async def handle(message: IncomingMessage) -> Replies:
        decode_as(message.delivery.payload, TextRequest)
        yield OutgoingMessage(payload=encode(reply), headers={Headers.TYPE: reply.TYPE})

    worker = Worker(transport, topic=topic, group="bench", handler=handle)
    await worker.start()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        got = await transport.request(
            topic, encode(REQUEST), headers={Headers.TYPE: TextRequest.TYPE}
        )
        decode_as(got.payload, TextResponse)
        seconds.append(time.perf_counter() - started)
    await worker.aclose()
    await transport.aclose()
    return seconds


def main() -> None:
    """Print the median."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--times", type=int, default=2000, help="requests")
    options = parser.parse_args()
    request_ms = statistics.median(asyncio.run(requests(options.times))) * 1e3
    report: dict[str, Any] = {
        "request_ms": round(request_ms, 3),
        "bytes": len(encode(texts())),
        "share": REQUESTS * request_ms / WARM_MS,
    }
    if options.json:
        print(json.dumps(report))
        return
    print(f"request to a worker, reply of {report['bytes']} bytes: {report['request_ms']} ms")
    print(f"  {REQUESTS} of them: {report['share']:.1%} of a warm question of {WARM_MS:.0f} ms")


if __name__ == "__main__":
    main()
