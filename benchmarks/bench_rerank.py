"""Measure reranking 60 passages by their kept token vectors against reading the texts of 20.

    python -m benchmarks.bench_rerank [--rounds 5] [--json]

Rounds alternate, and the best of each counts. The exit code is 1 when the ratio is above 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time

from benchmarks.bench_ingest import WORDS
from whence.models.late_interaction import LateInteractionReranker
from whence.models.local_embedder import LocalEmbedder

QUERY = "how long may a reader keep a book"
_KEPT, _READ = 60, 20


def passages(count: int) -> list[str]:
    """Return passages of 20 to 180 random words."""
    random_ = random.Random(11)
    return [" ".join(random_.choices(WORDS, k=random_.randint(20, 180))) for _ in range(count)]


async def measure(rounds: int) -> dict[str, float]:
    """Return seconds of both ways, their ratio, and bytes a passage."""
    embedder = LocalEmbedder()
    reranker = LateInteractionReranker(embedder)
    texts = passages(_KEPT)
    _, codes = await embedder.embed_coded(texts)
    best = {"kept": float("inf"), "read": float("inf")}
    for _ in range(rounds):
        start = time.perf_counter()
        await reranker.score_coded(QUERY, texts, codes)
        middle = time.perf_counter()
        await reranker.score(QUERY, texts[:_READ])
        end = time.perf_counter()
        best = {
            "kept": min(best["kept"], middle - start),
            "read": min(best["read"], end - middle),
        }
    await embedder.aclose()
    size = sum(map(len, codes)) / len(codes)
    tokens = sum(embedder.count_tokens(texts)) / len(texts)
    return {
        f"{_KEPT} by kept vectors, s": round(best["kept"], 4),
        f"{_READ} by their texts, s": round(best["read"], 4),
        "ratio": round(best["kept"] / best["read"], 3),
        "bytes a passage": round(size),
        "tokens a passage": round(tokens, 1),
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = asyncio.run(measure(options.rounds))
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(f"{name:24s} {value}" for name, value in found.items()))
    return 1 if found["ratio"] > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
