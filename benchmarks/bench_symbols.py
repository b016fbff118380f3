"""Measure whether a query that is a name finds its definition first.

A synthetic C# release and installed packages are bundled and imported; up to 100 names of each kind are
searched with and without the symbol lookup: `types` and `functions` by name, `members` by the last part of
the name, `qualified` with their class. Printed are the number of names whose definition is first, and the
mean reciprocal rank. Most of the time is embedding. Run `python -m benchmarks.bench_symbols`; `--packages`
names other packages, `--json` prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.support.fake_bundles import write_fake_bundles

from whence import Access, Engine
from whence.code.bundler.builder import bundle_folder
from whence.evaluation.measures import mean
from whence.retrieval import hybrid

PACKAGES = ("httpx", "rich", "starlette")
MODES = ("bm25", "hybrid")
MOST_NAMES = 100
DEPTH = 20
_ACL = "architecture finance hr integration legal ops security support"
_LABELS = "confidential internal public restricted secret sensitive"
#: Rights of a reader who sees every node of the made-up release.
READER = Access(frozenset(_ACL.split(" ")), frozenset(_LABELS.split(" ")), 20)


def folder_of(package: str) -> Path:
    """Return the folder of an installed package."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"error: package {package!r} is not installed")
    return Path(found.origin).parent


def names_of(bundle: Path) -> dict[str, list[str]]:
    """Return names to search for, by kind, spread over all."""
    with zipfile.ZipFile(bundle) as archive:
        (member,) = [one for one in archive.namelist() if one.endswith("/chunks.json")]
        nodes = json.loads(archive.read(member))
    kinds: dict[str, set[str]] = {}
    for node in nodes:
        owner, name = node["Class"], node["Member"]
        if node["Type"] == "Module":
            continue
        if not name:
            kinds.setdefault("types", set()).add(owner)
        elif not owner:
            kinds.setdefault("functions", set()).add(name)
        else:
            kinds.setdefault("members", set()).add(name)
            kinds.setdefault("qualified", set()).add(f"{owner}.{name}")
    return {kind: _spread(names) for kind, names in sorted(kinds.items())}


def _spread(names: Iterable[str]) -> list[str]:
    long = sorted(name for name in names if len(name) > 2)
    return long[:: max(1, len(long) // MOST_NAMES)][:MOST_NAMES]


async def ranks(
    engine: Engine, snapshot: str, kind: str, names: list[str], mode: str
) -> list[float]:
    """Return the reciprocal rank of the first definition of each name, 0 where there is none."""
    found = []
    for name in names:
        hits = await engine.search(
            name, snapshot=snapshot, mode=mode, top_k=DEPTH, threshold=0.0, access=READER
        )
        called = [str(hit.chunk.metadata["heading"]) for hit in hits]
        places = [
            place
            for place, heading in enumerate(called, 1)
            if heading == name or (kind == "members" and heading.endswith(f".{name}"))
        ]
        found.append(1 / places[0] if places else 0.0)
    return found


async def measure(packages: Iterable[str]) -> AsyncIterator[dict[str, Any]]:
    """Import and search; yields a row for each snapshot, kind of name and mode."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundles = {"made-up C#": write_fake_bundles(folder / "fake")[0]}
        for one in packages:
            bundles[one] = folder / f"{one}.zip"
            bundle_folder(folder_of(one), bundles[one])
        async with Engine(home=folder / "home") as engine:
            for one, path in bundles.items():
                imported = await engine.code.import_bundles([path])
                snapshot = imported.imports[0].snapshot_id
                for kind, names in names_of(path).items():
                    for mode in MODES:
                        with patch.object(hybrid, "parse_symbol_query", return_value=None):
                            before = await ranks(engine, snapshot, kind, names, mode)
                        after = await ranks(engine, snapshot, kind, names, mode)
                        yield {
                            "code": one,
                            "kind": kind,
                            "mode": mode,
                            "names": len(names),
                            "first_without": before.count(1.0),
                            "first": after.count(1.0),
                            "mrr_without": mean(before),
                            "mrr": mean(after),
                        }


async def run(packages: Iterable[str], as_json: bool) -> None:
    """Measure and print."""
    if as_json:
        print(json.dumps([row async for row in measure(packages)]))
        return
    print(f"{'code':<11}{'kind':<11}{'mode':<8}{'names':>6}{'first':>13}{'MRR':>16}")
    async for one in measure(packages):
        first = f"{one['first_without']} -> {one['first']}"
        mrr = f"{one['mrr_without']:.3f} -> {one['mrr']:.3f}"
        head = f"{one['code']:<11}{one['kind']:<11}{one['mode']:<8}{one['names']:>6}"
        print(f"{head}{first:>13}{mrr:>16}", flush=True)


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    asyncio.run(run(options.packages, options.json))


if __name__ == "__main__":
    main()
