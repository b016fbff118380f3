"""Change the code in small ways and count the changes that no test notices, by package.

`python tools/mutants.py` tries every mutant of the packages that `[tool.mutmut]` names, which takes hours;
`--sample N` tries N of them, the same ones every time; names (`retrieval/fusion`, `store/acl_check`) restrict
both. What survives is printed as a diff, unless `tests/equivalent_mutants.toml` says why no test can notice it.
Exit 1 when more than `MAX_SURVIVAL` of the mutants survive.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
#: Part of the mutants that may survive.
MAX_SURVIVAL = 0.05
SEED = 19
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.toml"
#: A file with few mutants, to make all others and to learn which tests run which functions.
FIRST = ROOT / "src" / "whence" / "store" / "acl_check.py"
#: States of mutants that a test noticed; a change that never ends, or crashes, is noticed too.
NOTICED = {"killed", "timeout", "suspicious", "segfault", "caught by type check"}


class Change(NamedTuple):
    """Lines of a mutant, without indentation."""

    before: str
    after: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants and print what survives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("places", nargs="*", help="packages or modules below whence")
    parser.add_argument("--sample", type=int, default=0, help="number of mutants; 0 for all")
    parser.add_argument("--seed", type=int, default=SEED, help="selects the sample")
    parser.add_argument("--report", action="store_true", help="print the last results only")
    given = parser.parse_args(arguments)
    os.chdir(ROOT)
    partly = bool(given.sample or given.places)
    if not given.report:
        # The copy of the tests would keep files that are gone.
        shutil.rmtree(ROOT / "mutants" / "tests", ignore_errors=True)
        run([_first_mutant()] if partly else [])
    names = _names()
    if partly:
        chosen = select(sorted(names), given.places, given.sample, given.seed)
        if not given.report:
            run(chosen)
            names = _names()
        names = {name: names[name] for name in chosen}
    return report(names)


def select(names: Sequence[str], places: Sequence[str], sample: int, seed: int) -> list[str]:
    """Return the mutants of some places, or a sample of them."""
    prefixes = tuple(f"whence.{one.strip('/').replace('/', '.')}." for one in places)
    found = [one for one in names if not prefixes or one.startswith(prefixes)]
    if sample and sample < len(found):
        found = sorted(random.Random(seed).sample(found, sample))
    return found


def run(names: Sequence[str]) -> None:
    """Try mutants by name; all of them when none is named."""
    children = str(min(os.cpu_count() or 1, 4))
    _mutmut("run", "--max-children", children, *names)


def report(states: dict[str, str]) -> int:
    """Print the figures by package and the survivors; return the exit code."""
    known = equivalents()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    survivors: list[tuple[str, Change]] = []
    for name, state in sorted(states.items()):
        if state == "not checked":
            continue
        room = ".".join(name.split(".")[1:3]) if ".acl_" in name else name.split(".")[1]
        counts[room]["tried"] += 1
        if state in NOTICED:
            continue
        change = changed_lines(_mutmut("show", name))
        counts[room]["equivalent" if change in known else "survived"] += 1
        if change not in known:
            survivors.append((f"{name}: {state}", change))
    for name, (before, after) in survivors:
        print(f"\n{name}\n  - {before.replace(chr(10), chr(10) + '    ')}")
        print(f"  + {after.replace(chr(10), chr(10) + '    ')}")
    print(f"\n{'room':24} {'tried':>6} {'equivalent':>10} {'survived':>9} {'share':>7}")
    for room, count in sorted(counts.items()):
        _print_row(room, count)
    total: Counter[str] = sum(counts.values(), Counter())
    _print_row("all", total)
    return int(len(survivors) > MAX_SURVIVAL * total["tried"])


def _print_row(room: str, count: Counter[str]) -> None:
    share = count["survived"] / count["tried"] if count["tried"] else 0.0
    figures = f"{count['tried']:>6} {count['equivalent']:>10} {count['survived']:>9} {share:>7.1%}"
    print(f"{room:24} {figures}")


def equivalents() -> set[Change]:
    """Return the changes that no test can notice."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    assert all(entry["reason"].strip() for entry in entries), "every entry has a reason"
    return {
        Change(
            *(
                "\n".join(map(str.strip, entry[key].strip().splitlines()))
                for key in ("before", "after")
            )
        )
        for entry in entries
    }


def changed_lines(diff: str) -> Change:
    """Return the lines that a diff removes and adds."""
    body = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    return Change(
        *("\n".join(line[1:].strip() for line in body if line.startswith(mark)) for mark in "-+")
    )


def _first_mutant() -> str:
    functions = (
        one
        for one in ast.parse(FIRST.read_text(encoding="utf-8")).body
        if isinstance(one, ast.FunctionDef)
    )
    module = ".".join(FIRST.relative_to(ROOT / "src").with_suffix("").parts)
    return f"{module}.x_{next(functions).name}__mutmut_1"


def _names() -> dict[str, str]:
    """Return the state of each mutant by name."""
    if not (ROOT / "mutants").is_dir():
        return {}
    lines = _mutmut("results", "--all", "true").splitlines()
    pairs = (line.strip().rpartition(": ") for line in lines if "__mutmut_" in line)
    return {name: state for name, _, state in pairs}


def _mutmut(*words: str) -> str:
    # The copy in `mutants` must win over the path of this tree.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [Path(sys.executable).with_name("mutmut"), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"mutmut {words[0]} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
