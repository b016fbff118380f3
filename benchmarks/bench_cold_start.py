"""Measure the time of a command on an existing home, by part, and the disk space of an installation.

The lower bound is the interpreter itself (`python -c pass`), measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def wall_ms(command: list[str], env: dict[str, str], rounds: int) -> float:
    """Return the median wall time of a command in milliseconds."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(command, env=env, check=True, capture_output=True)
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def measure_ask(whence: str, env: dict[str, str], rounds: int) -> dict[str, float]:
    """Return the times of a question: by the clock, of the processors, and of its stages."""
    ask = [whence, "ask", "How many days of annual leave do employees get?", "--json"]
    figures = {"ask_ms": wall_ms(ask, env, rounds)}
    figures["ask_no_rerank_ms"] = wall_ms([*ask, "--no-rerank"], env, rounds)
    before = os.times()
    done = subprocess.run(ask, env=env, check=True, capture_output=True)
    after = os.times()
    used = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )
    figures["ask_cpu_ms"] = used * 1e3
    stages = json.loads(done.stdout)["stages"]
    return figures | {f"ask_{one['stage']}_ms": one["duration_ms"] for one in stages}


def folder_mb(folder: Path) -> float:
    """Return the size of a folder on disk in megabytes, each inode once."""
    sizes = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            info = path.stat()
            sizes[info.st_ino] = info.st_blocks * 512
    return sum(sizes.values()) / 1e6


def measure(rounds: int) -> dict[str, float]:
    """Measure everything on a home of its own that holds the example handbook."""
    home = Path(tempfile.mkdtemp(prefix="whence-bench-"))
    env = os.environ | {"WHENCE_HOME": str(home)}
    python, whence = sys.executable, str(BIN / "whence")
    figures = {}
    try:
        subprocess.run(
            [whence, "index", str(ROOT / "examples" / "handbook")],
            env=env, check=True, capture_output=True,
        )  # fmt: skip
        figures["interpreter_ms"] = wall_ms([python, "-c", "pass"], env, rounds)
        figures["import_cli_ms"] = wall_ms(
            [python, "-c", "import whence.surfaces.cli.main"], env, rounds
        )
        search = [whence, "search", "how many days of leave", "--json"]
        figures["search_ms"] = wall_ms(search, env, rounds)
        done = subprocess.run(search, env=env, check=True, capture_output=True)
        parts = json.loads(done.stdout)["latency_ms"]
        figures |= {f"part_{name}_ms": value for name, value in parts.items()}
        figures |= measure_ask(whence, env, rounds)
        # With another process on the home the server is running already.
        holder = subprocess.Popen(
            [whence, "run", str(ROOT / "flows" / "all-in-one.yaml")],
            env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        assert holder.stderr is not None
        while holder.stderr.readline().strip() not in (b"ready", b""):
            pass
        figures["search_attached_ms"] = wall_ms(search, env, rounds)
        holder.terminate()
        holder.wait(30)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    figures["installed_mb"] = folder_mb(Path(sys.prefix))
    return figures


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.rounds)
    if options.json:
        print(json.dumps(figures))
        return
    floor = figures["interpreter_ms"]
    for name, value in figures.items():
        ratio = f"  {value / floor:6.1f} x interpreter" if name.endswith("_ms") else ""
        print(f"{name:28s} {value:9.1f}{ratio}")


if __name__ == "__main__":
    main()
