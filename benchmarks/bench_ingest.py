"""Measure indexing against its lower bounds: embedding for new documents, hashing for unchanged ones.

    python -m benchmarks.bench_ingest [--records 5000] [--rounds 2] [--reading] [--json]

- Total over embedding: time of `Engine.index` on short records, to that of the embedder for the same texts
  in batches of the same size. Rounds alternate, and the best of each counts. The ratio of processor time,
  the database included, is less sensitive to other processes.
- Memory: peak for a fifth of the records and for all, with the mapped model; then with a stub model, and
  with four times as many records.
- Reading: time and processor time of reading and chunking with a process with limits, to those without, for
  small Markdown files, larger HTML pages and PDFs, after one file has loaded libraries and started the process.
  Rounds alternate; the best of each counts.
- Words: passages a second that `Engine.index` stores without vectors, by the clock and by the processor time of
  this process and the database, and seconds until the first can be searched.
- Unchanged: time of `Engine.index` on a folder that is already indexed, to a walk that reads and hashes it.

Each run has a process of its own; its start and that of the database are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.documents import make_pdf

from benchmarks.cpu import cpu_s
from whence.ingest.chunking import Chunker
from whence.ingest.documents import KnownSources, load_documents
from whence.ingest.limited_process import Limits
from whence.ingest.load_results import LoadedDocument
from whence.ingest.reader import DocumentReader
from whence.models.local_embedder import LocalEmbedder
from whence.models.protocols import Embedder
from whence.schema.embedding import Purpose
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import HashEmbedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: As many as `Engine.index` sends in one message.
BATCH = 128
_WORDS = """ship harbour book loan table river stone winter letter music paper light garden road morning
    answer window teacher market bridge forest engine village number season history island
    kitchen doctor"""
WORDS = _WORDS.split()


def sentence(random_: random.Random) -> str:
    """Return a sentence of twelve words."""
    return " ".join(random_.choices(WORDS, k=12)).capitalize() + "."


def write_records(path: Path, count: int) -> None:
    """Write records of a title and four sentences, about sixty tokens.

    Each has a word of its own, its number with points between the digits, and all are made of the same tokens:
    a larger file shows what more records take, not what more pages of the model's table of tokens do.
    """
    random_ = random.Random(11)
    with path.open("w") as out:
        for number in range(count):
            text = " ".join(sentence(random_) for _ in range(4))
            title = f"Record {'.'.join(str(number))}"
            out.write(json.dumps({"_id": f"r{number}", "title": title, "text": text}) + "\n")


def write_files(folder: Path, count: int) -> None:
    """Write small Markdown files, a hundred in a folder."""
    random_ = random.Random(12)
    for number in range(count):
        path = folder / f"{number // 100:03}" / f"{number:05}.md"
        path.parent.mkdir(exist_ok=True, parents=True)
        body = "\n\n".join(sentence(random_) for _ in range(6))
        path.write_text(f"# Page {number}\n\n{body}\n")


async def embed(path: Path, _home: Path) -> dict[str, Any]:
    """Embed the texts of all chunks, and nothing else."""
    embedder = LocalEmbedder()
    await embedder.embed(["warm up"])
    chunker = Chunker(embedder.count_tokens, max_tokens=embedder.max_tokens)
    texts = [
        chunk.embed_text or chunk.content
        for item in load_documents([path], chunker=chunker)
        if isinstance(item, LoadedDocument)
        for chunk in item.draft.chunks
    ]
    started, cpu = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), BATCH):
        await embedder.embed(texts[start : start + BATCH], "document")
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    await embedder.aclose()
    return {"seconds": seconds, "cpu": cpu, "texts": len(texts)}


class StandIn(HashEmbedder):
    """Embeds texts at no cost, without recording them."""

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """Return vectors, see `HashEmbedder`."""
        vectors = await super().embed(texts, purpose)
        self.calls.clear()
        return vectors


async def index_without_model(path: Path, home: Path) -> dict[str, Any]:
    """Index records with vectors that cost nothing."""
    return await index(path, home, StandIn())


async def index_words(path: Path, home: Path) -> dict[str, Any]:
    """Index records or a folder without waiting for vectors."""
    return await index(path, home, wait=False)


async def index(
    path: Path, home: Path, embedder: Embedder | None = None, *, wait: bool = True
) -> dict[str, Any]:
    """Index records or a folder, with the local model unless another is given."""
    async with Engine(home=home, embedder=embedder, warm_up=True) as engine:
        # The first call opens what is opened once, the second writes to a collection that is there.
        await engine.index([write_one(home)], collection="bench", wait=wait)
        server = postmaster(home)
        started, cpu = time.perf_counter(), cpu_s(server)
        report = await engine.index([path], collection="bench", wait=wait)
        seconds, cpu = time.perf_counter() - started, cpu_s(server) - cpu
    return {
        "seconds": seconds,
        "cpu": cpu,
        "documents": report.documents.added + report.documents.unchanged,
        "passages": report.chunks,
        "first_s": report.seconds_to_first_search,
    }


def postmaster(home: Path) -> int:
    """Return the number of the process that the embedded database runs under."""
    (file,) = home.glob("**/postmaster.pid")
    return int(file.read_text().split()[0])


def write_one(home: Path) -> Path:
    """Write a record that is no part of the measurement."""
    path = home / "one.jsonl"
    path.write_text('{"_id": "first", "text": "Warm up."}\n')
    return path


def write_pages(folder: Path, count: int) -> None:
    """Write HTML pages of 40 kB and, for every tenth, a PDF of ten pages."""
    random_ = random.Random(13)
    for number in range(count):
        path = folder / "html" / f"{number:05}.html"
        path.parent.mkdir(exist_ok=True, parents=True)
        sections = (
            f"<h2 id=s{at}>Part {at}</h2><p>{' '.join(sentence(random_) for _ in range(12))}</p>"
            for at in range(40)
        )
        path.write_text(
            f"<title>Page {number}</title><main><h1>Page</h1>{''.join(sections)}</main>"
        )
        if number % 10 == 0:
            pages = [
                [(10.0, 760.0 - 14 * at, sentence(random_)) for at in range(50)] for _ in range(10)
            ]
            other = folder / "pdf" / f"{number:05}.pdf"
            other.parent.mkdir(exist_ok=True)
            other.write_bytes(make_pdf(pages, title=f"Paper {number}"))


async def read_here(path: Path, _home: Path) -> dict[str, Any]:
    """Read and chunk files in this process."""
    return read(path, None)


async def read_limited(path: Path, _home: Path) -> dict[str, Any]:
    """Read files in a process with limits, and chunk them here."""
    with closing(DocumentReader(Limits())) as reader:
        return read(path, reader)


def read(path: Path, reader: DocumentReader | None) -> dict[str, Any]:
    """Read and chunk files, tokens counted by the local model."""
    chunker = Chunker(LocalEmbedder().count_tokens)
    first = next(file for file in sorted(path.rglob("*")) if file.is_file())
    list(load_documents([first], chunker=chunker, reader=reader))
    started, cpu = time.perf_counter(), cpu_s(os.getpid())
    known = KnownSources(lookup=lambda _: dict)
    count = sum(
        isinstance(item, LoadedDocument)
        for item in load_documents([path], chunker=chunker, known=known, reader=reader)
    )
    seconds, cpu = time.perf_counter() - started, cpu_s(os.getpid()) - cpu
    return {"seconds": seconds, "cpu": cpu, "documents": count}


def measure_reading(rounds: int, folder: Path) -> dict[str, Any]:
    """Compare reading with limits and without."""
    write_files(folder / "markdown", 1000)
    write_pages(folder, 100)
    found: dict[str, Any] = {}
    for kind in ("markdown", "html", "pdf"):
        runs: dict[str, list[dict[str, Any]]] = {"read": [], "read-limited": []}
        for _ in range(rounds):
            for name, results in runs.items():
                results.append(run(name, folder / kind, folder / "none"))
        for what in ("seconds", "cpu"):
            here, limited = (min(one[what] for one in results) for results in runs.values())
            found.setdefault(kind, {})[what] = {
                "here": round(here, 3),
                "limited": round(limited, 3),
                "ratio": round(limited / here, 3),
            }
    return found


async def walk(path: Path, _home: Path) -> dict[str, Any]:
    """Read and hash every file, as plainly as can be."""
    started, cpu = time.perf_counter(), time.process_time()
    count = walked(path)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "documents": count}


def walked(path: Path) -> int:
    """Read and hash every file; gives how many there were."""
    count = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(folder, name), "rb") as stream:  # noqa: PTH118, PTH123 - the plain way
                hashlib.sha256(stream.read()).hexdigest()
            count += 1
    return count


WORK: dict[str, Callable[[Path, Path], Coroutine[Any, Any, dict[str, Any]]]] = {
    "embed": embed,
    "index": index,
    "words": index_words,
    "stand-in": index_without_model,
    "walk": walk,
    "read": read_here,
    "read-limited": read_limited,
}


def run(name: str, path: Path, home: Path) -> dict[str, Any]:
    """Do one piece of work in a process of its own."""
    home.mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "benchmarks.bench_ingest",
        "--work",
        name,
        str(path),
        str(home),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure(records: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Measure everything."""
    few, many, most = folder / "few.jsonl", folder / "many.jsonl", folder / "most.jsonl"
    files = folder / "files"
    for path, count in ((few, records // 5), (many, records), (most, 4 * records)):
        write_records(path, count)
    write_files(files, records)
    embedding, total = [], []
    for number in range(rounds):
        embedding.append(run("embed", many, folder / "none"))
        total.append(run("index", many, folder / f"home{number}"))
    words = min(
        (run("words", many, folder / f"home-words{number}") for number in range(rounds)),
        key=lambda one: one["cpu"],
    )
    small = run("index", few, folder / "home-few")
    own = {
        str(count): run("stand-in", path, folder / f"home-own-{count}")["peak_mb"]
        for count, path in ((records // 5, few), (records, many), (4 * records, most))
    }
    run("index", files, folder / "home-files")
    again, plain = [], []
    # Tenths of a second: several rounds cost nothing, and the best of them were disturbed the least.
    for _ in range(3 * rounds):
        plain.append(run("walk", files, folder / "none"))
        again.append(run("index", files, folder / "home-files"))
    best = {
        name: min(one["seconds"] for one in results)
        for name, results in (
            ("embedding", embedding),
            ("total", total),
            ("walk", plain),
            ("unchanged", again),
        )
    }
    cpu = {
        name: min(one["cpu"] for one in results)
        for name, results in (
            ("embedding", embedding),
            ("total", total),
            ("walk", plain),
            ("unchanged", again),
        )
    }
    return {
        "records": records,
        "reading": measure_reading(3 * rounds, folder / "reading"),
        "seconds": {name: round(seconds, 3) for name, seconds in best.items()},
        "cpu_s": {name: round(seconds, 3) for name, seconds in cpu.items()},
        "words": words,
        "total_over_embedding": round(best["total"] / best["embedding"], 3),
        "cpu_over_embedding": round(cpu["total"] / cpu["embedding"], 3),
        "peak_mb": {str(records // 5): small["peak_mb"], str(records): total[0]["peak_mb"]},
        "peak_mb_without_model": own,
        "unchanged_over_walk": round(best["unchanged"] / best["walk"], 2),
        "unchanged_cpu_over_walk": round(cpu["unchanged"] / cpu["walk"], 2),
    }


def report(results: dict[str, Any]) -> None:
    """Print the results for people."""
    seconds, cpu, peak = results["seconds"], results["cpu_s"], results["peak_mb"]
    records = results["records"]
    print(f"{records:,} short records")
    print(f"  embedding alone        {seconds['embedding']:8.2f} s   cpu {cpu['embedding']:8.2f} s")
    print(
        f"  index, all together    {seconds['total']:8.2f} s   cpu {cpu['total']:8.2f} s"
        f"   {results['total_over_embedding']:.2f}x   cpu {results['cpu_over_embedding']:.2f}x"
    )
    words = results["words"]
    print(
        f"  words alone            {words['seconds']:8.2f} s   cpu {words['cpu']:8.2f} s"
        f"   {words['passages'] / words['seconds']:,.0f} passages a second,"
        f" {words['passages'] / words['cpu']:,.0f} a second of the processor,"
        f" the first after {words['first_s']:.2f} s"
    )
    print(
        "  peak memory            "
        + ", ".join(f"{mb:.0f} MB at {int(n):,}" for n, mb in peak.items())
    )
    print(
        "  without the model      "
        + ", ".join(
            f"{mb:.0f} MB at {int(n):,}" for n, mb in results["peak_mb_without_model"].items()
        )
    )
    for kind, one in results["reading"].items():
        print(
            f"  reading {kind:<14} {one['seconds']['limited']:8.3f} s with limits"
            f"   {one['seconds']['here']:8.3f} s without   {one['seconds']['ratio']:.2f}x"
            f"   cpu {one['cpu']['ratio']:.2f}x"
        )
    print(f"{records:,} unchanged files")
    print(f"  plain walk and hash    {seconds['walk']:8.3f} s   cpu {cpu['walk']:8.3f} s")
    print(
        f"  index again            {seconds['unchanged']:8.3f} s   cpu {cpu['unchanged']:8.3f} s"
        f"   {results['unchanged_over_walk']:.2f}x   cpu {results['unchanged_cpu_over_walk']:.2f}x"
    )


def work(name: str, path: str, home: str) -> int:
    """Do one piece of work here and print what came of it."""
    result = asyncio.run(WORK[name](Path(path), Path(home)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result | {"peak_mb": round(peak)}))
    return 0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--reading", action="store_true", help="measure reading only")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", nargs=3, metavar=("NAME", "PATH", "HOME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(*options.work)
    with tempfile.TemporaryDirectory() as folder:
        if options.reading:
            print(json.dumps(measure_reading(3 * options.rounds, Path(folder)), indent=2))
            return 0
        results = measure(options.records, options.rounds, Path(folder))
    print(json.dumps(results, indent=2)) if options.json else report(results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
