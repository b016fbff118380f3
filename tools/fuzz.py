"""Give mutated inputs to every decoder: no crash, none over a second, at most 512 MB of memory.

`python tools/fuzz.py --seconds 60` shares the time among the targets; `--target NAME` tries one; `--target NAME
--input FILE` gives one input. Seeds are in `tests/fuzz/corpus/TARGET/`. An input follows from the seeds and its
number, so `--first NUMBER` makes a finding again. Prints `target | inputs | a second | slowest | findings`,
writes inputs that were found to `log/fuzz/`, and exits with 1 when there are any.

A crash is an error that the decoder does not document, or the end of the process.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import re
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.fuzz_targets import TARGETS, Target  # noqa: E402

CORPUS = ROOT / "tests" / "fuzz" / "corpus"
FOUND = ROOT / "log" / "fuzz"
MAX_BYTES = 20_000
SLOW_S = 1.0
#: Seconds after which a process that works on one input is killed.
STUCK_S = 20.0
MEMORY = 512 * 2**20
#: Inputs of one process.
BATCH = 2_000
#: Number of the input, when it began, most seconds; each is written at once, which `struct` does not do.
_NUMBER, _BEGAN, _MOST = range(3)
_TOKEN = re.compile(rb"[A-Za-z_]{2,20}|\d+|[^\w\s]{1,4}")
_ODD = (
    b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\xe2\x80\xae", b"\x1b[2J", b"9" * 400, b"-1", b"1e999", b"NaN",
    b"null", b"true", b"[]", b"{}", b'""', b"\r\n", b"\n\n", b"\t", b" " * 50, b"[" * 200, b'{"a":' * 100, b"<" * 100,
    b"&#0;", b"&#x110000;", b"%s%n", b"../", b"\xef\xbb\xbf", b"=" * 60, b"`" * 40, b"*" * 60, b"|" * 60,
)  # fmt: skip


class Finding(NamedTuple):
    """An input that a decoder did not take well."""

    target: str
    number: int
    what: str


class Inputs:
    """The inputs of one target, by number."""

    def __init__(self, name: str) -> None:
        self.name = name
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
        return bytes(data[:MAX_BYTES])

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


def run_batch(
    target: Target, inputs: Inputs, first: int, count: int
) -> tuple[int, float, list[Finding]]:
    """Try inputs in a process of its own; return the next number, the most seconds and the findings."""
    shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")
    shared[_NUMBER], shared[_BEGAN] = first, time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _work(target, inputs, range(first, first + count), shared, writer)
        os._exit(0)
    os.close(writer)
    status = _wait(child, shared)
    with os.fdopen(reader, "rb") as lines:
        reported = lines.read().decode("utf-8", "replace").splitlines()
    findings = []
    for line in reported:
        number, _, what = line.partition(" ")
        findings.append(Finding(target.name, int(number), what))
    number, slowest = int(shared[_NUMBER]), shared[_MOST]
    if status:
        what = f"ended with signal {status & 127}" if status & 127 else f"ended with {status >> 8}"
        findings.append(Finding(target.name, number, what))
    return number + 1, slowest, findings


def _wait(child: int, shared: memoryview[float]) -> int:
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() - shared[_BEGAN] > STUCK_S:
            os.kill(child, 9)
            return os.waitpid(child, 0)[1]
        time.sleep(0.01)


def _work(
    target: Target, inputs: Inputs, numbers: Sequence[int], shared: memoryview[float], writer: int
) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for number in numbers:
        data = inputs.make(number)
        shared[_NUMBER], shared[_BEGAN] = number, time.monotonic()
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
        shared[_MOST] = max(shared[_MOST], seconds)
        if seconds > SLOW_S:
            what = f"took {seconds:.1f} s {what}"
        if what:
            os.write(writer, f"{number} {what}\n".encode("utf-8", "replace"))


def try_target(
    target: Target, seconds: float, first: int, report: Callable[[str], None]
) -> list[Finding]:
    """Try inputs for some time; return one finding of each kind."""
    inputs = Inputs(target.name)
    begin, number, slowest = time.monotonic(), first, 0.0
    findings: dict[str, Finding] = {}
    while number == first or time.monotonic() - begin < seconds:
        number, most, found = run_batch(target, inputs, number, target.batch or BATCH)
        slowest = max(slowest, most)
        for one in found:
            kind = re.sub(r"\d+(\.\d+)?", "N", one.what.partition(": ")[0])
            if kind not in findings:
                findings[kind] = one
                FOUND.mkdir(parents=True, exist_ok=True)
                (FOUND / f"{target.name}-{one.number}").write_bytes(inputs.make(one.number))
                report(f"  {one.target} {one.number}: {one.what}")
    tried, taken = number - first, time.monotonic() - begin
    report(
        f"{target.name:12} | {tried:9,} | {tried / taken:8,.0f} | {1000 * slowest:6.0f} ms | {len(findings)}"
    )
    return list(findings.values())


def main() -> int:
    """Run the targets; return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for all targets")
    parser.add_argument("--target", action="append", choices=[one.name for one in TARGETS])
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
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
    os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="whence-fuzz-")
    findings = []
    for target in chosen:
        findings += try_target(target, given.seconds / len(chosen), given.first, print)
        sys.stdout.flush()
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
