"""Measure a folder as its user meets it: first search, all words, another run, and a change that is watched.

    python -m benchmarks.bench_folder [--files 10000] [--changes 20] [--json]

- First search: seconds from the start of `Engine.index` until a passage can be found, and share of the time
  that all words take.
- Words: passages a second stored without vectors, by the clock and by the processor time of this process and
  the database; peak memory of this process.
- Unchanged: seconds of another run over the same folder, by the times of files and with all files read.
- Watch: seconds from the end of a write until a search finds its words, median and worst.

Vectors cost nothing here (`bench_ingest` measures them beside ONNX Runtime). The start of the database is not
counted. The home is thrown away.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bench_ingest import StandIn, postmaster, write_files, write_one
from benchmarks.cpu import cpu_s
from whence.operations.watch import Watch, WatchEvent
from whence.surfaces.python.engine import Engine

#: Seconds until a change that is not found is given up.
_PATIENCE_S = 30.0


async def measure(folder: Path, files: int, changes: int) -> dict[str, Any]:
    """Measure everything on a folder of small Markdown files."""
    home, share = folder / "home", folder / "share"
    home.mkdir()
    write_files(share, files)
    # Files that changed just before they are read are read again.
    await asyncio.sleep(2)
    async with Engine(home=home, embedder=StandIn(), reranker="none", warm_up=True) as engine:
        await engine.index([write_one(home)], collection="warm-up", wait=False)
        server = postmaster(home)
        begun, cpu = time.perf_counter(), cpu_s(server)
        report = await engine.index([share], wait=False)
        seconds, cpu = time.perf_counter() - begun, cpu_s(server) - cpu
        found: dict[str, Any] = {
            "files": files,
            "passages": report.chunks,
            "first_s": report.seconds_to_first_search,
            "words_s": seconds,
            "words_cpu_s": cpu,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        for name, reread in (("unchanged_s", False), ("reread_s", True)):
            begun = time.perf_counter()
            again = await engine.index([share], wait=False, reread=reread)
            found[name] = time.perf_counter() - begun
            assert again.documents.unchanged == report.documents.added
        found["watch_s"] = await watch(engine, share, changes)
    return found


async def watch(engine: Engine, share: Path, changes: int) -> list[float]:
    """Return the seconds of each change from the end of its write until it is found."""
    ready, stop = asyncio.Event(), asyncio.Event()

    def note(event: WatchEvent) -> None:
        if event.change == "ready":
            ready.set()

    watching = asyncio.create_task(engine.run(Watch([share], stop=stop, on_event=note)))
    await ready.wait()
    found = []
    for number in range(changes):
        word = f"gimlet{''.join(chr(ord('a') + int(digit)) for digit in str(number))}"
        name = f"new-{number}.md"
        (share / name).write_text(f"# New\n\nThe {word} is in the larder.\n")
        written = time.perf_counter()
        # A word that is absent is corrected to one that a document has.
        while name not in await documents(engine, word):
            if time.perf_counter() - written > _PATIENCE_S:
                raise TimeoutError(f"{word} was not found within {_PATIENCE_S:g} s")
            await asyncio.sleep(0.02)
        found.append(time.perf_counter() - written)
    stop.set()
    await watching
    return found


async def documents(engine: Engine, word: str) -> list[str]:
    """Return the documents that a search for a word finds."""
    return [one.document_id for one in await engine.search(word, mode="bm25", threshold=0.0)]


def report(found: dict[str, Any]) -> None:
    """Print the results for people."""
    passages, words, times = found["passages"], found["words_s"], found["watch_s"]
    print(f"{found['files']:,} files, {passages:,} passages")
    print(
        f"  first search        {found['first_s']:8.2f} s   {found['first_s'] / words:.1%} of all words"
    )
    print(
        f"  words               {words:8.2f} s   {passages / words:,.0f} passages a second,"
        f" {1e3 * found['words_cpu_s'] / passages:.2f} ms of the processor each, peak {found['peak_mb']:.0f} MB"
    )
    print(
        f"  unchanged           {found['unchanged_s']:8.2f} s   with --reread {found['reread_s']:.2f} s"
    )
    print(f"  change to search    {statistics.median(times):8.2f} s   at worst {max(times):.2f} s")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder), options.files, options.changes))
    if options.json:
        print(json.dumps(found))
    else:
        report(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
