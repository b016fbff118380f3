"""From an address to a transport."""

from __future__ import annotations

import pytest

from whence.broker import connect as module
from whence.broker.connect import connect
from whence.broker.memory.transport import MemoryTransport
from whence.schema.errors import ConfigError, Unavailable


async def test_memory_gives_a_broker_of_its_own() -> None:
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
    """An address of no known scheme is a fault of configuration, with the known ones as a hint."""
    with pytest.raises(ConfigError) as caught:
        await connect(url)

    assert "memory://" in caught.value.hint


async def test_credentials_are_not_repeated() -> None:
    """An error about an address does not give away what stands in it."""
    for url in ("kafka://user:secret@host", "user:secret@host"):
        with pytest.raises(ConfigError) as caught:
            await connect(url)

        assert "secret" not in caught.value.message + caught.value.hint


async def test_memory_has_no_host() -> None:
    """`memory://host` would suggest a broker that others see; it is refused."""
    with pytest.raises(ConfigError, match="memory://"):
        await connect("memory://shared")


async def test_missing_transport_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheme whose transport is not part of this version says so."""
    monkeypatch.setitem(module.SCHEMES, "pulsar", "whence.broker.not_there")

    with pytest.raises(Unavailable) as caught:
        await connect("pulsar://localhost:6650")

    assert "memory://" in caught.value.hint
