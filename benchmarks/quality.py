"""Quality of every search mode on test collections in BEIR's layout, and the mean over them.

    python -m benchmarks.quality FOLDER... [--mode all] [--home FOLDER] [--json]

Each collection is measured by `whence eval beir` in a process of its own. The home keeps what was indexed, so a
second run embeds nothing; without `--home` it is a temporary one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MEASURES = ("ndcg@10", "recall@100", "mrr@10")


def measure(folder: Path, home: Path, mode: str) -> dict[str, Any]:
    """Measure one collection."""
    words = [sys.executable, "-m", "whence.cli.main", "--home", str(home), "eval", "beir"]
    done = subprocess.run(
        [*words, str(folder), "--mode", mode, "--json"], stdout=subprocess.PIPE, check=True
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def means(reports: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Give the plain mean over collections of each measure, of the modes that all of them have."""
    modes = [mode for mode in reports[0]["modes"] if all(mode in one["modes"] for one in reports)]
    return {
        mode: {
            name: sum(one["modes"][mode][name] for one in reports) / len(reports)
            for name in MEASURES
        }
        for mode in modes
    }


def tell(name: str, modes: dict[str, Any]) -> None:
    """Print the lines of one collection."""
    for mode, scores in modes.items():
        values = "  ".join(f"{measure_} {scores[measure_]:.4f}" for measure_ in MEASURES)
        latency = scores.get("latency_ms")
        times = f"  p50 {latency['p50']:.1f} ms  p95 {latency['p95']:.1f} ms" if latency else ""
        print(f"{name:16} {mode:8} {values}{times}", flush=True)


def main() -> int:
    """Measure all collections given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--mode", default="all")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reports = []
    with tempfile.TemporaryDirectory() as temporary:
        for folder in options.folders:
            reports.append(measure(folder, options.home or Path(temporary), options.mode))
            if not options.json:
                tell(reports[-1]["dataset"], reports[-1]["modes"])
    if options.json:
        print(json.dumps({"collections": reports, "mean": means(reports)}, indent=2))
    else:
        tell("mean", means(reports))
    return 0


if __name__ == "__main__":
    sys.exit(main())
