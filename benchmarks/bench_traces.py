"""Measure stored traces: bytes on disk, recording, reading and checking among a million triples.

Stores the trace of one question (60 candidates, 20 kept) under many ids in an embedded database of its own. Run
`python -m benchmarks.bench_traces`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from benchmarks.bench_provenance import ANSWER_ID, build
from whence import Engine
from whence.schema import TraceRecord
from whence.schema.access import Access
from whence.store.commitment import commit
from whence.store.trace_body import pack

_READS = 200


def make_record() -> TraceRecord:
    """Return the record of the question."""
    events = tuple(build(full=True))
    return TraceRecord(
        answer_id=ANSWER_ID,
        collection="default",
        question="q",
        access=Access.public(),
        events=events,
    )


def renamed(record: TraceRecord, answer_id: str) -> TraceRecord:
    """Return the record under another id."""
    wire = msgspec.json.encode(record).replace(ANSWER_ID.encode(), answer_id.encode())
    return msgspec.json.decode(wire, type=TraceRecord)


async def times_ms(work: Callable[[str], Awaitable[object]], names: list[str]) -> list[float]:
    """Return the sorted times of a call for each name, in milliseconds."""
    times = []
    for name in names:
        start = time.perf_counter()
        await work(name)
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


async def measure(quads: int) -> dict[str, float]:
    """Fill a database with triples and measure."""
    record = make_record()
    each = sum(len(event.triples) for event in record.events)
    names = [f"{number:032x}" for number in range(-(-quads // each))]
    packed = pack(record)
    start = time.process_time()
    for _ in range(50):
        commit(packed, packed, "", b"0" * 16)
    digest_ms = (time.process_time() - start) / 50 * 1e3
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(home=Path(folder) / "home") as engine:
            store = await engine._session.store()
            recording = await times_ms(
                lambda name: store.record_trace(renamed(record, name)), names
            )
            sizes = (await store.overview()).parts  # type: ignore[attr-defined]
            chosen = random.Random(1).sample(names, min(_READS, len(names)))
            explaining = await times_ms(engine.explain, chosen)
            checking = await times_ms(engine.owner.verify, chosen)
    return {
        "traces": len(names),
        "triples": each * len(names),
        "bytes_a_trace": sizes["traces"] / len(names),
        "record_p50_ms": statistics.median(recording),
        "digest_cpu_ms": digest_ms,
        "explain_p50_ms": statistics.median(explaining),
        "explain_p95_ms": explaining[len(explaining) * 95 // 100],
        "verify_one_p50_ms": statistics.median(checking),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quads", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.quads))
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):20}{value:14,.2f}")


if __name__ == "__main__":
    main()
