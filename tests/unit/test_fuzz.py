"""The tool that gives mutated inputs to decoders finds what it looks for; seeds are decoded."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tools import fuzz
from tools.fuzz_targets import TARGETS, Target

from whence.schema.errors import BadInput
from whence.schema.filters import parse_filter_options


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "CORPUS", tmp_path)
    monkeypatch.setattr(fuzz, "FOUND", tmp_path / "found")
    monkeypatch.setattr(fuzz, "SLOW_S", 0.2)
    monkeypatch.setattr(fuzz, "STUCK_S", 0.5)
    monkeypatch.setattr(fuzz, "HUNG_S", 3.0)
    monkeypatch.setattr(fuzz, "_FIRST_BATCH", 100)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "seed").write_bytes(b'{"key": [1, 2]}')


def refuse(_: bytes) -> None:
    raise BadInput("no")


def crash(data: bytes) -> None:
    if len(data) > 30:
        raise KeyError("x")


def die(data: bytes) -> None:
    if b"[[" in data:
        os.kill(os.getpid(), 9)


def work(data: bytes) -> None:
    end = time.process_time() + (0.25 if len(data) > 2_000 else 0)
    while time.process_time() < end:
        pass


def spin(data: bytes) -> None:
    while len(data) > 200:
        pass


def hang(data: bytes) -> None:
    time.sleep(60 if len(data) > 200 else 0)


def fill(data: bytes) -> None:
    len(bytearray(2**30 if len(data) > 100 else 1))


@pytest.mark.parametrize(
    ("decode", "words"),
    [
        (refuse, ""),
        (crash, "KeyError at test_fuzz.py"),
        (die, "ended with signal 9"),
        (work, "took 0."),
        (spin, "ended with signal 27"),
        (hang, "ended with signal 9"),
        (fill, "MemoryError"),
    ],
)
def test_what_a_decoder_does_wrong_is_found(decode: Callable[[bytes], None], words: str) -> None:
    """Errors that are not documented, dead processes, time and memory; each once, with its input."""
    target = Target("own", decode)
    lines: list[str] = []
    tally = fuzz.Tally()
    fuzz.Run([target], {"own": tally}, lines.append).go_on(lambda: True)

    assert [words in what for what in tally.findings.values()] == ([True] if words else [])
    assert len(lines) == len(tally.findings)
    for number in tally.findings:
        made = fuzz.Inputs(target).make(number)
        assert (fuzz.FOUND / f"own-{number}").read_bytes() == made


def test_time_is_that_of_the_processor() -> None:
    """A decoder that waits is not slow; the slowest input, the memory and all processor seconds are kept."""

    def wait(data: bytes) -> None:
        time.sleep(0.3 if data == b'{"key": [1, 2]}' else 0)

    tally = fuzz.Tally()
    fuzz.Run([Target("own", wait)], {"own": tally}, print).go_on(lambda: True)
    assert tally.tried == 100
    assert tally.findings == {}
    assert 0 < tally.slowest_s < 0.2
    assert 0 < tally.seconds < 5
    # A process that tries inputs begins with the memory of this one.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 2**20 < tally.memory < own + 2**29


def test_a_run_goes_on_where_the_one_before_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """No input is tried twice; what is slow gets fewer inputs and more time than what is quick."""
    (fuzz.CORPUS / "slow").mkdir()
    (fuzz.CORPUS / "slow" / "seed").write_bytes(b"x")
    monkeypatch.setattr(fuzz, "_BATCH_S", 0.05)

    def work_on(_: bytes) -> None:
        end = time.process_time() + 0.002
        while time.process_time() < end:
            pass

    tallies = {"own": fuzz.Tally(), "slow": fuzz.Tally()}
    targets = [Target("own", refuse, documented=(BadInput,)), Target("slow", work_on)]
    for most in (1_000, 2_000):
        before = {name: one.next for name, one in tallies.items()}
        fuzz.Run(targets, tallies, print).go_on(
            lambda most=most: sum(one.tried for one in tallies.values()) >= most  # type: ignore[misc]
        )
        assert all(one.next > before[name] for name, one in tallies.items())
    quick, slow = tallies["own"], tallies["slow"]
    assert quick.tried == quick.next > 2 * slow.tried
    assert slow.seconds > 2 * quick.seconds


def test_every_target_has_seeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each decoder takes its seeds, or refuses them as it documents; all seeds take less than 200 kB."""
    corpus = Path(__file__).resolve().parents[1] / "fuzz" / "corpus"
    monkeypatch.setattr(fuzz, "CORPUS", corpus)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for target in TARGETS:
        for seed in fuzz.Inputs(target).seeds:
            try:
                target.decode(seed)
            except target.documented:
                continue

    assert {path.name for path in corpus.iterdir()} == {target.name for target in TARGETS}
    assert sum(path.stat().st_size for path in corpus.rglob("*") if path.is_file()) < 200_000


def test_a_filter_that_is_not_utf_8_is_refused() -> None:
    """Bytes of a command line that are no text raise the error of a bad filter."""
    with pytest.raises(BadInput, match="not JSON"):
        parse_filter_options(['{"key": "\udcff"}'])
