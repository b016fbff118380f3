"""Ask why-not for every passage of a collection, and compare the numbers with a search without a limit.

The collection must exist; its passages are ranked by `Engine.run` for one question, and `why_not` is
asked for each. Counted are wrong ranks, scores and cuts. For some passages the question is asked again with the
limit that was told and with one less: the first must retrieve the passage, the second must not. Times are those
of `why_not` after the first one of the answer, whose ranking is made anew.
Run `python -m benchmarks.bench_why_not --home HOME --question "..."`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

from whence import Access, Engine
from whence.operations.search import Search
from whence.retrieval.results import RetrievalResult

ASKED_AGAIN = 12
NAMES = ("rank", "score", "dense_score", "sparse_score")
CUT = ("over_fetch_limit", "below_threshold")
#: Largest fetch limit of the shipped flow.
MOST = 1500


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Ask for all passages, and for some again with other limits."""
    question, collection, access = options.question, options.collection, Access.public()
    wrong: list[str] = []
    times: list[float] = []
    limits: dict[str, int] = {}
    async with Engine(home=options.home, warm_up="questions") as engine:
        asked = await engine.ask(question, collection=collection)
        query = Search(
            query=question, top_k=100_000, collection=collection, access=access, distinct=False
        )
        found = (await engine.run(query)).results
        kept = await _kept(engine, asked.answer_id)
        for hit in found:
            started = time.perf_counter()
            told = await engine.why_not(hit.chunk.id, asked.answer_id)
            times.append((time.perf_counter() - started) * 1e3)
            numbers = told.numbers
            same = tuple(numbers.get(name) for name in NAMES) == _expected(hit)
            missed = told.code in ("not_retrieved", "filtered_out")
            if missed:
                limits[hit.chunk.id] = numbers["enters_at_fetch_limit"]
                cut, gap = found[len(kept) - 1].similarity_score, numbers["gap"]
                same = same and numbers["cut_score"] == cut and gap == cut - hit.similarity_score
            if not same or missed == (hit.chunk.id in kept):
                wrong.append(hit.chunk.id)
        again = [one for one in limits.items() if one[1] <= MOST]
        for chunk_id, limit in again[:: max(1, len(again) // ASKED_AGAIN)]:
            for one, is_kept in ((limit, True), (limit - 1, False)):
                answer = await engine.ask(question, collection=collection, fetch_limit=one)
                if (chunk_id in await _kept(engine, answer.answer_id)) is not is_kept:
                    wrong.append(f"{chunk_id} at {one}")
    times.sort()
    return {
        "passages": len(found),
        "not_retrieved": len(limits),
        "wrong": len(wrong),
        "examples": wrong[:5],
        "slowest_ms": round(times[-1], 1),
        "p50_ms": round(statistics.median(times), 1),
        "p95_ms": round(times[int(len(times) * 0.95)], 1),
    }


def _expected(hit: RetrievalResult) -> tuple[Any, ...]:
    scores = hit.score_breakdown
    return hit.rank, hit.similarity_score, scores["dense_score"], scores["sparse_score"]


async def _kept(engine: Engine, answer_id: str) -> set[str]:
    trace = await engine.explain(answer_id)
    return {one.chunk_id for one in trace.candidates if one.reason_code not in CUT}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--home", required=True)
    parser.add_argument("--collection", default="default")
    parser.add_argument("--question", default="Does vitamin D reduce the risk of cancer?")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = asyncio.run(measure(options))
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        for name, value in report.items():
            print(f"{name:14} {value}")


if __name__ == "__main__":
    main()
