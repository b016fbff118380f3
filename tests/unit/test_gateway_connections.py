"""Connections of the gateway: their number, slow clients, and the rate of log lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from whence.surfaces.http.connections import (
    ConnectionLimits,
    LimitedProtocol,
    RateFilter,
    most_connections,
)

REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


async def read_whole_body(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request with 200 when its body has come."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message.get("more_body", False)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def served(limits: ConnectionLimits) -> AsyncIterator[int]:
    """Serve with limits; yield the port."""

    class Protocol(LimitedProtocol):
        pass

    Protocol.limits = limits
    config = uvicorn.Config(read_whole_body, log_config=None, lifespan="off", ws="none")
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Protocol(config, state, {}), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def exchange(port: int, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """Send parts with pauses; return all that comes back until the connection is closed, or for a second."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(pause_s)
        received = b""
        async with asyncio.timeout(5):
            while b"ok" not in received and (data := await reader.read(4096)):
                received += data
        return received
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("parts", "pause_s"),
    [
        ([b""], 0.0),
        ([REQUEST[:1]] * 3, 0.05),
        ([bytes([one]) for one in REQUEST[:30]], 0.02),
        ([REQUEST[:-1]], 0.0),
        ([REQUEST[:-2], *[b"" for _ in range(10)]], 0.05),
    ],
    ids=["nothing", "start", "slow headers", "no end of body", "slow body"],
)
async def test_a_slow_client_is_disconnected(parts: list[bytes], pause_s: float) -> None:
    """A client has a time for its headers and one for its body; sending byte by byte does not extend it."""
    async with served(ConnectionLimits(8, headers_s=0.2, body_s=0.2)) as port:
        assert await exchange(port, *parts, pause_s=pause_s) == b""


async def test_a_second_request_has_a_limit_of_its_own() -> None:
    """A connection that served a request is closed when the next one does not come to its end."""
    async with served(ConnectionLimits(8, headers_s=0.2, body_s=0.2)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.write(REQUEST[:9])
        async with asyncio.timeout(3):
            assert await reader.read() == b""
        writer.close()


async def test_a_request_in_time_is_answered() -> None:
    """The limits do not touch requests that come in time, in parts or one after the other."""
    async with served(ConnectionLimits(8, headers_s=5, body_s=5)) as port:
        assert b"200 OK" in await exchange(
            port, REQUEST[:20], REQUEST[20:-1], REQUEST[-1:], pause_s=0.02
        )


async def test_one_address_has_half_of_the_connections() -> None:
    """Connections over the limit are closed at once; a closed one makes room for another."""
    async with served(ConnectionLimits(4, headers_s=5, body_s=5)) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert await exchange(port, REQUEST) == b""
        held[0][1].close()
        await held[0][1].wait_closed()
        await asyncio.sleep(0.05)
        assert b"200 OK" in await exchange(port, REQUEST)
        held[1][1].close()


def test_the_connections_of_all_addresses_are_limited() -> None:
    """The limit in all holds beside the one for each address."""
    limits = ConnectionLimits(4)
    accepted = [limits.accepts(address) for address in ("a", "a", "a", "b", "c")]

    assert accepted == [True, True, False, True, False]
    for address in ("a", "a", "a", "c"):
        limits.closed(address)
    assert limits.accepts("d")


def test_connections_leave_files_for_the_rest() -> None:
    """There are fewer connections than files that may be open."""
    import resource

    assert 16 <= most_connections() < resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_log_lines_of_one_kind_are_limited() -> None:
    """Of one message few pass in a period; the first one after it tells how many were left out."""
    keep = RateFilter(most=2, period_s=10)

    def passes(message: str, at_s: float) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 1, message, None, None)
        record.created = 1000 + at_s
        return record.getMessage() if keep.filter(record) else None

    assert [passes("a", second) for second in range(5)] == ["a", "a", None, None, None]
    assert passes("b", 5) == "b"
    assert passes("a", 11) == "a (before, 3 similar records were left out)"
    assert passes("a", 12) == "a"
