"""A store is chosen by the scheme of the database URL."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from whence.flow.resources import Resources
from whence.flow.settings import Settings
from whence.schema import plugins
from whence.schema.errors import ConfigError
from whence.store import open as stores
from whence.store.memory.store import MemoryStore


async def open_memory(url: str) -> MemoryStore:
    """A store that another package offers."""
    store = MemoryStore()
    store.url = url  # type: ignore[attr-defined]
    return store


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """Stores that installed packages offer."""
    points = [EntryPoint("demo", f"{__name__}:open_memory", stores.GROUP)]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [one for one in points if one.group == group and name in (None, one.name)]

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", lambda point: globals()[point.attr])
    return points


async def test_a_plug_in_opens_its_scheme(installed: list[EntryPoint]) -> None:
    """The factory of an entry point gets the whole URL."""
    store = await stores.open_store("demo://somewhere/else")

    assert isinstance(store, MemoryStore)
    assert store.url == "demo://somewhere/else"  # type: ignore[attr-defined]


async def test_a_flow_uses_a_plug_in(installed: list[EntryPoint]) -> None:
    """A setting may name the scheme of a plug-in, and the flow opens its store."""
    settings = Settings({"database_url": "demo://x"})
    async with Resources(settings) as resources:
        assert isinstance(await resources.get("store"), MemoryStore)


@pytest.mark.parametrize("url", ["oracle://me:secret@host/db", "me:secret@host", "", "://"])
async def test_an_unknown_scheme_is_refused(installed: list[EntryPoint], url: str) -> None:
    """The error names the known schemes and no password."""
    with pytest.raises(ConfigError) as raised:
        await stores.open_store(url)

    assert raised.value.hint == "known: postgresql://, postgres://, demo://"
    assert "secret" not in f"{raised.value} {raised.value.hint}"


async def test_two_packages_for_one_scheme_are_refused(installed: list[EntryPoint]) -> None:
    """Two plug-ins for one scheme are an error."""
    installed.append(EntryPoint("demo", "other:open_store", stores.GROUP))

    with pytest.raises(ConfigError, match="is offered by entry point"):
        await stores.open_store("demo://x")


async def test_a_package_that_cannot_be_loaded_is_named(
    installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import error of the package is a configuration error."""

    def load(point: EntryPoint) -> Any:
        raise ImportError("no module named demo_driver")

    monkeypatch.setattr(EntryPoint, "load", load)
    with pytest.raises(ConfigError, match="demo_driver"):
        await stores.open_store("demo://x")
