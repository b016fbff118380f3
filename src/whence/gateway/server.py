"""Running the gateway: over HTTP until it is asked to stop, or over standard input and output."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from whence.flow.signals import StopSignals
from whence.gateway.host_check import LOOPBACK
from whence.schema.access import Access
from whence.schema.errors import BadInput, ConfigError, Unavailable

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from whence.gateway.auth import Caller
    from whence.gateway.service import Service

__all__ = (
    "check_exposure",
    "hosts_of",
    "listen",
    "serve_http",
    "serve_lines",
    "standard_streams",
    "url_of",
)

#: Time for open requests to end when the server is asked to stop, in seconds.
_DRAIN_S = 10
#: Longest line on standard input, in bytes.
_LONGEST_LINE = 2**20


def listen(host: str, port: int) -> socket.socket:
    """Give a listening socket; port 0 takes a free one.

    Raises:
        ConfigError: The port is out of range.
        Unavailable: The port is taken, or the address is not one of this machine.
    """
    if not 0 <= port <= 65_535:
        raise ConfigError(f"port {port} is out of range", hint="use 0 to 65535; 0 is any free one")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="choose another --port (0 takes a free one) or --host",
        ) from error


def url_of(listening: socket.socket) -> str:
    """Give the address that a browser on this machine opens."""
    host, port = listening.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{name}:{port}"


def check_exposure(host: str, everybody: Access, *, token_needed: bool) -> None:
    """Refuse to show more than public documents to whoever can reach a port of this machine.

    Raises:
        ConfigError: Rights for callers without a token, on an address that others can reach.
    """
    if host not in LOOPBACK and everybody != Access.public() and not token_needed:
        raise ConfigError(
            f"on {host} everybody who reaches this machine would have the rights given",
            hint="give rights to tokens (--tokens), or stay on 127.0.0.1",
        )


def hosts_of(allowed: Iterable[str]) -> frozenset[str]:
    """Give the names that requests may use: this machine's own, and those given."""
    return frozenset(name.lower() for name in (*allowed, *LOOPBACK, socket.gethostname()))


async def serve_http(
    app: Starlette, listening: socket.socket, *, on_ready: Callable[[], None]
) -> None:
    """Serve until SIGTERM or SIGINT; open requests may end first, until the second signal."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready()

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # Its own handlers end the process before the engine is closed.
            yield

    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
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


async def serve_lines(service: Service, caller: Caller, source: BinaryIO, sink: BinaryIO) -> None:
    """Speak the Model Context Protocol, one message a line, until the source ends or a signal comes.

    Messages are worked on side by side; each answer is one line.

    Raises:
        BadInput: A line is too long to be a message.
    """
    from whence.gateway.mcp import Mcp

    mcp = Mcp(service)

    async def answer(line: bytes) -> None:
        reply = await mcp.answer(line, caller)
        if reply.document is not None:
            sink.write(msgspec.json.encode(reply.document) + b"\n")
            sink.flush()

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
        # A plain file: it never blocks, and no loop can wait for one.
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


def standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Give standard input and output as bytes."""
    return sys.stdin.buffer, sys.stdout.buffer
