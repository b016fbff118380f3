"""Measure texts per processor second of the local embedder against sentence-transformers on torch.

    python -m benchmarks.bench_embedding [--peer-python PATH] [--data FOLDER] [--rounds 3] [--json]

torch is not a dependency of Whence: `--peer-python` names an environment with the peer, which is skipped
with its reason when there is none. Both use the same weights. Rounds alternate, and the best of each
counts; processor time excludes the effect of other processes. Besides synthetic texts of one length, the
chunks are those of `whence index` for the example handbook and the collections in `--data`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bench_ingest import WORDS
from whence.ingest.chunking import Chunker
from whence.ingest.documents import load_documents
from whence.ingest.load_results import LoadedDocument
from whence.models.installed import find_model
from whence.models.local_embedder import LocalEmbedder, Precision
from whence.models.onnx_sessions import usable_cores
from whence.models.weights import EMBEDDER_NAME

HANDBOOK = Path(__file__).resolve().parents[1] / "examples" / "handbook"
#: Chunks of one source that are embedded.
_SAMPLE = 32

#: Made texts: name, tokens of each (None: 20 to 250, mixed), texts given in one call.
MADE: tuple[tuple[str, int | None, int], ...] = (
    ("one query of 16 tokens", 16, 1),
    ("32 tokens", 32, 64),
    ("128 tokens", 128, 24),
    ("256 tokens", 256, 12),
    ("20 to 250 tokens, mixed", None, 48),
)

PEER = """
import json, sys, time, resource
start = time.perf_counter()
folder, threads = sys.argv[1], int(sys.argv[2])
import torch
torch.set_num_threads(threads)
from sentence_transformers import SentenceTransformer, models
transformer = models.Transformer(folder, max_seq_length=256)
pooling = models.Pooling(384, pooling_mode="mean")
model = SentenceTransformer(modules=[transformer, pooling, models.Normalize()], device="cpu")
vector = model.encode(["first"])
print(json.dumps({"cold_s": time.perf_counter() - start,
                  "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(job["repeat"]):
        vectors = model.encode(job["texts"], batch_size=32, show_progress_bar=False)
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu,
                      "vectors": vectors[:4].tolist()}), flush=True)
"""

OURS_COLD = """
import asyncio, json, resource, sys, time
start = time.perf_counter()
from whence.models.local_embedder import LocalEmbedder
async def main():
    embedder = LocalEmbedder(precision=sys.argv[1])
    await embedder.embed(["first"])
    cold = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cold_s": cold, "peak_mb": peak}))
    await embedder.aclose()
