"""Measure pairs per second of the local reranker against flashrank with the same model.

    python benchmarks/bench_reranker.py [--rounds 3] [--json]

The peer is `flashrank.Ranker` on the same folder with its own session, given the whole list at once. Rounds
alternate, and the best of each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from typing import Any

from whence.models.flashrank_reranker import FlashrankReranker
from whence.models.installed import find_model
from whence.models.weights import RERANKER_NAME

QUERY = "how long may a reader keep a book"
WORDS = [
    "ship",
    "harbour",
    "book",
    "loan",
    "table",
    "river",
    "stone",
    "winter",
    "letter",
    "music",
    "paper",
    "light",
    "garden",
    "road",
]
#: Name, words of a passage (None: 10 to 240, mixed), passages.
WORKLOADS: tuple[tuple[str, int | None, int], ...] = (
    ("100 tokens, 20 passages", 90, 20),
    ("240 tokens, 20 passages", 230, 20),
    ("mixed lengths, 60 passages", None, 60),
)


def passages_of(words: int | None, count: int) -> list[str]:
    """Make passages of random words."""
    random_ = random.Random(11)
    lengths = [random_.randint(10, 240) if words is None else words for _ in range(count)]
    return [" ".join(random_.choices(WORDS, k=length)) for length in lengths]


def flashrank_alone() -> Any:
    """Open our model folder with flashrank as it is."""
    from flashrank.Config import model_file_map
    from flashrank.Ranker import Ranker

    folder = find_model(RERANKER_NAME)
    model_file_map[folder.name] = "maxsim.onnx"
    return Ranker(folder.name, cache_dir=str(folder.parent), log_level="WARNING")


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return pairs per second of both, by workload."""
    from flashrank.Ranker import RerankRequest

    ours, theirs = FlashrankReranker(), flashrank_alone()
    results = {}
    for name, words, count in WORKLOADS:
        passages = passages_of(words, count)
        best = {"whence": 0.0, "flashrank alone": 0.0}
        asyncio.run(ours.score(QUERY, passages[:2]))
        for _ in range(rounds):
            start = time.perf_counter()
            asyncio.run(ours.score(QUERY, passages))
            best["whence"] = max(best["whence"], count / (time.perf_counter() - start))
            start = time.perf_counter()
            theirs.rerank(
                RerankRequest(query=QUERY, passages=[{"text": text} for text in passages])
            )
            best["flashrank alone"] = max(
                best["flashrank alone"], count / (time.perf_counter() - start)
            )
        results[name] = {engine: round(speed, 1) for engine, speed in best.items()}
    asyncio.run(ours.aclose())
    return results


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = measure(options.rounds)
    if options.json:
        print(json.dumps(results, indent=2))
        return 0
    for name, speeds in results.items():
        ratio = speeds["whence"] / speeds["flashrank alone"]
        print(
            f"{name:28s} {speeds['whence']:7.1f} pairs/s, flashrank alone"
            f" {speeds['flashrank alone']:7.1f}: {ratio:.2f}x"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
