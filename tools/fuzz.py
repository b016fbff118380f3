"""Run every decoder on mutated inputs: no crash, none over a second, at most 512 MB of memory.

`python tools/fuzz.py --seconds 60` tries all targets for a time, `--inputs 10000000` until so many inputs are
tried, `--target NAME` those that are named; `--target NAME --input FILE` gives one input. With `--tally FILE` a
run goes on where the one before ended, and the file has the sums of all. Seeds are in
`tests/fuzz/corpus/TARGET/`. An input follows from the seeds and its number, so `--first NUMBER` makes a finding
again. Prints `target | inputs | a second | slowest | memory | findings`, writes inputs that were found to
`log/fuzz/`, and exits with 1 when there are any.

A crash is an error that the decoder does not document, or the end of the process. Seconds are those of the
processor, so other work on the machine changes nothing. The next inputs go to the target with the least product
of inputs and seconds: slow targets get fewer inputs than quick ones, and more time.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.fuzz_targets import TARGETS, Target  # noqa: E402

CORPUS = ROOT / "tests" / "fuzz" / "corpus"
FOUND = ROOT / "log" / "fuzz"
SLOW_S = 1.0
#: Processor seconds of one input, and seconds, after which its process is killed.
STUCK_S = 20.0
HUNG_S = 120.0
MEMORY = 512 * 2**20
#: Inputs of the first process of a target, and the processor seconds that later ones take about.
_FIRST_BATCH = 50
_BATCH_S = 2.0
_MOST_BATCH = 20_000
#: Number of the input, when it began, most seconds and the input that took them; written at once, which
#: `struct` does not do.
_NUMBER, _BEGAN, _MOST, _SLOWEST = range(4)
_TOKEN = re.compile(rb"[A-Za-z_]{2,20}|\d+|[^\w\s]{1,4}")
_ODD = (
    b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\xe2\x80\xae", b"\x1b[2J", b"9" * 400, b"-1", b"1e999", b"NaN",
    b"null", b"true", b"[]", b"{}", b'""', b"\r\n", b"\n\n", b"\t", b" " * 50, b"[" * 200, b'{"a":' * 100, b"<" * 100,
    b"&#0;", b"&#x110000;", b"%s%n", b"../", b"\xef\xbb\xbf", b"=" * 60, b"`" * 40, b"*" * 60, b"|" * 60,
)  # fmt: skip


class Tally(msgspec.Struct):
    """What is known of a target after some inputs."""

    tried: int = 0
    next: int = 0
    """Number of the next input."""
    seconds: float = 0.0
    """Of the processor."""
    slowest_s: float = 0.0
    slowest: int = 0
    """Number of the slowest input."""
    memory: int = 0
    """Most bytes of a process."""
    findings: dict[int, str] = {}
    """What was found, one of each kind, by the number of the input."""


class Inputs:
    """The inputs of one target, by number."""

    def __init__(self, target: Target) -> None:
        name = self.name = target.name
        self._most_bytes = target.most_bytes
        self.seeds = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
        self._tokens = [*_ODD, *{token for seed in self.seeds for token in _TOKEN.findall(seed)}]
        self._tokens.sort()

    def make(self, number: int) -> bytes:
        """Return an input: first the seeds, then mutations of them."""
        if number < len(self.seeds):
            return self.seeds[number]
        chance = random.Random(f"{self.name} {number}")
        data = bytearray(chance.choice(self.seeds))
        for _ in range(chance.choice((1, 1, 2, 3, 5, 9))):
            self._mutate(data, chance)
        return bytes(data[: self._most_bytes])

    def _mutate(self, data: bytearray, chance: random.Random) -> None:
        start = chance.randint(0, len(data))
        end = min(len(data), start + chance.choice((0, 1, 1, 2, 4, 8, 30, 200)))
        kind = chance.randrange(7)
        if kind == 0 and data:
            data[start % len(data)] ^= 1 << chance.randrange(8)
        elif kind == 1 and data:
            data[start % len(data)] = chance.randrange(256)
        elif kind == 2:
            del data[start:end]
        elif kind == 3:
            data[start:end] = chance.choice(self._tokens)
        elif kind == 4:
            data[start:start] = chance.choice(self._tokens) * chance.choice((1, 1, 2, 20, 300))
        elif kind == 5:
            data[start:start] = data[start:end] * chance.choice((1, 2, 10, 100))
        else:
            other = chance.choice(self.seeds)
            place = chance.randint(0, len(other))
            data[start:] = other[place:]


class Batch:
    """A process that tries some inputs of a target."""

    def __init__(self, target: Target, inputs: Inputs, numbers: range) -> None:
        self.numbers = numbers
        self._shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")
        self._shared[_NUMBER], self._shared[_BEGAN] = numbers.start, time.monotonic()
        self._lines = os.memfd_create("findings")
        self._child = os.fork()
        if not self._child:
            _work(target, inputs, numbers, self._shared, self._lines)
            os._exit(0)

    def is_done(self, tally: Tally) -> bool:
        """Return whether the process ended; what it did is then added to the tally."""
        done, status, usage = os.wait4(self._child, os.WNOHANG)
        if not done and time.monotonic() - self._shared[_BEGAN] > HUNG_S:
            os.kill(self._child, signal.SIGKILL)
            done, status, usage = os.wait4(self._child, 0)
        if not done:
            return False
        at = int(self._shared[_NUMBER])
        tally.tried += at + 1 - self.numbers.start
        tally.next = at + 1
        tally.seconds += usage.ru_utime + usage.ru_stime
        tally.memory = max(tally.memory, 1024 * usage.ru_maxrss)
        if self._shared[_MOST] > tally.slowest_s:
            tally.slowest_s, tally.slowest = self._shared[_MOST], int(self._shared[_SLOWEST])
        with os.fdopen(self._lines, "rb") as lines:
            lines.seek(0)
            found = [
                line.partition(" ") for line in lines.read().decode("utf-8", "replace").splitlines()
            ]
        if status:
            signaled = os.WIFSIGNALED(status)
            code = os.WTERMSIG(status) if signaled else os.WEXITSTATUS(status)
            found.append((str(at), "", f"ended with {'signal ' if signaled else ''}{code}"))
        known = {_kind(what) for what in tally.findings.values()}
        for number, _, what in found:
            if _kind(what) not in known:
                known.add(_kind(what))
                tally.findings[int(number)] = what
        return True


def _kind(what: str) -> str:
    return re.sub(r"\d+(\.\d+)?", "N", what.partition(": ")[0])


def _work(
    target: Target, inputs: Inputs, numbers: Sequence[int], shared: memoryview[float], lines: int
) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for number in numbers:
        data = inputs.make(number)
        shared[_NUMBER], shared[_BEGAN] = number, time.monotonic()
        # The signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, STUCK_S)
        begin = time.process_time()
        try:
            target.decode(data)
            what = ""
        except target.documented:
            what = ""
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            place = traceback.extract_tb(error.__traceback__)[-1]
            words = " ".join(str(error).split())[:80]
            what = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {words}"
        seconds = time.process_time() - begin
        if seconds > shared[_MOST]:
            shared[_MOST], shared[_SLOWEST] = seconds, number
        if seconds > SLOW_S:
            what = f"took {seconds:.1f} s {what}"
        if what:
            os.write(lines, f"{number} {what}\n".encode("utf-8", "replace"))


class Run:
    """Tries targets.

    Args:
        targets: Those that are tried.
        tallies: What is known of them by name; changed as they are tried.
        report: Called with each new finding.
    """

    def __init__(
        self, targets: Sequence[Target], tallies: dict[str, Tally], report: Callable[[str], None]
    ) -> None:
        self._targets = {one.name: one for one in targets}
        self._inputs = {one.name: Inputs(one) for one in targets}
        self._tallies = tallies
        self._report = report

    def go_on(
        self, until: Callable[[], bool], jobs: int = 1, save: Callable[[], None] = lambda: None
    ) -> None:
        """Try inputs until a function says so, in some processes at once; each target gets some."""
        running: dict[str, Batch] = {}
        tallies = self._tallies
        untried = set(self._targets)
        while running or untried or not until():
            for name in [name for name, batch in running.items() if batch.is_done(tallies[name])]:
                self._keep(name, running.pop(name))
                save()
            idle = self._targets.keys() - running if untried or not until() else set()
            if idle and len(running) < jobs:
                name = min(
                    sorted(idle & untried or idle),
                    key=lambda one: tallies[one].tried * tallies[one].seconds,
                )
                untried.discard(name)
                running[name] = self._start(name)
            else:
                time.sleep(0.005)

    def _start(self, name: str) -> Batch:
        tally = self._tallies[name]
        size = _FIRST_BATCH
        if tally.seconds:
            size = max(1, min(_MOST_BATCH, int(_BATCH_S * tally.tried / tally.seconds)))
        numbers = range(tally.next, tally.next + size)
        return Batch(self._targets[name], self._inputs[name], numbers)

    def _keep(self, name: str, batch: Batch) -> None:
        """Write the inputs of new findings to files."""
        for number, what in self._tallies[name].findings.items():
            if number in batch.numbers:
                FOUND.mkdir(parents=True, exist_ok=True)
                (FOUND / f"{name}-{number}").write_bytes(self._inputs[name].make(number))
                self._report(f"  {name} {number}: {what}")


def _table(tallies: dict[str, Tally]) -> str:
    rows = [
        f"{name:12} | {one.tried:9,} | {one.tried / max(one.seconds, 0.001):8,.0f} | {1000 * one.slowest_s:6.0f} ms"
        f" | {one.memory / 2**20:4.0f} MB | {len(one.findings)}"
        for name, one in tallies.items()
    ]
    every = tallies.values()
    total = sum(one.tried for one in every)
    findings = sum(len(one.findings) for one in every)
    slowest = 1000 * max(one.slowest_s for one in every)
    memory = max(one.memory for one in every) / 2**20
    return "\n".join(
        [
            *rows,
            f"{'all':12} | {total:9,} | {'':8} | {slowest:6.0f} ms | {memory:4.0f} MB | {findings}",
        ]
    )


def _load(file: Path | None) -> dict[str, Tally]:
    if file is None or not file.exists():
        return {}
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Tally], strict=False)


def _save(file: Path, tallies: dict[str, Tally]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(tallies)))
    fresh.replace(file)


def main() -> int:
    """Run the targets; return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, help="for all targets; 600 without --inputs")
    parser.add_argument("--inputs", type=int, help="number of inputs, those of the tally included")
    parser.add_argument("--target", action="append", choices=[one.name for one in TARGETS])
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--tally", type=Path, help="file to go on from, and to write")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument(
        "--input", type=Path, help="give this file to the target, with its traceback"
    )
    given = parser.parse_args()
    chosen = [one for one in TARGETS if not given.target or one.name in given.target]
    if given.input:
        for target in chosen:
            try:
                target.decode(given.input.read_bytes())
            except target.documented as error:
                print(f"{target.name}: refused: {error}")
        return 0
    kept = _load(given.tally)
    tallies = {one.name: kept.pop(one.name, Tally(next=given.first)) for one in chosen}
    seconds = given.seconds or (float("inf") if given.inputs else 600.0)
    end, most = time.monotonic() + seconds, given.inputs or sys.maxsize

    def is_over() -> bool:
        return time.monotonic() > end or sum(one.tried for one in tallies.values()) >= most

    def save() -> None:
        if given.tally:
            _save(given.tally, kept | tallies)

    # Some decoders read files: a file system in memory is the quickest.
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="whence-fuzz-", dir=memory if memory.is_dir() else None)
    os.environ["TMPDIR"] = folder
    try:
        Run(chosen, tallies, lambda line: print(line, flush=True)).go_on(is_over, given.jobs, save)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(_table(tallies))
    return 1 if any(one.findings for one in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
