"""The broker of a test run does not outlive the run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Stands for the run: holds on to a broker until it is killed.
RUN = """
import sys
from pathlib import Path
from tests.support.pulsar_broker import stopped_after_us

with stopped_after_us(Path(sys.argv[1])):
    print("up", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like a broker, and the folder that says so."""
    name = "java org.apache.pulsar.PulsarStandaloneStarter"
    process = subprocess.Popen(["bash", "-c", f"exec -a '{name}' sleep 300"])
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "state.json").write_text(json.dumps({"pid": process.pid}))
    yield process
    process.kill()
    process.wait()


def held(folder: Path) -> subprocess.Popen[str]:
    """Start a run that holds on to the broker of a folder."""
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "up\n"
    return run


def test_a_killed_test_run_leaves_no_broker(
    broker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """The broker stops when its test process is killed."""
    run = held(tmp_path / "broker")
    run.kill()
    run.communicate()

    assert broker.wait(60) != 0


def test_a_finished_test_run_stops_its_own_broker(
    broker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A test process that ends normally stops its broker; no other process removes its folder."""
    run = held(tmp_path / "broker")
    run.communicate("\n", timeout=60)

    assert run.returncode == 0
    assert (tmp_path / "broker" / "state.json").exists()
    assert broker.poll() is None
