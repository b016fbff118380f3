"""Fixtures that several folders of tests use."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from whence.store.postgres import PostgresStore
    from whence.store.server import EmbeddedServer
    from whence.testing.pulsar_broker import TestBroker

_numbers = itertools.count()

# How fast examples are made depends on what else the machine does, and says nothing about the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share something dear in one process, which makes it once.

    All that need a broker share it; those of a file of commands share what they indexed.
    """
    for item in items:
        if item.get_closest_marker("pulsar"):
            item.add_marker(pytest.mark.xdist_group("pulsar"))
        elif item.path.parent.name == "acceptance":
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@asynccontextmanager
async def _admin(server: EmbeddedServer) -> AsyncIterator[Any]:
    """Connect to the server's own database, where others are made and dropped."""
    import asyncpg

    connection = await asyncpg.connect(server.url())
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """One embedded server for the whole run, with a migrated template database."""
    from whence.store.postgres import PostgresStore
    from whence.store.server import EmbeddedServer

    server = EmbeddedServer(tmp_path_factory.mktemp("home"))

    async def begin() -> None:
        await server.start()
        async with _admin(server) as admin:
            await admin.execute("CREATE DATABASE migrated")
        await (await PostgresStore.connect(server.url("migrated"))).aclose()

    asyncio.run(begin())
    yield server
    asyncio.run(server.aclose())


@pytest.fixture
async def database_url(postgres_server: EmbeddedServer) -> AsyncIterator[str]:
    """Address of a migrated database that only this test uses."""
    name = f"test_{next(_numbers)}"
    async with _admin(postgres_server) as admin:
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE migrated")
    yield postgres_server.url(name)
    async with _admin(postgres_server) as admin:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def postgres_store(database_url: str) -> AsyncIterator[PostgresStore]:
    """A store on a database that only this test uses."""
    from whence.store.postgres import PostgresStore

    async with PostgresStore.open(database_url, pool_size=4) as store:
        yield store


@pytest.fixture(scope="session")
def pulsar_broker() -> Iterator[TestBroker]:
    """Give the Pulsar broker of the test run; skips where there can be none."""
    from whence.testing.pulsar_broker import running_broker

    with running_broker() as broker:
        yield broker
