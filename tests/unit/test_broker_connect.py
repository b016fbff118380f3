"""From an address to a transport."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from whence.broker.connect import GROUP, connect, in_process
from whence.broker.memory.transport import MemoryTransport
from whence.schema import plugins as module
from whence.schema.errors import ConfigError


async def test_each_memory_transport_has_its_own_broker() -> None:
    """Two clients of `memory://` do not share topics."""
    one, two = await connect("memory://"), await connect("memory://")
    await one.publish("private", b"x")

    assert isinstance(one, MemoryTransport)
    assert isinstance(two, MemoryTransport)
    assert (one.url, one.broker is two.broker) == ("memory://", False)


@pytest.mark.parametrize(
    "url", ["kafka://host", "http://host", "://", "memory", "", "localhost:6650"]
)
async def test_unknown_scheme_is_refused(url: str) -> None:
    """An unknown scheme is a configuration error, with the known ones as a hint."""
    with pytest.raises(ConfigError) as caught:
        await connect(url)

    assert "memory://" in caught.value.hint


async def test_credentials_are_not_repeated() -> None:
    """An error about an address does not contain its credentials."""
    for url in ("kafka://user:secret@host", "user:secret@host"):
        with pytest.raises(ConfigError) as caught:
            await connect(url)

        assert "secret" not in caught.value.message + caught.value.hint


async def test_memory_has_no_host() -> None:
    """`memory://host` suggests a broker that others can reach; it is refused."""
    with pytest.raises(ConfigError, match="memory://"):
        await connect("memory://shared")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """Install a transport of the scheme `demo`."""
    points = [EntryPoint("demo", f"{__name__}:open_demo", GROUP)]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [one for one in points if one.group == group and name in (None, one.name)]

    monkeypatch.setattr(module, "entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", lambda point: globals()[point.attr])
    return points


async def open_demo(url: str) -> MemoryTransport:
    """Open the transport of the plug-in."""
    return MemoryTransport(instance=url.partition("://")[2])


@pytest.mark.usefixtures("plugins")
async def test_a_plug_in_opens_its_scheme() -> None:
    """An entry point of the group opens addresses of the scheme it is named after."""
    transport = await connect("demo://elsewhere")

    assert isinstance(transport, MemoryTransport)
    assert transport.requester.reply_topic.endswith("elsewhere")


@pytest.mark.usefixtures("plugins")
async def test_an_unknown_scheme_lists_the_plug_ins() -> None:
    """The hint names the schemes of built-in transports and of plug-ins."""
    with pytest.raises(ConfigError) as caught:
        await connect("kafka://host")

    assert caught.value.hint == "use one of memory://, pulsar://, pulsar+ssl://, demo://"


@pytest.mark.parametrize(
    ("url", "local"), [("memory://", True), ("pulsar://h:6650", False), ("demo://x", False)]
)
def test_only_memory_is_in_process(url: str, local: bool) -> None:
    """Commands and engines decide by this whether they run the flow themselves."""
    assert in_process(url) is local


@pytest.mark.usefixtures("plugins")
def test_a_plug_in_may_be_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in's transport connects processes unless its entry point says otherwise."""
    assert in_process("demo://") is False

    monkeypatch.setattr(open_demo, "in_process", True, raising=False)

    assert in_process("demo://") is True
