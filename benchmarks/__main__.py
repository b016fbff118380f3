"""Run every benchmark one after the other: `python -m benchmarks [NAME...]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(names: list[str]) -> int:
    """Run the named benchmarks, all when none is named, each in a process of its own."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = sorted(set(names) - set(known))
    if unknown:
        sys.stderr.write(f"error: no benchmark {unknown[0]!r}\nhint: one of {', '.join(known)}\n")
        return 2
    failed = []
    for name in names or known:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.bench_{name}"]
        if subprocess.run(command, cwd=HERE.parent, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
