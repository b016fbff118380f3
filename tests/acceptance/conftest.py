"""The installed command, run in subprocesses on a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHENCE = Path(sys.executable).parent / "whence"


class Result:
    """What a finished command left behind."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.code = done.returncode
        self.out = done.stdout.decode()
        self.err = done.stderr.decode()

    @property
    def json(self) -> Any:
        """Parse stdout, which must be exactly one JSON document."""
        return json.loads(self.out)


class Cli:
    """Runs `whence` with a home and no settings from outside."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def environment(self, **extra: str) -> dict[str, str]:
        """Give the environment of a command: the caller's, less our settings."""
        clean = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("WHENCE_", "OPENAI_", "COHERE_"))
        }
        return clean | {"WHENCE_HOME": str(self.home)} | extra

    def __call__(
        self, *words: str | bytes | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> Result:
        """Run a command to its end."""
        done = subprocess.run(
            [WHENCE, *words],
            env=self.environment(**(env or {})),
            cwd=cwd or self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=110,
            check=False,
        )
        return Result(done)

    def start(self, *words: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """Start a command and let it run."""
        return subprocess.Popen(
            [WHENCE, *words],
            env=self.environment(),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """Give the command on a home that all tests of the session share."""
    return Cli(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def handbook(cli: Cli) -> Path:
    """Give the example handbook, indexed into the default collection."""
    folder = ROOT / "examples" / "handbook"
    result = cli("index", folder, "--json")
    assert result.code == 0, result.err
    return folder


@pytest.fixture
def fresh(tmp_path: Path) -> Cli:
    """Give the command on a home of the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    return Cli(home)
