"""Measure nDCG@10, Recall@100 and MRR@10 of 10,000 queries with 100 results against `ir_measures`.

Both have their input in memory: ours the grades in rank order, the reference its own objects. Run `python
-m benchmarks.bench_metrics`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from typing import Any

import ir_measures
from ir_measures import RR, R, nDCG

from whence.evaluation.beir.scores import scores_of
from whence.evaluation.run import RecordedSearch, Run
from whence.evaluation.searcher import Passage
from whence.evaluation.suite import Query

JUDGED = 20


def made(
    queries: int, results: int
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Return judgements and rankings, the same every time."""
    rng = random.Random(1)
    qrels: dict[str, dict[str, int]] = {}
    runs: dict[str, dict[str, float]] = {}
    for number in range(queries):
        ranked = rng.sample(range(10 * results), results)
        judged = rng.sample(ranked, JUDGED // 2) + rng.sample(range(10 * results), JUDGED // 2)
        qrels[f"q{number}"] = {f"d{one}": rng.randint(0, 3) for one in judged} | {
            f"d{judged[0]}": 1
        }
        runs[f"q{number}"] = {f"d{one}": 1.0 - n / results for n, one in enumerate(ranked)}
    return qrels, runs


def timed(work: Callable[[], Any], rounds: int = 3) -> tuple[float, Any]:
    """Return the shortest time of several rounds, and the result."""
    times, result = [], None
    for _ in range(rounds):
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
    return min(times), result


def main() -> int:
    """Measure both and compare what they say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--results", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    qrels, rankings = made(options.queries, options.results)
    run = Run(
        first=[
            RecordedSearch(
                query=Query(text="", id=query, grades=qrels[query]),
                passages=[Passage(document_id=one, score=score) for one, score in ranking.items()],
                latency_ms=1.0,
            )
            for query, ranking in rankings.items()
        ]
    )
    measures = [nDCG @ 10, R @ 100, RR @ 10]
    ours_s, ours = timed(lambda: scores_of(run, options.results))
    theirs_s, theirs = timed(lambda: ir_measures.calc_aggregate(measures, qrels, rankings))
    values = {"nDCG@10": ours.ndcg_at_10, "R@100": ours.recall_at_100, "RR@10": ours.mrr_at_10}
    worst = max(abs(values[str(one)] - theirs[one]) for one in measures)
    document = {
        "queries": options.queries,
        "results": options.results,
        "whence_s": round(ours_s, 3),
        "ir_measures_s": round(theirs_s, 3),
        "ratio": round(ours_s / theirs_s, 2),
        "largest_difference": worst,
    }
    if options.json:
        print(json.dumps(document))
    else:
        print(
            f"{options.queries} queries x {options.results} results:"
            f" whence {ours_s:.3f} s, ir_measures {theirs_s:.3f} s, ratio {ours_s / theirs_s:.2f},"
            f" largest difference {worst:.1e}"
        )
    return 0 if worst < 2e-6 else 1


if __name__ == "__main__":
    raise SystemExit(main())
