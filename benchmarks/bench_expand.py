"""Measure graph expansion with rights, order and a limit against a bare recursive query.

A synthetic graph of 200,000 nodes and 1,000,000 edges with long-tailed degrees, 90 % of the nodes visible.
Walks start from five random visible nodes, are four steps deep and stop at 200 nodes. The same walk runs on
a graph of a tenth of the size, since the cost depends on the nodes visited, and the texts of 200 nodes are
read. Run `python -m benchmarks.bench_expand`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.code_edges import CodeEdge
from tests.support.graph_tables import write_graph

from whence.code.snapshots.store import PostgresCode
from whence.schema.access import Access, DocumentTags
from whence.schema.graph import ExpandRequest
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore

DEPTH, CAP, VISIBLE, SEEDS = 4, 200, 0.9, 5
RELATIONS = ("cs_dep", *(f"sql_{name}" for name in ("Calls", "Executes", "ReadsFrom", "WritesTo")))
READER = Access(frozenset({"team"}))
#: Rights of a visible node, drawn evenly, so that a reader has more than one class.
OPEN = (DocumentTags(), DocumentTags(("team",)), DocumentTags(("team", "other")))
CLOSED = DocumentTags(("other",))

# Breadth first as well, since a recursive query works through its rows in the order they came.
BARE = (
    "WITH RECURSIVE walk(node, depth) AS (SELECT unnest($2::int[]), 0 UNION"
    " SELECT e.to_node, w.depth + 1 FROM walk w"
    " JOIN bare_edge e ON e.collection_id = $1 AND e.from_node = w.node WHERE w.depth < $3)"
    " SELECT node, min(depth) FROM walk GROUP BY node LIMIT $4"
)
# The same edges, a row for each, in an index that holds all there is to know.
BARE_EDGES = (
    "CREATE TABLE bare_edge AS SELECT e.collection_id, e.node AS from_node, o.node AS to_node, e.relation"
    " FROM code_neighbours e, unnest(e.others) o(node) WHERE NOT e.back;"
    " ALTER TABLE bare_edge ADD PRIMARY KEY (collection_id, from_node, relation, to_node)"
)


def graph(nodes: int, edges: int, seed: int) -> tuple[dict[str, DocumentTags], list[CodeEdge]]:
    """Draw a graph: how much leads from and to a node follows a power law."""
    rng = np.random.default_rng(seed)
    ids = [f"Bench::s{nodes}::cs::C{number:07}" for number in range(nodes)]
    hidden = rng.random(nodes) >= VISIBLE
    kinds = rng.integers(0, len(OPEN), nodes)
    tags = {
        one: CLOSED if hide else OPEN[kind]
        for one, hide, kind in zip(ids, hidden.tolist(), kinds.tolist(), strict=True)
    }
    weight = 1.0 / (np.arange(nodes) + 50) ** 0.5
    weight /= weight.sum()
    ends = [
        rng.permutation(nodes)[rng.choice(nodes, int(edges * 1.02), p=weight)] for _ in range(2)
    ]
    kind = rng.integers(0, len(RELATIONS), len(ends[0]))
    found = np.unique(np.stack([*ends, kind], axis=1), axis=0)
    found = found[rng.permutation(len(found))[:edges]]
    return tags, [
        CodeEdge(from_id=ids[a], to_id=ids[b], relation=RELATIONS[k]) for a, b, k in found.tolist()
    ]


async def times_ms(
    seeds: list[list[str]], ways: dict[str, Callable[[list[str]], Awaitable[Any]]]
) -> dict[str, Any]:
    """Measure several ways in turn from the same nodes, so that a busy machine hits them alike."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for seed in [*seeds[:5], *seeds]:
        for name, way in ways.items():
            start = time.perf_counter()
            await way(seed)
            times[name].append((time.perf_counter() - start) * 1e3)
    return {
        name: {
            "p50": statistics.median(found[5:]),
            "p95": sorted(found[5:])[int(len(found[5:]) * 0.95)],
        }
        for name, found in times.items()
    }


async def measure_one(nodes: int, edges: int, asked: int) -> dict[str, Any]:
    """Fill a store with one graph and walk it."""
    tags, drawn = graph(nodes, edges, seed=1)
    visible = sorted(one for one, rights in tags.items() if rights != CLOSED)
    chosen = np.random.default_rng(2).integers(0, len(visible), (asked, SEEDS)).tolist()
    seeds = [[visible[at] for at in row] for row in chosen]
    numbers = {one: number for number, one in enumerate(sorted(tags))}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            EmbeddedServer(Path(folder) / "home") as server,
            await PostgresStore.connect(server) as store,
        ):
            began = time.perf_counter()
            async with store.pool.connection() as connection:
                await write_graph(connection, tags, drawn)
                fill_s = time.perf_counter() - began
                await connection.execute(BARE_EDGES)
                await connection.execute("VACUUM ANALYZE")
                collection = await connection.fetchval("SELECT max(id) FROM collection")
            sizes: list[int] = []
            chunks: list[str] = []

            async def walk(start: list[str]) -> None:
                reply = await PostgresCode(store).expand(
                    ExpandRequest(
                        access=READER,
                        snapshot=f"s{nodes}",
                        seeds=tuple(start),
                        max_depth=DEPTH,
                        max_nodes=CAP,
                    )
                )
                sizes.append(len(reply.nodes))
                chunks[:] = [node.chunk_id for node in reply.nodes]

            async def bare(start: list[str]) -> None:
                nodes = [numbers[one] for one in start]
                async with store.pool.connection() as connection:
                    await connection.fetch(BARE, collection, nodes, DEPTH, CAP)

            async def texts(_: list[str]) -> None:
                await store.chunk_texts("graph", chunks, READER)

            found = await times_ms(seeds, {"expand": walk, "bare": bare, "texts": texts})
    return {
        "nodes": nodes,
        "edges": len(drawn),
        "fill_s": fill_s,
        "median_nodes": statistics.median(sizes),
        "ms": found,
        "ratio": found["expand"]["p50"] / found["bare"]["p50"],
    }


async def measure(nodes: int, edges: int, asked: int) -> dict[str, Any]:
    """Measure the whole graph and one of a tenth of its size."""
    small = await measure_one(nodes // 10, edges // 10, asked)
    large = await measure_one(nodes, edges, asked)
    growth = large["ms"]["expand"]["p50"] / small["ms"]["expand"]["p50"]
    return {"small": small, "large": large, "growth_for_ten_times_the_graph": growth}


def report(result: dict[str, Any]) -> None:
    """Print for people."""
    for name in ("small", "large"):
        one = result[name]
        print(f"{one['nodes']} nodes, {one['edges']} edges, written in {one['fill_s']:.1f} s")
        for way, ms in one["ms"].items():
            print(f"  {way:8} p50 {ms['p50']:7.2f} ms   p95 {ms['p95']:7.2f} ms")
        print(
            f"  expand is {one['ratio']:.2f} x the bare query; {one['median_nodes']:.0f} nodes a walk"
        )
    growth = result["growth_for_ten_times_the_graph"]
    print(f"ten times the graph: {growth:.2f} x the time of a walk")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--walks", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(measure(options.nodes, options.edges, options.walks))
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        report(result)


if __name__ == "__main__":
    main()
