"""Measure the import of code bundles, embedding excluded.

A synthetic bundle (texts of some 250 characters, five edges a node) is imported as by `whence import`, with
vectors that cost nothing. Processor time is given for this process with its children, and for the database.

- `read` reads and checks the bundle.
- `import` stores and publishes it; `without` excludes the stage of embedding: from the first text to be
  embedded to the last vector.
- `copy` is a bare COPY of the same rows into tables with the same indexes, without foreign keys; `floor` is
  `copy` while the bundle is unpacked and parsed.
- `again` imports the same content, `replace` other content in its place.

Run `python -m benchmarks.bench_import`; `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
import zipfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.support.small_bundles import import_into, write_small

from benchmarks.cpu import cpu_s, parent
from whence.code.bundles.bundle import open_bundle
from whence.code.bundles.bundle_reader import validate_bundle
from whence.code.snapshots.store import PostgresCode
from whence.schema.embedding import Purpose
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore
from whence.testing.stub_models import HashEmbedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

EDGES_PER_NODE = 5
AREAS = ("Payment", "Token", "Query", "Invoice", "Shipment", "Graph", "Risk", "Audit", "Cache")
ROLES = ("Service", "Validator", "Builder", "Store", "Policy", "Ranker", "Loader", "Writer")
TEMPLATE = (
    "// component {n}: joins {0} and {1} before {2}\n"
    "namespace Bench.{3};\n"
    "public class {4}{n} {{ public void Run() {{ {5}.Load(); return new {6}({7}, {n}); }} }}\n"
    "// called by {8}, writes what {9} reads\n"
)


#: The tables that an import writes a row a node or more into, and how those of a collection are told.
TABLES = {
    "document": "collection_id = {0}",
    "chunk": "collection_id = {0}",
    "chunk_terms": "collection_id = {0}",
    "term": "collection_id = {0}",
    "posting": "segment IN (SELECT id FROM segment WHERE collection_id = {0})",
    "code_node": "collection_id = {0}",
    "code_neighbours": "collection_id = {0}",
    "chunk_vec": "collection_id = {0}",
}


class FreeEmbedder(HashEmbedder):
    """Embeds every text as the same vector."""

    #: By the clock: when it was asked first since this was 0, and when it answered last.
    asked_at = answered_at = 0.0

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """Return float32 vectors of shape (len(texts), dimension)."""
        self.asked_at = self.asked_at or time.perf_counter()
        vectors = np.zeros((len(texts), self.model.dimension), dtype=np.float32)
        vectors[:, 0] = 1.0
        self.answered_at = time.perf_counter()
        return vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count every text as one."""
        return [1] * len(texts)


def make_bundle(path: Path, n: int, seed: int) -> Path:
    """Write a bundle of n nodes; the seed decides texts and edges."""
    rng = random.Random(seed)
    names = [area + role for area in AREAS for role in ROLES]
    nodes = {
        f"C{k:07}": {
            "Text": TEMPLATE.format(*rng.choices(names, k=10), n=k),
            "Class": rng.choice(names),
            "Member": "Run",
            "Type": "Method",
            "RepoRelativePath": f"src/{k // 100}/File{k}.cs",
            "acl_allow": rng.choice([[], [], ["finance"], ["hr", "ops"]]),
            "classification_labels_all": rng.choice([[], ["internal"]]),
        }
        for k in range(n)
    }
    edges = [
        (source, f"C{target:07}", "dep")
        for source in nodes
        for target in rng.sample(range(n), EDGES_PER_NODE)
    ]
    return write_small(path, nodes, edges, repo="Bench")


async def _timed(
    work: Callable[[], Awaitable[object]], n: int, server: int = 0
) -> dict[str, float]:
    both, wall, alone, cpu = cpu_s(server), time.perf_counter(), time.process_time(), _here_s()
    await work()
    wall, cpu = time.perf_counter() - wall, _here_s() - cpu
    database = cpu_s(server) - both - (time.process_time() - alone)
    return {
        "seconds": round(wall, 2),
        "nodes_per_s": round(n / wall),
        "cpu_s": round(cpu, 2),
        "server_cpu_s": round(database if server else 0.0, 2),
    }


