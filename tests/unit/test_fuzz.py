"""The tool that gives mutated inputs to decoders finds what it looks for; seeds are decoded."""

from __future__ import annotations

import os
import time
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
    monkeypatch.setattr(fuzz, "STUCK_S", 5.0)
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
    end = time.process_time() + (0.25 if len(data) > 250 else 0)
    while time.process_time() < end:
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
        (hang, "ended with signal 9"),
        (fill, "MemoryError"),
    ],
)
def test_what_a_decoder_does_wrong_is_found(decode: object, words: str) -> None:
    """Errors that are not documented, dead processes, time and memory; each once, with its input."""
    target = Target("own", decode, batch=150 if decode is die else 60)  # type: ignore[arg-type]
    lines: list[str] = []
    findings = fuzz.try_target(target, 0.0, 0, lines.append)

    assert [words in one.what for one in findings] == ([True] if words else [])
    for one in findings:
        made = fuzz.Inputs("own").make(one.number)
        assert (fuzz.FOUND / f"own-{one.number}").read_bytes() == made


def test_every_target_has_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each decoder takes its seeds, or refuses them as it documents; all seeds take less than 200 kB."""
    corpus = Path(__file__).resolve().parents[1] / "fuzz" / "corpus"
    monkeypatch.setattr(fuzz, "CORPUS", corpus)
    for target in TARGETS:
        for seed in fuzz.Inputs(target.name).seeds:
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