asyncio.run(main())
"""


class Timing(NamedTuple):
    """Seconds that some texts took."""

    wall: float
    cpu: float


class Ours:
    """The local embedder in one precision."""

    def __init__(self, precision: Precision, threads: int) -> None:
        self._embedder = LocalEmbedder(precision=precision, threads=threads)

    def run(self, texts: list[str], repeat: int) -> Timing:
        """Embed the texts some times."""

        async def work() -> None:
            for _ in range(repeat):
                await self._embedder.embed(texts)

        wall, cpu = time.perf_counter(), time.process_time()
        asyncio.run(work())
        return Timing(time.perf_counter() - wall, time.process_time() - cpu)

    def vectors(self, texts: list[str]) -> Any:
        """Return the vectors of some texts."""
        return asyncio.run(self._embedder.embed(texts))


class Peer:
    """sentence-transformers in a process and environment of its own."""

    def __init__(self, python: str, threads: int) -> None:
        folder = str(find_model(EMBEDDER_NAME))
        self._process = subprocess.Popen(
            [python, "-c", PEER, folder, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.cold = self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                "the peer ended; has its environment sentence-transformers and torch?"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(self, texts: list[str], repeat: int) -> Timing:
        """Embed the texts some times."""
        answer = self._ask(texts, repeat)
        return Timing(answer["wall"], answer["cpu"])

    def vectors(self, texts: list[str]) -> Any:
        """Return the vectors of at most four texts."""
        return self._ask(texts, 1)["vectors"]

    def _ask(self, texts: list[str], repeat: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"texts": texts, "repeat": repeat}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


def texts_of(tokens: int | None, count: int) -> list[str]:
    """Make texts of a length in tokens; every word used is one token, two more are special."""
    random_ = random.Random(7)
    lengths = [random_.randint(20, 250) if tokens is None else tokens for _ in range(count)]
    return [" ".join(random_.choices(WORDS, k=length - 2)) for length in lengths]


def chunks_of(source: Path) -> list[str]:
    """Return a sample of what `whence index` embeds of some documents, as long as they are cut there."""
    embedder = LocalEmbedder()
    chunker = Chunker(embedder.count_tokens, max_tokens=embedder.max_tokens)
    loaded = (
        one.draft
        for one in load_documents([source], chunker=chunker)
        if isinstance(one, LoadedDocument)
    )
    chunks = [
        chunk.embed_text or chunk.content for draft in islice(loaded, 500) for chunk in draft.chunks
    ]
    return random.Random(7).sample(chunks, min(_SAMPLE, len(chunks)))


def workloads(data: Path | None) -> Iterator[tuple[str, list[str], int]]:
    """Return each workload: name, texts of one call, calls of one round."""
    for name, tokens, count in MADE:
        texts = texts_of(tokens, count)
        yield name, texts, max(1, 2500 // sum(len(text.split()) + 2 for text in texts))
    for source in (HANDBOOK, *(sorted(data.glob("*/corpus.jsonl")) if data else ())):
        texts = chunks_of(source)
        mean = sum(LocalEmbedder().count_tokens(texts)) / len(texts)
        name = source.name if source.is_dir() else source.parent.name
        yield f"chunks of {name}, {mean:.0f} tokens on average", texts, 1


def measure(
    engines: dict[str, Ours | Peer], rounds: int, data: Path | None
) -> dict[str, dict[str, Any]]:
    """Measure all engines on all workloads, in turn."""
    results: dict[str, dict[str, Any]] = {}
    for name, texts, repeat in workloads(data):
        best: dict[str, list[float]] = {engine: [0.0, 0.0] for engine in engines}
        for _ in range(rounds):
            for engine, runner in engines.items():
                timing = runner.run(texts, repeat)
                done = repeat * len(texts)
                best[engine][0] = max(best[engine][0], done / timing.cpu)
                best[engine][1] = max(best[engine][1], done / timing.wall)
        results[name] = {
            engine: {"per_cpu_s": round(cpu, 1), "per_wall_s": round(wall, 1)}
            for engine, (cpu, wall) in best.items()
        }
    return results


def cold_start(precision: str, rounds: int) -> dict[str, float]:
    """Measure import, load and first vector in fresh processes; the fastest counts."""
    runs = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", OURS_COLD, precision],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for _ in range(rounds)
    ]
    return min(runs, key=lambda run: float(run["cold_s"]))


def agreement() -> dict[str, float]:
    """Compare 8 bit with float32 vectors: cosines over varied sentences."""
    texts = [
        *texts_of(None, 20),
        "Books may be borrowed for 28 days.",
        "How tall is a giraffe?",
        "def main() -> int: return 0",
    ]
    both = [Ours(precision, 1).vectors(texts) for precision in ("w8", "float32")]
    cosines = (both[0] * both[1]).sum(axis=1)
    return {"mean": float(cosines.mean()), "min": float(cosines.min())}


def report(results: dict[str, Any]) -> None:
    """Print the results for people."""
    for threads, table in results["speed"].items():
        print(f"\n{threads}")
        for workload, engines in table.items():
            print(f"  {workload}")
            base = engines.get("sentence-transformers")
            for engine, speed in engines.items():
                ratio = ""
                if base and engine != "sentence-transformers":
                    cpu = speed["per_cpu_s"] / base["per_cpu_s"]
                    wall = speed["per_wall_s"] / base["per_wall_s"]
                    ratio = f"   {cpu:.2f}x per CPU second, {wall:.2f}x wall"
                print(
                    f"    {engine:22s} {speed['per_cpu_s']:8.1f} /CPU s"
                    f" {speed['per_wall_s']:8.1f} /s{ratio}"
                )
    print("\ncold start: import, load, first vector")
    for engine, cold in results["cold_start"].items():
        print(f"    {engine:22s} {cold['cold_s']:6.2f} s {cold['peak_mb']:6.0f} MB")
    cosine = results["w8_against_float32"]
    print(f"\ncosine of w8 to float32: mean {cosine['mean']:.4f}, min {cosine['min']:.4f}")
    print(results["peer"])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--peer-python", help="Python with sentence-transformers and torch")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of collections, NAME/corpus.jsonl, whose chunks are embedded",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peer_python = options.peer_python
    results: dict[str, Any] = {"speed": {}, "cold_start": {}}
    results["peer"] = "peer: sentence-transformers on torch, same weights"
    if not peer_python or not Path(peer_python).exists():
        results["peer"] = "peer left out: name a Python that has it with --peer-python"
        peer_python = None
    for precision in ("w8", "float32"):
        results["cold_start"][precision] = cold_start(precision, options.rounds)
    for threads in sorted({1, usable_cores()}):
        engines: dict[str, Ours | Peer] = {
            "whence w8": Ours("w8", threads),
            "whence float32": Ours("float32", threads),
        }
        if peer_python:
            peer = Peer(peer_python, threads)
            engines["sentence-transformers"] = peer
            results["cold_start"]["sentence-transformers"] = peer.cold
        results["speed"][f"{threads} thread{'s' if threads > 1 else ''}"] = measure(
            engines, options.rounds, options.data
        )
        if peer_python:
            peer.close()
    results["w8_against_float32"] = agreement()
    results["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        report(results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
