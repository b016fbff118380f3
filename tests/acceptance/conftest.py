"""The installed command, run in subprocesses on a home of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fork_server import ForkServer

from whence.cli.commands import COMMANDS
from whence.store.postgres.server.server import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
WHENCE = Path(sys.executable).parent / "whence"
#: What most commands load, but for ONNX Runtime: it starts a thread, and so may not be forked.
PRELOAD = (
    "numpy", "rich.table", "tokenizers", "whence.engine.engine", "whence.flow.loader",
    "whence.flow.runtime", "whence.ingest.documents", "whence.models.extractive_writer", "whence.models.local_embedder",
    "whence.processors.code_rag", "whence.processors.document_rag", "whence.processors.embedding",
    "whence.processors.graph_expander", "whence.processors.ingest", "whence.processors.prompt",
    "whence.processors.recorder", "whence.processors.reranker", "whence.processors.search",
    "whence.processors.text_fetcher", "whence.provenance.render", "whence.store.postgres.store",
)  # fmt: skip
#: Words that can begin a command line.
_NAMES = {
    *COMMANDS,
    *(name for group in COMMANDS.values() if not isinstance(group, str) for name in group.members),
}


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
    """Runs `whence` with a home and no settings from outside.

    Each command is run as the installed program the first time, and forked from one that is loaded already from
    then on: a process of its own with the same code, for half the time.
    """

    def __init__(self, home: Path, loaded: ForkServer) -> None:
        self.home = home
        self._loaded = loaded

    def environment(self, **extra: str) -> dict[str, str]:
        """Give the environment of a command: the caller's, less our settings and its terminal's size."""
        ours = ("WHENCE_", "OPENAI_", "COHERE_", "COLUMNS", "LINES")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        return clean | {"WHENCE_HOME": str(self.home)} | extra

    def __call__(
        self, *words: str | bytes | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> Result:
        """Run a command to its end."""
        environment, folder = self.environment(**(env or {})), cwd or self.home
        if not _is_new(words):
            return Result(
                self._loaded.run(
                    [WHENCE, *words], environment=environment, folder=folder, timeout_s=110
                )
            )
        done = subprocess.run(
            [WHENCE, *words],
            env=environment,
            cwd=folder,
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


_seen: set[str] = set()


def _is_new(words: tuple[str | bytes | Path, ...]) -> bool:
    """Tell whether a command comes for the first time; those below a common word count one by one."""
    names = [word for word in words[:2] if isinstance(word, str) and word in _NAMES]
    command = " ".join(names)
    new = command not in _seen
    _seen.add(command)
    return new


@pytest.fixture(scope="session")
def loaded() -> Iterator[ForkServer]:
    """Give the program, loaded once."""
    server = ForkServer("whence.cli.main:main", PRELOAD)
    yield server
    server.close()


@pytest.fixture(scope="session")
def cli(
    tmp_path_factory: pytest.TempPathFactory,
    new_home: Callable[[Path], Path],
    loaded: ForkServer,
) -> Iterator[Cli]:
    """Give the command on a home that all tests of the session share, and whose server runs all the while."""
    home = new_home(tmp_path_factory.mktemp("home"))
    server = EmbeddedServer(home)
    asyncio.run(server.start())
    yield Cli(home, loaded)
    asyncio.run(server.aclose())


@pytest.fixture(scope="session")
def handbook(cli: Cli) -> Path:
    """Give the example handbook, indexed into the default collection."""
    folder = ROOT / "examples" / "handbook"
    result = cli("index", folder, "--json")
    assert result.code == 0, result.err
    return folder


@pytest.fixture
def fresh(tmp_path: Path, loaded: ForkServer) -> Cli:
    """Give the command on an empty home, where the first command makes the database."""
    home = tmp_path / "home"
    home.mkdir()
    return Cli(home, loaded)


@pytest.fixture
def own(tmp_path: Path, new_home: Callable[[Path], Path], loaded: ForkServer) -> Cli:
    """Give the command on a home of the test's own, with an empty database."""
    return Cli(new_home(tmp_path / "home"), loaded)
