"""Change the code in small ways and count the changes that no test notices, by package.

`python tools/mutants.py` tries every mutant of the packages that `[tool.mutmut]` names, which takes hours;
`--sample N` tries N of them, the same ones every time; names (`retrieval/fusion`, `store/acl_check`) restrict
both. What survives is printed as a diff, unless `tests/equivalent_mutants.toml` says why no test can notice it.
Exit 1 when more than `MAX_SURVIVAL` of the mutants survive.

mutmut makes the mutants and learns which tests reach which functions; `mutant_runner` tries them, several times
as fast as `mutmut run`, which collects the tests anew for each.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
#: Where mutmut puts the changed code and a copy of the tests.
COPY = ROOT / "mutants"
STATS, CHOSEN, STATES = (COPY / f"{name}.json" for name in ("mutmut-stats", "chosen", "states"))
#: Part of the mutants that may survive.
MAX_SURVIVAL = 0.05
SEED = 19
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.toml"
#: A file with few mutants, to make all others and to learn which tests run which functions.
FIRST = ROOT / "src" / "whence" / "store" / "acl_check.py"
#: States of mutants that a test noticed; a change that never ends, or crashes, is noticed too.
NOTICED = {"killed", "timeout"}


class Change(NamedTuple):
    """Lines of a mutant, without indentation."""

    before: str
    after: str


class Exceptions(NamedTuple):
    """Changes that no test can notice."""

    changes: frozenset[Change]
    rules: tuple[re.Pattern[str], ...]
    """Parts of a line that do not matter: without them both lines are equal."""

    def __contains__(self, change: object) -> bool:
        """Return whether a change is one of them."""
        if not isinstance(change, Change):
            return False
        return change in self.changes or any(
            rule.search(change.before) and rule.sub("", change.before) == rule.sub("", change.after)
            for rule in self.rules
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants and print what survives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("places", nargs="*", help="packages or modules below whence")
    parser.add_argument("--sample", type=int, default=0, help="number of mutants; 0 for all")
    parser.add_argument("--seed", type=int, default=SEED, help="selects the sample")
    parser.add_argument("--report", action="store_true", help="print the last results only")
    given = parser.parse_args(arguments)
    os.chdir(ROOT)
    if not given.report:
        make()
        run(select(_names(), given.places, given.sample, given.seed))
    return report(json.loads(STATES.read_text(encoding="utf-8")))


def select(names: Sequence[str], places: Sequence[str], sample: int, seed: int) -> list[str]:
    """Return the mutants of some places, or a sample of them."""
    prefixes = tuple(f"whence.{one.strip('/').replace('/', '.')}." for one in places)
    found = [one for one in names if not prefixes or one.startswith(prefixes)]
    if sample and sample < len(found):
        found = sorted(random.Random(seed).sample(found, sample))
    return found


def make() -> None:
    """Make the mutants, and learn which tests reach which functions."""
    # The copy of the tests would keep files that are gone.
    shutil.rmtree(COPY / "tests", ignore_errors=True)
    changed = max(file.stat().st_mtime for file in (ROOT / "tests").rglob("*.py"))
    if STATS.exists() and STATS.stat().st_mtime < changed:
        STATS.unlink()
    children = str(min(os.cpu_count() or 1, 4))
    _mutmut("run", "--max-children", children, _first_mutant())


def run(names: Sequence[str]) -> None:
    """Try mutants by name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "mutmut"
    ]
    CHOSEN.write_text(json.dumps(names), encoding="utf-8")
    paths = os.pathsep.join((str(COPY / "src"), str(ROOT / "tools")))
    tests = settings["pytest_add_cli_args_test_selection"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "mutant_runner"),
            *(*settings["pytest_add_cli_args"], *tests),
        ],
        cwd=COPY,
        env=os.environ | {"PYTHONPATH": paths, "MUTANT_UNDER_TEST": ""},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def report(states: dict[str, str]) -> int:
    """Print the figures by package and the survivors; return the exit code."""
    known = equivalents()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    survivors: list[tuple[str, Change]] = []
    for name, state in sorted(states.items()):
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


def equivalents() -> Exceptions:
    """Return the changes that no test can notice."""
    known = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    entries, rules = known.get("mutant", []), known.get("rule", [])
    assert all(entry["reason"].strip() for entry in [*entries, *rules]), "every entry has a reason"
    changes = frozenset(
        Change(
            *(
                "\n".join(map(str.strip, entry[key].strip().splitlines()))
                for key in ("before", "after")
            )
        )
        for entry in entries
    )
    return Exceptions(changes, tuple(re.compile(rule["part"]) for rule in rules))


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


def _names() -> list[str]:
    """Return the names of all mutants, sorted."""
    lines = _mutmut("results", "--all", "true").splitlines()
    return sorted(line.strip().rpartition(": ")[0] for line in lines if "__mutmut_" in line)


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
