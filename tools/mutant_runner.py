"""A pytest plugin that collects the tests once and runs them for each mutant in a child process.

`tools/mutants.py` starts it in the folder `mutants`, which mutmut made. `CHOSEN` names the mutants; `STATES`
gets their states as they become known. A child runs the tests that reach the changed function, the shortest
first, until one fails. The parent runs none, so that no cache of it holds what a mutant changes.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

CHOSEN, STATES, STATS = Path("chosen.json"), Path("states.json"), Path("mutmut-stats.json")
#: CPU time that a test may take with a mutant: this many times as long as without, and some seconds.
_TIMES, _SPARE_S = 10.0, 3.0
#: On a busy machine it may take this many times as long.
_BUSY = 10.0
_CHILDREN = min(os.cpu_count() or 1, 4)
_SAVED_EVERY_S = 5.0


class _Child(NamedTuple):
    mutant: str
    folder: str


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Try the chosen mutants instead of running the tests."""
    stats = json.loads(STATS.read_text(encoding="utf-8"))
    tests = stats["tests_by_mangled_function_name"]
    seconds = stats["duration_by_test"]
    items = {item.nodeid: item for item in session.items}
    states: dict[str, str] = {}
    running: dict[int, _Child] = {}
    saved = time.monotonic()
    # Children share the memory of the parent until they change it, which the collector would do.
    gc.collect()
    gc.freeze()
    for mutant in json.loads(CHOSEN.read_text(encoding="utf-8")):
        reached = tests.get(mutant.rpartition("__mutmut_")[0], ())
        chosen = sorted((one for one in reached if one in items), key=lambda one: seconds[one])
        if not chosen:
            states[mutant] = "no tests"
            continue
        while len(running) >= _CHILDREN:
            _wait(running, states)
        folder = tempfile.mkdtemp(prefix="mutant-")
        child = os.fork()
        if not child:
            _run([items[one] for one in chosen], mutant, folder, seconds)
        running[child] = _Child(mutant, folder)
        if time.monotonic() - saved > _SAVED_EVERY_S:
            STATES.write_text(json.dumps(states), encoding="utf-8")
            saved = time.monotonic()
    while running:
        _wait(running, states)
    STATES.write_text(json.dumps(states), encoding="utf-8")
    return True


def _run(
    items: Sequence[pytest.Item], mutant: str, folder: str, seconds: Mapping[str, float]
) -> None:
    """Run tests with a mutant in this process, and end it: 0 when all pass, else 1 or a timer's signal."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.environ |= {"MUTANT_UNDER_TEST": mutant, "PYTEST_DEBUG_TEMPROOT": folder}
    code = 1
    try:
        for item, following in zip(items, [*items[1:], None], strict=True):
            limit = _SPARE_S + _TIMES * seconds[item.nodeid]
            signal.setitimer(signal.ITIMER_PROF, limit)
            signal.setitimer(signal.ITIMER_REAL, limit * _BUSY)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed:
                break
        else:
            code = 0
    finally:
        os._exit(code)


def _wait(running: dict[int, _Child], states: dict[str, str]) -> None:
    """Wait for a child to end, and note the state of its mutant."""
    ended, status = os.waitpid(-1, 0)
    mutant, folder = running.pop(ended)
    shutil.rmtree(folder, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    late = (-signal.SIGPROF, -signal.SIGALRM)
    states[mutant] = "survived" if code == 0 else "timeout" if code in late else "killed"