def _here_s() -> float:
    """Return the processor time of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


async def take_rows(connection: Any, folder: Path) -> dict[str, Path]:
    """Write the rows of the only snapshot to files; gives the files."""
    number = await connection.fetchval("SELECT collection_id FROM code_snapshot")
    files = {}
    for table, condition in TABLES.items():
        files[table] = folder / table
        await connection.copy_from_query(
            f"SELECT * FROM {table} WHERE {condition.format(number)}",
            output=files[table],
            format="binary",
        )
    return files


async def make_tables(connection: Any) -> None:
    """Make empty tables like those that an import writes."""
    await connection.execute("CREATE SCHEMA bare")
    for table in TABLES:
        await connection.execute(f"CREATE TABLE bare.{table} (LIKE {table} INCLUDING ALL)")


def read_bare(path: Path) -> None:
    """Unpack a bundle and parse its JSON, a member at a time; nothing is checked."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            if name.endswith(".json"):
                json.loads(data)


async def copy_rows(connection: Any, files: dict[str, Path]) -> None:
    """Write the rows into the empty tables."""
    await connection.execute("SET synchronous_commit = off")
    for table, file in files.items():
        await connection.copy_to_table(table, schema_name="bare", source=file, format="binary")
    await connection.execute("RESET synchronous_commit; DROP SCHEMA bare CASCADE")


async def measure(n: int) -> dict[str, Any]:
    """Import bundles of n nodes; gives the figures of each step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second = (make_bundle(folder / f"{seed}.zip", n, seed) for seed in (1, 2))
        steps: dict[str, Any] = {}
        embedder = FreeEmbedder(384)
        steps["read"] = await _timed(
            lambda: asyncio.to_thread(validate_bundle, open_bundle(first)), n
        )
        async with (
            EmbeddedServer(folder / "home") as server,
            await PostgresStore.connect(server) as store,
        ):
            async with store.pool.connection() as connection:
                process = parent(connection.get_server_pid())
            for step, path in (("import", first), ("again", first), ("replace", second)):
                embedder.asked_at = 0.0
                steps[step] = await _timed(
                    lambda path=path: import_into(  # type: ignore[misc]
                        store, [path], embedder=embedder, replace=True
                    ),
                    n,
                    process,
                )
                if step == "import":
                    without = steps[step]["seconds"] - (embedder.answered_at - embedder.asked_at)
                    steps["without"] = {
                        "seconds": round(without, 2),
                        "nodes_per_s": round(n / without),
                    }
                    async with store.pool.connection() as connection:
                        files = await take_rows(connection, folder)
                        for floor in ("copy", "floor"):
                            await make_tables(connection)
                            work = [copy_rows(connection, files)]
                            if floor == "floor":
                                work.append(asyncio.to_thread(read_bare, path))
                            steps[floor] = await _timed(
                                lambda: asyncio.gather(*work),  # noqa: B023 - awaited here
                                n,
                                process,
                            )
            (record,) = await PostgresCode(store).snapshots()
            steps["purge"] = await _timed(
                lambda: PostgresCode(store).purge_snapshot(record.info.snapshot_id), n, process
            )
    return {"nodes": n, "edges": n * EDGES_PER_NODE, "steps": steps}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(measure(options.nodes))
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['nodes']:,} nodes, {result['edges']:,} edges")
    print(f"{'step':<9}{'seconds':>9}{'nodes/s':>10}{'cpu s':>8}{'server':>8}")
    for step, one in result["steps"].items():
        print(
            f"{step:<9}{one['seconds']:>9.2f}{one['nodes_per_s']:>10,}"
            f"{one.get('cpu_s', 0.0):>8.2f}{one.get('server_cpu_s', 0.0):>8.2f}"
        )


if __name__ == "__main__":
    main()
