"""Fixtures that run the installed command in processes of their own."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from tests.conftest import copy_home
from tests.support.fake_bundles import write_fake_bundles
from tests.support.fork_server import ForkServer

from whence.store.postgres.server.server import EmbeddedServer
from whence.surfaces.cli.commands import COMMANDS

_numbers = itertools.count()
ROOT = Path(__file__).resolve().parents[2]
HANDBOOK = ROOT / "examples" / "handbook"
WHENCE = Path(sys.executable).parent / "whence"
#: Modules that most commands load, and the model.
PRELOAD = (
    "nacl.signing", "numpy", "platformdirs", "rich.console", "rich.table", "tests.support.loaded_program",
    "tokenizers", "whence.broker.memory.transport", "whence.surfaces.cli.ask", "whence.surfaces.cli.safe_console",
    "whence.surfaces.cli.search", "whence.surfaces.cli.session", "whence.surfaces.cli.traces", "whence.surfaces.python.engine",
    "whence.operations.json_documents", "whence.flow.client", "whence.flow.loader", "whence.flow.runtime",
    "whence.flow.telemetry.logfmt", "whence.ingest.documents", "whence.quoting.extractive_writer",
    "whence.models.factory", "whence.models.late_interaction", "whence.models.local_embedder",
    "whence.models.token_codes", "whence.code.processors.code_rag", "whence.processors.document_rag",
    "whence.processors.embedding", "whence.code.processors.graph_expander", "whence.processors.ingest",
    "whence.processors.prompt", "whence.processors.recorder", "whence.processors.reranker",
    "whence.processors.search", "whence.processors.text_fetcher", "whence.provenance.render",
    "whence.store.postgres.store",
)  # fmt: skip
#: Words that can begin a command line.
_NAMES = {
    *COMMANDS,
    *(name for command in COMMANDS.values() for name in command.members),
}


class Result:
    """Output and exit code of a finished command."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.code = done.returncode
        self.out = done.stdout.decode()
        self.err = done.stderr.decode()

    @property
    def json(self) -> Any:
        """Parse stdout, which must be exactly one JSON document."""
        return json.loads(self.out)

    def assert_error(self, code: int) -> Self:
        """Assert an exit code with one error line, one hint line and no traceback."""
        kinds = [line.split(":")[0] for line in self.err.splitlines()]
        assert self.code == code, self.err
        assert (kinds.count("error"), kinds.count("hint")) == (1, 1), self.err
        assert "Traceback" not in self.err
        return self


class Cli:
    """Runs `whence` with a home, without the settings of the environment.

    The first run of each command starts the installed program; later ones, also of other test processes, fork
    a loaded process, in a fifth of the time.

    Args:
        home: The home.
        loaded: The loaded process.
        started: A folder with a file for each command that ran.
        collection: The default collection of its commands.
    """

    def __init__(
        self, home: Path, loaded: ForkServer, started: Path, collection: str = "default"
    ) -> None:
        self.home = home
        self.collection = collection
        self.loaded = loaded
        self._started = started

    def environment(self, **extra: str) -> dict[str, str]:
        """Return the environment of a command: the caller's without Whence's settings and the terminal size."""
        set_here = ("WHENCE_", "OPENAI_", "COHERE_", "OLLAMA_", "COLUMNS", "LINES")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(set_here)}
        clean["WHENCE_HOME"] = str(self.home)
        if self.collection != "default":
            clean["WHENCE_COLLECTION"] = self.collection
        return clean | extra

    def on(self, collection: str) -> Cli:
        """Return the command on the same home, with another default collection."""
        return Cli(self.home, self.loaded, self._started, collection)

    def __call__(
        self, *words: str | bytes | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> Result:
        """Run a command and wait for it."""
        environment, folder = self.environment(**(env or {})), cwd or self.home
        if not self._is_new(words):
            return Result(
                self.loaded.run(
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

    def start(
        self, *words: str | Path, environment: dict[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a command in the background."""
        return subprocess.Popen(
            [WHENCE, *words],
            env=self.environment(**(environment or {})),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )

    def _is_new(self, words: tuple[str | bytes | Path, ...]) -> bool:
        """Return whether a command runs for the first time; subcommands count separately."""
        names = [word for word in words[:2] if isinstance(word, str) and word in _NAMES]
        try:
            (self._started / " ".join(["whence", *names])).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@pytest.fixture(scope="session")
def loaded() -> Iterator[ForkServer]:
    """Load the program once.

    The interpreter is that of the installed program: both print paths in its folder, which may be a link.
    """
    python = WHENCE.read_text().partition("\n")[0].removeprefix("#!")
    known = Path(python).name.startswith("python") and Path(python).exists()
    server = ForkServer(
        "whence.surfaces.cli.main:main", PRELOAD, python if known else sys.executable
    )
    yield server
    server.close()


@contextmanager
def running_server(home: Path) -> Iterator[None]:
    """Keep the server of a home running, which each command would start and stop else."""
    server = EmbeddedServer(home)
    asyncio.run(server.start())
    try:
        yield
    finally:
        asyncio.run(server.aclose())


@pytest.fixture(scope="session")
def new_cli(loaded: ForkServer, common_folder: Path) -> Callable[[Path], Cli]:
    """Return a function that gives the command on a home."""
    started = common_folder / "started-commands"
    started.mkdir(exist_ok=True)
    return lambda home: Cli(home, loaded, started)


@pytest.fixture(scope="session")
def cli(
    tmp_path_factory: pytest.TempPathFactory,
    made_once: Callable[..., Path],
    new_home: Callable[[Path], Path],
    new_cli: Callable[[Path], Cli],
) -> Iterator[Cli]:
    """Return the command on a home shared by all tests of the session, whose server keeps running.

    Its default collection has the example handbook, which is indexed once for all sessions.
    """

    def index(place: Path) -> None:
        result = new_cli(new_home(place))("index", HANDBOOK, "--json")
        assert result.code == 0, result.err

    home = copy_home(made_once("handbook-home", index), tmp_path_factory.mktemp("home"))
    with running_server(home):
        yield new_cli(home)


@pytest.fixture(scope="session")
def handbook(cli: Cli) -> Path:
    """Return the folder of the example handbook, which the default collection has."""
    return HANDBOOK


@pytest.fixture
def apart(cli: Cli) -> Cli:
    """Return the command on the shared home, with an empty default collection of its own."""
    return cli.on(f"apart-{next(_numbers)}")


@pytest.fixture
def fresh(tmp_path: Path, new_cli: Callable[[Path], Cli]) -> Cli:
    """Return the command on an empty home, where the first command creates the database."""
    home = tmp_path / "home"
    home.mkdir()
    return new_cli(home)


@pytest.fixture
def own(tmp_path: Path, new_home: Callable[[Path], Path], new_cli: Callable[[Path], Cli]) -> Cli:
    """Return the command on a home of its own, with an empty database."""
    return new_cli(new_home(tmp_path / "home"))


@pytest.fixture
def served(own: Cli) -> Iterator[Cli]:
    """Return the command on a home of its own, whose server keeps running."""
    with running_server(own.home):
        yield own


@pytest.fixture(scope="session")
def releases(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Result]:
    """Import both fake releases as the set `Fake_snapshot`; return the bundles and the result."""
    paths = write_fake_bundles(tmp_path_factory.mktemp("bundles"))
    result = cli("import", *paths, "--set", "Fake_snapshot", "--json")
    assert result.code == 0, result.err
    return paths, result
