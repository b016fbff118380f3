"""Fixtures that several folders of tests use."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import itertools
import logging
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.pulsar_broker import TestBroker

    from whence.store.postgres.server.server import EmbeddedServer
    from whence.store.postgres.store import PostgresStore

# A failing assert of a suite shows its values.
pytest.register_assert_rewrite("whence.testing", "tests.support")

_numbers = itertools.count()

# How fast examples are made depends on what else the machine does, and says nothing about the code.
_SHARED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _SHARED, max_examples=40)
settings.register_profile("thorough", _SHARED, max_examples=500)
settings.load_profile("ci")


#: A file system in memory, and the free space that it must have, in bytes.
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 4 << 30


def pytest_configure() -> None:
    """Keep the folders of tests in memory where it is large and programs may run from it.

    There a database is made in a third of the processor time: 600 tests have one of their own.
    """
    if _MEMORY.is_dir():
        place = os.statvfs(_MEMORY)
        if place.f_bavail * place.f_frsize >= _MEMORY_BYTES and not place.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run one process more than there are cores: much of a test is waiting for servers."""
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity else os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep tests that share something dear in one process, which makes it once.

    All that need a broker share it; those of a file of commands or of integration share what it made.
    """
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if item.get_closest_marker("pulsar"):
            item.add_marker(pytest.mark.xdist_group("pulsar"))
        elif item.path.parent.name in ("acceptance", "integration"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish() -> None:
    """Leave what was collected out of all later searches for garbage: each would look at a million objects."""
    gc.freeze()


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """Restore the log levels that a command sets when a test calls it in this process."""
    logger = logging.getLogger("whence")
    level = logger.level
    yield
    logger.setLevel(level)


@asynccontextmanager
async def _admin(server: EmbeddedServer) -> AsyncIterator[Any]:
    """Connect to a database that is not copied, to make and drop others."""
    import asyncpg

    connection = await asyncpg.connect(server.url("template1"))
    try:
        yield connection
    finally:
        await connection.close()


async def _prepare(home: Path) -> None:
    """Make the data directory of a home, and the tables in it."""
    from whence.store.postgres.server.server import EmbeddedServer
    from whence.store.postgres.store import PostgresStore

    async with EmbeddedServer(home) as server, _admin(server) as admin:
        await (await PostgresStore.connect(server.url())).aclose()
        # From the next start on, in all copies: they survive kills, and no test cuts the power. Filling
        # new files of the journal with zeros took half the time of a new database.
        await admin.execute("ALTER SYSTEM SET fsync = off")
        await admin.execute("ALTER SYSTEM SET wal_init_zero = off")
    # A third of the data are zeros at the end of the journal: as a hole no copy writes them.
    for segment in (home / "postgres" / "pg_wal").glob("0*"):
        size, content = segment.stat().st_size, segment.read_bytes().rstrip(b"\0")
        os.truncate(segment, len(content))
        os.truncate(segment, size)


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of this run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def made_once(common_folder: Path) -> Callable[[str, Callable[[Path], object]], Path]:
    """Return a function that gives a folder of a name, made once for the run by a given function."""

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        place = common_folder / name
        with (common_folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                unfinished = common_folder / f"unfinished-{name}"
                make(unfinished)
                unfinished.rename(place)
        return place

    return folder


def copy_home(home: Path, place: Path) -> Path:
    """Copy a home whose server does not run, with its owners: root's server runs as somebody else."""
    subprocess.run(["cp", "-a", f"{home}/.", str(place)], check=True)
    return place


@pytest.fixture(scope="session")
def new_home(made_once: Callable[..., Path]) -> Callable[[Path], Path]:
    """Return a function that copies an empty, migrated home, made once for the run.

    It saves the first start, which takes 2 s of a core; tests of the first start itself use an empty folder.
    """
    home = made_once("prepared-home", lambda place: asyncio.run(_prepare(place)))
    return partial(copy_home, home)


@pytest.fixture(scope="session")
def postgres_server(
    tmp_path_factory: pytest.TempPathFactory, new_home: Callable[[Path], Path]
) -> Iterator[EmbeddedServer]:
    """One embedded server for the whole run, with a migrated template database."""
    from whence.store.postgres.server.server import EmbeddedServer

    server = EmbeddedServer(new_home(tmp_path_factory.mktemp("home")))

    async def start() -> None:
        await server.start()
        async with _admin(server) as admin:
            await admin.execute("CREATE DATABASE migrated TEMPLATE postgres STRATEGY file_copy")

    asyncio.run(start())
    yield server
    asyncio.run(server.aclose())


@pytest.fixture
async def database_url(postgres_server: EmbeddedServer) -> AsyncIterator[str]:
    """Address of a migrated database that only this test uses."""
    name = f"test_{next(_numbers)}"
    async with _admin(postgres_server) as admin:
        # The other strategy writes the template to the journal, too: four times the processor time.
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE migrated STRATEGY file_copy")
    yield postgres_server.url(name)
    async with _admin(postgres_server) as admin:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def postgres_store(database_url: str) -> AsyncIterator[PostgresStore]:
    """A store on a database that only this test uses."""
    from whence.store.postgres.store import PostgresStore

    async with await PostgresStore.connect(database_url, pool_size=4) as store:
        yield store


@pytest.fixture(scope="session")
def pulsar_broker() -> Iterator[TestBroker]:
    """Return the Pulsar broker of the test run; skips where there can be none."""
    from tests.support.pulsar_broker import running_broker

    with running_broker() as broker:
        yield broker
