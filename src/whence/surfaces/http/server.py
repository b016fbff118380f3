"""Runs the gateway over HTTP or over standard input and output, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

import msgspec

from whence.flow.hosts import LOOPBACK
from whence.flow.signals import StopSignals
from whence.schema.access import Access
from whence.schema.errors import BadInput, ConfigError, Unavailable

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from whence.surfaces.http.auth import Caller
    from whence.surfaces.http.service import Service

#: Time for open requests when the server stops, in seconds.
_DRAIN_S = 10
_PORTS = {"http": 80, "https": 443}
#: Longest line on standard input, in bytes.
_LONGEST_LINE = 2**20


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is a free port."""
    if not 0 <= port <= 65_535:
        raise ConfigError(f"port {port} is out of range", hint="use 0 to 65535; 0 is a free port")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="choose another --port (0 for a free one) or --host",
        ) from error
    # Connections inherit it. Else the body of a response waits 40 ms for the client to acknowledge the headers.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def url_of(listening: socket.socket) -> str:
    """Return the address for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{name}:{port}"


def check_exposure(host: str, anonymous: Access, *, require_token: bool) -> None:
    """Refuse rights beyond public documents without a token on an address that others can reach."""
    if host not in LOOPBACK and anonymous != Access.public() and not require_token:
        raise ConfigError(
            f"on {host} every caller on the network would have these rights",
            hint="assign rights to tokens (--tokens), or use 127.0.0.1",
        )


def allowed_hosts(allowed: Iterable[str]) -> frozenset[str]:
    """Return the host names that requests may use: local names and those allowed."""
    return frozenset(name.lower() for name in (*allowed, *LOOPBACK, socket.gethostname()))


def read_origin(text: str) -> str:
    """Return an origin as browsers send it: scheme, host, and a port that is not the scheme's own.

    Raises:
        ConfigError: It is no exact origin.
    """
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = -1
    plain = parts.scheme in _PORTS and parts.hostname and "*" not in text and port != -1
    if not plain or parts.path not in ("", "/") or parts.query or parts.fragment or "@" in text:
        raise ConfigError(f"{text!r} is no origin", hint="use --allow-origin https://chat.example")
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    shown = "" if port in (None, _PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{name}{shown}"


async def serve_http(
    app: Starlette, listening: socket.socket, *, on_ready: Callable[[], None]
) -> bool:
    """Serve until SIGTERM or SIGINT; open requests are completed first, unless a second signal comes.

    Returns:
        Whether it was SIGINT.
    """
    import uvicorn

    from whence.surfaces.http.connections import (
        ConnectionLimits,
        LimitedProtocol,
        RateFilter,
        most_connections,
    )

    for handler in logging.getLogger().handlers:
        handler.addFilter(RateFilter())

    class Protocol(LimitedProtocol):
        limits = ConnectionLimits(most_connections())

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready()

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn's handlers end the process before the engine is closed.
            yield

    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        http=Protocol,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    server = Server(config)
    with StopSignals() as signals:
        serving = asyncio.create_task(server.serve([listening]))
        await signals.run(asyncio.shield(serving))
        server.should_exit = True
        signals.reset()
        await signals.run(asyncio.shield(serving))
        server.force_exit = True
        await serving
        return signals.interrupted


async def serve_stdio(service: Service, caller: Caller, source: BinaryIO, sink: BinaryIO) -> None:
    """Serve the Model Context Protocol, one message a line, until end of file or a signal.

    Messages are processed concurrently; each reply is one line. A request that its client takes back ends
    without one.
    """
    from whence.surfaces.mcp.offer import DocumentOffer
    from whence.surfaces.mcp.protocol import Mcp

    mcp = Mcp(DocumentOffer(service))

    async def send(document: dict[str, Any]) -> None:
        sink.write(msgspec.json.encode(document) + b"\n")
        sink.flush()

    running: dict[str | int, asyncio.Task[Any] | None] = {}

    async def answer(line: bytes) -> None:
        begun: list[str | int] = []

        def begin(message_id: str | int) -> None:
            begun.append(message_id)
            running[message_id] = asyncio.current_task()

        try:
            reply = await mcp.answer(line, caller, notify=send, begin=begin)
        finally:
            for one in begun:
                running.pop(one, None)
        taken_back = None if reply.cancels is None else running.get(reply.cancels)
        if taken_back is not None:
            taken_back.cancel()
        if reply.document is not None:
            await send(reply.document)

    async def answer_all() -> None:
        async with asyncio.TaskGroup() as answering:
            async for line in _lines(source):
                answering.create_task(answer(line))

    with StopSignals() as signals:
        await signals.run(answer_all())


async def _lines(source: BinaryIO) -> AsyncIterator[bytes]:
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    except ValueError:
        # Event loops cannot wait for plain files, which never block.
        reader.feed_data(source.read())
        reader.feed_eof()
    while True:
        try:
            line = await reader.readline()
        except ValueError as error:
            raise BadInput(f"a message has more than {_LONGEST_LINE} bytes") from error
        if not line:
            return
        if line.strip():
            yield line
