"""Measure what `reembed` costs searches: the same ones before it, beside it, and after it.

    python -m benchmarks.bench_reembed [--files 400] [--json]

One client searches as fast as it is answered, with the local model, in a process that stays, as `whence serve`
does. `whence reembed --compare` makes vectors of the same model in float32 and stops before the switch, so all
searches read the same vectors. There are as many searches after it as beside it: a machine that becomes busier
shows as a difference between before and after. The home is thrown away.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bench_ingest import sentence, write_files
from whence.surfaces.python.engine import Engine

_WHENCE = str(Path(sys.executable).parent / "whence")
_QUERIES = 50
_LEAST_SEARCHES = 100


async def measure(folder: Path, files: int) -> dict[str, Any]:
    """Index small Markdown files, search them, and let another process make new vectors meanwhile."""
    home, share = folder / "home", folder / "share"
    home.mkdir()
    write_files(share, files)
    async with Engine(home=home, warm_up=True) as engine:
        report = await engine.index([share])
        random_ = random.Random(14)
        queries = [sentence(random_) for _ in range(_QUERIES)]
        await search_times(engine, queries, lambda done: done < _QUERIES)
        command = [_WHENCE, "--home", str(home), "--embedder", "local:float32"]
        before = await search_times(engine, queries, lambda done: done < _LEAST_SEARCHES)
        begun = time.perf_counter()
        other = await asyncio.create_subprocess_exec(
            *command,
            "reembed",
            "--compare",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        beside = await search_times(engine, queries, lambda _: other.returncode is None)
        seconds = time.perf_counter() - begun
        if await other.wait():
            raise RuntimeError("the process that makes the vectors failed")
        after = await search_times(engine, queries, lambda done: done < len(beside))
    found: dict[str, Any] = {"passages": report.chunks, "reembed_s": seconds}
    for name, times in (("before", before), ("beside", beside), ("after", after)):
        ordered = sorted(times)
        found[name] = {
            "searches": len(times),
            "p50_ms": ordered[len(ordered) // 2] * 1e3,
            "p95_ms": ordered[int(len(ordered) * 0.95)] * 1e3,
        }
    return found


async def search_times(
    engine: Engine, queries: list[str], is_wanted: Callable[[int], bool]
) -> list[float]:
    """Return the seconds of each search, one after the other while they are wanted."""
    times: list[float] = []
    for query in itertools.cycle(queries):
        if not is_wanted(len(times)):
            return times
        begun = time.perf_counter()
        await engine.search(query, threshold=0.0)
        times.append(time.perf_counter() - begun)
    raise AssertionError


def report(found: dict[str, Any]) -> None:
    """Print the results for people."""
    print(f"{found['passages']:,} passages, new vectors in {found['reembed_s']:.1f} s")
    quiet = [found["before"], found["after"]]
    for name in ("before", "beside", "after"):
        one = found[name]
        print(
            f"  {name:8}{one['searches']:5} searches   p50 {one['p50_ms']:7.1f} ms   p95 {one['p95_ms']:7.1f} ms"
        )
    for share in ("p50_ms", "p95_ms"):
        ratio = found["beside"][share] / (sum(one[share] for one in quiet) / 2)
        print(f"  {share[:3]} beside it: {ratio:.2f} of that without")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder), options.files))
    if options.json:
        print(json.dumps(found))
    else:
        report(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
